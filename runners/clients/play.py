"""Makes client libraries do their tasks against a target, and hands back what crossed the wire with the outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from wireproof.record.proxy import PLACEHOLDER, Tap
from wireproof.record.recorder import Unavailable
from wireproof.record.target import Limits, Target
from wireproof.scenarios import clients
from wireproof.scenarios.clients import Setup
from wireproof.scenarios.scenario import Scenario
from wireproof.verdict import Status
from wireproof.wire import redact
from wireproof.wire.strictjson import get
from wireproof.wire.transcript import Ending, Tags, Transcript

from ..environments import clean_environment
from . import environments

# Importing a library from a cold disk takes long (seconds).
_START_SECONDS = 120.0
# A driver that is told a limit for its requests gets so much more before it is taken for hung (seconds).
_PATIENCE = 15.0
# One line of a driver's (bytes).
_LINE = 4 * 1024 * 1024
_TAIL = 2000
# After so many tasks in a row that came to nothing in all their time, the others are left out.
_FRUITLESS = 3
_SILENT = (Ending.IDLE_TIMEOUT, Ending.TOTAL_TIMEOUT)


class DriverError(Exception):
    """A driver does not start; the message has the end of what it said."""


class Driver:
    """A client library in a process of its own: a job in, an outcome out, one line each."""

    def __init__(self, setup: Setup, python: Path) -> None:
        self.setup, self._python = setup, python
        self.versions: Mapping[str, str] = {}
        self._child: asyncio.subprocess.Process | None = None
        self._said = bytearray()
        self._listening: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it and wait until it has imported its library. Raises DriverError."""
        script = clients.where() / "drivers" / self.setup.driver
        quiet = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "NO_PROXY": "127.0.0.1"}
        # Keys and base URLs of the user's own are no business of a driver's.
        own = ("OPENAI_", "LANGCHAIN_", "LANGSMITH_", "LLAMA_")
        env = {k: v for k, v in clean_environment().items() if not k.startswith(own)}
        self._child = await asyncio.create_subprocess_exec(
            str(self._python),
            str(script),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**env, **quiet},
            limit=_LINE,
            process_group=0,
        )
        self._said.clear()
        self._listening = asyncio.create_task(self._listen(self._child))
        hello: dict[str, Any] | None = None
        with contextlib.suppress(TimeoutError):
            hello = await self._line(_START_SECONDS)
        if hello is None or not isinstance(hello.get("versions"), dict):
            await self.stop()
            raise DriverError(f"the driver of {self.setup.name} does not start: {self._end()}")
        self.versions = {str(k): str(v) for k, v in hello["versions"].items()}

    async def do(self, job: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """The outcome of a job; one that says so when the driver hangs or dies. It is started anew then."""
        if self._child is None:
            await self.start()
        assert self._child is not None and self._child.stdin is not None
        with contextlib.suppress(ConnectionError):
            self._child.stdin.write(json.dumps(job).encode() + b"\n")
            await self._child.stdin.drain()
        try:
            found = await self._line(seconds)
        except TimeoutError:
            kind, what = "DriverHang", f"no outcome within {seconds:g} s"
        else:
            if found is not None and found.get("task") == job["task"]:
                return found
            code = self._child.returncode
            kind = "DriverNonsense" if code is None else "DriverCrash"
            what = "what it wrote is no outcome" if code is None else f"the driver ended with {code}: {self._end()}"
        await self.stop()
        return {"task": job["task"], "ok": False, "error": {"type": kind, "message": what, "bases": [kind]}}

    async def stop(self) -> None:
        """End it and everything that it has started."""
        child, self._child = self._child, None
        if child is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        await child.wait()
        if self._listening is not None:
            await asyncio.wait({self._listening}, timeout=1.0)

    async def _line(self, seconds: float) -> dict[str, Any] | None:
        """The next line, a JSON object; None when it is anything else, or too long. Raises TimeoutError."""
        assert self._child is not None and self._child.stdout is not None
        with contextlib.suppress(ValueError, RecursionError):
            async with asyncio.timeout(seconds):
                text = await self._child.stdout.readline()
                if not text:
                    await self._child.wait()
                    return None
            found = json.loads(text)
            return found if isinstance(found, dict) else None
        return None

    async def _listen(self, child: asyncio.subprocess.Process) -> None:
        """Keep the end of what it complains about."""
        assert child.stderr is not None
        while data := await child.stderr.read(4096):
            self._said = (self._said + data)[-_TAIL:]

    def _end(self) -> str:
        lines = [line.strip() for line in self._said.decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1][:300] if lines else "it said nothing"


async def perform(
    driver: Driver, tap: Tap, tasks: Sequence[str], model: str, more: Mapping[str, Any] | None = None
) -> list[tuple[str, Transcript]]:
    """Let a client do tasks; (task, exchange) in order, the outcome in the tags of the task's first exchange.

    What became of tasks that sent nothing stands in the tags of the very first exchange. A client that hangs does so
    in task after task, and so does a target that keeps silent: most of them are not waited for.
    """
    out: list[tuple[str, Transcript]] = []
    unsent: dict[str, str] = {}
    fruitless = 0
    for name in tasks:
        if fruitless >= _FRUITLESS:
            unsent[name] = f"left out: {fruitless} tasks in a row came to nothing in all their time"
            continue
        task, place = clients.TASKS[name], f"{driver.setup.name}-{name}"
        limit = min(driver.setup.seconds, tap.limits.total_seconds)
        job = {
            "task": name,
            "base_url": tap.url(place),
            "api_key": PLACEHOLDER,
            "model": model,
            "timeout": min(limit, tap.limits.idle_seconds + 2.0),  # the tap gives up first, and knows why
            **(more or {}),
        }
        outcome = await driver.do(job, limit + _PATIENCE)
        found = await tap.collect(place)
        versions = ", ".join(f"{name} {version}" for name, version in driver.versions.items())
        shown = redact.text(json.dumps(outcome).encode(), tap.secrets).decode()
        told = get(outcome, "error", "type")
        silent = bool(found) and all(not t.reads and t.ending in _SILENT for t in found)
        fruitless = fruitless + 1 if told == "DriverHang" or silent else 0
        if not found:
            said = json.loads(shown)
            unsent[name] = f"the client sent nothing: {get(said, 'error', 'type')}: {get(said, 'error', 'message')}"
        for number, t in enumerate(found):
            tags = Tags(
                valid=task.valid,
                optional=task.optional,
                client=driver.setup.name,
                versions=versions,
                outcome="" if number else shown,
            )
            out.append((name, replace(t, tags=t.tags | tags)))
    if unsent and not out:
        raise DriverError(f"{driver.setup.name}, all tasks: {next(iter(unsent.values()))}")
    if unsent:
        name, first = out[0]
        out[0] = (name, replace(first, tags=replace(first.tags, unsent=json.dumps(unsent))))
    return out


@dataclass
class Clients:
    """Plays the scenarios of client libraries; the recorder is given it when they are asked for."""

    target: Target
    model: str
    limits: Limits
    home: Path | None = None
    _tap: Tap | None = field(default=None, init=False)

    async def __aenter__(self) -> Clients:
        self._tap = await Tap(self.target, self.limits).__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._tap is not None:
            await self._tap.__aexit__(kind, error, tb)

    async def play(self, scenario: Scenario) -> list[tuple[str, Transcript]]:
        """All tasks of one set-up. Raises Unavailable when it cannot be installed, or does not start."""
        setup = clients.load()[scenario.client]
        assert self._tap is not None, "enter it first"
        if sys.platform == "win32":
            raise Unavailable(Status.UNSUPPORTED, "client libraries are run on Linux and macOS only")
        home = self.home or environments.default_home()
        if not environments.wanted(setup, home).installed:
            print(f"wireproof installs the client {setup.name}, once", file=sys.stderr)
        try:
            python = await environments.provide(setup, home)
        except environments.NotInstalled as error:
            raise Unavailable(Status.UNSUPPORTED, str(error)) from error
        driver = Driver(setup, python)
        try:
            await driver.start()
        except DriverError as error:
            # An installation that was damaged, or never worked: nothing that the target has to do with.
            again = f"remove {home / setup.name} and it is installed anew"
            raise Unavailable(Status.UNSUPPORTED, f"{error}; {again}") from error
        try:
            return await perform(driver, self._tap, setup.tasks, self.model)
        except DriverError as error:
            raise Unavailable(Status.ERROR, str(error)) from error
        finally:
            await driver.stop()
