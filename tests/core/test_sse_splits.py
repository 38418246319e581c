"""The SSE decoder fed in pieces: what a body means must not depend on how it was cut."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wireproof.wire.sse import Anomaly, AnomalyKind, Item, SSEDecoder, decode

BOM = b"\xef\xbb\xbf"
NASTY = {
    "bom": BOM + b"data: a\n\n",
    "two-boms": BOM + BOM + b"data: a\n\n",
    "half-a-bom": b"\xef\xbb",
    "emoji": "data: \U0001f600 e\u0301 \u4f60\n\n: \U0001f600\n\n".encode(),
    "crlf": b"data: a\r\n\r\ndata: b\r\n\r\n",
    "cr": b"data: a\r\rdata: b\r\r",
    "mixed": b"data: a\n\rdata: b\r\n\ndata: c\r\r\n\n",
    "bad-utf8": b"data: \xf0\x9f\x98\n\n: \xff\n\ndata: \xc3\r\n\r\n",
    "unknown": b"foo: 1\ndata\n\n{}\n\ndata: x\nbar\n\n",
    "fields": b"id: 1\nevent: e\nretry: 3\ndata:  x\ndata\n\n:c\n\n\n",
    "torn": b"data: a\n\ndata: b\r",
    "blank": b"\r\n\n\r\r",
}


def fed(pieces: Iterable[bytes]) -> list[Item]:
    decoder = SSEDecoder()
    out = [item for piece in pieces for item in decoder.receive(piece)]
    return out + decoder.close()


def cut(body: bytes, places: Sequence[int]) -> list[bytes]:
    bounds = [0, *sorted(min(p, len(body)) for p in places), len(body)]
    return [body[a:b] for a, b in itertools.pairwise(bounds)]


@pytest.mark.parametrize("name", NASTY)
def test_every_cut_in_two_decodes_alike(name: str) -> None:
    """Protects the borders: a BOM in halves, CR and LF apart, a character in pieces."""
    body = NASTY[name]
    whole = decode(body)
    for place in range(len(body) + 1):
        assert fed(cut(body, [place])) == whole, f"cut at {place}: {body[:place]!r} {body[place:]!r}"


@pytest.mark.parametrize("name", NASTY)
def test_byte_by_byte_decodes_alike(name: str) -> None:
    """Protects the smallest pieces, with empty ones between them."""
    body = NASTY[name]
    assert fed(bytes([b]) for b in body) == decode(body)
    assert fed(p for b in body for p in (b"", bytes([b]))) == decode(body)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(NASTY)), st.lists(st.integers(0, 80), max_size=8))
def test_any_cut_in_many_decodes_alike(name: str, places: list[int]) -> None:
    """Protects against a state that only shows at the third piece."""
    body = NASTY[name]
    assert fed(cut(body, places)) == decode(body)


_TOKENS = [b"data", b":", b" ", b"\r", b"\n", b"\r\n", b"id", b"event", BOM, b"\xf0\x9f", b"\xff", b"{}", b"\0", b"x"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(_TOKENS), max_size=24).map(b"".join), st.lists(st.integers(0, 60), max_size=5))
def test_made_up_bodies_never_raise_and_decode_alike(body: bytes, places: list[int]) -> None:
    """Protects the decoder from bodies that nobody thought of."""
    whole = decode(body)
    assert fed(cut(body, places)) == whole
    seen = {o for i in whole if _counts(i) for o in range(*i.span)}
    assert {body[o] for o in set(range(len(body))) - seen} <= {0x0A, 0x0D}
    assert all(0 <= i.span[0] <= i.span[1] <= len(body) for i in whole)


def _counts(item: Item) -> bool:
    return not (isinstance(item, Anomaly) and item.kind is AnomalyKind.MIXED_ENDINGS)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_never_raise(body: bytes) -> None:
    """Protects the run: the target is untrusted input."""
    assert fed([body[:7], body[7:]]) == decode(body)


def _copied(pieces: int) -> int:
    """Bytes that pass through `_join` while one line comes in so many pieces."""
    work = 0

    class Watched(SSEDecoder):
        def _join(self, *more: bytes) -> None:
            nonlocal work
            super()._join(*more)
            work += len(self._buffer)

    decoder = Watched()
    decoder.receive(b"data: ")
    for _ in range(pieces):
        decoder.receive(b"xxxx")
    decoder.receive(b"\n\n")
    return work


def test_a_long_line_in_small_pieces_is_not_copied_at_each_piece() -> None:
    """Protects against quadratic work: ten times the pieces must be about ten times the bytes."""
    assert _copied(10_000) < 12 * _copied(1_000)


def test_many_short_cr_lines_are_scanned_once() -> None:
    """Protects against a search for LF from every CR to the end: 16 times the body took 256 times as long."""
    looked: list[int] = []

    class Body(bytes):
        def find(self, sub, start=0, end=None):  # type: ignore[no-untyped-def]
            stop = len(self) if end is None else end
            found = super().find(sub, start, stop)
            looked.append((found if found >= 0 else stop) - start)
            return found

    decoder = SSEDecoder()
    body = Body(b"data: x\r\r" * 2_000)
    decoder._started = True
    decoder._join = lambda *more: None  # type: ignore[method-assign]
    decoder._buffer = body
    decoder._drain(final=True)
    assert sum(looked) < 3 * len(body)
