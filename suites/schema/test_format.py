"""Formats and schemas that a server accepts. If a server says that it has no schemas at all, these do not judge it."""

from __future__ import annotations

from typing import Any

from wireproof.judge.rules import MAY, MUST, SHOULD, client, each_of, observed, of, openapi, rule
from wireproof.read.chat import Chat
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Take
from wireproof.read.refusal import BUSY_OR_LOCKED
from wireproof.verdict import require
from wireproof.wire import strictjson

_GUIDE = "https://platform.openai.com/docs/guides/structured-outputs"


def _accepted(simple: Exchange, *others: Exchange) -> None:
    """Demand 200 for the others if a simple strict schema gets it; otherwise raise what that refusal says."""
    if not simple.ok:
        raise simple.refused()
    for x in others:
        if x.status in BUSY_OR_LOCKED:
            raise x.refused()
        got = x.refusal() if x.response else f"no answer ({x.transcript.ending.value})"
        served = x.status is not None and 200 <= x.status < 300
        require(served, "200, as for a simple strict schema", got=got, owner=x)


def _nothing_worse(x: Exchange, expected: str) -> None:
    """200 or a 4xx, never a server error or silence."""
    if x.status in BUSY_OR_LOCKED:
        raise x.refused()
    got = x.refusal() if x.response else f"no answer ({x.transcript.ending.value})"
    require(x.status is not None and (200 <= x.status < 300 or 400 <= x.status < 500), expected, got=got)


@rule(
    "schema.format.accepted",
    MUST,
    on=of("plain-pinned", "schema-sdk", "schema-sdk-stream"),
    book="SCHEMA-001",
    source=openapi("ResponseFormatJsonSchema"),
)
def test_format_accepted(simple: Exchange, plain: Exchange, stream: Exchange) -> None:
    """The server accepts a json_schema format as SDKs make it: name, description, strict, titles, $defs, null unions.

    openai `.parse()`, LangChain's with_structured_output and LlamaIndex send exactly this.
    """
    _accepted(simple, plain, stream)


@rule(
    "schema.strict.false-or-null-accepted",
    MUST,
    on=of("plain-pinned", "schema-loose", "schema-null", "schema-absent"),
    book="SCHEMA-012",
    source=openapi("ResponseFormatJsonSchema.json_schema.strict: nullable, default false"),
)
def test_strict_false_or_null(simple: Exchange, false: Exchange, null: Exchange, absent: Exchange) -> None:
    """The server accepts a schema with strict false, null or absent.

    LlamaIndex and LangChain send these forms; the answers are best effort, and no rule judges them.
    """
    _accepted(simple, false, null, absent)


@rule(
    "schema.recursive.supported",
    SHOULD,
    on=of("plain-pinned", "schema-recursive"),
    book="SCHEMA-016",
    source=observed("structured outputs: recursive schemas are supported", _GUIDE),
)
def test_recursive_supported(simple: Exchange, recursive: Exchange) -> None:
    """The server accepts a schema that refers to itself.

    Trees, comment threads and user interfaces have such schemas.
    """
    _accepted(simple, recursive)


@rule(
    "schema.large.accepted",
    SHOULD,
    on=of("schema-large"),
    book="SCHEMA-023",
    source=observed("structured outputs: 1000 enum values, 10 levels", _GUIDE),
)
def test_large_accepted(take: Take) -> None:
    """The server accepts a schema with 1000 enum values, and one that nests 10 levels deep.

    A schema that works with OpenAI must work here: lists of products or places become such enums.
    """
    _accepted(take["small"], take["first"], take["deep"])


@rule(
    "schema.openai-subset.refused-or-enforced",
    MAY,
    on=each_of("schema-root-array", "schema-root-anyof", "schema-open"),
    book="SCHEMA-022",
    source=observed("structured outputs: supported schemas", _GUIDE),
)
def test_subset_refused_or_enforced(x: Exchange) -> None:
    """The server serves a strict schema outside OpenAI's subset or refuses it with a 4xx; it never sends a 5xx.

    OpenAI refuses it; engines usually accept more, and other rules judge whether the answers keep to the schema.
    """
    _nothing_worse(x, "200 or a 4xx")


def _object_in(x: Chat) -> Any:
    content = x.outcomes[0].content
    value = strictjson.parse(content).value if isinstance(content, str) else None
    return value if isinstance(value, dict) else None


@rule(
    "schema.text.same-as-absent",
    MUST,
    on=of("plain-greedy", "format-text", "format-null"),
    book="SCHEMA-005",
    source=openapi("ResponseFormatText"),
)
def test_text_same_as_absent(absent: Chat, text: Chat, null: Chat) -> None:
    """The server accepts response_format {"type": "text"} and null, and answers in free text, as without the member.

    SDKs send the default explicitly.
    """
    if not absent.ok:
        raise absent.refused()
    for x in (text, null):
        if x.status in BUSY_OR_LOCKED:
            raise x.refused()
        served = x.status is not None and 200 <= x.status < 300
        require(served, "200, as without response_format", got=x.refusal(), owner=x)
        if _object_in(absent) is None:
            require(_object_in(x) is None, "free text", got=x.outcomes[0].content, owner=x)


@rule(
    "schema.object.without-word-json",
    MAY,
    on=each_of("format-object-unasked"),
    book="SCHEMA-029",
    source=observed("'messages' must contain the word 'json'", "https://github.com/mem0ai/mem0/issues/3008"),
)
def test_object_without_word(x: Exchange) -> None:
    """The server serves json_object without the word JSON in the messages, or refuses it with a 4xx.

    OpenAI refuses it, because models then print endless blanks; engines serve it.
    """
    _nothing_worse(x, "200 or a 4xx")


@rule(
    "schema.logprobs.together",
    SHOULD,
    on=of("plain-pinned", "plain-logprobs", "schema-logprobs"),
    source=client("openai-python", "chat.completions.parse(logprobs=True)"),
)
def test_logprobs_together(simple: Exchange, scored: Exchange, both: Exchange) -> None:
    """The server accepts a strict schema and logprobs in one request.

    Clients read the confidence of extracted values from the entries; the rules for logprobs judge whether they are
    there.
    """
    if not scored.ok:
        raise scored.refused()
    _accepted(simple, both)
