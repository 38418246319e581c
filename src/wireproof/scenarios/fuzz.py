"""Bodies that no client should send, derived from the members of a chat request: always the same, and few.

Each is a scenario `fuzz-<member>-<kind>`. What must come of it: a 4xx with an error object, or a 200 where it can be
read after all; never a 5xx, and the server goes on working (the recorder asks for that after what looks suspicious).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wireproof.resources import folder
from wireproof.scenarios.scenario import Scenario

PREFIX = "fuzz-"
_BASE: dict[str, Any] = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 1}
_TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]

# Values which even a lenient server cannot read as a type: 7 may be the text "7" and a number may be a truth, so that
# these are not among them, and of an array neither is a text, which may be its only item.
_UNREADABLE: Mapping[str, tuple[Any, ...]] = {
    "integer": ("many", [], {}),
    "number": ("none at all", [], {"value": 1}),
    "boolean": ("perhaps", ["x"], {"please": True}),
    "string": (["x"], {"word": "x"}),
    "array": (7, {"word": "x"}),
    "object": (["x"], "some", 7),
}
# What a member needs beside it, so that it says something.
_WITH: dict[str, dict[str, Any]] = {
    "top_logprobs": {"logprobs": True},
    "stream_options": {"stream": True},
    "tool_choice": {"tools": _TOOLS},
    "parallel_tool_calls": {"tools": _TOOLS},
    "function_call": {"functions": [{"name": "look", "parameters": {"type": "object", "properties": {}}}]},
    "audio": {"modalities": ["text", "audio"]},
}
# Hints that no engine reads go together: one request for all of them.
_HINTS = ("moderation", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "safety_identifier")
# Members that are wrong in a stream, too: the twins for rules that compare the two.
_STREAMED = ("messages", "n", "response_format", "tools")
# Who sets one of these is answered wrongly when it is passed over. Not here: what a server need not know (hints,
# functions of old, audio), the model (one-model servers answer to every name), booleans, which are read as truths, and
# tools, tool_choice and top_logprobs, whose own rules judge every request.
TELLING = frozenset(
    {"messages", "max_tokens", "max_completion_tokens", "n", "stop", "temperature", "top_p", "seed", "logit_bias"}
    | {"presence_penalty", "frequency_penalty", "response_format"}
)
# Odd messages; of some a lenient server can make sense: a number is a text, and a part with a text is one of text.
_MESSAGES: Mapping[str, tuple[str, Any]] = {
    "no-object": ("A message that is no object.", "Say hello."),
    "role-number": ("A role that is a number.", {"role": 7, "content": "Say hello."}),
    "content-number": ("A content that is a number.", {"role": "user", "content": 7}),
    "part-untyped": ("A part without type.", {"role": "user", "content": [{"text": "Say hello."}]}),
    "part-type-number": ("A part whose type is a number.", {"role": "user", "content": [{"type": 7, "text": "Hi"}]}),
}
_SENSELESS = ("no-object", "role-number")
# What has shut a server down (vLLM, issue 55164), or would (mlx-lm 0.32.2 dies of a stop that is no string).
_RISKY = frozenset({"logit_bias-many", "allowed_token_ids-many", "stop_token_ids-many", "stop-type"})
_DEPTH = 200
_SCHEMA_DEPTH = 60  # objects in one another; each is two levels of JSON
_MANY = 1500
_MANY_STOPS = 200
_LONG = 100_000


def _made(member: str, kind: str, what: str, **how: Any) -> Scenario:
    risky = f"{member}-{kind}" in _RISKY
    return Scenario(name=f"{PREFIX}{member}-{kind}", what=what, valid=False, load=True, risky=risky, **how)


@functools.cache
def members() -> Mapping[str, tuple[str, ...]]:
    """The members of CreateChatCompletionRequest with the types that each may have."""
    path = folder("fixtures").joinpath("schemas", "openai", "CreateChatCompletionRequest.json")
    found = json.loads(path.read_text(encoding="utf-8"))["properties"]
    return {name: (t,) if isinstance(t := schema["type"], str) else tuple(t) for name, schema in found.items()}


def wrong(types: Sequence[str], turn: int) -> Any:
    """A value that can be read as none of these types; the turn chooses among them."""
    able = [_UNREADABLE[t] for t in types if t != "null"]
    found = [value for value in able[0] if all(value in other for other in able[1:])]
    return found[turn % len(found)]


def _typed() -> Iterator[Scenario]:
    wrongs = {name: wrong(types, turn) for turn, (name, types) in enumerate(members().items())}
    for name, value in wrongs.items():
        if name in _HINTS:
            continue
        body = {**_BASE, **_WITH.get(name, {}), name: value}
        yield _made(name, "type", f"{name} of a wrong type.", body=body)
        if name in _STREAMED:
            yield _made(name, "type-stream", "The same, as a stream.", body={**body, "stream": True})
    yield _made("hints", "type", "Hints of wrong types.", body={**_BASE, **{name: wrongs[name] for name in _HINTS}})


def _nulls() -> Iterator[Scenario]:
    """Null where the schema allows none. (What must be there is refused first, so that it goes by itself.)"""
    strict = [name for name, types in members().items() if "null" not in types and name not in ("messages", "model")]
    nulls = dict.fromkeys(strict)
    yield _made("members", "null", "Null for each member that may not be null.", body={**_BASE, **nulls})
    yield _made("messages", "null", "Null for messages.", body={**_BASE, "messages": None})


def _nested(schema: Any, depth: int) -> Any:
    """A schema inside objects."""
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def _messages() -> Iterator[Scenario]:
    for kind, (what, message) in _MESSAGES.items():
        yield _made("messages", kind, what, body={**_BASE, "messages": [message]})
    deep: Any = "hello"
    for _ in range(_DEPTH // 2):
        deep = [deep]
    body = {**_BASE, "messages": [{"role": "user", "content": deep}]}
    yield _made("messages", "nested", f"A content of {_DEPTH // 2} arrays in one another.", body=body)


def _raw(members: str) -> str:
    """A whole body with some members written by hand."""
    return f'{{"model": "$MODEL", {json.dumps(_BASE)[1:-1]}, {members}}}'


def _bodies() -> Sequence[Scenario]:
    bad_text = json.dumps({**_BASE, "model": "m"}).encode().replace(b"Say hello.", b"Say \xff\xc3(.")
    nested = "[" * _DEPTH + "]" * _DEPTH
    schema = _nested({"type": "string"}, _SCHEMA_DEPTH)
    deep_tool = {"type": "function", "function": {"name": "look", "parameters": schema}}
    deep_form = {"type": "json_schema", "json_schema": {"name": "deep", "schema": schema}}
    biases = {str(i): 1 for i in range(_MANY)}
    return [
        _made("body", "empty", "No body.", raw=""),
        _made("body", "null", "The body null.", raw="null"),
        _made("body", "array", "An array as body.", raw="[]"),
        _made("body", "number", "A number as body.", raw="7"),
        _made("body", "string", "A string as body.", raw='"hello"'),
        _made("body", "invalid-utf8", "Bytes that are no UTF-8.", raw_hex=bad_text.hex()),
        _made("content", "surrogate", "Half an emoji.", raw=_raw('"user": "\\ud83d"')),
        _made("content", "nested", f"{_DEPTH} arrays in one another.", raw=_raw(f'"metadata": {nested}')),
        _made("tools", "nested", "A tool whose parameters nest deeply.", body={**_BASE, "tools": [deep_tool]}),
        _made("schema", "nested", "A schema that nests deeply.", body={**_BASE, "response_format": deep_form}),
        _made("temperature", "huge", "1e400.", raw=_raw('"temperature": 1e400')),
        _made("seed", "huge", "2 to the power of 70.", raw=_raw(f'"seed": {2**70}')),
        _made(
            "temperature", "twice", "A member twice, with two values.", raw=_raw('"temperature": 0, "temperature": 1')
        ),
        _made("unknown", "long-name", f"A name of {_LONG} characters.", body={**_BASE, "x" * _LONG: 1}),
        _made("logit_bias", "many", f"{_MANY} tokens.", body={**_BASE, "logit_bias": biases}),
        # Extensions of vLLM that other engines pass over.
        _made(
            "allowed_token_ids",
            "many",
            f"{_MANY} tokens that may be said.",
            body={**_BASE, "allowed_token_ids": [*range(_MANY)]},
        ),
        _made(
            "stop_token_ids",
            "many",
            f"{_MANY_STOPS} tokens to stop at.",
            body={**_BASE, "stop_token_ids": [*range(_MANY_STOPS)]},
        ),
    ]


@functools.cache
def scenarios() -> tuple[Scenario, ...]:
    """Every fuzzed request."""
    return (*_typed(), *_nulls(), *_messages(), *_bodies())


def names() -> list[str]:
    """The names of all of them."""
    return [s.name for s in scenarios()]


def telling() -> list[str]:
    """The names of plain requests with a member that cannot be read, and that must not be passed over."""
    kinds = [f"{name}-type" for name in members() if name in TELLING]
    return [f"{PREFIX}{kind}" for kind in (*kinds, "messages-null", *(f"messages-{kind}" for kind in _SENSELESS))]
