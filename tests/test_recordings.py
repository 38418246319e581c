"""Real engines, recorded: what each breaks is what a person has read and believed. No other rule may cry wolf."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from wireproof.judge import rules
from wireproof.judge.judge import judge_all
from wireproof.read.recording import recording
from wireproof.stored.files import read_paths
from wireproof.verdict import Status, Verdict

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "transcripts"
EXPECTED: dict[str, Any] = json.loads(FOLDER.joinpath("verdicts.json").read_text(encoding="utf-8"))
ENGINES = sorted(EXPECTED["engines"])


@functools.cache
def _verdicts(engine: str) -> dict[str, list[Verdict]]:
    return judge_all(rules.load().values(), recording(read_paths([FOLDER / engine])))


def test_every_recorded_engine_has_its_verdicts() -> None:
    assert sorted(f"{p.parent.name}/{p.name}" for p in FOLDER.glob("*/*") if p.is_dir()) == ENGINES


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_breaks_what_we_believe_it_breaks(engine: str) -> None:
    expected = {
        rule: sorted(entry["cases"]) if entry["level"] == "MUST" else "warning"
        for rule, entry in EXPECTED["engines"][engine].items()
    }
    found: dict[str, Any] = {}
    for rule, verdicts in _verdicts(engine).items():
        cases = sorted(v.case for v in verdicts if v.status is Status.FAIL)
        if cases:
            found[rule] = cases if rules.REGISTRY.rules[rule].level == "MUST" else "warning"
    assert found == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_a_recording_is_never_our_error(engine: str) -> None:
    errors = [v for verdicts in _verdicts(engine).values() for v in verdicts if v.status is Status.ERROR]
    assert not errors
