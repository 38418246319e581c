"""Chat chunks put together to a message, by choice, without trusting any shape.

`assemble` accepts whatever JSON came and keeps what was odd; the rules look at the
raw chunks, the comparisons between stream and plain answer look at the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from wireproof.wire.sse import Event
from wireproof.wire.strictjson import Parsed, get, is_int
from wireproof.wire.tools import AssembledCall, ToolCallAssembler

DONE = "[DONE]"


@dataclass(frozen=True, slots=True)
class Chunk:
    """One data event that carries JSON: its position among the events and its value."""

    position: int
    event: Event
    parsed: Parsed

    @property
    def value(self) -> Any:
        """The JSON value (of any type)."""
        return self.parsed.value

    @property
    def choices(self) -> list[Any]:
        """The choices array, or an empty list when there is none."""
        found = get(self.parsed.value, "choices")
        return found if isinstance(found, list) else []

    @property
    def is_error(self) -> bool:
        """Whether this is an error object and not a chunk."""
        value = self.parsed.value
        if not isinstance(value, dict):
            return False
        if value.get("error"):
            return True
        flat = value.get("object") == "error" or self.event.event == "error"
        return flat or ("choices" not in value and ("detail" in value or "message" in value))

    @property
    def is_aside(self) -> bool:
        """Whether the object is no part of the answer and does not claim to be: a ping, or a home-made
        end marker ({"done": true})."""
        value = self.parsed.value
        return isinstance(value, dict) and not any(name in value for name in ("choices", "object", "usage", "id"))

    @property
    def is_preamble(self) -> bool:
        """Whether this is the chunk of filter results, without choices, that Azure sends ahead of the answer."""
        value = self.parsed.value
        return isinstance(value, dict) and value.get("choices") == [] and "prompt_filter_results" in value


@dataclass(frozen=True, slots=True)
class Part:
    """One choice object of one chunk."""

    chunk: Chunk
    index: Any
    choice: dict[str, Any]
    position: int  # among all parts of the stream

    @property
    def delta(self) -> dict[str, Any]:
        """The delta, or an empty object when there is none."""
        found = self.choice.get("delta")
        return found if isinstance(found, dict) else {}

    @property
    def finish_reason(self) -> Any:
        """The finish_reason as it stands (None when absent)."""
        return self.choice.get("finish_reason")

    @property
    def carries(self) -> list[str]:
        """Names of the delta members that add something to the message."""
        names = ("content", "refusal", "tool_calls", "function_call", "reasoning", "reasoning_content")
        return [name for name in names if self.delta.get(name)]


@dataclass(frozen=True)
class Choice:
    """One choice put together from its parts."""

    index: Any
    parts: tuple[Part, ...]
    roles: tuple[Any, ...]
    content: str | None
    refusal: str | None
    reasoning: str | None
    finishes: tuple[Part, ...]
    calls: tuple[AssembledCall, ...]

    @property
    def finish_reason(self) -> Any:
        """The first non-null finish_reason."""
        return self.finishes[0].finish_reason if self.finishes else None


@dataclass(frozen=True)
class Assembled:
    """A whole stream: its choices in order of first appearance, and its usage objects."""

    choices: tuple[Choice, ...]
    parts: tuple[Part, ...]
    usages: tuple[tuple[Chunk, Any], ...]

    def choice(self, index: int) -> Choice | None:
        """A choice by its index."""
        return next((c for c in self.choices if c.index == index), None)


@dataclass
class _Open:
    parts: list[Part] = field(default_factory=list)
    tools: ToolCallAssembler = field(default_factory=ToolCallAssembler)


def _joined(parts: Sequence[Part], *names: str) -> str | None:
    # The first of the names that a part has: engines send one text under an old and a new name.
    found = (next((p.delta[n] for n in names if isinstance(p.delta.get(n), str)), None) for p in parts)
    pieces = [text for text in found if text is not None]
    return "".join(pieces) if pieces else None


def assemble(chunks: Iterable[Chunk]) -> Assembled:
    """Put a stream's chunks together, per choice, in order of arrival."""
    opened: dict[Any, _Open] = {}
    parts: list[Part] = []
    usages: list[tuple[Chunk, Any]] = []
    for chunk in chunks:
        usage = get(chunk.value, "usage")
        if usage is not None:
            usages.append((chunk, usage))
        for choice in chunk.choices:
            if not isinstance(choice, dict):
                continue
            raw_index = choice.get("index")
            index = raw_index if is_int(raw_index) else repr(raw_index)
            part = Part(chunk, index, choice, len(parts))
            parts.append(part)
            state = opened.setdefault(index, _Open())
            state.parts.append(part)
            state.tools.feed(part.delta.get("tool_calls"))
    choices = tuple(
        Choice(
            index=index,
            parts=tuple(state.parts),
            roles=tuple(p.delta["role"] for p in state.parts if p.delta.get("role")),
            content=_joined(state.parts, "content"),
            refusal=_joined(state.parts, "refusal"),
            reasoning=_joined(state.parts, "reasoning", "reasoning_content"),
            finishes=tuple(p for p in state.parts if p.finish_reason is not None),
            calls=state.tools.calls(),
        )
        for index, state in opened.items()
    )
    return Assembled(choices, tuple(parts), tuple(usages))
