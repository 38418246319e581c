"""Starts processes, waits for them, and stops exactly those that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

import httpx2

from .recipes import EngineError

# How long a process group gets to end by itself after SIGTERM, and to be gone after SIGKILL (seconds).
PATIENCE = 20.0
GONE = 5.0
_TICK = 0.05
_ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Told(BaseException):
    """We were asked to end, by a signal. Not an Exception: nobody shall take it for an error of an engine's."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP raise Told, so that what was started is stopped on the way out."""

    def raise_told(number: int, frame: FrameType | None) -> None:
        raise Told(number)

    with _handlers(raise_told):
        yield


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """A second Ctrl-C must not interrupt the stopping itself, which is bounded."""
    with _handlers(lambda number, frame: None):
        yield


@contextlib.contextmanager
def _handlers(handler: object) -> Iterator[None]:
    # What is ignored (SIGHUP under nohup) stays ignored.
    heard = [n for n in _ASKING if signal.getsignal(n) is not signal.SIG_IGN]
    before = {n: signal.signal(n, handler) for n in heard}  # type: ignore[arg-type]
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def tail(log: Path, lines: int = 20) -> str:
    """The last lines of a log, cut where they are very long."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 64 * 1024))
            found = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return "  (no log)"
    kept = [line for line in found if line.strip()][-lines:]
    return "\n".join(f"  | {line[:300]}" for line in kept) or "  (the log is empty)"


class Group:
    """A command in a process group of its own: it does not get our Ctrl-C, and its children can be found."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        log: Path | None = None,
    ) -> None:
        self.log, self._gone = log, False
        with contextlib.ExitStack() as stack:
            out = None
            if log is not None:
                log.parent.mkdir(parents=True, exist_ok=True)
                out = stack.enter_context(log.open("ab"))
            try:
                self.child = subprocess.Popen(
                    command,
                    env=env,
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT if out else None,
                    process_group=0,
                )
            except OSError as error:
                raise EngineError(f"cannot run {command[0]}: {error.strerror}") from error

    @property
    def ended(self) -> str:
        """How its command ended by itself; "" while it runs."""
        code = self.child.poll()
        if code is None:
            return ""
        return f"by signal {-code}" if code < 0 else f"with exit code {code}"

    def _alive(self) -> bool:
        if self._gone:  # from here on its id may be given to others
            return False
        self.child.poll()  # so that it does not stay as a zombie, which would count
        try:
            os.killpg(self.child.pid, 0)
        except (ProcessLookupError, PermissionError):  # macOS says the latter of a group of zombies
            self._gone = True
        return not self._gone

    def _end(self, number: signal.Signals, seconds: float) -> bool:
        """Send a signal to what lives of the group, and wait for its end; False when the time is over."""
        limit = time.monotonic() + seconds
        if self._alive():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.child.pid, number)
        while self._alive():
            if time.monotonic() > limit:
                return False
            time.sleep(_TICK)
        return True

    def wait(self, seconds: float) -> int:
        """The exit code, once it ends by itself. Raises TimeoutError."""
        try:
            return self.child.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError from error

    def stop(self, patience: float = PATIENCE) -> bool:
        """End the whole group; True when it ended without SIGKILL.

        SIGTERM comes twice: some finish their work at the first, and end theirs and themselves at the second.
        """
        with _unheard():
            if self._end(signal.SIGTERM, patience) or self._end(signal.SIGTERM, GONE):
                return True
            self._end(signal.SIGKILL, GONE)
            return False


def run(command: Sequence[str], *, log: Path, seconds: float, env: Mapping[str, str] | None = None) -> int:
    """Run a command to its end, its output in the log; it is stopped when we are, or after so many seconds."""
    with log.open("a", encoding="utf-8") as file:
        file.write("$ " + " ".join(command) + "\n")
    group = Group(command, env=env, log=log)
    try:
        return group.wait(seconds)
    except TimeoutError as error:
        raise EngineError(f"{command[0]} did not end within {seconds:.0f} s; its log is {log}\n{tail(log)}") from error
    finally:
        group.stop()


def wait_ready(group: Group, port: int, path: str, seconds: float, what: str) -> float:
    """Wait until GET path answers 200; returns how long it took (seconds).

    Raises EngineError, with the end of the log, when the process ends or the time is over.
    """
    started = time.monotonic()
    log = group.log or Path(os.devnull)
    last = "nothing answers"
    while True:
        how = group.ended
        took = time.monotonic() - started
        if how:
            raise EngineError(
                f"{what} ended {how} after {took:.0f} s, before it was ready; its log is {log}\n{tail(log)}"
            )
        if took > seconds:
            raise EngineError(
                f"{what} was not ready within {seconds:.0f} s ({path}: {last}); if it only was slow, raise `timeout`"
                f" in its recipe; its log is {log}\n{tail(log)}"
            )
        status = _status(port, path)
        if status == 200:
            return took
        last = f"it answers {status}" if status else last
        time.sleep(0.2)


def _status(port: int, path: str) -> int | None:
    # Not through a proxy of the environment.
    try:
        with httpx2.stream("GET", f"http://127.0.0.1:{port}{path}", timeout=5, trust_env=False) as answer:
            return answer.status_code
    except httpx2.HTTPError:
        return None
