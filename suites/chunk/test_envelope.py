"""What every chunk carries around its choices."""

from __future__ import annotations

from typing import Any

from wireproof.judge.rules import MAY, MUST, SHOULD, Each, client, openapi, rule
from wireproof.judge.subjects import STREAMS
from wireproof.read.chat import Chat, is_stream
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get, is_int

_CHUNK = "CreateChatCompletionStreamResponse"


def _constant(x: Chat, name: str, what: str) -> None:
    """`name` is a non-empty string in every chunk, and always the same one."""
    first: Any = None
    for chunk in x.answer_chunks:
        value = get(chunk.value, name, default="nothing")
        require(isinstance(value, str) and value and name in chunk.value, f"{what}", got=value, at=chunk)
        first = value if first is None else first
        require(value == first, f"the same {name} in all chunks, {first!r}", got=repr(value), at=chunk)


@rule(
    "chunk.object.literal",
    MUST,
    on=STREAMS,
    book="CHUNK-001",
    source=openapi(f"{_CHUNK}.object"),
    evidence=("object_wrong", "object_missing"),
)
def test_object_literal(x: Chat) -> None:
    """Every chunk says `"object": "chat.completion.chunk"`.

    openai-python's `.stream()` drops chunks that say anything else, and then fails with an AssertionError
    that has no message.
    """
    for chunk in x.answer_chunks:
        value = get(chunk.value, "object", default="no object member")
        require(value == "chat.completion.chunk", '"chat.completion.chunk" as object', got=value, at=chunk)


@rule(
    "chunk.id.constant",
    MUST,
    on=STREAMS,
    book="CHUNK-002",
    source=openapi(f"{_CHUNK}.id: each chunk has the same ID"),
    evidence=("id_changes", "missing_id"),
)
def test_id_constant(x: Chat) -> None:
    """`id` is a non-empty string, the same in all chunks of a stream, for any n.

    Accumulators of typed clients (.NET, Go, Rust) refuse a chunk with another id; traces and caches keyed by it
    split one answer into several.
    """
    _constant(x, "id", "a non-empty string as id")


# A server that reads its clock for every chunk moves `created` on by the gap between two chunks (seconds).
_CLOCK_STEP = 120


@rule(
    "chunk.created.constant",
    MUST,
    on=STREAMS,
    book="CHUNK-003",
    source=openapi(f"{_CHUNK}.created: each chunk has the same timestamp"),
    evidence=("created_float_str",),
)
def test_created_constant(x: Chat) -> None:
    """`created` is an integer, and one time for the whole stream: it never jumps.

    Typed clients (Go, Rust, C#) cannot decode a float or a string there. chunk.created.does-not-move judges a
    clock that moves on while the stream runs.
    """
    before: Any = None
    for chunk in x.answer_chunks:
        value = get(chunk.value, "created", default="no created member")
        require(is_int(value), "an integer as created", got=value, at=chunk)
        steady = before is None or 0 <= value - before <= _CLOCK_STEP
        require(steady, f"the same created in all chunks, {before}", got=value, at=chunk)
        before = value


# OpenAI's text says "each chunk has the same timestamp", but many servers read their clock again: a warning.
@rule(
    "chunk.created.does-not-move",
    SHOULD,
    on=STREAMS,
    source=openapi(f"{_CHUNK}.created: each chunk has the same timestamp"),
)
def test_created_does_not_move(x: Chat) -> None:
    """`created` is the same in all chunks, even when the stream runs into the next second.

    Accumulators of strictly typed clients refuse a chunk with another time.
    """
    times = [(c, value) for c in x.answer_chunks if is_int(value := get(c.value, "created"))]
    for chunk, value in times[1:]:
        first = times[0][1]
        moved = 0 < value - first <= _CLOCK_STEP * len(times)
        require(not moved, f"the same created in all chunks, {first}", got=value, at=chunk)


@rule("chunk.created.seconds", MUST, on=STREAMS, source=openapi(f"{_CHUNK}.created: Unix timestamp in seconds"))
def test_created_seconds(x: Chat) -> None:
    """`created` is the time of the answer in Unix seconds, not in milliseconds.

    Otherwise the AI SDK and dashboards show a date in the year 57000.
    """
    values = [(c, c.value["created"]) for c in x.answer_chunks if is_int(c.value.get("created"))]
    if not values:
        raise NotApplicable("no chunk has an integer created")
    for chunk, value in values:
        require(10**9 <= value < 10**10, "Unix seconds (ten digits) as created", got=value, at=chunk)


@rule(
    "chunk.model.constant",
    MUST,
    on=STREAMS,
    book="CHUNK-004",
    source=openapi(f"{_CHUNK} required: model"),
    evidence=("model_missing", "model_null"),
)
def test_model_constant(x: Chat) -> None:
    """`model` is a non-empty string, the same in all chunks of a stream.

    It need not be the requested name. Without it LangChain loses `response_metadata["model_name"]`, and costs
    cannot be assigned to a model.
    """
    _constant(x, "model", "a non-empty string as model")


