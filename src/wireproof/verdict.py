"""What a check comes to, and how a check says so."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

Span = tuple[int, int]


class Status(StrEnum):
    """The outcome of a rule. Only PASS means that the target was shown to keep it."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"  # ours, or no connection
    INCONCLUSIVE = "inconclusive"  # the target or the model did not give what the check needs
    UNSUPPORTED = "unsupported"  # a well-formed 4xx said so
    NOT_APPLICABLE = "not-applicable"


@dataclass(frozen=True, slots=True)
class Violation:
    """What was expected, what came, and where: a span of bytes of one transcript's content."""

    expected: str
    got: str
    transcript: str = ""
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one rule for one case."""

    rule: str
    case: str
    status: Status
    violations: tuple[Violation, ...] = ()
    reason: str = ""
    attempts: int = 1
    failed: int = 0


class Broken(Exception):
    """A check found that the target broke its rule."""

    def __init__(self, expected: str, got: str, span: Span | None = None, owner: str = "") -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected, self.got, self.span, self.owner = expected, got, span, owner


class Inconclusive(Exception):
    """The check cannot tell; the message says what was missing."""


class Unsupported(Exception):
    """The target said with a well-formed 4xx that it has no such feature."""


class NotApplicable(Exception):
    """The rule does not concern this exchange after all."""


class HasSpan(Protocol):
    """Anything that lies at a stretch of bytes: an event, a line, an anomaly."""

    @property
    def span(self) -> Span:
        """First byte, and the byte after the last."""
        ...


_short = reprlib.Repr()
_short.maxlevel = 4
_short.maxdict = _short.maxlist = _short.maxtuple = 12
_short.maxstring = _short.maxother = 160


def show(value: Any, limit: int = 160) -> str:
    """A value as a short text for a message; the target may have made it huge or deep."""
    plain = value is None or isinstance(value, (str, bytes, int, float, list, tuple, dict, set, frozenset))
    text = value if isinstance(value, str) else _short.repr(value) if plain else type(value).__name__
    text = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # half an emoji cannot be written


def span_of(at: Any) -> Span | None:
    """The byte span of a thing that has one (directly, through its event, or its chunk)."""
    for _ in range(3):
        if at is None or isinstance(at, tuple):
            return at
        if hasattr(at, "span"):
            span: Span = at.span
            return span
        at = getattr(at, "event", None) or getattr(at, "chunk", None)
    return None


def require(ok: object, expected: str, *, got: Any, at: Any = None, owner: Any = None) -> None:
    """Go on when `ok`; else raise `Broken`.

    Reads as "expected ..., got ... at bytes ...". `at` is an event, chunk, part, line,
    anomaly or (start, end) in the body; `owner` the exchange that the bytes belong to,
    needed only by checks that look at several.
    """
    if not ok:
        transcript = getattr(owner, "transcript", None)
        raise Broken(expected, show(got), span_of(at), getattr(transcript, "id", ""))


def inconclusive(reason: str) -> Inconclusive:
    """`raise inconclusive("the model made no tool call")`."""
    return Inconclusive(reason)


_ORDER = (
    Status.FAIL,
    Status.ERROR,
    Status.PASS,
    Status.INCONCLUSIVE,
    Status.UNSUPPORTED,
    Status.NOT_APPLICABLE,
)


def fold(statuses: Iterable[Status]) -> Status:
    """One status for many cases of a rule: a failure wins, then our error, then what was shown."""
    found = set(statuses)
    return next((s for s in _ORDER if s in found), Status.NOT_APPLICABLE)
