"""Tool calls: a tool_choice that is not kept to, calls that stay text, wrong shapes, names and ids."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ..answer import HttpAnswer, Piece, PieceKind
from ..request import ChatRequest
from ..tools import ToolChoice
from . import Context, Layer, fault
from .edits import each_call, each_choice, made_like
from .http import is_plain, with_body

Body = dict[str, Any]

_LLAMA = "https://github.com/ggml-org/llama.cpp/"
_VLLM = "https://github.com/vllm-project/vllm/"


# -- tool_choice ------------------------------------------------------------------


@fault("tool.none-ignored", layer=Layer.PARAMS, breaks={"tool.none.no-call"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """tool_choice none is taken for auto."""
    given = chat.body.get("tool_choice") == "none" and chat.tools
    return replace(chat, tool_choice=ToolChoice("auto")) if given else chat


@fault("tool.required-ignored", layer=Layer.PARAMS, breaks={"tool.required.calls"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """tool_choice required is taken for auto."""
    given = chat.body.get("tool_choice") == "required"
    return replace(chat, tool_choice=ToolChoice("auto")) if given else chat


@fault("tool.named-is-required", layer=Layer.PARAMS, breaks={"tool.named.only-it"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A named tool is taken for required: the model picks the function."""
    return replace(chat, tool_choice=ToolChoice("required")) if chat.tool_choice.name and not chat.legacy else chat


