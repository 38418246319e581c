"""Log probabilities in a wrong shape, that are no probabilities, or about other text than the answer's."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..answer import Piece, PieceKind, TokenLogprob
from ..request import ChatRequest
from . import Context, Layer, fault
from .edits import Body, each_choice, each_entry, each_scored

_FLOAT_MIN = -3.4028234663852886e38


@fault("logprob.value-as-text", layer=Layer.MESSAGE, breaks={"logprob.entry.shape"})
def _(body: Body, ctx: Context) -> Body:
    """The logprob of a chosen token is a string."""
    return each_entry(body, lambda entry: entry.update(logprob=str(entry["logprob"])))


@fault("logprob.top-missing", layer=Layer.MESSAGE, breaks={"logprob.entry.shape"})
def _(body: Body, ctx: Context) -> Body:
    """An entry without alternatives has no top_logprobs."""
    return each_entry(body, lambda entry: None if entry["top_logprobs"] else entry.pop("top_logprobs"))


@fault("logprob.bytes-as-text", layer=Layer.MESSAGE, breaks={"logprob.entry.shape"})
def _(body: Body, ctx: Context) -> Body:
    """bytes is a string."""
    return each_entry(body, lambda entry: entry.update(bytes=entry["token"]))


@fault("logprob.bytes-key-missing", layer=Layer.MESSAGE, breaks={"logprob.bytes.key-present"})
def _(body: Body, ctx: Context) -> Body:
    """Entries have no key bytes."""
    return each_entry(body, lambda entry: entry.pop("bytes"))


@fault("logprob.alternatives-bare", layer=Layer.MESSAGE, breaks={"logprob.alternative.shape"})
def _(body: Body, ctx: Context) -> Body:
    """Alternatives have no logprob."""
    return each_entry(body, lambda entry: [other.pop("logprob") for other in entry["top_logprobs"]])


@fault("logprob.alternatives-too-many", layer=Layer.PARAMS, breaks={"logprob.alternatives.at-most-k"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Three more alternatives than were asked for."""
    return replace(chat, top_logprobs=chat.top_logprobs + 3) if chat.top_logprobs else chat


