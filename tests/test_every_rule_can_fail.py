"""The fault matrix: how we know that the checks work.

The clean reference server breaks nothing, every fault breaks exactly what it declares, every rule
that is checked is broken by some fault, and no legal variation breaks a MUST. In memory, in virtual time.
Each test costs one fault: `pytest tests/test_every_rule_can_fail.py -k done.missing`.
"""

from __future__ import annotations

import functools
import gc

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
WRONG = [n for n in FAULTS if not n.startswith("legal.")]
LEGAL = [n for n in FAULTS if n.startswith("legal.")]
# A fault is recorded where it changes something. These are recorded as a whole, too: both must come to the same.
WHOLE = ("done.missing", "tool.roles-refused", "schema.ignores-dependents", "usage.counts-as-text", "sse.bare-cr")
# One process needs them all at the end, and shall not compute them again.
on_one_worker = pytest.mark.xdist_group("legal variations")


@functools.cache
def _matrix() -> FaultMatrix:
    made = FaultMatrix()
    gc.freeze()  # what the clean server did stays to the end: a quarter of the time went into looking at it again
    gc.set_threshold(50_000, 50, 50)
    return made


@functools.cache
def _right(name: str) -> FaultResult:
    """What a right server came to: the clean one (no name), or a legal variation of it."""
    return _matrix().outcome(name)


def _stories(outcome: FaultResult, ids: set[str]) -> list[str]:
    return [f"{r}: {outcome.stories.get(r, outcome.statuses.get(r))}" for r in sorted(ids)]


def _no_error_of_ours(outcome: FaultResult) -> None:
    assert not outcome.ids(Status.ERROR), _stories(outcome, outcome.ids(Status.ERROR))


@on_one_worker
def test_the_clean_server_breaks_nothing() -> None:
    clean = _right("")
    _no_error_of_ours(clean)
    assert not clean.broken, _stories(clean, clean.broken)


@on_one_worker
@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_variation_breaks_no_must(name: str) -> None:
    outcome = _right(name)
    _no_error_of_ours(outcome)
    musts = {r for r in outcome.broken if RULES[r].level is MUST}
    assert not musts, _stories(outcome, musts)
    assert outcome.broken == FAULTS[name].breaks, _stories(outcome, outcome.broken ^ FAULTS[name].breaks)


@on_one_worker
def test_right_servers_show_every_rule() -> None:
    """A check that never gets to see its evidence proves nothing when it is green: each rule passes on the clean
    server, or on a legal variation of it (an extension, a heartbeat, ...)."""
    checked = {r.id for r in RULES.values() if r.check is not None}
    shown = {r for n in ("", *LEGAL) for r in _right(n).ids(Status.PASS)}
    assert not checked - shown, _stories(_right(""), checked - shown)


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_breaks_exactly_what_it_declares(name: str) -> None:
    found, declared = _matrix().outcome(name), FAULTS[name].breaks
    _no_error_of_ours(found)
    surplus = _stories(found, found.broken - declared)
    missing = _stories(found, set(declared) - found.broken)
    assert not surplus and not missing, f"also breaks {surplus}, does not break {missing}"


@pytest.mark.parametrize("name", WHOLE)
def test_what_a_fault_leaves_alone_need_not_be_recorded_again(name: str) -> None:
    matrix = _matrix()
    assert matrix.outcome(name).statuses == matrix.outcome(name, whole=True).statuses


def test_every_checked_rule_is_broken_by_some_fault() -> None:
    broken = set().union(*(f.breaks for f in FAULTS.values()))
    checked = {r.id for r in RULES.values() if r.check is not None}
    assert checked - broken == set()
    assert broken - checked == set(), "a fault names a rule that does not exist"


def test_there_are_enough_legal_variations() -> None:
    assert len(LEGAL) >= 30
