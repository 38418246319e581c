"""The tool calls of an answer, plain or streamed, as they came: nothing is repaired, nothing is trusted.

Beside what the request declared: which of them are whole, and what their schemas say of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from wireproof.read.chat import Chat
from wireproof.read.request import Tool, tools
from wireproof.read.views import view
from wireproof.verdict import inconclusive
from wireproof.wire import strictjson
from wireproof.wire.chat import Part
from wireproof.wire.strictjson import Parsed, get, is_int
from wireproof.wire.tools import AssembledCall


@dataclass(frozen=True)
class Call:
    """One call. `choice` is the choice's index, `position` the call's place in it (0, 1, ...).

    `arguments` is whatever stood there (a string when all is well). `part` is the stream part with the first
    fragment, None in a plain answer. `finish` is the choice's finish_reason, `complete` whether it ended the call
    itself: not cut by max_tokens, not broken off.
    """

    choice: Any
    position: int
    id: Any
    type: Any
    name: Any
    arguments: Any
    finish: Any
    part: Part | None = None
    streamed: AssembledCall | None = None

    @property
    def complete(self) -> bool:
        """Whether the choice came to its own end (a call cut by max_tokens may be anything)."""
        return self.finish in ("tool_calls", "stop", "function_call")

    @cached_property
    def parsed(self) -> Parsed:
        """The arguments as one strict JSON text; not ok when they are no string."""
        if not isinstance(self.arguments, str):
            return Parsed(False, None)
        return strictjson.parse(self.arguments)


@view
def calls(x: Chat) -> list[Call]:
    """Every tool call of the answer, in order; inconclusive when there is no answer.

    Entries that are no objects are left out (a rule of its own condemns them).
    """
    return _streamed(x) if x.is_event_stream else _plain(x)


def _plain(x: Chat) -> list[Call]:
    out: list[Call] = []
    for choice in x.plain_choices:
        found = get(choice, "message", "tool_calls")
        entries = [e for e in found if isinstance(e, dict)] if isinstance(found, list) else []
        out += [
            Call(
                choice=choice.get("index"),
                position=position,
                id=entry.get("id"),
                type=entry.get("type"),
                name=get(entry, "function", "name"),
                arguments=get(entry, "function", "arguments"),
                finish=choice.get("finish_reason"),
            )
            for position, entry in enumerate(entries)
        ]
    return out


def _streamed(x: Chat) -> list[Call]:
    out: list[Call] = []
    for choice in x.finished_stream.choices:
        first: dict[Any, Part] = {}
        for part in choice.parts:
            entries = part.delta.get("tool_calls")
            for entry in entries if isinstance(entries, list) else []:
                index = get(entry, "index")
                if is_int(index):
                    first.setdefault(index, part)
        out += [
            Call(
                choice=choice.index,
                position=position,
                id=call.id,
                type=call.type,
                name=call.name,
                arguments=call.arguments,
                finish=choice.finish_reason,
                part=first.get(call.index),
                streamed=call,
            )
            for position, call in enumerate(choice.calls)
        ]
    return out


def made_calls(x: Chat) -> list[Call]:
    """The calls; inconclusive when the answer has none."""
    found = calls(x)
    if not found:
        raise inconclusive("the answer has no tool call")
    return found


@dataclass(frozen=True)
class Fragment:
    """One entry of one delta's `tool_calls`. `value` is the raw entry, of any type.

    `first` says whether it is the first of its (choice, index); it is None when the entry has no integer index.
    """

    part: Part
    place: int  # within the delta's list
    value: Any
    index: int | None
    first: bool | None

    @property
    def function(self) -> dict[str, Any] | None:
        """Its function object, or None."""
        found = get(self.value, "function")
        return found if isinstance(found, dict) else None


@view
def fragments(x: Chat) -> list[Fragment]:
    """Every entry of every `tool_calls` list of a stream, in order of arrival."""
    out: list[Fragment] = []
    seen: set[tuple[Any, int]] = set()
    for part in x.assembled.parts:
        entries = part.delta.get("tool_calls")
        for place, entry in enumerate(entries if isinstance(entries, list) else []):
            raw = get(entry, "index")
            index = raw if is_int(raw) else None
            first = None if index is None else (part.index, index) not in seen
            if index is not None:
                seen.add((part.index, index))
            out.append(Fragment(part, place, entry, index, first))
    return out


@view
def torn(x: Chat) -> bool:
    """Whether an event of a stream is no JSON: what it brought is missing. sse.event.one-json judges that."""
    return not all(c.parsed.ok for c in x.payloads)


@view
def streamed_calls(x: Chat) -> list[list[Fragment]]:
    """The fragments of each call of a stream, in order of arrival: those of one choice with one integer index.

    Choices that nobody asked for, and torn streams, are left out: rules of their own condemn them.
    """
    out: dict[tuple[Any, int], list[Fragment]] = {}
    for fragment in fragments(x) if not torn(x) else ():
        choice = fragment.part.index
        if fragment.index is not None and is_int(choice) and 0 <= choice < x.asked_n:
            out.setdefault((choice, fragment.index), []).append(fragment)
    return list(out.values())


@view
def legacy_call(x: Chat) -> Call | None:
    """The deprecated `function_call` of the first choice that has one; None when there is none."""
    if not x.is_event_stream:
        for choice in x.plain_choices:
            found = get(choice, "message", "function_call")
            if isinstance(found, dict):
                arguments, finish = found.get("arguments"), choice.get("finish_reason")
                return Call(choice.get("index"), 0, None, None, found.get("name"), arguments, finish)
        return None
    for streamed in x.finished_stream.choices:
        pieces = [(p, f) for p in streamed.parts if isinstance(f := p.delta.get("function_call"), dict)]
        if pieces:
            name = next((f["name"] for _, f in pieces if f.get("name")), None)
            arguments = "".join(a for _, f in pieces if isinstance(a := f.get("arguments"), str))
            return Call(streamed.index, 0, None, None, name, arguments, streamed.finish_reason, pieces[0][0])
    return None


def shares_index(call: list[Fragment]) -> bool:
    """Whether the fragments of one index belong to several calls: parallel.index.distinct judges that."""
    return len({i for f in call if isinstance(i := get(f.value, "id"), str) and i}) > 1


def joinable(call: list[Fragment]) -> bool:
    """Whether the arguments of a streamed call can be joined at all; rules of their own condemn those that cannot."""
    found = [get(f.value, "function", "arguments") for f in call]
    return not shares_index(call) and all(a is None or isinstance(a, str) for a in found)


# -- beside what the request declared ----------------------------------------------

# A call that we force cannot be whole within so few tokens.
_SURELY_CUT = 16


@view
def maybe_cut(x: Chat) -> bool:
    """Whether the limit on tokens may have cut the answer, whatever its finish_reason says."""
    limit = x.token_limit
    if limit is None:
        return False
    unasked = x.is_event_stream and get(x.asked, "stream_options", "include_usage") is not True
    tokens = None if unasked else get(x.usage, "completion_tokens")
    return tokens >= limit if is_int(tokens) else limit <= _SURELY_CUT


@view
def whole_calls(x: Chat) -> list[tuple[Call, Tool]]:
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


def argument_objects(x: Chat) -> Iterator[tuple[Call, Tool, dict[str, Any]]]:
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
