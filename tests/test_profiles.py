"""The profile `gate`: few requests, and most rules judged."""

from __future__ import annotations

import pytest

from wireproof.judge import rules
from wireproof.judge.judge import judge_all
from wireproof.record.recorder import Cost
from wireproof.reference_server import memory
from wireproof.scenarios import profiles
from wireproof.scenarios.catalog import load
from wireproof.verdict import Status, fold


@pytest.fixture(scope="module")
def names() -> list[str]:
    chosen = profiles.scenarios(profiles.GATE)
    assert chosen
    return sorted(chosen)


def test_every_scenario_exists_and_is_quick(names: list[str]) -> None:
    known = load()
    assert not [n for n in names if n not in known or known[n].slow], "run python -m wireproof.reference_server.gate"


def test_the_gate_judges_most_rules_for_little(names: list[str]) -> None:
    recorded = memory.record(scenarios=names)
    cost = Cost()
    for x in recorded.exchanges:
        cost = cost.plus(x)
    verdicts = judge_all(rules.load().values(), recorded)
    found = {rule: fold(v.status for v in vs) for rule, vs in verdicts.items()}
    assert not [r for r, s in found.items() if s in (Status.FAIL, Status.ERROR)]
    assert sum(s is Status.PASS for s in found.values()) >= 350
    assert cost.requests <= 250
    assert cost.completion_tokens <= 30_000


def test_it_can_do_without_what_has_killed_engines(names: list[str]) -> None:
    """A run sends that with --risky only."""
    tame = memory.record(scenarios=[n for n in names if not load()[n].risky])
    verdicts = judge_all(rules.load().values(), tame)
    assert sum(fold(v.status for v in vs) is Status.PASS for vs in verdicts.values()) >= 350


def test_the_full_profile_leaves_nothing_out() -> None:
    assert profiles.scenarios(profiles.FULL) is None
