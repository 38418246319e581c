"""Streams that are compressed for clients that accept it, and held back by the compressor."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import brotli

from ..answer import Frame, HttpAnswer
from . import Context, Layer, fault

_GZIP, _BR = "operations.encoding.gzip-incremental", "operations.encoding.br-incremental"
# Whoever dislikes every compressed stream dislikes these, too.
_ENCODED = "sse.header.no-length-or-encoding"


@dataclass(frozen=True)
class Packer:
    """A compressor of a stream: `add` gives what is ready after more bytes, `flush` all of it, `end` the rest."""

    add: Callable[[bytes], bytes]
    flush: Callable[[], bytes]
    end: Callable[[], bytes]


def packer(coding: str) -> Packer:
    """A fresh compressor for gzip or br."""
    if coding == "br":
        own = brotli.Compressor(quality=4)
        return Packer(own.process, own.flush, own.finish)
    squeeze = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    return Packer(squeeze.compress, lambda: squeeze.flush(zlib.Z_SYNC_FLUSH), squeeze.flush)


def accepts(ctx: Context, coding: str) -> bool:
    """Whether the client takes a coding."""
    return coding in (ctx.http.header("accept-encoding") or "")


def packed(answer: HttpAnswer, coding: str, is_due: Callable[[int], bool]) -> HttpAnswer:
    """A stream compressed; `is_due` says whether the compressor is flushed when so many bytes are in it."""

    def body() -> Iterator[Frame]:
        squeeze, held = packer(coding), 0
        for frame in answer.body:
            ready, held = squeeze.add(frame.data), held + len(frame.data)
            if is_due(held):
                ready, held = ready + squeeze.flush(), 0
            yield replace(frame, data=ready)  # an empty one lets its time pass
        yield Frame(squeeze.end())

    return replace(answer, headers=answer.with_headers(content_encoding=coding), body=body())


@fault(
    "operations.gzip-not-flushed",
    layer=Layer.HTTP,
    breaks={_GZIP, _ENCODED},
    source="https://github.com/Kludex/starlette/pull/2871",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A stream is compressed with gzip for clients that accept it, and comes out only at the end."""
    return packed(answer, "gzip", lambda held: False) if answer.stream and accepts(ctx, "gzip") else answer


@fault(
    "operations.br-not-flushed",
    layer=Layer.HTTP,
    breaks={_BR, _ENCODED},
    source="https://github.com/lidge-jun/opencodex/pull/115",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A stream is compressed with br for clients that accept it, and comes out only at the end."""
    return packed(answer, "br", lambda held: False) if answer.stream and accepts(ctx, "br") else answer


@fault(
    "operations.gzip-in-blocks",
    layer=Layer.HTTP,
    breaks={_GZIP, _ENCODED},
    source="https://github.com/Kludex/starlette/pull/2753",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A stream is compressed in blocks of 4 KB for clients that accept gzip: text comes in jerks."""
    return packed(answer, "gzip", lambda held: held >= 4096) if answer.stream and accepts(ctx, "gzip") else answer


@fault(
    "operations.gzip-flushed-br-not",
    layer=Layer.HTTP,
    breaks={_BR, _ENCODED},
    source="https://github.com/farming-labs/farm.js/pull/1126",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Clients that accept br get br without a flush; gzip is flushed after each event."""
    if not answer.stream or not (accepts(ctx, "br") or accepts(ctx, "gzip")):
        return answer
    return packed(answer, "br", lambda held: False) if accepts(ctx, "br") else packed(answer, "gzip", bool)


@fault("operations.gathers-for-gzip", layer=Layer.HTTP, breaks={_GZIP, _BR})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The server gathers a stream to see whether compression pays, and then leaves it as it is."""
    if not answer.stream or not (accepts(ctx, "gzip") or accepts(ctx, "br")):
        return answer

    def body() -> Iterator[Frame]:
        held = []
        for frame in answer.body:
            held.append(frame.data)
            yield replace(frame, data=b"")
        yield Frame(b"".join(held))

    return replace(answer, body=body())
