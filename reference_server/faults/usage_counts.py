"""Usage: counts that are wrong."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..answer import Piece
from . import Context, Layer, fault
from .edits import recounted

Body = dict[str, Any]


def _stream_fault(name: str, summary: str, breaks: set[str], count: Callable[[int, Context], int], **more: Any) -> None:
    """A fault on the completion tokens of a stream's usage."""

    def apply(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
        for chunk in chunks:
            usage = chunk.get("usage")
            yield recounted(chunk, completion=count(usage["completion_tokens"], ctx)) if usage else chunk

    apply.__doc__ = summary
    fault(name, layer=Layer.CHUNK, breaks=breaks, **more)(apply)


_stream_fault(
    "usage.stream-zero",
    "A gateway overwrites the usage of a stream with an estimate: 0 completion tokens.",
    {
        "finish.named.stop-or-tool-calls",
        "usage.completion.counted",
        "usage.details.within-totals",
        "usage.parity.with-plain",
        "usage.reasoning.counted",
    },
    lambda tokens, ctx: 0,
    cases=("B1-077",),
    source="https://github.com/BerriAI/litellm/issues/37087",
)
_stream_fault(
    "usage.stream-quadratic",
    "Running counts are added up again at every step: 197 tokens become 19503.",
    {"usage.completion.within-limit", "usage.parity.with-plain"},
    lambda tokens, ctx: tokens * (tokens + 1) // 2,
    cases=("B1-085",),
    source="https://github.com/vllm-project/vllm-omni/issues/2313",
)
_stream_fault(
    "usage.stream-miscounts",
    "The usage of a constrained stream is two tokens short.",
    {"usage.parity.with-plain"},
    lambda tokens, ctx: tokens - 2 if ctx.chat and ctx.chat.response_format.constrained else tokens,
    cases=("B1-084",),
    source="https://github.com/vllm-project/vllm/issues/8625",
)
_stream_fault(
    "usage.stream-n-miscounts",
    "With n > 1 a stream counts some tokens of the other choices only.",
    {"usage.n.completion-summed", "usage.parity.with-plain"},
    lambda tokens, ctx: tokens - tokens // 4 if ctx.chat and ctx.chat.n > 1 else tokens,
    source="https://github.com/vllm-project/vllm",
)


@fault("usage.off-by-one", layer=Layer.MODEL, breaks={"usage.length.exact"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """An answer that is cut counts one token too few."""
    alone = ctx.chat is not None and ctx.chat.n == 1 and not ctx.chat.tools
    for piece in pieces:
        short = alone and piece.finish == "length" and piece.tokens > 1
        tokens = piece.tokens - short
        yield replace(piece, tokens=tokens, thought=min(piece.thought, tokens))


@fault(
    "usage.one-choice-counted",
    layer=Layer.MODEL,
    breaks={"usage.n.completion-summed"},
    source="https://github.com/ggml-org/llama.cpp",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Only the first of n choices is counted, as in llama.cpp."""
    for piece in pieces:
        yield replace(piece, tokens=0) if piece.index else piece


@fault("usage.prompt-times-n", layer=Layer.MESSAGE, breaks={"usage.prompt.independent", "usage.parity.with-plain"})
def _(body: Body, ctx: Context) -> Body:
    """The prompt is counted once for each choice of a plain answer."""
    n = ctx.chat.n if ctx.chat else 1
    return recounted(body, prompt=body["usage"]["prompt_tokens"] * n) if body.get("usage") and n > 1 else body


@fault(
    "usage.prompt-reestimated",
    layer=Layer.CHUNK,
    breaks={"usage.prompt.independent", "usage.parity.with-plain"},
    cases=("B1-087",),
    source="https://github.com/BerriAI/litellm/issues/6488",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """A gateway counts the prompt of a stream with a tokenizer of its own."""
    for chunk in chunks:
        yield recounted(chunk, prompt=chunk["usage"]["prompt_tokens"] + 5) if chunk.get("usage") else chunk


@fault(
    "usage.last-message-only",
    layer=Layer.MESSAGE,
    breaks={
        "usage.prompt.grows",
        "tool.history.tool-message-counts",
        "tool.result.long-accepted",
        "tokenize.count.equals-usage",
    },
)
def _(body: Body, ctx: Context) -> Body:
    """Only the last message of a conversation is counted as prompt."""
    several = ctx.chat is not None and len(ctx.chat.messages) > 1
    return recounted(body, prompt=3) if several and body.get("usage") else body
