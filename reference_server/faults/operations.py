"""Servers that serve one at a time, mix up their clients, stall, or move what stood still."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..answer import Chunk, Close, Emit, Frame, Framing, How, HttpAnswer, HttpRequest, Piece, PieceKind, Step
from . import Context, Layer, fault
from .http import is_plain, stream_was_asked, with_body


@dataclass
class _Memory:
    """What such a server remembers."""

    active: list[object] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    stalls: int = 0
    answers: int = 0


def _memory(ctx: Context) -> _Memory:
    return ctx.state.memory(_Memory)


def refused(answer: HttpAnswer, status: int, reason: str, message: str, code: str | None = None) -> HttpAnswer:
    """A well-formed refusal in place of an answer."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    data = json.dumps({"error": error}).encode()
    headers = answer.with_headers(
        content_type="application/json",
        content_length=str(len(data)),
        transfer_encoding=None,
        retry_after="5" if status == 503 else None,
        cache_control=None,
        x_accel_buffering=None,
    )
    return HttpAnswer(status, reason, headers, iter([Frame(data)]), Framing.LENGTH)


# -- one at a time -----------------------------------------------------------------------


def _in_turn(steps: Iterator[Step], memory: _Memory, pause: float) -> Iterator[Step]:
    """The steps, once it is this answer's turn."""
    me = object()
    memory.active.append(me)
    try:
        while memory.active[0] is not me:
            yield Emit(b"", pause)
        yield from steps
    finally:
        memory.active.remove(me)


@fault(
    "operations.one-stream-at-a-time",
    layer=Layer.SOCKET,
    breaks={"operations.streams.parallel"},
)
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """A stream waits until the one before it has ended; not even its head is sent before."""
    return _in_turn(steps, _memory(ctx), 0.01) if ctx.stream else steps


@fault(
    "operations.batch-hangs",
    layer=Layer.SOCKET,
    breaks={"operations.streams.all-end"},
    cases=("B1-106",),
    source="https://github.com/InternLM/lmdeploy/issues/3144",
)
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """Of more than four streams at a time the later ones never begin."""
    memory, me = _memory(ctx), object()
    if not ctx.stream:
        return steps

    def answered() -> Iterator[Step]:
        memory.active.append(me)
        hangs = len(memory.active) > 4
        try:
            while hangs:
                yield Emit(b"", 1.0)
            yield from steps
        finally:
            memory.active.remove(me)

    return answered()


# -- whose answer is it? -------------------------------------------------------------------


def _is_nonce(ctx: Context) -> bool:
    return b"quartz-" in ctx.http.body


def _number(ctx: Context) -> int:
    at = ctx.http.body.find(b"quartz-") + 7
    return int(ctx.http.body[at : at + 2])


