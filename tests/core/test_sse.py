"""The SSE decoder against the text of WHATWG HTML 9.2.6, and each anomaly with its exact bytes.

https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from __future__ import annotations

import pytest

from wireproof.wire.sse import Anomaly, AnomalyKind, Comment, Event, Item, decode

BOM = b"\xef\xbb\xbf"


def events(body: bytes) -> list[Event]:
    return [i for i in decode(body) if isinstance(i, Event)]


def data(body: bytes) -> list[str]:
    return [e.data for e in events(body)]


def anomalies(body: bytes) -> list[tuple[AnomalyKind, bytes]]:
    """Kinds with the bytes that their spans cut out of the body."""
    return [(i.kind, body[i.span[0] : i.span[1]]) for i in decode(body) if isinstance(i, Anomaly)]


# -- the examples in the standard -------------------------------------------------


def test_standard_example_of_three_data_lines() -> None:
    """Protects the joining of data lines by one LF without a trailing one."""
    assert data(b"data: YHOO\ndata: +2\ndata: 10\n\n") == ["YHOO\n+2\n10"]


def test_standard_example_of_four_blocks() -> None:
    """Protects that a comment is no event, an id without value resets, and only one space is removed."""
    body = b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n"
    found = decode(body)
    assert found[0] == Comment((0, 13), " test stream", alone=True)
    assert [(e.data, e.id) for e in events(body)] == [
        ("first event", "1"),
        ("second event", ""),
        (" third event", None),
    ]


def test_standard_example_of_empty_data() -> None:
    """Protects events with empty data, and that the unterminated last one is told apart."""
    found = events(b"data\n\ndata\ndata\n\ndata:")
    assert [(e.data, e.terminated) for e in found] == [("", True), ("\n", True), ("", False)]


def test_standard_example_with_and_without_space() -> None:
    """Protects that the space after the colon is optional."""
    assert data(b"data:test\n\ndata: test\n\n") == ["test", "test"]


# -- field parsing ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        (b"data: x", b"data", b"x"),
        (b"data:x", b"data", b"x"),
        (b"data:  x", b"data", b" x"),
        (b"data:\tx", b"data", b"\tx"),
        (b"data", b"data", b""),
        (b"data:", b"data", b""),
        (b"data: ", b"data", b""),
        (b"data: a:b: c ", b"data", b"a:b: c "),
        (b"Data: x", b"Data", b"x"),
        (b" data: x", b" data", b"x"),
        (b"data : x", b"data ", b"x"),
        (b"event", b"event", b""),
        (b"nonsense", b"nonsense", b""),
    ],
)
def test_a_line_is_split_at_its_first_colon(line: bytes, name: bytes, value: bytes) -> None:
    """Protects names compared literally, and the removal of exactly one space."""
    (event,) = events(b"data: 1\n" + line + b"\n\n")
    last = event.lines[-1]
    assert (last.name, last.value, last.raw) == (name, value, line)
    assert last.span == (8, 8 + len(line))


@pytest.mark.parametrize("name", [b"Data", b" data", b"data ", b"DATA", b"dat"])
def test_a_name_that_is_almost_data_is_lost(name: bytes) -> None:
    """Protects against a decoder that repairs a name: then the rule would never see it."""
    assert data(name + b": x\n\n") == []


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_ends_a_line(end: bytes) -> None:
    """Protects CR, LF and CRLF as equal line ends, the last one at the very end of the body too."""
    body = end.join([b"event: e", b"data: a", b"data: b", b"", b"data: c", b"", b""])
    found = events(body)
    assert [(e.event, e.data, e.terminated) for e in found] == [("e", "a\nb", True), (None, "c", True)]
    assert found[0].span == (0, body.index(b"data: c"))
    assert found[-1].span[1] == len(body)


def test_lf_cr_is_two_line_ends() -> None:
    """Protects that LF CR is no CRLF: it ends a line and then is a blank line."""
    assert [e.span for e in events(b"data: a\n\rdata: b\n\n")] == [(0, 9), (9, 18)]


def test_only_one_leading_bom_is_removed() -> None:
    """Protects "one leading U+FEFF": a second one belongs to the name, one in the middle to the value."""
    assert data(BOM + b"data: a\n\n") == ["a"]
    assert data(BOM + BOM + b"data: a\n\n") == []
    assert data(b"data: a\n\n" + BOM + b"data: b\n\n") == ["a"]
    assert data(b"data: " + BOM + b"\n\n") == ["\ufeff"]


def test_the_last_event_and_id_of_a_block_win() -> None:
    """Protects "set the event type buffer to field value"."""
    (event,) = events(b"event: a\nevent: b\nid: 1\nid: 2\nretry: 5\ndata: x\n\n")
    assert (event.event, event.id, event.retry) == ("b", "2", "5")


def test_an_id_with_nul_is_ignored() -> None:
    """Protects "if the field value does not contain U+0000 NULL": the line is kept, the id is not."""
    (event,) = events(b"id: 1\nid: a\0b\ndata: x\n\n")
    assert event.id == "1"
    assert event.lines[1].value == b"a\0b"


def test_retry_is_kept_as_it_came() -> None:
    """Protects that a wrong retry stays visible to the rules (the standard ignores all but digits)."""
    assert [e.retry for e in events(b"retry: soon\ndata: x\n\n")] == ["soon"]


def test_comments_within_an_event_are_told_from_those_alone() -> None:
    """Protects `alone`, on which the rule about idle blocks rests."""
    body = b":a\ndata: x\n:b\n\n:c\n\n"
    found = decode(body)
    assert [(c.text, c.alone, c.span) for c in found if isinstance(c, Comment)] == [
        ("a", False, (0, 2)),
        ("b", False, (11, 13)),
        ("c", True, (15, 17)),
    ]
    assert events(body)[0].span == (0, 15)


def test_data_lines_are_counted() -> None:
    """Protects the count that the rule about one data line reads."""
    (event,) = events(b"data: {\nevent: x\ndata: }\n\n")
    assert event.data_lines == 2 and event.data == "{\n}"


# -- anomalies -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"data: a\n\n", []),
        (b"", []),
        (BOM + b"data: a\n\n", [(AnomalyKind.BOM, BOM)]),
        (BOM, [(AnomalyKind.BOM, BOM)]),
        (b"data: \xff\n\n", [(AnomalyKind.INVALID_UTF8, b"\xff")]),
        (b"data: ok \xf0\x9f\x98\n\n", [(AnomalyKind.INVALID_UTF8, b"\xf0\x9f\x98")]),
        (b": \xc3\n\n", [(AnomalyKind.INVALID_UTF8, b"\xc3")]),
        (b"data: a\nfoo: b\n\n", [(AnomalyKind.UNKNOWN_FIELD, b"foo: b")]),
        (b'data: {\n"a": 1}\n\n', [(AnomalyKind.UNKNOWN_FIELD, b'"a": 1}')]),
        (b"event: e\n\n", [(AnomalyKind.NO_DATA, b"event: e\n\n")]),
        (b"data: a\n\n\n", [(AnomalyKind.EXTRA_BLANK, b"\n")]),
        (b"\r\ndata: a\n\n", [(AnomalyKind.CRLF, b"\r\n"), (AnomalyKind.EXTRA_BLANK, b"\r\n")]),
        (b"data: a\n", [(AnomalyKind.UNTERMINATED, b"data: a\n")]),
        (b"data: a\n\ndata: b", [(AnomalyKind.UNTERMINATED, b"data: b")]),
        (b"data: a\r\r", [(AnomalyKind.BARE_CR, b"\r")]),
        (b"data: a\r\n\r\n", [(AnomalyKind.CRLF, b"\r\n")]),
    ],
)
def test_every_anomaly_names_its_bytes(body: bytes, expected: list[tuple[AnomalyKind, bytes]]) -> None:
    """Protects the spans that failures show: an oddity without its bytes cannot be found on the wire."""
    found = [a for a in anomalies(body) if a[0] is not AnomalyKind.MIXED_ENDINGS]
    assert found == expected


def test_mixed_line_ends_are_said_once_over_the_whole_body() -> None:
    """Protects that the mix is noted, whatever the order, with what was seen."""
    body = b"data: a\r\n\r\ndata: b\n\n"
    (found,) = [i for i in decode(body) if isinstance(i, Anomaly) and i.kind is AnomalyKind.MIXED_ENDINGS]
    assert found.span == (0, len(body)) and found.detail == "\\n, \\r\\n"
    assert not [a for a in anomalies(b"data: a\r\n\r\n") if a[0] is AnomalyKind.MIXED_ENDINGS]


def test_bad_utf8_is_told_and_marks_its_event_alone() -> None:
    """Protects that replaced bytes never pass as text, and the event beside them is not blamed."""
    body = b"data: a\xffb\xfe\n\ndata: c\n\n"
    bad, good = events(body)
    assert (bad.data, bad.valid_utf8, good.valid_utf8) == ("a\ufffdb\ufffd", False, True)
    assert anomalies(body) == [(AnomalyKind.INVALID_UTF8, b"\xff")], "the first bad byte of a line is named"


def test_bad_utf8_in_a_comment_does_not_taint_the_event() -> None:
    """Protects `valid_utf8` from what is no data."""
    assert [e.valid_utf8 for e in events(b": \xff\ndata: a\n\n")] == [True]


def test_a_comment_at_the_end_needs_no_blank_line() -> None:
    """Protects heartbeats cut off by the end of the stream from being called events."""
    found = decode(b"data: a\n\n: ping")
    assert [type(i) for i in found] == [Event, Comment]


# -- nothing is lost -------------------------------------------------------------


def covered(items: list[Item]) -> set[int]:
    spans = [i.span for i in items if not (isinstance(i, Anomaly) and i.kind is AnomalyKind.MIXED_ENDINGS)]
    spans += [line.span for i in items if isinstance(i, Event) for line in i.lines]
    return {offset for start, end in spans for offset in range(start, end)}


@pytest.mark.parametrize(
    "body",
    [
        BOM + b": c\r\n\r\nevent: e\rdata: x\n\nfoo\n\nid: 1\n\n\xff\n:\n:\n\n\r\rdata",
        b"foo: 1\nbar\n\n",
        b"data: a\n:c1\n:c2\n\n\n\nretry: 1\n\ndata: b\n",
        b"\n\n\n",
        b"no colon at all",
    ],
)
def test_the_spans_cover_every_byte_that_is_no_line_end(body: bytes) -> None:
    """Protects losslessness: whatever a server writes is in some item, so that some rule can see it."""
    missing = set(range(len(body))) - covered(decode(body))
    assert {body[offset] for offset in missing} <= {0x0A, 0x0D}


def test_the_lines_of_an_event_give_back_its_bytes() -> None:
    """Protects `raw` and `span` of lines."""
    body = b"data: \xc3\xa9\r\nfoo:bar\rid\n\n"
    (event,) = events(body)
    assert [body[a:b] for a, b in (line.span for line in event.lines)] == [line.raw for line in event.lines]
    assert body[event.span[0] : event.span[1]] == body
