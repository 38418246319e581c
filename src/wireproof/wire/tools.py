"""Tool calls put together from their streamed fragments.

Fragments are keyed by their integer `index`, as the OpenAPI file has it. A fragment that has none is attached to
the call before it, as a patient client would. Nothing raises; what was odd about a fragment is for the rules,
which look at the fragments themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wireproof.wire.strictjson import is_int


@dataclass(frozen=True, slots=True)
class AssembledCall:
    """One call: what its fragments say together. `index` is None when no fragment had an integer index."""

    index: int | None
    id: Any
    type: Any
    name: str
    arguments: str
    fragments: int


@dataclass
class _Open:
    index: int | None
    id: Any = None
    type: Any = None
    names: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    fragments: int = 0


class ToolCallAssembler:
    """Feed the `tool_calls` value of each delta of one choice; read `calls()` at the end."""

    def __init__(self) -> None:
        self._open: dict[int | str, _Open] = {}
        self._last: _Open | None = None

    def feed(self, fragments: Any) -> None:
        """Take one delta's `tool_calls` (None when it has none). An object outside a list is one fragment."""
        for fragment in fragments if isinstance(fragments, list) else [fragments]:
            if isinstance(fragment, dict):
                self._feed_one(fragment)

    def _feed_one(self, fragment: dict[str, Any]) -> None:
        call = self._call_for(fragment)
        call.fragments += 1
        foreign = bool(call.id and fragment.get("id") and fragment["id"] != call.id)
        call.id = call.id or fragment.get("id") or None
        call.type = call.type or fragment.get("type") or None
        function = fragment.get("function")
        if not isinstance(function, dict):
            return
        name, arguments = function.get("name"), function.get("arguments")
        if isinstance(name, str) and name and not foreign:
            call.names.append(name)
        if isinstance(arguments, str):
            call.arguments.append(arguments)

    def _call_for(self, fragment: dict[str, Any]) -> _Open:
        index = fragment.get("index")
        if is_int(index):
            self._last = self._open.setdefault(index, _Open(index))
        elif self._last is None or (fragment.get("id") and self._last.id not in (None, fragment["id"])):
            self._last = self._open[f"missing-{len(self._open)}"] = _Open(None)
        return self._last

    def calls(self) -> tuple[AssembledCall, ...]:
        """The calls in order of first appearance. A name that came again, or with another id, does not count."""
        return tuple(
            AssembledCall(
                index=call.index,
                id=call.id,
                type=call.type,
                name="".join(dict.fromkeys(call.names)),
                arguments="".join(call.arguments),
                fragments=call.fragments,
            )
            for call in self._open.values()
        )
