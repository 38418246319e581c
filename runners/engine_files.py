"""Reads the recipes of engine files: ours in `runners/engines/`, and a user's own, which may be like ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wireproof import toml_table
from wireproof.read import engine_facts
from wireproof.toml_table import Table, TableError

from .recipes import MODELS, NAME, PLACE, Catalogue, EngineError, Environment, Recipe, Template

HERE = Path(__file__).resolve().parent
ENGINES = HERE / "engines"
MAKER = HERE / "maker.toml"

PLACES = ("python", "model", "port", "home", "here")
# What only some engines have: a program of the machine, an engine behind them, a file of settings.
_PROGRAM, _BEHIND, _CONFIG = ("program",), ("upstream", "served"), ("config",)
_CONVERT = ("python", "here", "source", "model")


@dataclass(frozen=True)
class _Stated:
    """A key's value, and the folder of the file that states it."""

    value: Any
    here: Path


@dataclass(frozen=True)
class _Item:
    """One [[recipe]] as it is written."""

    where: str
    name: str
    like: str
    stated: Mapping[str, _Stated]

    @property
    def id(self) -> str:
        """Its name on the command line, as far as it can be read before `like` is looked up."""
        version = self.stated["version"].value if "version" in self.stated else ""
        return "-".join(filter(None, [self.name, str(version)]))


def load(place: Path = ENGINES) -> Catalogue:
    """Read the engines of a file or a folder.

    Raises EngineError, naming the file and the key, when something is not as it should be.
    """
    own = place.resolve() != ENGINES
    try:
        maker = _maker()
        ours = _recipes(ENGINES, {}, {})
        if not own:
            return _sound(Catalogue({key: engine for key, (engine, _) in ours.items()}, maker))
        others = {key: engine for key, (engine, _) in ours.items()}
        known = {key: stated for key, (_, stated) in ours.items()}
        found = {key: engine for key, (engine, _) in _recipes(place, known, others).items()}
        return _sound(Catalogue(found, maker, others, place.resolve()))
    except TableError as error:
        raise EngineError(str(error), code=2) from error


def _maker() -> Environment:
    table = Table(toml_table.read(MAKER), str(MAKER))
    environment = _environment(table, MAKER.parent)
    table.finish()
    return environment


_Found = dict[str, tuple[Recipe, Mapping[str, _Stated]]]


def _recipes(place: Path, known: Mapping[str, Mapping[str, _Stated]], others: Mapping[str, Recipe]) -> _Found:
    """The recipes of a file or a folder by name, in order; `known` are those which they may be like."""
    items = _items(place)
    out: _Found = {}
    for item, (engine, stated) in zip(items, _read(items, known), strict=True):
        if engine.id in out:
            raise TableError(f"{item.where}: {engine.id} is there twice")
        out[engine.id] = (engine, stated)
    for item, (engine, _) in zip(items, out.values(), strict=True):
        for other in engine.behind:
            if other not in out and other not in others:
                raise TableError(f"{item.where}: behind: {other!r} is no engine; there are {_names(out, others)}")
    return out


def _names(*known: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(name for names in known for name in names))


def _items(place: Path) -> list[_Item]:
    """All [[recipe]] of the files, by the rank of their engines."""
    out: list[tuple[int, _Item]] = []
    for path in engine_facts.files(place):
        values = toml_table.read(path)
        facts = engine_facts.parse(values, str(path))
        if not NAME.fullmatch(facts.name):
            raise TableError(f"{path}: name: {facts.name!r} is not a name: letters, digits, dots, dashes")
        listed = values.get("recipe", [])
        if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
            raise TableError(f"{path}: recipe: write each recipe as [[recipe]]")
        here = path.resolve().parent
        for number, item in enumerate(listed, 1):
            stated = {key: _Stated(value, here) for key, value in item.items() if key != "like"}
            like = item.get("like", "")
            where = f"{path}: recipe {number}"
            if not isinstance(like, str) or ("like" in item and not like):
                raise TableError(f"{where}: like: {like!r} is not a name such as vllm-0.32.0")
            out.append((facts.rank, _Item(where, facts.name, like, stated)))
    return [item for _, item in sorted(out, key=lambda each: each[0])]


