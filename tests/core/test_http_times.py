"""Content codings, and the time at which each byte of the content came."""

from __future__ import annotations

import gzip
import itertools
import zlib
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wireproof.wire import coding
from wireproof.wire.transcript import Capture, Ending

from .making import response

OK = b"HTTP/1.1 200 OK\r\n"
TEXT = b"data: one\n\ndata: two\n\n" * 3


def cut(raw: bytes, places: Sequence[int]) -> list[bytes]:
    bounds = [0, *sorted({p for p in places if 0 < p < len(raw)}), len(raw)]
    return [raw[a:b] for a, b in itertools.pairwise(bounds)]


def head(coding: str) -> bytes:
    return OK + f"Content-Encoding: {coding}\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("coding", "compress"),
    [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("GZip ", gzip.compress), ("deflate", zlib.compress)],
)
def test_content_codings_are_undone(coding: str, compress: Callable[[bytes], bytes]) -> None:
    """Protects rules on content behind a compressing proxy."""
    r = response(head(coding) + compress(TEXT), ending=Ending.CLOSED)
    assert (r.content, r.encoding_problem) == (TEXT, "")
    assert r.body == compress(TEXT)


def test_times_stay_with_their_bytes_when_inflated() -> None:
    """Protects timing rules on a compressed stream that is flushed event by event."""
    packer = zlib.compressobj(wbits=31)
    pieces = [packer.compress(p) + packer.flush(zlib.Z_SYNC_FLUSH) for p in (b"first", b"second")]
    r = response(head("gzip"), *pieces, packer.flush(), ending=Ending.CLOSED)
    assert r.content == b"firstsecond"
    assert [r.at(o) for o in (0, 4, 5, 10)] == [1.0, 1.0, 2.0, 2.0]


def test_a_bomb_is_cut_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Protects our memory: a few kilobytes must not inflate without end."""
    monkeypatch.setattr(coding, "INFLATE_LIMIT", 10_000)
    r = response(head("gzip"), gzip.compress(b"\0" * 1_000_000), ending=Ending.CLOSED)
    assert len(r.content) == 10_000 and r.encoding_problem == "the body inflates past the limit"
    exact = response(head("gzip"), gzip.compress(b"\0" * 10_000), ending=Ending.CLOSED)
    assert len(exact.content) == 10_000 and exact.encoding_problem == ""
    torn = response(head("gzip"), gzip.compress(b"\0" * 1_000_000)[:-8] + b"\xff" * 8, ending=Ending.CLOSED)
    assert len(torn.content) == 10_000, "a bomb that breaks at its end is none the less one"


@pytest.mark.parametrize("places", [[], [1], [2], [5]])
def test_a_body_that_is_not_compressed_after_all(places: list[int]) -> None:
    """Protects both readings: on the wire it is a defect, behind a tool that inflated it is fine."""
    body = cut(b'{"a": 1}', places)
    wire = response(head("gzip"), *body, ending=Ending.CLOSED)
    assert wire.content == b'{"a": 1}' and wire.encoding_problem.startswith("the body is not gzip")
    tool = response(head("gzip"), *body, ending=Ending.UNKNOWN, capture=Capture.DECODED)
    assert tool.content == b'{"a": 1}' and tool.encoding_problem == ""


def test_broken_and_unknown_codings() -> None:
    """Protects what could be read before the break, and the plain bytes of a coding we do not know."""
    packed = gzip.compress(bytes(range(256)) * 40)
    broken = response(head("gzip"), packed[:200] + b"\xff" * 60 + packed[260:], ending=Ending.CLOSED)
    assert broken.encoding_problem.startswith("the compressed body is broken")
    assert broken.content[:180] == bytes(range(180)), "one read, and yet what came before the break is kept"
    cut_off = response(OK + b"Content-Encoding: gzip\r\nContent-Length: 150\r\n\r\n", packed[:150])
    assert cut_off.encoding_problem == "the compressed body is cut off" and cut_off.content
    left = response(head("gzip"), packed[:200], ending=Ending.CLIENT_LEFT)
    assert left.encoding_problem == "", "we left: the cut is ours"
    unknown = response(head("zstd"), b"xyz", ending=Ending.CLOSED)
    assert (unknown.content, unknown.encoding_problem) == (b"xyz", "Content-Encoding 'zstd' cannot be decoded here")


def test_a_compressed_answer_without_a_body_is_no_problem() -> None:
    """Protects HEAD on a server that compresses."""
    assert response(head("gzip"), method="HEAD").encoding_problem == ""


# -- times ---------------------------------------------------------------------------


def expected(raw: bytes, pieces: list[bytes], offsets: Sequence[int]) -> list[float]:
    """For each offset of the raw bytes, the number of the piece that brought it."""
    owner = [number for number, piece in enumerate(pieces) for _ in piece]
    return [float(owner[o]) for o in offsets]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 140), max_size=10))
def test_times_of_a_body_with_a_length(places: list[int]) -> None:
    """Protects `at` for any split of reads: the read that brought a byte, not the one before or after."""
    raw = OK + b"Content-Length: 66\r\n\r\n" + TEXT
    pieces = cut(raw, places)
    r = response(*pieces)
    start = len(raw) - len(TEXT)
    assert r.content == TEXT
    assert [r.at(o) for o in range(len(TEXT))] == expected(raw, pieces, range(start, len(raw)))
    assert r.head_at == expected(raw, pieces, [start - 1])[0]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 160), max_size=12), st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_times_of_a_chunked_body(places: list[int], sizes: list[int]) -> None:
    """Protects the same through chunks, whose size lines shift every offset."""
    raw, offsets, pos = OK + b"Transfer-Encoding: chunked\r\n\r\n", list[int](), 0
    for size in [*sizes, len(TEXT)]:
        piece = TEXT[pos : pos + size]
        if not piece:
            break
        pos += len(piece)
        raw += b"%x;q=1\r\n" % len(piece)
        offsets += range(len(raw), len(raw) + len(piece))
        raw += piece + b"\r\n"
    raw += b"0\r\n\r\n"
    pieces = cut(raw, places)
    r = response(*pieces)
    assert (r.content, r.framing.problem) == (TEXT, "")
    assert [r.at(o) for o in range(len(TEXT))] == expected(raw, pieces, offsets)


def test_times_at_the_edges() -> None:
    """Protects offsets that lie past the end, and answers without any byte of body."""
    r = response(OK + b"Content-Length: 2\r\n\r\n", b"a", b"b")
    assert (r.at(0), r.at(1), r.at(2), r.at(99)) == (1.0, 2.0, 2.0, 2.0)
    assert response(b"HTTP/1.1 ", b"200 OK\r\n\r\n").at(0) == 1.0
