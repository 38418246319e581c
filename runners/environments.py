"""Makes every cached Python environment, of engines and of clients, once: with uv, else with venv and pip.

Where uv cannot reach an index that pip can (a mirror that only pip's configuration names), pip does the work.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

# Fetching uv takes seconds; without a network we do not wait for it (seconds).
_UV_SECONDS = 120.0
_TICK = 0.2

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """An environment as it is wanted: in HOME/NAME/venv, with a stamp that is written when all is done.

    `python` is a version ("3.11"), or the path of an interpreter. `steps` are pip's arguments. The digest changes
    whenever an environment that was made earlier is no longer the one that is wanted: it is made anew then.
    """

    home: Path
    name: str
    python: str
    steps: tuple[tuple[str, ...], ...]
    digest: str
    log: Path
    fetches_uv: bool = False

    @property
    def place(self) -> Path:
        """Its folder."""
        return self.home / self.name

    @property
    def interpreter(self) -> Path:
        """Its Python, installed or not."""
        return self.place / "venv" / "bin" / "python"

    @property
    def installed(self) -> bool:
        """Whether it is there as it is wanted."""
        try:
            stamp = json.loads((self.place / "stamp.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        # Engines' stamps had the key `recipe` once: gigabytes that need not be installed again.
        found = (stamp.get("digest"), stamp.get("recipe")) if isinstance(stamp, dict) else ()
        return self.digest in found and self.interpreter.exists()


@dataclass(frozen=True)
class Failure:
    """A command that did not end well: who ran it, its short form, and the last line that it said."""

    tool: str
    shown: str
    code: int
    last: str

    def __str__(self) -> str:
        return f"{self.tool}: exit {self.code}" + (f", {self.last}" if self.last else "")


class NotInstalled(Exception):
    """An environment cannot be made; the message is one clear reason. `failures` has a command for each tool."""

    def __init__(self, message: str, failures: Sequence[Failure] = ()) -> None:
        super().__init__(message)
        self.failures = tuple(failures)


def cache_folder(variable: str, kind: str) -> Path:
    """Where environments of a kind are kept: named by a variable, else below the user's cache."""
    given = os.environ.get(variable)
    if given:
        return Path(given).expanduser().resolve()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "wireproof" / kind


