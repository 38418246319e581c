"""Fuzzed requests: that they are derived from the schema, and the rules about them and about errors in streams."""

from __future__ import annotations

from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.scenarios import fuzz
from wireproof.scenarios.catalog import load
from wireproof.verdict import Status

from .wire import broken, chunk, completion, explain, plain, stream, text, usage, verdict

AREAS = ("error",)
FAIL, PASS = Status.FAIL, Status.PASS
ERROR: dict[str, Any] = {"message": "No.", "type": "invalid_request_error", "param": None, "code": None}
ODD: tuple[Any, ...] = (None, True, 0, 1.5, "", "x", [], [1], {}, {"message": 7})
# Members of the schema that no scenario has wrong, and why.
UNFUZZED: dict[str, str] = {}


def refusal(status: int = 400, request: Any = None, scenario: str = "x", **more: Any) -> Exchange:
    return plain({"error": {**ERROR, **more}}, request=request, status=status, scenario=scenario)


# -- what is sent --------------------------------------------------------------


def _type_of(value: Any) -> str:
    names = {str: "string", list: "array", dict: "object", bool: "boolean", int: "integer", float: "number"}
    return names[type(value)]


def test_every_member_of_the_schema_has_a_wrong_value_or_a_reason() -> None:
    """Protects against members that the schema has and nobody tries."""
    wrong = {name for s in fuzz.scenarios() if s.name.endswith("-type") and s.body for name in s.body}
    assert set(fuzz.members()) - wrong - set(UNFUZZED) == set()
    assert set(fuzz.members()) >= fuzz.TELLING


@pytest.mark.parametrize("name", list(fuzz.members()))
def test_a_wrong_value_is_none_of_the_types_and_cannot_be_read_as_one(name: str) -> None:
    types = fuzz.members()[name]
    for turn in range(6):
        value = fuzz.wrong(types, turn)
        assert _type_of(value) not in types
        readable = ("string" in types and isinstance(value, (bool, int, float))) or value is None
        assert not readable, (name, value)
        if isinstance(value, str):
            assert value.lower() not in ("true", "false", "yes", "no", "on", "off") and not value.isdigit()


def test_there_are_few_and_always_the_same() -> None:
    assert 55 <= len(fuzz.names()) <= 65
    assert all(load()[n].load and not load()[n].valid for n in fuzz.names())
    contents = [s.content("m") for s in fuzz.scenarios()]
    assert contents == [s.content("m") for s in fuzz.scenarios()]
    assert len(set(contents)) == len(contents)
    limits = [s.body["max_tokens"] for s in fuzz.scenarios() if s.body]
    assert all(limit == 1 or isinstance(limit, str) for limit in limits)
    assert max(len(c) for c in contents) < 200_000


def test_what_has_killed_an_engine_is_not_sent_unasked() -> None:
    for kind in ("logit_bias-many", "allowed_token_ids-many", "stop_token_ids-many", "stop-type"):
        assert load()[f"fuzz-{kind}"].risky


# -- error.fuzz ----------------------------------------------------------------


def test_never_5xx() -> None:
    rule, name = "error.fuzz.never-5xx", "fuzz-body-array"
    assert verdict(rule, refusal(400, b"[]", name)) is PASS
    assert verdict(rule, plain(scenario=name)) is PASS
    assert broken(refusal(500, b"[]", name, type="server_error"), areas=AREAS) == {rule}


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("max_tokens", "many"),
        ("n", {}),
        ("stop", {"word": "x"}),
        ("temperature", []),
        ("seed", "lucky"),
        ("response_format", ["json"]),
        ("messages", 7),
    ],
)
def test_what_cannot_be_read_is_not_passed_over(member: str, value: Any) -> None:
    rule, name, request = "error.fuzz.not-ignored", f"fuzz-{member}-type", {member: value}
    assert broken(plain(request=request, scenario=name), areas=AREAS) == {rule}
    assert "got 200" in explain(rule, plain(request=request, scenario=name))
    assert verdict(rule, refusal(400, request, name)) is PASS
    assert verdict(rule, refusal(422, request, name)) is PASS
    for status in (401, 403, 408, 429, 503):
        assert verdict(rule, refusal(status, request, name)) is Status.INCONCLUSIVE
    assert verdict(rule, refusal(500, request, name)) is Status.NOT_APPLICABLE
    assert verdict(rule, plain({"error": ERROR}, request=request, scenario=name)) is Status.NOT_APPLICABLE


