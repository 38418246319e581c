"""Choices: wrong members of a plain answer, wrong numbers of choices, choices that mix."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..answer import HttpRequest, Piece, PieceKind
from ..request import ChatRequest
from . import Context, Layer, fault
from .edits import each_choice, each_message

Body = dict[str, Any]


def _body_fault(name: str, summary: str, breaks: set[str], change: Callable[[Body], None], **more: Any) -> None:
    """A fault that changes the top level of a plain completion."""

    def apply(body: Body, ctx: Context) -> Body:
        if "choices" not in body:
            return body
        changed = copy.copy(body)
        change(changed)
        return changed

    apply.__doc__ = summary
    fault(name, layer=Layer.MESSAGE, breaks=breaks, **more)(apply)


def _choice_fault(name: str, summary: str, breaks: set[str], change: Callable[[Body], None], **more: Any) -> None:
    def apply(body: Body, ctx: Context) -> Body:
        return each_choice(body, change)

    apply.__doc__ = summary
    fault(name, layer=Layer.MESSAGE, breaks=breaks, **more)(apply)


def _message_fault(name: str, summary: str, breaks: set[str], change: Callable[[Body], None], **more: Any) -> None:
    def apply(body: Body, ctx: Context) -> Body:
        return each_message(body, change)

    apply.__doc__ = summary
    fault(name, layer=Layer.MESSAGE, breaks=breaks, **more)(apply)


_REQUIRED = {"choice.body.required-members"}
_body_fault("choice.model-missing", "A plain answer has no model.", _REQUIRED, lambda b: b.pop("model"))
_body_fault("choice.created-float", "created is a float.", _REQUIRED, lambda b: b.update(created=b["created"] + 0.5))
_body_fault(
    "choice.created-milliseconds",
    "created of a plain body is in milliseconds.",
    {"choice.created.seconds"},
    lambda body: body.update(created=body["created"] * 1000 + 123),
)
_body_fault(
    "choice.created-stale",
    "created of a plain body is when the server started, ten days ago.",
    {"choice.created.near-date"},
    lambda body: body.update(created=body["created"] - 864_000),
)
_choice_fault(
    "choice.logprobs-a-list",
    "logprobs is an empty list where nobody asked for any.",
    {"choice.schema.openapi"},
    lambda choice: choice.update(logprobs=choice["logprobs"] or []),
)
_body_fault(
    "choice.object-of-completions",
    'A plain chat answer says object "text_completion".',
    _REQUIRED,
    lambda b: b.update(object="text_completion"),
)
_body_fault("choice.choices-null", "choices is null.", _REQUIRED, lambda b: b.update(choices=None))
_body_fault("choice.choices-empty", "choices is empty.", {"choice.count.equals-n"}, lambda b: b.update(choices=[]))
_body_fault("choice.id-constant", "All plain answers have one id.", {"choice.id.unique"}, lambda b: b.update(id="chat"))

_MEMBERS = {"choice.members.present"}
_choice_fault("choice.index-missing", "A choice has no index.", _MEMBERS, lambda c: c.pop("index"))
_choice_fault(
    "choice.message-null", "message is null.", {*_MEMBERS, "chunk.parity.with-plain"}, lambda c: c.update(message=None)
)
_choice_fault(
    "choice.finish-missing", "A plain choice has no finish_reason.", _MEMBERS, lambda c: c.pop("finish_reason")
)
_choice_fault(
    "choice.logprobs-key-missing",
    "A plain choice has no logprobs key where none were asked for.",
    {"choice.logprobs.key-present"},
    lambda c: c.pop("logprobs") if c["logprobs"] is None else None,
    source="https://github.com/ggml-org/llama.cpp",
)

_message_fault(
    "choice.role-missing",
    "A message has no role.",
    {"choice.message.role-assistant", "tool.history.own-message-accepted"},
    lambda m: m.pop("role"),
)
_message_fault(
    "choice.role-model",
    'The role of an answer is "model".',
    {"choice.message.role-assistant", "tool.history.own-message-accepted"},
    lambda m: m.update(role="model"),
)
_message_fault(
    "choice.content-missing",
    "A message with tool calls has no content key.",
    {"choice.message.content-string-or-null"},
    lambda m: m.pop("content") if m["content"] is None else None,
)
_message_fault(
    "choice.content-parts",
    "content is an array of parts.",
    {"choice.message.content-string-or-null", "chunk.parity.with-plain"},
    lambda m: m.update(content=[{"type": "text", "text": m["content"]}]) if m["content"] else None,
)
_message_fault(
    "choice.refusal-missing",
    "A message has no refusal key.",
    {"choice.message.refusal-key"},
    lambda m: m.pop("refusal"),
)
_EMPTY_CALLS = {"choice.message.no-empty-tool-calls"}
_message_fault(
    "choice.tool-calls-empty",
    "tool_calls is [] without a call.",
    _EMPTY_CALLS,
    lambda m: m.setdefault("tool_calls", []),
)
_message_fault(
    "choice.tool-calls-null",
    "tool_calls is null without a call.",
    _EMPTY_CALLS,
    lambda m: m.setdefault("tool_calls", None),
)
_message_fault(
    "choice.members-null",
    "annotations and function_call are null, as vLLM sends them.",
    {"choice.null.only-where-allowed"},
    lambda m: m.update(annotations=None, function_call=m.get("function_call")),
)


_message_fault(
    "choice.content-null",
    "Empty text is sent as null.",
    {"choice.message.content-not-null"},
    lambda m: m.update(content=m["content"] or None),
)


@fault(
    "choice.n-ignored",
    layer=Layer.PARAMS,
    breaks={"choice.count.equals-n"},
    cases=("B1-172",),
    source="https://github.com/abetlen/llama-cpp-python/issues/1906",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """n > 1 is accepted, and one choice is returned."""
    return replace(chat, n=1)


@fault("choice.n-clamped", layer=Layer.REQUEST, breaks={"choice.n.bounds"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """n out of range is silently clamped."""
    try:
        asked = json.loads(request.body)
        n = asked["n"]
    except (ValueError, KeyError, TypeError):
        return request
    if not isinstance(n, int | float) or n in range(1, 129):
        return request
    return replace(request, body=json.dumps({**asked, "n": max(1, min(int(n), 128))}).encode())


@fault("choice.n-copies", layer=Layer.MODEL, breaks={"choice.n.sampled-independently"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """All choices are copies of the first one."""
    n = ctx.chat.n if ctx.chat else 1
    for piece in pieces:
        if piece.index == 0:
            yield piece
            for i in range(1, n):
                yield replace(piece, index=i, after=0.0, call_id=piece.call_id and f"{piece.call_id}{i}")


@fault("choice.mixed-up", layer=Layer.MODEL, breaks={"choice.stream.independent", "schema.keys.exact"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Now and then a stream's text comes under the index of the other choice."""
    if ctx.chat is None or not ctx.stream or ctx.chat.n != 2 or not ctx.chat.response_format.constrained:
        yield from pieces
        return
    seen = 0
    for piece in pieces:
        if piece.kind is PieceKind.TEXT and piece.index == 1:
            seen += 1
            if seen == 3:
                yield replace(piece, index=0)
                continue
        yield piece


