"""The formats of reports: each module of this package is one, and says so with a `FORMAT`.

`wireproof report` has an option for each. Another format is another module here, and nothing else.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from wireproof.stored.run_record import RunRecord


class Render(Protocol):
    """Makes a report of run records, at least one; failures below the level are warnings."""

    def __call__(self, records: Sequence[RunRecord], *, level: str) -> str: ...


@dataclass(frozen=True)
class Format:
    """One format: `--NAME FILE` writes it. `title` names what was written, `help` says what that is."""

    name: str
    title: str
    suffix: str
    help: str
    render: Render


@functools.cache
def load() -> Mapping[str, Format]:
    """All formats by name."""
    out: dict[str, Format] = {}
    for module in pkgutil.iter_modules(__path__):
        found = getattr(importlib.import_module(f"{__name__}.{module.name}"), "FORMAT", None)
        if not isinstance(found, Format):
            raise TypeError(f"{__name__}.{module.name} is no format: it has no FORMAT = Format(...)")
        out[found.name] = found
    return out
