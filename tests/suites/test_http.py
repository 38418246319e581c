"""The http rules on transcripts written by hand: right wire passes, wrong wire fails that rule and no neighbour."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from wireproof.read.endpoints import exchange_of
from wireproof.read.exchange import Exchange
from wireproof.verdict import Status
from wireproof.wire.transcript import Ending

from .wire import broken, chunk, completion, exchange, explain, plain, stream, text, verdict

ERROR = {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}}
AREAS = ("http",)


def failing(*exchanges: Exchange) -> set[str]:
    return broken(*exchanges, areas=AREAS)


def refusal(status: int, scenario: str = "plain-greedy", **more: Any) -> Exchange:
    return plain(ERROR, status=status, scenario=scenario, **more)


def test_right_wire_breaks_nothing() -> None:
    assert failing(plain()) == set()
    assert failing(stream(*text("hel", "lo"))) == set()
    assert failing(refusal(404)) == set()


# -- bodies ----------------------------------------------------------------------


@pytest.mark.parametrize("media", ["text/plain", "text/html", None, "application/problem+json", ""])
def test_plain_json_media_type_fails(media: str | None) -> None:
    x = plain(headers={"Content-Type": media})
    assert failing(x) == {"http.plain.json-media-type"}


@pytest.mark.parametrize("media", ["application/json", "application/json; charset=utf-8", "Application/JSON;x=y"])
def test_plain_json_media_type_passes(media: str) -> None:
    assert verdict("http.plain.json-media-type", plain(headers={"Content-Type": media})) is Status.PASS


def test_plain_json_media_type_judges_the_status() -> None:
    assert failing(plain(status=201)) == {"http.plain.json-media-type"}
    assert verdict("http.plain.json-media-type", refusal(400)) is Status.INCONCLUSIVE
    assert verdict("http.plain.json-media-type", refusal(400, tags={"optional": "n > 1"})) is Status.UNSUPPORTED


def test_a_stream_for_a_plain_request() -> None:
    """B1-004: the answer follows the upstream's format and not the caller's."""
    x = stream(*text("hi"), request={"stream": False})
    assert "http.plain.json-media-type" in failing(x)
    # "true" as a string is no false: what answers such a request is not judged.
    x = stream(*text("hi"), request={"stream": "true"})
    assert verdict("http.plain.json-media-type", x) is Status.NOT_APPLICABLE


def test_json_utf8_no_bom() -> None:
    body = json.dumps(completion("ž 漢 🔥"), ensure_ascii=False).encode()
    assert failing(plain(body)) == set()
    assert failing(plain(b"\xef\xbb\xbf" + body)) == {"http.json.utf8-no-bom"}
    assert failing(plain(body.replace("ž".encode(), b"\x9e"))) == {"http.json.utf8-no-bom"}
    assert failing(plain(body.replace("🔥".encode(), b"\xed\xa0\xbd\xed\xb4\xa5"))) == {"http.json.utf8-no-bom"}


def test_json_well_formed() -> None:
    """B1-200: a key without its first quote; and the same in an error."""
    body = json.dumps(completion()).encode()
    assert failing(plain(body.replace(b'"model"', b'model"'))) == {"http.json.well-formed"}
    assert failing(plain(body + b"{}")) == {"http.json.well-formed"}
    assert failing(plain(b"oops", status=500)) == {"http.json.well-formed"}
    assert failing(plain(b"", status=500)) == set()
    assert failing(plain(b"<html>", status=502, headers={"Content-Type": "text/html"})) == set()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_json_no_nan(number: float) -> None:
    assert failing(plain(completion(extra=number))) == {"http.json.no-nan"}
    assert failing(stream(*text("hi"), chunk({}, extra=[number]))) == {"http.json.no-nan"}
    assert failing(plain(completion("NaN and -Infinity as words"))) == set()
    assert failing(plain(completion(extra=-9999.0))) == set()


def test_json_unique_names() -> None:
    body = json.dumps(completion()).encode().replace(b'"model":', b'"model":"x","model":')
    assert failing(plain(body)) == {"http.json.unique-names"}
    event = b'data: {"choices":[{"index":0,"index":0,"delta":{}}]}\n\n'
    assert failing(stream(*text("hi"), event)) == {"http.json.unique-names"}
    assert "'model' twice" in explain("http.json.unique-names", plain(body))


# -- framing ---------------------------------------------------------------------

BODY = json.dumps(completion()).encode()


def framed(pieces: list[bytes], ending: Ending = Ending.COMPLETE, **headers: str | None) -> Exchange:
    named = {k.replace("_", "-"): v for k, v in headers.items()}
    given = {"Content-Type": "application/json", "X-Request-Id": "r", **named}
    return exchange(pieces, headers=given, scenario="plain-greedy", ending=ending)


CHUNKED = b"%x\r\n%s\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize(
    "x",
    [
        framed([BODY], Content_Length=str(len(BODY))),
        framed([CHUNKED, b"0\r\n\r\n"], Transfer_Encoding="chunked"),
        framed([CHUNKED, b"0;x\r\nA: b\r\n\r\n"], Transfer_Encoding="chunked"),
        framed([BODY], Ending.CLOSED),
        framed([BODY[:40]], Ending.CLIENT_LEFT, Content_Length=str(len(BODY))),
        framed([CHUNKED[:40]], Ending.BYTE_LIMIT, Transfer_Encoding="chunked"),
    ],
)
def test_body_framed_exactly_passes(x: Exchange) -> None:
    assert verdict("http.body.framed-exactly", x) is Status.PASS
    assert failing(x) == set()


@pytest.mark.parametrize(
    "x",
    [
        framed([BODY[:-5]], Ending.CLOSED, Content_Length=str(len(BODY))),
        framed([BODY], Content_Length=str(len(BODY) - 1)),
        framed([BODY], Content_Length="many"),
        framed([CHUNKED], Ending.CLOSED, Transfer_Encoding="chunked"),
        framed([CHUNKED[:50]], Ending.RESET, Transfer_Encoding="chunked"),
        framed([CHUNKED, b"0\r\n\r\n"], Transfer_Encoding="chunked", Content_Length="12"),
        framed([BODY], Ending.RESET),
        framed([BODY], Ending.IDLE_TIMEOUT),
        framed([BODY], Content_Length=str(len(BODY)), Content_Encoding="gzip", Accept_Ranges="none"),
    ],
)
def test_body_framed_exactly_fails(x: Exchange) -> None:
    found = failing(x) - {"http.encoding.identity-respected"}
    assert found == {"http.body.framed-exactly"}


def test_a_connection_without_an_answer_is_not_framed() -> None:
    gone = plain().transcript
    for ending in (Ending.CLOSED, Ending.RESET):
        x = exchange_of(type(gone)(id="t", scenario="plain-greedy", request=gone.request, reads=(), ending=ending))
        assert failing(x) == {"http.body.framed-exactly"}


def test_encoding_identity_respected() -> None:
    rule = "http.encoding.identity-respected"
    packed = plain(gzip.compress(BODY), headers={"Content-Encoding": "gzip"})
    assert failing(packed) == {rule}
    assert failing(
        plain(gzip.compress(BODY), headers={"Content-Encoding": "gzip"}, sent={"Accept-Encoding": "identity"})
    )
    for accepted in ("gzip, br", "deflate;q=0.5, gzip;q=0.1", "*"):
        x = plain(gzip.compress(BODY), headers={"Content-Encoding": "gzip"}, sent={"Accept-Encoding": accepted})
        assert failing(x) == set()
    x = plain(gzip.compress(BODY), headers={"Content-Encoding": "gzip"}, sent={"Accept-Encoding": "br, gzip;q=0"})
    assert failing(x) == {rule}
    assert verdict(rule, plain(headers={"Content-Encoding": "identity"})) is Status.PASS


# -- requests --------------------------------------------------------------------


def test_stream_honoured() -> None:
    rule = "http.stream.honoured"
    assert verdict(rule, stream(*text("hi"))) is Status.PASS
    assert failing(plain(request={"stream": True}, scenario="stream-greedy")) == {rule}
    assert verdict(rule, refusal(400, request={"stream": True})) is Status.INCONCLUSIVE
    # An error with status 200 belongs to sse.error.before-stream-is-4xx.
    assert verdict(rule, plain(ERROR, request={"stream": True})) is Status.INCONCLUSIVE


def test_accept_json_still_streams() -> None:
    rule, sent = "http.accept.json-still-streams", {"Accept": "application/json"}
    assert verdict(rule, stream(*text("hi"), sent=sent)) is Status.PASS
    assert failing(plain(request={"stream": True}, sent=sent)) == {rule}
    assert failing(refusal(406, request={"stream": True}, sent=sent)) == {rule}
    both = {"Accept": "application/json, text/event-stream"}
    assert verdict(rule, stream(*text("hi"), sent=both)) is Status.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("rule", "scenario", "status"),
    [
        ("http.headers.unknown-ignored", "plain-sdk-headers", 400),
        ("http.content-type.parameters-accepted", "plain-content-type-charset", 415),
    ],
)
def test_dressed_requests(rule: str, scenario: str, status: int) -> None:
    assert verdict(rule, plain(), plain(scenario=scenario)) is Status.PASS
    assert failing(plain(), refusal(status, scenario)) - {"http.request-id.unique"} == {rule}
    assert verdict(rule, plain(), refusal(429, scenario)) is Status.INCONCLUSIVE
    assert verdict(rule, refusal(500), refusal(status, scenario)) is Status.INCONCLUSIVE


def test_body_unicode_equal() -> None:
    rule = "http.body.unicode-equal"

    def counted(n: int | None, said: str = "hi") -> dict[str, Any]:
        return completion(said, usage=None if n is None else {"prompt_tokens": n})

    def status(raw: Any, escaped: Any, code: int = 200) -> Status:
        one = plain(raw, scenario="plain-unicode-raw")
        return verdict(rule, one, plain(escaped, status=code, scenario="plain-unicode-escaped"))

    assert status(counted(9), counted(9)) is Status.PASS
    assert status(counted(9, "a"), counted(9, "b")) is Status.PASS
    assert status(counted(9), counted(14)) is Status.FAIL
    assert status(counted(9), ERROR, 400) is Status.FAIL
    assert status(counted(None), counted(None)) is Status.PASS
    assert status(counted(None, "a"), counted(None, "b")) is Status.INCONCLUSIVE


def other(status: int, body: Any = ERROR, method: str = "GET", **headers: str | None) -> Exchange:
    return plain(body, status=status, scenario="method-get-chat", method=method, headers=headers, tags={"valid": "no"})


def test_methods() -> None:
    refused, allow = "http.method.unsupported-refused", "http.method.allow-named"
    assert failing(other(405, Allow="POST")) == set()
    assert failing(other(404)) == set()
    assert failing(other(405)) == {allow}
    assert failing(other(200, {"status": "ok"})) == {refused}
    assert failing(other(200, {"object": "list", "data": []})) == set()
    assert failing(other(200, {"object": "list", "data": []}, "DELETE")) == {refused}
    assert failing(other(500)) == {refused}
    assert verdict(refused, other(401)) is Status.INCONCLUSIVE
    assert verdict(refused, plain()) is Status.NOT_APPLICABLE


def test_body_too_large_refused() -> None:
    rule = "http.body.too-large-refused"
    for status, expected in ((413, Status.PASS), (400, Status.PASS), (500, Status.FAIL), (404, Status.FAIL)):
        assert verdict(rule, refusal(status, "body-too-large")) is expected
    assert verdict(rule, plain(scenario="body-too-large")) is Status.PASS
    gone = plain(scenario="body-too-large").transcript
    x = exchange_of(type(gone)(id="t", scenario="body-too-large", request=gone.request, reads=(), ending=Ending.RESET))
    assert verdict(rule, x) is Status.FAIL


# -- ids and connections -----------------------------------------------------------


def test_request_id_present() -> None:
    for x in (plain(headers={"X-Request-Id": None}), stream(headers={"X-Request-Id": " "})):
        assert failing(x) == {"http.request-id.present"}


def test_request_id_propagated() -> None:
    rule, sent = "http.request-id.propagated", {"X-Request-Id": "mine-1"}
    assert verdict(rule, plain(sent=sent, headers={"X-Request-Id": "mine-1"})) is Status.PASS
    assert verdict(rule, plain(sent=sent, headers={"X-Client-Request-Id": "mine-1"})) is Status.PASS
    assert verdict(rule, plain(completion(id="chatcmpl-mine-1"), sent=sent)) is Status.PASS
    assert failing(plain(sent=sent)) == {rule}
    assert failing(plain(sent=sent, headers={"X-Request-Id": None})) == {"http.request-id.present"}
    assert verdict(rule, plain()) is Status.NOT_APPLICABLE


def test_request_id_unique() -> None:
    rule = "http.request-id.unique"
    assert verdict(rule, plain(headers={"X-Request-Id": "a"}), stream(headers={"X-Request-Id": "b"})) is Status.PASS
    assert failing(plain(), stream(*text("hi"))) == {rule}
    assert verdict(rule, plain(sent={"X-Request-Id": "req_7f3a"}), stream()) is Status.INCONCLUSIVE


def steps(*connections: int, **headers: str | None) -> list[Exchange]:
    """The three steps of connection-reuse on these connections; the headers are the stream's."""
    made = []
    for step, number in zip(("plain", "stream", "after-stream"), connections, strict=True):
        build: Any = stream if step == "stream" else plain
        named = {k.replace("_", "-"): v for k, v in headers.items()} if step == "stream" else {}
        named = {"X-Request-Id": step, **named}
        given = [*text("hi")] if step == "stream" else []
        t = build(*given, headers=named, scenario="connection-reuse", step=step).transcript
        values = {name: getattr(t, name) for name in t.__dataclass_fields__}
        made.append(exchange_of(type(t)(**{**values, "connection": number})))
    return made


def test_connection_reusable() -> None:
    rule = "http.connection.reusable"
    assert verdict(rule, *steps(1, 1, 1)) is Status.PASS
    assert failing(*steps(1, 1, 2)) == {rule}
    assert failing(*steps(1, 1, 1, Connection="close")) == {rule}
    closing = steps(1, 1, 2, Transfer_Encoding=None, Content_Length="9999")
    assert failing(*closing) == {"http.body.framed-exactly"}
    assert verdict(rule, *steps(1, 1, 1)[:2]) is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    "odd", [None, True, 7, "x", [], [[]], {}, {"choices": {"a": 1}}, {"error": "text"}, {"id": []}]
)
def test_no_check_crashes_on_any_shape(odd: Any) -> None:
    data = json.dumps(odd)
    for x in (plain(data.encode()), plain(data.encode(), status=400), plain(data.encode(), request={"stream": True})):
        failing(x)
    for asked in (
        odd,
        {"stream": odd},
        {"response_format": odd},
        {"response_format": {"type": "json_schema", "json_schema": odd}},
    ):
        failing(plain(request=json.dumps(asked).encode()), stream(data, request=json.dumps(asked).encode()))
