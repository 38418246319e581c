"""The delta of each streamed choice: its shape, its role, and what may follow what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wireproof.judge.rules import MUST, SHOULD, client, contract, openapi, rule
from wireproof.judge.subjects import STREAMS
from wireproof.read.chat import Chat
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.chat import Choice, Part
from wireproof.wire.strictjson import get, is_int

_CHOICE = "CreateChatCompletionStreamResponse.choices.items"
_DELTA = "ChatCompletionStreamResponseDelta"


def _choices(x: Chat) -> list[Choice]:
    """The choices with a requested index: for any other, first and later parts cannot be told apart."""
    found = [c for c in x.assembled.choices if is_int(c.index) and 0 <= c.index < x.asked_n]
    if not found:
        raise inconclusive("the stream has no choices")
    return found


@rule(
    "chunk.delta.object",
    MUST,
    on=STREAMS,
    book="CHUNK-007",
    source=openapi(f"{_CHOICE} required: delta"),
    evidence=("delta_null", "delta_missing_on_finish"),
)
def test_delta_object(x: Chat) -> None:
    """Every streamed choice has a `delta` object, even where it finishes: `{}` when there is nothing to add.

    If it is null, openai-python's `.stream()` raises `'NoneType' object has no attribute 'to_dict'`; if it is
    missing where the choice finishes, LangChain loses finish_reason and model name.
    """
    for part in x.answer_parts:
        value = get(part.choice, "delta", default="no delta member")
        require(isinstance(value, dict), "an object as delta", got=value, at=part)


@rule(
    "chunk.finish-reason.key-present",
    MUST,
    on=STREAMS,
    book="CHUNK-008",
    source=openapi(f"{_CHOICE} required: finish_reason"),
    evidence=("finish_reason_empty_str",),
)
def test_finish_reason_key(x: Chat) -> None:
    """Every streamed choice has the key `finish_reason`, null until it finishes: never "", never left out.

    The types of openai-node and openai-go require it; strict decoders refuse a chunk without it. The Python
    clients do not mind.
    """
    for part in x.answer_parts:
        require("finish_reason" in part.choice, "the key finish_reason", got=sorted(part.choice), at=part)
        require(part.finish_reason != "", "null as finish_reason until the end", got='""', at=part)


@rule(
    "chunk.role.first",
    MUST,
    on=STREAMS,
    book="CHUNK-009",
    source=client("openai-node", "finalizeChatCompletion"),
    evidence=("no_role",),
)
def test_role_first(x: Chat) -> None:
    """The first delta of each choice says `"role": "assistant"`.

    Without it openai-node's `.finalChatCompletion()` throws "missing role for choice 0", and openai-python's
    snapshot has the role None. The same delta may have text, "" or null as content.
    """
    for choice in _choices(x):
        first = next((p for p in choice.parts if isinstance(p.choice.get("delta"), dict)), None)
        if first is not None:
            got = get(first.delta, "role", default="no role")
            require(got == "assistant", f"the role assistant first for choice {choice.index}", got=got, at=first)


@rule(
    "chunk.role.once",
    MUST,
    on=STREAMS,
    book="CHUNK-010",
    source=contract("a choice has one role"),
)
def test_role_once(x: Chat) -> None:
    """A choice has one role: a delta that repeats it gives the same value.

    A client that keeps the last one attributes the answer to another speaker.
    """
    for choice in _choices(x):
        said = [p for p in choice.parts if p.delta.get("role")]
        for part in said[1:]:
            first, role = said[0].delta["role"], part.delta["role"]
            require(role == first, f"no other role than {first!r} in choice {choice.index}", got=role, at=part)


# No text forbids repeating the role, and many servers do: a strong warning, not a MUST.
@rule(
    "chunk.role.not-repeated",
    SHOULD,
    on=STREAMS,
    source=client("openai-python", "lib/streaming/_deltas.accumulate_delta"),
    evidence=("role_every_chunk", "role_empty_string", "role_null_after"),
)
def test_role_not_repeated(x: Chat) -> None:
    """A choice gives its role once; later deltas leave it out, or have null or "" there.

    openai-python's `.stream()` joins strings: the role becomes "assistantassistantassistant".
    """
    for choice in _choices(x):
        said = [p for p in choice.parts if p.delta.get("role")]
        if len(said) > 1:
            role = said[1].delta["role"]
            require(False, f"the role of choice {choice.index} once", got=f"{role!r}, {len(said)} times", at=said[1])


@rule(
    "chunk.role.own-event",
    SHOULD,
    on=STREAMS,
    book="CHUNK-011",
    source=contract("stream invariant 1"),
)
def test_role_own_event(x: Chat) -> None:
    """The first chunk of a choice carries the role and no text yet: content is "", null or absent.

    It marks the time to the first token, and parsers that treat it specially drop any text in it.
    """
    for choice in _choices(x):
        first = choice.parts[0]
        text = first.delta.get("content")
        alone = not first.delta.get("role") or not isinstance(text, str) or not text
        require(alone, f"no text beside the role of choice {choice.index}", got=text, at=first)


@rule(
    "chunk.content.string",
    MUST,
    on=STREAMS,
    book="CHUNK-013",
    source=openapi(f"{_DELTA}.content"),
    evidence=("content_list",),
)
def test_content_string(x: Chat) -> None:
    """delta.content, if present, is a string or null: never an array, object or number.

    openai-python users and LlamaIndex get a TypeError (can only concatenate str), openai-node shows
    "[object Object]".
    """
    for part in x.answer_parts:
        value = part.delta.get("content")
        require(value is None or isinstance(value, str), "a string or null as content", got=value, at=part)


# The contract lists this as an invariant. It stays a SHOULD: no measured client breaks, vLLM merges the last
# text with the finish under load, and judgement call 1 of the rule book decides it this way.
@rule(
    "chunk.finish.empty-delta",
    SHOULD,
    on=STREAMS,
    book="CHUNK-014",
    source=contract("stream invariant 3"),
    evidence=("finish_with_content", "finish_content_null", "finish_content_empty"),
)
def test_finish_empty_delta(x: Chat) -> None:
    """The chunk that finishes a choice has an empty delta, with no text and no call.

    Parsers that stop at finish_reason before they read the content lose the tail of the answer.
    """
    for part in x.answer_parts:
        if part.finish_reason:
            require(not part.carries, "an empty delta beside finish_reason", got=", ".join(part.carries), at=part)


@rule(
    "chunk.finish.nothing-after",
    MUST,
    on=STREAMS,
    book="CHUNK-015",
    source=contract("stream invariant 3"),
    evidence=("content_after_finish",),
)
def test_finish_nothing_after(x: Chat) -> None:
    """No text, refusal, reasoning or call of a choice comes after its finish_reason.

    User interfaces close the message there. Empty deltas and vendor members may follow.
    """
    for choice in _choices(x):
        finished = False
        for part in choice.parts:
            names = ", ".join(part.carries) if finished else ""
            require(not names, f"nothing more of choice {choice.index} after its finish", got=names, at=part)
            finished = finished or bool(part.finish_reason)


# Members with a rule of their own, or whose accumulation the SDK knows.
_KNOWN = frozenset({"role", "content", "refusal", "tool_calls", "function_call", "reasoning", "reasoning_content"})


def _extensions(choice: Choice) -> Iterator[tuple[Part, str, Any]]:
    for part in choice.parts:
        for name in part.delta.keys() - _KNOWN:
            if part.delta[name] is not None:
                yield part, name, part.delta[name]


def _repeated(x: Chat) -> list[tuple[Part, str, Any]]:
    """The delta members that OpenAI does not define, from their second appearance in a choice onwards."""
    again = []
    judged = False
    for choice in _choices(x):
        seen: set[str] = set()
        for part, name, value in _extensions(choice):
            judged = True
            if name in seen:
                again.append((part, name, value))
            seen.add(name)
    if not judged:
        raise NotApplicable("no delta has members that OpenAI does not define")
    return again


@rule(
    "chunk.extension.accumulates",
    MUST,
    on=STREAMS,
    book="CHUNK-017",
    source=client("openai-python", "lib/streaming/_deltas.accumulate_delta"),
    evidence=("delta_ext_list_noindex", "delta_ext_str_reasoning"),
)
def test_extension_accumulates(x: Chat) -> None:
    """When a choice repeats a list of objects that OpenAI does not define, each entry has an integer `index`.

    openai-python's `.stream()` merges lists by it, and without it raises RuntimeError "Expected list delta entry
    to have an `index` key".
    """
    for part, name, value in _repeated(x):
        entries = value if isinstance(value, list) else []
        bad = next((e for e in entries if isinstance(e, dict) and not is_int(e.get("index"))), None)
        require(bad is None, f"an integer index in each entry of delta.{name}", got=bad, at=part)


@rule(
    "chunk.extension.scalar-once",
    SHOULD,
    on=STREAMS,
    source=client("openai-python", "lib/streaming/_deltas.accumulate_delta"),
    evidence=("delta_ext_number", "delta_ext_bool"),
)
def test_extension_scalar_once(x: Chat) -> None:
    """A choice sends a number or boolean member that OpenAI does not define in only one chunk.

    openai-python's `.stream()` adds the values up: a state sent with each chunk comes out as a sum.
    """
    for part, name, value in _repeated(x):
        what = f"delta.{name}, a {type(value).__name__}, in one chunk only"
        require(not isinstance(value, int | float), what, got=value, at=part)


@rule(
    "chunk.null.only-where-allowed",
    SHOULD,
    on=STREAMS,
    book="CHUNK-018",
    source=openapi(f"{_DELTA}: only content and refusal are nullable"),
    evidence=("tool_calls_null", "tool_id_null_later"),
)
def test_null_only_where_allowed(x: Chat) -> None:
    """A delta leaves out role, tool_calls and function_call, and a call its id and type, rather than sending null.

    Strictly typed clients outside Python treat these members as optional but not nullable. The measured clients
    tolerate null.
    """
    for part in x.answer_parts:
        nulls = [name for name in ("role", "tool_calls", "function_call") if part.delta.get(name, 0) is None]
        calls = part.delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            if isinstance(call, dict):  # a null index or function has its own rule
                nulls += [f"tool_calls[].{name}" for name in ("id", "type") if call.get(name, 0) is None]
        require(not nulls, "no null where the schema allows none", got=", ".join(nulls), at=part)
