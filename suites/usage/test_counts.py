"""Token counts that must add up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from wireproof.judge.rules import MUST, SHOULD, Across, Each, client, contract, each_of, of, openapi, rule
from wireproof.judge.subjects import ANSWERS, PLAIN, TWINS
from wireproof.read.chat import Chat, is_answer, is_plain
from wireproof.read.exchange import Exchange
from wireproof.read.refusal import must_be_judged
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get, is_int

_FIELDS = ("prompt_tokens", "completion_tokens", "total_tokens")
_COMPLETION = "CompletionUsage"
# With a larger limit, the context may be full before the answer reaches the limit (tokens).
_SMALL_LIMIT = 512
# These change the answer but not the prompt.
_NOT_PROMPT = frozenset(
    (
        *("stream", "stream_options", "n", "max_tokens", "max_completion_tokens", "min_tokens", "ignore_eos", "stop"),
        *("temperature", "top_p", "top_k", "min_p", "seed", "logprobs", "top_logprobs", "logit_bias"),
        *("presence_penalty", "frequency_penalty", "user", "metadata", "store"),
    )
)


def _is_open(x: Exchange) -> bool:
    """Whether only the limit is likely to end the answer; otherwise a wrong finish_reason looks like a wrong count."""
    return not any(x.asked.get(name) for name in ("stop", "tools", "functions", "response_format"))


def _count(x: Chat, name: str = "completion_tokens") -> int:
    """A count of the answer's usage; inconclusive when there is none: other rules demand it."""
    found = (x.usage or {}).get(name)
    if not is_int(found):
        raise inconclusive(f"the answer has no {name}")
    return int(found)


