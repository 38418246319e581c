"""The one maker of environments, with a stand-in for the commands that install."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from wireproof.runners import environments, process
from wireproof.runners.environments import NotInstalled, Wanted, find_python, provide
from wireproof.runners.provision import Home
from wireproof.runners.recipes import EngineError, Environment

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class Installs:
    """Stands in for the commands: makes the interpreter, counts, and fails when it is told to."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.fails: Callable[[Sequence[str]], bool] = lambda command: False

    async def __call__(self, command: Sequence[str], log: Path) -> int:
        self.commands.append(list(command))
        log.write_text(f"{log.read_text()}$ {' '.join(command)}\nit says so\n")
        if self.fails(command):
            return 7
        if "venv" in command[1:3]:
            python = Path(command[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.touch()
        return 0


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch) -> Installs:
    fake = Installs()
    monkeypatch.setattr(environments, "run", fake)
    return fake


def with_uv(monkeypatch: pytest.MonkeyPatch, uv: str) -> None:
    real = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: (uv or None) if name == "uv" else real(name))
    monkeypatch.setattr(sys, "executable", os.path.realpath(sys.executable))  # beside it there is no uv of a venv's


@pytest.fixture
def wanted(tmp_path: Path) -> Wanted:
    return Wanted(tmp_path, "a", PYTHON, (("b==1",), ("c==1",)), "d1", tmp_path / "log")


@pytest.mark.asyncio
@pytest.mark.parametrize("uv", ["", "/usr/bin/uv"])
async def test_it_is_made_once(wanted: Wanted, installs: Installs, uv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_uv(monkeypatch, uv)
    assert await provide(wanted, 9) == wanted.home / "a" / "venv" / "bin" / "python"
    assert [c[-1] for c in installs.commands] == [str(wanted.place / "venv"), "b==1", "c==1"]
    assert [c[0] for c in installs.commands] == ([uv] * 3 if uv else [sys.executable, *[str(wanted.interpreter)] * 2])
    assert json.loads((wanted.place / "stamp.json").read_text())["tool"] == ("uv" if uv else "pip")
    await provide(wanted, 9)
    assert len(installs.commands) == 3
    await provide(replace(wanted, digest="d2"), 9)
    assert len(installs.commands) == 6


@pytest.mark.parametrize(("stamp", "there"), [('{"recipe": "d1"}', True), ('{"digest": "d0"}', False), ("torn", False)])
def test_stamps_of_earlier_versions_count(wanted: Wanted, stamp: str, there: bool) -> None:
    wanted.interpreter.parent.mkdir(parents=True)
    wanted.interpreter.touch()
    (wanted.place / "stamp.json").write_text(stamp)
    assert wanted.installed is there


@pytest.mark.asyncio
async def test_pip_does_what_uv_cannot(wanted: Wanted, installs: Installs, monkeypatch: pytest.MonkeyPatch) -> None:
    with_uv(monkeypatch, "/usr/bin/uv")
    installs.fails = lambda command: command[0] == "/usr/bin/uv" and command[1] == "pip"
    await provide(wanted, 9)
    assert json.loads((wanted.place / "stamp.json").read_text())["tool"] == "pip"
    installs.fails = lambda command: "pip" in command
    with pytest.raises(NotInstalled, match=r"a cannot be installed \(uv: exit 7, it says so; pip: exit 7, it says"):
        await provide(replace(wanted, digest="d2"), 9)
    assert not (wanted.place / "venv").exists() and not (wanted.place / "stamp.json").exists()


@pytest.mark.asyncio
async def test_uv_is_fetched_where_it_shall_be(
    wanted: Wanted, installs: Installs, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_uv(monkeypatch, "")
    own = wanted.home / "uv" / "venv" / "bin" / "uv"
    fake = installs.__call__

    async def fetch(command: Sequence[str], log: Path) -> int:
        if command[-1] == "uv":
            own.touch()
        return await fake(command, log)

    monkeypatch.setattr(environments, "run", fetch)
    await provide(replace(wanted, fetches_uv=True), 9)
    assert [c[0] for c in installs.commands[2:]] == [str(own)] * 3
    installs.commands.clear()
    await provide(replace(wanted, digest="d2"), 9)  # who has it uses it
    assert [c[0] for c in installs.commands] == [str(own)] * 3


@pytest.mark.asyncio
async def test_two_at_a_time_install_once(wanted: Wanted, installs: Installs) -> None:
    await asyncio.gather(provide(wanted, 9), provide(wanted, 9))
    assert len(installs.commands) == 3


@pytest.mark.asyncio
async def test_an_installation_that_hangs_has_an_end(wanted: Wanted, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: object) -> int:
        await asyncio.sleep(60)
        return 0

    monkeypatch.setattr(environments, "run", hang)
    with pytest.raises(NotInstalled, match="a could not be installed within 0 s; the log is"):
        await provide(wanted, 0.2)


@pytest.mark.asyncio
async def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    assert await environments.run(["/no/such/tool"], tmp_path / "log") == 127
    assert "cannot run /no/such/tool: No such file" in (tmp_path / "log").read_text()


def test_an_installation_ends_with_us(tmp_path: Path) -> None:
    """SIGTERM while the sync caller waits: what it has started is gone."""
    begun = tmp_path / "begun"

    def tell() -> None:
        while not begun.exists() or not begun.read_text():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=tell, daemon=True).start()
    script = f"import os, pathlib, time; pathlib.Path({str(begun)!r}).write_text(str(os.getpid())); time.sleep(60)"
    with pytest.raises(process.Told), process.told():
        asyncio.run(environments.run([sys.executable, "-c", script], tmp_path / "log"))
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)


def test_the_python_of_an_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_python(PYTHON) == find_python(sys.executable) == sys.executable
    shim = tmp_path / "python3.99"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotInstalled, match=r"Python 3\.99 is needed: install it, so that python3\.99 runs, or install"):
        find_python("3.99")
    shim.write_text("#!/bin/sh\nexit 0\n")
    assert find_python("3.99") == str(shim)


def test_an_engine_is_installed_by_its_recipe_and_lock(
    tmp_path: Path, installs: Installs, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_uv(monkeypatch, "")
    lock = tmp_path / "lock.txt"
    lock.write_text("a==1\n")
    home = Home(tmp_path / "home", lambda text: None)
    recipe = Environment(PYTHON, (("b",), ("-r", "{here}/lock.txt")), tmp_path)
    python = home.provision("a-1", recipe)
    assert python == tmp_path / "home" / "a-1" / "venv" / "bin" / "python"
    assert [c[-2:] for c in installs.commands[1:]] == [[installs.commands[1][-2], "b"], ["-r", str(lock)]]
    lock.write_text("a==2\n")  # another recipe
    assert not home.installed("a-1", recipe)
    installs.fails = lambda command: command[-1] == "b"
    with pytest.raises(EngineError, match=r"^a-1 cannot be installed: `pip install b` ended with 7\. Can the package"):
        home.provision("a-1", recipe)
    with pytest.raises(EngineError, match=r"^Python 3\.99 is needed"):
        home.provision("b-1", replace(recipe, python="3.99"))
