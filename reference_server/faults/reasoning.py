"""Thoughts in the wrong place: in the content, under two names, cut short, not counted; calls and answers in them."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..answer import ApiError, Piece, PieceKind, invalid
from ..request import ChatRequest
from . import Context, Layer, fault
from .edits import each_message, each_part, made_like, usage_changed

Body = dict[str, Any]
Bodies = Iterator[Body]
Pieces = Iterator[Piece]


def _free(ctx: Context) -> bool:
    """Whether the answer is free text: no form, and no call that must come."""
    chat = ctx.chat
    return chat is not None and chat.response_format.kind == "text" and not chat.tool_choice.forced


def _as_text(piece: Piece, text: str | None = None) -> Piece:
    return replace(piece, kind=PieceKind.TEXT, text=piece.text if text is None else text)


def _marked(pieces: Pieces, start: str, end: str) -> Pieces:
    """Thoughts as text between marks; one that is cut has no end."""
    thinking: set[int] = set()
    for piece in pieces:
        if piece.kind is PieceKind.REASONING:
            if piece.index not in thinking and start:
                yield _as_text(piece, start)
            thinking.add(piece.index)
            yield _as_text(piece)
            continue
        if piece.index in thinking and piece.kind is not PieceKind.FINISH:
            thinking.discard(piece.index)
            yield _as_text(piece, end)
        yield piece


@fault("reasoning.think-tags", layer=Layer.MODEL, breaks={"reasoning.content.no-tags"})
def _(pieces: Pieces, ctx: Context) -> Pieces:
    """No parser: thoughts stand in the content, between <think> and </think>."""
    return _marked(pieces, "<think>\n", "\n</think>\n\n") if _free(ctx) else pieces


@fault("reasoning.end-tag-in-content", layer=Layer.MODEL, breaks={"reasoning.content.no-tags"})
def _(pieces: Pieces, ctx: Context) -> Pieces:
    """The template wrote <think> itself, so that thoughts and </think> come as content."""
    return _marked(pieces, "", "</think>") if _free(ctx) and ctx.chat and (ctx.chat.max_tokens or 0) > 60 else pieces


@fault(
    "reasoning.second-thought-in-content",
    layer=Layer.MODEL,
    breaks={"reasoning.content.no-tags"},
    cases=("B2-180",),
    source="https://github.com/kekzl/imp/issues/793",
)
def _(pieces: Pieces, ctx: Context) -> Pieces:
    """The parser takes out one thought: a second one, with its tags, stays in the content."""
    thought: set[int] = set()
    for piece in pieces:
        if piece.kind is PieceKind.REASONING:
            thought.add(piece.index)
        elif piece.kind is PieceKind.TEXT and piece.index in thought and _free(ctx):
            thought.discard(piece.index)
            yield replace(piece, text="<think>Or not?</think>", logprobs=())
        yield piece


@fault(
    "reasoning.tag-in-pieces",
    layer=Layer.CHUNK,
    breaks={"reasoning.content.no-tags", "chunk.parity.with-plain"},
    cases=("B2-180",),
    source="https://github.com/youssofal/MTPLX/issues/149",
)
def _(chunks: Bodies, ctx: Context) -> Bodies:
    """A stream does not recognise an end tag in two tokens: the tag begins the content."""
    thought = False
    for chunk in chunks:
        delta = chunk["choices"][0]["delta"] if chunk["choices"] else {}
        if delta.get("content") and thought and _free(ctx):
            thought = False
            for part in ("</thi", "nk>"):
                yield made_like(chunk, [{**chunk["choices"][0], "delta": {"content": part}}])
        thought = thought or "reasoning" in delta
        yield chunk


def _is_cut(finish: str | None, answered: bool) -> bool:
    return finish == "length" and not answered


@fault(
    "reasoning.cut-in-content",
    layer=Layer.MODEL,
    breaks={"reasoning.cut.sweep"},
    cases=("B2-180",),
    source="https://github.com/kekzl/imp/issues/509",
)
def _(pieces: Pieces, ctx: Context) -> Pieces:
    """A thought without its end tag is taken for the answer, in both modes."""
    ready = list(pieces)
    last = ready[-1]
    answered = any(p.kind not in (PieceKind.REASONING, PieceKind.FINISH) for p in ready)
    cut = _is_cut(last.finish, answered)
    for piece in ready:
        yield _as_text(piece) if cut and piece.kind is PieceKind.REASONING else piece


@fault(
    "reasoning.cut-in-content-stream",
    layer=Layer.CHUNK,
    breaks={"reasoning.cut.sweep", "chunk.parity.with-plain"},
    cases=("B2-180",),
    source="https://github.com/kekzl/imp/issues/509",
)
def _(chunks: Bodies, ctx: Context) -> Bodies:
    """A thought without its end tag is taken for the answer in streams only."""
    ready = list(chunks)
    choices = [c for chunk in ready for c in chunk["choices"]]
    answered = any(c["delta"].get("content") or c["delta"].get("tool_calls") for c in choices)
    cut = any(_is_cut(c["finish_reason"], answered) for c in choices)

    def rename(choice: Body) -> None:
        if cut and "reasoning" in choice["delta"]:
            choice["delta"] = {"content": choice["delta"]["reasoning"]}

    yield from each_part(iter(ready), rename)


@fault(
    "reasoning.call-swallowed",
    layer=Layer.MODEL,
    breaks={"reasoning.call.not-swallowed"},
    cases=("B2-181",),
    source="https://github.com/vllm-project/vllm/pull/35687",
)
def _(pieces: Pieces, ctx: Context) -> Pieces:
    """A call that the model makes before its thoughts end stays in them; finish_reason says stop."""
    thought = False
    for piece in pieces:
        thought = thought or piece.kind is PieceKind.REASONING
        if not thought or not _free(ctx):
            yield piece
        elif piece.kind is PieceKind.CALL_START:
            yield replace(piece, kind=PieceKind.REASONING, text=f'<tool_call>{{"name": "{piece.name}", "arguments": ')
        elif piece.kind is PieceKind.CALL_ARGS:
            yield replace(piece, kind=PieceKind.REASONING)
        elif piece.finish == "tool_calls":
            yield replace(piece, kind=PieceKind.REASONING, text="}</tool_call>", finish=None)
            yield replace(piece, finish="stop")
        else:
            yield piece


@fault("reasoning.call-in-thought", layer=Layer.MODEL, breaks={"reasoning.calls.no-markup"})
def _(pieces: Pieces, ctx: Context) -> Pieces:
    """The markup of a call stands in the thoughts, and the call is made as well."""
    thought: set[int] = set()
    for piece in pieces:
        if piece.kind is PieceKind.REASONING:
            thought.add(piece.index)
        elif piece.kind is PieceKind.CALL_START and piece.index in thought:
            call = f'<tool_call>{{"name": "{piece.name}"}}</tool_call>'
            yield replace(piece, kind=PieceKind.REASONING, text=call)
        yield piece


@fault(
    "reasoning.renamed-in-streams",
    layer=Layer.CHUNK,
    breaks={"reasoning.field.same-in-both-modes"},
    cases=("B2-182",),
    source="https://github.com/vllm-project/vllm/issues/27755",
)
def _(chunks: Bodies, ctx: Context) -> Bodies:
    """Streams have reasoning_content, plain answers reasoning."""

    def rename(choice: Body) -> None:
        if "reasoning" in choice["delta"]:
            choice["delta"] = {"reasoning_content": choice["delta"]["reasoning"]}

    return each_part(chunks, rename)


@fault(
    "reasoning.lost-in-streams",
    layer=Layer.CHUNK,
    breaks={"reasoning.field.same-in-both-modes", "reasoning.field.present"},
    cases=("B2-182",),
    source="https://github.com/vllm-project/vllm/issues/50624",
)
def _(chunks: Bodies, ctx: Context) -> Bodies:
    """A gateway that knows another name drops the thoughts of streams."""
    for chunk in chunks:
        if not any("reasoning" in c["delta"] for c in chunk["choices"]):
            yield chunk


@fault("reasoning.two-texts", layer=Layer.MESSAGE, breaks={"reasoning.field.same-in-both-modes"}, cases=("B2-182",))
def _(body: Body, ctx: Context) -> Body:
    """Both names are there, the old one with a shorter text."""

    def change(message: Body) -> None:
        if message.get("reasoning"):
            message["reasoning_content"] = message["reasoning"][:1]

    return each_message(body, change)


@fault("reasoning.object", layer=Layer.MESSAGE, breaks={"reasoning.field.present"})
def _(body: Body, ctx: Context) -> Body:
    """The thoughts of a plain answer are an object."""

    def change(message: Body) -> None:
        if message.get("reasoning"):
            message["reasoning"] = {"text": message["reasoning"]}

    return each_message(body, change)


@fault(
    "reasoning.end-lost-in-streams",
    layer=Layer.CHUNK,
    breaks={"reasoning.parity"},
    cases=("B2-184",),
    source="https://github.com/vllm-project/vllm/issues/41691",
)
def _(chunks: Bodies, ctx: Context) -> Bodies:
    """The last three tokens of a thought are missing in streams."""
    ready = list(chunks)
    thought = [chunk for chunk in ready if any("reasoning" in c["delta"] for c in chunk["choices"])]
    lost = thought[-3:] if len(thought) > 4 else []
    yield from (chunk for chunk in ready if all(chunk is not one for one in lost))


@fault("reasoning.after-content", layer=Layer.CHUNK, breaks={"reasoning.stream.before-content"})
def _(chunks: Bodies, ctx: Context) -> Bodies:
    """The end of a thought comes after the first content of a stream."""
    held: Body | None = None
    for chunk in chunks:
        delta = chunk["choices"][0]["delta"] if chunk["choices"] else {}
        if "reasoning" in delta:
            if held is not None:
                yield held
            held = chunk
            continue
        if held is not None and not delta.get("content"):
            yield held
            held = None
        yield chunk
        if held is not None:
            yield held
            held = None


@fault("reasoning.both-in-one-delta", layer=Layer.CHUNK, breaks={"reasoning.delta.not-both"})
def _(chunks: Bodies, ctx: Context) -> Bodies:
    """The delta in which a thought ends also has the first words of the answer."""
    held: Body | None = None
    for chunk in chunks:
        delta = chunk["choices"][0]["delta"] if chunk["choices"] else {}
        if held is not None and delta.get("content"):
            chunk = copy.deepcopy(chunk)
            chunk["choices"][0]["delta"] = {**held["choices"][0]["delta"], **delta}
            held = None
        if held is not None:
            yield held
            held = None
        if set(delta) == {"reasoning"}:
            held = chunk
        else:
            yield chunk


@fault("reasoning.cut-is-stop", layer=Layer.MODEL, breaks={"reasoning.cut.is-length"})
def _(pieces: Pieces, ctx: Context) -> Pieces:
    """An answer that was cut in its thoughts ends with stop."""
    for piece in pieces:
        in_thought = piece.finish == "length" and piece.thought == piece.tokens
        yield replace(piece, finish="stop") if in_thought else piece


@fault("reasoning.tokens-not-counted", layer=Layer.MESSAGE, breaks={"reasoning.usage.counted"})
def _(body: Body, ctx: Context) -> Body:
    """reasoning_tokens is 0 in a plain answer that thinks."""
    return usage_changed(body, completion_tokens_details={"reasoning_tokens": 0})


@fault(
    "reasoning.json-in-thought",
    layer=Layer.MODEL,
    breaks={"reasoning.schema.content-only"},
    source="https://github.com/vllm-project/vllm/issues/57726",
)
def _(pieces: Pieces, ctx: Context) -> Pieces:
    """The constraint binds the thought: the JSON stands in the reasoning, and content is empty."""
    thought = False
    for piece in pieces:
        thought = thought or piece.kind is PieceKind.REASONING
        moved = thought and piece.kind is PieceKind.TEXT and ctx.chat and ctx.chat.response_format.constrained
        yield replace(piece, kind=PieceKind.REASONING, thought=piece.tokens) if moved else piece


def _switched_off(ctx: Context) -> bool:
    body = ctx.chat.body if ctx.chat else {}
    return "chat_template_kwargs" in body or body.get("reasoning_effort") == "none"


@fault("reasoning.answer-swallowed", layer=Layer.MODEL, breaks={"reasoning.plain-answers.complete"})
def _(pieces: Pieces, ctx: Context) -> Pieces:
    """The parser waits for an end tag: an answer without thoughts is one thought, and the content is empty."""
    for piece in pieces:
        moved = piece.kind is PieceKind.TEXT and _switched_off(ctx)
        piece = replace(piece, thought=piece.tokens) if _switched_off(ctx) else piece
        yield replace(piece, kind=PieceKind.REASONING) if moved else piece


@fault("reasoning.model-does-not-think", layer=Layer.MODEL, breaks={"reasoning.answer.not-swallowed"})
def _(pieces: Pieces, ctx: Context) -> Pieces:
    """A model that does not think stands behind a parser for one that does: its answers in text are thoughts."""
    thought = False
    for piece in pieces:
        thought = thought or piece.kind is PieceKind.REASONING
        free = _free(ctx) and ctx.chat is not None and not ctx.chat.tools
        if free and piece.kind is PieceKind.REASONING:
            continue
        moved = free and thought and piece.kind is PieceKind.TEXT
        yield replace(piece, kind=PieceKind.REASONING, thought=piece.tokens) if moved else piece


def _on_request(name: str, summary: str, breaks: set[str], change: Callable[[ChatRequest], ChatRequest]) -> None:
    def apply(chat: ChatRequest, ctx: Context) -> ChatRequest:
        return change(chat)

    apply.__doc__ = summary
    fault(name, layer=Layer.PARAMS, breaks=breaks)(apply)


def _refuse_history(chat: ChatRequest) -> ChatRequest:
    if '"reasoning_content"' in json.dumps(chat.body.get("messages")):
        raise invalid("Unknown parameter: 'messages[1].reasoning_content'.", "messages")
    return chat


def _without_switches(chat: ChatRequest) -> ChatRequest:
    names = ("chat_template_kwargs", "reasoning_effort", "include_reasoning", "separate_reasoning")
    return replace(chat, body={k: v for k, v in chat.body.items() if k not in names})


def _crash(chat: ChatRequest) -> ChatRequest:
    if "chat_template_kwargs" in chat.body:
        raise ApiError(500, "TypeError: apply_chat_template() got an unexpected keyword argument", kind="server_error")
    return chat


_on_request(
    "reasoning.history-refused",
    "A history with reasoning_content is refused as an unknown parameter.",
    {"reasoning.history.accepted", "role.history.extension-fields-accepted"},
    _refuse_history,
)
_on_request(
    "reasoning.switches-ignored",
    "No switch turns thoughts off; all are accepted.",
    {"reasoning.switches.accepted"},
    _without_switches,
)
_on_request(
    "reasoning.switch-crashes",
    "A switch that the template lacks causes a 500.",
    {"reasoning.switches.accepted"},
    _crash,
)
