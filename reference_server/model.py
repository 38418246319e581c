"""The language model: genuine logits, and sampling from them.

In: the last tokens and the policy's hints. Out: a logits vector; from it a token and log probabilities.

Logits are noise that depends only on the last three tokens, plus a prior (no broken UTF-8, no special
tokens), plus what the policy wants to say next. Nothing downstream knows what was planned: text leaves the
model by softmax and sampling only.

Log probabilities are those of the distribution after the constraint mask, penalties and logit_bias, at
temperature 1 and before top_p, top_k and min_p. Hence the greedy choice is always the first of the top.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .answer import Alternative, TokenLogprob
from .vocab import EOS, FIRST_SPECIAL, SIZE, TOKENS, is_utf8_start, label

Logits = NDArray[np.float64]
Ids = NDArray[np.intp]

#: What takes the place of minus infinity on the wire.
FLOOR = -9999.0

_POOL: Logits = np.random.Generator(np.random.PCG64(20240229)).standard_normal(1 << 16)
_RANGE = len(_POOL) - SIZE


@dataclass(frozen=True)
class Hints:
    """Where the policy wants to go: `values[i]` becomes the logit of `ids[i]`, plus `spread` of the noise."""

    ids: Ids
    values: Logits
    spread: float = 0.5

    @classmethod
    def of(cls, pairs: Sequence[tuple[int, float]], spread: float = 0.5) -> "Hints":
        return cls(np.array([p[0] for p in pairs], dtype=np.intp), np.array([p[1] for p in pairs]), spread)


@lru_cache(maxsize=512)
def _prior(pending: bytes) -> Logits:
    """What the model has learned about bytes: `pending` is the character that is not complete yet."""
    prior = np.zeros(SIZE)
    for token, data in enumerate(TOKENS):
        if token >= FIRST_SPECIAL:
            prior[token] = -60.0
        elif not is_utf8_start(pending + data):
            prior[token] = -40.0
        elif any(byte < 32 or byte == 127 for byte in data) or (not pending and data[0] > 127):
            prior[token] = -12.0  # control characters and other scripts: only when they are meant
    prior[EOS] = -25.0
    return prior


def noise(context: Sequence[int]) -> Logits:
    """Noise for the next token, a function of the last three tokens."""
    state = 0x9E3779B9
    for token in context[-3:]:
        state = ((state ^ token) * 0x01000193 + 0x7F4A7C15) & 0xFFFFFFFF
        state ^= state >> 15
    start = state % _RANGE
    return _POOL[start : start + SIZE]


def logits(context: Sequence[int], pending: bytes, hints: Sequence[Hints]) -> Logits:
    """Next-token logits; later hints win over earlier ones."""
    sound = noise(context)
    result: Logits = sound + _prior(pending)
    for hint in hints:
        result[hint.ids] = hint.values + hint.spread * sound[hint.ids]
    return result


@dataclass(frozen=True)
class Sampling:
    """The sampling parameters of a request."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence: float = 0.0
    frequency: float = 0.0
    repetition: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()

    @property
    def greedy(self) -> bool:
        return self.temperature == 0 or self.top_k == 1


def adjust(values: Logits, counts: Mapping[int, int], sampling: Sampling) -> Logits:
    """Logits after the penalties for tokens already generated and after logit_bias. Changes `values`."""
    if counts and (sampling.presence or sampling.frequency or sampling.repetition != 1.0):
        ids = np.fromiter(counts.keys(), dtype=np.intp)
        times = np.fromiter(counts.values(), dtype=np.float64)
        seen = values[ids]
        if sampling.repetition != 1.0:
            seen = np.where(seen > 0, seen / sampling.repetition, seen * sampling.repetition)
        values[ids] = seen - sampling.frequency * times - sampling.presence
    for token, bias in sampling.logit_bias:
        values[token] += bias
    return values


def choose(values: Logits, sampling: Sampling, rng: random.Random) -> int:
    """Sample a token (the argmax when greedy)."""
    if sampling.greedy:
        return int(values.argmax())
    weights: Logits = np.exp((values - values.max()) / sampling.temperature)
    if sampling.min_p > 0:
        weights[weights < sampling.min_p * weights.max()] = 0.0
    if 0 < sampling.top_k < SIZE:
        weights[weights < np.partition(weights, -sampling.top_k)[-sampling.top_k]] = 0.0
    if sampling.top_p < 1:
        order = np.argsort(-weights, kind="stable")
        mass = np.cumsum(weights[order])
        keep = int(np.searchsorted(mass, sampling.top_p * mass[-1])) + 1
        weights[order[keep:]] = 0.0
    total = np.cumsum(weights)
    at = int(np.searchsorted(total, rng.random() * total[-1], side="right"))
    return min(at, int(weights.nonzero()[0][-1]))


@lru_cache(maxsize=4096)
def _name(token: int) -> tuple[str, bytes]:
    return label(token), TOKENS[token]


def _alternative(token: int, value: float) -> Alternative:
    name, data = _name(token)
    return Alternative(name, max(FLOOR, min(0.0, value)), data)


def logprobs(values: Logits, chosen: int, top: int) -> TokenLogprob:
    """Log probability of the chosen token and of the `top` likeliest, ties in the argmax's order."""
    highest = values.max()
    scores: Logits = values - (highest + np.log(np.exp(values - highest).sum()))
    best = np.argsort(-scores, kind="stable")[:top] if top else ()
    return TokenLogprob(
        _alternative(chosen, float(scores[chosen])),
        tuple(_alternative(int(token), float(scores[token])) for token in best),
    )
