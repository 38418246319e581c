"""Legal variations of tool calls: what real servers send, and no client minds."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...answer import Piece, PieceKind
from .. import Context, Layer, fault
from ..edits import each_call, each_message, rewritten

Body = dict[str, Any]


@fault("legal.tool-arguments-ascii", layer=Layer.MODEL, breaks=())
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Characters beyond ASCII in arguments are escaped as JSON allows."""
    return rewritten(pieces, lambda name, text: text if text.isascii() else _ascii(text))


def _ascii(text: str) -> str:
    try:
        return json.dumps(json.loads(text))
    except ValueError:  # a call that was cut
        return text


@fault("legal.tool-arguments-compact", layer=Layer.MODEL, breaks=())
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Arguments have no blanks between their tokens."""
    return rewritten(pieces, lambda name, text: _compact(text))


def _compact(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        return text


@fault("legal.tool-arguments-spaced", layer=Layer.MODEL, breaks=())
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Arguments have line breaks between their tokens, as a model may write them."""
    return rewritten(pieces, lambda name, text: _spaced(text))


def _spaced(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except ValueError:
        return text


@fault("legal.tool-ids-mistral", layer=Layer.MODEL, breaks=())
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Ids are nine letters and digits, as Mistral's templates want them."""
    for piece in pieces:
        yield replace(piece, call_id=piece.call_id[-9:]) if piece.call_id else piece


@fault("legal.tool-ids-long", layer=Layer.MODEL, breaks=())
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Ids are long, and have a colon, a dot and a dash."""
    for piece in pieces:
        changed = f"functions.{piece.name}:0-{piece.call_id}"
        yield replace(piece, call_id=changed) if piece.call_id else piece


@fault("legal.tool-index-in-plain", layer=Layer.MESSAGE, breaks=())
def _(body: Body, ctx: Context) -> Body:
    """Calls of a plain answer have an index as well, as SGLang's have."""

    def number(message: Body) -> None:
        for i, call in enumerate(message.get("tool_calls") or ()):
            call["index"] = i

    return each_message(body, number)


@fault("legal.tool-content-empty", layer=Layer.MESSAGE, breaks=())
def _(body: Body, ctx: Context) -> Body:
    """The content beside calls is an empty string, not null."""
    return each_message(body, lambda m: m.update(content=m["content"] or ""))


@fault("legal.tool-cut-call-dropped", layer=Layer.MODEL, breaks=())
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A call that the limit cut is dropped, in both modes; the answer ends with length."""
    whole = list(pieces)
    cut = {p.index for p in whole if p.finish == "length"}
    calls = (PieceKind.CALL_START, PieceKind.CALL_ARGS)
    return (p for p in whole if p.index not in cut or p.kind not in calls)


@fault("legal.tool-vendor-members", layer=Layer.MESSAGE, breaks=())
def _(body: Body, ctx: Context) -> Body:
    """Calls carry a member of the vendor's own."""
    return each_call(body, lambda call: call.update(provider_specific_fields={"thought_signature": "c2ln"}))


@fault("legal.tool-no-refusal", layer=Layer.MESSAGE, breaks={"choice.message.refusal-key"}, cases=("B2-177",))
def _(body: Body, ctx: Context) -> Body:
    """Messages have no key refusal: an engine that never refuses has none."""
    return each_message(body, lambda message: message.pop("refusal", None))
