"""What can be chosen for a run, said once: `wireproof run --NAME` and `pytest --wireproof-NAME` are made of it."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The names of profiles and levels stand here, too: this module is imported by every pytest run of our users.
PROFILES = ("full", "gate")
LEVELS = ("must", "should", "may")
PLUGIN = "--wireproof-"  # what the plugin puts before a name


class OptionError(ValueError):
    """A value that cannot be used; the message names the option and says what to do."""


@dataclass(frozen=True)
class Option:
    """One option. `words` are its names on the command line, where they are not `--NAME`."""

    name: str
    help: str
    metavar: str | None = None
    default: Any = None
    kind: type[int] | type[float] | None = None
    low: float = -math.inf
    choices: tuple[str, ...] = ()
    many: bool = False
    flag: bool = False
    path: bool = False
    words: tuple[str, ...] = ()

    @property
    def dest(self) -> str:
        """Its name among parsed arguments."""
        return self.name.replace("-", "_")

    def keywords(self) -> dict[str, Any]:
        """The keywords that argparse and pytest add it with."""
        if self.flag:
            return {"action": "store_true", "default": bool(self.default), "help": self.help}
        out: dict[str, Any] = {"default": list(self.default or ()) if self.many else self.default, "help": self.help}
        if self.many:
            out["action"] = "append"
        if self.choices:
            out["choices"] = self.choices
        if self.metavar:
            out["metavar"] = self.metavar
        return out

    def add_to(self, parser: argparse.ArgumentParser, *, help: str = "") -> None:
        """Add it to a command; `help` says what it means there."""
        more: dict[str, Any] = {"help": help} if help else {}
        if self.kind:
            more["type"] = number(self.kind, self.low)
        parser.add_argument(*(self.words or (f"--{self.name}",)), dest=self.dest, **{**self.keywords(), **more})

    def plugin_words(self, value: Any) -> list[str]:
        """The value as it is passed on to the plugin; nothing when none was given."""
        if self.flag:
            return [f"{PLUGIN}{self.name}"] if value else []
        values = value if self.many else [value]
        given = [v for v in values if v not in (None, "")]
        there = [Path(v).resolve() if self.path and (not self.many or Path(v).exists()) else v for v in given]
        return [f"{PLUGIN}{self.name}={v}" for v in there]


MODEL = Option("model", "the model to ask for (default: the only one that is served)", "M")
API_KEY_ENV = Option("api-key-env", "environment variable that holds the API key", "VAR")
HEADER = Option("header", "extra request header, its value in the environment variable VAR", "NAME=VAR", many=True)
METRICS = Option("metrics", "the engine's own /metrics (or /slots), when the target is a gateway in front of it", "URL")
SUITE = Option("suite", "suites (areas), rule ids or rule numbers (default: all)", "A,B", "")
LEVEL = Option("level", "which broken rules fail the run", default="must", choices=("must", "should"))
RECORD = Option("record", "write the run record (JSON Lines)", "FILE", path=True, words=("-o", "--output"))
# What runs write themselves; `wireproof report` has an option for each format.
HTML = Option("html", "write the HTML report", "FILE.html", path=True)
JUNIT = Option("junit", "write JUnit XML, one test case per rule", "FILE.xml", path=True)
ENGINE = Option("engine", "the engine, when the target does not say so itself", "NAME==VERSION")
LABEL = Option("label", "name of this run's column in reports", "TEXT", "")
CONCURRENCY = Option("concurrency", "requests at a time (default 4)", "N", 4, int, 1)
SAMPLES = Option("samples", "record each scenario N times", "N", 1, int, 1)
SLOW = Option("slow", "also record scenarios that wait for tens of seconds", flag=True)
GENTLE = Option("gentle", "leave out what loads the target: floods, long generations, large bodies, fuzzing", flag=True)
RISKY = Option(
    "risky", "also send requests that have crashed real engines; only for a target that nobody else uses", flag=True
)
RULES = Option(
    "rules", "a folder, or an installed package, with rules of your own (may be repeated)", "DIR", many=True, path=True
)
PROFILE = Option(
    "profile", "full (default), or gate: the few requests that judge the most rules", default="full", choices=PROFILES
)
SETTINGS = Option(
    "settings", "settings file (default: the nearest wireproof.toml or pyproject.toml; none: no file)", "FILE"
)
TIMEOUT = Option(
    "timeout",
    "longest silence of the target (default 60); an answer as a whole may take five times as long",
    "SECONDS",
    60.0,
    float,
    0.1,
)

# A live run's, in the order in which they are shown.
RUN = (
    *(MODEL, API_KEY_ENV, HEADER, METRICS, SUITE, LEVEL, RULES, RECORD, HTML, JUNIT, ENGINE, LABEL),
    *(PROFILE, CONCURRENCY, SAMPLES, SLOW, GENTLE, RISKY, TIMEOUT, SETTINGS),
)


def number(kind: Callable[[str], float], low: float, high: float = math.inf) -> Callable[[str], Any]:
    """An argparse type: a finite number within bounds."""
    what = "a number" if kind is float else "a whole number"

    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not (low <= value <= high and math.isfinite(value)):
            limits = f"{low} or more" if high == math.inf else f"from {low} to {high}"
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}, {limits}")
        return value

    return parse


def suites(text: str) -> list[str]:
    """The entries of --suite."""
    return [s.strip() for s in text.split(",") if s.strip()]


def variable(name: str, option: str) -> str:
    """What an environment variable holds. Raises OptionError when it is not set."""
    value = os.environ.get(name)
    if not value:
        raise OptionError(f"the environment variable {name} ({option}) is not set")
    return value


def secrets(key: str | None, headers: Iterable[str], prefix: str = "--") -> tuple[str | None, Mapping[str, str]]:
    """The API key and the extra headers, read from the environment. Raises OptionError."""
    found = {}
    value = variable(key, f"{prefix}{API_KEY_ENV.name}") if key else None
    for header in headers:
        name, equals, source = header.partition("=")
        if not name or not equals:
            raise OptionError(
                f"{prefix}{HEADER.name} {header!r}: write NAME=VAR, where the variable VAR holds the value"
            )
        found[name] = variable(source, f"{prefix}{HEADER.name} {name}")
    return value, found
