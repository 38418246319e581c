"""Tool calls put together from their streamed fragments.

Fragments are keyed by their integer `index`, as the OpenAPI file has it. A fragment
that has none is attached to the call before it, as a patient client would, and the
oddity is remembered; nothing raises.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .strictjson import is_int


class Oddity(StrEnum):
    """What was odd about a fragment."""

    NOT_A_LIST = "tool_calls is not a list"
    NOT_AN_OBJECT = "a fragment is not an object"
    NO_INDEX = "a fragment has no integer index"
    ID_REPEATED = "the id came again"
    ID_CHANGED = "the id changed"
    NAME_REPEATED = "the name came again"
    NO_FUNCTION = "a fragment's function is not an object"
    ARGUMENTS_TYPE = "arguments is not a string"
    INDEX_GAP = "the first index is not the next one"


@dataclass(frozen=True, slots=True)
class AssembledCall:
    """One call: what its fragments say together."""

    index: Any
    id: Any
    type: Any
    name: str
    arguments: str
    fragments: int
    oddities: tuple[tuple[Oddity, int], ...] = ()  # (what, number of the part)


@dataclass
class _Open:
    index: Any
    id: Any = None
    type: Any = None
    names: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    fragments: int = 0
    oddities: list[tuple[Oddity, int]] = field(default_factory=list)


class ToolCallAssembler:
    """Feed the `tool_calls` value of each delta of one choice; read `calls()` at the end."""

    def __init__(self) -> None:
        self._open: dict[Any, _Open] = {}
        self._last: _Open | None = None
        self.oddities: list[tuple[Oddity, int]] = []

    def feed(self, fragments: Any, part: int = 0) -> None:
        """Take one delta's `tool_calls` (None when it has none)."""
        if fragments is None:
            return
        if not isinstance(fragments, list):
            self.oddities.append((Oddity.NOT_A_LIST, part))
            return
        for fragment in fragments:
            self._feed_one(fragment, part)

    def _feed_one(self, fragment: Any, part: int) -> None:
        if not isinstance(fragment, dict):
            self.oddities.append((Oddity.NOT_AN_OBJECT, part))
            return
        call = self._call_for(fragment, part)
        call.fragments += 1
        call_id = fragment.get("id")
        if call_id:
            if call.id is None:
                call.id = call_id
            else:
                same = call_id == call.id
                call.oddities.append((Oddity.ID_REPEATED if same else Oddity.ID_CHANGED, part))
        if fragment.get("type") and call.type is None:
            call.type = fragment["type"]
        function = fragment.get("function")
        if not isinstance(function, dict):
            call.oddities.append((Oddity.NO_FUNCTION, part))
            return
        name, arguments = function.get("name"), function.get("arguments")
        if isinstance(name, str) and name:
            if call.names:
                call.oddities.append((Oddity.NAME_REPEATED, part))
            call.names.append(name)
        if isinstance(arguments, str):
            call.arguments.append(arguments)
        elif arguments is not None:
            call.oddities.append((Oddity.ARGUMENTS_TYPE, part))

    def _call_for(self, fragment: dict[str, Any], part: int) -> _Open:
        index = fragment.get("index")
        if is_int(index):
            if index not in self._open:
                self._open[index] = _Open(index)
                if index != len(self._open) - 1:
                    self._open[index].oddities.append((Oddity.INDEX_GAP, part))
            self._last = self._open[index]
        elif self._last is None or (fragment.get("id") and self._last.id not in (None, fragment["id"])):
            key = f"missing-{len(self._open)}"
            self._last = self._open[key] = _Open(None, oddities=[(Oddity.NO_INDEX, part)])
        else:
            self._last.oddities.append((Oddity.NO_INDEX, part))
        return self._last

    def calls(self) -> tuple[AssembledCall, ...]:
        """The calls so far, in order of first appearance."""
        return tuple(
            AssembledCall(
                index=call.index,
                id=call.id,
                type=call.type,
                name="".join(dict.fromkeys(call.names)),
                arguments="".join(call.arguments),
                fragments=call.fragments,
                oddities=tuple(call.oddities),
            )
            for call in self._open.values()
        )
