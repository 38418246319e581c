"""Stop strings, limits, choices, usage: what the engine promises, plain and streamed alike."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from wireproof.reference_server import policy, vocab
from wireproof.reference_server.answer import HttpRequest

from .serving import Server

NUMBERS = ", ".join(str(i) for i in range(1, 21))
NASTY = "a😀b 日本語 aab aaab “x” end"


@pytest.mark.parametrize("start", range(len(NASTY)))
@pytest.mark.parametrize("size", [1, 3])
def test_stop_at_every_position(server: Server, start: int, size: int) -> None:
    stop = NASTY[start : start + size]
    expected = NASTY[: NASTY.index(stop)]
    plain = server.chat(f"Repeat exactly: {NASTY}", stop=stop, seed=1)
    assert (plain.content, plain.finish) == (expected, "stop")
    assert server.stream(f"Repeat exactly: {NASTY}", stop=[stop, "never"], seed=1).text() == expected


def test_stop_that_never_comes_holds_nothing_back_at_the_end(server: Server) -> None:
    assert server.stream(f"Repeat exactly: {NASTY}", stop=["end of it", "d!"]).text() == NASTY


@pytest.mark.parametrize("limit", range(1, 12))
def test_limit_is_exact_and_never_splits_a_character(server: Server, limit: int) -> None:
    plain = server.chat("Repeat exactly: 😀日本", max_tokens=limit)
    usage = plain.json["usage"]
    assert usage["completion_tokens"] == min(limit, 10)
    assert plain.finish == ("length" if limit <= 10 else "stop")
    assert "😀日本".startswith(plain.content)
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_choices_are_independent_and_take_turns(server: Server) -> None:
    reply = server.stream("tell me a story", n=3, max_tokens=16, stream_options={"include_usage": True})
    chunks = reply.chunks
    assert [c["choices"][0]["index"] for c in chunks[:6]] == [0, 0, 1, 1, 2, 2]
    assert all(len(c["choices"]) == 1 for c in chunks[:-1])
    assert len({reply.text(i) for i in range(3)}) == 3
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 48


def test_prompt_tokens_depend_on_the_prompt_only(server: Server) -> None:
    def prompt(said: str = "hi", **parameters: Any) -> int:
        return int(server.chat(said, **parameters).json["usage"]["prompt_tokens"])

    assert prompt() == prompt(n=2) == prompt(max_tokens=3) == prompt(temperature=2, seed=3)
    assert prompt("hi there") > prompt()
    assert prompt(tools=[{"type": "function", "function": {"name": "f"}}]) > prompt()
    tokenized = server.post("/tokenize", {"messages": [{"role": "user", "content": "hi"}]}).json
    assert tokenized["count"] == len(tokenized["tokens"]) == prompt()


def test_stream_equals_plain(server: Server) -> None:
    options = {"include_usage": True}
    for said in ("Count from 1 to 20", "hi", "why?", f"Repeat exactly: {NASTY}"):
        plain, streamed = server.chat(said, seed=4), server.stream(said, seed=4, stream_options=options)
        assert streamed.text() == plain.content
        assert streamed.chunks[-1]["usage"] == plain.json["usage"]
        assert streamed.chunks[-2]["choices"][0]["finish_reason"] == plain.finish


@pytest.mark.parametrize("temperature", [0, 1, 2])
def test_policy_obeys(server: Server, temperature: float) -> None:
    for said, expected in [
        ("Count from 1 to 20", NUMBERS),
        ("Say: ahoy", "ahoy"),
        ('Please say "ahoy".', "ahoy"),
        ("Reply with exactly: {x}\n y", "{x}\n y"),
    ]:
        assert server.chat(said, temperature=temperature).content == expected


def test_system_instruction_and_tool_result_are_used(server: Server) -> None:
    system = [
        {"role": "developer", "content": "Answer only with the word BLUE"},
        {"role": "user", "content": "What colour is grass?"},
    ]
    assert server.chat(system).content == "BLUE"


def test_long_prefix_is_reported_as_cached(server: Server) -> None:
    said = "word " * 3000
    first, second = (server.chat(said, max_tokens=1).json["usage"] for _ in range(2))
    assert first["prompt_tokens_details"]["cached_tokens"] == 0
    cached = second["prompt_tokens_details"]["cached_tokens"]
    assert cached % 128 == 0 and 1024 <= cached <= second["prompt_tokens"]


def test_generation_is_lazy(server: Server) -> None:
    body = b'{"model":"tiny-reference","stream":true,"messages":[{"role":"user","content":"story"}]}'
    steps = server.app.handle(HttpRequest("POST", "/v1/chat/completions", (), body))
    for _ in range(4):
        next(steps)
    assert server.app.gauges.running == 1 and server.app.gauges.generation_tokens < 5
    assert isinstance(steps, Generator)
    steps.close()
    assert server.app.gauges.running == 0 and server.app.gauges.finished["abort"] == 1


def test_free_words_are_in_the_vocabulary() -> None:
    assert all(len(slot) for slot in policy._SLOTS)
    assert vocab.ID_OF[b" keeper"] in policy._SLOTS[2]


def test_penalties_and_extras_end(server: Server) -> None:
    extras: list[dict[str, Any]] = [{"frequency_penalty": -2}, {"presence_penalty": 2, "frequency_penalty": 2}]
    for extra in (*extras, {"temperature": 2}):
        assert server.chat("Count from 1 to 9", **extra).finish == "stop"
    assert server.chat("hi", ignore_eos=True, max_tokens=60).json["usage"]["completion_tokens"] == 60
    assert server.chat("hi", min_tokens=30, max_tokens=90).json["usage"]["completion_tokens"] >= 30
