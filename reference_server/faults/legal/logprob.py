"""Legal variations of log probabilities: what engines send that is odd, and right."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...answer import Alternative, HttpRequest, Piece, PieceKind, TokenLogprob, invalid
from ...request import ChatRequest
from .. import Context, Layer, fault
from ..edits import Body, each_entry, each_part
from ..logprob_stream import scored_text
from ..request_edits import asked, changed

_NOTHING: frozenset[str] = frozenset()


def _each(pieces: Iterator[Piece], change: Any) -> Iterator[Piece]:
    for piece in pieces:
        yield replace(piece, logprobs=tuple(map(change, piece.logprobs)))


def _values(pieces: Iterator[Piece], change: Any) -> Iterator[Piece]:
    def other(a: Alternative) -> Alternative:
        return replace(a, logprob=change(a.logprob))

    return _each(pieces, lambda e: TokenLogprob(other(e.chosen), tuple(map(other, e.top))))


@fault("legal.logprob-bytes-null", layer=Layer.MESSAGE, breaks=_NOTHING)
def _(body: Body, ctx: Context) -> Body:
    """bytes is null in a plain answer, which the schema allows."""

    def change(entry: Body) -> None:
        for value in (entry, *entry["top_logprobs"]):
            value["bytes"] = None

    return each_entry(body, change)


@fault("legal.logprob-token-ids", layer=Layer.MESSAGE, breaks=_NOTHING)
def _(body: Body, ctx: Context) -> Body:
    """llama.cpp adds the id of each token."""
    return each_entry(body, lambda entry: entry.update(id=753))


@fault("legal.logprob-clipped", layer=Layer.MODEL, breaks=_NOTHING)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """No value is below -100: the server has a floor of its own."""
    return _values(pieces, lambda value: max(value, -100.0))


@fault("legal.logprob-floor", layer=Layer.MODEL, breaks=_NOTHING)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A token rarer than one in a thousand has -9999, the documented floor."""
    return _values(pieces, lambda value: value if value > -7 else -9999.0)


@fault("legal.logprob-after-sampling", layer=Layer.MODEL, breaks=_NOTHING)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Values after sampling: at temperature 0 the chosen token has 0, all others the floor."""
    if ctx.chat is None or not ctx.chat.sampling.greedy:
        return pieces

    def change(e: TokenLogprob) -> TokenLogprob:
        top = tuple(replace(o, logprob=0.0 if o.token == e.chosen.token else -9999.0) for o in e.top)
        return TokenLogprob(replace(e.chosen, logprob=0.0), top)

    return _each(pieces, change)


@fault("legal.logprob-noise", layer=Layer.MESSAGE, breaks=_NOTHING)
def _(body: Body, ctx: Context) -> Body:
    """Batching moves the values of a plain answer in the third decimal."""

    def change(entry: Body) -> None:
        for value in (entry, *entry["top_logprobs"]):
            value["logprob"] = value["logprob"] * 1.004 - 1e-4

    return each_entry(body, change)


@fault("legal.logprob-chosen-besides", layer=Layer.MODEL, breaks=_NOTHING)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A chosen token that is not among the k likeliest is one more alternative, at the end."""

    def change(e: TokenLogprob) -> TokenLogprob:
        inside = not e.top or any(o.token == e.chosen.token for o in e.top)
        return e if inside else replace(e, top=(*e.top, e.chosen))

    return _each(pieces, change)


