"""The HTTP response parser: framing as RFC 9112 has it, read leniently and with a note of what was wrong."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wireproof.wire.http import FramingKind, parse_headers, parse_response
from wireproof.wire.transcript import Capture, Ending

from .making import response, transcript

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def length(value: bytes) -> bytes:
    return OK + b"Content-Length: " + value + b"\r\n\r\n"


# -- Content-Length ----------------------------------------------------------------


def test_exact_length() -> None:
    """Protects the ordinary answer."""
    r = response(length(b"5"), b"hello")
    assert (r.status, r.reason, r.version, r.body, r.content) == (200, "OK", "1.1", b"hello", b"hello")
    assert (r.framing.kind, r.framing.complete, r.framing.problem) == (FramingKind.LENGTH, True, "")
    assert r.framing.declared == 5


def test_short_body() -> None:
    """Protects the rule about truncated answers, and that our own leaving is not the server's fault."""
    r = response(length(b"9"), b"hello", ending=Ending.CLOSED)
    assert (r.framing.complete, r.framing.problem) == (False, "5 of 9 declared bytes came")
    assert response(length(b"9"), b"hello", ending=Ending.CLIENT_LEFT).framing.problem == ""


def test_surplus_bytes() -> None:
    """Protects that bytes past the declared end are no body, and are noted."""
    r = response(length(b"5"), b"hello!!")
    assert (r.body, r.framing.problem) == (b"hello", "2 bytes follow the declared 5")
    assert response(length(b"0"), b"x").body == b""


@pytest.mark.parametrize("value", [b"abc", b"-1", b"+5", b"5.0", b"", b"0x5", b"\xb2", b"1_0", b"9" * 5000])
def test_garbage_length(value: bytes) -> None:
    """Protects against int(), which takes digits that are none (superscripts) and refuses very long ones."""
    r = response(length(value), b"hello")
    assert not r.framing.complete and r.framing.problem.startswith("Content-Length is not one number")
    assert r.body == b"hello"


def test_several_lengths() -> None:
    """Protects the difference between a repeated and a contradicting length (RFC 9112 section 6.3)."""
    same = response(OK + b"Content-Length: 5\r\ncontent-length: 5\r\n\r\nhello")
    assert same.framing.complete and not same.framing.problem
    other = response(OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello")
    assert "5, 6" in other.framing.problem


# -- chunked -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"5\r\nhello\r\n0\r\n\r\n",
        b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        b'5;ext=1;q="a"\r\nhello\r\n0;last\r\n\r\n',
        b"005  \r\nhello\r\n000\r\n\r\n",
        b"5\r\nhello\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\n",
        b"5\nhello\n0\n\n",
    ],
)
def test_whole_chunked_bodies(body: bytes) -> None:
    """Protects extensions, trailers, padding and bare LF from being called defects of the framing."""
    r = response(CHUNKED, body)
    assert (r.body, r.framing.kind, r.framing.complete, r.framing.problem) == (b"hello", FramingKind.CHUNKED, True, "")


def test_hex_sizes_of_either_case() -> None:
    """Protects sizes above nine."""
    for size in (b"1A", b"1a", b"01a"):
        assert response(CHUNKED, size + b"\r\n" + b"x" * 26 + b"\r\n0\r\n\r\n").body == b"x" * 26


@pytest.mark.parametrize(
    ("body", "kept", "problem"),
    [
        (b"5\r\nhello\r\n", b"hello", "the body ended before the zero-length chunk"),
        (b"5\r\nhello\r\n3", b"hello", "the body ended before the zero-length chunk"),
        (b"5\r\nhello", b"hello", "the body ended after a chunk, before its line end"),
        (b"9\r\nhello", b"hello", "the body ended 4 bytes before the end of its chunk"),
        (b"5\r\nhello\r\n0\r\n", b"hello", "the last chunk is not followed by an empty line"),
        (b"zz\r\nhello\r\n", b"", "a chunk size line was expected, got b'zz\\r\\nhello\\r\\n'"),
        (b"0x5\r\nhello\r\n", b"", "a chunk size line was expected, got b'0x5\\r\\nhello\\r\\n'"),
        (b"4\r\nhello\r\n0\r\n\r\n", b"hell", "chunk data runs past its declared size: b'o\\r\\n0\\r\\n\\r\\n'"),
        (b"", b"", "the body ended before the zero-length chunk"),
        (b"f" * 16 + b"\r\nhello", b"", None),
    ],
)
def test_broken_chunked_bodies(body: bytes, kept: bytes, problem: str | None) -> None:
    """Protects the message: which part of the framing broke."""
    r = response(CHUNKED, body, ending=Ending.CLOSED)
    assert r.body == kept and not r.framing.complete
    assert r.framing.problem == problem if problem else r.framing.problem


