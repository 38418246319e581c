"""Several calls: one index or id for all, mixed up, dropped, or made where one was asked for."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..answer import ApiError, Piece, PieceKind, invalid
from ..request import ChatRequest
from . import Context, Layer, fault
from .call_edits import each_fragment, fragments_of, with_delta
from .edits import made_like

Body = dict[str, Any]
Chunks = Iterator[Body]


@fault(
    "parallel.index-always-zero",
    layer=Layer.CHUNK,
    breaks={"parallel.index.distinct"},
    cases=("B2-031",),
    source="https://github.com/ollama/ollama/issues/15457",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Every call of a stream has index 0."""
    yield from each_fragment(chunks, lambda call, first: call.update(index=0))


def _later(chunks: Chunks, ctx: Context) -> Chunks:
    """A stream with one choice in which the rest of the first call is held back until the second has begun."""
    held: list[Body] = []
    for chunk in chunks:
        calls = fragments_of(chunk)
        if held and (not calls or calls[0]["index"] > 0):
            if calls:
                yield chunk
            yield from (made_like(c, c["choices"]) for c in held)
            held = []
            if not calls:
                yield chunk
        elif calls and calls[0]["index"] == 0 and "id" not in calls[0] and ctx.chat and ctx.chat.n == 1:
            held.append(chunk)
        else:
            yield chunk


@fault("parallel.interleaved", layer=Layer.CHUNK, breaks={"parallel.calls.sequential"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The arguments of the first call come when the second has begun."""
    yield from _later(chunks, ctx)


@fault("parallel.two-in-one-delta", layer=Layer.CHUNK, breaks={"parallel.chunk.one-entry"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The end of a call and the beginning of the next are in one delta."""
    held: Body | None = None
    for chunk in chunks:
        calls = fragments_of(chunk)
        if held is not None:
            if calls and "id" in calls[0]:
                chunk = with_delta(chunk, {"tool_calls": [*fragments_of(held), *calls]})
                calls = []
            else:
                yield held
        held = chunk if calls and "id" not in calls[0] and ctx.chat and ctx.chat.n == 1 else None
        if held is None:
            yield chunk
    if held is not None:
        yield held


@fault(
    "parallel.false-ignored",
    layer=Layer.PARAMS,
    breaks={"parallel.false.at-most-one"},
    cases=("B2-092",),
    source="https://github.com/vllm-project/vllm/issues/9451",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """parallel_tool_calls false is accepted and ignored."""
    return replace(chat, parallel=True)


@fault(
    "parallel.only-first-parsed",
    layer=Layer.MODEL,
    breaks={
        "parallel.calls.possible",
        "tool.content.no-markup",
        "toolstream.content.before-calls",
        "toolstream.content.no-markup",
    },
    cases=("B2-094",),
    source="https://github.com/ggml-org/llama.cpp/issues/14101",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Only the first of several calls is parsed; the others stay in the text."""
    for piece in pieces:
        if piece.kind is PieceKind.CALL_START and piece.call > 0:
            yield replace(piece, kind=PieceKind.TEXT, text=f'<tool_call>{{"name": "{piece.name}", "arguments": ')
        elif piece.kind is PieceKind.CALL_ARGS and piece.call > 0:
            yield replace(piece, kind=PieceKind.TEXT)
        else:
            yield piece


@fault("parallel.arguments-of-the-last-lost", layer=Layer.CHUNK, breaks={"parallel.call.complete"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The second of two streamed calls has no arguments."""
    for chunk in chunks:
        if not any(call["index"] > 0 and "id" not in call for call in fragments_of(chunk)):
            yield chunk


@fault("parallel.one-id", layer=Layer.CHUNK, breaks={"tool.id.unique-in-answer"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """All calls of a stream have the id of the first."""
    known = ""

    def change(call: Body, first: bool) -> None:
        nonlocal known
        if first:
            call["id"] = known = known or call["id"]

    yield from each_fragment(chunks, change)


@fault("parallel.same-function-once", layer=Layer.MESSAGE, breaks={"parallel.same-function.twice"})
def _(body: Body, ctx: Context) -> Body:
    """Without stream, a second call of a function is dropped as a duplicate."""
    if not isinstance(body.get("choices"), list):
        return body
    changed = copy.deepcopy(body)
    for choice in changed["choices"]:
        calls = choice["message"].get("tool_calls")
        if calls:
            by_name = {call["function"]["name"]: call for call in reversed(calls)}
            choice["message"]["tool_calls"] = list(reversed(by_name.values()))
    return changed


@fault("parallel.flag-is-500", layer=Layer.PARAMS, breaks={"parallel.flag.no-5xx", "error.fuzz.never-5xx"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """parallel_tool_calls without tools causes an internal error."""
    if "parallel_tool_calls" in chat.body and not chat.tools:
        raise ApiError(500, "'NoneType' object is not iterable", kind="server_error")
    return chat


@fault("parallel.results-in-order-only", layer=Layer.PARAMS, breaks={"parallel.history.any-order"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Tool results that come in another order than the calls are refused."""
    asked = [call.id for message in chat.messages for call in message.tool_calls]
    given = [message.tool_call_id for message in chat.messages if message.role == "tool"]
    if len(given) > 1 and given != asked:
        raise invalid("Tool results must follow the order of the tool calls.", "messages")
    return chat