@fault("tool.named-is-auto", layer=Layer.PARAMS, breaks={"tool.named.only-it"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A named tool is taken for auto."""
    return replace(chat, tool_choice=ToolChoice("auto")) if chat.tool_choice.name and not chat.legacy else chat


@fault("tool.default-none", layer=Layer.PARAMS, breaks={"tool.auto.default"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Without tool_choice tools are never called."""
    return chat if "tool_choice" in chat.body or chat.legacy else replace(chat, tool_choice=ToolChoice("none"))


@fault("tool.default-required", layer=Layer.PARAMS, breaks={"tool.auto.default"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Without tool_choice a tool is always called."""
    bare = chat.tools and "tool_choice" not in chat.body and not chat.legacy
    return replace(chat, tool_choice=ToolChoice("required")) if bare else chat


@fault(
    "tool.none-text-swallowed",
    layer=Layer.MODEL,
    breaks={"tool.none.text-kept"},
    source=f"{_VLLM}pull/55080",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """With tool_choice none, text in the markup of a call is cut out of the content."""
    marked = ctx.chat is not None and ctx.chat.body.get("tool_choice") == "none"
    marked = marked and "<tool_call>" in str(ctx.chat.messages[-1].content if ctx.chat else "")
    for piece in pieces:
        yield replace(piece, text="", logprobs=()) if marked and piece.kind is PieceKind.TEXT else piece


# -- calls that stay text ----------------------------------------------------------


def _as_text(
    pieces: Iterable[Piece], before: str, after: str, *, finish: str | None = None, ended: bool = True
) -> Iterator[Piece]:
    """The pieces of calls as text, each call between `before` (which takes its name) and `after`."""
    is_open = False
    for piece in pieces:
        if is_open and piece.kind in (PieceKind.CALL_START, PieceKind.FINISH) and ended:
            yield replace(piece, kind=PieceKind.TEXT, text=after, name="", call_id="", finish=None)
        if piece.kind is PieceKind.CALL_START:
            is_open = True
            text = before.replace("NAME", piece.name)
            yield replace(piece, kind=PieceKind.TEXT, text=text, name="", call_id="")
        elif piece.kind is PieceKind.CALL_ARGS:
            yield replace(piece, kind=PieceKind.TEXT)
        else:
            yield replace(piece, finish=piece.finish and (finish or piece.finish))


_OPEN = '<tool_call>\n{"name": "NAME", "arguments": '


def _is_free(ctx: Context) -> bool:
    """Whether the model may call a tool, and need not, and may say what it likes."""
    chat = ctx.chat
    if chat is None or not chat.tools or chat.legacy:
        return False
    return not chat.tool_choice.forced and not chat.response_format.constrained


def _is_required(ctx: Context) -> bool:
    """Whether a call must come; requests that are about other things too are left alone."""
    chat = ctx.chat
    if chat is None or chat.logprobs or "parallel_tool_calls" in chat.body:
        return False
    return chat.body.get("tool_choice") == "required"


def _cut(pieces: list[Piece]) -> bool:
    """Whether the limit on tokens cut a call."""
    return any(p.finish == "length" for p in pieces) and any(p.kind is PieceKind.CALL_START for p in pieces)


@fault("tool.no-parser", layer=Layer.MODEL, breaks={"tool.content.no-markup", "toolstream.content.no-markup"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """No tool parser is set up: calls that the model chooses to make stay text, and end with stop."""
    return _as_text(pieces, _OPEN, "}\n</tool_call>", finish="stop") if _is_free(ctx) else pieces


@fault("tool.bare-json", layer=Layer.MODEL, breaks={"tool.content.no-markup", "toolstream.content.no-markup"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A call that the model chose to make is bare JSON in the content."""
    return _as_text(pieces, '{"name": "NAME", "parameters": ', "}", finish="stop") if _is_free(ctx) else pieces


@fault(
    "tool.cut-call-as-text",
    layer=Layer.MODEL,
    breaks={"tool.content.no-markup-when-cut", "toolstream.content.no-markup-when-cut"},
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A call that the limit on tokens cut is handed out as text, markup and all."""
    whole = list(pieces)
    return _as_text(whole, _OPEN, "", ended=False) if _cut(whole) else iter(whole)


@fault(
    "tool.cut-call-is-the-answer",
    layer=Layer.MODEL,
    breaks={"tool.content.no-markup", "toolstream.content.no-markup", "finish.tool-calls.cut-is-length"},
    cases=("B2-019",),
    source="https://github.com/jundot/omlx/issues/3153",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A call without its closing tag is handed out as text, and ends with stop."""
    whole = list(pieces)
    return _as_text(whole, _OPEN, "", finish="stop", ended=False) if _cut(whole) else iter(whole)


@fault(
    "tool.required-without-call",
    layer=Layer.MODEL,
    breaks={"tool.required.calls", "finish.tool-calls.iff-called"},
    cases=("B2-006",),
    source=f"{_VLLM}issues/53255",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """With tool_choice required an answer in text says finish_reason tool_calls."""
    for piece in pieces:
        if _is_required(ctx) and piece.kind is PieceKind.CALL_START:
            yield replace(piece, kind=PieceKind.TEXT, text="Hello!", name="", call_id="")
        elif not _is_required(ctx) or piece.kind is not PieceKind.CALL_ARGS:
            yield piece


@fault(
    "tool.empty-list",
    layer=Layer.MESSAGE,
    breaks={"choice.message.no-empty-tool-calls"},
    cases=("B2-005",),
    source=f"{_VLLM}issues/44104",
)
def _(body: Body, ctx: Context) -> Body:
    """Answers in text have an empty list of tool calls."""
    return each_choice(body, lambda choice: choice["message"].setdefault("tool_calls", []))


@fault(
    "tool.text-after-call-streamed-only",
    layer=Layer.CHUNK,
    breaks={"chunk.parity.with-plain"},
    cases=("B2-020",),
    source=f"{_VLLM}issues/56263",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """Text beside a call is dropped in plain answers and delivered in streams."""
    first = ctx.chat is not None and not ctx.chat.logprobs
    for chunk in chunks:
        if first and any(c["delta"].get("tool_calls") for c in chunk["choices"]):
            first = False
            text = {**chunk["choices"][0], "delta": {"content": "Let me check."}}
            yield made_like(chunk, [text])
        yield chunk


# -- shapes ------------------------------------------------------------------------


@fault(
    "tool.call-hollow",
    layer=Layer.MESSAGE,
    breaks={"tool.call.shape", "tool.history.own-message-accepted", "toolstream.parity.with-plain"},
    cases=("B2-004",),
    source="https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/830",
)
def _(body: Body, ctx: Context) -> Body:
    """A call has an empty id and no function."""
    limited = ctx.chat is not None and ctx.chat.tool_choice.allowed is not None
    return body if limited else each_call(body, lambda call: call.update(id="") or call.pop("function"))


@fault("tool.call-without-type", layer=Layer.MESSAGE, breaks={"tool.call.shape"})
def _(body: Body, ctx: Context) -> Body:
    """A call has no type."""
    return each_call(body, lambda call: call.pop("type"))


def _renamed(pieces: Iterable[Piece], ctx: Context, name: str) -> Iterator[Piece]:
    """Calls of get_weather and the like that the model chose, or one of which was required, under another name."""
    chat = ctx.chat
    any_name = chat is not None and chat.tool_choice.name is None and chat.tool_choice.allowed is None
    for piece in pieces:
        ours = any_name and piece.name.startswith("get_")
        yield replace(piece, name=name.replace("NAME", piece.name)) if ours else piece


@fault("tool.name-with-namespace", layer=Layer.MODEL, breaks={"tool.name.declared"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The name includes the namespace of the prompt's template."""
    return _renamed(pieces, ctx, "functions.NAME")


@fault("tool.name-with-marker", layer=Layer.MODEL, breaks={"tool.name.declared"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The name includes the marker that follows it."""
    return _renamed(pieces, ctx, "NAME<|channel|>commentary")


# -- ids ---------------------------------------------------------------------------


@fault(
    "tool.id-from-name-and-place",
    layer=Layer.MODEL,
    breaks={"tool.id.unique-across-answers"},
    cases=("B2-013",),
    source=f"{_VLLM}issues/50295",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The id is made of the function's name and the call's place: it comes again in the next answer."""
    for piece in pieces:
        yield replace(piece, call_id=f"{piece.name}:{piece.index}:{piece.call}") if piece.call_id else piece


@fault(
    "tool.id-constant",
    layer=Layer.MODEL,
    breaks={"tool.id.unique-across-answers", "tool.id.unique-in-answer"},
    cases=("B2-014",),
    source="https://github.com/NousResearch/hermes-agent/issues/88324",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Every call has the same id."""
    for piece in pieces:
        yield replace(piece, call_id="abc") if piece.call_id else piece


# -- failures dressed as answers -----------------------------------------------------


@fault(
    "tool.upstream-error-as-choice",
    layer=Layer.MODEL,
    breaks={"finish.reason.known", "finish.abort.is-error"},
    cases=("B2-011",),
    source="https://github.com/pydantic/pydantic-ai/issues/2844",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A generation that failed upstream is a 200 whose choice says finish_reason error."""
    for piece in pieces:
        yield replace(piece, finish="error") if piece.finish and _is_free(ctx) else piece


@fault(
    "tool.refusal-required",
    layer=Layer.HTTP,
    breaks={"tool.choice.no-5xx"},
    cases=("B2-177",),
    source="https://github.com/JamePeng/llama-cpp-python/issues/113",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The server's own model of a message demands a refusal: plain answers become a 500."""
    if not is_plain(answer, ctx) or not _is_required(ctx):
        return answer
    error = {"message": "refusal: Field required", "type": "server_error", "param": None, "code": None}
    changed = with_body(answer, lambda data: json.dumps({"error": error}).encode())
    return replace(changed, status=500, reason="Internal Server Error")