@fault(
    "operations.cache-mixed",
    layer=Layer.MESSAGE,
    breaks={"operations.nonce.no-mixing", "schema.strict.valid"},
    cases=("B1-102", "B1-103"),
    source="https://github.com/ml-explore/mlx-lm/issues/965",
)
def _(body: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """In a full batch one answer is made from the prompt of another request."""
    return _of_another(body, ctx, 4) if _is_nonce(ctx) and _number(ctx) == 6 else body


@fault(
    "operations.streams-swapped",
    layer=Layer.REQUEST,
    breaks={"operations.nonce.no-mixing", "schema.stream.same-guarantee"},
    source="https://github.com/vllm-project/vllm/issues/13408",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Two streams of one batch get each other's words; plain answers are right."""
    streamed = stream_was_asked(replace(ctx, http=request))
    pairs = ((5, 7), (7, 5)) if streamed else ()
    other = next((theirs for mine, theirs in pairs if _word(mine).encode() in request.body), None)
    return request if other is None else _as_another(request, other)


@fault(
    "operations.streams-by-request-id",
    layer=Layer.REQUEST,
    breaks={"operations.nonce.no-mixing", "schema.stream.same-guarantee"},
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Streams with one X-Request-Id get the words of the first of them: tokens are handed out by that id."""
    own, asking = request.header("x-request-id"), replace(ctx, http=request)
    if own is None or not _is_nonce(asking) or not stream_was_asked(asking):
        return request
    return _as_another(request, _memory(ctx).ids.setdefault(own, _number(asking)))


@fault(
    "operations.answers-by-request-id",
    layer=Layer.MESSAGE,
    breaks={"operations.nonce.no-mixing", "schema.strict.valid"},
    cases=("B1-101",),
    source="https://github.com/ray-project/ray/issues/45723",
)
def _(body: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Requests with one X-Request-Id get the answer of the first of them."""
    own = ctx.http.header("x-request-id")
    if own is None or not _is_nonce(ctx):
        return body
    first = _memory(ctx).ids.setdefault(own, _number(ctx))
    return _of_another(body, ctx, first)


def _as_another(request: HttpRequest, number: int) -> HttpRequest:
    """The request as if it had asked for the word of another one."""
    at = request.body.find(b"quartz-")
    mine = request.body[at : at + len(_word(0))]
    return replace(request, body=request.body.replace(mine, _word(number).encode()))


def _word(number: int) -> str:
    """The word of one of the parallel requests."""
    return f"quartz-{number:02}-{(number + 3) * 7919 % 9973:04}"


def _of_another(body: dict[str, Any], ctx: Context, number: int) -> dict[str, Any]:
    """The body with the word of another request in place of its own."""
    mine, other = _word(_number(ctx)), _word(number)
    changed: dict[str, Any] = json.loads(json.dumps(body).replace(mine, other))
    return changed


@fault(
    "operations.shared-id-hangs",
    layer=Layer.MODEL,
    breaks={"operations.request-id.shared"},
    cases=("B1-100",),
    source="https://github.com/vllm-project/vllm/issues/10583",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A plain request with the id of one that is running is never answered."""
    own, memory = ctx.http.header("x-request-id"), _memory(ctx)
    if own is None or ctx.stream:
        return pieces

    def answered() -> Iterator[Piece]:
        hangs = memory.ids.get(own, 0) > 0
        memory.ids[own] = memory.ids.get(own, 0) + 1
        try:
            while hangs:
                yield Piece(0, PieceKind.TEXT, after=1.0)
            yield from pieces
        finally:
            memory.ids[own] -= 1

    return answered()


# -- stalls and costs ------------------------------------------------------------------------


@fault("operations.schema-stalls-all", layer=Layer.SOCKET, breaks={"operations.schema.no-stall"})
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """The grammar of a large schema is compiled in the engine's loop: every stream stands still for four seconds."""
    memory = _memory(ctx)
    if b"stall-00100" in ctx.http.body:
        memory.stalls += 1
        return steps

    def stalled() -> Iterator[Step]:
        seen = memory.stalls
        for step in steps:
            if memory.stalls > seen:
                seen = memory.stalls
                yield Emit(b"", 4.0)
            yield step

    return stalled() if ctx.stream else steps


@fault("operations.slow-without-logprobs", layer=Layer.MODEL, breaks={"operations.logprobs.opt-in-cost"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A plain answer is slow unless it has log probabilities: only then does the fast sampler run."""
    slow = ctx.chat is not None and not ctx.chat.stream and not ctx.chat.logprobs
    for piece in pieces:
        yield replace(piece, after=piece.after + 0.006) if slow else piece


# -- endpoints ---------------------------------------------------------------------------------


@fault("operations.query-unknown", layer=Layer.HTTP, breaks={"operations.prefix.v1"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The server matches the path together with its query string: whatever a gateway adds leads to a 404."""
    if "?" not in ctx.http.target:
        return answer
    return refused(answer, 404, "Not Found", f"Unknown request URL: {ctx.http.target}.", "unknown_url")


@fault(
    "operations.h2c-loses-body",
    layer=Layer.HTTP,
    breaks={"operations.upgrade.h2c-ignored"},
    cases=("B1-133", "B1-134"),
    source="https://github.com/vllm-project/vllm/issues/57203",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A request that offers an upgrade to h2c loses its body."""
    lost = (ctx.http.header("upgrade") or "").lower() == "h2c"
    return refused(answer, 400, "Bad Request", "body: field required, input None.") if lost else answer


@fault(
    "operations.body-limit-50k",
    layer=Layer.HTTP,
    breaks={"operations.body.256k-accepted"},
    cases=("B1-138",),
    source="https://github.com/janhq/jan/issues/3673",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A body of more than 50 KB gets a 413: the default of a web framework."""
    if not 50_000 < len(ctx.http.body) < 1_000_000:
        return answer
    return refused(answer, 413, "Payload Too Large", "The body is larger than 51200 bytes.", "request_too_large")


@fault(
    "operations.gzip-crashes",
    layer=Layer.HTTP,
    breaks={"operations.encoding.request-gzip"},
    cases=("B1-145",),
    source="https://github.com/ollama/ollama/issues/12386",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A compressed request body is read as text, which ends in a 500."""
    packed = (ctx.http.header("content-encoding") or "") == "gzip"
    return refused(answer, 500, "Internal Server Error", "'utf-8' codec can't decode byte 0x8b") if packed else answer


@fault(
    "operations.idle-5s",
    layer=Layer.SOCKET,
    breaks={"operations.keep-alive.idle"},
    cases=("B1-135",),
    source="https://github.com/llm-d/llm-d/issues/1564",
)
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """A connection is closed after five idle seconds, and no header says so."""
    for step in steps:
        yield Close(How.KEEP, 5.0) if isinstance(step, Close) and step.how is How.KEEP else step


@fault("operations.deprecation-true", layer=Layer.HTTP, breaks={"operations.deprecation.header"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """`Deprecation: true`, as in an early draft: it says neither since when nor until when."""
    return replace(answer, headers=answer.with_headers(deprecation="true")) if is_plain(answer, ctx) else answer


@fault("operations.sunset-soon", layer=Layer.HTTP, breaks={"operations.deprecation.header"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A deprecation is announced two weeks ahead."""
    if not is_plain(answer, ctx):
        return answer
    headers = answer.with_headers(deprecation="@1780272000", sunset="Mon, 15 Jun 2026 00:00:00 GMT")
    return replace(answer, headers=headers)


@fault("operations.health-503", layer=Layer.HTTP, breaks={"operations.health.ok"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """/health says 503 though the server answers requests."""
    sick = ctx.http.path == "/health"
    return refused(answer, 503, "Service Unavailable", "The health check of the engine timed out.") if sick else answer


@fault("operations.no-waiting-gauge", layer=Layer.HTTP, breaks={"operations.metrics.gauges"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """/metrics does not show how many requests wait."""
    return _metrics(answer, ctx, b"num_requests_waiting", b"num_requests_delayed")


@fault(
    "operations.gauge-below-zero",
    layer=Layer.HTTP,
    breaks={"operations.metrics.gauges"},
    cases=("B1-100",),
    source="https://github.com/vllm-project/vllm/issues/10583",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The gauge of waiting requests is below zero: two requests had one id."""
    label = f'{{model_name="{ctx.config.model}"}}'.encode()
    name = b"num_requests_waiting" + label
    return _metrics(answer, ctx, name + b" 0.0", name + b" -1.0")


def _metrics(answer: HttpAnswer, ctx: Context, old: bytes, new: bytes) -> HttpAnswer:
    return with_body(answer, lambda text: text.replace(old, new)) if ctx.http.path == "/metrics" else answer


# -- a contract that moves -----------------------------------------------------------------------


@fault("operations.member-now-and-then", layer=Layer.MESSAGE, breaks={"operations.members.repeat"})
def _(body: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Every other answer has a member with the time that it took."""
    memory = _memory(ctx)
    memory.answers += "choices" in body
    return {**body, "timings": {"total_ms": 12}} if "choices" in body and memory.answers % 2 else body


@fault("operations.clock-an-hour-off", layer=Layer.MESSAGE, breaks={"operations.clock.sane"})
def _(body: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """`created` is local time: an hour off."""
    return {**body, "created": body["created"] + 3600} if "choices" in body else body


@fault("operations.stream-clock-off", layer=Layer.CHUNK, breaks={"operations.clock.sane"})
def _(chunks: Iterator[Chunk], ctx: Context) -> Iterator[dict[str, Any]]:
    """`created` of a stream is when the model was loaded: ten hours ago."""
    for chunk in chunks:
        yield chunk.changed(created=chunk["created"] - 36_000)


def nginx(answer: HttpAnswer, **more: str | None) -> HttpAnswer:
    """The head as nginx writes it."""
    return replace(answer, headers=answer.with_headers(server="nginx", **more))


@fault(
    "operations.proxy-in-blocks",
    layer=Layer.HTTP,
    breaks={"operations.proxy.incremental", "sse.header.no-proxy-buffering", "sse.heartbeat.every-15s"},
    cases=("B1-142",),
    source="https://github.com/LostRuins/koboldcpp/issues/1168",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """nginx with its default settings gathers 4 KB before it sends: the server did not tell it not to."""
    return replace(nginx(answer, x_accel_buffering=None), body=_blocks(answer.body)) if answer.stream else nginx(answer)


def _blocks(frames: Iterator[Frame], size: int = 4096) -> Iterator[Frame]:
    held = b""
    for frame in frames:
        held += frame.data
        ready, held = (held, b"") if len(held) >= size else (b"", held)
        yield replace(frame, data=ready)  # an empty one lets its time pass: who waits for a place waits for that
    yield Frame(held)