def clean_environment() -> dict[str, str]:
    """Our variables without what concerns our own Python."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST_")) and k != "VIRTUAL_ENV"}


async def provide(wanted: Wanted, seconds: float, say: Say = lambda text: None) -> Path:
    """The Python of an environment, which is made first unless it is there.

    Raises NotInstalled, and OSError when its home cannot be written.
    """
    if wanted.installed:
        return wanted.interpreter
    try:
        async with asyncio.timeout(seconds):
            uv = await _find_uv(wanted.home, wanted.fetches_uv)
            async with _alone(wanted.place):
                if not wanted.installed:
                    await _install(wanted, uv, say)
    except TimeoutError as error:
        raise NotInstalled(
            f"{wanted.name} could not be installed within {seconds:.0f} s; the log is {wanted.log}"
        ) from error
    return wanted.interpreter


async def _install(wanted: Wanted, uv: str | None, say: Say) -> None:
    started = time.monotonic()
    stamp, venv = wanted.place / "stamp.json", wanted.place / "venv"
    stamp.unlink(missing_ok=True)
    wanted.log.parent.mkdir(parents=True, exist_ok=True)
    wanted.log.write_text("", encoding="utf-8")
    say(f"{wanted.name}: installing; log {wanted.log}")
    failures: list[Failure] = []
    for way in _ways(wanted, venv, uv):
        shutil.rmtree(venv, ignore_errors=True)
        failure = await _all(way, wanted.log)
        if failure is None:
            took = round(time.monotonic() - started, 1)
            made = {"digest": wanted.digest, "tool": way.tool, "seconds": took}
            stamp.write_text(json.dumps(made) + "\n", encoding="utf-8")
            say(f"{wanted.name}: installed in {took:.0f} s")
            return
        failures.append(failure)
    shutil.rmtree(venv, ignore_errors=True)
    reasons = "; ".join(map(str, failures))
    raise NotInstalled(f"{wanted.name} cannot be installed ({reasons}); the log is {wanted.log}", failures)


@dataclass(frozen=True)
class _Way:
    """The commands of one tool that make an environment, each with its short form."""

    tool: str
    commands: tuple[tuple[str, tuple[str, ...]], ...]


def _ways(wanted: Wanted, venv: Path, uv: str | None) -> list[_Way]:
    python = str(wanted.interpreter)
    out: list[_Way] = []
    make: tuple[str, ...]
    if uv:
        make = (uv, "venv", "--python", wanted.python, str(venv))
        out.append(_way("uv", "uv pip install", make, (uv, "pip", "install", "--python", python), wanted.steps))
    try:
        make = (find_python(wanted.python), "-m", "venv", str(venv))
    except NotInstalled:
        if not uv:
            raise
        return out
    pip = (python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check")
    return [*out, _way("pip", "pip install", make, pip, wanted.steps)]


def _way(
    tool: str, short: str, make: tuple[str, ...], install: tuple[str, ...], steps: Sequence[tuple[str, ...]]
) -> _Way:
    return _Way(tool, ((" ".join(make), make), *((" ".join([short, *step]), (*install, *step)) for step in steps)))


async def _all(way: _Way, log: Path) -> Failure | None:
    """Run commands one after the other; the one that fails, or None."""
    for shown, command in way.commands:
        begin = log.stat().st_size
        code = await run(command, log)
        if code:
            said = log.read_bytes()[begin:].decode("utf-8", "replace").splitlines()[1:]  # (the first is the command)
            lines = [line.strip() for line in said if line.strip()]
            return Failure(way.tool, shown, code, lines[-1][:200] if lines else "")
    return None


def find_python(wanted: str) -> str:
    """An interpreter of that version: ours, or one on PATH. Raises NotInstalled."""
    if wanted in (sys.executable, f"{sys.version_info.major}.{sys.version_info.minor}"):
        return sys.executable
    name = f"python{wanted}"
    found = shutil.which(name)
    if found and _answers([found, "-c", "import venv"]):
        return found
    raise NotInstalled(f"Python {wanted} is needed: install it, so that {name} runs, or install uv, which fetches it")


def _answers(command: Sequence[str]) -> bool:
    """Whether it runs: the shims of version managers are there and do not."""
    try:
        return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


async def _find_uv(home: Path, fetch: bool) -> str | None:
    """uv on PATH, beside our Python, or in the cache folder, where it is put if it shall; None without it."""
    own = home / "uv" / "venv" / "bin" / "uv"
    if found := shutil.which("uv"):
        return found
    for known in (Path(sys.executable).parent / "uv", own):
        if known.exists():
            return str(known)
    if not fetch:
        return None
    async with _alone(home / "uv"):
        if not own.exists():
            venv, log = own.parent.parent, home / "uv" / "install.log"
            log.write_text("", encoding="utf-8")
            pip = (str(own.with_name("python")), "-m", "pip", "install", "--no-input", "--disable-pip-version-check")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_UV_SECONDS):
                    await _all(
                        _way("pip", "pip install", (sys.executable, "-m", "venv", str(venv)), pip, [("uv",)]), log
                    )
    return str(own) if own.exists() else None


async def run(command: Sequence[str], log: Path) -> int:
    """Run a command with its output in a log. It ends with us: its whole group is killed when we are cancelled."""
    with log.open("ab") as out:
        out.write(("$ " + " ".join(command) + "\n").encode())
        out.flush()
        try:
            child = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=clean_environment(),
                process_group=0,
            )
        except OSError as error:
            out.write(f"cannot run {command[0]}: {error.strerror}\n".encode())
            return 127
    try:
        return await child.wait()
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.wait()


@contextlib.asynccontextmanager
async def _alone(place: Path) -> AsyncIterator[None]:
    """Two runs at the same time must not install into one folder: the second waits."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_TICK)
        yield
