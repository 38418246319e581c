"""Engines as data: reads engines.toml, and fills in the templates of its commands."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ENGINES = HERE / "engines.toml"

MODELS = ("copy", "random")
PLACES = ("python", "model", "port", "home", "here")
_PLACE = re.compile(r"\{([a-z]+)\}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class EngineError(Exception):
    """Something of an engine's does not work; the message says what to do. The code is the command's."""

    def __init__(self, message: str, code: int = 3) -> None:
        super().__init__(message)
        self.code = code


def recipe_error(message: str) -> EngineError:
    """A mistake in a file of engines."""
    return EngineError(message, code=2)


@dataclass(frozen=True)
class Environment:
    """How a Python environment is made: pip's arguments, step by step."""

    python: str
    install: tuple[tuple[str, ...], ...]
    here: Path = HERE

    def digest(self) -> str:
        """Changes whenever an environment that was made earlier is no longer what the recipe says."""
        texts = []
        for step in self.install:
            files = [Path(fill(word, here=str(self.here))) for word in step if "{here}" in word]
            texts += [path.read_text(encoding="utf-8") for path in files if path.is_file()]
        return hashlib.sha256(json.dumps([self.python, self.install, texts]).encode()).hexdigest()


@dataclass(frozen=True)
class Engine:
    """One version of one engine."""

    name: str
    version: str
    environment: Environment
    start: tuple[str, ...]
    models: tuple[str, ...] = ()
    ready: str = "/health"
    timeout: float = 300.0
    env: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    makes_models: bool = True

    @property
    def id(self) -> str:
        """Its name on the command line and on disk."""
        return f"{self.name}-{self.version}"


@dataclass(frozen=True)
class Catalogue:
    """All engines of one file, and the environment that makes models for those that cannot."""

    engines: Mapping[str, Engine]
    maker: Environment | None = None

    def pick(self, text: str) -> tuple[Engine, str]:
        """Engine and variant from NAME or NAME:VARIANT. Raises EngineError for what is not there."""
        name, colon, variant = text.partition(":")
        engine = self.engines.get(name)
        if engine is None:
            raise EngineError(f"no engine is called {name!r}; there are {', '.join(self.engines)}", code=2)
        if colon and variant not in engine.models:
            known = f"choose one of {', '.join(engine.models)}" if engine.models else "it has one model only"
            raise EngineError(f"{name} has no variant {variant!r}: {known}", code=2)
        return engine, variant or (engine.models[0] if engine.models else "")


def fill(text: str, **values: str) -> str:
    """Replace {name} by its value; names without a value stay. Other braces are left alone."""
    return _PLACE.sub(lambda m: values.get(m[1], m[0]), text)


