"""The registry of faults. Modules of this package register theirs with `@fault(...)` when imported.

    @fault("done.not-last", layer=Layer.SSE, breaks={"done.marker.once-and-last"}, source="https://...")
    def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
        \"\"\"[DONE] comes first, content after it.\"\"\"

A variation that is legal (`breaks=()`) is named `legal.<what>` and reached the same way.
"""

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..layers import Context, Fault, Layer

__all__ = ["Context", "Fault", "Layer", "UnknownFault", "by_rule", "fault", "load", "parse"]

_REGISTRY: dict[str, Fault] = {}
_loaded = False
F = TypeVar("F", bound=Callable[..., Any])


class UnknownFault(KeyError):
    """A fault name that nobody registered; the message lists names like it."""

    def __str__(self) -> str:
        return str(self.args[0])


def fault(
    name: str,
    *,
    layer: Layer,
    breaks: Iterable[str],
    cases: Iterable[str] = (),
    source: str = "",
) -> Callable[[F], F]:
    """Register a pure function (value, ctx) -> value as a fault; its docstring's first line is the summary."""

    def register(apply: F) -> F:
        broken = frozenset(breaks)
        if name in _REGISTRY:
            raise ValueError(f"fault {name!r} is registered twice")
        if not broken and not name.startswith("legal."):
            raise ValueError(f"fault {name!r} breaks no rule: a legal variation is named legal.*")
        summary = (apply.__doc__ or "").strip().partition("\n")[0]
        if not summary:
            raise ValueError(f"fault {name!r} needs a docstring that says what it does")
        _REGISTRY[name] = Fault(name, layer, broken, summary, tuple(cases), source, apply)
        return apply

    return register


def load() -> dict[str, Fault]:
    """Import every module of this package and of `legal`; all faults by name."""
    global _loaded
    if not _loaded:
        for module in pkgutil.walk_packages(__path__, f"{__name__}."):
            importlib.import_module(module.name)
        _loaded = True
    return dict(_REGISTRY)


def by_rule() -> dict[str, list[str]]:
    """Rule id -> names of the faults that break it, sorted (a legal variation may break a SHOULD)."""
    out: dict[str, list[str]] = {}
    for name, found in load().items():
        for rule in found.breaks:
            out.setdefault(rule, []).append(name)
    return {rule: sorted(names) for rule, names in out.items()}


def parse(names: str) -> tuple[Fault, ...]:
    """`a+b` to faults, in that order; UnknownFault for a name that is not registered."""
    known = load() if not _loaded else _REGISTRY
    found = []
    for name in names.split("+"):
        if name not in known:
            close = difflib.get_close_matches(name, known, n=5, cutoff=0.4)
            hint = f"close matches: {', '.join(close)}" if close else "no name is like it"
            raise UnknownFault(f"unknown fault {name!r}; {hint}")
        found.append(known[name])
    return tuple(found)
