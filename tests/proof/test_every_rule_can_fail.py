"""The fault matrix: how we know that the checks work.

Every fault breaks exactly what it declares, and every rule that is checked is broken by some fault. In memory, in
virtual time. Each test costs one fault: `pytest tests/proof -k done.missing`.
"""

from __future__ import annotations

import pytest

from .shared import FAULTS, RULES, WRONG, matrix, no_error_of_ours, stories

# A fault is recorded where it changes something. These are recorded as a whole, too: both must come to the same.
WHOLE = ("done.missing", "tool.roles-refused", "schema.ignores-dependents", "usage.counts-as-text", "sse.bare-cr")


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_breaks_exactly_what_it_declares(name: str) -> None:
    found, declared = matrix().outcome(name), FAULTS[name].breaks
    no_error_of_ours(found)
    surplus = stories(found, found.broken - declared)
    missing = stories(found, set(declared) - found.broken)
    assert not surplus and not missing, f"also breaks {surplus}, does not break {missing}"


@pytest.mark.parametrize("name", WHOLE)
def test_what_a_fault_leaves_alone_need_not_be_recorded_again(name: str) -> None:
    assert matrix().outcome(name).statuses == matrix().outcome(name, whole=True).statuses


def test_every_checked_rule_is_broken_by_some_fault() -> None:
    broken = set().union(*(f.breaks for f in FAULTS.values()))
    checked = {r.id for r in RULES.values() if r.check is not None}
    assert checked - broken == set()
    assert broken - checked == set(), "a fault names a rule that does not exist"
