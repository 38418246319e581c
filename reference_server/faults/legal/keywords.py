"""What a server may do with keywords of a strict schema: refuse them, or keep to them in an odd way."""

from collections.abc import Iterator
from dataclasses import replace

from ...answer import Piece, PieceKind, invalid
from ...request import ChatRequest
from .. import Context, Layer, fault

_NOTHING: frozenset[str] = frozenset()
# Keywords that OpenAI's strict mode, too, refused at some time.
_REFUSED = ("pattern", "format", "minLength", "maxLength", "minItems", "maxItems", "minimum", "multipleOf", "oneOf")


@fault("legal.keywords-refused", layer=Layer.PARAMS, breaks=_NOTHING)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Keywords beyond types, keys and enum are refused with a well-formed 400."""
    strict = chat.response_format.strict or any(tool.strict for tool in chat.tools)
    found = [k for k in _REFUSED if strict and f'"{k}"'.encode() in ctx.http.body]
    if found:
        raise invalid(f"Invalid schema: '{found[0]}' is not permitted.", "response_format", "invalid_schema")
    return chat


@fault("legal.keywords-unicode-escapes", layer=Layer.MODEL, breaks=_NOTHING)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Constrained answers write their non-ASCII characters as escapes of JSON: other bytes, the same value."""
    strict = ctx.chat is not None and ctx.chat.response_format.strict and not ctx.chat.logprobs
    for piece in pieces:
        if strict and piece.kind is PieceKind.TEXT and not piece.text.isascii():
            yield replace(piece, text="".join(c if c.isascii() else _escaped(c) for c in piece.text))
        else:
            yield piece


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


@fault("legal.keywords-white-space", layer=Layer.MODEL, breaks=_NOTHING)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A constrained answer begins with a line feed, which JSON allows before a value."""
    chat = ctx.chat
    ours = chat is not None and chat.response_format.strict and chat.response_format.name == "answer"
    begun: set[int] = set()
    for piece in pieces:
        if ours and piece.kind is PieceKind.TEXT and piece.text and piece.index not in begun:
            begun.add(piece.index)
            yield replace(piece, text=f"\n{piece.text}")
        else:
            yield piece
