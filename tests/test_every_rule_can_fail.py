"""The fault matrix: how we know that the checks work.

The clean reference server breaks nothing, every fault breaks exactly what it declares, every rule
that is checked is broken by some fault, and no legal variation breaks a MUST. In memory, in virtual time.
"""

from __future__ import annotations

import functools
import os
from concurrent.futures import ProcessPoolExecutor

import pytest

from wireproof.judge import rules
from wireproof.judge.rules import MUST
from wireproof.reference_server import faults
from wireproof.reference_server.fault_matrix import FaultMatrix, FaultResult
from wireproof.verdict import Status

# What cannot be shown in memory has its faults, and its proof, elsewhere: client libraries run over sockets.
PROVED_ELSEWHERE = {"client": "tests/e2e/test_clients.py"}
RULES = {r.id: r for r in rules.load().values() if r.area not in PROVED_ELSEWHERE}
FAULTS = faults.load()


@functools.cache
def _matrix() -> FaultMatrix:
    return FaultMatrix()


def _outcome(name: str) -> tuple[str, FaultResult]:
    return name, _matrix().outcome(name)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, FaultResult]:
    """Fault name -> what it came to; the empty name is the clean server."""
    names = ["", *FAULTS]
    with ProcessPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        return dict(pool.map(_outcome, names, chunksize=8))


def _stories(outcome: FaultResult, ids: set[str]) -> list[str]:
    return [f"{r}: {outcome.stories.get(r, outcome.statuses.get(r))}" for r in sorted(ids)]


def test_the_clean_server_breaks_nothing(outcomes: dict[str, FaultResult]) -> None:
    clean = outcomes[""]
    assert not clean.broken, _stories(clean, clean.broken)


def test_right_servers_show_every_rule(outcomes: dict[str, FaultResult]) -> None:
    """A check that never gets to see its evidence proves nothing when it is green: each rule passes on the clean
    server, or on a legal variation of it (an extension, a heartbeat, ...)."""
    right = ["", *(n for n in FAULTS if n.startswith("legal."))]
    checked = {r.id for r in RULES.values() if r.check is not None}
    shown = {r for n in right for r in outcomes[n].ids(Status.PASS)}
    assert not checked - shown, _stories(outcomes[""], checked - shown)


def test_no_check_of_ours_errs(outcomes: dict[str, FaultResult]) -> None:
    errors = [f"{n}: {s}" for n, o in outcomes.items() for s in _stories(o, o.ids(Status.ERROR))]
    assert not errors


@pytest.mark.parametrize("name", [n for n in FAULTS if not n.startswith("legal.")])
def test_a_fault_breaks_exactly_what_it_declares(name: str, outcomes: dict[str, FaultResult]) -> None:
    found, declared = outcomes[name], FAULTS[name].breaks
    surplus = _stories(found, found.broken - declared)
    missing = _stories(found, set(declared) - found.broken)
    assert not surplus and not missing, f"also breaks {surplus}, does not break {missing}"


@pytest.mark.parametrize("name", [n for n in FAULTS if n.startswith("legal.")])
def test_a_legal_variation_breaks_no_must(name: str, outcomes: dict[str, FaultResult]) -> None:
    broken = outcomes[name].broken
    musts = {r for r in broken if RULES[r].level is MUST}
    assert not musts, _stories(outcomes[name], musts)
    assert broken == FAULTS[name].breaks, _stories(outcomes[name], broken ^ FAULTS[name].breaks)


def test_every_checked_rule_is_broken_by_some_fault() -> None:
    broken = set().union(*(f.breaks for f in FAULTS.values()))
    checked = {r.id for r in RULES.values() if r.check is not None}
    assert checked - broken == set()
    assert broken - checked == set(), "a fault names a rule that does not exist"


def test_there_are_enough_legal_variations() -> None:
    assert len([n for n in FAULTS if n.startswith("legal.")]) >= 30
