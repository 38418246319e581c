"""Starting, waiting and stopping, with a process that behaves like an engine."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from wireproof.runners import process
from wireproof.runners.process import Group, Told, free_port, told, wait_ready
from wireproof.runners.recipes import EngineError

FAKE = Path(__file__).with_name("fake_engine.py")


class Started:
    """Fake engines of one test, which do not outlive it."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.groups: list[Group] = []

    def __call__(self, *habits: str) -> tuple[Group, int]:
        port = free_port()
        self.groups.append(Group([sys.executable, str(FAKE), str(port), *habits], log=self.log))
        return self.groups[-1], port


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Started]:
    started = Started(tmp_path)
    yield started
    for group in started.groups:
        group.stop(0.1)


def test_ports_are_free_and_differ() -> None:
    assert len({free_port() for _ in range(20)}) > 10


class Clock:
    """Time passes only where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        time.sleep(seconds)


def test_it_waits_for_200(start: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(process, "time", clock)
    group, port = start("slow")
    took = wait_ready(group, port, "/health", 60, "fake")
    assert took == clock.now - 1000
    # The first good answer ends the waiting.
    assert re.findall(r'"GET /health HTTP/1.1" (\d+)', start.log.read_text()) == ["503", "503", "503", "200"]
    assert group.stop()
    assert group.child.returncode == -signal.SIGTERM
    assert group.stop()  # again does no harm


@pytest.mark.parametrize(("habit", "gentle"), [("deaf-once", True), ("deaf", False)])
def test_a_process_that_does_not_want_to_end(
    start: Started, habit: str, gentle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if habit == "deaf":
        monkeypatch.setattr(process, "GONE", 0.5)
    group, port = start(habit)
    wait_ready(group, port, "/health", 20, "fake")
    assert group.stop(0.3) is gentle
    assert group.child.wait(60) == (0 if gentle else -signal.SIGKILL)


def test_children_end_too(start: Started) -> None:
    group, port = start("parent")
    wait_ready(group, port, "/health", 20, "fake")
    child = int(start.log.read_text().split()[1])
    os.kill(group.child.pid, signal.SIGKILL)  # a crash leaves the child behind
    group.child.wait()
    os.kill(child, 0)
    group.stop(2)
    assert ended(child)


def ended(pid: int) -> bool:
    """Whether a process is gone, or is a zombie for which nobody waits."""
    for _ in range(3000):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_an_early_end_shows_the_log(start: Started) -> None:
    group, port = start("dies")
    with pytest.raises(EngineError) as caught:
        wait_ready(group, port, "/health", 20, "fake-1.0")
    text = str(caught.value)
    assert "fake-1.0 ended with exit code 3 after" in text
    assert str(start.log) in text
    assert "line 39 of a long log" in text and "line 20 of" in text and "line 19 of" not in text
    assert caught.value.code == 3


@pytest.mark.parametrize(("habit", "last"), [("silent", "nothing answers"), ("busy", "it answers 503")])
def test_a_timeout_says_what_was_last_seen(start: Started, habit: str, last: str) -> None:
    group, port = start(habit)
    while habit == "busy" and process._status(port, "/health") is None:
        time.sleep(0.05)
    with pytest.raises(EngineError, match=rf"fake was not ready within 1 s \(/health: {last}\); .*raise `timeout`"):
        wait_ready(group, port, "/health", 1, "fake")


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot run /no/such/python: No such file"):
        Group(["/no/such/python"], log=tmp_path / "log")


def test_running_to_the_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert process.run([sys.executable, "-c", "print('hello'); raise SystemExit(4)"], log=log, seconds=20) == 4
    assert log.read_text().splitlines()[-1] == "hello"
    with pytest.raises(EngineError, match=r"did not end within 0 s; its log is"):
        process.run([sys.executable, "-c", "import time; time.sleep(60)"], log=log, seconds=0.3)


def test_signals_raise_and_are_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Told, match="SIGTERM"), told():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert process.tail(log) == "  (no log)"
    log.write_bytes(b"")
    assert process.tail(log) == "  (the log is empty)"
    log.write_bytes(b"\n".join(b"%d\n" % n for n in range(50_000)) + b"\xff" + b"x" * 900)
    lines = process.tail(log, 3).splitlines()
    assert lines[0] == "  | 49998" and len(lines) == 3 and len(lines[2]) < 310
