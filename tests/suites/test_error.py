"""Rules about errors: their shape, their status, errors in streams, and servers that go on."""

from __future__ import annotations

from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.verdict import Status
from wireproof.wire.transcript import Ending

from .wire import broken, chunk, completion, explain, plain, stream, text, verdict

AREAS = ("error",)
FAIL, PASS = Status.FAIL, Status.PASS
ERROR: dict[str, Any] = {"message": "No.", "type": "invalid_request_error", "param": None, "code": None}
ODD: tuple[Any, ...] = (None, True, 0, 1.5, "", "x", [], [1], {}, {"message": 7})


def refusal(status: int = 400, request: Any = None, **more: Any) -> Exchange:
    """A refusal whose error has other members; `request` changes the request."""
    kwargs = {k: more.pop(k) for k in ("headers", "scenario", "tags", "path", "method", "step") if k in more}
    return plain({"error": {**ERROR, **more}}, request=request, status=status, **kwargs)


def test_a_right_error_breaks_nothing() -> None:
    assert broken(refusal(), areas=AREAS) == set()


@pytest.mark.parametrize(
    "body", [{"object": "error", **ERROR}, {"detail": "Not Found"}, {"error": "No."}, {"error": None}, [], "no"]
)
def test_details_lie_in_an_object_under_error(body: Any) -> None:
    """Protects clients that read body["error"]["message"]."""
    data = body if not isinstance(body, str) else b'"no"'
    assert broken(plain(data, status=400), areas=AREAS) == {"error.envelope.object"}


def test_an_error_without_a_body_or_in_html_is_caught_once() -> None:
    assert broken(plain(b"", status=400, headers={"Content-Type": None}), areas=AREAS) == {"error.media.json"}
    page = plain(b"<html>", status=404, headers={"Content-Type": "text/html"})
    assert broken(page, areas=AREAS) == {"error.media.json"}
    assert verdict("error.envelope.object", plain(b"", status=400)) is FAIL


def test_head_and_options_have_no_error_body() -> None:
    """Protects 405 for HEAD and a refused preflight from being called errors without a body."""
    for method in ("HEAD", "OPTIONS"):
        x = plain(b"", status=405, headers={"Content-Type": None}, method=method, path="/v1/models")
        assert broken(x, areas=AREAS) == set()


@pytest.mark.parametrize(
    "members", [{"message": ""}, {"message": None}, {"type": None}, {"param": {"k": 1}}, {"code": {"c": 1}}]
)
def test_members_have_their_types(members: dict[str, Any]) -> None:
    assert broken(refusal(**members), areas=AREAS) == {"error.envelope.members"}


def test_all_four_members_are_there() -> None:
    x = plain({"error": {"message": "No.", "type": "invalid_request_error", "code": None}}, status=400)
    assert broken(x, areas=AREAS) == {"error.envelope.members"}
    assert "no param" in explain("error.envelope.members", x)


def test_a_number_as_code_is_a_warning_and_more_members_are_none() -> None:
    assert broken(refusal(code=400), areas=AREAS) == {"error.code.string-or-null"}
    assert broken(refusal(n_ctx=2048, innererror={}), areas=AREAS) == set()


def test_none_as_a_word_is_caught_once() -> None:
    assert broken(refusal(type="None", param="None"), areas=AREAS) == {"error.null.not-spelled"}


def test_types_are_openais_words() -> None:
    assert broken(refusal(type="BadRequestError"), areas=AREAS) == {"error.type.vocabulary"}
    assert broken(refusal(type="not_found_error"), areas=AREAS) == set()


@pytest.mark.parametrize(
    "message",
    [
        'Traceback (most recent call last):\n  File "/srv/x.py", line 3, in f',
        "error in /opt/server/handler",
        "x.cc:637: Unsupported type",
        "'str' object has no attribute 'get'",
        "litellm.BadRequestError: no",
    ],
)
def test_internals_stay_inside(message: str) -> None:
    assert broken(refusal(message=message), areas=AREAS) == {"error.message.no-internals"}


@pytest.mark.parametrize("message", ["Use /v1/models.", "line 1 column 29 (char 28)", "Expecting value: line 1", "a.b"])
def test_ordinary_messages_are_no_internals(message: str) -> None:
    assert broken(refusal(message=message), areas=AREAS) == set()


def test_an_error_does_not_send_the_request_back() -> None:
    assert broken(refusal(message="x" * 5000), areas=AREAS) == {"error.message.bounded"}


def test_param_names_the_member() -> None:
    hot = {"temperature": "hot"}
    assert broken(refusal(request=hot, param="body.temperature"), areas=AREAS) == set()
    assert broken(refusal(request=hot), areas=AREAS) == {"error.param.names-it"}
    assert broken(refusal(request=hot, param=7), areas=AREAS) == {"error.envelope.members"}


BROKEN = b'{"model": "m", "messages": ['


