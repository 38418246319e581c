"""Engines as data: how each version is installed and started, and what was picked of them on the command line."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MODELS = ("copy", "random")
PLACE = re.compile(r"\{([a-z]+)\}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class EngineError(Exception):
    """Something of an engine's does not work; the message says what to do. The code is the command's."""

    def __init__(self, message: str, code: int = 3) -> None:
        super().__init__(message)
        self.code = code


def fill(text: str, **values: str) -> str:
    """Replace {name} by its value; names without a value stay. Other braces are left alone."""
    return PLACE.sub(lambda m: values.get(m[1], m[0]), text)


@dataclass(frozen=True)
class Template:
    """A text with places to fill in, and the folder of the file that states it: its {here}."""

    text: str
    here: Path

    def filled(self, **values: str) -> str:
        """The text with the values; names without a value stay."""
        return fill(self.text, **values, here=str(self.here))


@dataclass(frozen=True)
class Environment:
    """How a Python environment is made: pip's arguments, step by step."""

    python: str
    install: tuple[tuple[str, ...], ...]
    here: Path

    @property
    def steps(self) -> tuple[tuple[str, ...], ...]:
        """The arguments, filled in."""
        return tuple(tuple(fill(word, here=str(self.here)) for word in step) for step in self.install)

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
    start: tuple[Template, ...]
    models: tuple[str, ...] = ()
    ready: str = "/health"
    timeout: float = 300.0
    env: Mapping[str, Template] = field(default_factory=dict)
    label: str = ""
    makes_models: bool = True
    program: str = ""
    convert: tuple[Template, ...] = ()
    behind: tuple[str, ...] = ()
    config: Template | None = None
    fault_path: str = ""
    metrics: str = ""

    @property
    def id(self) -> str:
        """Its name on the command line and on disk."""
        return "-".join(filter(None, [self.name, self.version]))

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
    """The engines to choose from, and the environment that makes models for those that cannot.

    `others` can be named, too: the project's, where the engines are a user's own, which lie in `own`.
    """

    engines: Mapping[str, Recipe]
    maker: Environment
    others: Mapping[str, Recipe] = field(default_factory=dict)
    own: Path | None = None

    def find(self, name: str) -> Recipe | None:
        """The engine of that name; a user's own before the project's."""
        return self.engines.get(name) or self.others.get(name)

    def pick(self, text: str) -> Pick:
        """What NAME, NAME:VARIANT or GATEWAY:NAME:VARIANT asks for. Raises EngineError for what is not there."""
        name, _, rest = text.partition(":")
        engine = self.find(name)
        if engine is None:
            raise EngineError(f"no engine is called {name!r}; there are {', '.join(self.engines)}", code=2)
        if text.endswith(":"):
            raise EngineError(f"{text!r}: a variant follows the colon, or leave it away", code=2)
        if engine.behind:
            return Pick(engine, behind=self._behind(engine, rest))
        if not rest and engine.models:
            rest = engine.models[0]
        if rest and rest not in engine.models and not (engine.fault_path and NAME.fullmatch(rest)):
            known = f"choose one of {', '.join(engine.models)}" if engine.models else "it has one model only"
            raise EngineError(f"{name} has no variant {rest!r}: {known}", code=2)
        return Pick(engine, rest)

    def _behind(self, gateway: Recipe, text: str) -> Pick:
        """What stands behind a gateway: what is named so, else the first that serves a model of that name."""
        if not text or text.partition(":")[0] in gateway.behind:
            return self.pick(text or gateway.behind[0])
        for name in gateway.behind:
            known = self.find(name)
            if known and text in known.models:
                return self.pick(f"{name}:{text}")
        raise EngineError(
            f"{gateway.id} has no variant {text!r}: choose a model ({', '.join(MODELS)}), or what stands behind it"
            f" ({', '.join(gateway.behind)})",
            code=2,
        )
