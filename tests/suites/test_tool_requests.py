"""The rules for requests about tools that must be accepted or refused, on answers written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from wireproof.read.endpoints import exchange_of
from wireproof.read.exchange import Exchange
from wireproof.scenarios import catalog
from wireproof.verdict import Status
from wireproof.wire.transcript import Ending

from .wire import broken, chunk, completion, explain, plain, stream, usage, verdict

AREAS = ("tool",)
USUAL = "tools-auto-none-needed"
ENVELOPE = {"error": {"message": "No.", "type": "invalid_request_error", "param": "tools", "code": None}}
TOO_LONG = {"error": {"message": "This model's maximum context length is 4096 tokens.", "code": "x"}}


def request_of(name: str) -> dict[str, Any]:
    """What a scenario of ours sends."""
    return dict(catalog.load()[name].body or {})


def ok(name: str, **more: Any) -> Exchange:
    """200 and a greeting to a scenario of ours."""
    return plain(completion("hello"), {**request_of(name), **more.pop("request", {})}, scenario=name, **more)


def refused(name: str, status: int = 400, body: Any = ENVELOPE, **more: Any) -> Exchange:
    return plain(body, request_of(name), status, scenario=name, **more)


def called(name: str, scenario_name: str, *, streamed: bool = False, finish: str = "tool_calls") -> Exchange:
    """A call of this name, to a scenario of ours."""
    function = {"name": name, "arguments": '{"go": "yes"}'}
    call = {"id": "call_1", "type": "function", "function": function}
    asked = request_of(scenario_name)
    if streamed:
        parts = (chunk({"role": "assistant", "content": None}), chunk({"tool_calls": [{"index": 0, **call}]}))
        return stream(*parts, chunk({}, finish=finish), request=asked, scenario=scenario_name)
    message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}
    return plain(completion(message, finish), asked, scenario=scenario_name)


# -- accepted --------------------------------------------------------------------------------

ACCEPTED = {
    "tool.definition.accepted": (USUAL, "tool-minimal", "tool-documented"),
    "tool.strict.false-or-null-accepted": (USUAL, "tool-strict-false", "tool-strict-null"),
    "tool.definition.any-schema-accepted": (USUAL, "tool-schema-pattern", "tool-schema-bounds", "tool-schema-keywords"),
}


@pytest.mark.parametrize("rule", ACCEPTED)
def test_special_forms_are_accepted(rule: str) -> None:
    usual, *forms = ACCEPTED[rule]
    right = [ok(usual), *(ok(f) for f in forms)]
    assert verdict(rule, *right) is Status.PASS
    for n in range(len(forms)):
        wrong = [*right[: n + 1], refused(forms[n], 422), *right[n + 2 :]]
        assert verdict(rule, *wrong) is Status.FAIL
        assert broken(*wrong, areas=AREAS) == {rule}
        crashed = [*right[: n + 1], refused(forms[n], 500), *right[n + 2 :]]
        assert verdict(rule, *crashed) is Status.INCONCLUSIVE
        assert broken(*crashed, areas=AREAS) <= {"tool.choice.no-5xx"}


@pytest.mark.parametrize("rule", ACCEPTED)
def test_without_tools_no_form_is_judged(rule: str) -> None:
    usual, *forms = ACCEPTED[rule]
    none = [refused(usual, tags={"optional": "tools"}), *(refused(f) for f in forms)]
    assert verdict(rule, *none) is Status.UNSUPPORTED
    dead = [refused(usual, 500), *(refused(f, 500) for f in forms)]
    assert verdict(rule, *dead) is Status.INCONCLUSIVE


CHOICES = ("tools-auto", "tool-none", "tools-required", "tools-named")


def test_choice_accepted() -> None:
    rule = "tool.choice.accepted"
    assert verdict(rule, *(ok(n) for n in CHOICES)) is Status.PASS
    for odd in CHOICES[1:]:
        wrong = [refused(n) if n == odd else ok(n) for n in CHOICES]
        assert broken(*wrong, areas=AREAS) >= {rule}
    assert "tool_choice required" in explain(rule, *(refused(n) if n == "tools-required" else ok(n) for n in CHOICES))
    no_parser = [refused(n, tags={"optional": "tools"}) if n == "tools-auto" else ok(n) for n in CHOICES]
    assert verdict(rule, *no_parser) is Status.UNSUPPORTED
    assert verdict(rule, *(refused(n, tags={"optional": "tools"}) for n in CHOICES)) is Status.UNSUPPORTED


def test_no_5xx() -> None:
    """B2-082, B2-097, B2-160."""
    rule = "tool.choice.no-5xx"
    for name in ("tools-named", "tool-parameters-empty", "choice-legacy-named"):
        assert verdict(rule, ok(name)) is Status.PASS
        assert verdict(rule, refused(name)) is Status.PASS
        assert verdict(rule, refused(name, 501)) is Status.PASS
        assert broken(refused(name, 500), areas=AREAS) == {rule}
        assert verdict(rule, refused(name, 503)) is Status.INCONCLUSIVE
    history = [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "a", "content": "x"}]
    assert verdict(rule, plain(ENVELOPE, {"messages": history}, 500)) is Status.FAIL
    assert broken(plain(ENVELOPE, status=500), areas=AREAS) == set()


def test_no_answer_at_all_is_no_matter_of_tools() -> None:
    """B2-099: http.body.framed-exactly condemns it."""
    x = plain(b"", request_of("tool-minimal"), scenario="tool-minimal", ending=Ending.RESET)
    silent = exchange_of(replace(x.transcript, reads=()))
    assert broken(silent, areas=AREAS) == set()
    assert "http.body.framed-exactly" in broken(silent)


# -- names -------------------------------------------------------------------------------------

NAMES = {
    "tool-name-one": "t",
    "tool-name-64": "mcp__harbour_master__lookup_tide_table_of_one_port_for_one_day_2",
    "tool-name-digit": "9_Lives-",
    "tool-name-underscore": "_peek",
    "tool-name-dash": "tide-lookup",
    "tool-name-dash-stream": "tide-lookup",
}


def names(**changed: Exchange) -> list[Exchange]:
    """All the exchanges of the rule, right but for some."""
    right = {"tools_named": ok("tools-named"), "tools_auto": ok("tools-auto")}
    for name, function in NAMES.items():
        right[name.replace("-", "_")] = called(function, name, streamed=name.endswith("stream"))
    return list({**right, **changed}.values())


def test_legal_names() -> None:
    """B2-029."""
    rule = "tool.name.legal-accepted"
    assert len(NAMES["tool-name-64"]) == 64
    assert verdict(rule, *names()) is Status.PASS
    assert verdict(rule, *names(tool_name_dash=refused("tool-name-dash"))) is Status.FAIL
    assert verdict(rule, *names(tool_name_dash=called("tide_lookup", "tool-name-dash"))) is Status.FAIL
    streamed = called("tide_lookup", "tool-name-dash-stream", streamed=True)
    assert verdict(rule, *names(tool_name_dash_stream=streamed)) is Status.FAIL
    assert verdict(rule, *names(tool_name_digit=ok("tool-name-digit"))) is Status.FAIL
    # A model may answer in text where it may, and max_tokens may cut a call.
    assert verdict(rule, *names(tool_name_dash=ok("tool-name-dash"))) is Status.PASS
    cut = plain(completion("", "length"), request_of("tool-name-64"), scenario="tool-name-64")
    assert verdict(rule, *names(tool_name_64=cut)) is Status.PASS


def test_legal_names_without_a_parser_for_auto() -> None:
    refusing = {n.replace("-", "_"): refused(n) for n in ("tool-name-dash", "tool-name-dash-stream", "tools-auto")}
    assert verdict("tool.name.legal-accepted", *names(**refusing)) is Status.PASS


def test_illegal_names() -> None:
    rule = "tool.name.illegal-refused"
    for name in ("tool-name-space", "tool-name-not-ascii", "tool-name-65"):
        no = {"tags": {"valid": "no"}}
        assert broken(refused(name, 422, **no), areas=AREAS) == set()
        assert broken(ok(name, **no), areas=AREAS) == {rule}
        assert broken(refused(name, 500, **no), areas=AREAS) == {rule}
        assert verdict(rule, refused(name, 429, **no)) is Status.INCONCLUSIVE


# -- large requests ------------------------------------------------------------------------------


def step(name: str, x: Exchange) -> Exchange:
    """The exchange as a step of the conversation about large requests."""
    return exchange_of(replace(x.transcript, scenario="tool-large", step=name, id=name))


def large(*answers: Exchange) -> list[Exchange]:
    return [step(n, x) for n, x in zip(("tools-30", "tools-128", "result-6000"), answers, strict=False)]


def test_many_tools() -> None:
    rule = "tool.list.128-accepted"
    assert verdict(rule, ok(USUAL), *large(ok(USUAL), ok(USUAL))) is Status.PASS
    assert verdict(rule, ok(USUAL), *large(ok(USUAL), refused(USUAL))) is Status.FAIL
    assert verdict(rule, ok(USUAL), *large(refused(USUAL, 422), ok(USUAL))) is Status.FAIL
    assert verdict(rule, ok(USUAL), *large(ok(USUAL), refused(USUAL, body=TOO_LONG))) is Status.INCONCLUSIVE


def test_long_result() -> None:
    rule = "tool.result.long-accepted"
    short = plain(completion("x", usage=usage(60, 2)), scenario="tool-history", step="null")

    def long(tokens: Any) -> list[Exchange]:
        return large(ok(USUAL), ok(USUAL), plain(completion("x", usage=tokens)))

    assert verdict(rule, short, *long(usage(1600, 2))) is Status.PASS
    assert verdict(rule, short, *long(usage(190, 2))) is Status.FAIL
    assert verdict(rule, short, *long({})) is Status.INCONCLUSIVE
    assert verdict(rule, short, *large(ok(USUAL), ok(USUAL), refused(USUAL, 413))) is Status.FAIL
    assert verdict(rule, short, *large(ok(USUAL), ok(USUAL), refused(USUAL, body=TOO_LONG))) is Status.INCONCLUSIVE


# -- refused ---------------------------------------------------------------------------------------

REFUSED = {
    "choice-undeclared": "tool.choice.undeclared-refused",
    "choice-required-without-tools": "tool.choice.without-tools-refused",
    "choice-required-empty-tools": "tool.choice.without-tools-refused",
    "choice-unknown-word": "tool.choice.bad-refused",
    "choice-number": "tool.choice.bad-refused",
    "tools-no-name": "tool.definition.bad-refused",
    "tools-type-unknown": "tool.definition.bad-refused",
    "tools-no-array": "tool.definition.bad-refused",
    "tools-parameters-string": "tool.definition.bad-refused",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_met_is_refused(name: str) -> None:
    """B2-085, B2-088: whatever the body of the 4xx looks like, it says no."""
    rule, no = REFUSED[name], {"valid": "no"}
    for status, body in ((400, ENVELOPE), (422, {"detail": []}), (404, "gone")):
        assert broken(refused(name, status, body, tags=no), areas=AREAS) == set()
        assert verdict(rule, refused(name, status, body, tags=no)) is Status.PASS
    assert broken(ok(name, tags=no), areas=AREAS) == {rule}
    assert broken(refused(name, 500, tags=no), areas=AREAS) == {rule}
    assert verdict(rule, refused(name, 401, tags=no)) is Status.INCONCLUSIVE
    assert verdict(rule, plain(ENVELOPE, request_of(name), scenario=name, tags=no)) is Status.INCONCLUSIVE


@pytest.mark.parametrize("name", ["tools-duplicate", "tools-strict-string", "tools-empty"])
def test_what_a_server_may_take(name: str) -> None:
    """ambiguous 18: 200 and a 4xx are both right, a 5xx is not."""
    no = {"valid": "no"}
    assert broken(ok(name, tags=no), refused(name, tags=no), areas=AREAS) == set()
    wrong = "tool.list.empty-no-5xx" if name == "tools-empty" else "tool.definition.bad-refused"
    assert broken(refused(name, 500, tags=no), areas=AREAS) == {wrong}


# -- extensions ------------------------------------------------------------------------------------


def test_allowed_tools() -> None:
    rule = "tool.choice.allowed-tools"
    for name in ("choice-allowed-auto", "choice-allowed-required"):
        assert verdict(rule, called("get_time", name)) is Status.PASS
        assert verdict(rule, called("get_weather", name)) is Status.FAIL
        assert verdict(rule, called("get_weather", f"{name}-stream", streamed=True)) is Status.FAIL
        assert verdict(rule, refused(name, tags={"optional": "allowed_tools"})) is Status.UNSUPPORTED
    assert verdict(rule, ok("choice-allowed-auto")) is Status.PASS


def custom(call: Any, finish: str = "tool_calls") -> Exchange:
    message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": call}
    return plain(completion(message, finish), request_of("tool-custom"), scenario="tool-custom")


def test_custom_tools() -> None:
    rule = "tool.custom.supported-or-refused"
    right = {"id": "call_1", "type": "custom", "custom": {"name": "shout", "input": "HELLO"}}
    assert broken(custom([right]), areas=AREAS) == set()
    assert verdict(rule, custom([right])) is Status.PASS
    assert verdict(rule, ok("tool-custom")) is Status.FAIL
    assert verdict(rule, custom([{**right, "custom": {"name": "shout", "input": {"x": 1}}}])) is Status.FAIL
    assert verdict(rule, custom([{**right, "type": "function"}])) is Status.FAIL
    assert verdict(rule, custom([], "length")) is Status.INCONCLUSIVE
    assert verdict(rule, refused("tool-custom", tags={"optional": "custom tools"})) is Status.UNSUPPORTED


def legacy(function_call: Any, finish: str = "stop") -> Exchange:
    message = {"role": "assistant", "content": None, "refusal": None, "function_call": function_call}
    return plain(completion(message, finish), request_of("choice-legacy-named"), scenario="choice-legacy-named")


def test_legacy_functions() -> None:
    """B2-115."""
    rule = "tool.legacy.supported-or-refused"
    right = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    assert broken(legacy(right), legacy(right, "function_call"), areas=(*AREAS, "finish")) == set()
    assert verdict(rule, legacy(right)) is Status.PASS
    assert verdict(rule, ok("choice-legacy-named")) is Status.FAIL
    assert verdict(rule, legacy({**right, "name": "get_time"})) is Status.FAIL
    assert verdict(rule, legacy({**right, "arguments": {}})) is Status.FAIL
    assert verdict(rule, legacy(None, "length")) is Status.INCONCLUSIVE
    assert verdict(rule, refused("choice-legacy-named", tags={"optional": "functions"})) is Status.UNSUPPORTED


JUNK: list[Any] = [None, 7, -0.5, "x", True, [], {}, [7], [None], {"x": 1}, [{"function": 7}], [{"function": {}}]]


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("member", ["tools", "tool_choice", "functions", "function_call", "messages"])
def test_junk_in_requests_is_no_exception(member: str, junk: Any) -> None:
    for name in ("tools-auto", "choice-undeclared", "choice-legacy-named"):
        asked = {**request_of(name), member: junk}
        for status in (200, 400, 500):
            broken(plain(ENVELOPE if status > 200 else None, asked, status, scenario=name), areas=AREAS)


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("name", ["tool-custom", "choice-legacy-named", "choice-allowed-auto", "tool-name-dash"])
def test_junk_in_answers_is_no_exception(name: str, junk: Any) -> None:
    asked = request_of(name)
    message = {"role": "assistant", "content": junk, "tool_calls": junk, "function_call": junk}
    broken(plain(completion(message, "stop"), asked, scenario=name), areas=AREAS)
    broken(plain({**completion("x"), "choices": junk}, asked, scenario=name), areas=AREAS)
    delta = {"tool_calls": junk, "function_call": junk, "content": junk}
    broken(stream(chunk(delta), chunk({}, finish="stop"), request=asked, scenario=name), areas=AREAS)