@pytest.mark.parametrize("name", fuzz.telling())
def test_nothing_else_condemns_what_was_passed_over(name: str) -> None:
    """Protects reports from saying one thing twice: tools, tool_choice and top_logprobs have rules of their own."""
    x = plain(request=load()[name].content("m"), scenario=name, tags={"valid": "no"})
    assert broken(x) - {"usage.completion.within-limit"} == {"error.fuzz.not-ignored"}  # (two tokens were said)


@pytest.mark.parametrize(
    "kind", ["user-type", "store-type", "logprobs-type", "messages-content-number", "members-null"]
)
def test_what_can_be_read_or_need_not_be_known_may_be_answered(kind: str) -> None:
    """Protects lenient servers: hints, truths, and texts that are numbers."""
    assert f"fuzz-{kind}" in fuzz.names()
    assert broken(plain(scenario=f"fuzz-{kind}"), areas=AREAS) == set()


# -- the same with and without a stream ----------------------------------------


SAME = "error.status.same-for-stream"
BROKEN, STREAMED = b'{"model": "m", "messages": [', b'{"stream": true, "model": "m", "messages": ['


def test_a_body_that_is_no_json_asks_for_a_stream_by_its_bytes() -> None:
    usual = refusal(400, BROKEN, "body-not-json")
    assert verdict(SAME, usual, refusal(400, STREAMED, "stream-not-json")) is PASS
    assert verdict(SAME, usual, refusal(422, STREAMED, "stream-not-json")) is FAIL
    assert verdict(SAME, usual, refusal(429, STREAMED, "stream-not-json")) is Status.INCONCLUSIVE
    assert verdict(SAME, usual, refusal(422, b"{" + STREAMED, "b")) is Status.INCONCLUSIVE  # another body


def test_fuzzed_bodies_are_twins_too() -> None:
    usual = refusal(400, {"n": []}, "fuzz-n-type")
    asked = {"n": [], "stream": True}
    assert verdict(SAME, usual, refusal(400, asked, "fuzz-n-type-stream")) is PASS
    assert verdict(SAME, usual, refusal(422, asked, "fuzz-n-type-stream")) is FAIL
    served = stream(*text("hi"), request=asked, scenario="fuzz-n-type-stream", tags={"valid": "no"})
    assert verdict(SAME, usual, served) is FAIL


def test_what_is_no_truth_has_no_twin() -> None:
    values: tuple[Any, ...] = ("perhaps", 7, {})
    odd = [refusal(400, {"n": [], "stream": value}, "a") for value in values]
    assert verdict(SAME, *odd, refusal(422, {"n": [], "stream": True}, "b")) is Status.INCONCLUSIVE
    options = {"n": [], "stream": True, "stream_options": "some"}  # a second defect
    assert verdict(SAME, refusal(400, {"n": []}, "a"), refusal(422, options, "b")) is Status.INCONCLUSIVE


# -- errors in a stream --------------------------------------------------------


def _failed(error: Any) -> Exchange:
    return stream(chunk({"role": "assistant", "content": ""}), chunk({"content": "He"}), {"error": error})


@pytest.mark.parametrize(
    ("error", "rules"),
    [
        (ERROR, set()),
        ({**ERROR, "code": "x", "param": "messages", "more": 1}, set()),
        ({"message": "boom"}, {"error.stream.members"}),
        ({**ERROR, "type": None}, {"error.stream.members"}),
        ({**ERROR, "param": 7}, {"error.stream.members"}),
        ({**ERROR, "code": []}, {"error.stream.members"}),
        ({**ERROR, "code": 500}, {"error.code.string-or-null"}),
        ({**ERROR, "type": "None"}, {"error.null.not-spelled"}),
        ({**ERROR, "type": "InternalServerError"}, {"error.type.vocabulary"}),
        ({"message": ""}, {"error.stream.wrapped"}),
        ("boom", {"error.stream.wrapped"}),
        (
            {"message": "boom", "type": None, "param": 7, "code": 500},
            {"error.stream.members", "error.code.string-or-null"},
        ),
    ],
)
def test_an_error_in_a_stream_is_the_same_object(error: Any, rules: set[str]) -> None:
    """Protects programs that switch on the type or code of an APIError, wherever it came from."""
    assert broken(_failed(error), areas=AREAS) == rules


