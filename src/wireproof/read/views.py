"""Views of an exchange that live outside `Exchange`: computed once per exchange, like its own.

@view
def calls(x: Exchange) -> list[Call]: ...

A view that raises (`Inconclusive`, mostly) raises again each time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from wireproof.read.exchange import Exchange

X = TypeVar("X", bound=Exchange)
T = TypeVar("T")


def view(make: Callable[[X], T]) -> Callable[[X], T]:
    """Remember what `make` returns with the exchange itself, so that it is forgotten with it."""
    key = f"_{make.__module__}.{make.__name__}"

    @functools.wraps(make)
    def cached(x: X) -> T:
        kept = x.__dict__
        if key not in kept:
            kept[key] = make(x)
        found: T = kept[key]
        return found

    return cached
