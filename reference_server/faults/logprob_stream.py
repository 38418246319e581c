"""Log probabilities of streams: lost, repeated, shifted, and others than those of the plain answer."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..answer import Alternative, Piece, PieceKind, TokenLogprob
from ..request import ChatRequest
from . import Context, Layer, fault
from .edits import Body, each_part, made_like


def scored_text(piece: Piece) -> tuple[TokenLogprob, ...]:
    """Entries for a fragment of arguments, as engines make them that score all tokens."""
    return (TokenLogprob(Alternative(piece.text, -0.5, piece.text.encode()), ()),)


@fault(
    "logprobstream.null",
    layer=Layer.CHUNK,
    breaks={"logprobstream.content.present", "logprob.top.zero-is-empty"},
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """A stream has no log probabilities."""
    yield from each_part(chunks, lambda choice: choice.update(logprobs=None))


@fault(
    "logprobstream.last-only",
    layer=Layer.CHUNK,
    breaks={"logprobstream.content.present"},
    cases=("B2-133",),
    source="https://github.com/Menci/Floway/pull/481",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """A gateway puts the stream together and overwrites: only the last entries of each choice survive."""
    every = [copy.deepcopy(chunk) for chunk in chunks]
    last: dict[int, Body] = {}
    for choice in (c for chunk in every for c in chunk["choices"] if c["logprobs"]):
        if choice["index"] in last:
            last[choice["index"]]["logprobs"] = None
        last[choice["index"]] = choice
    yield from every


@fault("logprobstream.cumulative", layer=Layer.CHUNK, breaks={"logprobstream.entries.increments"})
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """Each chunk has all entries so far."""
    known: dict[int, list[Any]] = {}

    def change(choice: Body) -> None:
        if choice["logprobs"]:
            so_far = known.setdefault(choice["index"], [])
            so_far += choice["logprobs"]["content"]
            choice["logprobs"]["content"] = list(so_far)

    yield from each_part(chunks, change)


@fault(
    "logprobstream.one-ahead",
    layer=Layer.CHUNK,
    breaks={"logprobstream.chunk.aligned"},
    cases=("B2-121",),
    source="https://github.com/foundation-model-stack/fms-guardrails-orchestrator/issues/477",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """The first entry of the next chunk comes with this one."""
    every = [copy.deepcopy(chunk) for chunk in chunks]
    before: dict[int, Body] = {}
    for choice in (c for chunk in every for c in chunk["choices"] if c["logprobs"]):
        earlier = before.get(choice["index"])
        if earlier is not None and choice["logprobs"]["content"]:
            earlier["logprobs"]["content"].append(choice["logprobs"]["content"].pop(0))
        before[choice["index"]] = choice
    for choice in (c for chunk in every for c in chunk["choices"] if c["logprobs"]):
        if not choice["logprobs"]["content"]:
            choice["logprobs"] = None
    yield from every


@fault("logprobstream.hollow", layer=Layer.CHUNK, breaks={"logprobstream.empty.elsewhere"})
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """Chunks without tokens have a logprobs object with null in it."""
    hollow = {"content": None, "refusal": None}
    scored = ctx.chat is not None and ctx.chat.logprobs
    yield from each_part(chunks, lambda c: c.update(logprobs=c["logprobs"] or dict(hollow)) if scored else None)


@fault("logprobstream.role-entry", layer=Layer.CHUNK, breaks={"logprobstream.empty.elsewhere"})
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """The chunk of the role has an empty list of entries."""
    scored = ctx.chat is not None and ctx.chat.logprobs

    def change(choice: Body) -> None:
        if "role" in choice["delta"] and scored:
            choice["logprobs"] = {"content": [], "refusal": None}

    yield from each_part(chunks, change)


@fault("logprobstream.top-null", layer=Layer.CHUNK, breaks={"logprobstream.entry.shape"})
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """Streamed entries have null in place of an empty list of alternatives."""

    def change(choice: Body) -> None:
        for entry in choice["logprobs"]["content"] if choice["logprobs"] else ():
            entry["top_logprobs"] = entry["top_logprobs"] or None

    yield from each_part(chunks, change)


@fault(
    "logprobstream.held-back-lost",
    layer=Layer.CHUNK,
    breaks={"logprobstream.held-back.kept", "logprobstream.parity.with-plain"},
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """Of a character that came in several tokens only the last has its entry, with the bytes of all."""

    def change(choice: Body) -> None:
        found = choice["logprobs"]["content"] if choice["logprobs"] else []
        if len(found) > 1 and not choice["delta"].get("content", "").isascii():
            whole = [b for entry in found for b in entry["bytes"]]
            choice["logprobs"]["content"] = [{**found[-1], "token": choice["delta"]["content"], "bytes": whole}]

    yield from each_part(chunks, change)


@fault("logprobstream.unasked", layer=Layer.PARAMS, breaks={"logprobstream.absent.when-not-asked"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Streams always have log probabilities."""
    return replace(chat, logprobs=True) if chat.stream else chat


