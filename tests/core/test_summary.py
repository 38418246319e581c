"""What a run comes to: one outcome for each rule, a sentence, an exit code."""

from __future__ import annotations

import pytest

from wireproof.judge.summary import Exit, Summary, summarize
from wireproof.verdict import Status, Verdict, Violation, fold

P, F, E, I, U, N = (  # noqa: E741
    Status.PASS,
    Status.FAIL,
    Status.ERROR,
    Status.INCONCLUSIVE,
    Status.UNSUPPORTED,
    Status.NOT_APPLICABLE,
)


def verdict(rule: str, status: Status, case: str = "a", reason: str = "") -> Verdict:
    violations = (Violation("x", "y"),) if status is F else ()
    return Verdict(rule, case, status, violations, reason)


def run(*found: tuple[str, Status], level: str = "must") -> Summary:
    """A summary of verdicts given as (level of the rule, status)."""
    verdicts = [verdict(f"r{n}", status) for n, (_, status) in enumerate(found)]
    return summarize(verdicts, {f"r{n}": lvl for n, (lvl, _) in enumerate(found)}, level=level)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([P, F, E], F),
        ([P, E], E),
        ([I, P, U], P),
        ([U, I, N], I),
        ([N, U], U),
        ([N], N),
        ([], N),
    ],
)
def test_fold(statuses: list[Status], expected: Status) -> None:
    """Protects the order: a failure is never hidden, our error is never a pass."""
    assert fold(statuses) is expected and fold(reversed(statuses)) is expected


@pytest.mark.parametrize(
    ("found", "level", "code"),
    [
        ([("MUST", P)], "must", Exit.OK),
        ([("MUST", P), ("MUST", I), ("MUST", U), ("MUST", N)], "must", Exit.OK),
        ([("MUST", P), ("MUST", F)], "must", Exit.VERDICTS),
        ([("MUST", P), ("SHOULD", F)], "must", Exit.OK),
        ([("MUST", P), ("SHOULD", F)], "should", Exit.VERDICTS),
        ([("MUST", P), ("MAY", F)], "should", Exit.OK),
        ([("MUST", P), ("MUST", E)], "must", Exit.TARGET),
        ([("MUST", F), ("MUST", E)], "must", Exit.VERDICTS),
        ([("SHOULD", F), ("MUST", E)], "must", Exit.TARGET),
        ([("SHOULD", F)], "must", Exit.OK),
        ([("MUST", I), ("MUST", U), ("MUST", N)], "must", Exit.TARGET),
        ([], "must", Exit.TARGET),
    ],
)
def test_exit_codes(found: list[tuple[str, Status]], level: str, code: Exit) -> None:
    """Protects the gate: zero verdicts is no success, SHOULD gates only when asked, our error is code 3."""
    assert run(*found, level=level).exit is code


def test_cases_of_a_rule_are_one_outcome() -> None:
    """Protects counts of rules from counts of cases."""
    s = summarize([verdict("r", P), verdict("r", F, "b"), verdict("r", F, "c")], {"r": "MUST"})
    (outcome,) = s.outcomes
    assert (outcome.status, [v.case for v in outcome.failing], s.judged, s.counts["fail"]) == (F, ["b", "c"], 1, 1)


def test_the_reason_is_of_the_status() -> None:
    """Protects the table from a reason that explains another case."""
    s = summarize([verdict("r", U, "a", "no logprobs"), verdict("r", I, "b", "no call")], {})
    assert (s.outcomes[0].status, s.outcomes[0].reason) == (I, "no call")


def test_gating_and_warnings_share_the_failures() -> None:
    """Protects that no failure is in neither list."""
    found = [("MUST", F), ("SHOULD", F), ("MAY", F), ("MUST", P)]
    for level, gating in (("must", 1), ("should", 2)):
        s = run(*found, level=level)
        assert (len(s.gating), len(s.warnings)) == (gating, 3 - gating)


def test_a_rule_of_unknown_level_gates() -> None:
    """Protects a record of another version: an unknown rule's failure is not waved through."""
    assert summarize([verdict("new", F)], {}).exit is Exit.VERDICTS


def test_order_and_empty_rules() -> None:
    """Protects the order of the report, and that a rule without verdicts is no row."""
    s = summarize([verdict("b", P), verdict("a", P)], {}, order=["x", "a", "b"])
    assert [o.rule for o in s.outcomes] == ["a", "b"]


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ([("MUST", P), ("MUST", P)], "The target keeps all 2 rules that could be judged."),
        ([("MUST", P), ("MUST", F)], "The target breaks 1 MUST rule of 2 judged."),
        (
            [("SHOULD", F), ("MUST", F), ("MAY", I)],
            "The target breaks 1 MUST and 1 SHOULD rules of 2 judged (1 inconclusive).",
        ),
        (
            [("MUST", P), ("MUST", E), ("MUST", U)],
            "The target keeps the one rule that could be judged (1 error, 1 unsupported).",
        ),
    ],
)
def test_the_sentence(found: list[tuple[str, Status]], sentence: str) -> None:
    """Protects the one line that most people read: what could not be shown is in it."""
    assert run(*found).sentence == sentence


def test_the_sentence_of_an_empty_run() -> None:
    """Protects against good news about nothing."""
    assert run(("MUST", I)).sentence.startswith("Nothing was judged")