def test_what_is_odd_around_a_whole_chunked_body() -> None:
    """Protects the two defects that leave the body readable (RFC 9112 section 6.1)."""
    assert "3 bytes follow" in response(CHUNKED, b"0\r\n\r\nabc").framing.problem
    both = OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    assert response(both).body == b"hello"
    assert response(both).framing.problem == "both Content-Length and Transfer-Encoding: chunked were sent"


def test_our_leaving_is_no_problem_of_the_server() -> None:
    """Protects scenarios that cancel."""
    r = response(CHUNKED, b"5\r\nhello\r\n", ending=Ending.CLIENT_LEFT)
    assert (r.framing.complete, r.framing.problem) == (False, "")


# -- other framings ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "complete", "problem"),
    [
        (Ending.CLOSED, True, ""),
        (Ending.RESET, False, "the connection broke before the body ended"),
        (Ending.IDLE_TIMEOUT, False, "the body has neither a length nor chunks, and the connection stays open"),
        (Ending.CLIENT_LEFT, False, ""),
    ],
)
def test_a_body_until_the_end_of_the_connection(ending: Ending, complete: bool, problem: str) -> None:
    """Protects HTTP/1.0 style answers: closing is their end, a reset is not."""
    r = response(OK + b"\r\n", b"hello", ending=ending)
    assert (r.body, r.framing.kind, r.framing.complete, r.framing.problem) == (
        b"hello",
        FramingKind.CLOSE,
        complete,
        problem,
    )


def test_answers_without_a_body() -> None:
    """Protects HEAD, 204 and 304, whose Content-Length declares nothing (RFC 9110 section 9.3.2)."""
    assert response(length(b"5"), method="HEAD").framing.complete
    for status in (b"204 No Content", b"304 Not Modified"):
        r = response(b"HTTP/1.1 " + status + b"\r\nContent-Length: 5\r\n\r\n")
        assert (r.framing.kind, r.framing.complete, r.body) == (FramingKind.NONE, True, b"")


# -- heads -------------------------------------------------------------------------


def test_interim_responses_come_first() -> None:
    """Protects the real status behind 100 and 103, however they are cut."""
    raw = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + length(b"2") + b"ok"
    for place in range(len(raw)):
        r = response(raw[:place], raw[place:])
        assert (r.status, r.content) == (200, b"ok")
    assert parse_response(transcript(b"HTTP/1.1 100 Continue\r\n\r\n")) is None


@pytest.mark.parametrize(
    "raw", [b"", b"\r\n", b"hello", b"HTTP/1.1 2000 X\r\n\r\n", b"HTTP/1.1 200 OK", b"SSH-2.0-x\r\n"]
)
def test_what_is_no_http_is_no_response(raw: bytes) -> None:
    """Protects `Response is None`, from which rules say that nothing came."""
    assert parse_response(transcript(raw)) is None


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nA: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\nA: 1\n\n",
        b"HTTP/1.1 200 OK\r\nA: 1\n\r\n",
        b"HTTP/1.1 200 OK\nA: 1\r\n\n",
        b"HTTP/1.1 200\r\nA:1\r\n\r\n",
        b"HTTP/1.0 200 \r\nA:   1  \r\n\r\n",
        b"HTTP/2 200 \r\na: 1\r\n\r\n",
    ],
)
def test_heads_of_all_sorts(head: bytes) -> None:
    """Protects LF-only and mixed heads, missing reasons, and the HTTP/2 heads that curl prints."""
    r = response(head, b"body\r\n\r\nmore", ending=Ending.CLOSED)
    assert (r.status, r.header("A"), r.body) == (200, "1", b"body\r\n\r\nmore")


