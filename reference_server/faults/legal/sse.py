"""Event streams that look odd and are right: nothing may fail here."""

import json
from collections.abc import Iterator
from dataclasses import replace

from ...answer import Emit, Frame, Step
from .. import Context, Layer, fault
from ..sse import between, each_event, is_chunk


@fault("legal.crlf", layer=Layer.SSE, breaks=())
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Lines end with CR and LF."""
    for frame in frames:
        yield replace(frame, data=frame.data.replace(b"\n", b"\r\n"))


@fault("legal.mixed-line-ends", layer=Layer.SSE, breaks=())
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Comments come from a proxy that ends lines with CR and LF, events from a server that does not."""
    yield from between(frames, b": proxy\r\n\r\n")


@fault("legal.comment-first", layer=Layer.SSE, breaks=())
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """A comment stands before the first event."""
    yield Frame(b": stream opened\n\n")
    yield from frames


@fault(
    "legal.comments-everywhere",
    layer=Layer.SSE,
    breaks=(),
    cases=("B1-196",),
    source="https://github.com/ggml-org/llama.cpp/pull/24013",
)
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Comments stand between events, a bare colon among them, and after [DONE]."""
    for frame in frames:
        yield frame
        yield Frame(b":\n\n")
        yield Frame(b": data: {}\n:\n: three lines, one of them looks like data\n\n")


@fault("legal.comment-inside-event", layer=Layer.SSE, breaks=())
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """A comment line belongs to the block of an event, before and after its data."""
    yield from each_event(frames, lambda data: b": before\n" + data[:-1] + b": after \xf0\x9f\x94\xa5\n\n")


@fault("legal.extra-blank-lines", layer=Layer.SSE, breaks=())
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Two or three blank lines stand between events, and one before the first."""
    yield Frame(b"\n")
    for number, frame in enumerate(frames):
        yield replace(frame, data=frame.data + b"\n" * (1 + number % 2))


@fault("legal.events-in-one-packet", layer=Layer.SOCKET, breaks=())
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """Three events at a time arrive in one packet, the head with the first of them."""
    held: list[Emit] = []
    for step in steps:
        if ctx.stream and isinstance(step, Emit) and step.after < 5:
            held.append(step)
            if len(held) < 3:
                continue
            step, held = _joined(held), []
        elif held:
            yield _joined(held)
            held = []
        yield step


def _joined(steps: list[Emit]) -> Emit:
    return Emit(b"".join(step.data for step in steps), sum(step.after for step in steps))


@fault("legal.events-cut-anywhere", layer=Layer.SSE, breaks=())
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """HTTP chunks end in the middle of events and of characters."""
    for frame in frames:
        for start in range(0, len(frame.data), 13):
            yield Frame(frame.data[start : start + 13], 0.0 if start else frame.after)


@fault("legal.stream-ascii-escapes", layer=Layer.SSE, breaks=())
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Chunks are ASCII with spaces after commas, as Python writes JSON by default."""
    for frame in frames:
        escaped = (
            b"data: " + json.dumps(json.loads(frame.data[6:])).encode() + b"\n\n" if is_chunk(frame) else frame.data
        )
        yield replace(frame, data=escaped)


@fault("legal.keepalive-chunks", layer=Layer.SSE, breaks=())
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Keep-alives are whole chunks with `choices: []`."""
    last = b""
    for frame in frames:
        yield frame
        if is_chunk(frame) and not last:
            last = json.dumps({**json.loads(frame.data[6:]), "choices": []}).encode()
            yield Frame(b"data: " + last + b"\n\n")


@fault("legal.unicode-separators", layer=Layer.CHUNK, breaks=())
def _(chunks: Iterator[dict[str, object]], ctx: Context) -> Iterator[dict[str, object]]:
    """Chunks hold raw U+2028 and U+0085, which do not end a line here, in a field of their own."""
    for chunk in chunks:
        chunk["note"] = "one\u2028two\u0085three\ufeff"
        yield chunk


@fault("legal.unknown-field", layer=Layer.SSE, breaks=())
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Events carry a field that the standard does not know, and tells parsers to ignore."""
    for frame in frames:
        yield Frame(b"trace: 7f3a\n" + frame.data, frame.after) if frame.data.startswith(b"data:") else frame
