"""Rules: a requirement with an id, a level and a source, and the check that proves it.

    @rule("done.marker.once-and-last", MUST, on=STREAMS, book="DONE-003", source=client("openai-python"))
    def test_done_once_and_last(x: Exchange) -> None:
        \"\"\"[DONE] occurs exactly once and is the last event.

        Clients stop at the first one: what follows is lost.
        \"\"\"

The first line of the docstring is the requirement, the rest says who is hurt.
"""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from wireproof.read.endpoints import FORMS
from wireproof.read.exchange import Exchange
from wireproof.scenarios import catalog
from wireproof.wire.endpoints import Endpoint


class Level(StrEnum):
    """The level follows the source's word."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"


MUST, SHOULD, MAY = Level.MUST, Level.SHOULD, Level.MAY

OPENAPI_COMMIT = "f85dbe223d40e1a31cba812ab2d755c7e98a92a3"
_OPENAPI_LINK = f"https://github.com/openai/openai-openapi/blob/{OPENAPI_COMMIT}/openapi.yaml"


@dataclass(frozen=True)
class Source:
    """What a rule rests on: `kind` is contract, openapi, openai-observed, whatwg, rfc, client:X or engine:X."""

    kind: str
    ref: str = ""
    link: str = ""

    def __str__(self) -> str:
        return f"{self.kind} ({self.ref})" if self.ref else self.kind


def contract(ref: str = "") -> Source:
    """The serving team's own invariant."""
    return Source("contract", ref)


def openapi(ref: str) -> Source:
    """OpenAI's OpenAPI file, at the pinned commit."""
    return Source("openapi", ref, _OPENAPI_LINK)


def observed(ref: str, link: str = "") -> Source:
    """What api.openai.com was seen to do, or its prose documentation says."""
    return Source("openai-observed", ref, link)


def whatwg(section: str) -> Source:
    """The HTML standard's chapter on server-sent events."""
    return Source("whatwg", section, "https://html.spec.whatwg.org/multipage/server-sent-events.html")


def rfc(number: int, section: str = "") -> Source:
    """An RFC, with its section."""
    anchor = f"#section-{section}" if section else ""
    ref = f"RFC {number}" + (f" section {section}" if section else "")
    return Source("rfc", ref, f"https://www.rfc-editor.org/rfc/rfc{number}{anchor}")


def client(name: str, ref: str = "") -> Source:
    """A client library that measurably breaks."""
    return Source(f"client:{name}", ref)


def engine(name: str, ref: str = "", link: str = "") -> Source:
    """A documented extension or setting of an engine."""
    return Source(f"engine:{name}", ref, link)


# -- what a rule is judged on ---------------------------------------------------


@dataclass(frozen=True)
class Each:
    """Judged on every exchange that matches; `needs` names scenarios that surely give one."""

    what: str
    match: Callable[[Exchange], bool]
    needs: tuple[str, ...]


@dataclass(frozen=True)
class Of:
    """Judged on the named scenarios together: the check gets one argument for each.

    The argument is an `Exchange`, or the `Take` of a scenario that is a conversation.
    """

    scenarios: tuple[str, ...]

    @property
    def needs(self) -> tuple[str, ...]:
        """The scenarios to record."""
        return self.scenarios


@dataclass(frozen=True)
class Twins:
    """Judged on every pair (plain, stream) of the same deterministic request."""

    what: str
    match: Callable[[Exchange], bool]
    needs: tuple[str, ...]


@dataclass(frozen=True)
class Across:
    """Judged once, on all exchanges that match: the check gets their sequence."""

    what: str
    match: Callable[[Exchange], bool]
    needs: tuple[str, ...]
    at_least: int = 2


@dataclass(frozen=True)
class EachStep:
    """Judged on each of these steps (scenario, step) by itself: the check gets a `Take` with the step's exchanges."""

    what: str
    steps: tuple[tuple[str, str], ...]

    @property
    def needs(self) -> tuple[str, ...]:
        """The scenarios to record."""
        return tuple(dict.fromkeys(scenario for scenario, _ in self.steps))


Applies = Each | Of | Twins | Across | EachStep


def of(*scenarios: str) -> Of:
    """Judged on these scenarios together."""
    return Of(scenarios)


def each_of(*scenarios: str) -> Each:
    """Judged on each of these scenarios by itself."""
    names = frozenset(scenarios)
    return Each(", ".join(scenarios), lambda x: x.scenario in names, scenarios)


@dataclass(frozen=True)
class Rule:
    """One requirement. `check` is None for a rule that cannot be observed; then `reason` says why."""

    id: str
    level: Level
    requirement: str
    why: str
    source: Source
    book: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    on: Applies | None = None
    check: Callable[..., None] | None = None
    reason: str = ""
    #: The form of exchange that each parameter of the check takes; `Exchange` for any, and for a `Take`.
    forms: tuple[type[Exchange], ...] = ()

    @property
    def area(self) -> str:
        """The first part of the id."""
        return self.id.split(".", 1)[0]

    @property
    def endpoint(self) -> Endpoint | None:
        """The endpoint that the rule is about; None when it is about any HTTP exchange, or about several."""
        form = next((f for f in self.forms if f is not Exchange), None)
        if form is not None:
            return next(e for e, f in FORMS.items() if f is form)
        known = catalog.load()
        found = {known[name].endpoint for name in self.needs if name in known}
        if len(found) != 1:
            return None
        (only,) = found
        by_name = isinstance(self.on, Of | EachStep)
        return only if by_name or only is not Endpoint.CHAT else None  # (chat scenarios stand in for any exchange)

    def takes(self, x: Exchange) -> bool:
        """Whether the check can read such an exchange: one about chat completions reads no other endpoint."""
        return all(isinstance(x, form) for form in self.forms)

    @property
    def needs(self) -> tuple[str, ...]:
        """Scenarios that must be recorded to judge it."""
        return self.on.needs if self.on else ()


