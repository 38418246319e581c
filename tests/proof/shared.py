"""What both halves of the fault matrix share. They are two files, so that two processes can run them side by side."""

from __future__ import annotations

import functools
import gc

from wireproof.judge import rules
from wireproof.reference_server import faults
from wireproof.reference_server.fault_matrix import FaultMatrix, FaultResult
from wireproof.verdict import Status

# What cannot be shown in memory has its faults, and its proof, elsewhere: client libraries run over sockets.
PROVED_ELSEWHERE = {"client": "tests/e2e/test_clients.py"}
RULES = {r.id: r for r in rules.load().values() if r.area not in PROVED_ELSEWHERE}
FAULTS = faults.load()
WRONG = [n for n in FAULTS if not n.startswith("legal.")]
LEGAL = [n for n in FAULTS if n.startswith("legal.")]


@functools.cache
def matrix() -> FaultMatrix:
    """The matrix of this process; what the clean server does is recorded once."""
    made = FaultMatrix()
    gc.freeze()  # what the clean server did stays to the end: a quarter of the time went into looking at it again
    gc.set_threshold(50_000, 50, 50)
    return made


def stories(outcome: FaultResult, ids: set[str]) -> list[str]:
    """What became of rules, in a line each."""
    return [f"{r}: {outcome.stories.get(r, outcome.statuses.get(r))}" for r in sorted(ids)]


def no_error_of_ours(outcome: FaultResult) -> None:
    """Fail when a check tripped."""
    assert not outcome.ids(Status.ERROR), stories(outcome, outcome.ids(Status.ERROR))
