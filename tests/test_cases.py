"""Every public report in the areas so far stands as a fault that some rule catches, or says why it cannot."""

import json
from pathlib import Path
from typing import Any

import pytest

from wireproof.reference_server import faults

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "cases"
CASES: list[dict[str, Any]] = [
    c for path in sorted(FOLDER.glob("*.json")) for c in json.loads(path.read_text(encoding="utf-8"))["cases"]
]
KNOWN = faults.load()

# Cases of areas that have no suite yet, and are shown by a fault already.
OTHER_AREAS = frozenset({"B1-050", "B1-053", "B1-139", "B1-142", "B1-144"})


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_a_reported_fault_is_one_of_ours(case: dict[str, Any]) -> None:
    named = sorted(n for n, f in KNOWN.items() if case["id"] in f.cases)
    assert case["faults"] == named
    assert named or case["reason"]


def test_no_fault_names_a_case_that_is_not_listed() -> None:
    listed = {c["id"] for c in CASES}
    used = {c for f in KNOWN.values() for c in f.cases}
    assert {c for c in used if c not in listed} <= OTHER_AREAS
