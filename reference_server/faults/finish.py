"""finish_reason: unknown values, too many, none, and the wrong one."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..answer import Piece
from . import Context, Layer, fault
from .edits import each_choice, each_part, made_like

Body = dict[str, Any]


def _reworded(
    name: str, summary: str, breaks: set[str], reword: Callable[[str, Context], str], layer: Layer, **more: Any
) -> None:
    """A fault that gives another word for some finish_reason, in one mode (MESSAGE, CHUNK) or in both (MODEL)."""

    def in_message(body: Body, ctx: Context) -> Body:
        return each_choice(body, lambda c: c.update(finish_reason=reword(c["finish_reason"], ctx)))

    def in_chunks(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
        def change(choice: Body) -> None:
            if choice["finish_reason"]:
                choice["finish_reason"] = reword(choice["finish_reason"], ctx)

        yield from each_part(chunks, change)

    def in_model(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
        for piece in pieces:
            yield replace(piece, finish=reword(piece.finish, ctx)) if piece.finish else piece

    by_layer: dict[Layer, Callable[..., Any]]
    by_layer = {Layer.MESSAGE: in_message, Layer.CHUNK: in_chunks, Layer.MODEL: in_model}
    apply = by_layer[layer]
    apply.__doc__ = summary
    fault(name, layer=layer, breaks=breaks, **more)(apply)


def _swap(old: str, new: str) -> Callable[[str, Context], str]:
    return lambda reason, ctx: new if reason == old else reason


def _required(ctx: Context) -> bool:
    return ctx.chat is not None and ctx.chat.tool_choice.forced and ctx.chat.tool_choice.name is None


def _named(ctx: Context) -> bool:
    return ctx.chat is not None and ctx.chat.tool_choice.name is not None


def _offered(ctx: Context) -> bool:
    return ctx.chat is not None and bool(ctx.chat.tools) and not ctx.chat.tool_choice.forced


_reworded(
    "finish.eos-token-plain",
    'A plain answer ends with "eos_token".',
    {"finish.reason.known"},
    _swap("stop", "eos_token"),
    Layer.MESSAGE,
)
_reworded(
    "finish.end-turn-stream",
    'A stream ends with "end_turn".',
    {"finish.reason.known"},
    _swap("stop", "end_turn"),
    Layer.CHUNK,
)
_reworded(
    "finish.cut-is-stop",
    "An answer cut by the limit says stop.",
    {"reasoning.cut.is-length", "schema.cut.is-length", "finish.length.when-cut", "finish.tool-calls.cut-is-length"},
    _swap("length", "stop"),
    Layer.MODEL,
    cases=("B1-037",),
    source="https://github.com/ikawrakow/ik_llama.cpp/pull/2321",
)
_reworded(
    "finish.always-stop",
    "finish_reason is hard coded to stop.",
    {
        "reasoning.cut.is-length",
        "schema.cut.is-length",
        "finish.length.when-cut",
        "finish.tool-calls.cut-is-length",
        "finish.tool-calls.when-called",
    },
    lambda reason, ctx: "stop",
    Layer.MODEL,
    cases=("B1-038",),
    source="https://github.com/MakazhanAlpamys/Soup/issues/360",
)
_reworded(
    "finish.required-stop-plain",
    "With tool_choice required the plain answer says stop, the stream tool_calls.",
    {"finish.parity.with-plain"},
    lambda reason, ctx: "stop" if reason == "tool_calls" and _required(ctx) else reason,
    Layer.MESSAGE,
    cases=("B1-206",),
    source="https://github.com/vllm-project/vllm/pull/25054",
)
_reworded(
    "finish.named-tool-calls-stream",
    "With a named tool the stream says tool_calls, the plain answer stop.",
    {"finish.parity.with-plain"},
    lambda reason, ctx: "tool_calls" if reason == "stop" and _named(ctx) else reason,
    Layer.CHUNK,
    cases=("B1-206",),
    source="https://github.com/vllm-project/vllm/pull/25054",
)
_reworded(
    "finish.cut-call-is-tool-calls",
    "A stream cut inside a forced call says tool_calls.",
    {"finish.parity.with-plain", "finish.tool-calls.cut-is-length", "finish.tool-calls.iff-called"},
    lambda reason, ctx: "tool_calls" if reason == "length" and (_named(ctx) or _required(ctx)) else reason,
    Layer.CHUNK,
    cases=("B1-035",),
    source="https://github.com/vllm-project/vllm/issues/53269",
)
_reworded(
    "finish.auto-call-is-stop",
    "A tool call that the model chose to make ends with stop.",
    {"finish.tool-calls.when-called"},
    lambda reason, ctx: "stop" if reason == "tool_calls" and _offered(ctx) else reason,
    Layer.MODEL,
)
_reworded(
    "finish.tool-calls-without-call",
    "An answer in text says tool_calls because tools were offered.",
    {"finish.tool-calls.iff-called"},
    lambda reason, ctx: "tool_calls" if _offered(ctx) else reason,
    Layer.MODEL,
)
_reworded(
    "finish.named-is-length",
    "A whole call of a named tool ends with length.",
    {"finish.named.stop-or-tool-calls"},
    lambda reason, ctx: "length" if _named(ctx) else reason,
    Layer.MODEL,
)
_reworded(
    "finish.required-is-length",
    "A whole call under tool_choice required ends with length.",
    {"finish.required.tool-calls-or-stop"},
    lambda reason, ctx: "length" if _required(ctx) else reason,
    Layer.MODEL,
)
_reworded(
    "finish.stop-is-length",
    "An answer that ends at a stop string says length.",
    {"finish.stop.by-itself-or-stop"},
    lambda reason, ctx: "length" if ctx.chat and ctx.chat.stop else reason,
    Layer.MODEL,
)
_reworded(
    "finish.function-call",
    'A tool call ends with the deprecated "function_call".',
    {"finish.function-call.legacy-only"},
    _swap("tool_calls", "function_call"),
    Layer.MODEL,
)
_reworded(
    "finish.content-filter",
    "A harmless answer that ends by itself says content_filter.",
    {"finish.content-filter.only-filtered"},
    lambda reason, ctx: "content_filter" if reason == "stop" and ctx.chat and not ctx.chat.stop else reason,
    Layer.MODEL,
)


@fault("finish.null-plain", layer=Layer.MESSAGE, breaks={"finish.plain.not-null"})
def _(body: Body, ctx: Context) -> Body:
    """A plain answer has null as finish_reason."""
    return each_choice(body, lambda choice: choice.update(finish_reason=None))


@fault(
    "finish.abort-one-of-two",
    layer=Layer.CHUNK,
    breaks={"finish.reason.known", "finish.abort.is-error"},
    cases=("B1-174",),
    source="https://github.com/Ascend/sglang/issues/39",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """With two choices and a forced call, one choice of the stream ends with "abort"."""

    def change(choice: Body) -> None:
        if choice["index"] == 1 and choice["finish_reason"] and _required(ctx):
            choice["finish_reason"] = "abort"

    yield from each_part(chunks, change)


@fault(
    "finish.none-as-text",
    layer=Layer.CHUNK,
    breaks={"finish.reason.known", "chunk.finish.empty-delta", "chunk.finish.nothing-after"},
    cases=("B1-027",),
    source="https://github.com/vercel/ai/issues/2548",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """finish_reason is the string "None" until the end."""
    yield from each_part(chunks, lambda c: c.update(finish_reason=c["finish_reason"] or "None"))


@fault(
    "finish.empty-until-end",
    layer=Layer.CHUNK,
    breaks={"chunk.finish-reason.key-present"},
    cases=("B1-025", "B1-026"),
    source="https://github.com/ollama/ollama/issues/4357",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """finish_reason is an empty string until the end."""
    yield from each_part(chunks, lambda c: c.update(finish_reason=c["finish_reason"] or ""))


@fault(
    "finish.key-missing-until-end",
    layer=Layer.CHUNK,
    breaks={"chunk.finish-reason.key-present"},
    cases=("B1-024",),
    source="https://github.com/vllm-project/vllm/issues/19650",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """The key finish_reason is left out until the end."""
    yield from each_part(chunks, lambda c: None if c["finish_reason"] else c.pop("finish_reason"))


@fault(
    "finish.never-at-stop",
    layer=Layer.CHUNK,
    breaks={"done.choices.all-finished"},
    cases=("B1-028",),
    source="https://github.com/waybarrios/vllm-mlx/issues/628",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """A stream that ends by itself has null as its last finish_reason; one that is cut says length."""
    yield from each_part(chunks, lambda c: c.update(finish_reason=None) if c["finish_reason"] == "stop" else None)


@fault(
    "finish.camel-case",
    layer=Layer.CHUNK,
    breaks={"done.choices.all-finished"},
    cases=("B1-030",),
    source="https://github.com/jakobdylanc/llmcord/issues/84",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """The reason stands in finishReason, and finish_reason is always null."""
    yield from each_part(chunks, lambda c: c.update(finishReason=c["finish_reason"], finish_reason=None))


@fault(
    "finish.twice",
    layer=Layer.CHUNK,
    breaks={"finish.stream.once"},
    cases=("B1-032",),
    source="https://github.com/Gitlawb/openclaude/issues/21",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """The finish chunk of a choice is sent twice."""
    for chunk in chunks:
        yield chunk
        if any(c["finish_reason"] for c in chunk["choices"]):
            yield made_like(chunk, chunk["choices"])


@fault(
    "finish.stop-in-reasoning",
    layer=Layer.CHUNK,
    breaks={
        "finish.stream.once",
        "chunk.finish.nothing-after",
        "chunk.finish.empty-delta",
        "reasoning.field.same-in-both-modes",
        "reasoning.usage.counted",
    },
    cases=("B1-039",),
    source="https://github.com/open-webui/open-webui/issues/16377",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """The reasoning already carries finish_reason stop; then the answer begins."""
    for chunk in chunks:
        yield chunk
        if any("role" in c["delta"] for c in chunk["choices"]):
            first = {**chunk["choices"][0], "delta": {"reasoning_content": "Hm."}, "finish_reason": "stop"}
            yield made_like(chunk, [first])


@fault(
    "finish.logprobs-after",
    layer=Layer.CHUNK,
    breaks={"finish.stream.last-of-choice", "logprobstream.content.present"},
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """The last log probabilities of a choice come after its finish."""
    every = [copy.deepcopy(chunk) for chunk in chunks]
    last = {c["index"]: c for chunk in every for c in chunk["choices"] if c["logprobs"] and c["delta"].get("content")}
    held = {index: choice["logprobs"] for index, choice in last.items()}
    for choice in last.values():
        choice["logprobs"] = None
    for chunk in every:
        yield chunk
        for choice in chunk["choices"]:
            if choice["finish_reason"] and choice["index"] in held:
                late = {"index": choice["index"], "delta": {}, "logprobs": held[choice["index"]], "finish_reason": None}
                yield made_like(chunk, [late])