def test_no_headers_and_cut_heads() -> None:
    """Protects a body that starts right after the status line, and heads that end with the bytes."""
    assert response(OK + b"\r\n", b"x\r\n\r\ny").body == b"x\r\n\r\ny"
    assert response(b"HTTP/1.1 200 OK\n\nx\n\ny").body == b"x\n\ny"
    cut = response(OK + b"Content-Type: text/ev", ending=Ending.RESET)
    assert cut.header("content-type") == "text/ev" and cut.body == b""


def test_headers() -> None:
    """Protects folded lines (RFC 9112 section 5.2), repeated names, lines without a colon, odd bytes."""
    block = b"A: 1\r\n  2\r\n\tthree\r\nB\r\na:4\r\nC: x:y\r\nD: \xe9\r\n"
    assert parse_headers(block) == (("A", "1 2 three"), ("B", ""), ("a", "4"), ("C", "x:y"), ("D", "\u00e9"))
    assert parse_headers(b" A: 1\r\n") == ((" A", "1"),)
    r = response(OK + b"Content-Type: Text/Event-Stream ; charset=utf-8\r\nX: 1\r\nx: 2\r\n\r\n")
    assert (r.media_type, r.header("x"), r.all("X"), r.header("none")) == ("text/event-stream", "1", ["1", "2"], None)
    assert response(OK + b"\r\n").media_type == ""


# -- captures ----------------------------------------------------------------------


def test_decoded_capture_undoes_no_chunks() -> None:
    """Protects `curl -i` recordings: the head says chunked, the body is plain already."""
    r = response(CHUNKED, b"5\r\nhello", capture=Capture.DECODED)
    assert (r.body, r.framing.kind) == (b"5\r\nhello", FramingKind.UNKNOWN)


def test_body_capture() -> None:
    """Protects recordings of a body alone, with status and headers beside it or unknown."""
    r = response(b"HTTP/1.1 500 No\r\n\r\n", capture=Capture.BODY)
    assert (r.status, r.headers, r.content) == (None, (), b"HTTP/1.1 500 No\r\n\r\n")
    given_ = response(b"{}", capture=Capture.BODY, status=404, headers=(("X", "1"),))
    assert (given_.status, given_.header("x")) == (404, "1")
    assert response(capture=Capture.BODY).content == b""


# -- nothing raises ----------------------------------------------------------------

_TOKENS = [b"HTTP/1.1 200 OK", b"HTTP/1.1 100 C", b"\r\n", b"\n", b"\r", b"Content-Length: 3", b"5", b"0", b"zz", b";"]
_TOKENS += [
    b"Transfer-Encoding: chunked",
    b"Content-Encoding: gzip",
    b"Content-Encoding: br",
    b": ",
    b" ",
    b"\x1f\x8b\x08",
    b"\xff",
    b"abc",
]


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.sampled_from(_TOKENS), max_size=20),
    st.sampled_from(list(Capture)),
    st.sampled_from(list(Ending)),
)
def test_made_up_responses_never_raise(pieces: list[bytes], capture: Capture, ending: Ending) -> None:
    """Protects the run from what a broken target writes; and bodies never hold bytes that did not come."""
    raw = b"".join(pieces)
    found = parse_response(transcript(*pieces, capture=capture, ending=ending))
    joined = parse_response(transcript(raw, capture=capture, ending=ending))
    assert (found is None) == (joined is None)
    if found and joined:
        assert (found.status, found.body, found.content) == (joined.status, joined.body, joined.content)
        assert (found.framing, found.encoding_problem) == (joined.framing, joined.encoding_problem)
        assert len(found.body) <= len(raw)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_random_bytes_never_raise(data: bytes, behind_a_head: bool) -> None:
    """Protects the run: the target is untrusted input."""
    parse_response(transcript((CHUNKED if behind_a_head else b"") + data))
