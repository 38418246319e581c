"""Keeps the environments of engines and the tiny models in a cache folder; each is made once."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wireproof.resources import folder

from . import environments, process
from .environments import NotInstalled, Say, Wanted, clean_environment
from .recipes import Catalogue, EngineError, Environment, Recipe

VARIABLE = "WIREPROOF_ENGINES"
# The longest that an installation may take: a slow line and gigabytes (seconds).
INSTALL = 3 * 3600.0
# Making a model takes seconds, importing torch on a cold disk may take a minute.
MODEL = 600.0


def default_home() -> Path:
    """The cache folder: $WIREPROOF_ENGINES, or one below the user's cache."""
    return environments.cache_folder(VARIABLE, "engines")


@dataclass(frozen=True)
class Home:
    """The cache folder: NAME-VERSION/venv with its stamp, models/, logs/, cache/.

    A stamp is written when all is done: without it, or with another recipe's, what is there is made anew.
    """

    path: Path
    say: Say = print

    @property
    def logs(self) -> Path:
        """Where the logs lie."""
        return self.path / "logs"

    @property
    def cache(self) -> Path:
        """What {home} stands for: a folder for the engines' own caches."""
        return self.path / "cache"

    def python(self, name: str, environment: Environment) -> Path:
        """The Python of an environment, installed or not."""
        return self._wanted(name, environment).interpreter if environment.install else Path(sys.executable)

    def installed(self, name: str, environment: Environment) -> bool:
        """Whether it is there as the recipe says."""
        return not environment.install or self._wanted(name, environment).installed

    def _wanted(self, name: str, environment: Environment) -> Wanted:
        log = self.logs / f"{name}-install.log"
        return Wanted(self.path, name, environment.python, environment.steps, environment.digest(), log)

    def provision(self, name: str, environment: Environment) -> Path:
        """Install an environment unless it is there; returns its Python. Raises EngineError."""
        if self.installed(name, environment):
            return self.python(name, environment)
        wanted = self._wanted(name, environment)
        try:
            return asyncio.run(environments.provide(wanted, INSTALL, self.say))
        except OSError as error:
            raise self._unwritable(error) from error
        except NotInstalled as error:
            if not error.failures:
                raise EngineError(str(error)) from error
            ended = ", ".join(f"`{f.shown}` ended with {f.code}" for f in error.failures)
            raise EngineError(
                f"{name} cannot be installed: {ended}. Can the package index be reached, and is there room on the disk?"
                f" The log is {wanted.log}\n{process.tail(wanted.log, 8)}"
            ) from error

    def model(self, engine: Recipe, kind: str, catalogue: Catalogue) -> Path:
        """A tiny model in the form that the engine reads, made unless it is there. Raises EngineError."""
        made = self._made(engine, kind, catalogue)
        return self._converted(engine, made) if engine.convert else made

    def _converted(self, engine: Recipe, source: Path) -> Path:
        """What a recipe's command makes of a model's folder."""
        scripts = [Path(word.filled()).parent for word in engine.convert if "{here}" in word.text]
        digest = _scripts_digest(*scripts, text=json.dumps([word.text for word in engine.convert]))
        target = source.with_name(f"{source.name}-{engine.id}-{digest}")
        if target.exists():
            return target
        python = self.provision(engine.id, engine.environment)
        with self._alone("models"):
            if not target.exists():
                log, partial = self.logs / f"model-{target.name}.log", target.with_name(target.name + ".partial")
                self.logs.mkdir(parents=True, exist_ok=True)
                log.write_text("", encoding="utf-8")
                self.say(f"model {target.name}: converting it; log {log}")
                places = {"python": str(python), "source": str(source), "model": str(partial)}
                command = [word.filled(**places) for word in engine.convert]
                self._run_script(command, f"the model {source.name} cannot be converted for {engine.id}", log)
                partial.rename(target)
        return target

    def _made(self, engine: Recipe, kind: str, catalogue: Catalogue) -> Path:
        """The folder of a tiny model."""
        scripts = folder("fixtures") / "models"
        target = self.path / "models" / f"{kind}-{_scripts_digest(scripts)}"
        if target.is_dir():
            return target
        if engine.makes_models:
            python = self.provision(engine.id, engine.environment)
        else:
            python = self.provision("maker", catalogue.maker)
        with self._alone("models"):
            if not target.is_dir():
                self._make_model(python, scripts, kind, target)
        return target

    def _make_model(self, python: Path, scripts: Path, kind: str, target: Path) -> None:
        log, partial = self.logs / f"model-{kind}.log", target.with_name(target.name + ".partial")
        self.logs.mkdir(parents=True, exist_ok=True)
        log.write_text("", encoding="utf-8")
        shutil.rmtree(partial, ignore_errors=True)
        self.say(f"model {kind}: making it; log {log}")
        command = [str(python), str(scripts / "make_tiny_model.py"), "--kind", kind, str(partial)]
        self._run_script(command, f"the model {kind} cannot be made", log)
        partial.rename(target)

    def _run_script(self, command: Sequence[str], failed: str, log: Path) -> None:
        offline = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
        code = process.run(command, log=log, seconds=MODEL, env={**clean_environment(), **offline})
        if code:
            raise EngineError(f"{failed}: the script ended with {code}; the log is {log}\n{process.tail(log)}")

    @contextlib.contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Two runs at the same time must not make the same model: the second waits."""
        try:
            (self.path / name).mkdir(parents=True, exist_ok=True)
            file = (self.path / name / "lock").open("w")
        except OSError as error:
            raise self._unwritable(error) from error
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _unwritable(self, error: OSError) -> EngineError:
        return EngineError(f"cannot write to {self.path} ({error.strerror}): choose another folder with --home", code=2)


def environment_of(engine: Recipe, home: Home, places: Mapping[str, str]) -> dict[str, str]:
    """The variables of an engine's process: ours, without what concerns our Python, and the recipe's."""
    (home.cache / "hf" / "hub").mkdir(parents=True, exist_ok=True)
    quiet = {
        "HF_HOME": str(home.cache / "hf"),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
        # Engines build small extensions with tools of their own environment (ninja).
        "PATH": os.pathsep.join([str(Path(places["python"]).parent), os.environ.get("PATH", os.defpath)]),
    }
    return {**clean_environment(), **quiet, **{name: text.filled(**places) for name, text in engine.env.items()}}


def template_values(home: Home, *, python: Path, model: Path | None, port: int) -> dict[str, str]:
    """What the places in a recipe's templates stand for; {here} is each template's own."""
    return {
        "python": str(python),
        "model": str(model or ""),
        "port": str(port),
        "home": str(home.cache),
    }


def find_program(engine: Recipe) -> Path:
    """The program that an engine needs and nobody installs: named by a variable, or on PATH. Raises EngineError."""
    variable = re.sub(r"[^A-Z0-9]", "_", engine.program.upper())
    given = os.environ.get(variable)
    found = shutil.which(Path(given).expanduser() if given else engine.program)
    if found is None:
        wrong = f"{variable} names {given}, which cannot be run" if given else f"there is no {engine.program} on PATH"
        raise EngineError(f"{engine.id}: {wrong}: build or install it, and put its path into {variable}")
    return Path(found).absolute()


def _scripts_digest(*folders: Path, text: str = "") -> str:
    """Models of other scripts are other models."""
    files = [p for folder in folders for p in sorted(folder.iterdir()) if p.suffix in (".py", ".jinja")]
    parts = [p.name.encode() + b"\0" + p.read_bytes() for p in files]
    return hashlib.sha256(b"\0".join([*parts, text.encode()] if text else parts)).hexdigest()[:8]
