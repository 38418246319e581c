"""The fault matrix: how we know that the checks work.

The clean reference server breaks nothing, every fault breaks exactly what it declares, every rule
that is checked is broken by some fault, and no legal variation breaks a MUST. In memory, in virtual time.
"""

from __future__ import annotations

import functools
import os
from concurrent.futures import ProcessPoolExecutor

import pytest

from wireproof import rules
from wireproof.judge import failures
from wireproof.reference_server import faults, memory
from wireproof.rules import MUST
from wireproof.verdict import Status, Verdict, fold

RULES = rules.load()
FAULTS = faults.load()


@functools.cache
def _matrix() -> memory.Matrix:
    return memory.Matrix()


def _verdicts(name: str) -> tuple[str, dict[str, list[Verdict]]]:
    return name, _matrix().verdicts(name)


@pytest.fixture(scope="module")
def verdicts() -> dict[str, dict[str, list[Verdict]]]:
    """Fault name -> rule id -> verdicts; the empty name is the clean server."""
    names = ["", *FAULTS]
    with ProcessPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        return dict(pool.map(_verdicts, names, chunksize=8))


def _story(rule: str, found: list[Verdict]) -> str:
    shown = [f"{v.case}: {v.status.value} {v.reason} {v.violations[:1]}" for v in found if v.status is not Status.PASS]
    return f"{rule}: " + "; ".join(shown[:3])


def test_the_clean_server_breaks_nothing(verdicts: dict[str, dict[str, list[Verdict]]]) -> None:
    clean = verdicts[""]
    assert not failures(clean), [_story(r, clean[r]) for r in sorted(failures(clean))]


def test_right_servers_show_every_rule(verdicts: dict[str, dict[str, list[Verdict]]]) -> None:
    """A check that never gets to see its evidence proves nothing when it is green: each rule passes on the clean
    server, or on a legal variation of it (an extension, a heartbeat, ...)."""
    right = ["", *(n for n in FAULTS if n.startswith("legal."))]
    checked = [r.id for r in RULES.values() if r.check is not None]
    shown = {r for r in checked for n in right if fold(v.status for v in verdicts[n][r]) is Status.PASS}
    unseen = set(checked) - shown
    assert not unseen, [_story(r, verdicts[""][r]) for r in sorted(unseen)]


def test_no_check_of_ours_errs(verdicts: dict[str, dict[str, list[Verdict]]]) -> None:
    errors = [
        f"{fault}: {v.rule}: {v.reason}"
        for fault, by_rule in verdicts.items()
        for found in by_rule.values()
        for v in found
        if v.status is Status.ERROR
    ]
    assert not errors


@pytest.mark.parametrize("name", [n for n in FAULTS if not n.startswith("legal.")])
def test_a_fault_breaks_exactly_what_it_declares(name: str, verdicts: dict[str, dict[str, list[Verdict]]]) -> None:
    broken = failures(verdicts[name])
    declared = FAULTS[name].breaks
    surplus = [_story(r, verdicts[name][r]) for r in sorted(broken - declared)]
    missing = [_story(r, verdicts[name].get(r, [])) for r in sorted(declared - broken)]
    assert not surplus and not missing, f"also breaks {surplus}, does not break {missing}"


@pytest.mark.parametrize("name", [n for n in FAULTS if n.startswith("legal.")])
def test_a_legal_variation_breaks_no_must(name: str, verdicts: dict[str, dict[str, list[Verdict]]]) -> None:
    broken = failures(verdicts[name])
    assert not [r for r in broken if RULES[r].level is MUST], [_story(r, verdicts[name][r]) for r in sorted(broken)]
    assert broken == FAULTS[name].breaks, [_story(r, verdicts[name][r]) for r in sorted(broken ^ FAULTS[name].breaks)]


def test_every_checked_rule_is_broken_by_some_fault() -> None:
    broken = set().union(*(f.breaks for f in FAULTS.values()))
    checked = {r.id for r in RULES.values() if r.check is not None}
    assert checked - broken == set()
    assert broken - checked == set(), "a fault names a rule that does not exist"


def test_there_are_enough_legal_variations() -> None:
    assert len([n for n in FAULTS if n.startswith("legal.")]) >= 30
