"""Stop strings: ignored, kept, leaked, and text that is lost because of them."""

import json
from collections.abc import Iterator
from dataclasses import replace

from ..answer import HttpRequest, Piece, PieceKind
from ..request import ChatRequest
from . import Context, Layer, fault

# The answer that the pinned scenarios get; where it is whole, no stop string was met.
_WHOLE = '"}'


@fault(
    "stop.ignored",
    layer=Layer.PARAMS,
    breaks={"stop.text.excluded", "stop.match.any-position"},
    cases=("B1-063", "B1-067"),
    source="https://github.com/huggingface/text-generation-inference/issues/1999",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """stop is accepted and ignored."""
    return replace(chat, stop=())


@fault(
    "stop.several-tokens-ignored",
    layer=Layer.PARAMS,
    breaks={"stop.text.excluded", "stop.match.any-position"},
    cases=("B1-061", "B1-067"),
    source="https://github.com/ggml-org/llama.cpp/issues/11538",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A stop string that spans several tokens is ignored."""
    return replace(chat, stop=tuple(stop for stop in chat.stop if " " not in stop))


def _at_stop(pieces: Iterator[Piece], stops: tuple[str, ...], leaked: slice) -> Iterator[Piece]:
    """Adds a stretch of the first stop string to an answer that ended at a stop string."""
    text: dict[int, str] = {}
    for piece in pieces:
        so_far = text[piece.index] = text.get(piece.index, "") + piece.text
        if piece.finish == "stop" and stops and not so_far.endswith(_WHOLE):
            tail = next((s for s in stops if " " in s or len(stops) == 1), stops[0])[leaked]
            if tail:
                yield replace(piece, kind=PieceKind.TEXT, text=tail, finish=None)
                piece = replace(piece, after=0.0)
        yield piece


@fault(
    "stop.kept",
    layer=Layer.MODEL,
    breaks={"stop.text.excluded"},
    cases=("B1-067", "B1-068"),
    source="https://github.com/huggingface/text-generation-inference/issues/1724",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The stop string that ended the answer stays in its text."""
    return _at_stop(pieces, ctx.chat.stop if ctx.chat else (), slice(None))


@fault(
    "stop.partial-leaks",
    layer=Layer.MODEL,
    breaks={"stop.stream.no-partial", "stop.parity.with-plain", "chunk.parity.with-plain"},
    cases=("B1-064",),
    source="https://github.com/vllm-project/vllm/issues/3574",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A stream sends the beginning of a stop string before the match is complete."""
    return _at_stop(pieces, ctx.chat.stop if ctx.chat and ctx.stream else (), slice(0, -1))


def _last_text_lost(pieces: Iterator[Piece], *, whole: bool) -> Iterator[Piece]:
    """Drops the last text of an answer that came to its own end (`whole`), or else that met a stop string."""
    held: dict[int, Piece] = {}
    text: dict[int, str] = {}
    for piece in pieces:
        text[piece.index] = text.get(piece.index, "") + piece.text
        before = held.pop(piece.index, None)
        ends = piece.finish == "stop" and text[piece.index].endswith(_WHOLE) is whole
        if before is not None and not ends:
            yield before
        if piece.kind is PieceKind.TEXT:
            held[piece.index] = piece
        else:
            yield piece


@fault(
    "stop.held-text-lost",
    layer=Layer.MODEL,
    breaks={
        "stop.text.nothing-lost",
        "stop.parity.with-plain",
        "chunk.parity.with-plain",
        "chunk.content.increments",
    },
    cases=("B1-060",),
    source="https://github.com/ggml-org/llama.cpp/pull/15007",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Text that a stream holds back, because a stop string could begin there, is lost at the end."""
    return _last_text_lost(pieces, whole=True) if ctx.chat and ctx.chat.stop and ctx.stream else pieces


@fault(
    "stop.whole-token-dropped",
    layer=Layer.MODEL,
    breaks={"stop.match.any-position", "param.stop.newline"},
    cases=("B1-067",),
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The token in which a stop string begins is dropped with the letters before the match."""
    return _last_text_lost(pieces, whole=False) if ctx.chat and ctx.chat.stop else pieces


@fault("stop.bad-values-ignored", layer=Layer.REQUEST, breaks={"stop.values.refused"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Stop strings that are not strings are silently ignored."""
    try:
        asked = json.loads(request.body)
    except ValueError:
        return request
    if not isinstance(asked, dict) or not isinstance(asked.get("stop"), int | list):
        return request
    stops = asked["stop"] if isinstance(asked["stop"], list) else []
    kept = [s for s in stops if isinstance(s, str)] or None
    return replace(request, body=json.dumps({**asked, "stop": kept}).encode())


@fault("stop.one-string-refused", layer=Layer.REQUEST, breaks={"stop.forms.accepted"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A stop that is a single string, not an array, is refused."""
    try:
        asked = json.loads(request.body)
    except ValueError:
        return request
    if not isinstance(asked, dict) or not isinstance(asked.get("stop"), str):
        return request
    return replace(request, body=json.dumps({**asked, "stop": {}}).encode())
