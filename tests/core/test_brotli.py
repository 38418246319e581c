"""Bodies with Content-Encoding: br: the same promises as for gzip, from a decoder that behaves otherwise."""

from __future__ import annotations

import itertools
import random
import tracemalloc

import brotli
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wireproof.wire import coding
from wireproof.wire.coding import decode_content
from wireproof.wire.transcript import Capture, Ending

from .making import response

HEAD = b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n"
TEXT = b"data: one\n\ndata: two\n\n" * 3
NOISE = random.Random(7).randbytes(3000)
PACKED = brotli.compress(NOISE + TEXT + NOISE[::-1])
BROKEN = PACKED[:2000] + b"\xff" * 60 + PACKED[2060:]


def test_a_whole_body() -> None:
    """Protects every rule on content behind a proxy that prefers br, as browsers do."""
    for text in (TEXT, NOISE, b"", b"x", TEXT * 10_000):
        r = response(HEAD + brotli.compress(text), ending=Ending.CLOSED)
        assert (r.content, r.encoding_problem) == (text, "")
    assert response(HEAD, ending=Ending.CLOSED).content == b""
    head_only = response(HEAD, method="HEAD")
    assert (head_only.content, head_only.encoding_problem) == (b"", "")


@pytest.mark.parametrize("quality", [0, 1, 5])
def test_more_than_the_decoder_gives_at_once(quality: int) -> None:
    """Protects long bodies in few reads: the decoder says that it takes more while it still has some."""
    for text in (random.Random(1).randbytes(6 * 2**20), TEXT * 60_000):
        packed = brotli.compress(text, quality=quality)
        for pieces in ([packed], [packed[:99], packed[99:]]):
            r = response(HEAD, *pieces, ending=Ending.CLOSED)
            assert (r.content == text, r.encoding_problem) == (True, "")
        torn = packed[:-9] + b"\xff" * 400
        one, two = (decode_content(p, "br") for p in ([(torn, 0.0)], [(torn[:-500], 0.0), (torn[-500:], 1.0)]))
        assert one[0] == two[0] and one[2] == two[2] != "", "not for a body that breaks, either"


def test_times_stay_with_their_bytes() -> None:
    """Protects timing rules on a compressed stream that is flushed event by event."""
    packer = brotli.Compressor()
    pieces = [packer.process(p) + packer.flush() for p in (b"first", b"second")]
    r = response(HEAD, *pieces, packer.finish(), ending=Ending.CLOSED)
    assert (r.content, r.encoding_problem) == (b"firstsecond", "")
    assert [r.at(o) for o in (0, 4, 5, 10)] == [1.0, 1.0, 2.0, 2.0]


def test_what_is_held_back_has_the_time_of_the_flush() -> None:
    """Protects the same where the compressor was not flushed: the client had nothing before the end."""
    packer = brotli.Compressor()
    pieces = [packer.process(p) for p in (b"first", b"second")]
    r = response(HEAD, *(p for p in pieces if p), packer.finish(), ending=Ending.CLOSED)
    assert r.content == b"firstsecond" and r.at(0) == r.at(10)


@pytest.mark.parametrize("body", [PACKED, BROKEN, PACKED + b"more", PACKED[:-40], PACKED[:1]], ids=range(5))
def test_every_split_in_two_gives_the_same(body: bytes) -> None:
    """Protects content and problem from where the reads happened to end."""
    joined, _, problem = decode_content([(body, 0.0)], "br", on_wire=True, whole=True)
    for place in range(1, len(body), 1 if len(body) < 500 else 7):
        pieces = [(body[:place], 0.0), (body[place:], 1.0)]
        content, arrivals, found = decode_content(pieces, "br", on_wire=True, whole=True)
        assert (content, found) == (joined, problem), place
        assert arrivals[-1][0] == len(content)


def test_byte_by_byte() -> None:
    """Protects the same from a server that writes single bytes."""
    for body in (PACKED, BROKEN, brotli.compress(TEXT) + b"!"):
        joined = decode_content([(body, 0.0)], "br", on_wire=True, whole=True)
        single = decode_content([(bytes([b]), float(n)) for n, b in enumerate(body)], "br", on_wire=True, whole=True)
        assert (single[0], single[2]) == (joined[0], joined[2])