class Registry:
    """All rules by id, in order of definition."""

    def __init__(self) -> None:
        self._rules: dict[str, Rule] = {}

    def add(self, new: Rule) -> None:
        """Add a rule; a second rule with the same id or book number is a programming error."""
        if new.id in self._rules:
            raise ValueError(f"rule {new.id} is defined twice")
        taken = {number: r.id for r in self._rules.values() for number in r.book}
        for number in new.book:
            if number in taken:
                raise ValueError(f"{number} belongs to {taken[number]} already")
        self._rules[new.id] = new

    def keep(self, ids: Iterable[str]) -> None:
        """Forget all other rules (those of a user's folder that cannot be used)."""
        kept = set(ids)
        self._rules = {name: r for name, r in self._rules.items() if name in kept}

    @property
    def rules(self) -> Mapping[str, Rule]:
        """Every rule by id."""
        return self._rules

    def find(self, name: str) -> Rule | None:
        """A rule by its id or by its number in the rule book."""
        if name in self._rules:
            return self._rules[name]
        return next((r for r in self._rules.values() if name.upper() in r.book), None)


REGISTRY = Registry()

_F = TypeVar("_F", bound=Callable[..., None])


def rule(
    id: str,
    level: Level,
    *,
    on: Applies,
    source: Source,
    book: str | tuple[str, ...] = (),
    evidence: tuple[str, ...] = (),
) -> Callable[[_F], _F]:
    """Register the decorated function as the check of a rule.

    `book` is the rule's number (or numbers) in the rule book, `evidence` names wire
    cases of the client matrix that show who is hurt.
    """

    def register(check: _F) -> _F:
        requirement, _, why = (check.__doc__ or "").strip().partition("\n")
        if not requirement:
            raise ValueError(f"rule {id} has no docstring: its first line is the requirement")
        numbers = (book,) if isinstance(book, str) else book
        REGISTRY.add(
            Rule(id, level, requirement.strip(), _flat(why), source, numbers, evidence, on, check, forms=_forms(check)),
        )
        return check

    return register


def _forms(check: Callable[..., None]) -> tuple[type[Exchange], ...]:
    """What the parameters of a check are annotated with: `Chat`, or a sequence of them, or any exchange."""
    said = [str(getattr(a, "__name__", a)) for name, a in check.__annotations__.items() if name != "return"]
    by_name = {form.__name__: form for form in FORMS.values()}
    return tuple(by_name.get(text.removeprefix("Sequence[").removesuffix("]"), Exchange) for text in said)


def unobservable(
    id: str, level: Level, *, requirement: str, why: str, reason: str, source: Source, book: str | tuple[str, ...] = ()
) -> None:
    """Register a rule that no check can judge from outside, with the reason."""
    numbers = (book,) if isinstance(book, str) else book
    REGISTRY.add(Rule(id, level, requirement, why, source, numbers, reason=reason))


def _flat(text: str) -> str:
    return " ".join(text.split())


def load() -> Mapping[str, Rule]:
    """Import every check module of `wireproof.suites` and return the rules by id."""
    package = importlib.import_module("wireproof.suites")
    for area in sorted(m.name for m in pkgutil.iter_modules(package.__path__) if m.ispkg):
        folder = importlib.import_module(f"wireproof.suites.{area}")
        for module in sorted(m.name for m in pkgutil.iter_modules(folder.__path__)):
            if module.startswith("test_"):
                importlib.import_module(f"wireproof.suites.{area}.{module}")
    return REGISTRY.rules


def digest(rules: Iterable[Rule]) -> str:
    """A digest of ids, levels and requirements: two runs with the same digest judged the same rules."""
    h = hashlib.sha256()
    for r in sorted(rules, key=lambda r: r.id):
        h.update(f"{r.id}\0{r.level}\0{r.requirement}\n".encode())
    return f"sha256:{h.hexdigest()}"


# What an area is called besides; the plural of its name is understood, too.
_ALIASES = {"cancellation": "cancel", "parameters": "param", "choices": "choice", "chunks": "chunk"}


def select(rules: Iterable[Rule], suites: Sequence[str]) -> list[Rule]:
    """The rules of the named suites (areas), rule ids or book numbers; all of them for an empty list.

    Raises ValueError naming the entry that selects nothing.
    """
    pool = list(rules)
    if not suites:
        return pool
    areas = {r.area for r in pool}
    chosen: dict[str, Rule] = {}
    for name in suites:
        low = _ALIASES.get(name.lower(), name.lower())
        low = low[:-1] if low not in areas and low.endswith("s") and low[:-1] in areas else low
        found = [r for r in pool if low in (r.area, r.id) or name.upper() in r.book or r.id.startswith(f"{low}.")]
        if not found:
            known = ", ".join(sorted(areas))
            raise ValueError(f"no rule belongs to {name!r}; suites are: {known}")
        chosen.update({r.id: r for r in found})
    return [r for r in pool if r.id in chosen]


def as_json(r: Rule, faults: Sequence[str]) -> dict[str, Any]:
    """The rule as one object of `wireproof list --json`."""
    return {
        "id": r.id,
        "aliases": list(r.book),
        "area": r.area,
        "endpoint": r.endpoint.value if r.endpoint else "",
        "level": r.level.value,
        "source": r.source.kind,
        "ref": r.source.ref,
        "link": r.source.link,
        "requirement": r.requirement,
        "why": r.why,
        "checked": r.check is not None,
        "reason": r.reason,
        "evidence": list(r.evidence),
        "scenarios": list(r.needs),
        "faults": list(faults),
    }
