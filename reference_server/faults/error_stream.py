"""Streams that fail half-way, and say so in a form that clients pass over."""

from collections.abc import Iterator
from typing import Any

from ..answer import DONE_FRAME, Frame
from ..protocol import dumps
from . import Context, Layer, fault

Frames = Iterator[Frame]
_ERROR = {"message": "the engine failed", "type": "server_error", "param": None, "code": None}


def _failing(frames: Frames, value: Any, name: bytes = b"") -> Frames:
    """The first frames, then an event with this value, and the end."""
    for number, frame in enumerate(frames):
        if number == 5:
            yield Frame(name + b"data: " + dumps(value) + b"\n\n")
            yield DONE_FRAME
            return
        yield frame


@fault("error.stream-flat", layer=Layer.SSE, breaks={"error.stream.wrapped"})
def _(frames: Frames, ctx: Context) -> Frames:
    """The error of a failed stream lies flat in its event: clients see a chunk without choices."""
    return _failing(frames, {"object": "error", **_ERROR, "code": 500})


@fault("error.stream-string", layer=Layer.SSE, breaks={"error.stream.wrapped"})
def _(frames: Frames, ctx: Context) -> Frames:
    """The error of a failed stream is a string."""
    return _failing(frames, {"error": "the engine failed"})


@fault("error.stream-detail", layer=Layer.SSE, breaks={"error.stream.wrapped"})
def _(frames: Frames, ctx: Context) -> Frames:
    """A failed stream ends with FastAPI's `detail`."""
    return _failing(frames, {"detail": "Internal Server Error"})


@fault("error.stream-event-flat", layer=Layer.SSE, breaks={"error.stream.wrapped", "sse.event.data-only"})
def _(frames: Frames, ctx: Context) -> Frames:
    """A failed stream ends with `event: error` and a flat error."""
    return _failing(frames, _ERROR, b"event: error\n")


@fault("legal.error-event-named", layer=Layer.SSE, breaks={"sse.event.data-only"})
def _(frames: Frames, ctx: Context) -> Frames:
    """A failed stream ends with a wrapped error in an event called error: OpenAI's SDKs take it."""
    return _failing(frames, {"error": _ERROR}, b"event: error\n")


@fault("error.stream-bare", layer=Layer.SSE, breaks={"error.stream.members"})
def _(frames: Frames, ctx: Context) -> Frames:
    """The error of a failed stream has a message and nothing else."""
    return _failing(frames, {"error": {"message": "the engine failed"}})


@fault("error.stream-odd-members", layer=Layer.SSE, breaks={"error.stream.members", "error.code.string-or-null"})
def _(frames: Frames, ctx: Context) -> Frames:
    """The error of a failed stream has no type, a number as param, and the status as code."""
    return _failing(frames, {"error": {"message": "the engine failed", "type": None, "param": 7, "code": 500}})


@fault("error.stream-type-class", layer=Layer.SSE, breaks={"error.type.vocabulary"})
def _(frames: Frames, ctx: Context) -> Frames:
    """The type of an error in mid-stream is the name of a class, as in vLLM."""
    return _failing(frames, {"error": {**_ERROR, "type": "InternalServerError"}})