def _bodies() -> list[tuple[str, Any, str]]:
    return [
        ("error.json.broken-is-400", BROKEN, ""),
        ("error.json.broken-is-400", b"\xff", ""),
        ("error.messages.bad-is-400", {"messages": []}, "messages"),
        ("error.messages.bad-is-400", {"messages": 7}, "messages"),
        ("error.messages.bad-is-400", {"messages": [{"content": "x"}]}, "messages"),
        ("error.parameter.bad-is-400", {"temperature": "hot"}, "temperature"),
        ("error.parameter.bad-is-400", {"max_tokens": 1.5}, "max_tokens"),
        ("error.parameter.bad-is-400", {"logit_bias": {"5": "much"}}, "logit_bias"),
    ]


@pytest.mark.parametrize(("rule", "request_", "param"), _bodies())
def test_wrong_bodies_are_refused(rule: str, request_: Any, param: str) -> None:
    """Protects clients from answers to nothing, and from retries of what can never succeed."""
    named = {"param": param or None}
    assert broken(refusal(400, request_, **named), areas=AREAS) == set()
    assert broken(refusal(422, request_, **named), areas=AREAS) == {"error.invalid.exactly-400"}
    assert broken(refusal(500, request_, type="server_error", **named), areas=AREAS) == {rule}
    assert broken(plain(request=request_), areas=AREAS) == {rule}
    for status in (401, 429):
        assert verdict(rule, refusal(status, request_)) is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    "members", [{"temperature": "0.7"}, {"temperature": 3}, {"max_tokens": "5"}, {"stream": "no"}, {"top_p": None}]
)
def test_what_a_lenient_server_can_read_is_no_defect(members: dict[str, Any]) -> None:
    assert broken(plain(request=members), areas=AREAS) == set()


def test_a_missing_model_may_be_defaulted() -> None:
    rule, request = "error.model.missing", {"model": None}
    assert verdict(rule, plain(request=request)) is PASS
    assert verdict(rule, refusal(400, request)) is PASS
    assert verdict(rule, refusal(500, request)) is FAIL


NOPE = {"model": "no-such-model"}


def test_an_unknown_model_is_a_404() -> None:
    right = refusal(404, NOPE, code="model_not_found", param="model")
    assert broken(right, areas=AREAS) == set()
    assert broken(refusal(404, NOPE, code=404), areas=AREAS) == {"error.code.string-or-null"}
    assert broken(refusal(404, NOPE), areas=AREAS) == {"error.model.code"}
    assert broken(refusal(400, NOPE, param="model"), areas=AREAS) == {"error.model.unknown-exactly-404"}
    assert broken(refusal(500, NOPE), areas=AREAS) == {"error.model.unknown-is-404"}


def test_another_model_may_answer_but_says_so() -> None:
    assert broken(plain(request=NOPE), areas=AREAS) == {"error.model.unknown-exactly-404"}
    echoed = plain(completion(model="no-such-model"), request=NOPE)
    assert broken(echoed, areas=AREAS) == {"error.model.unknown-exactly-404", "error.model.not-echoed"}


def test_an_error_with_status_200_is_caught_once() -> None:
    for body in ({"error": ERROR}, {"object": "error", **ERROR}):
        request: dict[str, Any]
        for request in ({}, NOPE, {"messages": []}):
            assert broken(plain(body, request=request), areas=AREAS) == {"error.plain.never-200"}
    assert broken(plain(completion(error=None)), areas=AREAS) == set()


def test_5xx_without_a_visible_defect() -> None:
    """Protects offline recordings of engines that died: nothing else would fail there."""
    assert broken(refusal(500, scenario="random/plain.txt"), areas=AREAS) == {"error.valid.no-5xx"}
    assert broken(refusal(501, scenario="random/plain.txt"), areas=AREAS) == set()
    assert broken(refusal(500, b"[]", scenario="random/list.txt"), areas=AREAS) == {"error.client-fault.never-5xx"}
    lost = refusal(500, scenario="error-then-valid", step="lost-path", path="/v1/lost")
    assert verdict("error.client-fault.never-5xx", lost) is FAIL


def test_status_is_the_same_for_a_stream() -> None:
    rule = "error.status.same-for-stream"
    a = refusal(400, {"temperature": "hot"}, scenario="parameter-word")
    request = {"temperature": "hot", "stream": True, "stream_options": {"include_usage": True}}
    assert verdict(rule, a, refusal(400, request, scenario="b")) is PASS
    assert verdict(rule, a, refusal(422, request, scenario="b")) is FAIL
    served = stream(*text("hi"), request=request, scenario="b", tags={"valid": "no"})
    assert verdict(rule, a, served) is FAIL
    assert verdict(rule, a, refusal(500, request, scenario="b")) is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("event", "status"),
    [
        ({"error": ERROR}, PASS),
        ({"error": {**ERROR, "message": "boom"}}, PASS),
        ({"object": "error", **ERROR}, FAIL),
        ({"error": "boom"}, FAIL),
        ({"error": {"message": ""}}, FAIL),
        ({"detail": "boom"}, FAIL),
        (b'event: error\ndata: {"message": "boom"}\n\n', FAIL),
    ],
)
def test_an_error_in_a_stream_is_wrapped(event: Any, status: Status) -> None:
    x = stream(chunk({"role": "assistant", "content": ""}), chunk({"content": "He"}), event)
    assert verdict("error.stream.wrapped", x) is status
    assert broken(x, areas=AREAS) == ({"error.stream.wrapped"} if status is FAIL else set())