@fault("legal.logprob-chosen-ahead", layer=Layer.MODEL, breaks={"logprob.alternatives.sorted-distinct"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """vLLM: a sampled token stands first among the alternatives, however likely it is."""

    def change(e: TokenLogprob) -> TokenLogprob:
        if not e.top:
            return e
        others = [o for o in e.top if o.token != e.chosen.token]
        return replace(e, top=(e.chosen, *others)[: len(e.top)])

    return _each(pieces, change)


@fault("legal.logprob-escapes", layer=Layer.MODEL, breaks=_NOTHING)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A part of a character is shown as U+FFFD; its bytes are right."""

    def other(a: Alternative) -> Alternative:
        return replace(a, token="\ufffd") if a.token.startswith("bytes:") else a

    return _each(pieces, lambda e: TokenLogprob(other(e.chosen), tuple(map(other, e.top))))


@fault("legal.logprob-bytes-on-last", layer=Layer.MODEL, breaks={"logprob.token.not-empty"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """vLLM: of a character in several tokens the last has all bytes, those before are empty."""
    held = b""
    for piece in pieces:
        found = []
        for e in piece.logprobs:
            held += e.chosen.data
            try:
                text = held.decode()
            except UnicodeDecodeError:
                found.append(replace(e, chosen=replace(e.chosen, token="", data=b"")))
                continue
            found.append(replace(e, chosen=replace(e.chosen, token=text, data=held)) if held != e.chosen.data else e)
            held = b""
        yield replace(piece, logprobs=tuple(found))


@fault("legal.logprob-before-text", layer=Layer.CHUNK, breaks=_NOTHING)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """vLLM: the entries of a character's first parts come in chunks without text, ahead of it."""
    for chunk in chunks:
        rest = copy.deepcopy(chunk)
        for choice in rest["choices"]:
            found = choice["logprobs"]["content"] if choice["logprobs"] else []
            if len(found) > 1 and not choice["delta"].get("content", "").isascii():
                for entry in found[:-1]:
                    if not entry["token"].startswith("bytes:"):
                        break
                    ahead = {"content": [found.pop(0)], "refusal": None}
                    part = {"index": choice["index"], "delta": {}, "logprobs": ahead, "finish_reason": None}
                    made = copy.copy(chunk)
                    made["choices"] = [part]
                    yield made
        yield rest


@fault("legal.logprob-tool-tokens", layer=Layer.MODEL, breaks=_NOTHING)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The tokens of calls have entries as well, in both modes."""
    for piece in pieces:
        seen = piece.kind is PieceKind.CALL_ARGS and ctx.chat is not None and ctx.chat.logprobs
        yield replace(piece, logprobs=scored_text(piece)) if seen else piece


@fault("legal.logprob-top-by-vocabulary", layer=Layer.REQUEST, breaks={"logprob.top.limit-kept"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """vLLM: -1 means all alternatives (20 here), and the limit is the server's own."""
    value = asked(request).get("top_logprobs")
    return changed(request, lambda body: body.update(top_logprobs=20)) if value in (-1, 21) else request


@fault("legal.logprob-top-ignored", layer=Layer.REQUEST, breaks={"logprob.top.needs-logprobs"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """top_logprobs without logprobs has no effect."""
    body = asked(request)
    alone = isinstance(body.get("top_logprobs"), int) and body.get("logprobs") is not True
    return changed(request, lambda body: body.update(top_logprobs=None)) if alone else request


@fault("legal.logprob-unsupported", layer=Layer.PARAMS, breaks=_NOTHING)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """The server has no log probabilities, and says so with a 400."""
    if chat.logprobs:
        raise invalid("This model does not support 'logprobs'.", "logprobs", "unsupported_parameter")
    return chat


@fault("legal.logprob-reasoning", layer=Layer.MESSAGE, breaks={"reasoning.usage.counted"})
def _(body: Body, ctx: Context) -> Body:
    """The message has its reasoning in a member of its own, and the entries cover it as well."""
    if not isinstance(body.get("choices"), list) or ctx.chat is None or ctx.chat.top_logprobs != 20:
        return body
    made = copy.deepcopy(body)
    for choice in made["choices"]:
        choice["message"]["reasoning_content"] = "Hm."
        hidden = {"token": "Hm.", "logprob": -0.2, "bytes": [72, 109, 46], "top_logprobs": []}
        choice["logprobs"]["content"].insert(0, hidden)
    return made


@fault("legal.logprob-key-absent", layer=Layer.CHUNK, breaks=_NOTHING)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """llama.cpp: a chunk without entries has no key logprobs."""
    yield from each_part(chunks, lambda choice: None if choice["logprobs"] else choice.pop("logprobs"))
