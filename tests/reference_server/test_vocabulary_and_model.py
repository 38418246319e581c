"""Tokens round-trip, and logprobs are those of a probability distribution."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireproof.reference_server import model, vocab

from .serving import Server

BANANA = "Repeat exactly: naïve 日本語 😀 “quoted” end"


@given(st.binary(max_size=200))
def test_any_bytes_round_trip(data: bytes) -> None:
    assert vocab.decode(vocab.encode(data)) == data


@given(st.text(max_size=60))
def test_prefix_tokens_are_prefixes(text: str) -> None:
    data = text.encode(errors="ignore") if text.isascii() else text.encode("utf-8", "surrogatepass")
    for token in vocab.prefixes(data):
        assert data.startswith(vocab.TOKENS[token])


def test_words_are_one_token_and_emoji_are_several() -> None:
    assert len(vocab.encode(" lighthouse")) == 1
    assert len(vocab.encode("🦜")) > 1
    assert len(set(vocab.TOKENS)) == vocab.SIZE


def test_text_cannot_spell_a_special_token() -> None:
    assert all(token < vocab.FIRST_SPECIAL for token in vocab.encode("<|end|><|call|>"))


@pytest.mark.parametrize("top_p, top_k, min_p", [(1, 0, 0), (0.3, 0, 0), (1, 3, 0), (1, 0, 0.4)])
def test_filters_keep_the_likeliest(top_p: float, top_k: int, min_p: float) -> None:
    values = np.log(np.array([0.5, 0.3, 0.15, 0.05] + [1e-12] * (vocab.SIZE - 4)))
    sampling = model.Sampling(top_p=top_p, top_k=top_k, min_p=min_p)
    drawn = {model.choose(values, sampling, random.Random(i)) for i in range(300)}
    expected = {(1, 0, 0): {0, 1, 2, 3}, (0.3, 0, 0): {0}, (1, 3, 0): {0, 1, 2}, (1, 0, 0.4): {0, 1}}
    assert drawn == expected[top_p, top_k, min_p]


@pytest.mark.parametrize("extra", [{}, {"temperature": 0}, {"response_format": {"type": "json_object"}}])
def test_logprobs_are_probabilities(server: Server, extra: dict[str, Any]) -> None:
    reply = server.chat("tell me a story", logprobs=True, top_logprobs=20, max_tokens=30, **extra)
    entries = reply.json["choices"][0]["logprobs"]["content"]
    assert len(entries) == reply.json["usage"]["completion_tokens"]
    for entry in entries:
        top = entry["top_logprobs"]
        values = [other["logprob"] for other in top]
        assert all(model.FLOOR <= value <= 0 for value in [entry["logprob"], *values])
        assert sum(map(math.exp, values)) <= 1.001
        assert values == sorted(values, reverse=True)
        assert len({other["token"] for other in top}) == 20
        assert all(other["logprob"] == entry["logprob"] for other in top if other["token"] == entry["token"])
        if extra.get("temperature") == 0:
            assert entry["token"] == top[0]["token"]


def test_entries_spell_the_content_and_chunks_carry_their_own(server: Server) -> None:
    plain = server.chat(BANANA, logprobs=True, seed=1)
    entries = plain.json["choices"][0]["logprobs"]["content"]
    assert b"".join(bytes(e["bytes"]) for e in entries).decode() == plain.content == BANANA[16:]
    streamed = []
    for chunk in server.stream(BANANA, logprobs=True, seed=1).chunks:
        choice = chunk["choices"][0]
        if choice["logprobs"]:
            own = choice["logprobs"]["content"]
            assert b"".join(bytes(e["bytes"]) for e in own).decode() == choice["delta"]["content"]
            streamed += own
    assert streamed == entries


def test_sampling_seed_and_greedy(server: Server) -> None:
    def story(**parameters: Any) -> str:
        return server.chat("tell me a story", max_tokens=24, **parameters).content

    assert story() != story()
    assert story(seed=7) == story(seed=7) != story(seed=8)
    assert story(temperature=0) == story(temperature=0) == story(top_k=1) == story(min_p=1)


def test_logit_bias_forces_and_bans(server: Server) -> None:
    token = vocab.encode("Hello")[0]
    assert server.chat("why?", logit_bias={str(token): 100}, max_tokens=3).content == "HelloHelloHello"
    assert "Hello" not in server.chat("hi", logit_bias={str(token): -100}).content[:5]
