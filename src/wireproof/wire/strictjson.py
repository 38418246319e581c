"""Strict JSON, read leniently: a value if there is one, and everything that is wrong with it.

Python's `json` accepts NaN, Infinity, repeated names and lone surrogates. Most other
parsers do not, so each of these is kept as a `Problem` instead of being lost.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeGuard

# Deeper JSON than this is refused (levels): it only serves to exhaust a stack.
NESTING_LIMIT = 200
# More problems of one text than this are not listed.
PROBLEM_LIMIT = 100

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_MISSING = object()


class ProblemKind(StrEnum):
    """What a strict parser would refuse."""

    NOT_JSON = "not-json"
    CONSTANT = "constant"  # NaN, Infinity, -Infinity: RFC 8259 section 6
    DUPLICATE = "duplicate"  # a repeated member name: RFC 8259 section 4
    SURROGATE = "surrogate"  # an unpaired surrogate escape: RFC 8259 section 8.2
    NESTING = "nesting"


@dataclass(frozen=True, slots=True)
class Problem:
    """One defect: its kind, what was seen, and the offset in characters where that is known."""

    kind: ProblemKind
    what: str
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed text: `value` is meaningful when `ok` (it may still have problems)."""

    ok: bool
    value: Any
    problems: tuple[Problem, ...] = ()

    def problem(self, kind: ProblemKind) -> Problem | None:
        """The first problem of a kind."""
        return next((p for p in self.problems if p.kind is kind), None)


def depth_exceeds(text: str, limit: int = NESTING_LIMIT) -> bool:
    """Whether brackets outside strings nest deeper than the limit."""
    if text.count("[") + text.count("{") <= limit:
        return False
    depth = 0
    in_string = escaped = False
    for char in text:
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            if depth > limit:
                return True
        elif char in "]}":
            depth -= 1
    return False


_Path = tuple[Any, ...]  # (path above, name or number): written out only for what is shown


def _written(path: _Path) -> str:
    steps: list[str] = []
    while path:
        path, step = path
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step[:80]}")
    return "$" + "".join(reversed(steps))


def strings(value: Any) -> Iterator[tuple[Callable[[], str], str]]:
    """Every string in a value, member names too, with a function that writes its path."""
    stack: list[tuple[_Path, Any]] = [((), value)]
    while stack:
        where, item = stack.pop()
        if isinstance(item, str):
            yield functools.partial(_written, where), item
        elif isinstance(item, dict):
            for key, child in item.items():
                yield functools.partial(_written, (where, key)), key
                if isinstance(child, str | dict | list):
                    stack.append(((where, key), child))
        elif isinstance(item, list):
            stack.extend(((where, i), child) for i, child in enumerate(item) if isinstance(child, str | dict | list))


def has_lone_surrogate(text: str) -> bool:
    """Whether a string cannot be written as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def parse(text: str) -> Parsed:
    """Parse one JSON text. Never raises."""
    problems: list[Problem] = []

    named: set[str] = set()

    def constant(name: str) -> float:
        if name not in named:  # once for each name: a body may hold a hundred thousand
            named.add(name)
            where = text.find(name) if text.count(name) == 1 else None
            problems.append(Problem(ProblemKind.CONSTANT, name, where))
        return float(name.replace("Infinity", "inf").replace("NaN", "nan"))

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(items)
        if len(out) != len(items):
            seen: set[str] = set()
            for key, _ in items:
                if key in seen and len(problems) < PROBLEM_LIMIT:
                    problems.append(Problem(ProblemKind.DUPLICATE, key))
                seen.add(key)
        return out

    if depth_exceeds(text):
        what = f"nested deeper than {NESTING_LIMIT} levels"
        return Parsed(False, None, (Problem(ProblemKind.NESTING, what),))
    try:
        value = json.loads(text, parse_constant=constant, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        return Parsed(False, None, (*problems, Problem(ProblemKind.NOT_JSON, error.msg, error.pos)))
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits
        return Parsed(False, None, (*problems, Problem(ProblemKind.NOT_JSON, str(error)[:80])))
    if _SURROGATE_ESCAPE.search(text):
        for where, string in strings(value):
            if has_lone_surrogate(string):
                seen = f"{where()} = {string!r}"[:120].encode("utf-8", errors="backslashreplace").decode()
                problems.append(Problem(ProblemKind.SURROGATE, seen))
                break
    return Parsed(True, value, tuple(problems))


def get(value: Any, *path: str | int, default: Any = None) -> Any:
    """Walk into parsed JSON without trusting its shape: a step that is not there gives the default."""
    for step in path:
        if isinstance(step, str):
            value = value.get(step, _MISSING) if isinstance(value, dict) else _MISSING
        else:
            value = value[step] if isinstance(value, list) and -len(value) <= step < len(value) else _MISSING
        if value is _MISSING:
            return default
    return value


def is_int(value: Any) -> TypeGuard[int]:
    """A JSON integer: `true` is none, and neither is 1.0."""
    return isinstance(value, int) and not isinstance(value, bool)