def test_a_prompt_that_is_too_long() -> None:
    rule, name = "error.context.over-is-400", "context-over"
    long = {"message": "This model's maximum context length is 4096 tokens.", "param": "messages"}
    right = refusal(400, code="context_length_exceeded", scenario=name, **long)
    assert broken(right, areas=AREAS) == set()
    assert broken(refusal(400, scenario=name, **long), areas=AREAS) == {"error.context.code"}
    assert verdict("error.context.code", refusal(413, scenario=name, **long)) is Status.NOT_APPLICABLE
    assert verdict(rule, refusal(500, scenario=name)) is FAIL
    assert verdict(rule, plain(scenario=name)) is FAIL  # 7 prompt tokens: it was cut
    counts = {"prompt_tokens": 200_000, "completion_tokens": 4, "total_tokens": 200_004}
    assert verdict(rule, plain(completion(usage=counts), scenario=name)) is Status.NOT_APPLICABLE


def test_content_type_and_path() -> None:
    assert verdict("error.content-type.wrong", refusal(415, scenario="content-type-text")) is PASS
    assert verdict("error.content-type.wrong", plain(scenario="content-type-text")) is FAIL
    assert verdict("error.path.unknown-is-404", refusal(404, scenario="path-unknown")) is PASS
    assert verdict("error.path.unknown-is-404", plain({}, scenario="path-unknown")) is FAIL
    assert verdict("error.path.unknown-is-404", refusal(401, scenario="path-unknown")) is Status.INCONCLUSIVE


def test_features_are_refused_or_there() -> None:
    rule = "error.feature.unsupported-refused"
    refused_audio, refused_image = refusal(scenario="feature-audio"), refusal(scenario="feature-image")
    bare = plain(scenario="feature-no-image")
    assert verdict(rule, refused_audio, refused_image, bare) is PASS
    assert verdict(rule, plain(scenario="feature-audio"), refused_image, bare) is FAIL
    assert verdict(rule, refused_audio, plain(scenario="feature-image"), bare) is FAIL  # as many tokens as without
    seen = completion(usage={"prompt_tokens": 300, "completion_tokens": 2, "total_tokens": 302})
    assert verdict(rule, refused_audio, plain(seen, scenario="feature-image"), bare) is PASS


def test_a_good_request_after_a_bad_one() -> None:
    rule, name = "error.server.survives", "error-then-valid"
    first, after = plain(scenario=name, step="valid"), plain(scenario=name, step="after-broken-json")
    assert verdict(rule, first, after) is PASS
    assert verdict(rule, first, refusal(400, scenario=name, step="after-broken-json")) is FAIL
    assert verdict(rule, first, refusal(429, scenario=name, step="after-broken-json")) is Status.INCONCLUSIVE


def test_overload() -> None:
    soon = refusal(429, headers={"Retry-After": "2"}, type="rate_limit_error")
    assert broken(soon, areas=AREAS) == set()
    for headers in ({}, {"Retry-After": "3600"}, {"Retry-After": "soon"}, {"Retry-After": "\u0662"}):
        latin = {k: v.encode("utf-8").decode("latin-1") for k, v in headers.items()}
        assert verdict("error.overload.retry-after", refusal(503, headers=latin)) is FAIL
    assert verdict("error.overload.retry-after", refusal(429, headers={"retry-after-ms": "500"})) is PASS
    name = "overload-flood"
    fine = plain(scenario=name, step="request-00")
    assert verdict("error.overload.429-or-503", fine, refusal(429, scenario=name, step="request-01")) is PASS
    assert verdict("error.overload.429-or-503", fine, refusal(500, scenario=name, step="request-01")) is FAIL


@pytest.mark.parametrize("value", ODD)
def test_odd_json_never_makes_a_check_raise(value: Any) -> None:
    for name in ("model", "messages", "temperature", "max_tokens", "logit_bias", "stream", "seed"):
        for status in (200, 400):
            broken(plain({"error": value}, request={name: value}, status=status))
    for status in (200, 404):
        broken(plain({"error": {"message": value, "type": value, "param": value, "code": value}}, status=status))
    broken(stream(chunk({"role": "assistant"}), {"error": value}, {"error": {"message": value}}))


def test_no_answer_at_all() -> None:
    lost = plain(b"", scenario="fuzz-body-array", ending=Ending.RESET)
    assert verdict("error.fuzz.never-5xx", lost) is PASS  # a head came