def test_a_bomb_is_cut_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Protects our memory: a few hundred bytes must not inflate without end."""
    monkeypatch.setattr(coding, "INFLATE_LIMIT", 10_000)
    bomb = brotli.compress(b"\0" * 1_000_000)
    for pieces in ([bomb], [bomb[:5], bomb[5:]], [bomb + b"\xff" * 4]):
        r = response(HEAD, *pieces, ending=Ending.CLOSED)
        assert len(r.content) == 10_000 and r.encoding_problem == "the body inflates past the limit"
    exact = response(HEAD, brotli.compress(b"\0" * 10_000), ending=Ending.CLOSED)
    assert len(exact.content) == 10_000 and exact.encoding_problem == ""


def test_a_bomb_takes_no_memory() -> None:
    """Protects the same at the real limit: 400 MB that would come out of 400 bytes."""
    bomb = brotli.compress(b"\0" * (400 * 2**20), quality=1)
    tracemalloc.start()
    content, _, problem = decode_content([(bomb, 0.0)], "br")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(content) == coding.INFLATE_LIMIT and problem == "the body inflates past the limit"
    assert peak < 5 * coding.INFLATE_LIMIT


def test_broken_and_cut_off() -> None:
    """Protects what could be read before the break, and the word for what is wrong."""
    broken = response(HEAD, BROKEN, ending=Ending.CLOSED)
    assert broken.encoding_problem == "the compressed body is broken: brotli cannot decode it"
    assert len(broken.content) > 1000 and broken.content[:1000] == NOISE[:1000]
    later = response(HEAD, BROKEN[:1500], BROKEN[1500:], ending=Ending.CLOSED)
    assert later.content == broken.content, "what the reads before had brought is not brought again"
    length = b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1500\r\n\r\n"
    cut_off = response(length, PACKED[:1500])
    assert cut_off.encoding_problem == "the compressed body is cut off" and cut_off.content
    left = response(HEAD, PACKED[:1500], ending=Ending.CLIENT_LEFT)
    assert left.encoding_problem == "" and left.content, "we left: the cut is ours"
    more = response(HEAD, PACKED + PACKED, ending=Ending.CLOSED)
    assert more.encoding_problem == "the compressed body is broken: bytes follow its end"
    assert more.content == NOISE + TEXT + NOISE[::-1]


@pytest.mark.parametrize("plain", [b'{"a": 1}', b"data: {}\n\n", b": hello\n\n", b"event: x\n\n", b"<html>", b"null"])
def test_a_body_that_is_not_compressed_after_all(plain: bytes) -> None:
    """Protects both readings: on the wire it is a defect, behind a tool that inflated it is fine."""
    wire = response(HEAD, plain, ending=Ending.CLOSED)
    assert wire.content == plain and wire.encoding_problem.startswith("the body is not br")
    tool = response(HEAD, plain, ending=Ending.UNKNOWN, capture=Capture.DECODED)
    assert (tool.content, tool.encoding_problem) == (plain, "")


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=80), st.lists(st.integers(0, 400), max_size=6), st.binary(max_size=6), st.integers(0, 11))
@example(b"", [], b"\x0b", 0)
def test_any_bytes_in_any_pieces(data: bytes, places: list[int], tail: bytes, quality: int) -> None:
    """Protects the run: nothing raises or hangs, and content and problem do not depend on the split."""
    for body in (data + tail, brotli.compress(data, quality=quality) + tail):
        bounds = [0, *sorted({p for p in places if 0 < p < len(body)}), len(body)]
        pieces = [(body[a:b], float(a)) for a, b in itertools.pairwise(bounds) if b > a]
        whole, _, problem = decode_content([(body, 0.0)] if body else [], "br", on_wire=True, whole=True)
        content, arrivals, found = decode_content(pieces, "br", on_wire=True, whole=True)
        assert (content, found) == (whole, problem)
        assert [end for end, _ in arrivals] == sorted(end for end, _ in arrivals)
    if not tail:
        assert (content, found) == (data, "")
