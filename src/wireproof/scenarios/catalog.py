"""All scenarios by name: requests from TOML files, conversations, the keyword table, the fuzz, the clients' tasks."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace

from wireproof.resources import folder
from wireproof.scenarios import clients, conversations, fuzz, keywords
from wireproof.scenarios.scenario import CONVERSATIONS, Scenario
from wireproof.wire.endpoints import Endpoint

_KNOWN = {f.name for f in fields(Scenario)} - {"name", "play", "client"}


def parse(text: str, where: str) -> list[Scenario]:
    """Scenarios from the text of one TOML file.

    Raises ValueError, naming the file and the entry, for a key that no scenario has.
    """
    out: list[Scenario] = []
    for name, table in tomllib.loads(text).items():
        unknown = set(table) - _KNOWN - {"like"}
        if unknown or "what" not in table:
            raise ValueError(f"{where}: scenario {name}: unknown or missing keys: {sorted(unknown) or ['what']}")
        base = next((s for s in out if s.name == table.get("like")), None)
        if "like" in table and base is None:
            raise ValueError(f"{where}: scenario {name} is like {table['like']}, which is not defined above it")
        values = {k: v for k, v in table.items() if k != "like"}
        if "endpoint" in values:
            try:
                values["endpoint"] = Endpoint(values["endpoint"])
            except ValueError:
                known = ", ".join(e.value for e in Endpoint)
                raise ValueError(f"{where}: scenario {name}: no such endpoint; choose one of {known}") from None
        if base is None:
            out.append(Scenario(name=name, **values))
        else:
            if "body" in values:
                values["body"] = {**(base.body or {}), **values["body"]}
            if "column" not in values:  # a place in a table is handed down to those that say where they stand in it
                values = {"table": "", "row": "", "column": "", **values}
            out.append(replace(base, name=name, **values))
    return out


_own: dict[str, Scenario] = {}


def load() -> Mapping[str, Scenario]:
    """Every scenario by name: ours, and those of a user's own that were added."""
    ours = _ours()
    more = {name: s for name, s in CONVERSATIONS.items() if name not in ours}
    return {**ours, **_own, **more} if _own or more else ours


def add(found: Iterable[Scenario], where: str) -> None:
    """Add scenarios of a user's own. Raises ValueError, naming the place, for a name that is taken."""
    for scenario in found:
        if scenario.name in load():
            raise ValueError(f"{where}: a scenario {scenario.name} is there already: choose another name")
        _own[scenario.name] = scenario


def own() -> dict[str, Scenario]:
    """The scenarios that were added."""
    return dict(_own)


def restore(scenarios: Mapping[str, Scenario]) -> None:
    """Forget added scenarios but these."""
    _own.clear()
    _own.update(scenarios)
    for name in set(CONVERSATIONS) - set(_ours()):
        del CONVERSATIONS[name]


@functools.cache
def _ours() -> Mapping[str, Scenario]:
    """The TOML files of `fixtures/scenarios`, the conversations, keyword table, fuzz and clients."""
    for module in sorted(m.name for m in pkgutil.iter_modules(conversations.__path__)):
        importlib.import_module(f"{conversations.__name__}.{module}")
    out: dict[str, Scenario] = {}
    found: list[Scenario] = []
    for path in sorted(folder("fixtures").joinpath("scenarios").glob("*.toml")):
        found += parse(path.read_text(encoding="utf-8"), path.name)
    for scenario in (*found, *CONVERSATIONS.values(), *keywords.scenarios(), *fuzz.scenarios(), *clients.scenarios()):
        if scenario.name in out:
            raise ValueError(f"scenario {scenario.name} is defined twice")
        out[scenario.name] = scenario
    return out


def needed(names: Iterable[str], *, slow: bool = False, gentle: bool = False, risky: bool = True) -> list[Scenario]:
    """The scenarios of these names, in a stable order; slow ones only when asked for, no load when gentle.

    `risky` says whether what has killed an engine is among them.

    Raises KeyError for a name that does not exist.
    """
    every = load()
    wanted = dict.fromkeys(names)
    missing = [name for name in wanted if name not in every]
    if missing:
        raise KeyError(f"no scenario is called {', '.join(missing)}")
    return [
        s
        for s in every.values()
        if s.name in wanted and (slow or not s.slow) and (risky or not s.risky) and not (gentle and s.load)
    ]