@fault(
    "logprobstream.tool-steps-lost",
    layer=Layer.MODEL,
    breaks={"logprobstream.parity.with-plain"},
    cases=("B2-129",),
    source="https://github.com/vllm-project/vllm/issues/37795",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A plain answer has entries for the tokens of calls; in a stream the tool parser swallows them."""
    for piece in pieces:
        seen = piece.kind is PieceKind.CALL_ARGS and ctx.chat is not None and ctx.chat.logprobs and not ctx.stream
        yield replace(piece, logprobs=scored_text(piece)) if seen else piece


@fault("logprobstream.other-values", layer=Layer.MODEL, breaks={"logprobstream.values.as-plain"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The log probabilities of a stream are to another base."""

    def scaled(other: Alternative) -> Alternative:
        return replace(other, logprob=other.logprob * 1.4427 - 0.1)

    for piece in pieces:
        if ctx.stream:
            found = tuple(TokenLogprob(scaled(e.chosen), tuple(map(scaled, e.top))) for e in piece.logprobs)
            piece = replace(piece, logprobs=found)
        yield piece


@fault(
    "logprobstream.same-alternatives",
    layer=Layer.CHUNK,
    breaks={"logprob.chosen.is-first-when-greedy"},
    cases=("B2-126",),
    source="https://github.com/sgl-project/sglang/issues/5761",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """All tokens of a stream have the alternatives of its first token."""
    first: list[Any] = []

    def change(choice: Body) -> None:
        for entry in choice["logprobs"]["content"] if choice["logprobs"] else ():
            first[:] = first or entry["top_logprobs"]
            entry["top_logprobs"] = list(first)

    yield from each_part(chunks, change)


@fault(
    "logprobstream.two-in-first-chunk",
    layer=Layer.CHUNK,
    breaks={"logprob.chosen.is-first-when-greedy"},
    cases=("B2-126",),
    source="https://github.com/sgl-project/sglang/issues/2825",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """The first chunk of a stream has two tokens, and the alternatives of the first for both."""
    held: Any = None
    done = False
    for chunk in chunks:
        scored = bool(chunk["choices"]) and bool(chunk["choices"][0]["logprobs"]) and ctx.chat and ctx.chat.n == 1
        if not scored or done:
            if held is not None:
                yield held
                held = None
            yield chunk
        elif held is None:
            held = copy.deepcopy(chunk)
        else:
            choice = copy.deepcopy(chunk["choices"][0])
            mine = held["choices"][0]
            for entry in choice["logprobs"]["content"]:
                entry["top_logprobs"] = mine["logprobs"]["content"][0]["top_logprobs"]
            mine["logprobs"]["content"] += choice["logprobs"]["content"]
            mine["delta"]["content"] += choice["delta"]["content"]
            yield made_like(chunk, [mine])
            held, done = None, True
    if held is not None:
        yield held
