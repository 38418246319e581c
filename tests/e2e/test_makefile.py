"""`make run` passes what it is given on, and what came of it back."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from .helpers import ROOT, Done, command

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")


def make(*words: object) -> Done:
    """make with the environment that runs these tests, taken as set up."""
    return command("make", "-o", f"{sys.prefix}/.ready", f"VENV={sys.prefix}", *words, cwd=ROOT)


def test_run_judges_the_reference_server(tmp_path: Path) -> None:
    if not Path(sys.prefix, "bin", "wireproof").exists():
        pytest.skip("wireproof is not installed here")
    done = make("run", "SUITE=done", f"BUILD={tmp_path}")
    assert done.code == 0, done.text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "run.jsonl"]
    assert f"Run record: {tmp_path}/run.jsonl, HTML report: {tmp_path}/report.html" in done.out
    unreachable = make("run", "TARGET=http://127.0.0.1:1/v1", f"BUILD={tmp_path}")
    assert unreachable.code == 2  # make's own
    assert "Error 3" in unreachable.err


def test_options_are_passed_on() -> None:
    options = ("MODEL=a b", "API_KEY_ENV=K", "SUITE=sse,done", "LEVEL=should", "ARGS=--samples 3")
    done = make("-n", "run", "TARGET=http://host:8000/v1", *options)
    shown = " ".join(done.out.replace("\\\n", " ").split())
    assert "run 'http://host:8000/v1' --model 'a b' --api-key-env 'K' --suite 'sse,done' --level 'should'" in shown
    assert "--samples 3 -o build/run.jsonl --html build/report.html" in shown


def test_the_bare_command_says_what_to_do_next() -> None:
    done = make()
    assert done.code == 0
    assert "make run " in done.out
    assert "make run TARGET=http://host:8000/v1" in done.out