@fault(
    "choice.index-1-first",
    layer=Layer.CHUNK,
    breaks={"choice.stream.index-ascending"},
    source="https://github.com/ggml-org/llama.cpp",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """A stream with several choices begins with the last one, as llama.cpp's may."""
    n = ctx.chat.n if ctx.chat else 1
    for chunk in chunks:
        changed = copy.copy(chunk)
        changed["choices"] = [{**c, "index": n - 1 - c["index"]} for c in chunk["choices"]]
        yield changed


@fault("choice.two-in-a-chunk", layer=Layer.CHUNK, breaks={"choice.stream.one-per-chunk"})
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """Chunks of two choices that come one after the other are sent as one."""
    held: Body | None = None
    for chunk in chunks:
        if held is not None:
            mergeable = (
                chunk["choices"] and held["choices"] and chunk["choices"][0]["index"] > held["choices"][-1]["index"]
            )
            if mergeable:
                merged = copy.copy(held)
                merged["choices"] = [*held["choices"], *chunk["choices"]]
                held = merged
                continue
            yield held
        held = chunk
    if held is not None:
        yield held


@fault(
    "choice.second-never-finishes",
    layer=Layer.CHUNK,
    breaks={"done.choices.all-finished"},
    source="https://github.com/BerriAI/litellm",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """With n > 1 only choice 0 gets a finish_reason, as behind LiteLLM."""
    for chunk in chunks:
        if any(c["index"] > 0 and c["finish_reason"] for c in chunk["choices"]):
            continue
        yield chunk
