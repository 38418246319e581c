"""Markers with which chat templates write tool calls: text between them is for the server's parser, not for clients."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from wireproof.read import engine_facts
from wireproof.wire import strictjson
from wireproof.wire.strictjson import get

#: By family of models, as their published chat templates spell them (runners/engines/).
MARKERS: tuple[str, ...] = engine_facts.call_markers()

# A shorter beginning ("<", "[A") ends many an honest text.
_LEAST = 4

_ANY = re.compile("|".join(re.escape(m) for m in sorted(MARKERS, key=len, reverse=True)))
_BEGINNINGS = frozenset(m[:size] for m in MARKERS for size in range(_LEAST, len(m)))
_LONGEST = max(len(m) for m in MARKERS) - 1


def found(text: str) -> str | None:
    """The first marker in a text, or None."""
    match = _ANY.search(text)
    return match.group() if match else None


def every(text: str) -> set[str]:
    """All markers that a text has."""
    return set(_ANY.findall(text))


def partial_start(text: str) -> str | None:
    """The end of a text that is the beginning of a marker (of 4 characters and more, the longest); None without one."""
    for size in range(min(_LONGEST, len(text)), _LEAST - 1, -1):
        if text[-size:] in _BEGINNINGS:
            return text[-size:]
    return None


def call_json(text: str, names: Iterable[str]) -> str | None:
    """The name of the declared function whose call is all that a text is, as bare JSON; None when it is none.

    Llama, Phi and Command models write calls so, without a marker: {"name": "f", "parameters": {...}}.
    """
    bare = text.strip().removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    if not bare.startswith(("{", "[")):
        return None
    value: Any = strictjson.parse(bare).value
    first = value[0] if isinstance(value, list) and value else value
    call = first if not isinstance(get(first, "function"), dict) else get(first, "function")
    name = get(call, "name")
    has_arguments = any(get(call, key) is not None for key in ("arguments", "parameters"))
    return name if isinstance(name, str) and name in set(names) and has_arguments else None


def is_meant(text: str, marker: str, names: Iterable[str]) -> bool:
    """Whether a marker in a text begins a call: a name, JSON or another tag follows, or the text ends there.

    A model with random weights may say any marker amid other words.
    """
    after = text.partition(marker)[2].strip()
    opens = not marker.startswith(("</", "<|/"))
    return opens and (not after or after[0] in "{[<" or any(name in after for name in names))
