"""Servers that do not notice, or do not bear, that a client leaves.

In memory and live the same: when a client leaves, the iterators of its answer are closed. A server that is deaf to it
lets the model work on instead, as an orphan in the server's state.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..answer import Close, Emit, How, HttpAnswer, Piece, Step
from ..state import Orphan
from . import Context, Layer, fault
from .http import with_body


@dataclass
class _Memory:
    """What such a server remembers."""

    left: int = 0
    early: int = 0
    ids: set[str] = field(default_factory=set)
    held: float = 0.0
    leaked: float = 0.0


def _memory(ctx: Context) -> _Memory:
    return ctx.state.memory(_Memory)


class _Watched:
    """The pieces of an answer; `on_left` hears that the client left, and whether a token had been sent by then."""

    def __init__(self, pieces: Iterator[Piece], on_left: Callable[[bool], None]) -> None:
        self._pieces, self._on_left = pieces, on_left
        self._pulled = self._begun = self._over = False

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        self._begun = self._pulled  # the piece before this one
        self._pulled = True
        try:
            return next(self._pieces)
        except StopIteration:
            self._over = True
            raise

    def close(self) -> None:
        if not self._over:
            self._over = True
            self._on_left(self._begun)


def _deaf(
    pieces: Iterator[Piece], ctx: Context, when: Callable[[bool], bool], *, hidden: bool = False
) -> Iterator[Piece]:
    """The model works on though the client has left, when `when` says so; `hidden` from the gauge of what runs."""

    def on_left(begun: bool) -> None:
        if when(begun):
            ctx.state.orphans.append(Orphan((Emit(b"", piece.after) for piece in pieces), counted=hidden))

    return _Watched(pieces, on_left)


def deaf_for(pieces: Iterator[Piece], ctx: Context, seconds: float) -> Iterator[Piece]:
    """The model works on for some time."""

    def rest() -> Iterator[Step]:
        worked = 0.0
        for piece in pieces:
            worked += piece.after
            yield Emit(b"", piece.after)
            if worked >= seconds:
                return

    return _Watched(pieces, lambda _: ctx.state.orphans.append(Orphan(rest())))


def _left(steps: Iterator[Step], on_left: Callable[[bool], None]) -> Iterator[Step]:
    """The steps of a stream; `on_left` hears that the client left, and whether it had seen an event by then."""
    begun = over = False
    try:
        for step in steps:
            over = isinstance(step, Close)
            yield step
            begun = begun or (isinstance(step, Emit) and b"data: " in step.data)
    except GeneratorExit:
        if not over:
            on_left(begun)
        raise


def _choices(ctx: Context) -> int:
    return ctx.chat.n if ctx.chat is not None else 0


@fault(
    "cancel.stream-goes-on",
    layer=Layer.MODEL,
    breaks={"cancel.stream.aborts", "cancel.black-box.aborts", "cancel.gpu.aborts", "cancel.structured.aborts"},
    cases=("B1-089",),
    source="https://github.com/ggml-org/llama.cpp/issues/24496",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The server generates a stream to its end though the client has left."""
    return _deaf(pieces, ctx, lambda begun: begun) if ctx.stream and _choices(ctx) == 1 else pieces


