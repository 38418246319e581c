"""Tool calls beside what the request declared: which of them are whole, and what their schemas say of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from .asking import Tool, tools
from .calls import Call, made_calls
from .exchange import Exchange
from .verdict import inconclusive
from .view import view
from .wire import strictjson
from .wire.strictjson import get, is_int

# A call that we force cannot be whole within so few tokens.
_SURELY_CUT = 16


@view
def maybe_cut(x: Exchange) -> bool:
    """Whether the limit on tokens may have cut the answer, whatever its finish_reason says."""
    limit = x.token_limit
    if limit is None:
        return False
    unasked = x.is_event_stream and get(x.asked, "stream_options", "include_usage") is not True
    tokens = None if unasked else get(x.usage, "completion_tokens")
    return tokens >= limit if is_int(tokens) else limit <= _SURELY_CUT


@view
def whole_calls(x: Exchange) -> list[tuple[Call, Tool]]:
    """The calls of declared functions that nothing cut; inconclusive when there is none.

    Calls of other names are left to tool.name.declared.
    """
    declared = tools(x)
    found = [
        (c, declared[c.name])
        for c in made_calls(x)
        if isinstance(c.name, str) and c.name in declared and c.complete and not (maybe_cut(x) and not c.parsed.ok)
    ]
    if not found:
        raise inconclusive("no call of a declared function is whole")
    return found


def argument_objects(x: Exchange) -> Iterator[tuple[Call, Tool, dict[str, Any]]]:
    """Those whose arguments are a JSON object, with it; inconclusive when there is none.

    The rules about the form of `arguments` have the others.
    """
    found = [(c, t, c.parsed.value) for c, t in whole_calls(x) if c.parsed.ok and isinstance(c.parsed.value, dict)]
    if not found:
        raise inconclusive("no call has a JSON object as arguments")
    yield from found


def needs_nothing(tool: Tool) -> bool:
    """Whether a function can be called without any argument."""
    given = tool.parameters or {}
    return not any(given.get(word) for word in ("required", "$ref", "anyOf", "oneOf", "allOf"))


def takes_nothing(tool: Tool) -> bool:
    """Whether a function was declared without any parameter ({"type": "object"} alone allows all)."""
    return needs_nothing(tool) and (not tool.parameters or tool.parameters.get("properties") == {})


def mistyped(fits: Callable[[Any], bool], value: Any) -> bool:
    """Whether a value is of a wrong type only: "5" where 5 is wanted, or 42 where "42" is."""
    if fits(value):
        return False
    if isinstance(value, str):
        parsed = strictjson.parse(value)
        return parsed.ok and not isinstance(parsed.value, str) and fits(parsed.value)
    return fits(json.dumps(value, ensure_ascii=False))
