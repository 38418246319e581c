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
# What only some engines have: a program of the machine, an engine behind them, a file of settings.
_PROGRAM, _BEHIND, _CONFIG = ("program",), ("upstream", "served"), ("config",)
_CONVERT = ("python", "here", "source", "model")
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
class Recipe:
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
    program: str = ""
    convert: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    config: str = ""
    fault_path: str = ""
    metrics: str = ""

    @property
    def id(self) -> str:
        """Its name on the command line and on disk."""
        return "-".join(filter(None, [self.name, self.version]))

    @property
    def settings(self) -> Path | None:
        """The template of its file of settings."""
        return Path(fill(self.config, here=str(self.environment.here))) if self.config else None

    @property
    def variants(self) -> str:
        """What may follow its name on the command line, in words."""
        listed = [*self.models, *self.behind]
        if listed:
            return ", ".join(listed)
        return "(any fault)" if self.fault_path else "(its own model)"


@dataclass(frozen=True)
class Pick:
    """An engine as it was asked for: with its model or fault, and with what stands behind it."""

    engine: Recipe
    variant: str = ""
    behind: Pick | None = None

    @property
    def model(self) -> str:
        """The tiny model that it serves; "" when it brings its own."""
        return self.variant if self.variant in self.engine.models else ""

    @property
    def path(self) -> str:
        """Where its API is."""
        faulty = self.variant and not self.model
        return fill(self.engine.fault_path, fault=self.variant) if faulty else "/v1"

    @property
    def chain(self) -> tuple[Pick, ...]:
        """It, and what stands behind it."""
        return (self, *(self.behind.chain if self.behind else ()))

    @property
    def name(self) -> str:
        """Its name on disk."""
        return "-over-".join("-".join(filter(None, [p.engine.id, p.variant])) for p in self.chain)

    @property
    def label(self) -> str:
        """Its name in reports."""
        own = " ".join(filter(None, [self.engine.name, self.engine.version]))
        own += f", {self.variant}" if self.variant else ""
        return f"{own} over {self.behind.label}" if self.behind else own


