"""Streams that end wrongly."""

from collections.abc import Iterator
from typing import Any

from ..answer import DONE_FRAME, HEARTBEAT, Chunk, Frame
from ..protocol import dumps
from . import Context, Layer, fault
from .chunk import Chunks

Frames = Iterator[Frame]


def _instead(frames: Frames, *data: bytes) -> Frames:
    """Other bytes in the place of [DONE]."""
    for frame in frames:
        if frame != DONE_FRAME:
            yield frame
            continue
        for piece in data:
            yield Frame(piece)


@fault("done.missing", layer=Layer.SSE, breaks={"done.marker.exact"})
def _(frames: Frames, ctx: Context) -> Frames:
    """No [DONE] ends the stream."""
    return _instead(frames)


@fault("done.missing-when-cut", layer=Layer.SSE, breaks={"done.marker.exact"})
def _(frames: Frames, ctx: Context) -> Frames:
    """[DONE] comes only where the model stopped by itself."""
    cut = False
    for frame in frames:
        cut = cut or b'"finish_reason":"length"' in frame.data
        if frame != DONE_FRAME or not cut:
            yield frame


@fault("done.lower-case", layer=Layer.SSE, breaks={"done.marker.exact"})
def _(frames: Frames, ctx: Context) -> Frames:
    """The marker is [done]."""
    return _instead(frames, b"data: [done]\n\n")


@fault("done.trailing-space", layer=Layer.SSE, breaks={"done.marker.exact"})
def _(frames: Frames, ctx: Context) -> Frames:
    """A space follows [DONE]."""
    return _instead(frames, b"data: [DONE] \n\n")


@fault("done.json-string", layer=Layer.SSE, breaks={"done.marker.not-json"})
def _(frames: Frames, ctx: Context) -> Frames:
    """The marker went through a JSON encoder."""
    return _instead(frames, b'data: "[DONE]"\n\n')


@fault("done.json-object", layer=Layer.SSE, breaks={"done.marker.not-json"})
def _(frames: Frames, ctx: Context) -> Frames:
    """The marker is the object {"done": true}."""
    return _instead(frames, b'data: {"done":true}\n\n')


@fault("done.bare", layer=Layer.SSE, breaks={"done.marker.not-json"})
def _(frames: Frames, ctx: Context) -> Frames:
    """[DONE] stands on its line without `data:`."""
    return _instead(frames, b"[DONE]\n\n")


@fault("done.twice", layer=Layer.SSE, breaks={"done.marker.once-and-last"})
def _(frames: Frames, ctx: Context) -> Frames:
    """[DONE] comes from the engine, and again from the gateway."""
    return _instead(frames, DONE_FRAME.data, DONE_FRAME.data)


@fault("done.chunk-after", layer=Layer.SSE, breaks={"done.marker.once-and-last"})
def _(frames: Frames, ctx: Context) -> Frames:
    """A chunk with vendor data follows [DONE], where no usage was asked for."""
    start = b""
    for frame in frames:
        yield frame
        if frame == DONE_FRAME and start:
            yield Frame(start + b'"choices":[],"timings":{"total_ms":12}}\n\n')
        elif b'"usage":' not in frame.data:
            start = frame.data[: max(0, frame.data.find(b'"choices":'))]


@fault(
    "done.each-choice",
    layer=Layer.SSE,
    breaks={"done.marker.once-and-last", "done.marker.every-finish"},
    cases=("B1-198",),
    source="https://github.com/vllm-project/vllm/pull/378",
)
def _(frames: Frames, ctx: Context) -> Frames:
    """[DONE] follows each finished choice instead of coming once at the end."""
    left = ctx.chat.n if ctx.chat else 1
    for frame in frames:
        yield frame
        if b'"finish_reason":"' in frame.data and left > 1:
            left -= 1
            yield DONE_FRAME


