"""Asking for the use of this machine's GPUs: a tool that is missing, fails, hangs, or prints something else."""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wireproof.record import gpus
from wireproof.wire.transcript import Tags


def _tool(folder: Path, program: str) -> tuple[str, ...]:
    path = folder / "tool.py"
    path.write_text(program, encoding="utf-8")
    return (sys.executable, str(path))


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("97\n", (97.0,)),
        ("0\n 100 \n", (0.0, 100.0)),
        ("[N/A]\n12\n", (0.0, 12.0)),
        ("[N/A]\n", None),
        ("", None),
        ("NVIDIA-SMI has failed\n", None),
        ("1000\n", None),
        ("-1\n", None),
    ],
)
def test_what_the_tool_prints(text: str, used: tuple[float, ...] | None) -> None:
    assert gpus.parse(text) == used


@pytest.mark.asyncio
async def test_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(10.0, 0.25)  # a quarter of a second passes between one look at it and the next
    monkeypatch.setattr(gpus, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    found = await gpus.Gpus(_tool(tmp_path, "print('3\\n88')")).look()
    assert found == Tags(gpu="3 88", gpu_seconds="0.250")


@pytest.mark.parametrize("program", ["raise SystemExit(9)", "print('No devices were found')", "print(1); exit(1)"])
@pytest.mark.asyncio
async def test_a_tool_that_does_not_answer_is_asked_once(tmp_path: Path, program: str) -> None:
    asked = tmp_path / "asked"
    looks = gpus.Gpus(_tool(tmp_path, f"open({str(asked)!r}, 'a').write('x')\n{program}"))
    assert await looks.look() == Tags()
    assert await looks.look() == Tags()
    assert asked.read_text() == "x"


@pytest.mark.asyncio
async def test_no_tool() -> None:
    assert await gpus.Gpus(("no-such-tool-of-anybody",)).look() == Tags()


@pytest.mark.asyncio
async def test_a_tool_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waited for it would have its answer."""
    begun: list[asyncio.subprocess.Process] = []
    begin = asyncio.create_subprocess_exec

    async def spy(*words: str, **options: Any) -> asyncio.subprocess.Process:
        begun.append(await begin(*words, **options))
        return begun[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", spy)
    monkeypatch.setattr(gpus, "_PATIENCE", 0.5)
    assert await gpus.Gpus(_tool(tmp_path, "import time; time.sleep(60); print(97)")).look() == Tags()
    assert [child.returncode for child in begun] == [-signal.SIGKILL]