@pytest.mark.parametrize("value", ODD)
def test_odd_errors_in_streams_never_raise(value: Any) -> None:
    for name in ("message", "type", "param", "code"):
        broken(_failed({**ERROR, name: value}), areas=AREAS)
    broken(_failed(value), areas=AREAS)


# -- the context ---------------------------------------------------------------


LIMIT = "error.context.within-limit"


def _models(length: Any, name: Any = "m") -> Exchange:
    entry = {"id": name, "object": "model", "created": 1, "owned_by": "x", "max_model_len": length}
    return plain({"object": "list", "data": [entry]}, b"", scenario="models", method="GET", path="/v1/models")


def _counted(prompt: Any) -> Exchange:
    return plain(completion(usage={**usage(), "prompt_tokens": prompt}), scenario="context-over")


def test_no_more_prompt_is_counted_than_the_model_has_place_for() -> None:
    assert verdict(LIMIT, _models(4096), _counted(4096)) is PASS
    assert verdict(LIMIT, _models(4096), _counted(30_000)) is FAIL
    assert verdict(LIMIT, _models(4096, "other"), _counted(30_000)) is Status.NOT_APPLICABLE
    assert verdict(LIMIT, _models(4096), refusal(400, scenario="context-over")) is Status.INCONCLUSIVE
    assert verdict(LIMIT, _models(4096), refusal(429, scenario="context-over")) is Status.INCONCLUSIVE


@pytest.mark.parametrize("value", ODD)
def test_odd_lists_are_no_limit(value: Any) -> None:
    assert verdict(LIMIT, _models(value), _counted(30_000)) in (Status.NOT_APPLICABLE, FAIL)
    broken(_models(4096, value), _counted(value), areas=AREAS)
    lists = plain({"data": value}, b"", scenario="models", method="GET", path="/v1/models")
    assert verdict(LIMIT, lists, _counted(30_000)) is Status.NOT_APPLICABLE
    asked = plain(request={"model": value}, scenario="context-over")
    broken(_models(4096), asked, areas=AREAS)


# -- param and Retry-After -----------------------------------------------------


@pytest.mark.parametrize(
    ("param", "named"),
    [
        ("top_p", True),
        ("body.top_p", True),
        ('["body", "top_p"]', True),
        ("top_p[0]", True),
        ("`top_p`", True),
        ("stop_p", False),
        ("top_p2", False),
        ("xtop_p", False),
        (None, False),
    ],
)
def test_param_names_the_member_as_a_word(param: Any, named: bool) -> None:
    x = refusal(400, {"top_p": "all"}, param=param)
    assert broken(x, areas=AREAS) == (set() if named else {"error.param.names-it"})


@pytest.mark.parametrize(
    ("after", "status"),
    [
        ("Mon, 24 Nov 2025 16:00:30 GMT", PASS),
        ("Mon, 24 Nov 2025 16:02:00 GMT", PASS),
        ("Mon, 24 Nov 2025 17:00:00 GMT", FAIL),
        ("Mon, 24 Nov 2025 15:00:00 GMT", FAIL),
        ("Mon, 24 Nov", FAIL),
        ("120", PASS),
        ("121", FAIL),
        ("0", FAIL),
        ("-5", FAIL),
    ],
)
def test_retry_after_may_be_a_date(after: str, status: Status) -> None:
    """Protects what RFC 9110 allows, and openai-python reads."""
    x = plain({"error": ERROR}, status=429, headers={"Retry-After": after})
    assert verdict("error.overload.retry-after", x) is status
    undated = plain({"error": ERROR}, status=429, headers={"Retry-After": after, "Date": None})
    lone = PASS if status is PASS or after.endswith("GMT") else FAIL
    assert verdict("error.overload.retry-after", undated) is lone
