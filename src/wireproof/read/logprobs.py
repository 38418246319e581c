"""The log probabilities of an answer, plain or streamed: the entries as they came, by choice."""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from wireproof.read.chat import Chat
from wireproof.read.views import view
from wireproof.verdict import inconclusive
from wireproof.wire.chat import Choice, Part
from wireproof.wire.strictjson import get, has_lone_surrogate

Data = bytes  # in `Entry`, the name bytes is that of a member


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
    def spoken(self) -> Data | None:
        """What it adds to the text: its bytes, else its token where that is text and no stand-in for bytes."""
        if self.bytes is not None:
            return self.bytes
        token = self.token
        if not isinstance(token, str) or is_stand_in(token):
            return None
        return token.encode("utf-8", "surrogatepass")

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


def is_stand_in(token: str) -> bool:
    """Whether a token shows bytes that are no whole characters: U+FFFD, or an escape of some kind."""
    return "\ufffd" in token or "\\x" in token or (token.startswith("<0x") and token.endswith(">"))


def is_number(value: Any) -> bool:
    """Whether a JSON value is a number (true is none)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def finite(value: Any) -> float | None:
    """A JSON number as a float; None for anything else, NaN and the infinities too."""
    try:
        return float(value) if is_number(value) and math.isfinite(value) else None
    except OverflowError:  # an integer of hundreds of digits
        return None


@view
def entries(x: Chat) -> dict[Any, list[Entry]]:
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
def all_entries(x: Chat) -> list[Entry]:
    """Every entry of the answer; inconclusive when there is none (a rule of its own says that some must be)."""
    found = [entry for listed in entries(x).values() for entry in listed]
    if not found:
        raise inconclusive("the answer has no logprobs entries")
    return found


@dataclass(frozen=True)
class Scored:
    """One choice with its entries. `text` is its content ("" when it has none).

    `other` says that the message has more than content: calls, reasoning, a refusal. Engines differ in whether
    their tokens have entries. `cut` says that a stop string may have ended the text inside a token.
    """

    choice: Any
    text: str
    finish: Any
    entries: tuple[Entry, ...]
    other: bool
    cut: bool

    @cached_property
    def readable(self) -> bool:
        """Whether the text can be compared: a model's own invalid UTF-8 is shown in many ways."""
        return "\ufffd" not in self.text and not has_lone_surrogate(self.text)

    @property
    def comparable(self) -> bool:
        """Whether the entries and the text must say the same."""
        return bool(self.text and self.entries) and not (self.other or self.cut) and self.readable

    @cached_property
    def extra(self) -> Entry | None:
        """An entry after the end of the text: that of the end token."""
        if not self.comparable or self.finish == "length" or len(self.entries) < 2:
            return None
        before, last = join(self.entries[:-1]), self.entries[-1]
        if before is None or not reads(before, self.text):
            return None
        whole = join(self.entries)
        needless = last.spoken == b"" or last.token == "" or whole is None or not reads(whole, self.text)
        return last if needless else None

    @cached_property
    def own(self) -> tuple[Entry, ...]:
        """The entries without that one."""
        return self.entries[:-1] if self.extra else self.entries

    @property
    def agrees(self) -> bool:
        """Whether the entries join to the text (true, too, when nothing tells)."""
        joined = join(self.own)
        return joined is None or reads(joined, self.text)


def join(found: Iterable[Entry]) -> bytes | None:
    """The bytes of entries together; None when one does not tell."""
    parts = [entry.spoken for entry in found]
    known = [part for part in parts if part is not None]
    return b"".join(known) if len(known) == len(parts) else None


def read_so_far(data: bytes) -> str:
    """Bytes as text, without an incomplete character at their end."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data)


def reads(data: bytes, text: str) -> bool:
    """Whether bytes make a text, give or take a character cut off at its end, and the blank that some
    vocabularies put before the first word."""
    found = read_so_far(data)
    return text in (found, data.decode("utf-8", "replace"), found.removeprefix(" "))


def begins(s: Scored) -> bool:
    """Whether what the entries say begins with the text: at a stop string they may say more."""
    joined = join(s.entries)
    return joined is not None and read_so_far(joined).removeprefix(" ").startswith(s.text.removeprefix(" "))


@view
def scored(x: Chat) -> list[Scored]:
    """The choices of an answer with their entries; inconclusive when there is no answer, or it broke off."""
    listed = entries(x)
    stops = bool(x.asked.get("stop")) or not x.knows_request
    out = []
    for index, content, finish, other in _choices(x):
        text = content if isinstance(content, str) else ""
        cut = stops and finish != "length"
        out.append(Scored(index, text, finish, tuple(listed.get(index, ())), other, cut))
    return out


def _choices(x: Chat) -> Iterator[tuple[Any, Any, Any, bool]]:
    if x.is_event_stream:
        for choice in x.finished_stream.choices:
            other = bool(choice.calls or choice.reasoning or choice.refusal)
            other = other or any(part.delta.get("function_call") for part in choice.parts)
            yield choice.index, choice.content, choice.finish_reason, other
        return
    for plain in x.plain_choices:
        index, message = plain.get("index"), plain.get("message")
        key = index if isinstance(index, int) else repr(index)
        other = any(get(message, name) for name in _OTHER)
        yield key, get(message, "content"), plain.get("finish_reason"), other


_OTHER = ("tool_calls", "function_call", "refusal", "reasoning", "reasoning_content")


def listed(part: Part) -> list[Any]:
    """The entries of one part of a stream, as they came."""
    found = get(part.choice, "logprobs", "content")
    return found if isinstance(found, list) else []


def _content(part: Part) -> str:
    found = part.delta.get("content")
    return found if isinstance(found, str) else ""


def walk(s: Scored, choice: Choice) -> Iterator[tuple[Part, str, bytes | None]]:
    """The parts of a choice, each with the text and the bytes that it adds (None when an entry does not tell)."""
    by_part: dict[int, list[bytes | None]] = {}
    for entry in s.entries:
        if entry.part is not None:
            by_part.setdefault(entry.part.position, []).append(entry.spoken)
    for part in choice.parts:
        added = by_part.get(part.position, [])
        known = [data for data in added if data is not None]
        yield part, _content(part), b"".join(known) if len(known) == len(added) else None


@view
def uncovered(x: Chat) -> Part | None:
    """The first part with text whose tokens have no entry, in it or before it."""
    for s, choice in zip(scored(x), x.finished_stream.choices, strict=True):
        if s.cut and s.entries:
            continue  # what is left of a stop string is judged by the rules for stop
        ahead = 0  # bytes that entries have told before their text
        for part, text, data in walk(s, choice):
            if data is None:
                break
            # U+FFFD stands for bytes that do not count as many.
            ahead += len(data) - len(text.replace("\ufffd", "").encode("utf-8", "surrogatepass"))
            if text and ahead < 0 and not listed(part):
                return part
    return None


@view
def repeated(x: Chat) -> Part | None:
    """The first part whose entries begin with all those of the part before, where they say more than the text."""
    for s, choice in zip(scored(x), x.finished_stream.choices, strict=True):
        joined = join(s.entries)
        if joined is not None and len(joined) <= len(s.text.encode("utf-8", "surrogatepass")):
            continue
        last: list[Any] = []
        for part in choice.parts:
            found = listed(part)
            if last and len(found) > len(last) and found[: len(last)] == last:
                return part
            last = found or last
    return None
