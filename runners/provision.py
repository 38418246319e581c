"""Makes environments and tiny models in a cache folder, once."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wireproof.resources import folder

from . import process
from .recipes import Catalogue, EngineError, Environment, Recipe, fill

VARIABLE = "WIREPROOF_ENGINES"
# The longest that one step of an installation may take: a slow line and gigabytes (seconds).
STEP = 3600.0
# Making a model takes seconds, importing torch on a cold disk may take a minute.
MODEL = 600.0

Say = Callable[[str], None]


def default_home() -> Path:
    """The cache folder: $WIREPROOF_ENGINES, or one below the user's cache."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "wireproof" / "engines"


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
        if not environment.install:
            return Path(sys.executable)
        return self.path / name / "venv" / "bin" / "python"

    def installed(self, name: str, environment: Environment) -> bool:
        """Whether it is there as the recipe says."""
        if not environment.install:
            return True
        try:
            stamp = json.loads((self.path / name / "stamp.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        fits = isinstance(stamp, dict) and stamp.get("recipe") == environment.digest()
        return fits and self.python(name, environment).exists()

    def provision(self, name: str, environment: Environment) -> Path:
        """Install an environment unless it is there; returns its Python. Raises EngineError."""
        python = self.python(name, environment)
        if self.installed(name, environment):
            return python
        with self._alone(name):
            if not self.installed(name, environment):
                self._install(name, environment)
        return python

    def _install(self, name: str, environment: Environment) -> None:
        started = time.monotonic()
        place, log = self.path / name, self.logs / f"{name}-install.log"
        self.logs.mkdir(parents=True, exist_ok=True)
        log.write_text("", encoding="utf-8")
        (place / "stamp.json").unlink(missing_ok=True)
        shutil.rmtree(place / "venv", ignore_errors=True)
        self.say(f"{name}: installing; log {log}")
        for shown, command in _commands(place / "venv", environment):
            code = process.run(command, log=log, seconds=STEP, env=_clean())
            if code:
                raise EngineError(
                    f"{name} cannot be installed: `{shown}` ended with {code}. Can the package index be reached, and is"
                    f" there room on the disk? The log is {log}\n{process.tail(log, 8)}"
                )
        seconds = round(time.monotonic() - started, 1)
        stamp = {"recipe": environment.digest(), "seconds": seconds}
        (place / "stamp.json").write_text(json.dumps(stamp) + "\n", encoding="utf-8")
        self.say(f"{name}: installed in {seconds:.0f} s")

    def model(self, engine: Recipe, kind: str, catalogue: Catalogue) -> Path:
        """A tiny model in the form that the engine reads, made unless it is there. Raises EngineError."""
        made = self._made(engine, kind, catalogue)
        return self._converted(engine, made) if engine.convert else made

    def _converted(self, engine: Recipe, source: Path) -> Path:
        """What a recipe's command makes of a model's folder."""
        here = engine.environment.here
        scripts = [Path(fill(word, here=str(here))).parent for word in engine.convert if "{here}" in word]
        digest = _scripts_digest(*scripts, text=json.dumps(engine.convert))
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
                places = {"python": str(python), "here": str(here), "source": str(source), "model": str(partial)}
                command = [fill(word, **places) for word in engine.convert]
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
            assert catalogue.maker is not None, "load() has seen to it"
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
        code = process.run(command, log=log, seconds=MODEL, env={**_clean(), **offline})
        if code:
            raise EngineError(f"{failed}: the script ended with {code}; the log is {log}\n{process.tail(log)}")

    @contextlib.contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Two runs at the same time must not install into one folder: the second waits."""
        try:
            (self.path / name).mkdir(parents=True, exist_ok=True)
            file = (self.path / name / "lock").open("w")
        except OSError as error:
            raise EngineError(
                f"cannot write to {self.path} ({error.strerror}): choose another folder with --home", code=2
            ) from error
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


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
    return {**_clean(), **quiet, **{name: fill(text, **places) for name, text in engine.env.items()}}


def template_values(
    engine: Recipe, home: Home, *, python: Path, model: Path | None, port: int, **more: str
) -> dict[str, str]:
    """What the places in a recipe's templates stand for."""
    return {
        "python": str(python),
        "model": str(model or ""),
        "port": str(port),
        "home": str(home.cache),
        "here": str(engine.environment.here),
        **more,
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


def _clean() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST_")) and k != "VIRTUAL_ENV"}


def _scripts_digest(*folders: Path, text: str = "") -> str:
    """Models of other scripts are other models."""
    files = [p for folder in folders for p in sorted(folder.iterdir()) if p.suffix in (".py", ".jinja")]
    parts = [p.name.encode() + b"\0" + p.read_bytes() for p in files]
    return hashlib.sha256(b"\0".join([*parts, text.encode()] if text else parts)).hexdigest()[:8]


def _commands(venv: Path, environment: Environment) -> list[tuple[str, list[str]]]:
    """The commands that make an environment, with uv where it is there, else with pip; each with a short form."""
    python = str(venv / "bin" / "python")
    uv = shutil.which("uv")
    if uv:
        make = [uv, "venv", "--python", environment.python, str(venv)]
        tool, install = "uv pip install", [uv, "pip", "install", "--python", python]
    else:
        make = [find_python(environment.python), "-m", "venv", str(venv)]
        tool, install = "pip install", [python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    here = str(environment.here)
    steps = [
        (" ".join([tool, *step]), [*install, *(fill(word, here=here) for word in step)]) for step in environment.install
    ]
    return [(" ".join(make), make), *steps]


def find_python(wanted: str) -> str:
    """An interpreter of that version: ours, or one on PATH. Raises EngineError."""
    if wanted == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    name = f"python{wanted}"
    found = shutil.which(name)
    if found and _answers([found, "-c", "import venv"]):
        return found
    raise EngineError(f"Python {wanted} is needed: install it, so that {name} runs, or install uv, which fetches it")


def _answers(command: Sequence[str]) -> bool:
    """Whether it runs: the shims of version managers are there and do not."""
    try:
        return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
