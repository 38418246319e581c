"""Content-Encoding undone: gzip, deflate and br, piece by piece, so that times stay with their bytes."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Sequence
from typing import Protocol

import brotli

# What we are ready to inflate from a compressed body (bytes): a bomb is cut there.
INFLATE_LIMIT = 16 * 1024 * 1024

# How much the decoder of br may give at once (bytes): it may go beyond by as much again.
_AT_ONCE = 1024 * 1024

Arrivals = tuple[tuple[int, float], ...]  # (bytes of content there after it, seconds)
_Decode = Callable[[bytes, int], bytes]  # a piece and how much may come out of it, to what comes out


class _Decoder(Protocol):
    """One coding being undone."""

    def feed(self, data: bytes, limit: int) -> tuple[bytes, str]:
        """At most `limit` bytes (positive) that come out of the next piece, and what is wrong with it."""
        ...

    @property
    def over(self) -> bool:
        """Whether the end of the compressed body came."""
        ...


class _Inflate:
    """gzip, and deflate, which is zlib's format (RFC 9110 section 8.4.1)."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def feed(self, data: bytes, limit: int) -> tuple[bytes, str]:
        before = self._zlib.copy()
        try:
            return self._zlib.decompress(data, limit), ""
        except zlib.error as error:
            return _until_broken(lambda: before.copy().decompress, data, limit), str(error)

    @property
    def over(self) -> bool:
        return self._zlib.eof


class _Brotli:
    """br (RFC 7932). A decoder of it cannot be copied: what it was fed is kept, to be fed to another one."""

    def __init__(self) -> None:
        self._brotli = brotli.Decompressor()
        self._fed: list[bytes] = []

    def feed(self, data: bytes, limit: int) -> tuple[bytes, str]:
        try:
            out = _drained(self._brotli, data, limit)
        except brotli.error:
            return self._before_the_break(data, limit)
        self._fed.append(data)
        return out, ""

    def _before_the_break(self, data: bytes, limit: int) -> tuple[bytes, str]:
        over = False

        def fresh() -> _Decode:
            again = brotli.Decompressor()
            for piece in self._fed:
                _drained(again, piece, INFLATE_LIMIT + 1)

            def decode(some: bytes, most: int) -> bytes:
                nonlocal over
                over = again.is_finished()  # asked before: one that has failed does not say
                return _drained(again, some, most)

            return decode

        out = _until_broken(fresh, data, limit)
        return out, "bytes follow its end" if over else "brotli cannot decode it"

    @property
    def over(self) -> bool:
        return bool(self._brotli.is_finished())


def _drained(decoder: brotli.Decompressor, data: bytes, limit: int) -> bytes:
    """What comes out of a piece, at most `limit` bytes. Raises brotli.error."""
    at_once = min(limit, _AT_ONCE)
    out = [decoder.process(data, output_buffer_limit=at_once)]
    total = len(out[0])
    # Until nothing comes: it can have taken all its input, accept more, and yet hold output back.
    while total < limit and (more := decoder.process(b"", output_buffer_limit=at_once)):
        out.append(more)
        total += len(more)
    return b"".join(out)[:limit]


def _until_broken(fresh: Callable[[], _Decode], data: bytes, limit: int) -> bytes:
    """What comes out before the byte that breaks a compressed body: decoders drop it when they raise.

    `fresh` gives a decoder as it was before this piece. That byte is found in steps: a long piece takes no call for
    each of its bytes.
    """
    good, out = 0, bytearray()
    for size in (2**16, 2**8, 1):
        decode, out = fresh(), bytearray()
        with contextlib.suppress(zlib.error, brotli.error):
            out += decode(data[:good], limit)
            while good < len(data) and len(out) < limit:
                out += decode(data[good : good + size], limit - len(out))
                good += size
    return bytes(out)


_DECODERS: dict[str, Callable[[], _Decoder]] = {
    "gzip": _Inflate,
    "x-gzip": _Inflate,
    "deflate": _Inflate,
    "br": _Brotli,
}


def _as_it_came(pieces: Sequence[tuple[bytes, float]]) -> tuple[bytes, Arrivals]:
    arrivals, total = [], 0
    for data, at in pieces:
        total += len(data)
        arrivals.append((total, at))
    return b"".join(data for data, _ in pieces), tuple(arrivals)


def decode_content(
    pieces: Sequence[tuple[bytes, float]], coding: str, *, on_wire: bool = False, whole: bool = False
) -> tuple[bytes, Arrivals, str]:
    """Undo Content-Encoding piece by piece: the content, when it came, and what was wrong."""
    if coding in ("", "identity"):
        return *_as_it_came(pieces), ""
    if coding not in _DECODERS:
        return *_as_it_came(pieces), f"Content-Encoding {coding!r} cannot be decoded here"
    decoder = _DECODERS[coding]()
    out: list[bytes] = []
    arrived: list[tuple[int, float]] = []
    total, problem = 0, ""
    for data, at in pieces:
        got, problem = decoder.feed(data, INFLATE_LIMIT - total + 1)
        total += len(got)
        out.append(got)
        arrived.append((total, at))
        if total > INFLATE_LIMIT:
            return b"".join(out)[:INFLATE_LIMIT], tuple(arrived), "the body inflates past the limit"
        if problem:
            break
    if problem and not total:  # on the wire that is wrong, else a tool had undone the coding before it recorded
        return *_as_it_came(pieces), f"the body is not {coding}: {problem}" if on_wire else ""
    if problem:
        problem = f"the compressed body is broken: {problem}"
    elif whole and not decoder.over:
        problem = "the compressed body is cut off"
    return b"".join(out), tuple(arrived), problem
