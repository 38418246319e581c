"""Sampling parameters that are accepted and have no effect, or the wrong one."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..answer import Piece, PieceKind
from ..request import ChatRequest
from . import Context, Layer, fault


def _sampled(chat: ChatRequest, **changes: Any) -> ChatRequest:
    return replace(chat, sampling=replace(chat.sampling, **changes))


def _is_open(chat: ChatRequest) -> bool:
    """Whether the model is free to say what it likes: pinned and echoed answers are not the point."""
    return "planet" in (chat.messages[-1].content or "") and chat.n == 1


@fault("param.top-p-ignored", layer=Layer.PARAMS, breaks={"param.top-p.pins"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """top_p is ignored."""
    return _sampled(chat, top_p=1.0)


@fault("param.top-k-ignored", layer=Layer.PARAMS, breaks={"param.top-k.greedy"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """top_k is ignored."""
    return _sampled(chat, top_k=0)


@fault("param.min-p-ignored", layer=Layer.PARAMS, breaks={"param.min-p.greedy"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """min_p is ignored."""
    return _sampled(chat, min_p=0.0)


@fault("param.frequency-penalty-ignored", layer=Layer.PARAMS, breaks={"param.penalty.effect"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """frequency_penalty is ignored."""
    return _sampled(chat, frequency=0.0)


@fault("param.presence-penalty-ignored", layer=Layer.PARAMS, breaks={"param.presence-penalty.effect"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """presence_penalty is ignored."""
    return _sampled(chat, presence=0.0)


@fault("param.repetition-penalty-ignored", layer=Layer.PARAMS, breaks={"param.repetition-penalty.effect"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """repetition_penalty is checked, and then ignored."""
    return _sampled(chat, repetition=1.0)


@fault("param.logit-bias-ignored", layer=Layer.PARAMS, breaks={"param.logit-bias.effect"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """logit_bias is ignored."""
    return _sampled(chat, logit_bias=())


@fault("param.logit-bias-no-ban", layer=Layer.PARAMS, breaks={"param.logit-bias.effect"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A negative logit_bias is ignored."""
    return _sampled(chat, logit_bias=tuple((token, bias) for token, bias in chat.sampling.logit_bias if bias > 0))


@fault(
    "param.seed-ignored",
    layer=Layer.PARAMS,
    breaks={"param.seed.repeats"},
    cases=("B1-171",),
    source="https://github.com/vllm-project/vllm/issues/21310",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """seed is ignored: the same seed gives two texts."""
    return replace(chat, seed=None)


@fault("param.seed-constant", layer=Layer.PARAMS, breaks={"param.seed.decides"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Every seed is the same seed."""
    return replace(chat, seed=None if chat.seed is None else 42)


@fault(
    "param.temperature-zero-samples",
    layer=Layer.PARAMS,
    breaks={
        "param.temperature.zero-repeats",
        "chunk.parity.with-plain",
        "logprob.chosen.is-first-when-greedy",
    },
    cases=("B1-170",),
    source="https://github.com/microsoft/graphrag/issues/416",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """temperature 0 counts as false, so that the default of 1 applies."""
    return _sampled(chat, temperature=chat.sampling.temperature or 1.0) if _is_open(chat) else chat


@fault(
    "param.temperature-ignored",
    layer=Layer.PARAMS,
    breaks={"param.seed.decides", "choice.n.sampled-independently"},
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """temperature is ignored: every answer is greedy."""
    return _sampled(chat, temperature=0.0)


# -- in a stream only -----------------------------------------------------------------------


@fault("param.stream-top-p-ignored", layer=Layer.PARAMS, breaks={"param.stream.same-sample"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """top_p is ignored in a stream."""
    return _sampled(chat, top_p=1.0) if chat.stream else chat


@fault("param.stream-seed-ignored", layer=Layer.PARAMS, breaks={"param.stream.same-sample"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """seed is ignored in a stream."""
    return replace(chat, seed=None) if chat.stream else chat


@fault("param.stream-penalty-ignored", layer=Layer.PARAMS, breaks={"chunk.parity.with-plain"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """frequency_penalty is ignored in a stream."""
    return _sampled(chat, frequency=0.0) if chat.stream else chat


@fault("param.stream-logit-bias-ignored", layer=Layer.PARAMS, breaks={"chunk.parity.with-plain"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """logit_bias is ignored in a stream."""
    return _sampled(chat, logit_bias=()) if chat.stream else chat


# -- stop strings ---------------------------------------------------------------------------


@fault("param.stop-newline-trimmed", layer=Layer.PARAMS, breaks={"stop.text.excluded"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Stop strings are trimmed: a newline is no longer one."""
    return replace(chat, stop=tuple(s.strip() for s in chat.stop if s.strip()))


def _ended(pieces: Iterator[Piece], text_of: Callable[[str], str]) -> Iterator[Piece]:
    """The text of each choice, all at its end, changed by `text_of`; for answers without calls or logprobs."""
    held: dict[int, str] = {}
    for piece in pieces:
        if piece.kind is PieceKind.TEXT:
            held[piece.index] = held.get(piece.index, "") + piece.text
            continue
        text = text_of(held.pop(piece.index, "")) if piece.finish is not None else ""
        if text:
            yield replace(piece, kind=PieceKind.TEXT, text=text, finish=None)
        yield piece


@fault("param.stop-newline-at-once", layer=Layer.MODEL, breaks={"param.stop.newline"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A newline as a stop string is trimmed to nothing, which matches at once: the answer is empty."""
    newline = ctx.chat is not None and any(not stop.strip() for stop in ctx.chat.stop)
    return _ended(pieces, lambda text: "") if newline else pieces


@fault(
    "param.stream-stop-ignored",
    layer=Layer.PARAMS,
    breaks={"stop.text.excluded", "stop.match.any-position", "stop.parity.with-plain", "chunk.parity.with-plain"},
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """stop is ignored in a stream."""
    return replace(chat, stop=()) if chat.stream else chat


@fault(
    "param.stream-stop-newline-at-once",
    layer=Layer.MODEL,
    breaks={"stop.parity.with-plain", "chunk.parity.with-plain"},
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """In a stream, a newline as a stop string is trimmed to nothing, which matches at once."""
    newline = ctx.stream and ctx.chat is not None and any(not stop.strip() for stop in ctx.chat.stop)
    return _ended(pieces, lambda text: "") if newline else pieces


@fault("param.stream-stop-tail-lost", layer=Layer.MODEL, breaks={"chunk.parity.with-plain"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Text that a stream holds back for a stop string is lost when the limit on tokens ends the answer."""
    stops = ctx.chat.stop if ctx.chat is not None and ctx.stream else ()
    return _cut(pieces, max((len(s) for s in stops), default=1) - 1)


@fault("param.stop-tail-lost", layer=Layer.MODEL, breaks={"param.stop.never-matching"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Text held back for a stop string is lost when the limit on tokens ends the answer."""
    stops = ctx.chat.stop if ctx.chat is not None else ()
    return _cut(pieces, max((len(s) for s in stops), default=1) - 1)


def _cut(pieces: Iterator[Piece], size: int) -> Iterator[Piece]:
    """Without the last characters of an answer that was cut."""
    if size <= 0:
        yield from pieces
        return
    held: list[Piece] = []
    for piece in pieces:
        if piece.finish == "length":
            kept = "".join(p.text for p in held)[:-size]
            if held and kept:
                yield replace(held[0], text=kept)
            held = []
        elif piece.kind is PieceKind.TEXT:
            held.append(piece)
            continue
        yield from held
        held = []
        yield piece