def _all_usages(x: Chat) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Every usage object, with its chunk in a stream."""
    if x.is_event_stream:
        yield from ((chunk, usage) for chunk, usage in x.assembled.usages if isinstance(usage, dict))
    elif x.usage is not None:
        yield None, x.usage


_WITH_USAGE = Each("every answer with usage", lambda x: is_answer(x) and x.usage is not None, ANSWERS.needs)


@rule(
    "usage.plain.present",
    MUST,
    on=PLAIN,
    book="USAGE-001",
    source=openapi(f"{_COMPLETION}.required"),
    evidence=("ns_usage_missing", "ns_usage_null", "usage_completion_null", "usage_strings"),
)
def test_plain_present(x: Chat) -> None:
    """A plain answer has a usage object whose three counts are non-negative integers.

    Billing, rate limits and LangChain's usage_metadata read them; typed clients reject null and strings.
    """
    usage = x.completion.get("usage")
    require(isinstance(usage, dict), "an object in `usage`", got=x.completion.get("usage", "no usage"))
    for name in _FIELDS:
        value = get(usage, name)
        require(is_int(value) and value >= 0, f"a non-negative integer in `{name}`", got=repr(value))


@rule("usage.total.sum", MUST, on=_WITH_USAGE, book="USAGE-002", source=openapi(f"{_COMPLETION}.total_tokens"))
def test_total_sum(x: Chat) -> None:
    """total_tokens is the sum of prompt_tokens and completion_tokens.

    Otherwise two bills for the same call disagree.
    """
    for at, usage in _all_usages(x):
        prompt, completion, total = (usage.get(name) for name in _FIELDS)
        if is_int(prompt) and is_int(completion) and is_int(total):
            require(total == prompt + completion, f"{prompt} + {completion} = {prompt + completion}", got=total, at=at)


@rule(
    "usage.length.exact",
    MUST,
    on=Each(
        "every open answer with one choice and a small token limit",
        lambda x: (
            is_answer(x) and x.asked_n == 1 and _is_open(x) and (x.token_limit or _SMALL_LIMIT + 1) <= _SMALL_LIMIT
        ),
        ("plain-cut", "stream-cut", "plain-cut-one", "stream-cut-one", "plain-cut-completion-tokens"),
    ),
    book="USAGE-003",
    source=openapi("CreateChatCompletionRequest.max_completion_tokens"),
)
def test_length_exact(x: Chat) -> None:
    """An answer cut off at k tokens has completion_tokens k.

    Counts that are off by one or two (a start token, drafted tokens) become wrong bills.
    """
    if any(o.finish_reason != "length" for o in x.outcomes):
        raise NotApplicable("the answer was not cut")
    if x.is_event_stream and not x.asked_usage and x.usage is None:
        raise NotApplicable("no usage was asked for")
    found = _count(x)
    limit = x.token_limit or 0
    if found > limit or not found:
        raise inconclusive("0 or too many tokens: usage.completion.counted and .within-limit judge that")
    require(found == limit, f"{limit} completion tokens", got=found)


@rule(
    "usage.completion.within-limit",
    MUST,
    on=Each(
        "every answer with usage and a token limit",
        # (The server decides what a limit of 0 or less means.)
        lambda x: is_answer(x) and x.usage is not None and (x.token_limit or 0) > 0,
        ANSWERS.needs,
    ),
    source=openapi("CreateChatCompletionRequest.max_completion_tokens; n"),
)
def test_completion_within_limit(x: Chat) -> None:
    """completion_tokens does not exceed the token limit times n.

    A count that was added up again at every step turned 197 tokens into 19503, which were billed.
    """
    most, found = (x.token_limit or 0) * x.asked_n, _count(x)
    require(found <= most, f"at most {most} completion tokens", got=found)


@rule(
    "usage.completion.counted",
    MUST,
    on=_WITH_USAGE,
    source=contract("text is never free"),
)
def test_completion_counted(x: Chat) -> None:
    """completion_tokens is at least 1 when the answer has text or a tool call.

    A gateway that overwrites the engine's numbers with an estimate reports 0, and costs vanish.
    """
    if any(o.content or o.calls for o in x.outcomes):
        found = _count(x)
        require(found >= 1, "at least one completion token for this text", got=found)


@rule(
    "usage.n.completion-summed",
    MUST,
    on=Each(
        "every answer with n > 1 and a small token limit",
        lambda x: is_answer(x) and x.asked_n > 1 and x.token_limit is not None and x.token_limit <= _SMALL_LIMIT,
        ("plain-n3-cut", "stream-n3-cut"),
    ),
    book="USAGE-011",
    source=contract("n choices are billed"),
)
def test_n_completion_summed(x: Chat) -> None:
    """With n > 1, completion_tokens is the sum over all choices: n times the limit when all were cut off.

    Counting only one choice leaves the others unbilled.
    """
    outcomes = x.outcomes
    if len(outcomes) != x.asked_n or any(o.finish_reason != "length" for o in outcomes):
        raise inconclusive("not every choice was cut")
    if x.is_event_stream and not x.asked_usage and x.usage is None:
        raise NotApplicable("no usage was asked for")
    found, limit = _count(x), x.token_limit or 0
    if found > limit * x.asked_n or not found:
        raise inconclusive("0 or too many tokens: usage.completion.counted and .within-limit judge that")
    require(found == limit * x.asked_n, f"{x.asked_n} times {limit} completion tokens", got=found)


@rule(
    "usage.parity.with-plain",
    SHOULD,
    on=TWINS,
    book="USAGE-010",
    source=openapi("ChatCompletionStreamOptions.include_usage: for the entire request"),
)
def test_parity_with_plain(plain: Chat, stream: Chat) -> None:
    """The same answer has the same usage, streamed or not; prompt_tokens is the same in any case.

    Two ways of counting drift apart, and then the bill depends on the mode.
    """
    if stream.usage is None or not stream.asked_usage:
        raise NotApplicable("the request did not ask for the stream's usage")
    prompt, streamed = _count(plain, "prompt_tokens"), _count(stream, "prompt_tokens")
    require(streamed == prompt, f"{prompt} prompt tokens as in the plain answer", got=streamed, owner=stream)
    if [(o.content or "", o.calls) for o in plain.outcomes] != [(o.content or "", o.calls) for o in stream.outcomes]:
        raise inconclusive("the two answers differ")
    tokens, found = _count(plain), _count(stream)
    require(found == tokens, f"{tokens} completion tokens as in the plain answer", got=found, owner=stream)


def _prompt_key(x: Exchange) -> str:
    return json.dumps({k: v for k, v in x.asked.items() if k not in _NOT_PROMPT}, sort_keys=True)


@rule(
    "usage.prompt.independent",
    MUST,
    on=Across(
        "all answers with usage",
        lambda x: is_answer(x) and x.usage is not None and x.valid and "messages" in x.asked,
        ("plain-n3-cut", "plain-n1-cut", "stream-n3-cut", "usage-short-prompt", "usage-sampled", "stream-usage"),
    ),
    book="USAGE-018",
    source=openapi(f"{_COMPLETION}.prompt_tokens"),
)
def test_prompt_independent(found: Sequence[Chat]) -> None:
    """prompt_tokens depends only on the prompt: not on n, stream, the token limit or sampling parameters.

    If the prompt is counted n times, or again by a gateway's own tokenizer, the bill is wrong.
    """
    first: dict[str, tuple[Exchange, int]] = {}
    compared = 0
    for x in found:
        tokens = get(x.usage, "prompt_tokens")
        if not is_int(tokens):
            continue
        other, wanted = first.setdefault(_prompt_key(x), (x, tokens))
        compared += other is not x
        require(tokens == wanted, f"{wanted} prompt tokens, as in {other.scenario}", got=tokens, owner=x)
    if not compared:
        raise inconclusive("no two answers have the same prompt")


@rule(
    "usage.prompt.grows",
    MUST,
    on=of("usage-short-prompt", "usage-more-messages"),
    source=openapi(f"{_COMPLETION}.prompt_tokens"),
)
def test_prompt_grows(short: Exchange, longer: Exchange) -> None:
    """prompt_tokens grows when messages are added before the last one.

    A count of only the last message hides what a long conversation costs.
    """
    if not (is_plain(short) and is_plain(longer)):
        raise inconclusive("the two requests were not both answered")
    few, more = _count(short, "prompt_tokens"), _count(longer, "prompt_tokens")
    require(more > few, f"more than {few} prompt tokens with two more messages", got=more, owner=longer)


def _details(x: Chat) -> Iterator[tuple[Any, str, Any, dict[str, Any]]]:
    for at, usage in _all_usages(x):
        for name in ("prompt_tokens_details", "completion_tokens_details"):
            if name in usage:
                yield at, name, usage[name], usage


@rule(
    "usage.details.integers",
    SHOULD,
    on=_WITH_USAGE,
    book="USAGE-012",
    source=openapi(f"{_COMPLETION}.*_details: objects of integers, not nullable"),
)
def test_details_integers(x: Chat) -> None:
    """Usage details, if given, are objects of non-negative integers; otherwise they are absent, not null.

    Strictly generated clients reject null.
    """
    for at, name, details, _ in _details(x):
        require(isinstance(details, dict), f"an object in `{name}`, or no such key", got=repr(details), at=at)
        for key, value in details.items():
            require(is_int(value) and value >= 0, f"a non-negative integer in `{name}.{key}`", got=repr(value), at=at)


@rule(
    "usage.details.within-totals",
    SHOULD,
    on=_WITH_USAGE,
    book="USAGE-013",
    source=client("langchain-openai", "_create_usage_metadata subtracts them"),
)
def test_details_within_totals(x: Chat) -> None:
    """cached_tokens does not exceed prompt_tokens, and reasoning_tokens does not exceed completion_tokens.

    Dashboards subtract them, and would show negative costs.
    """
    for at, name, details, usage in _details(x):
        part, whole = (
            name.removesuffix("_details"),
            "cached_tokens" if name.startswith("prompt") else "reasoning_tokens",
        )
        total, some = usage.get(part), get(details, whole)
        if is_int(total) and is_int(some):
            require(some <= total, f"at most {total} {whole}", got=some, at=at)


@rule(
    "usage.reasoning.counted",
    MUST,
    on=_WITH_USAGE,
    book="USAGE-014",
    source=openapi("max_completion_tokens: visible output tokens and reasoning tokens"),
)
def test_reasoning_counted(x: Chat) -> None:
    """Reasoning tokens count towards completion_tokens, and so towards the limit.

    Otherwise the limit bounds neither the cost nor the time of an answer with reasoning.
    """
    words = len(_reasoning(x).split())
    if not words:
        raise NotApplicable("the answer has no reasoning")
    found = _count(x)
    # A token is rarely longer than a word; four words to a token leaves room for any tokenizer.
    require(found * 4 >= words, f"at least {words // 4} completion tokens for {words} words of reasoning", got=found)


def _reasoning(x: Chat) -> str:
    """All reasoning text of an answer."""
    if x.is_event_stream:
        return " ".join(c.reasoning or "" for c in x.assembled.choices).strip()
    found = get(x.parsed.value, "choices")
    texts = []
    for choice in found if isinstance(found, list) else []:
        both = (get(choice, "message", "reasoning"), get(choice, "message", "reasoning_content"))
        texts += [t for t in both if isinstance(t, str)][:1]
    return " ".join(texts).strip()


@rule(
    "usage.stream-options.needs-stream",
    SHOULD,
    on=each_of("stream-options-without-stream"),
    book="USAGE-015",
    source=openapi("stream_options: only set this when you set stream: true"),
)
def test_stream_options_needs_stream(x: Exchange) -> None:
    """The server refuses stream_options without stream with a 4xx.

    Silently accepting it hides a bug in the client, which waits for a usage chunk.
    """
    must_be_judged(x)
    status = x.answered.status
    require(status is not None and 400 <= status < 500, "a 4xx for stream_options without stream", got=status)