@fault(
    "cancel.plain-goes-on",
    layer=Layer.MODEL,
    breaks={"cancel.plain.aborts"},
    cases=("B1-093",),
    source="https://github.com/ROCm/ATOM/issues/1562",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The server generates a plain answer to its end though nobody waits for it: it watches only streams."""
    return pieces if ctx.stream or _choices(ctx) == 0 else _deaf(pieces, ctx, lambda _: True)


@fault(
    "cancel.prefill-goes-on",
    layer=Layer.MODEL,
    breaks={"cancel.before-first-byte.aborts", "cancel.queued.aborts"},
    cases=("B1-092", "B1-094"),
    source="https://github.com/ikawrakow/ik_llama.cpp/issues/1020",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The server checks for the client only when it can send a token: it does not notice one that leaves before."""
    return _deaf(pieces, ctx, lambda begun: not begun) if ctx.stream else pieces


@fault(
    "cancel.gauge-falls-only",
    layer=Layer.MODEL,
    breaks={"cancel.black-box.aborts", "cancel.gpu.aborts", "cancel.counters.settle"},
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The gauge falls when a client leaves its stream, but the model works on: the handler ends, its task does not."""
    if not ctx.stream or _choices(ctx) != 1:
        return pieces
    return _deaf(pieces, ctx, lambda begun: begun, hidden=True)


@fault("cancel.grammar-goes-on", layer=Layer.MODEL, breaks={"cancel.structured.aborts"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The server does not notice when the client of a request with a schema leaves: it waits in another queue."""
    forced = ctx.chat is not None and ctx.chat.response_format.kind == "json_schema"
    return _deaf(pieces, ctx, lambda _: True) if ctx.stream and forced else pieces


@fault("cancel.queue-goes-on", layer=Layer.SOCKET, breaks={"cancel.queued.aborts"})
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """The server does not notice a client that leaves the queue: its request waits for its turn, and is answered."""
    if not ctx.stream:
        return steps
    waiting = False

    def watched() -> Iterator[Step]:
        nonlocal waiting
        for step in steps:
            waiting = isinstance(step, Emit) and not step.data
            yield step

    def on_left(_: bool) -> None:
        if waiting:
            ctx.state.orphans.append(Orphan(steps))

    return _left(watched(), on_left)


@fault("cancel.one-of-n", layer=Layer.MODEL, breaks={"cancel.all-sequences.abort"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Of several choices only the first is aborted."""
    return _deaf(pieces, ctx, lambda _: True) if ctx.stream and _choices(ctx) > 1 else pieces


@fault(
    "cancel.router-goes-on",
    layer=Layer.MODEL,
    breaks={
        "cancel.stream.aborts",
        "cancel.black-box.aborts",
        "cancel.gpu.aborts",
        "cancel.plain.aborts",
        "cancel.before-first-byte.aborts",
        "cancel.queued.aborts",
        "cancel.structured.aborts",
        "cancel.all-sequences.abort",
    },
    cases=("B1-095",),
    source="https://github.com/sgl-project/sglang/issues/39461",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A router in front keeps its own connection to the engine when its client leaves: all answers go on."""
    return _deaf(pieces, ctx, lambda _: True) if _choices(ctx) else pieces


@fault(
    "cancel.aborts-by-prefix",
    layer=Layer.SOCKET,
    breaks={
        "cancel.others.undisturbed",
        "done.choices.all-finished",
        "done.marker.exact",
        "http.body.framed-exactly",
    },
    cases=("B1-095",),
    source="https://github.com/sgl-project/sglang/issues/39461",
)
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """An abort ends every request whose id begins with the aborted one's, and their clients never hear of it."""
    own, memory = ctx.http.header("x-request-id"), _memory(ctx)
    if own is None or not ctx.stream:
        return steps

    def answered() -> Iterator[Step]:
        for step in _left(steps, lambda _: memory.ids.add(own)):
            while any(own != other and own.startswith(other) for other in memory.ids):
                yield Emit(b"", 1.0)
            yield step

    return answered()


@fault(
    "cancel.id-still-aborting",
    layer=Layer.SOCKET,
    breaks={"operations.request-id.reused-after-cancel"},
    cases=("B1-099",),
    source="https://github.com/vllm-project/vllm/issues/23697",
)
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """The server takes the next request with an aborted one's id for the aborted one, and never answers it."""
    own, memory = ctx.http.header("x-request-id"), _memory(ctx)
    if own is None:
        return steps
    if own in memory.ids:
        return iter([Emit(b"", 1.0)] * 100)
    return _left(steps, lambda _: memory.ids.add(own))


def _refusal(status: int, reason: str, message: str) -> bytes:
    """A whole refusal, as bytes: on this layer there is no other form."""
    error = {"message": message, "type": "server_error", "param": None, "code": None}
    body = json.dumps({"error": error}).encode()
    head = f"HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return f"{head}retry-after: 1\r\nx-request-id: req_busy_{status}\r\n\r\n".encode() + body


@fault("cancel.dies-of-many", layer=Layer.SOCKET, breaks={"cancel.many.still-serves"})
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """Each stream whose client leaves keeps a worker: after twenty-five the server answers no request for a while."""
    memory = _memory(ctx)
    if ctx.chat is None:
        return steps
    if memory.left >= 25 and not ctx.stream:
        memory.left = 0  # a supervisor starts it again
        return iter([Emit(_refusal(500, "Internal Server Error", "EngineCore is dead.")), Close(How.KEEP)])

    def on_left(begun: bool) -> None:
        memory.left += begun

    return _left(steps, on_left) if ctx.stream else steps


@fault(
    "cancel.early-leaks-a-place",
    layer=Layer.SOCKET,
    breaks={"cancel.early.no-leak"},
    cases=("B1-209",),
    source="https://github.com/vllm-project/vllm-ascend/issues/10812",
)
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """A counter of running requests is not lowered for clients that leave before the stream begins."""
    memory = _memory(ctx)
    if ctx.chat is None:
        return steps
    if memory.early >= 5 and not ctx.stream:
        memory.early = 0
        return iter([Emit(_refusal(429, "Too Many Requests", "Too many requests are running.")), Close(How.KEEP)])

    def on_left(begun: bool) -> None:
        memory.early += not begun

    return _left(steps, on_left) if ctx.stream else steps


def _metrics(answer: HttpAnswer, ctx: Context, change: Callable[[bytes], bytes]) -> HttpAnswer:
    return with_body(answer, change) if ctx.http.path == "/metrics" and answer.status == 200 else answer


_ABORTS = re.compile(rb'(request_success_total\{finished_reason="abort",[^}]*\}) (\S+)')
_STOPS = re.compile(rb'(request_success_total\{finished_reason="stop",[^}]*\}) (\S+)')


@fault("cancel.counted-as-success", layer=Layer.HTTP, breaks={"cancel.counted-as-aborted"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Aborted requests are counted as answers that ended by themselves."""

    def change(text: bytes) -> bytes:
        aborts = float(found.group(2)) if (found := _ABORTS.search(text)) else 0.0
        text = _ABORTS.sub(rb"\1 0.0", text)
        return _STOPS.sub(lambda m: m.group(1) + b" %.1f" % (float(m.group(2)) + aborts), text)

    return _metrics(answer, ctx, change)


_HELD = re.compile(rb"(kv_cache_usage_perc\{[^}]*\}) (\S+)")


@fault("cancel.cache-leaks", layer=Layer.HTTP, breaks={"cancel.counters.settle"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The blocks of an aborted request stay in the KV cache."""
    memory = _memory(ctx)

    def leaking(m: "re.Match[bytes]") -> bytes:
        held = float(m.group(2))
        memory.leaked += max(memory.held - held, 0.0)
        memory.held = held
        return m.group(1) + b" %.9f" % (held + memory.leaked)

    def change(text: bytes) -> bytes:
        return _HELD.sub(leaking, text)

    return _metrics(answer, ctx, change)


_MADE = re.compile(rb"(generation_tokens_total\{[^}]*\}) (\S+)")


@fault("cancel.counter-goes-on", layer=Layer.HTTP, breaks={"cancel.counters.settle"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The gauge falls when a client leaves, but the server makes and counts tokens as before."""
    memory = _memory(ctx)
    memory.left += 1
    return _metrics(
        answer, ctx, lambda text: _MADE.sub(lambda m: m.group(1) + b" %.1f" % (float(m.group(2)) + memory.left), text)
    )