@fault("done.finish-missing", layer=Layer.CHUNK, breaks={"done.choices.all-finished"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The worker died behind the proxy: no choice finishes, and the stream ends as if nothing had happened."""
    for chunk in chunks:
        if not any(choice["finish_reason"] for choice in chunk["choices"]):
            yield chunk


@fault("done.finish-first-only", layer=Layer.CHUNK, breaks={"done.choices.all-finished"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """With n > 1 only choice 0 gets a finish_reason."""
    for chunk in chunks:
        if not any(choice["finish_reason"] and choice["index"] for choice in chunk["choices"]):
            yield chunk


@fault("done.body-stays-open", layer=Layer.SSE, breaks={"done.body.ends-soon"})
def _(frames: Frames, ctx: Context) -> Frames:
    """The body ends five seconds after [DONE]."""
    yield from frames
    yield Frame(HEARTBEAT, 5.0)


_ERROR = {"error": {"message": "the engine failed", "type": "server_error", "param": None, "code": None}}


@fault("done.error-hangs", layer=Layer.SSE, breaks={"done.error.stream-ends"})
def _(frames: Frames, ctx: Context) -> Frames:
    """A stream breaks with an error event, and then stays open with heartbeats."""
    for number, frame in enumerate(frames):
        if number == 5:
            yield Frame(b"data: " + dumps(_ERROR) + b"\n\n")
            for _ in range(6):
                yield Frame(HEARTBEAT, 5.0)
            return
        yield frame


@fault("done.error-then-success", layer=Layer.SSE, breaks={"done.error.no-success-after"})
def _(frames: Frames, ctx: Context) -> Frames:
    """An error event comes before the end, and then the answer finishes as if nothing had happened."""
    failed = False
    for frame in frames:
        if not failed and b'"finish_reason":"' in frame.data:
            failed = True
            yield Frame(b"data: " + dumps(_ERROR) + b"\n\n")
        yield frame


@fault("done.nothing-but-done", layer=Layer.SSE, breaks={"choice.count.equals-n"})
def _(frames: Frames, ctx: Context) -> Frames:
    """A stream has no chunk at all, only [DONE]."""
    return (frame for frame in frames if frame == DONE_FRAME)


@fault(
    "done.abort-as-success",
    layer=Layer.CHUNK,
    breaks={"finish.abort.is-error", "finish.reason.known", "stop.parity.with-plain", "stop.text.nothing-lost"},
    cases=("B1-015",),
    source="https://github.com/vllm-project/vllm/issues/57082",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The engine aborts: finish_reason is "abort", and [DONE] makes the stream look complete."""
    finished: set[int] = set()
    seen: dict[int, int] = {}
    for chunk in chunks:
        choice: dict[str, Any] | None = chunk["choices"][0] if chunk["choices"] else None
        if choice is None:
            yield chunk
            continue
        index = choice["index"]
        if index in finished:
            continue
        seen[index] = seen.get(index, 0) + 1
        if seen[index] < 4 and not choice["finish_reason"]:
            yield chunk
            continue
        finished.add(index)
        last = {**choice, "delta": {}, "logprobs": None, "finish_reason": "abort"}
        yield Chunk({**chunk, "choices": [last]})


@fault("legal.done-after-error", layer=Layer.SSE, breaks=())
def _(frames: Frames, ctx: Context) -> Frames:
    """A failed stream ends with an error event and [DONE], as vLLM's does."""
    for number, frame in enumerate(frames):
        if number == 5:
            yield Frame(b"data: " + dumps(_ERROR) + b"\n\n")
            yield DONE_FRAME
            return
        yield frame


@fault("legal.end-after-error", layer=Layer.SSE, breaks=())
def _(frames: Frames, ctx: Context) -> Frames:
    """A failed stream ends with an error event alone."""
    for number, frame in enumerate(frames):
        if number == 5:
            yield Frame(b"data: " + dumps(_ERROR) + b"\n\n")
            return
        yield frame


@fault("done.not-last", layer=Layer.SSE, breaks={"done.marker.once-and-last", "done.marker.every-finish"})
def _(frames: Frames, ctx: Context) -> Frames:
    """[DONE] comes first, content after it."""
    yield DONE_FRAME
    for frame in frames:
        if frame != DONE_FRAME:
            yield frame
