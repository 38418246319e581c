"""Makes the clients' environments in a cache folder, once: with uv, else with venv and pip.

Where uv is neither on PATH nor beside our Python, it is fetched with pip into the cache folder. Where uv cannot
reach an index that pip can (a mirror that only pip's configuration names), pip does the work.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import platform
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from packaging.specifiers import SpecifierSet

from wireproof.scenarios.clients import Setup

VARIABLE = "WIREPROOF_CLIENTS"
# The longest that an installation may take; with uv and a good line it takes seconds.
INSTALL_SECONDS = 900.0
_UV_SECONDS = 120.0
_TICK = 0.2


class NotInstalled(Exception):
    """An environment cannot be made; the message is one clear reason."""


def default_home() -> Path:
    """The cache folder: $WIREPROOF_CLIENTS, or one below the user's cache."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given).expanduser().resolve()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "wireproof" / "clients"


def clean_environment() -> dict[str, str]:
    """Our variables without what concerns our own Python."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST_")) and k != "VIRTUAL_ENV"}


def python_of(setup: Setup, home: Path) -> Path:
    """The Python of a set-up's environment, installed or not."""
    return home / setup.name / "venv" / "bin" / "python"


def installed(setup: Setup, home: Path) -> bool:
    """Whether the environment is there as the set-up says."""
    try:
        stamp = json.loads((home / setup.name / "stamp.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    fits = isinstance(stamp, dict) and stamp.get("digest") == setup.digest
    return fits and python_of(setup, home).exists()


async def provide(setup: Setup, home: Path | None = None, *, seconds: float = INSTALL_SECONDS) -> Path:
    """The Python of a set-up, installed first unless it is there. Raises NotInstalled."""
    home = home or default_home()
    if installed(setup, home):
        return python_of(setup, home)
    if not SpecifierSet(setup.python).contains(platform.python_version()):
        raise NotInstalled(f"{setup.name} needs Python {setup.python}, this is {platform.python_version()}")
    try:
        async with asyncio.timeout(seconds):
            async with _alone(home, "uv"):
                uv = await _find_uv(home)
            async with _alone(home, setup.name):
                if not installed(setup, home):
                    await _install(setup, home, uv)
    except TimeoutError as error:
        raise NotInstalled(f"{setup.name} could not be installed within {seconds:.0f} s") from error
    except OSError as error:
        raise NotInstalled(
            f"cannot write to {home} ({error.strerror}): choose another folder with {VARIABLE}"
        ) from error
    return python_of(setup, home)


async def _install(setup: Setup, home: Path, uv: str | None) -> None:
    started = time.monotonic()
    place, venv = home / setup.name, home / setup.name / "venv"
    (place / "stamp.json").unlink(missing_ok=True)
    python = str(python_of(setup, home))
    pip = [python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--quiet"]
    ways = [("pip", [[sys.executable, "-m", "venv", str(venv)], [*pip, *setup.packages]])]
    if uv:
        make = [uv, "venv", "--quiet", "--python", sys.executable, str(venv)]
        ways.insert(0, ("uv", [make, [uv, "pip", "install", "--quiet", "--python", python, *setup.packages]]))
    reasons = []
    for tool, commands in ways:
        shutil.rmtree(venv, ignore_errors=True)
        failure = await _all(commands, place / f"{tool}.log")
        if failure is None:
            stamp = {"digest": setup.digest, "tool": tool, "seconds": round(time.monotonic() - started, 1)}
            (place / "stamp.json").write_text(json.dumps(stamp) + "\n", encoding="utf-8")
            return
        reasons.append(f"{tool}: {failure}")
    shutil.rmtree(venv, ignore_errors=True)
    raise NotInstalled(f"{setup.name} cannot be installed ({'; '.join(reasons)}); the logs are in {place}")


async def _all(commands: Sequence[Sequence[str]], log: Path) -> str | None:
    """Run commands one after the other; the last line of the log of one that fails, or None."""
    log.write_text("", encoding="utf-8")
    for command in commands:
        code = await run(command, log)
        if code:
            lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
            return f"exit {code}, {lines[-1][:200]}" if lines else f"exit {code}"
    return None


async def _find_uv(home: Path) -> str | None:
    """uv on PATH, beside our Python, or in the cache folder, where it is put if it can be; None without it."""
    beside = Path(sys.executable).parent / "uv"
    found = shutil.which("uv") or (str(beside) if beside.exists() else None)
    if found:
        return found
    own = home / "uv" / "venv" / "bin" / "uv"
    if own.exists():
        return str(own)
    venv = home / "uv" / "venv"
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "uv"]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_UV_SECONDS):
            await _all([[sys.executable, "-m", "venv", str(venv)], pip], home / "uv" / "install.log")
    return str(own) if own.exists() else None


async def run(command: Sequence[str], log: Path) -> int:
    """Run a command with its output in a log. It ends with us: its whole group is killed when we are cancelled."""
    with log.open("ab") as out:
        out.write(("$ " + " ".join(command) + "\n").encode())
        out.flush()
        child = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=clean_environment(),
            process_group=0,
        )
    try:
        return await child.wait()
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.wait()


@contextlib.asynccontextmanager
async def _alone(home: Path, name: str) -> AsyncIterator[None]:
    """Two runs at the same time must not install into one folder: the second waits."""
    (home / name).mkdir(parents=True, exist_ok=True)
    with (home / name / "lock").open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_TICK)
        yield
