"""The log probabilities of an answer, plain or streamed: the entries as they came, by choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .exchange import Exchange
from .verdict import inconclusive
from .view import view
from .wire.chat import Part
from .wire.strictjson import get


@dataclass(frozen=True)
class Entry:
    """One entry of `logprobs.content`: the raw value, of any type, and where it stood."""

    choice: Any
    position: int  # among the entries of its choice
    value: Any
    part: Part | None = None

    @property
    def token(self) -> Any:
        """Its token, of whatever type."""
        return get(self.value, "token")

    @property
    def logprob(self) -> Any:
        """Its log probability, of whatever type."""
        return get(self.value, "logprob")

    @property
    def bytes(self) -> bytes | None:
        """Its bytes; None when they are null, absent or no list of bytes."""
        return as_bytes(get(self.value, "bytes"))

    @property
    def top(self) -> list[Any]:
        """Its alternatives, or an empty list."""
        found = get(self.value, "top_logprobs")
        return found if isinstance(found, list) else []


def as_bytes(value: Any) -> bytes | None:
    """A JSON list of integers 0..255 as bytes; None for anything else."""
    if not isinstance(value, list):
        return None
    try:
        return bytes(value) if not any(isinstance(b, bool) for b in value) else None
    except (TypeError, ValueError):
        return None


def is_number(value: Any) -> bool:
    """Whether a JSON value is a number (true is none)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


@view
def entries(x: Exchange) -> dict[Any, list[Entry]]:
    """The entries of each choice, by choice index; a choice without entries has an empty list.

    Inconclusive when there is no answer, or the stream broke off.
    """
    out: dict[Any, list[Entry]] = {}
    if x.is_event_stream:
        for part in x.finished_stream.parts:
            _add(out.setdefault(part.index, []), part.index, get(part.choice, "logprobs", "content"), part)
        return out
    for choice in x.plain_choices:
        index = choice.get("index")
        key = index if isinstance(index, int) else repr(index)
        _add(out.setdefault(key, []), key, get(choice, "logprobs", "content"), None)
    return out


def _add(known: list[Entry], choice: Any, found: Any, part: Part | None) -> None:
    for value in found if isinstance(found, list) else []:
        known.append(Entry(choice, len(known), value, part))


@view
def all_entries(x: Exchange) -> list[Entry]:
    """Every entry of the answer; inconclusive when there is none (a rule of its own says that some must be)."""
    found = [entry for listed in entries(x).values() for entry in listed]
    if not found:
        raise inconclusive("the answer has no logprobs entries")
    return found
