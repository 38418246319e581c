"""Servers that hurt themselves: odd bodies, requests at the same time, bodies that were not read to their end."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

from ..answer import Close, How, HttpAnswer, Step
from . import Context, Layer, fault
from .request_edits import asked, crash_when, crashed, messages, replaced

Body = dict[str, Any]


@fault(
    "error.array-500",
    layer=Layer.HTTP,
    breaks={"error.fuzz.never-5xx"},
    cases=("B1-123",),
    source="https://github.com/vllm-project/vllm/issues/17038",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A body that is JSON but not an object gets a 500."""
    return crashed(answer) if ctx.http.body.strip() in (b"[]", b"null", b"7", b'"hello"') else answer


@fault("error.user-500", layer=Layer.HTTP, breaks={"error.fuzz.never-5xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A `user` that is not text gets a 500."""
    return crash_when(lambda body: isinstance(body.get("user"), (dict, list)), answer, ctx)


@fault("error.utf8-drops", layer=Layer.SOCKET, breaks={"error.fuzz.never-5xx"})
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """Bytes that are not UTF-8 kill the worker: the connection is reset without an answer."""
    try:
        ctx.http.body.decode()
    except UnicodeDecodeError:
        return iter([Close(How.RESET)]) if ctx.http.body.startswith(b"{") else steps
    return steps


@fault(
    "error.bias-many-500",
    layer=Layer.HTTP,
    breaks={"error.fuzz.never-5xx"},
    cases=("B1-129",),
    source="https://github.com/vllm-project/vllm/issues/55164",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """More entries in logit_bias than the kernel has places for shut the engine down."""
    return crash_when(lambda body: isinstance(found := body.get("logit_bias"), dict) and len(found) > 1024, answer, ctx)


@dataclass
class _Memory:
    """Whether the end of a body was left unread."""

    left: bool = False


@fault("error.body-left-unread", layer=Layer.HTTP, breaks={"error.server.survives"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The end of a refused body is read as the next request of its connection."""
    memory = ctx.state.memory(_Memory)
    if ctx.http.body.endswith(b" " * 2000):
        memory.left = True
        return answer
    if not memory.left:
        return answer
    memory.left = False
    error = {"message": "Invalid HTTP request received.", "type": "invalid_request_error", "param": None, "code": None}
    return replaced(answer, 400, "Bad Request", {"error": error})


def _late(ctx: Context) -> bool:
    """The second half of the flood."""
    said = json.dumps(messages(asked(ctx.http))[:1])
    return any(f'number {n}"' in said for n in range(16, 32))


def _overloaded(answer: HttpAnswer, status: int, reason: str, after: str | None) -> HttpAnswer:
    error = {"message": "Too many requests.", "type": "rate_limit_error", "param": None, "code": None}
    made = replaced(answer, status, reason, {"error": error})
    return HttpAnswer(made.status, made.reason, made.with_headers(retry_after=after), made.body, made.framing)


@fault(
    "error.overload-500",
    layer=Layer.HTTP,
    breaks={"error.overload.429-or-503"},
    cases=("B1-199",),
    source="https://github.com/tenstorrent/tt-inference-server/issues/863",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A full queue answers with a 500."""
    return crashed(answer, "The queue is full.") if _late(ctx) else answer


@fault("error.overload-reset", layer=Layer.SOCKET, breaks={"error.overload.429-or-503", "http.body.framed-exactly"})
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """A full queue resets two connections."""
    full = b"number 19" in ctx.http.body or b"number 29" in ctx.http.body
    return iter([Close(How.RESET)]) if full else steps


@fault("error.overload-unsaid", layer=Layer.HTTP, breaks={"error.overload.retry-after"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A 429 does not say when to retry."""
    return _overloaded(answer, 429, "Too Many Requests", None) if _late(ctx) else answer


@fault("error.overload-for-long", layer=Layer.HTTP, breaks={"error.overload.retry-after"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A 503 tells the client to retry in an hour."""
    return _overloaded(answer, 503, "Service Unavailable", "3600") if _late(ctx) else answer


@fault("error.overload-date-far", layer=Layer.HTTP, breaks={"error.overload.retry-after"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A 503 tells the client to retry at a date that is an hour away."""
    return _overloaded(answer, 503, "Service Unavailable", _in(3600, ctx)) if _late(ctx) else answer


def _in(seconds: float, ctx: Context) -> str:
    return formatdate(ctx.config.clock() + seconds, usegmt=True)


@fault("legal.overload-date", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Half of a flood is refused with 503 and a date to retry at."""
    return _overloaded(answer, 503, "Service Unavailable", _in(30, ctx)) if _late(ctx) else answer


@fault("legal.overload-429", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Half of a flood is refused with 429 and Retry-After."""
    return _overloaded(answer, 429, "Too Many Requests", "2") if _late(ctx) else answer
