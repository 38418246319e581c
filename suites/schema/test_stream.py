"""Structured output in streams, refusals, an engine's own `choice`, and schemas that come again."""

from __future__ import annotations

from wireproof.judge.rules import MAY, MUST, SHOULD, Each, client, contract, engine, observed, of, rule
from wireproof.read.chat import Chat, is_answer, is_stream
from wireproof.read.exchange import Exchange
from wireproof.read.json_answer import Flaw, asks_json, texts
from wireproof.read.recording import Take
from wireproof.verdict import Inconclusive, NotApplicable, inconclusive, require

# What a repeated schema may cost before it counts as compiled again (seconds, and share of the first time).
_NOTICED, _SHARE = 1.0, 0.8


@rule(
    "schema.stream.same-guarantee",
    MUST,
    on=Each(
        "every stream under json_object or a strict JSON Schema",
        lambda x: is_stream(x) and asks_json(x) and x.asked_n == 1,
        ("schema-token-stream", "schema-sdk-stream", "format-object-stream"),
    ),
    book="SCHEMA-007",
    source=client("openai-python", "ChatCompletionStreamState: partial JSON of each delta"),
)
def test_stream_same_guarantee(x: Chat) -> None:
    """The deltas of a stream, joined, keep the same promise as a plain answer, from the first character on.

    openai's `.stream(response_format=...)` parses the JSON so far at each delta: a fence, or prose, makes it raise in
    the middle of the answer.
    """
    found = texts(x)
    for text in found:
        require(text.flaw in (None, Flaw.CUT, Flaw.LETTERS), "JSON of the format, and nothing else", got=text.shown)
    if not any(text.content.strip() for text in found):
        raise inconclusive("the answer is empty")


@rule(
    "schema.refusal.content-null",
    MAY,
    on=Each(
        "every answer under json_object or a strict JSON Schema in which the model refuses",
        lambda x: is_answer(x) and asks_json(x) and _refuses(x),
        ("schema-level", "schema-token-stream"),
    ),
    book="SCHEMA-030",
    source=observed("structured outputs: refusals", "https://platform.openai.com/docs/guides/structured-outputs"),
)
def test_refusal_content_null(x: Chat) -> None:
    """When the model refuses, its text is in `refusal`, and content is null.

    Clients look at `refusal` first, and then take content for JSON.
    """
    for o in x.outcomes:
        if isinstance(o.refusal, str) and o.refusal:
            require(not o.content, "content null beside a refusal", got=o.content)


def _refuses(x: Chat) -> bool:
    if b'"refusal"' not in x.answered.content.replace(b'"refusal":null', b"").replace(b'"refusal": null', b""):
        return False
    try:
        return any(isinstance(o.refusal, str) and o.refusal for o in x.outcomes)
    except Inconclusive:  # a broken answer
        return False


def _is_within(text: str, word: str) -> bool:
    """Whether a text is the word with some letters missing."""
    letters = iter(word)
    return all(letter in letters for letter in text)


@rule(
    "schema.vendor.choice",
    MAY,
    on=of("schema-choice", "schema-choice-stream"),
    book="SCHEMA-031",
    source=engine("vllm", "StructuredOutputsParams.choice"),
)
def test_vendor_choice(plain: Chat, stream: Chat) -> None:
    """A server that knows `structured_outputs.choice` keeps to it, streamed and plain.

    It forces any model to one of a few words; if it works in only one mode, classifiers sometimes get prose.
    """
    words = plain.asked["structured_outputs"]["choice"]
    said = [texts(x)[0].content for x in (plain, stream)]
    if not any(s in words for s in said):
        raise NotApplicable("the target does not know structured_outputs")
    for text, x in zip(said, (plain, stream), strict=True):
        if text not in words and any(_is_within(text, word) for word in words):
            raise inconclusive("text was lost on the way")
        require(text in words, f"one of {', '.join(words)}", got=text, owner=x)


def _first_event(x: Exchange) -> float:
    """When the first data event arrived (seconds after the request)."""
    if not x.transcript.timed:
        raise NotApplicable("the recording has no times")
    if not x.events:
        raise inconclusive("the stream has no event")
    end = x.events[0].span[1] - 1
    return next((at for e, at in x.answered.arrivals if e > end), x.answered.arrivals[-1][1])


@rule(
    "schema.repeated.compiled-once",
    SHOULD,
    on=of("schema-large"),
    book="SCHEMA-027",
    source=contract("schema compilation cost"),
)
def test_repeated_compiled_once(take: Take) -> None:
    """The server compiles a large schema once: when the schema comes again, the first event is not late again.

    An agent sends the same schema with every call. This fails only if the second delay is more than a second, and more
    than four fifths of the first; delays count from that of a small schema.
    """
    small, first, again = (_first_event(take[step]) for step in ("small", "first", "again"))
    late, later = first - small, again - small
    got = f"{later:.1f} s late, the first time {late:.1f} s"
    require(later <= _NOTICED or later <= _SHARE * late, "the first event without a new compilation", got=got)
