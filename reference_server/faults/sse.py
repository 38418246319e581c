"""Event streams gone wrong in their lines and events."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

from ..answer import DONE_FRAME, HEARTBEAT, Frame, HttpAnswer
from . import Context, Layer, fault

_MATRIX = "https://github.com/openai/openai-python"


def is_chunk(frame: Frame) -> bool:
    """Whether the frame is the event of a chunk."""
    return frame.data.startswith(b"data: {")


def each_event(frames: Iterator[Frame], change: Callable[[bytes], bytes]) -> Iterator[Frame]:
    """The frames with the bytes of each event changed, [DONE] too; comments stay."""
    for frame in frames:
        yield replace(frame, data=change(frame.data)) if frame.data.startswith(b"data: ") else frame


def between(frames: Iterator[Frame], data: bytes) -> Iterator[Frame]:
    """The frames, with `data` after the first event and wherever a heartbeat was."""
    first = True
    for frame in frames:
        yield replace(frame, data=data) if frame.data == HEARTBEAT else frame
        if is_chunk(frame) and first:
            first = False
            yield Frame(data)


def _typed(answer: HttpAnswer, media: str) -> HttpAnswer:
    return replace(answer, headers=answer.with_headers(content_type=media)) if answer.stream else answer


@fault(
    "sse.typed-as-json",
    layer=Layer.HTTP,
    breaks={"sse.response.event-stream"},
    cases=("B1-002",),
    source="https://github.com/microsoft/foundry-dev-tools/issues/195",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A stream is declared as application/json."""
    return _typed(answer, "application/json")