def _read(
    items: Sequence[_Item], known: Mapping[str, Mapping[str, _Stated]]
) -> list[tuple[Recipe, Mapping[str, _Stated]]]:
    """Each recipe, with the keys of the one that it is like, which may come later or be like another."""
    done: dict[int, tuple[Recipe, Mapping[str, _Stated]]] = {}
    by_name = dict(known)
    while len(done) < len(items):
        before = len(done)
        for number, item in enumerate(items):
            if number in done:
                continue
            # One of these files counts before another of the same name; a recipe may extend the other one.
            waits = any(n not in done and n != number and i.id == item.like for n, i in enumerate(items))
            if item.like and (waits or item.like not in by_name):
                continue
            # A label names a version: the other's would be wrong here.
            taken = {key: s for key, s in by_name[item.like].items() if key != "label"} if item.like else {}
            stated = {**taken, **item.stated}
            engine = _engine(item, stated)
            done[number] = (engine, stated)
            by_name[engine.id] = stated
        if len(done) == before:
            item = next(item for number, item in enumerate(items) if number not in done)
            circle = item.like in {i.id for i in items}
            why = "is like it, in a circle" if circle else f"is no engine; there are {_names(by_name)}"
            raise TableError(f"{item.where}: like: {item.like!r} {why}")
    return [done[number] for number in range(len(items))]


