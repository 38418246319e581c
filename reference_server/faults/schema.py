"""Structured output that is not what was asked for: text around it, holes in it, and no end."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from ..answer import Piece, PieceKind
from . import Context, Layer, fault
from .edits import each_choice, each_message

Body = dict[str, Any]
Change = Callable[[str, str], tuple[str, str]]  # text and finish_reason, to others


def kind(ctx: Context) -> str:
    """json_object, json_schema, or what else was asked for; "" when there is no chat."""
    return ctx.chat.response_format.kind if ctx.chat else ""


def named(ctx: Context, *names: str) -> bool:
    """Whether the schema has one of these names: scenarios are told apart by them."""
    return ctx.chat is not None and ctx.chat.response_format.name in names


def is_level(ctx: Context) -> bool:
    """Whether it is the plain request for a level whose prompt wants prose."""
    return named(ctx, "level") and ctx.chat is not None and ctx.chat.n == 1 and ctx.chat.max_tokens == 400


def reworded(pieces: Iterable[Piece], change: Change, tokens: int | None = None) -> Iterator[Piece]:
    """The pieces with the text of each choice changed as a whole, split as it was before.

    `tokens` is the count of completion tokens to report at the end.
    """
    held: dict[int, list[Piece]] = {}
    for piece in pieces:
        if piece.kind is PieceKind.TEXT:
            held.setdefault(piece.index, []).append(piece)
        elif piece.kind is PieceKind.FINISH:
            before = held.pop(piece.index, [])
            text, finish = change("".join(p.text for p in before), piece.finish or "")
            yield from _spread(text, before)
            yield replace(piece, finish=finish, tokens=tokens or piece.tokens)
        else:
            yield piece


def _spread(text: str, like: list[Piece]) -> Iterator[Piece]:
    size = -(-len(text) // max(1, len(like)))
    for number, piece in enumerate(like):
        part = text[number * size : (number + 1) * size]
        if part:
            yield replace(piece, text=part)


def _changed(body: Body, ctx: Context, change: Callable[[str], str], *, stop_only: bool = True) -> Body:
    """A plain body whose content is changed where JSON was asked for."""
    if kind(ctx) not in ("json_object", "json_schema"):
        return body

    def each(choice: Body) -> None:
        text = choice["message"]["content"]
        if isinstance(text, str) and (choice["finish_reason"] == "stop" or not stop_only):
            choice["message"]["content"] = change(text)

    return each_choice(body, each)


# -- not JSON alone ----------------------------------------------------------------------


def _around(name: str, summary: str, before: str, after: str, **more: Any) -> None:
    """A fault that puts text around the JSON of a plain answer whose prompt wants prose."""

    def apply(body: Body, ctx: Context) -> Body:
        return _changed(body, ctx, lambda text: before + text + after) if is_level(ctx) else body

    apply.__doc__ = summary
    fault(name, layer=Layer.MESSAGE, breaks=more.pop("breaks", {"schema.content.json-only"}), **more)(apply)


_around("schema.fenced", "The JSON stands in a Markdown fence.", "```json\n", "\n```")
_around("schema.explained", "A friendly sentence follows the JSON.", "", "\n\nI hope this helps!")
_around("schema.thoughts", "Thoughts in <think> come before the JSON.", "<think>Low or high?</think>\n", "")
_around(
    "schema.channel-text",
    "The text of the analysis channel stays in front of the JSON.",
    "analysisThe user wants a level.assistantfinal",
    "",
    cases=("B2-176",),
    source="https://github.com/sgl-project/sglang/issues/9259",
)


# -- under json_object: plain and streamed --------------------------------------------------

_STREAM = "schema.stream.same-guarantee"


def _object(name: str, summary: str, breaks: set[str], change: Callable[[str], str], **more: Any) -> None:
    """A fault that changes what an answer under json_object says."""

    def apply(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
        if kind(ctx) != "json_object":
            return pieces
        return reworded(pieces, lambda text, finish: (change(text), finish))

    apply.__doc__ = summary
    fault(name, layer=Layer.MODEL, breaks={*breaks, _STREAM}, **more)(apply)


_object(
    "schema.fenced-object",
    "Under json_object the JSON stands in a Markdown fence.",
    {"schema.content.json-only"},
    lambda text: f"```json\n{text}\n```",
)
_object(
    "schema.prose-object",
    "Under json_object the answer is free text.",
    {"schema.object.is-object"},
    lambda text: "The answer is yes.",
    cases=("B2-151",),
    source="https://github.com/ggml-org/llama.cpp/issues/24096",
)
_object(
    "schema.broken-object",
    "A draft model's guesses spoil the JSON: a colon comes twice.",
    {"schema.object.is-object"},
    lambda text: text.replace(":", "::"),
    cases=("B2-171",),
    source="https://github.com/vllm-project/vllm/issues/9423",
)
_object(
    "schema.array-object",
    "Under json_object the answer is an array.",
    {"schema.object.is-object"},
    lambda text: f"[{text}]",
)


# -- prose, holes and other values -------------------------------------------------------


@fault(
    "schema.brace-missing",
    layer=Layer.MESSAGE,
    breaks={"schema.strict.valid"},
    cases=("B2-167",),
    source="https://github.com/ardanlabs/kronk/issues/819",
)
def _(body: Body, ctx: Context) -> Body:
    """With an enum the closing brace is missing, and finish_reason is stop."""
    return _changed(body, ctx, lambda text: text.removesuffix("}")) if is_level(ctx) else body


@fault(
    "schema.other-keys",
    layer=Layer.MESSAGE,
    breaks={"schema.keys.exact"},
    cases=("B2-162",),
    source="https://github.com/ollama/ollama/issues/10001",
)
def _(body: Body, ctx: Context) -> Body:
    """The answer is JSON, with the keys that the model likes."""
    return _changed(body, ctx, lambda text: text.replace("level", "severity")) if is_level(ctx) else body


@fault("schema.other-value", layer=Layer.MESSAGE, breaks={"schema.strict.valid"})
def _(body: Body, ctx: Context) -> Body:
    """The answer is JSON, with a value that the enum does not have."""
    return _changed(body, ctx, lambda text: '{"level": "medium"}') if is_level(ctx) else body


@fault("schema.control-character", layer=Layer.MESSAGE, breaks={"schema.strict.valid"})
def _(body: Body, ctx: Context) -> Body:
    """A constrained string holds a raw line break, so that the answer is not JSON."""
    return _changed(body, ctx, lambda text: text.replace('": "', '": "\n')) if is_level(ctx) else body


@fault("schema.number-as-text", layer=Layer.MODEL, breaks={"schema.strict.valid", "schema.stream.same-guarantee"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """An integer comes as a string, in both modes."""
    if kind(ctx) == "json_schema" and b'"degrees"' in ctx.http.body:
        return reworded(pieces, lambda text, finish: (text.replace(": 21", ': "21"'), finish))
    return pieces


@fault("schema.last-choice-free", layer=Layer.MESSAGE, breaks={"schema.n.every-choice"})
def _(body: Body, ctx: Context) -> Body:
    """With n > 1 the grammar is that of the first choice only."""

    def change(choice: Body) -> None:
        if choice["index"] > 0 and kind(ctx) == "json_schema":
            choice["message"]["content"] = "The cat sat on the low wall."

    return each_choice(body, change)


@fault(
    "schema.umlauts-dropped",
    layer=Layer.MODEL,
    breaks={"schema.unicode.exact"},
    cases=("B2-168",),
    source="https://github.com/kekzl/imp/issues/1197",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Under a schema umlauts lose their dots."""
    if kind(ctx) == "json_schema" and named(ctx, "branch"):
        return reworded(pieces, lambda text, finish: (text.replace("ö", "o"), finish))
    return pieces


