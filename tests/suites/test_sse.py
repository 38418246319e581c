"""The sse rules on transcripts written by hand: right wire passes, wrong wire fails that rule and no neighbour."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from wireproof.read.endpoints import exchange_of
from wireproof.read.exchange import Exchange
from wireproof.verdict import Status
from wireproof.wire.transcript import Ending, Tags

from .wire import broken, chunk, completion, event, explain, plain, stream, text, verdict

HELLO = text("hel", "lo")
EVENTS = [event(d) for d in HELLO] + [event("[DONE]")]
BODY = b"".join(EVENTS)
ERROR = {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}}


def failing(*exchanges: Exchange) -> set[str]:
    return broken(*exchanges, areas=("sse",))


def between(data: bytes, *, at: int = 2, **more: Any) -> Exchange:
    """The right stream with some bytes between two of its events."""
    return stream(raw=b"".join([*EVENTS[:at], data, *EVENTS[at:]]), **more)


def indented(prefix: bytes) -> bytes:
    return prefix.join(json.dumps(HELLO[1], indent=1).encode().splitlines(keepends=True)) + b"\n\n"


def crlf(ending: bytes) -> bytes:
    return BODY.replace(b"\n", ending)


# -- lines and events ----------------------------------------------------------------

RIGHT = {
    "as it is": stream(*HELLO),
    "CRLF": stream(raw=crlf(b"\r\n")),
    "comments": between(b": ping\n\n:\n\n: data: {}\n"),
    "comment first": between(b": hello\n\n", at=0),
    "comment last": stream(raw=BODY + b": bye\n\n"),
    "blank lines": between(b"\n\n"),
    "blank lines first": between(b"\n", at=0),
    "empty choices": stream(HELLO[0], chunk({}) | {"choices": []}, *HELLO[1:]),
    "an error event": stream(*HELLO[:2], ERROR, done=False),
    "emoji": stream(*text("ž 漢 🔥 \u2028 \x85 \ufeff")),
    "escapes": stream(HELLO[0], b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d\\udd25"}}]}\n\n'),
    "a replacement character of the model's": stream(*text("a \ufffd b")),
    "no done": stream(*HELLO, done=False),
    "[done]": stream(*HELLO, "[done]", done=False),
    "done as JSON": stream(*HELLO, '"[DONE]"', '{"done": true}', done=False),
    "bare [DONE]": stream(*HELLO, b"[DONE]\n\n", done=False),
    "we left": between(b'data: {"choi', at=4, ending=Ending.CLIENT_LEFT),
    "empty": stream(raw=b""),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_streams_break_nothing(name: str) -> None:
    assert failing(RIGHT[name]) == set()


WRONG: dict[str, tuple[set[str], Exchange]] = {
    "single newlines": ({"sse.event.terminated"}, stream(raw=BODY.replace(b"\n\n", b"\n"))),
    "single newlines, a blank line at the end": (
        {"sse.event.terminated"},
        stream(raw=BODY.replace(b"\n\n", b"\n") + b"\n"),
    ),
    "last event open": ({"sse.event.terminated"}, stream(raw=BODY[:-1])),
    "last event without line end": ({"sse.event.terminated"}, stream(raw=BODY[:-2])),
    "two data lines with a JSON text each": (
        {"sse.event.one-json"},
        stream(raw=b"".join([EVENTS[0], EVENTS[1][:-1], *EVENTS[2:]])),
    ),
    "two texts in one line": (
        {"sse.event.one-json"},
        stream(raw=b"".join([EVENTS[0], EVENTS[1].rstrip() + EVENTS[2][6:], *EVENTS[3:]])),
    ),
    "B1-009 comment as data": ({"sse.event.one-json"}, between(b"data: : UPSTREAM PROCESSING\n\n")),
    "a word": ({"sse.event.one-json"}, between(b"data: ping\n\n")),
    "an array": ({"sse.event.one-json"}, between(b"data: []\n\n")),
    "cut JSON": ({"sse.event.one-json"}, between(EVENTS[1][:60] + b"\n\n")),
    "raw line breaks": ({"sse.line.known-field"}, between(b"data: " + indented(b""))),
    "no data prefix": ({"sse.line.known-field"}, between(EVENTS[1][6:])),
    "a space before": ({"sse.line.known-field"}, between(b" " + EVENTS[1])),
    "a field without a colon": ({"sse.line.known-field"}, between(b"note\n" + EVENTS[1])),
    "a field in the wrong case": ({"sse.line.known-field"}, between(b"Data: hello\n" + EVENTS[1])),
    "pretty data lines": ({"sse.line.canonical"}, between(b"data: " + indented(b"data: "))),
    "B1-195 no space": ({"sse.line.canonical"}, between(b"data:" + EVENTS[1][6:])),
    "two spaces": ({"sse.line.canonical"}, between(b"data:  " + EVENTS[1][6:])),
    "bare CR": ({"sse.line.lf"}, stream(raw=crlf(b"\r"))),
    "event without data": ({"sse.event.has-data"}, between(b"event: ping\n\n")),
    "retry alone": ({"sse.event.has-data"}, between(b"retry: 3000\n\n", at=0)),
    "B1-012 empty data": ({"sse.event.data-not-empty"}, between(b"data:\n\n")),
    "blank data": ({"sse.event.data-not-empty"}, between(b"data:  \n\n")),
    "no colon": ({"sse.event.data-not-empty"}, between(b"data\n\n")),
    "ids": ({"sse.event.data-only"}, between(b"id: 1\n" + EVENTS[1])),
    "B1-008 id, then a comment": (
        {"sse.event.data-only", "sse.id.no-idle-block-after"},
        between(b"id: 1\n" + EVENTS[1] + b": ping\n\n"),
    ),
    "id, then a blank line": (
        {"sse.event.data-only", "sse.id.no-idle-block-after"},
        between(b"id: 1\n" + EVENTS[1] + b"\n"),
    ),
    "id, taken back, then a comment": (
        {"sse.event.data-only"},
        between(b"id: 1\n" + EVENTS[1] + b"id\n" + EVENTS[1] + b":\n\n"),
    ),
    "id, then a comment inside an event": ({"sse.event.data-only"}, between(b"id: 1\n" + EVENTS[1] + b": ping\n")),
    "event names": ({"sse.event.data-only"}, between(b"event: message\n" + EVENTS[1])),
    "ping object": ({"sse.heartbeat.is-comment"}, between(b'data: {"type": "ping"}\n\n')),
    "empty object": ({"sse.heartbeat.is-comment"}, between(b"data: {}\n\n")),
    "BOM": ({"sse.stream.no-bom"}, stream(raw=b"\xef\xbb\xbf" + BODY)),
    "invalid bytes": ({"sse.stream.utf8"}, between(EVENTS[1].replace(b"hel", b"h\xe9l"))),
    "half a character": ({"sse.stream.utf8"}, between(EVENTS[1].replace(b"hel", b"\xf0\x9f"))),
    "invalid bytes in a comment": ({"sse.stream.utf8"}, between(b": \xff\n\n")),
    "half an emoji": ({"sse.text.no-lone-surrogate"}, between(EVENTS[1].replace(b"hel", b"\\ud83d"))),
    "half an emoji in a name": ({"sse.text.no-lone-surrogate"}, between(EVENTS[1].replace(b"content", b"\\udd25"))),
    "B1-002 JSON as type": (
        {"sse.response.event-stream"},
        stream(*HELLO, headers={"Content-Type": "application/json"}),
    ),
    "no type": ({"sse.response.event-stream"}, stream(*HELLO, headers={"Content-Type": None})),
    "nginx may buffer": ({"sse.header.no-proxy-buffering"}, stream(*HELLO, headers={"X-Accel-Buffering": None})),
    "cacheable": ({"sse.header.no-cache"}, stream(*HELLO, headers={"Cache-Control": "max-age=60"})),
    "a length": ({"sse.header.no-length-or-encoding"}, stream(*HELLO, headers={"Content-Length": "12"})),
    "a coding": ({"sse.header.no-length-or-encoding"}, stream(*HELLO, headers={"Content-Encoding": "br"})),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_streams_break_exactly(name: str) -> None:
    expected, x = WRONG[name]
    assert failing(x) == expected


def test_a_violation_points_at_its_bytes() -> None:
    assert explain("sse.line.known-field", between(b" " + EVENTS[1])).startswith("expected a line that begins with")


@pytest.mark.parametrize("size", range(1, len(BODY), 7))
@pytest.mark.parametrize("ending", [Ending.RESET, Ending.CLIENT_LEFT])
def test_a_stream_that_breaks_off_is_judged_elsewhere(size: int, ending: Ending) -> None:
    """Wherever it is cut, http.body.framed-exactly says so (or we left), and no rule about lines joins in."""
    whole = BODY.replace(b"lo", "🔥".encode())[:size]
    cut = stream(raw=whole, ending=ending).transcript
    reads = cut.reads[:-1]  # without the zero-length chunk
    values = {name: getattr(cut, name) for name in cut.__dataclass_fields__}
    assert failing(exchange_of(type(cut)(**{**values, "reads": reads}))) == set()


def test_status_of_a_stream() -> None:
    x = stream(*HELLO)
    values = {name: getattr(x.transcript, name) for name in x.transcript.__dataclass_fields__}
    head, *rest = x.transcript.reads
    odd = type(head)(head.at, head.data.replace(b"200 OK", b"202 Accepted"))
    assert "sse.response.event-stream" in failing(exchange_of(type(x.transcript)(**{**values, "reads": (odd, *rest)})))


# -- characters ------------------------------------------------------------------------

PINNED = {
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "a", "schema": {"properties": {"t": {"type": "string", "enum": ["漢 🔥"]}}}},
    }
}
FREE = {
    "response_format": {
        "type": "json_schema",
        "json_schema": {"schema": {"properties": {"t": {"type": "string"}, "u": {"const": "漢"}}}},
    }
}


def test_text_no_replacement() -> None:
    """B1-054, B1-057: U+FFFD where a schema allows no other letters than those it names."""
    rule = "sse.text.no-replacement"
    assert verdict(rule, stream(*text('{"t":"', "漢 🔥", '"}'), request=PINNED)) is Status.PASS
    assert failing(stream(*text('{"t":"', "漢 \ufffd", '"}'), request=PINNED)) == {rule}
    assert failing(plain(completion('{"t":"\ufffd"}'), request=PINNED)) == {rule}
    assert verdict(rule, stream(*text("\ufffd"), request=FREE)) is Status.NOT_APPLICABLE
    assert verdict(rule, stream(*text("\ufffd"))) is Status.NOT_APPLICABLE
    # Invalid bytes look like U+FFFD to us only; they are another rule's business.
    raw = [event(d).replace(b"<X>", b"\xf0\x9f") for d in text("<X>")]
    assert failing(stream(*raw, request=PINNED)) == {"sse.stream.utf8"}


def test_text_characters_whole() -> None:
    rule = "sse.text.characters-whole"
    whole = plain(completion("a 漢字 🔥"))
    assert verdict(rule, whole, stream(*text("a ", "漢字 🔥"))) is Status.PASS
    assert failing(whole, stream(*text("a ", "\ufffd\ufffd字 🔥"))) == {rule}
    assert verdict(rule, whole, stream(*text("b ", "\ufffd"))) is Status.INCONCLUSIVE
    assert verdict(rule, plain(completion("a \ufffd")), stream(*text("a \ufffd"))) is not Status.FAIL
    assert verdict(rule, plain(), stream(*text("hello"))) is Status.NOT_APPLICABLE


def test_text_no_lone_surrogate_in_bodies() -> None:
    """B1-055, and the same in a plain answer."""
    body = json.dumps(completion("<X>")).encode()
    assert failing(plain(body.replace(b"<X>", b"\\ud83d\\udd25"))) == set()
    assert failing(plain(body.replace(b"<X>", b"\\udd25"))) == {"sse.text.no-lone-surrogate"}
    assert failing(plain(b"\\ud83d", status=400)) == set()


def test_transport_split_invariant() -> None:
    rule = "sse.transport.split-invariant"
    one = stream(*text("漢字"), scenario="stream-enum-unicode")
    same = stream(*text("漢", "字"), scenario="stream-enum-unicode-small-reads")
    other = stream(*text("漢", "?"), scenario="stream-enum-unicode-small-reads")
    cut = stream(*text("漢", finish="length"), scenario="stream-enum-unicode-small-reads")
    assert verdict(rule, one, same) is Status.PASS
    assert failing(one, other) == {rule}
    assert verdict(rule, one, cut) is Status.INCONCLUSIVE


# -- time ------------------------------------------------------------------------------


def timed(*times: float, comments: tuple[float, ...] = (), **more: Any) -> Exchange:
    """The right stream with its events at these seconds (the rest at the last), and comments at others."""
    at = [times[min(i, len(times) - 1)] for i in range(len(EVENTS))]
    pieces = sorted([*zip(at, EVENTS, strict=True), *((c, b": ping\n\n") for c in comments)], key=lambda p: p[0])
    x = stream(b": open\n\n", *(data for _, data in pieces), done=False, times=[0.0, *(t for t, _ in pieces)], **more)
    return x


def test_heartbeat_every_15s() -> None:
    rule = "sse.heartbeat.every-15s"
    assert verdict(rule, timed(0.1, 40, comments=(10, 20, 30))) is Status.PASS
    assert verdict(rule, timed(40, comments=(15.5, 31))) is Status.PASS
    assert failing(timed(0.1, 40)) == {rule}
    assert failing(timed(0.1, 40, comments=(10, 30))) == {rule}
    assert failing(timed(40, comments=(10,))) == {rule}
    assert verdict(rule, timed(0.1, 12)) is Status.NOT_APPLICABLE
    assert verdict(rule, stream(*HELLO)) is Status.INCONCLUSIVE  # no times


def test_gap_below_120s() -> None:
    rule = "sse.gap.below-120s"
    beats = tuple(range(10, 200, 10))
    assert verdict(rule, timed(0.1, 100, comments=beats[:9])) is Status.PASS
    assert failing(timed(0.1, 125, comments=beats[:12])) == {rule}
    assert verdict(rule, timed(0.1, 0.2)) is Status.NOT_APPLICABLE


def long(times: list[float], pieces: int = 40) -> Exchange:
    data = text(*(f"{i}, " for i in range(pieces)))
    return stream(*data, times=times, scenario="stream-long")


def test_flush_incremental() -> None:
    """B1-144: everything in one burst after the wait."""
    rule = "sse.flush.incremental"
    assert verdict(rule, long([i / 50 for i in range(50)])) is Status.PASS
    assert verdict(rule, long([3 + i / 50 for i in range(50)])) is Status.PASS  # a long prefill first
    assert verdict(rule, long([2.0])) is Status.FAIL
    assert verdict(rule, long([2.0] * 20 + [2.01] * 40)) is Status.FAIL
    assert verdict(rule, long([0.1], pieces=4)) is Status.INCONCLUSIVE
    assert verdict(rule, stream(*HELLO, scenario="stream-long")) is Status.NOT_APPLICABLE


def test_header_sent_early() -> None:
    """B1-139: the head comes with the first token."""
    rule = "sse.header.sent-early"
    assert verdict(rule, timed(4.0)) is Status.PASS
    assert failing(stream(*HELLO, times=[4.0, 4.1])) == {rule}
    assert verdict(rule, stream(*HELLO, times=[0.2, 0.3])) is Status.NOT_APPLICABLE


# -- refusals ---------------------------------------------------------------------------

ASKED = {"stream": True}


def test_error_before_stream_is_4xx() -> None:
    rule = "sse.error.before-stream-is-4xx"
    assert verdict(rule, plain(ERROR, status=400, request=ASKED)) is Status.PASS
    assert failing(plain(ERROR, request=ASKED)) == {rule}
    assert failing(stream(ERROR)) == {rule}
    code = {"error": {"message": "no", "type": "BadRequestError", "code": 400}}
    assert failing(stream(code)) == {rule}
    crashed = {"error": {"message": "no", "type": "server_error", "code": 500}}
    assert verdict(rule, stream(crashed)) is Status.NOT_APPLICABLE
    assert failing(stream(crashed, tags={"valid": "no"})) == {rule}
    assert verdict(rule, stream(HELLO[0], code)) is Status.NOT_APPLICABLE  # generation had begun
    as_events = b"data: " + json.dumps(ERROR).encode() + b"\n\n"
    x = plain(as_events, status=400, request=ASKED, headers={"Content-Type": "text/event-stream"})
    assert failing(x) == {rule}


@pytest.mark.parametrize(
    "odd",
    [
        "null",
        "true",
        "7",
        '"x"',
        "[]",
        "[[]]",
        "{}",
        '{"choices":{}}',
        '{"choices":[7]}',
        '{"choices":[{"delta":[]}]}',
        '{"error":[]}',
        '{"error":"x"}',
        '{"id":{}}',
        "{",
    ],
)
def test_no_check_crashes_on_any_shape(odd: str) -> None:
    failing(stream(odd, times=[1.0]), stream(odd, HELLO[1], odd, request=PINNED))
    failing(plain(odd.encode()), plain(odd.encode(), request=PINNED), plain(odd.encode(), request=ASKED))
    for schema in (odd, [odd], {"enum": odd}, {"type": [], "enum": ["漢"], "const": {}}):
        asked = {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}
        failing(stream(*HELLO, request=asked), plain(request=asked))


def test_a_stream_beside_others_is_not_judged_by_its_clock() -> None:
    """Protects a server from our own load: its head may come late because we are busy."""
    late = stream("a", "b", times=[2.0] * 6)
    assert verdict("sse.header.sent-early", late) is Status.FAIL
    beside = exchange_of(replace(late.transcript, tags=Tags(beside=True)))
    assert verdict("sse.header.sent-early", beside) is Status.NOT_APPLICABLE