@fault("logprob.alternatives-too-few", layer=Layer.PARAMS, breaks={"logprob.alternatives.all-k"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Never more than three alternatives."""
    return replace(chat, top_logprobs=min(chat.top_logprobs, 3))


def _changed(
    pieces: Iterator[Piece],
    change: Callable[[TokenLogprob], TokenLogprob],
    where: Callable[[Piece], bool] | None = None,
) -> Iterator[Piece]:
    for piece in pieces:
        yield replace(piece, logprobs=tuple(map(change, piece.logprobs))) if not where or where(piece) else piece


@fault("logprob.positive", layer=Layer.MODEL, breaks={"logprob.value.finite-not-positive"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Without alternatives the logprob is a probability, between 0 and 1."""
    return _changed(pieces, lambda e: e if e.top else replace(e, chosen=replace(e.chosen, logprob=0.75)))


@fault(
    "logprob.float-min",
    layer=Layer.MODEL,
    breaks={"logprob.value.sane-floor"},
    cases=("B2-126",),
    source="https://github.com/sgl-project/sglang/issues/5761",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The last alternative has the lowest number of float32."""

    def change(e: TokenLogprob) -> TokenLogprob:
        return replace(e, top=(*e.top[:-1], replace(e.top[-1], logprob=_FLOAT_MIN))) if len(e.top) > 2 else e

    return _changed(pieces, change)


@fault("logprob.zero-lists-chosen", layer=Layer.MODEL, breaks={"logprob.top.zero-is-empty"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Without alternatives the chosen token stands among them."""
    return _changed(pieces, lambda e: e if e.top else replace(e, top=(e.chosen,)))


@fault("logprob.last-two-swapped", layer=Layer.MODEL, breaks={"logprob.alternatives.sorted-distinct"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The two least likely alternatives stand the wrong way round."""
    return _changed(pieces, lambda e: replace(e, top=(*e.top[:-2], *e.top[:-3:-1])) if len(e.top) > 2 else e)


@fault(
    "logprob.labels-of-chosen",
    layer=Layer.MODEL,
    breaks={"logprob.alternatives.sorted-distinct"},
    cases=("B2-145",),
    source="https://github.com/vllm-project/vllm/pull/42887",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Each alternative carries the label of the chosen token."""

    def change(e: TokenLogprob) -> TokenLogprob:
        if not e.top or e.top[0].token != e.chosen.token:
            return e
        return replace(e, top=tuple(replace(o, token=e.chosen.token, data=e.chosen.data) for o in e.top))

    return _changed(pieces, change)


@fault("logprob.two-scales", layer=Layer.MODEL, breaks={"logprob.values.consistent"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The alternatives have their values before the temperature, the chosen token after it."""
    return _changed(pieces, lambda e: replace(e, chosen=replace(e.chosen, logprob=e.chosen.logprob - 0.25)))


@fault("logprob.sum-above-one", layer=Layer.MODEL, breaks={"logprob.values.consistent"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Each alternative is half as likely as the one before, whatever the first was."""

    def change(e: TokenLogprob) -> TokenLogprob:
        if not e.top or e.top[0].token != e.chosen.token:
            return e
        made = (replace(o, logprob=e.top[0].logprob - 0.05 * i) for i, o in enumerate(e.top))
        return replace(e, top=tuple(made))

    return _changed(pieces, change)


@fault("logprob.two-in-one-entry", layer=Layer.MESSAGE, breaks={"logprob.count.equals-tokens"})
def _(body: Body, ctx: Context) -> Body:
    """The last two tokens of a plain answer share an entry."""

    def merged(found: list[Any]) -> list[Any]:
        if len(found) < 2 or ctx.chat is None or ctx.chat.top_logprobs != 20:
            return found
        *rest, a, b = found
        return [*rest, {**a, "token": a["token"] + b["token"], "bytes": a["bytes"] + b["bytes"], "top_logprobs": []}]

    return each_scored(body, merged)


@fault(
    "logprob.bytes-of-replacement",
    layer=Layer.MODEL,
    breaks={"logprob.bytes.join-to-content", "logprobstream.chunk.aligned"},
    cases=("B2-122",),
    source="https://github.com/ollama/ollama/issues/13497",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """A token that is a part of a character has the bytes of U+FFFD."""

    def change(e: TokenLogprob) -> TokenLogprob:
        part = e.chosen.token.startswith("bytes:")
        return replace(e, chosen=replace(e.chosen, token="\ufffd", data="\ufffd".encode())) if part else e

    return _changed(pieces, change)


@fault(
    "logprob.reasoning-tokens",
    layer=Layer.MESSAGE,
    breaks={"logprob.bytes.join-to-content", "logprob.count.equals-tokens", "logprobstream.parity.with-plain"},
    cases=("B2-128",),
    source="https://github.com/sgl-project/sglang/issues/25055",
)
def _(body: Body, ctx: Context) -> Body:
    """The entries begin with the tokens of reasoning that the message does not show."""
    k = ctx.chat.top_logprobs if ctx.chat else 0

    def entry(token: str, logprob: float) -> Body:
        return {"token": token, "logprob": logprob, "bytes": list(token.encode())}

    hidden = [
        {**entry(t, -0.1), "top_logprobs": [entry(t * (i + 1), -0.1 - 3 * i) for i in range(k)]}
        for t in ("<think>", "Hm")
    ]
    return each_scored(body, lambda found: [*hidden, *found])


@fault("logprob.bytes-of-chosen", layer=Layer.MODEL, breaks={"logprob.bytes.fit-token"})
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Each alternative has the bytes of the chosen token."""
    return _changed(pieces, lambda e: replace(e, top=tuple(replace(o, data=e.chosen.data) for o in e.top)))


@fault(
    "logprob.vocabulary-spelling",
    layer=Layer.MODEL,
    breaks={"logprob.bytes.fit-token", "logprob.token.exact-text"},
    cases=("B2-121",),
    source="https://github.com/foundation-model-stack/fms-guardrails-orchestrator/issues/477",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Tokens are spelled as in the vocabulary: a blank is the letter G with a dot."""

    def spelled(other: Any) -> Any:
        return replace(other, token=other.token.replace(" ", "\u0120"))

    return _changed(pieces, lambda e: TokenLogprob(spelled(e.chosen), tuple(map(spelled, e.top))))


@fault("logprob.refusal-key-missing", layer=Layer.MESSAGE, breaks={"logprob.keys.refusal"})
def _(body: Body, ctx: Context) -> Body:
    """The logprobs object has no refusal, as in OpenAI's own example."""
    return each_choice(body, lambda choice: choice["logprobs"].pop("refusal") if choice["logprobs"] else None)


@fault("logprob.copied-to-choices", layer=Layer.MESSAGE, breaks={"logprob.n.own-values"})
def _(body: Body, ctx: Context) -> Body:
    """Every choice has the log probabilities of choice 0."""
    if not isinstance(body.get("choices"), list):
        return body
    first = body["choices"][0]["logprobs"]
    return each_choice(body, lambda choice: choice.update(logprobs=first))


@fault(
    "logprob.tokens-empty",
    layer=Layer.MODEL,
    breaks={"logprob.token.not-empty", "logprob.bytes.join-to-content", "logprobstream.chunk.aligned"},
    cases=("B2-123",),
    source="https://github.com/vllm-project/vllm/pull/34875",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Parts of characters are empty tokens without bytes."""

    def change(e: TokenLogprob) -> TokenLogprob:
        part = e.chosen.token.startswith("bytes:")
        return replace(e, chosen=replace(e.chosen, token="", data=b"")) if part else e

    return _changed(pieces, change)


@fault(
    "logprob.hidden-after-stop",
    layer=Layer.MODEL,
    breaks={"logprob.stop.cut-with-text"},
    cases=("B2-147",),
    source="https://github.com/ooples/AiDotNet/pull/1888",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """Text is cut at a stop string after it was generated, but its entries are not."""
    last: TokenLogprob | None = None
    for piece in pieces:
        last = piece.logprobs[-1] if piece.logprobs else last
        if piece.kind is PieceKind.FINISH and ctx.chat is not None and ctx.chat.stop and last is not None:
            hidden = replace(last, chosen=replace(last.chosen, token=" delta", data=b" delta"), top=())
            yield replace(piece, kind=PieceKind.TEXT, finish=None, logprobs=(hidden, hidden, hidden))
            piece = replace(piece, after=0.0)
        yield piece


@fault(
    "logprob.zeros-when-sampled",
    layer=Layer.MODEL,
    breaks={"logprob.sampled.plausible"},
    cases=("B2-143",),
    source="https://github.com/vllm-project/vllm/issues/17876",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """With speculation every logprob of a sampled answer is 0."""
    sampled = ctx.chat is not None and ctx.chat.top_logprobs == 0 and not ctx.chat.sampling.greedy
    return _changed(pieces, lambda e: replace(e, chosen=replace(e.chosen, logprob=0.0)) if sampled else e)


@fault(
    "logprob.entry-for-end",
    layer=Layer.MODEL,
    breaks={"logprob.finish.no-extra-entry"},
    cases=("B2-125",),
    source="https://github.com/vllm-project/vllm/issues/17637",
)
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """An empty entry with -9999 stands for the end token."""
    last: TokenLogprob | None = None
    for piece in pieces:
        last = piece.logprobs[-1] if piece.logprobs else last
        ends = piece.finish == "stop" and ctx.chat is not None and not ctx.chat.stop
        if ends and last is not None:
            end = TokenLogprob(replace(last.chosen, token="", data=b"", logprob=-9999.0), ())
            piece = replace(piece, logprobs=(end,))
        yield piece
