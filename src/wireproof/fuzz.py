"""Bodies that no client should send, derived from the members of a chat request: always the same, and few.

Each is a scenario `fuzz-<member>-<kind>`. What must come of it: a 4xx with an error object, or a 200 where it can be
read after all; never a 5xx, and the server goes on working (the recorder asks for that after what looks suspicious).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

from .scenario import Scenario

PREFIX = "fuzz-"
_BASE: dict[str, Any] = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 1}

# One value of a wrong type for each member of CreateChatCompletionRequest that servers know.
_WRONG: dict[str, Any] = {
    "model": 7,
    "temperature": [],
    "top_p": {"value": 1},
    "n": {},
    "stream": {"please": True},
    "stream_options": [],
    "stop": {"word": "x"},
    "max_tokens": "many",
    "max_completion_tokens": [4],
    "presence_penalty": {},
    "frequency_penalty": "none at all",
    "logit_bias": [1, 2],
    "logprobs": "some",
    "top_logprobs": {},
    "seed": "lucky",
    "user": {"name": 1},
    "tools": {"type": "function"},
    "tool_choice": 7,
    "response_format": ["json"],
    "parallel_tool_calls": "perhaps",
    "metadata": ["x"],
    "reasoning_effort": 7,
}
# What a member needs beside it.
_WITH: dict[str, dict[str, Any]] = {"top_logprobs": {"logprobs": True}, "stream_options": {"stream": True}}
# What has shut a server down (vLLM, issue 55164), or would (mlx-lm 0.32.2 dies of a stop that is no string).
_RISKY = frozenset({"logit_bias-many", "stop-type"})
_DEPTH = 200
_MANY = 1500
_LONG = 100_000


def _made(member: str, kind: str, what: str, **how: Any) -> Scenario:
    risky = f"{member}-{kind}" in _RISKY
    return Scenario(name=f"{PREFIX}{member}-{kind}", what=what, valid=False, load=True, risky=risky, **how)


def _raw(members: str) -> str:
    """A whole body with some members written by hand."""
    return f'{{"model": "$MODEL", {json.dumps(_BASE)[1:-1]}, {members}}}'


def _bodies() -> Sequence[Scenario]:
    bad_text = json.dumps({**_BASE, "model": "m"}).encode().replace(b"Say hello.", b"Say \xff\xc3(.")
    nested = "[" * _DEPTH + "]" * _DEPTH
    return [
        _made("body", "empty", "No body.", raw=""),
        _made("body", "null", "The body null.", raw="null"),
        _made("body", "array", "An array as body.", raw="[]"),
        _made("body", "number", "A number as body.", raw="7"),
        _made("body", "string", "A string as body.", raw='"hello"'),
        _made("body", "invalid-utf8", "Bytes that are no UTF-8.", raw_hex=bad_text.hex()),
        _made("content", "surrogate", "Half an emoji.", raw=_raw('"user": "\\ud83d"')),
        _made("content", "nested", f"{_DEPTH} arrays in one another.", raw=_raw(f'"metadata": {nested}')),
        _made("temperature", "huge", "1e400.", raw=_raw('"temperature": 1e400')),
        _made("seed", "huge", "2 to the power of 70.", raw=_raw(f'"seed": {2**70}')),
        _made(
            "temperature", "twice", "A member twice, with two values.", raw=_raw('"temperature": 0, "temperature": 1')
        ),
        _made("unknown", "long-name", f"A name of {_LONG} characters.", body={**_BASE, "x" * _LONG: 1}),
        _made(
            "logit_bias", "many", f"{_MANY} tokens.", body={**_BASE, "logit_bias": {str(i): 1 for i in range(_MANY)}}
        ),
    ]


@functools.cache
def scenarios() -> tuple[Scenario, ...]:
    """Every fuzzed request."""
    typed = [
        _made(member, "type", f"{member} of a wrong type.", body={**_BASE, **_WITH.get(member, {}), member: value})
        for member, value in _WRONG.items()
    ]
    return (*typed, *_bodies())


def names() -> list[str]:
    """The names of all of them."""
    return [s.name for s in scenarios()]
