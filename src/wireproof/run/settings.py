"""Settings in a file: what a team demands of its servers, written down once.

`wireproof.toml`, or `[tool.wireproof]` in `pyproject.toml`, from the current folder upwards. The command line wins.
Keys are the names of options, and `target`; `[raise]` makes rules MUST, `[drop]` leaves rules out, each with the reason
that every report shows.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wireproof.judge import rules
from wireproof.judge.rules import MUST, Rule
from wireproof.run import options as opts

NAME, PYPROJECT = "wireproof.toml", "pyproject.toml"
RAISE, DROP = "raise", "drop"
_LEFT_OUT = (opts.RECORD, opts.HTML, opts.JUNIT, opts.SETTINGS)  # what belongs to one run, not to the contract
# What describes one server.
OF_A_SERVER = frozenset(o.name for o in (opts.MODEL, opts.API_KEY_ENV, opts.HEADER, opts.METRICS, opts.ENGINE))
OPTIONS = {o.name: o for o in opts.RUN if o not in _LEFT_OUT}


class SettingsError(ValueError):
    """A settings file that cannot be used; the message names the file, the key, and what to do."""


@dataclass(frozen=True)
class Settings:
    """What a file says. `values` are option values by name; `raised` and `dropped` are reasons by rule id."""

    path: Path | None = None
    target: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    raised: Mapping[str, str] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)

    def apply(self, chosen: Iterable[Rule]) -> list[Rule]:
        """The rules that are left, some of them at MUST."""
        kept = (r for r in chosen if r.id not in self.dropped)
        return [replace(r, level=MUST) if r.id in self.raised else r for r in kept]

    def selection(self) -> dict[str, Any]:
        """What the header of a run record says of it."""
        if self.path is None:
            return {}
        return {"settings": self.path.name, "raised": dict(self.raised), "dropped": dict(self.dropped)}

    def check_rules(self) -> None:
        """Raise SettingsError for a rule that does not exist; call it when all rules are loaded."""
        for table, named in ((RAISE, self.raised), (DROP, self.dropped)):
            for name in named:
                if name not in rules.load():
                    raise SettingsError(f"{self.path}: {table}: no rule is called {name!r}{_near(name, rules.load())}")


def find(start: Path) -> Path | None:
    """The nearest settings file, from a folder upwards."""
    for folder in (start, *start.parents):
        if (folder / NAME).is_file():
            return folder / NAME
        if (folder / PYPROJECT).is_file() and "wireproof" in _toml(folder / PYPROJECT).get("tool", {}):
            return folder / PYPROJECT
    return None


def load(named: str | None, start: Path) -> Settings:
    """The settings of the named file ("none" for no file at all), or of the nearest one. Raises SettingsError."""
    if named == "none":
        return Settings()
    path = Path(named) if named else find(start)
    return read(path) if path is not None else Settings()


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}") from error


def read(path: Path) -> Settings:
    """What a file says. Raises SettingsError."""
    values = _toml(path)
    if path.name == PYPROJECT:
        values = values.get("tool", {}).get("wireproof", {})
    if not isinstance(values, dict):
        raise SettingsError(f"{path}: wireproof: write a table, [tool.wireproof]")
    found = dict(values)
    target = found.pop("target", "")
    if not isinstance(target, str):
        raise SettingsError(f"{path}: target: {target!r} is not a URL")
    reasons = {table: _reasons(path, table, found.pop(table, {})) for table in (RAISE, DROP)}
    if both := sorted(set(reasons[RAISE]) & set(reasons[DROP])):
        raise SettingsError(f"{path}: {both[0]} stands in [{RAISE}] and in [{DROP}]: choose one")
    return Settings(
        path,
        target,
        {key: _value(path, key, value) for key, value in found.items()},
        reasons[RAISE],
        reasons[DROP],
    )


def _reasons(path: Path, table: str, found: Any) -> dict[str, str]:
    if not isinstance(found, dict):
        raise SettingsError(f'{path}: {table}: write a table, [{table}], with lines "rule.id" = "the reason"')
    for name, reason in found.items():
        if not isinstance(reason, str) or not reason.strip():
            raise SettingsError(f'{path}: {table}: {name}: give the reason as text, "{name}" = "..."')
    return dict(found)


def _value(path: Path, key: str, value: Any) -> Any:
    """The value of an option, as its command line has it."""
    if key in ("api-key", "api_key", "key"):
        raise SettingsError(f'{path}: {key}: a key does not belong into a file: name its variable, api-key-env = "VAR"')
    option = OPTIONS.get(key)
    if option is None:
        known = [*OPTIONS, "target", RAISE, DROP]
        raise SettingsError(f"{path}: there is no setting {key!r}{_near(key, known)}")
    if option.flag:
        good, what = isinstance(value, bool), "true or false"
    elif option.kind is not None:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        whole = number and (option.kind is float or isinstance(value, int))
        good, what = whole and option.low <= value < math.inf, f"a number, {option.low} or more"
    elif option.many:
        good, what = isinstance(value, list) and all(isinstance(v, str) for v in value), "a list of texts"
    elif option is opts.SUITE and isinstance(value, list):
        good, what = all(isinstance(v, str) for v in value), "a list of texts"
        value = ",".join(map(str, value))
    else:
        good = isinstance(value, str) and (not option.choices or value in option.choices)
        what = " or ".join(option.choices) if option.choices else "a text"
    if not good:
        raise SettingsError(f"{path}: {key}: {value!r} is not {what}")
    if option is opts.RULES:  # a folder is named as seen from the file
        return [str(path.parent / v) if (path.parent / v).is_dir() else v for v in value]
    return option.kind(value) if option.kind else value


def _near(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
    return f"; did you mean {close[0]!r}?" if close else ""