def load(path: Path = ENGINES) -> Catalogue:
    """Read a file of engines.

    Raises EngineError, naming the key, when it is not as it should be.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise recipe_error(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise recipe_error(f"{path} is not TOML: {error}") from error
    here, where = path.resolve().parent, str(path)
    for key in data.keys() - {"engine", "maker"}:
        raise recipe_error(f"{where}: {key}: unknown; there are [[engine]] and [maker]")
    maker = None
    if "maker" in data:
        table = _Table(data["maker"], f"{where}: maker")
        maker = _environment(table, here)
        table.finish()
    listed = data.get("engine", [])
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise recipe_error(f"{where}: engine: write each engine as [[engine]]")
    found: dict[str, Engine] = {}
    raw: dict[str, Mapping[str, Any]] = {}
    for number, item in enumerate(listed, 1):
        engine, merged = _engine(item, raw, f"{where}: engine {number}", here)
        if engine.id in found:
            raise recipe_error(f"{where}: engine {number}: {engine.id} is there twice")
        found[engine.id], raw[engine.id] = engine, merged
        if engine.models and not engine.makes_models and maker is None:
            raise recipe_error(f"{where}: {engine.id}: makes_models: false needs a [maker]")
    return Catalogue(found, maker)


class _Table:
    """A TOML table that is read key by key; every complaint names the key."""

    def __init__(self, values: Any, where: str) -> None:
        if not isinstance(values, dict):
            raise recipe_error(f"{where}: not a table")
        self._left, self.where = dict(values), where

    def wrong(self, key: str, what: str) -> EngineError:
        return recipe_error(f"{self.where}: {key}: {what}")

    def take(self, key: str, kind: type | tuple[type, ...], what: str, default: Any = None) -> Any:
        if key not in self._left:
            if default is None:
                raise self.wrong(key, f"missing; it is {what}")
            return default
        value = self._left.pop(key)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(key, f"{value!r} is not {what}")
        return value

    def name(self, key: str) -> str:
        value = str(self.take(key, str, "a name such as vllm or 0.32.0"))
        if not _NAME.fullmatch(value):
            raise self.wrong(key, f"{value!r} is not a name: letters, digits, dots, dashes")
        return value

    def words(self, key: str, places: Sequence[str], default: Any = None) -> tuple[str, ...]:
        return self.checked(key, self.take(key, list, "a list of texts", default), places)

    def checked(self, key: str, value: Any, places: Sequence[str]) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise self.wrong(key, f"{value!r} is not a list of texts")
        for place in (m for word in value for m in _PLACE.findall(word)):
            if place not in places:
                known = ", ".join("{" + p + "}" for p in places) or "nothing"
                raise self.wrong(key, "{" + place + f"}} cannot be filled in; {known} can")
        return tuple(value)

    def finish(self) -> None:
        for key in self._left:
            raise self.wrong(key, "unknown")


def _environment(table: _Table, here: Path) -> Environment:
    python = str(table.take("python", str, 'a version such as "3.11"'))
    if not re.fullmatch(r"\d+\.\d+", python):
        raise table.wrong("python", f'{python!r} is not a version such as "3.11"')
    steps = table.take("install", list, "a list of steps, each a list of pip's arguments")
    return Environment(python, tuple(table.checked("install", step, ("here",)) for step in steps), here)


def _engine(
    item: Mapping[str, Any], raw: Mapping[str, Mapping[str, Any]], where: str, here: Path
) -> tuple[Engine, Mapping[str, Any]]:
    """One engine, and its table with the keys of the one that it is like."""
    merged = dict(item)
    like = merged.pop("like", None)
    if like is not None:
        if like not in raw:
            raise recipe_error(f"{where}: like: {like!r} is no engine that comes before it")
        # A label names a version: the other's would be wrong here.
        merged = {**{k: v for k, v in raw[like].items() if k != "label"}, **merged}
    table = _Table(merged, where)
    name, version = table.name("name"), table.name("version")
    table.where = f"{where} ({name}-{version})"
    models = table.words("models", (), [])
    for model in models:
        if model not in MODELS:
            raise table.wrong("models", f"{model!r} is none of {', '.join(MODELS)}")
    start = table.words("start", PLACES)
    if "{port}" not in " ".join(start):
        raise table.wrong("start", "the command must be told its {port}")
    env = table.take("env", dict, "a table of texts", {})
    table.checked("env", list(env.values()), PLACES)
    ready = table.take("ready", str, "a path such as /health")
    if not ready.startswith("/"):
        raise table.wrong("ready", f"{ready!r} is not a path such as /health")
    timeout = table.take("timeout", (int, float), "a number of seconds", 300)
    if timeout <= 0:
        raise table.wrong("timeout", f"{timeout} is not a number of seconds above 0")
    engine = Engine(
        name=name,
        version=version,
        environment=_environment(table, here),
        start=start,
        models=models,
        ready=ready,
        timeout=float(timeout),
        env=dict(env),
        label=str(table.take("label", str, "a text such as mlx-lm==0.32.2", "")),
        makes_models=bool(table.take("makes_models", bool, "true or false", True)),
    )
    table.finish()
    return engine, merged
