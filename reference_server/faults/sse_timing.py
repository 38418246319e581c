"""Streams that are late, silent or held back, and heads that invite it."""

import zlib
from collections.abc import Iterator
from dataclasses import replace

from ..answer import HEARTBEAT, Emit, Frame, Framing, HttpAnswer, Step
from . import Context, Layer, fault

_HEADERS_LATE = "https://github.com/ggml-org/llama.cpp/issues/23884"


@fault("sse.no-heartbeat", layer=Layer.SSE, breaks={"sse.heartbeat.every-15s"}, source=_HEADERS_LATE)
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Nothing is sent while the model works on a long prompt."""
    waited = 0.0
    for frame in frames:
        if frame.data == HEARTBEAT:
            waited += frame.after
        else:
            yield replace(frame, after=frame.after + waited)
            waited = 0.0


@fault("sse.long-gap", layer=Layer.SSE, breaks={"sse.gap.below-120s"})
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """A slow stream has nothing but heartbeats for more than two minutes."""
    slow = False
    for frame in frames:
        if frame.data == HEARTBEAT and not slow:
            slow = True
            for _ in range(10):
                yield Frame(HEARTBEAT, 10.0)
        yield frame


@fault(
    "sse.burst-at-end",
    layer=Layer.SSE,
    breaks={"sse.flush.incremental", "sse.heartbeat.every-15s"},
    cases=("B1-144",),
    source="https://github.com/nicedreamzapp/claude-code-local/issues/39",
)
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Everything is generated first and then replayed as a stream."""
    ready = list(frames)
    waited = sum(frame.after for frame in ready)
    for number, frame in enumerate(ready):
        yield replace(frame, after=0.0 if number else waited)


@fault(
    "sse.head-with-first-token",
    layer=Layer.SOCKET,
    breaks={"sse.header.sent-early"},
    cases=("B1-139",),
    source=_HEADERS_LATE,
)
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """The head of a stream waits for the first token, and the heartbeats wait with it."""
    held, holding = b"", ctx.stream
    for step in steps:
        if holding and isinstance(step, Emit):
            held += step.data
            holding = b"data: " not in step.data
            # Time passes all the same: who waits for a place in the server waits for that.
            yield replace(step, data=b"" if holding else held)
        else:
            yield step


@fault(
    "sse.proxy-may-buffer",
    layer=Layer.HTTP,
    breaks={"sse.header.no-proxy-buffering"},
    cases=("B1-142",),
    source="https://github.com/BerriAI/litellm/issues/29557",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A stream does not tell nginx not to buffer it."""
    return replace(answer, headers=answer.with_headers(x_accel_buffering=None)) if answer.stream else answer


@fault(
    "sse.cacheable",
    layer=Layer.HTTP,
    breaks={"sse.header.no-cache"},
    cases=("B1-142",),
    source="https://github.com/LostRuins/koboldcpp/issues/1168",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A stream may be cached."""
    return replace(answer, headers=answer.with_headers(cache_control="max-age=60")) if answer.stream else answer


@fault("sse.content-length", layer=Layer.HTTP, breaks={"sse.header.no-length-or-encoding"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A stream has a Content-Length, as if its end were known."""
    if not answer.stream:
        return answer
    ready = list(answer.body)
    size = sum(len(frame.data) for frame in ready)
    headers = answer.with_headers(transfer_encoding=None, content_length=str(size))
    return replace(answer, headers=headers, body=iter(ready), framing=Framing.LENGTH)


@fault("sse.gzip", layer=Layer.HTTP, breaks={"sse.header.no-length-or-encoding"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A stream is compressed for a client that takes gzip, and flushed after each event: legal, and risky."""
    if not answer.stream or "gzip" not in (ctx.http.header("accept-encoding") or ""):
        return answer

    def packed() -> Iterator[Frame]:
        squeeze = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
        for frame in answer.body:
            yield replace(frame, data=squeeze.compress(frame.data) + squeeze.flush(zlib.Z_SYNC_FLUSH))
        yield Frame(squeeze.flush())

    return replace(answer, headers=answer.with_headers(content_encoding="gzip"), body=packed())
