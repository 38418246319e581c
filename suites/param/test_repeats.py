"""What repeats: answers at temperature 0 and with a seed, and what an answer says about the backend behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from wireproof.judge.rules import SHOULD, Across, Each, contract, of, openapi, rule
from wireproof.judge.subjects import ALL_ANSWERS, ANSWERS
from wireproof.read.chat import Chat, is_answer
from wireproof.read.exchange import Exchange
from wireproof.read.logprobs import finite, scored
from wireproof.read.recording import Take
from wireproof.scenarios.catalog import load
from wireproof.verdict import inconclusive, require, show
from wireproof.wire.strictjson import get, is_int

_REQUEST = "CreateChatCompletionRequest"
_TIERS = ("auto", "default", "flex", "scale", "priority", "fast")
_EFFECTS = "param-effects"
# Below this log probability an answer does not repeat by chance (about one in 160,000).
_UNLIKELY = -12.0


def _is_alone(x: Exchange) -> bool:
    """Whether the server had nothing else to do: batches change the arithmetic. Foreign recordings count as alone."""
    return x.scenario == _EFFECTS or x.scenario not in load()


def _repeats(x: Exchange) -> bool:
    return is_answer(x) and x.knows_request and x.valid and not x.cut_by_us and x.asked_n == 1 and _is_alone(x)


def _seeded(x: Exchange) -> bool:
    return is_int(x.asked.get("seed")) and x.asked.get("temperature") != 0


def _texts(x: Chat) -> list[Any]:
    return [(o.content, o.calls) for o in x.outcomes]


def _twice(exchanges: Sequence[Chat]) -> Iterator[tuple[Chat, Chat]]:
    """Pairs of answers to the very same request: the first, and each later one."""
    first: dict[str, Chat] = {}
    for x in exchanges:
        key = json.dumps([x.asked, x.request.path], sort_keys=True)
        if first.setdefault(key, x) is not x:
            yield first[key], x


def _must_repeat(exchanges: Sequence[Chat]) -> None:
    pairs = list(_twice(exchanges))
    if not pairs:
        raise inconclusive("no such request was sent twice")
    for first, second in pairs:
        wanted, found = _texts(first), _texts(second)
        require(found == wanted, f"{show(wanted[0][0], 80)!r} again", got=show(found[0][0], 80), owner=second)


def _across(what: str, match: Callable[[Exchange], bool]) -> Across:
    return Across(what, lambda x: _repeats(x) and match(x), (_EFFECTS,))


@rule(
    "param.temperature.zero-repeats",
    SHOULD,
    on=_across("answers of an idle server at temperature 0", lambda x: x.asked.get("temperature") == 0),
    book="PARAM-012",
    source=contract("temperature 0 is deterministic on an idle server"),
)
def test_zero_repeats(exchanges: Sequence[Chat]) -> None:
    """At temperature 0, an idle server gives the same answer to the same request.

    Evaluations and caches rely on it. Under load the arithmetic of a batch may change it; these requests run alone.
    """
    _must_repeat(exchanges)


@rule(
    "param.seed.repeats",
    SHOULD,
    on=_across("sampled answers of an idle server with a seed", _seeded),
    book="PARAM-013",
    source=openapi(f"{_REQUEST}.seed: best effort"),
)
def test_seed_repeats(exchanges: Sequence[Chat]) -> None:
    """On an idle server, the same request with the same seed gives the same sample.

    Experiments cannot be repeated without it; vLLM once gave two texts for one seed.
    """
    _must_repeat(exchanges)


def _chance(x: Chat) -> float | None:
    """The log probability of an answer; None when its logprobs do not tell."""
    values = [finite(entry.logprob) for entry in (scored(x)[0].entries if scored(x) else ())]
    known = [v for v in values if v is not None]
    return sum(known) if known and len(known) == len(values) else None


@rule("param.seed.decides", SHOULD, on=of(_EFFECTS), source=openapi(f"{_REQUEST}.seed"))
def test_seed_decides(effects: Take) -> None:
    """At temperature 1, different seeds give different answers to an open question.

    If ten runs with ten seeds are all the same, there is no variance, and the mean of an evaluation looks certain.
    """
    one, other = effects.chat("seed-7"), effects.chat("seed-8")
    if not any(o.content for o in other.outcomes):
        raise inconclusive("the answer has no text")
    if _texts(one) != _texts(other):
        return
    chance = _chance(other)
    if chance is None or chance > _UNLIKELY:
        raise inconclusive("both seeds gave the same answer, and it may be the only likely one")
    require(False, "another answer with another seed", got=_texts(other)[0][0], owner=other)


# -- what an answer says of the backend ------------------------------------------------------


def _said(x: Chat, name: str) -> Iterator[tuple[Any, Any]]:
    """Each value of a top-level member, with its chunk in a stream."""
    if not x.is_event_stream:
        if name in x.completion:
            yield x.completion[name], None
        return
    for chunk in x.chunks:
        if isinstance(chunk.value, dict) and name in chunk.value:
            yield chunk.value[name], chunk


@rule(
    "param.fingerprint.stable",
    SHOULD,
    on=ALL_ANSWERS,
    book="PARAM-014",
    source=openapi("system_fingerprint: the backend configuration that the model runs with"),
)
def test_fingerprint_stable(exchanges: Sequence[Chat]) -> None:
    """system_fingerprint, if not empty, is the same for all answers of one model in a run.

    It tells a caller with a seed that the backend changed; a new one each time tells nothing.
    """
    known: dict[Any, str] = {}
    for x in exchanges:
        for value, at in _said(x, "system_fingerprint") if not _is_broken(x) else ():
            if isinstance(value, str) and value:
                model = get(at.value if at else x.completion, "model")
                first = known.setdefault(model if isinstance(model, str) else "", value)
                require(value == first, f"{first!r} as before", got=repr(value), at=at, owner=x)
    if not known:
        raise inconclusive("no answer has a system_fingerprint")


def _is_broken(x: Exchange) -> bool:
    """Whether a plain answer is not a completion: other rules report that."""
    value = x.parsed.value if not x.is_event_stream else None
    return not x.is_event_stream and (not isinstance(value, dict) or bool(value.get("error")) or "choices" not in value)


_WITH = Each("every chat answer", lambda x: is_answer(x) and not _is_broken(x), ANSWERS.needs)


@rule(
    "param.fingerprint.string",
    SHOULD,
    on=_WITH,
    book="PARAM-015",
    source=openapi("system_fingerprint: a string; an example shows null"),
)
def test_fingerprint_string(x: Chat) -> None:
    """system_fingerprint, if given, is a string or null.

    Strictly typed clients refuse the whole answer over a number that nobody reads.
    """
    for value, at in _said(x, "system_fingerprint"):
        require(value is None or isinstance(value, str), "a string or null", got=repr(value), at=at)


@rule("param.service-tier.value", SHOULD, on=_WITH, book="PARAM-016", source=openapi("ServiceTier"))
def test_service_tier_value(x: Chat) -> None:
    """The service_tier of an answer is absent, null, empty, or one of auto, default, flex, scale, priority and fast.

    LangChain counts priority and flex separately; clients with an enum refuse any other word.
    """
    for value, at in _said(x, "service_tier"):
        known = value is None or value == "" or value in _TIERS
        require(known, f"null or one of {', '.join(_TIERS)}", got=repr(value), at=at)
