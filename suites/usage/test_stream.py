"""The usage chunk of a stream: sent when requested, once, and last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wireproof.judge.rules import MAY, MUST, SHOULD, Each, client, contract, engine, openapi, rule, unobservable
from wireproof.read.chat import Chat, is_stream
from wireproof.read.exchange import Exchange
from wireproof.verdict import Unsupported, inconclusive, require
from wireproof.wire.chat import Chunk
from wireproof.wire.strictjson import get, is_int

_FIELDS = ("prompt_tokens", "completion_tokens", "total_tokens")
_OPTIONS = "ChatCompletionStreamOptions.include_usage"


def _continuous(x: Exchange) -> bool:
    return get(x.asked, "stream_options", "continuous_usage_stats") is True


_ASKED = Each(
    "every chat stream with include_usage", lambda x: is_stream(x) and x.asked_usage, ("stream-usage", "stream-n2")
)
_UNASKED = Each(
    "every chat stream without include_usage",
    lambda x: is_stream(x) and not x.asked_usage and not _continuous(x),
    ("stream-greedy", "stream-usage-false", "stream-default"),
)
_CONTINUOUS = Each(
    "every chat stream with continuous_usage_stats",
    lambda x: is_stream(x) and _continuous(x),
    ("stream-continuous-usage",),
)


def _usages(x: Chat) -> list[tuple[Chunk, dict[str, Any]]]:
    return [(chunk, usage) for chunk, usage in x.assembled.usages if isinstance(usage, dict)]


def _last(x: Chat) -> tuple[Chunk, dict[str, Any]]:
    """The last usage; inconclusive when there is none: usage.stream.chunk-when-asked demands it."""
    found = _usages(x)
    if not found:
        raise inconclusive("the stream has no usage")
    return found[-1]


@rule(
    "usage.stream.chunk-when-asked",
    MUST,
    on=_ASKED,
    book="USAGE-004",
    source=openapi(_OPTIONS),
    evidence=("good", "usage_completion_null", "usage_strings"),
)
def test_chunk_when_asked(x: Chat) -> None:
    """A complete stream with include_usage has a usage object whose three counts are non-negative integers.

    Otherwise billing and token meters have no numbers.
    """
    assembled = x.finished_stream
    if not any(choice.finishes for choice in assembled.choices):
        raise inconclusive("the stream did not finish, so usage may be missing")
    found = _usages(x)
    require(found, "a chunk with a usage object", got="none", at=x.chunks[-1])
    at, usage = found[-1]
    for name in _FIELDS:
        value = usage.get(name)
        require(is_int(value) and value >= 0, f"a non-negative integer in `{name}`", got=repr(value), at=at)


@rule(
    "usage.stream.chunk-last",
    MUST,
    on=_ASKED,
    book="USAGE-005",
    source=client("openai-python", "ChatCompletionStreamState overwrites usage with each chunk's"),
    evidence=("usage_then_null_chunk", "usage_before_finish"),
)
def test_chunk_last(x: Chat) -> None:
    """The usage chunk is the last chunk before [DONE].

    The .stream() helpers of openai-python and openai-node keep what the last chunk says, so earlier usage is lost.
    """
    chunk, _ = _last(x)
    if x.errors:
        raise inconclusive("the stream broke off with an error event")
    later = next((c for c in x.chunks if c.position > chunk.position), None)
    require(later is None, "no chunk after the usage", got=later and later.event.data, at=later)


@rule(
    "usage.stream.choices-empty",
    MUST,
    on=_ASKED,
    book="USAGE-006",
    source=openapi(f"{_OPTIONS}: choices will always be an empty array"),
    evidence=("usage_no_choices_key", "usage_choices_null", "usage_on_finish_chunk"),
)
def test_choices_empty(x: Chat) -> None:
    """The server sends the usage in a chunk of its own, whose choices are an empty array.

    If it is on the finish chunk, clients that wait for the extra chunk count nothing (Letta: int += None). If
    choices is missing or null, openai-python's .stream() and LlamaIndex raise TypeError, openai-node "not iterable".
    """
    chunk, _ = _last(x)
    choices = get(chunk.value, "choices")
    if not isinstance(choices, list):
        raise inconclusive("choices is not an array: chunk.choices.array judges that")
    require(not choices, "`choices: []` in the usage chunk", got=choices, at=chunk)


def _same_sum(found: Sequence[tuple[Chunk, dict[str, Any]]]) -> None:
    """Adding up the usage objects must give the numbers of the last one."""
    for name in _FIELDS if len(found) > 1 else ():
        counts = [count for _, usage in found if is_int(count := usage.get(name))]
        if len(counts) == len(found):
            total = sum(counts)
            got = f"{len(found)} times, adding up to {total}"
            require(total == counts[-1], f"{name} {counts[-1]} once", got=got, at=found[0][0])


@rule(
    "usage.stream.once",
    MUST,
    on=Each(
        "every chat stream with include_usage and no continuous usage",
        lambda x: is_stream(x) and x.asked_usage and not _continuous(x),
        ("stream-usage",),
    ),
    book="USAGE-007",
    source=client("langchain-core", "AIMessageChunk.__add__ adds usage"),
    evidence=("usage_every_chunk",),
)
def test_once(x: Chat) -> None:
    """Adding up the usage of all chunks gives the same numbers as reading the last one.

    LangChain and pydantic-ai add up usage: a stream with usage on every chunk counted as 33 tokens instead of 7.
    """
    _same_sum(_usages(x))


@rule(
    "usage.stream.null-elsewhere",
    SHOULD,
    on=_ASKED,
    book="USAGE-008",
    source=openapi(f"{_OPTIONS}: all other chunks also include a usage field, with a null value"),
    evidence=("usage_null_elsewhere",),
)
def test_null_elsewhere(x: Chat) -> None:
    """With include_usage, every chunk has the key usage, null in all but the last.

    Strictly typed clients expect the key; vLLM leaves it out, and no client that we tried depends on it.
    """
    for chunk in x.chunks:
        require("usage" in chunk.value, "the key `usage`", got=sorted(chunk.value), at=chunk)


@rule(
    "usage.stream.absent-unasked",
    MUST,
    on=_UNASKED,
    book="USAGE-009",
    source=openapi("CreateChatCompletionStreamResponse.usage: only present with stream_options"),
)
def test_absent_unasked(x: Chat) -> None:
    """Without include_usage, no chunk has usage, or at least its usage objects do not contradict each other.

    LangChain and pydantic-ai add up usage, requested or not: a stream with usage on every chunk counts several times.
    """
    _same_sum(_usages(x))


# Servers that always send it call it a superset, but naive clients crash on it: a warning.
@rule(
    "usage.stream.no-chunk-unasked",
    SHOULD,
    on=_UNASKED,
    source=openapi("CreateChatCompletionStreamResponse.usage: only present with stream_options"),
)
def test_no_chunk_unasked(x: Chat) -> None:
    """Without include_usage, the server sends no usage chunk with empty choices.

    Code that reads chunk.choices[0] raises IndexError there; dozens of clients did.
    """
    for chunk, _ in _usages(x):
        require(chunk.choices, "no usage chunk, as none was asked for", got=chunk.event.data, at=chunk)


@rule(
    "usage.stream.unasked-on-choices",
    SHOULD,
    on=_UNASKED,
    source=client("langchain-core", "AIMessageChunk.__add__ adds usage"),
    evidence=("usage_every_chunk",),
)
def test_unasked_on_choices(x: Chat) -> None:
    """Without include_usage, the chunks of the choices carry no usage either.

    Some servers always send it and most clients ignore it; those that add it up count too much.
    """
    for chunk, usage in _usages(x):
        if chunk.choices:
            require(False, "no usage, as none was asked for", got=usage, at=chunk)


@rule(
    "usage.stream.never-decreases",
    MUST,
    on=Each(
        "every chat stream with usage and without continuous_usage_stats",
        lambda x: is_stream(x) and not _continuous(x) and x.usage is not None,
        ("stream-usage",),
    ),
    source=contract("a count that runs along only grows"),
)
def test_never_decreases(x: Chat) -> None:
    """If a stream has several usage objects, their counts never decrease.

    If the objects are increments, clients that keep the last one lose all earlier counts.
    """
    _check_monotone(x)


def _check_monotone(x: Chat) -> None:
    found = _usages(x)
    for name in _FIELDS:
        highest = 0
        for chunk, usage in found:
            value = usage.get(name)
            if is_int(value):
                require(value >= highest, f"{name} of at least {highest}", got=value, at=chunk)
                highest = value


@rule(
    "usage.continuous.monotone",
    MAY,
    on=_CONTINUOUS,
    book="USAGE-016",
    source=engine("vllm", "stream_options.continuous_usage_stats; SGLang has it too"),
)
def test_continuous_monotone(x: Chat) -> None:
    """With continuous_usage_stats, the counts never decrease, and the last ones are those of the whole answer.

    Otherwise live token meters jump back.
    """
    found = _usages(x)
    if len(found) < 2:
        raise Unsupported("continuous_usage_stats: the option is ignored")
    _check_monotone(x)


unobservable(
    "usage.interrupted.may-lack-chunk",
    MAY,
    requirement="An interrupted or cancelled stream may lack the usage chunk.",
    why="Clients must not wait for it.",
    reason="A permission, not a demand: nothing that a server does can break it.",
    source=openapi("CreateChatCompletionStreamResponse.usage, note"),
    book="USAGE-017",
)