@dataclass(frozen=True)
class Catalogue:
    """All engines of one file, and the environment that makes models for those that cannot."""

    engines: Mapping[str, Recipe]
    maker: Environment | None = None

    def pick(self, text: str) -> Pick:
        """What NAME, NAME:VARIANT or GATEWAY:NAME:VARIANT asks for. Raises EngineError for what is not there."""
        name, _, rest = text.partition(":")
        if name not in self.engines:
            raise EngineError(f"no engine is called {name!r}; there are {', '.join(self.engines)}", code=2)
        engine = self.engines[name]
        if text.endswith(":"):
            raise EngineError(f"{text!r}: a variant follows the colon, or leave it away", code=2)
        if engine.behind:
            return Pick(engine, behind=self._behind(engine, rest))
        if not rest and engine.models:
            rest = engine.models[0]
        if rest and rest not in engine.models and not (engine.fault_path and _NAME.fullmatch(rest)):
            known = f"choose one of {', '.join(engine.models)}" if engine.models else "it has one model only"
            raise EngineError(f"{name} has no variant {rest!r}: {known}", code=2)
        return Pick(engine, rest)

    def _behind(self, gateway: Recipe, text: str) -> Pick:
        """What stands behind a gateway: what is named so, else the first that serves a model of that name."""
        if not text or text.partition(":")[0] in gateway.behind:
            return self.pick(text or gateway.behind[0])
        for name in gateway.behind:
            if text in self.engines[name].models:
                return self.pick(f"{name}:{text}")
        raise EngineError(
            f"{gateway.id} has no variant {text!r}: choose a model ({', '.join(MODELS)}), or what stands behind it"
            f" ({', '.join(gateway.behind)})",
            code=2,
        )


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
    found: dict[str, Recipe] = {}
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

    def optional(self, key: str, what: str) -> str:
        return str(self.take(key, str, what, ""))

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
) -> tuple[Recipe, Mapping[str, Any]]:
    """One engine, and its table with the keys of the one that it is like."""
    merged = dict(item)
    like = merged.pop("like", None)
    if like is not None:
        if like not in raw:
            raise recipe_error(f"{where}: like: {like!r} is no engine that comes before it")
        # A label names a version: the other's would be wrong here.
        merged = {**{k: v for k, v in raw[like].items() if k != "label"}, **merged}
    table = _Table(merged, where)
    name = table.name("name")
    environment = _environment(table, here)
    program = table.optional("program", "the name of a program such as llama-server")
    # What was not installed by us may be of any version: it says so itself, or nobody knows.
    installed = environment.install and not program
    version = table.name("version") if installed or "version" in merged else ""
    table.where = f"{where} ({'-'.join(filter(None, [name, version]))})"
    models = table.words("models", (), [])
    for model in models:
        if model not in MODELS:
            raise table.wrong("models", f"{model!r} is none of {', '.join(MODELS)}")
    behind = table.words("behind", (), [])
    for other in behind:
        if other not in raw:
            raise table.wrong("behind", f"{other!r} is no engine that comes before it")
    convert = table.words("convert", _CONVERT, [])
    for place in ("source", "model") if convert else ():
        if "{" + place + "}" not in " ".join(convert):
            raise table.wrong(
                "convert", "the command must be told {source}, the model's folder, and {model}, the file to write"
            )
    start, env, config = _templates(table, here, bool(program), bool(behind))
    fault_path = table.optional("fault_path", "a path such as /fault/{fault}/v1")
    table.checked("fault_path", [fault_path], ("fault",))
    if behind and (models or fault_path):
        raise table.wrong("behind", "it serves what the engine behind it serves, and has no models or faults itself")
    metrics = table.optional("metrics", "a path such as /metrics")
    if metrics and not metrics.endswith(("/metrics", "/slots")):
        raise table.wrong("metrics", f"{metrics!r} ends neither in /metrics nor in /slots")
    ready = table.take("ready", str, "a path such as /health")
    if not ready.startswith("/"):
        raise table.wrong("ready", f"{ready!r} is not a path such as /health")
    timeout = table.take("timeout", (int, float), "a number of seconds", 300)
    if timeout <= 0:
        raise table.wrong("timeout", f"{timeout} is not a number of seconds above 0")
    engine = Recipe(
        name=name,
        version=version,
        environment=environment,
        start=start,
        models=models,
        ready=ready,
        timeout=float(timeout),
        env=env,
        label=table.optional("label", "a text such as mlx-lm==0.32.2"),
        makes_models=bool(table.take("makes_models", bool, "true or false", True)),
        program=program,
        convert=convert,
        behind=behind,
        config=config,
        fault_path=fault_path,
        metrics=metrics,
    )
    table.finish()
    return engine, merged


def _templates(table: _Table, here: Path, program: bool, behind: bool) -> tuple[tuple[str, ...], dict[str, str], str]:
    """The command, its variables, and the file of settings: each with the places that can be filled in."""
    config = table.optional("config", "a file such as {here}/gateway.yaml")
    table.checked("config", [config], ("here",))
    places = (*PLACES, *(_PROGRAM if program else ()), *(_BEHIND if behind else ()))
    inside = _read_template(table, Path(fill(config, here=str(here))), places) if config else ""
    places = (*places, *(_CONFIG if config else ()))
    start = table.words("start", places)
    env = table.take("env", dict, "a table of texts", {})
    told = " ".join([*start, *table.checked("env", list(env.values()), places)])
    if "{port}" not in " ".join(start):
        raise table.wrong("start", "the command must be told its {port}")
    for key, there, place, text in (
        ("program", program, "{program}", told),
        ("config", bool(config), "{config}", told),
        ("behind", behind, "{upstream}", told + inside),
    ):
        if there and place not in text:
            raise table.wrong(key, f"nothing is told its {place}")
    return start, dict(env), config


def _read_template(table: _Table, path: Path, places: Sequence[str]) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise table.wrong("config", f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    table.checked("config", [text], places)
    return text