@fault("sse.typed-as-text", layer=Layer.HTTP, breaks={"sse.response.event-stream"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A stream is declared as text/plain."""
    return _typed(answer, "text/plain; charset=utf-8")


@fault(
    "sse.accepted",
    layer=Layer.HTTP,
    breaks={"sse.response.event-stream"},
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A stream comes with status 202."""
    return replace(answer, status=202, reason="Accepted") if answer.stream else answer


@fault("sse.single-newlines", layer=Layer.SSE, breaks={"done.marker.exact", "sse.event.terminated"}, source=_MATRIX)
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Events are separated by one newline: all of them fuse into one."""
    yield from each_event(frames, lambda data: data[:-1])


@fault("sse.last-event-open", layer=Layer.SSE, breaks={"sse.event.terminated"})
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """The blank line after [DONE] is missing."""
    for frame in frames:
        yield replace(frame, data=b"data: [DONE]\n") if frame == DONE_FRAME else frame


@fault(
    "sse.two-chunks-in-one-event",
    layer=Layer.SSE,
    breaks={
        "choice.stream.independent",
        "chunk.content.increments",
        "chunk.parity.with-plain",
        "chunk.role.first",
        "done.choices.all-finished",
        "sse.event.one-json",
        "stop.parity.with-plain",
        "stop.text.nothing-lost",
    },
)
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Now and then the blank line between two chunks is missing."""
    for number, frame in enumerate(frames):
        yield replace(frame, data=frame.data[:-1]) if number == 1 and is_chunk(frame) else frame


@fault("sse.two-texts-in-one-line", layer=Layer.SSE, breaks={"sse.event.one-json"})
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """A keep-alive chunk without choices is written twice into one data line."""
    first = b""
    for frame in frames:
        yield frame
        if is_chunk(frame) and not first:
            first = json.dumps({**json.loads(frame.data[6:]), "choices": []}).encode()
            yield Frame(b"data: " + first + first + b"\n\n")


@fault(
    "sse.comment-as-data",
    layer=Layer.SSE,
    breaks={"sse.event.one-json"},
    cases=("B1-009",),
    source="https://github.com/mnfst/llm-gateway/issues/2053",
)
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """A gateway wraps the comments of the server behind it in data fields."""
    yield from between(frames, b"data: : UPSTREAM PROCESSING\n\n")


@fault("sse.number-as-event", layer=Layer.SSE, breaks={"sse.event.one-json"})
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """A keep-alive is a JSON number."""
    yield from between(frames, b"data: 0\n\n")


def _indented(data: bytes) -> bytes:
    if not data.startswith(b"data: {"):
        return data
    return b"data: %s\n\n" % json.dumps(json.loads(data[6:]), ensure_ascii=False, indent=1).encode()


@fault("sse.raw-line-breaks", layer=Layer.SSE, breaks={"sse.line.known-field"})
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """The JSON is indented, with raw line breaks."""
    yield from each_event(frames, _indented)


@fault("sse.no-data-prefix", layer=Layer.SSE, breaks={"sse.line.known-field"})
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Chunks come without `data:` in front of them."""
    yield from each_event(frames, lambda data: data.removeprefix(b"data: ") if data[6:7] == b"{" else data)


@fault("sse.indented-lines", layer=Layer.SSE, breaks={"sse.line.known-field"})
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """A space stands before each `data:` of a chunk."""
    yield from each_event(frames, lambda data: b" " + data if data[6:7] == b"{" else data)


@fault("sse.several-data-lines", layer=Layer.SSE, breaks={"sse.line.canonical"})
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """The JSON is indented, each line with its own `data:`: legal, and too much for many clients."""
    yield from each_event(frames, lambda data: _indented(data)[:-2].replace(b"\n", b"\ndata: ") + b"\n\n")


@fault(
    "sse.no-space-after-data",
    layer=Layer.SSE,
    breaks={"sse.line.canonical"},
    cases=("B1-195",),
    source="https://github.com/openai/openai-python/issues/498",
)
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """No space follows `data:`: legal, and too much for many clients."""
    yield from each_event(frames, lambda data: b"data:" + data[6:])


@fault("sse.two-spaces-after-data", layer=Layer.SSE, breaks={"sse.line.canonical"})
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Two spaces follow the `data:` of a chunk."""
    yield from each_event(frames, lambda data: b"data:  " + data[6:] if data[6:7] == b"{" else data)


@fault("sse.bare-cr", layer=Layer.SSE, breaks={"sse.line.lf"})
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Lines end with a carriage return: legal, and one endless line for most parsers."""
    for frame in frames:
        yield replace(frame, data=frame.data.replace(b"\n", b"\r"))


@fault("sse.ping-without-data", layer=Layer.SSE, breaks={"sse.event.has-data"}, source=_MATRIX)
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """A keep-alive is `event: ping` without data."""
    yield from between(frames, b"event: ping\n\n")


@fault("sse.retry-alone", layer=Layer.SSE, breaks={"sse.event.has-data"}, source=_MATRIX)
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """The stream begins with `retry: 3000` as a block of its own."""
    yield Frame(b"retry: 3000\n\n")
    yield from frames


@fault(
    "sse.empty-data",
    layer=Layer.SSE,
    breaks={"sse.event.data-not-empty"},
    cases=("B1-012",),
    source="https://github.com/netease-lcap/wave-agent/issues/1326",
)
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """A keep-alive is an empty data line."""
    yield from between(frames, b"data:\n\n")


@fault(
    "sse.ids-and-heartbeats",
    layer=Layer.SSE,
    breaks={"sse.id.no-idle-block-after", "sse.event.data-only"},
    cases=("B1-008",),
    source="https://github.com/theopenco/llmgateway/issues/2334",
)
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Events have ids, and comments come between them."""
    for number, frame in enumerate(between(frames, b": ping\n\n")):
        yield replace(frame, data=b"id: %d\n" % number + frame.data) if is_chunk(frame) else frame


@fault("sse.ids", layer=Layer.SSE, breaks={"sse.event.data-only"})
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Events have ids: harmless as long as no heartbeat follows."""
    for number, frame in enumerate(f for f in frames if f.data != HEARTBEAT):
        yield replace(frame, data=b"id: %d\n" % number + frame.data)


@fault("sse.event-names", layer=Layer.SSE, breaks={"sse.event.data-only"})
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Each event is named `message`: legal, and not data-only."""
    yield from each_event(frames, lambda data: b"event: message\n" + data)


@fault("sse.retry-in-event", layer=Layer.SSE, breaks={"sse.event.data-only"})
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """The first event sets the time to reconnect: legal, and not data-only."""
    for number, frame in enumerate(frames):
        yield replace(frame, data=b"retry: 3000\n" + frame.data) if not number and is_chunk(frame) else frame


@fault("sse.ping-object", layer=Layer.SSE, breaks={"sse.heartbeat.is-comment"}, source=_MATRIX)
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """A keep-alive is an object with the type ping."""
    yield from between(frames, b'data: {"type": "ping"}\n\n')


@fault("sse.empty-object", layer=Layer.SSE, breaks={"sse.heartbeat.is-comment"}, source=_MATRIX)
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """A keep-alive is an empty object."""
    yield from between(frames, b"data: {}\n\n")
