"""The shape of an entry, and values that can be probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from wireproof.judge.rules import MUST, SHOULD, Each, contract, engine, observed, openapi, rule
from wireproof.read.chat import Chat, is_answer, is_plain
from wireproof.read.logprobs import Entry, all_entries, as_bytes, finite, is_number, is_stand_in, scored
from wireproof.read.request import response_format, top_logprobs, wants_logprobs
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get

_NEEDS = ("plain-logprobs", "stream-logprobs", "plain-logprobs-20", "plain-logprobs-unicode", "plain-n4-logprobs")
PLAIN_SCORES = Each(
    "every plain answer with log probabilities", lambda x: is_plain(x) and wants_logprobs(x), ("plain-logprobs",)
)
SCORES = Each("every answer with log probabilities", lambda x: is_answer(x) and wants_logprobs(x), _NEEDS)
_ALTERNATIVES = Each(
    "every answer with alternatives",
    lambda x: is_answer(x) and wants_logprobs(x) and top_logprobs(x) > 0,
    _NEEDS,
)
# Equal values are computed only once; values that differ by more than float32 rounding were not the same number.
_SAME = 1e-3
_ZERO = 1e-6
# Below this lie the lowest numbers of float32 and bfloat16.
_LOWEST = -1e30
_RARELY = 0.05


def _wrong(value: Any) -> str:
    """What is wrong with the three members that an entry and an alternative share; empty if nothing."""
    if not isinstance(value, dict):
        return "not an object"
    if not isinstance(value.get("token"), str):
        return f"token {value.get('token', 'absent')!r}"
    if not is_number(value.get("logprob")):
        return f"logprob {value.get('logprob', 'absent')!r}"
    found = value.get("bytes")
    return "" if found is None or as_bytes(found) is not None else f"bytes {found!r}"


def _alternatives(x: Chat) -> Iterator[tuple[Entry, Any]]:
    for entry in all_entries(x):
        for other in entry.top:
            yield entry, other


def _sound(entry: Entry) -> bool:
    """Whether the values of an entry can be compared: other rules judge those that are not finite numbers."""
    values = (entry.logprob, *(get(other, "logprob") for other in entry.top))
    return all(finite(value) is not None for value in values)


@rule(
    "logprob.entry.shape",
    MUST,
    on=PLAIN_SCORES,
    book="LOGPROB-003",
    source=openapi("ChatCompletionTokenLogprob.required"),
)
def test_entry_shape(x: Chat) -> None:
    """An entry has a string token, a numeric logprob, bytes that are null or 0 to 255, and a top_logprobs list.

    Without top_logprobs, agents fail with a TypeError, pydantic-ai rejects the answer, and LiteLLM answers 500.
    """
    check_entries(x)


def check_entries(x: Chat) -> None:
    """The four members of every entry."""
    for entry in all_entries(x):
        wrong = _wrong(entry.value)
        if not wrong and not isinstance(get(entry.value, "top_logprobs"), list):
            wrong = f"top_logprobs {get(entry.value, 'top_logprobs', default='absent')!r}"
        require(not wrong, "token, logprob, bytes and top_logprobs of their types", got=wrong, at=entry.part)


@rule(
    "logprob.bytes.key-present",
    SHOULD,
    on=SCORES,
    source=openapi("ChatCompletionTokenLogprob.required: bytes"),
)
def test_bytes_key(x: Chat) -> None:
    """Every entry and every alternative has the key bytes, null where there are none.

    OpenAI's schema requires the key; typed clients take its absence for null.
    """
    for entry in all_entries(x):
        for value in (entry.value, *entry.top):
            if isinstance(value, dict) and "logprob" in value:
                require("bytes" in value, "the key `bytes`", got=sorted(value), at=entry.part)


@rule(
    "logprob.alternative.shape",
    MUST,
    on=_ALTERNATIVES,
    book="LOGPROB-004",
    source=openapi("ChatCompletionTokenLogprob.top_logprobs.items.required"),
)
def test_alternative_shape(x: Chat) -> None:
    """Every alternative has token, logprob and bytes of the same types as an entry.

    llama-index reads all three of each; a map from token to number, or bare strings, crash it.
    """
    for entry, other in _alternatives(x):
        wrong = _wrong(other)
        require(not wrong, "an alternative with token, logprob and bytes", got=wrong, at=entry.part)


@rule(
    "logprob.alternatives.at-most-k",
    MUST,
    on=_ALTERNATIVES,
    book="LOGPROB-005",
    source=contract("top_logprobs = k gives k alternatives; OpenAPI: the number of most likely tokens"),
)
def test_at_most_k(x: Chat) -> None:
    """With top_logprobs k, the server sends at most k alternatives, or one more that is the chosen token.

    Consumers with a fixed width overflow, or cut off what they did not expect.
    """
    k = top_logprobs(x)
    for entry in all_entries(x):
        count = len(entry.top)
        chosen = any(get(other, "token") == entry.token for other in entry.top)
        require(count <= k or (count == k + 1 and chosen), f"at most {k} alternatives", got=count, at=entry.part)


@rule(
    "logprob.alternatives.all-k",
    SHOULD,
    on=_ALTERNATIVES,
    source=observed("in rare cases there may be fewer than top_logprobs: the field's description"),
)
def test_all_k(x: Chat) -> None:
    """With top_logprobs k, the server sends k alternatives at all but a few positions.

    A classifier that looks for its labels among them finds some missing. (Under a schema, fewer may be possible.)
    """
    k = top_logprobs(x)
    narrow = response_format(x).form != "text" or x.asked.get("tools") or "top_k" in x.asked or "min_p" in x.asked
    if narrow or k > 20 or not x.knows_request or x.asked.get("top_p", 1) != 1:
        raise NotApplicable("the request leaves fewer tokens to choose from")
    found = all_entries(x)
    short = [e for e in found if len(e.top) < k]
    rare = len(short) <= max(1, len(found) * _RARELY)
    got = f"fewer at {len(short)} of {len(found)} positions"
    require(rare, f"{k} alternatives at each position", got=got, at=short[0].part if short else None)


@rule(
    "logprob.value.finite-not-positive",
    MUST,
    on=SCORES,
    book="LOGPROB-006",
    source=openapi("ChatCompletionTokenLogprob.logprob"),
)
def test_value(x: Chat) -> None:
    """Every logprob is at most 0.

    A logprob above 0 is not a probability: its exp() is above 1, and scores built on it are wrong. (http.json.no-nan
    judges NaN and Infinity, the rules for the shape judge null and strings.)
    """
    for entry in all_entries(x):
        for value in (entry.logprob, *(get(other, "logprob") for other in entry.top)):
            number = finite(value)
            require(number is None or number <= _ZERO, "a logprob of 0 or less", got=value, at=entry.part)


@rule(
    "logprob.value.sane-floor",
    SHOULD,
    on=SCORES,
    source=openapi("ChatCompletionTokenLogprob.logprob: -9999.0 for very unlikely tokens"),
)
def test_value_floor(x: Chat) -> None:
    """A very unlikely token has a logprob around -9999.0, not the lowest number of a float type.

    Adding two of the lowest gives -Infinity, which JSON cannot express.
    """
    for entry in all_entries(x):
        for value in (entry.logprob, *(get(other, "logprob") for other in entry.top)):
            number = finite(value)
            require(number is None or number > _LOWEST, "-9999.0 as the lowest logprob", got=value, at=entry.part)


@rule(
    "logprob.alternatives.sorted-distinct",
    SHOULD,
    on=_ALTERNATIVES,
    book="LOGPROB-010",
    source=openapi("the Logprobs example; all engines"),
)
def test_sorted_distinct(x: Chat) -> None:
    """Alternatives are sorted, the likeliest first, and no token appears among them twice.

    Consumers take the first for the best; a label that appears three times leaves them nothing to choose from.
    """
    for entry in all_entries(x):
        if not _sound(entry):
            continue
        values = [get(other, "logprob") for other in entry.top]
        falling = all(a >= b - _ZERO for a, b in pairwise(values))
        require(falling, "alternatives in descending order", got=values, at=entry.part)
        names = [_name(other) for other in entry.top if _is_text(get(other, "token"))]
        require(len(set(names)) == len(names), "distinct alternatives", got=[n[0] for n in names], at=entry.part)


def _name(value: Any) -> tuple[Any, Any]:
    return get(value, "token"), as_bytes(get(value, "bytes"))


def _is_text(token: Any) -> bool:
    """Whether a token is whole characters. Parts of characters may all look alike."""
    return isinstance(token, str) and token != "" and not is_stand_in(token)


@rule(
    "logprob.chosen.is-first-when-greedy",
    SHOULD,
    on=_ALTERNATIVES,
    book="LOGPROB-011",
    source=contract("confidence must not contradict the text"),
)
def test_chosen_is_first(x: Chat) -> None:
    """At temperature 0, the chosen token is the first alternative, or as likely as the first.

    Otherwise the score says that the model should have written something else, and no client can tell which is true.
    """
    asked = x.asked
    odd = ("logit_bias", "frequency_penalty", "presence_penalty", "repetition_penalty", "min_tokens", "ignore_eos")
    if asked.get("temperature") != 0 or response_format(x).form != "text" or asked.get("tools"):
        raise NotApplicable("the answer was sampled, or constrained")
    if any(asked.get(name) for name in odd):
        raise NotApplicable("penalties and biases change what is likeliest")
    for entry in all_entries(x):
        if not entry.top or not _sound(entry) or not _is_text(entry.token):
            continue
        best = max(get(other, "logprob") for other in entry.top)
        firsts = [get(other, "token") for other in entry.top if get(other, "logprob") >= best - _SAME]
        require(entry.token in firsts, f"{entry.token!r} as the likeliest", got=firsts, at=entry.part)


@rule(
    "logprob.values.consistent",
    SHOULD,
    on=_ALTERNATIVES,
    book="LOGPROB-012",
    source=contract("the axioms of probability"),
)
def test_values_consistent(x: Chat) -> None:
    """The chosen token has the same logprob as among the alternatives, whose probabilities sum to at most 1.

    Two values for one token mix scores from before and after sampling: comparisons between them mean nothing.
    """
    for entry in all_entries(x):
        if not _sound(entry):
            continue
        values = [get(other, "logprob") for other in entry.top]
        same = [get(o, "logprob") for o in entry.top if _is_text(entry.token) and _name(o) == _name(entry.value)]
        agree = not same or any(abs(value - entry.logprob) <= _SAME for value in same)
        require(agree, f"{entry.logprob} for the chosen {entry.token!r}", got=same, at=entry.part)
        total = sum(math.exp(value) for value in values if value <= _ZERO)
        require(total <= 1 + _SAME, "probabilities that sum to at most 1", got=round(total, 4), at=entry.part)


@rule(
    "logprob.keys.refusal",
    SHOULD,
    on=SCORES,
    book="LOGPROB-017",
    source=openapi("choices.items.logprobs.required: content, refusal"),
)
def test_keys(x: Chat) -> None:
    """A logprobs object has the keys content and refusal, which are null if there is nothing.

    Strictly typed clients require both. OpenAI's own example leaves refusal out, and so do engines.
    """
    if x.is_event_stream:
        found = [(p.choice.get("logprobs"), p) for p in x.finished_stream.parts]
    else:
        found = [(c.get("logprobs"), None) for c in x.plain_choices]  # type: ignore[misc]
    objects = [(value, at) for value, at in found if isinstance(value, dict) and "content" in value]
    if not objects:
        raise inconclusive("the answer has no logprobs object")
    for value, at in objects:
        require("refusal" in value, "the keys content and refusal", got=sorted(value), at=at)


@rule(
    "logprob.token.not-empty",
    SHOULD,
    on=SCORES,
    source=engine("vllm", "empty tokens", "https://github.com/vllm-project/vllm/pull/34875"),
)
def test_token_not_empty(x: Chat) -> None:
    """No entry has both an empty token and empty bytes: a part of a character has its bytes, or null.

    Interpretability tools see a token that says nothing, and then the last part with the bytes of the whole character.
    """
    for choice in scored(x):
        for entry in choice.own:
            empty = entry.token == "" and get(entry.value, "bytes") == []
            require(not empty, "a token, or its bytes", got="token '' with bytes []", at=entry.part)
