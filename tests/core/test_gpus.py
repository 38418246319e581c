"""Asking for the use of this machine's GPUs: a tool that is missing, fails, hangs, or prints something else."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

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


def test_a_look(tmp_path: Path) -> None:
    found = asyncio.run(gpus.Gpus(_tool(tmp_path, "print('3\\n88')")).look())
    assert found.gpu == "3 88"
    assert 0 < float(found.gpu_seconds) < 60


@pytest.mark.parametrize("program", ["raise SystemExit(9)", "print('No devices were found')", "print(1); exit(1)"])
def test_a_tool_that_does_not_answer_is_asked_once(tmp_path: Path, program: str) -> None:
    asked = tmp_path / "asked"
    looks = gpus.Gpus(_tool(tmp_path, f"open({str(asked)!r}, 'a').write('x')\n{program}"))
    assert asyncio.run(looks.look()) == Tags()
    assert asyncio.run(looks.look()) == Tags()
    assert asked.read_text() == "x"


def test_no_tool() -> None:
    assert asyncio.run(gpus.Gpus(("no-such-tool-of-anybody",)).look()) == Tags()


def test_a_tool_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_PATIENCE", 0.5)
    began = time.monotonic()
    assert asyncio.run(gpus.Gpus(_tool(tmp_path, "import time; time.sleep(60)")).look()) == Tags()
    assert time.monotonic() - began < 30
