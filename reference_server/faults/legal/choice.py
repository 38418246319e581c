"""Legal variations of choices, finish_reason, usage and stop: odd, and right."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...answer import Piece, PieceKind, invalid
from ...request import ChatRequest
from .. import Context, Layer, fault
from ..edits import each_choice, made_like

Body = dict[str, Any]
_NOTHING: frozenset[str] = frozenset()


@fault("legal.usage-details-absent", layer=Layer.MESSAGE, breaks={"reasoning.usage.counted"})
def _(body: Body, ctx: Context) -> Body:
    """Usage has the three counts and no details."""
    if not body.get("usage"):
        return body
    return {**body, "usage": {k: v for k, v in body["usage"].items() if not k.endswith("details")}}


@fault("legal.fingerprint-null", layer=Layer.MESSAGE, breaks=_NOTHING)
def _(body: Body, ctx: Context) -> Body:
    """system_fingerprint is null, as OpenAI itself sends it, and service_tier is absent."""
    if "choices" not in body:
        return body
    changed = {k: v for k, v in body.items() if k != "service_tier"}
    return {**changed, "system_fingerprint": None}


@fault("legal.fingerprint-absent", layer=Layer.MESSAGE, breaks=_NOTHING)
def _(body: Body, ctx: Context) -> Body:
    """A plain answer has neither system_fingerprint nor service_tier."""
    return {k: v for k, v in body.items() if k not in ("system_fingerprint", "service_tier")}


@fault("legal.plain-vendor-members", layer=Layer.MESSAGE, breaks=_NOTHING)
def _(body: Body, ctx: Context) -> Body:
    """Engines' own members: stop_reason, matched_stop, timings, prompt_logprobs, reasoning null."""
    if "choices" not in body:
        return body

    def change(choice: Body) -> None:
        choice.update(stop_reason=None, matched_stop=1, token_ids=None)
        choice["message"] = {"reasoning": None, "reasoning_content": None, **choice["message"]}

    return {**each_choice(body, change), "timings": {"predicted_n": 3}, "prompt_logprobs": None}


@fault("legal.named-tool-calls", layer=Layer.MODEL, breaks=_NOTHING)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A call of a named tool ends with tool_calls, in both modes."""
    named = ctx.chat is not None and ctx.chat.tool_choice.name is not None
    for piece in pieces:
        yield replace(piece, finish="tool_calls") if named and piece.finish == "stop" else piece


@fault("legal.required-stop", layer=Layer.MODEL, breaks=_NOTHING)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """With tool_choice required a call ends with stop, as OpenAI's once did, in both modes."""
    forced = ctx.chat is not None and ctx.chat.tool_choice.forced
    for piece in pieces:
        yield replace(piece, finish="stop") if forced and piece.finish == "tool_calls" else piece


@fault("legal.end-token-counted", layer=Layer.MODEL, breaks=_NOTHING)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The end token counts as a completion token, within the limit."""
    limit = ctx.chat.max_tokens if ctx.chat else None
    for piece in pieces:
        room = piece.finish == "stop" and (limit is None or piece.tokens < limit)
        yield replace(piece, tokens=piece.tokens + 1) if room else piece


@fault("legal.cut-call-dropped", layer=Layer.MODEL, breaks=_NOTHING)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A forced call that the limit cut off is dropped, in both modes: no text is left, and finish_reason is length."""
    held: dict[int, list[Piece]] = {}
    for piece in pieces:
        if piece.kind in (PieceKind.CALL_START, PieceKind.CALL_ARGS):
            held.setdefault(piece.index, []).append(piece)
            continue
        if piece.finish is not None and piece.finish != "length":
            yield from held.pop(piece.index, [])
        yield piece


@fault("legal.choices-in-blocks", layer=Layer.MODEL, breaks=_NOTHING)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """After the first piece of each, the choices of a stream come one after the other, the last one first."""
    chat = ctx.chat
    if chat is None or chat.n == 1 or not ctx.stream:
        yield from pieces
        return
    first: dict[int, Piece] = {}
    later: dict[int, list[Piece]] = {}
    for piece in pieces:
        if piece.index in first:
            later.setdefault(piece.index, []).append(piece)
        else:
            first[piece.index] = piece
    for index in sorted(first):
        yield first[index]
    for index in sorted(later, reverse=True):
        yield from later[index]


@fault("legal.thought-only", layer=Layer.MESSAGE, breaks={"reasoning.usage.counted"})
def _(body: Body, ctx: Context) -> Body:
    """A sampled answer of one choice was cut while the model still thought: reasoning_content, and content null."""

    def change(choice: Body) -> None:
        if choice["finish_reason"] == "length" and not choice["message"].get("tool_calls"):
            text = choice["message"]["content"]
            choice["message"].update(reasoning_content=text, content=None)

    chat = ctx.chat
    alone = chat is not None and chat.n == 1 and chat.body.get("temperature") != 0 and not chat.logprobs
    return each_choice(body, change) if alone else body


@fault("legal.n-unsupported", layer=Layer.PARAMS, breaks=_NOTHING)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """n > 1 is refused with a well-formed 400: no such feature."""
    if chat.n > 1:
        raise invalid("This server gives one choice: 'n' must be 1.", "n", "unsupported_value")
    return chat


@fault("legal.empty-after-finish", layer=Layer.CHUNK, breaks=_NOTHING)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """A chunk with an empty delta and a vendor's numbers follows the finish of a choice."""
    for chunk in chunks:
        yield chunk
        for choice in chunk["choices"]:
            if choice["finish_reason"]:
                late = {"index": choice["index"], "delta": {}, "logprobs": None, "finish_reason": None}
                yield made_like(chunk, [{**late, "timings": {"predicted_ms": 3.1}}])


@fault("legal.continuous-usage", layer=Layer.CHUNK, breaks=_NOTHING)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """continuous_usage_stats is obeyed: each chunk has the usage so far, from 0 up."""
    options = ctx.chat.body.get("stream_options") if ctx.chat else None
    wanted = isinstance(options, dict) and options.get("continuous_usage_stats") is True
    tokens = 0
    for chunk in chunks:
        if not wanted or not chunk["choices"]:
            yield chunk
            continue
        tokens += bool(chunk["choices"][0]["delta"].get("content"))
        changed = copy.copy(chunk)
        changed["usage"] = {"prompt_tokens": 0, "completion_tokens": tokens, "total_tokens": tokens}
        yield changed