@rule(
    "chunk.choices.array",
    MUST,
    on=STREAMS,
    book="CHUNK-005",
    source=openapi(f"{_CHUNK} required: choices"),
    evidence=("usage_no_choices_key", "usage_choices_null"),
)
def test_choices_array(x: Chat) -> None:
    """Every chunk has `choices`, an array of objects: the usage chunk has an empty one.

    If it is absent or null, LlamaIndex says `object of type 'NoneType' has no len()`, openai-python's `.stream()`
    `'NoneType' object is not iterable`, openai-node `chunk.choices is not iterable`.
    """
    for chunk in x.answer_chunks:
        value = get(chunk.value, "choices", default="no choices member")
        ok = isinstance(value, list) and all(isinstance(choice, dict) for choice in value)
        require(ok, "an array of objects as choices", got=value, at=chunk)


@rule(
    "chunk.choices.first-not-empty",
    SHOULD,
    on=STREAMS,
    source=client("speak-gpt", "reads choices[0] of the first chunk"),
    evidence=("first_choices_empty",),
)
def test_first_not_empty(x: Chat) -> None:
    """The first chunk of a stream has a choice.

    Azure sends its prompt filter results first, with `choices: []`; clients that read `choices[0]` crash there.
    The measured SDKs do not mind.
    """
    objects = [p for p in x.payloads if isinstance(get(p.value, "choices"), list)]
    first = objects[0] if objects else x.answer_chunks[0]
    require(get(first.value, "choices") != [], "a choice in the first chunk", got="choices: []", at=first)


@rule(
    "chunk.index.integer",
    MUST,
    on=STREAMS,
    book="CHUNK-006",
    source=openapi(f"{_CHUNK}.choices.items required: index"),
    evidence=("choice_index_missing",),
)
def test_index_integer(x: Chat) -> None:
    """Every streamed choice has an integer `index`, 0 or more.

    Without it openai-python's `.stream()` raises a TypeError (list indices must be integers), the openai-node
    helper ends without a message, and openai-agents shows an empty text.
    """
    for part in x.answer_parts:
        value = get(part.choice, "index", default="no index member")
        require(is_int(value) and value >= 0, "an integer index", got=value, at=part)


@rule(
    "chunk.choice.no-message",
    SHOULD,
    on=STREAMS,
    source=openapi(f"{_CHUNK}.choices.items: delta, and no message"),
)
def test_no_message(x: Chat) -> None:
    """A streamed choice has a delta and no `message` beside it.

    Some servers repeat the whole text so far in every chunk: the stream grows with the square of its length,
    and parsers that merge both show the text twice.
    """
    for part in x.answer_parts:
        require(part.choice.get("message") is None, "no message in a streamed choice", got="a message", at=part)


@rule(
    "chunk.error.absent",
    MUST,
    on=STREAMS,
    book="CHUNK-016",
    source=client("openai-python", "_streaming.Stream.__stream__"),
    evidence=("error_null_each", "error_mid_obj"),
)
def test_error_absent(x: Chat) -> None:
    """A chunk of a successful answer has no `error` member other than null.

    openai-python and openai-node raise APIError at the first one, whatever the choices beside it say.
    """
    for payload in x.errors:
        choices = get(payload.value, "choices")
        # A gateway may report a failure in the form of a last chunk: that is an error event, not an answer.
        failed = any(get(c, "finish_reason") == "error" for c in choices) if isinstance(choices, list) else False
        answer = isinstance(choices, list) and bool(choices) and not failed
        require(not answer, "no error in a chunk with choices", got=payload.value.get("error"), at=payload)
    if not x.chunks:
        raise inconclusive("the stream has no chunks")


_OBFUSCATION = Each("every chat stream, and one that turns obfuscation off", is_stream, ("stream-obfuscation-off",))


@rule(
    "chunk.obfuscation.optional",
    MAY,
    on=_OBFUSCATION,
    book="CHUNK-019",
    source=openapi("ChatCompletionStreamOptions.include_obfuscation"),
    evidence=("obfuscation",),
)
def test_obfuscation_optional(x: Chat) -> None:
    """A chunk may carry `obfuscation`, a random string, unless include_obfuscation is false.

    It hides the real sizes of events from observers of the traffic; a client turns it off to save bandwidth.
    """
    off = get(x.asked, "stream_options", "include_obfuscation") is False
    seen = [c for c in x.answer_chunks if c.value.get("obfuscation") is not None]
    if not seen and not off:
        raise NotApplicable("no chunk has obfuscation, and the request did not turn it off")
    for chunk in seen:
        value = chunk.value["obfuscation"]
        require(isinstance(value, str), "a string as obfuscation", got=value, at=chunk)
        require(not off, "no obfuscation, as asked", got=value, at=chunk)