def _sound(catalogue: Catalogue) -> Catalogue:
    """The catalogue, when no gateway stands behind itself. Raises TableError."""

    def follow(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            circle = " over ".join([*above[above.index(name) :], name])
            raise TableError(f"{name}: behind: it would stand behind itself ({circle})")
        engine = catalogue.find(name)
        for other in engine.behind if engine else ():
            follow(other, (*above, name))

    for name in catalogue.engines:
        follow(name, ())
    return catalogue


# -- one recipe ------------------------------------------------------------------


def _checked(table: Table, key: str, texts: Sequence[str], places: Sequence[str]) -> tuple[str, ...]:
    """The texts, when all their places can be filled in. Raises TableError."""
    for place in (m for text in texts for m in PLACE.findall(text)):
        if place not in places:
            known = ", ".join("{" + p + "}" for p in places) or "nothing"
            raise table.wrong(key, "{" + place + f"}} cannot be filled in; {known} can")
    return tuple(texts)


def _name(table: Table, key: str) -> str:
    value = str(table.take(key, str, "a name such as 0.32.0"))
    if not NAME.fullmatch(value):
        raise table.wrong(key, f"{value!r} is not a name: letters, digits, dots, dashes")
    return value


def _environment(table: Table, here: Path) -> Environment:
    python = table.text("python", 'a version such as "3.11"')
    if not re.fullmatch(r"\d+\.\d+", python):
        raise table.wrong("python", f'{python!r} is not a version such as "3.11"')
    steps = []
    for step in table.take("install", list, "a list of steps, each a list of pip's arguments"):
        if not isinstance(step, list) or not all(isinstance(word, str) for word in step):
            raise table.wrong("install", f"{step!r} is not a list of texts")
        steps.append(_checked(table, "install", step, ("here",)))
    return Environment(python, tuple(steps), here)


class _Recipe:
    """The table of one recipe, with the folder that each key is stated in."""

    def __init__(self, item: _Item, stated: Mapping[str, _Stated]) -> None:
        self.table = Table({key: s.value for key, s in stated.items()}, item.where)
        self._here = {key: s.here for key, s in stated.items()}

    def here(self, key: str) -> Path:
        """The folder of the file that states a key."""
        return self._here.get(key, HERE)

    def templates(self, key: str, places: Sequence[str], default: Sequence[str] | None = None) -> tuple[Template, ...]:
        """A list of texts with places."""
        texts = _checked(self.table, key, self.table.texts(key, default=default), places)
        return tuple(Template(text, self.here(key)) for text in texts)


def _engine(item: _Item, stated: Mapping[str, _Stated]) -> Recipe:
    recipe = _Recipe(item, stated)
    table = recipe.table
    environment = _environment(table, recipe.here("install"))
    program = table.text("program", "the name of a program such as llama-server", "")
    # What was not installed by us may be of any version: it says so itself, or nobody knows.
    installed = environment.install and not program
    version = _name(table, "version") if installed or "version" in table else ""
    table.where = f"{item.where} ({'-'.join(filter(None, [item.name, version]))})"
    models = table.texts("models", default=())
    for model in models:
        if model not in MODELS:
            raise table.wrong("models", f"{model!r} is none of {', '.join(MODELS)}")
    behind = table.texts("behind", default=())
    convert = recipe.templates("convert", _CONVERT, ())
    for place in ("source", "model") if convert else ():
        if "{" + place + "}" not in _all(convert):
            raise table.wrong(
                "convert", "the command must be told {source}, the model's folder, and {model}, the file to write"
            )
    start, env, config = _commands(recipe, bool(program), bool(behind))
    fault_path = table.text("fault_path", "a path such as /fault/{fault}/v1", "")
    _checked(table, "fault_path", [fault_path], ("fault",))
    if behind and (models or fault_path):
        raise table.wrong("behind", "it serves what the engine behind it serves, and has no models or faults itself")
    metrics = table.text("metrics", "a path such as /metrics", "")
    if metrics and not metrics.endswith(("/metrics", "/slots")):
        raise table.wrong("metrics", f"{metrics!r} ends neither in /metrics nor in /slots")
    ready = table.text("ready", "a path such as /health")
    if not ready.startswith("/"):
        raise table.wrong("ready", f"{ready!r} is not a path such as /health")
    timeout = table.take("timeout", (int, float), "a number of seconds", 300)
    if timeout <= 0:
        raise table.wrong("timeout", f"{timeout} is not a number of seconds above 0")
    engine = Recipe(
        name=item.name,
        version=version,
        environment=environment,
        start=start,
        models=models,
        ready=ready,
        timeout=float(timeout),
        env=env,
        label=table.text("label", "a text such as mlx-lm==0.32.2", ""),
        makes_models=bool(table.take("makes_models", bool, "true or false", True)),
        program=program,
        convert=convert,
        behind=behind,
        config=config,
        fault_path=fault_path,
        metrics=metrics,
    )
    table.finish()
    return engine


def _all(templates: Iterable[Template]) -> str:
    return " ".join(template.text for template in templates)


def _commands(
    recipe: _Recipe, program: bool, behind: bool
) -> tuple[tuple[Template, ...], dict[str, Template], Template | None]:
    """The command, its variables, and the file of settings: each with the places that can be filled in."""
    table = recipe.table
    named = table.text("config", "a file such as {here}/gateway.yaml", "")
    _checked(table, "config", [named], ("here",))
    config = Template(named, recipe.here("config")) if named else None
    places = (*PLACES, *(_PROGRAM if program else ()), *(_BEHIND if behind else ()))
    inside = _read_settings(table, Path(config.filled()), places) if config else ""
    places = (*places, *(_CONFIG if config else ()))
    start = recipe.templates("start", places)
    texts = table.take("env", dict, "a table of texts", {})
    if not all(isinstance(text, str) for text in texts.values()):
        raise table.wrong("env", f"{list(texts.values())!r} is not a list of texts")
    _checked(table, "env", list(texts.values()), places)
    env = {key: Template(text, recipe.here("env")) for key, text in texts.items()}
    told = f"{_all(start)} {_all(env.values())}"
    if "{port}" not in _all(start):
        raise table.wrong("start", "the command must be told its {port}")
    for key, there, place, text in (
        ("program", program, "{program}", told),
        ("config", bool(config), "{config}", told),
        ("behind", behind, "{upstream}", told + inside),
    ):
        if there and place not in text:
            raise table.wrong(key, f"nothing is told its {place}")
    return start, env, config


def _read_settings(table: Table, path: Path, places: Sequence[str]) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise table.wrong("config", f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    _checked(table, "config", [text], places)
    return text