@fault(
    "schema.escape-cut",
    layer=Layer.MODEL,
    breaks={"schema.unicode.exact"},
    cases=("B2-168",),
    source="https://github.com/xai-org/xai-sdk-python/issues/128",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    r"""The escape \u00f6 of a pinned value loses its zeros on the way through the grammar."""
    if named(ctx, "branch"):
        return reworded(pieces, lambda text, finish: (text.replace("ö", "\\\\uf6"), finish))
    return pieces


@fault(
    "schema.keys-sorted",
    layer=Layer.MODEL,
    breaks={"schema.keys.in-order"},
    cases=("B2-169",),
    source="https://github.com/ollama/ollama/issues/8461",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Keys come in alphabetical order."""

    def change(text: str, finish: str) -> tuple[str, str]:
        return json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False), finish

    return reworded(pieces, change) if named(ctx, "reasons") else pieces


# -- the end -----------------------------------------------------------------------------


@fault("schema.cut-repaired", layer=Layer.MODEL, breaks={"schema.cut.is-length"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """JSON that the limit cut is closed to look whole."""
    if named(ctx, "quotation"):
        return reworded(pieces, lambda text, finish: (text + '"}', finish))
    return pieces


@fault("schema.never-ends", layer=Layer.MODEL, breaks={"schema.output.terminates"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Inside the JSON the model cannot find an end: it runs on to max_tokens."""
    if is_level(ctx):
        return reworded(pieces, lambda text, finish: (text[:-2] + "lowlow" * 30, "length"), tokens=400)
    return pieces


@fault(
    "schema.blanks",
    layer=Layer.MODEL,
    breaks={"schema.whitespace.bounded"},
    cases=("B2-166",),
    source="https://github.com/vllm-project/vllm/issues/13260",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The grammar allows any white space: the answer is blanks until max_tokens."""
    if is_level(ctx):
        return reworded(pieces, lambda text, finish: ("{" + "\n \n" * 130, "length"), tokens=400)
    return pieces


@fault("schema.refusal-with-content", layer=Layer.MESSAGE, breaks={"schema.refusal.content-null"})
def _(body: Body, ctx: Context) -> Body:
    """A refusal stands in `refusal` and in content."""
    said = "I cannot help with that."
    return each_message(body, lambda m: m.update(refusal=said, content=said)) if is_level(ctx) else body


@fault("schema.compiled-again", layer=Layer.MODEL, breaks={"schema.repeated.compiled-once"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A large schema is compiled again for every request, for three seconds."""
    late = 3.0 if kind(ctx) == "json_schema" and len(ctx.http.body) > 10_000 else 0.0
    for piece in pieces:
        yield replace(piece, after=piece.after + late)
        late = 0.0
