"""Right servers break nothing: the clean one, and every legal variation of it. Together they show every rule."""

from __future__ import annotations

import functools

import pytest

from wireproof.judge.rules import MUST
from wireproof.reference_server.fault_matrix import FaultResult
from wireproof.verdict import Status

from .shared import FAULTS, LEGAL, RULES, matrix, no_error_of_ours, stories


@functools.cache
def _right(name: str) -> FaultResult:
    """What a right server came to: the clean one (no name), or a legal variation of it."""
    return matrix().outcome(name)


def test_the_clean_server_breaks_nothing() -> None:
    clean = _right("")
    no_error_of_ours(clean)
    assert not clean.broken, stories(clean, clean.broken)


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_variation_breaks_no_must(name: str) -> None:
    outcome = _right(name)
    no_error_of_ours(outcome)
    musts = {r for r in outcome.broken if RULES[r].level is MUST}
    assert not musts, stories(outcome, musts)
    assert outcome.broken == FAULTS[name].breaks, stories(outcome, outcome.broken ^ FAULTS[name].breaks)


def test_right_servers_show_every_rule() -> None:
    """A check that never gets to see its evidence proves nothing when it is green: each rule passes on the clean
    server, or on a legal variation of it (an extension, a heartbeat, ...)."""
    checked = {r.id for r in RULES.values() if r.check is not None}
    shown = {r for n in ("", *LEGAL) for r in _right(n).ids(Status.PASS)}
    assert not checked - shown, stories(_right(""), checked - shown)


def test_there_are_enough_legal_variations() -> None:
    assert len(LEGAL) >= 30
