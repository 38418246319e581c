"""Inconclusive verdicts are capped: a live run that mostly could not tell is not a success."""

from wireproof.judge import rules
from wireproof.judge.summary import Exit, summarize
from wireproof.record.target import parse_target
from wireproof.run.run import Options, Run
from wireproof.verdict import Status, Verdict


def _run(*statuses: Status) -> Run:
    run = Run(Options(parse_target("http://127.0.0.1:9/v1")), list(rules.load().values()), {})
    for number, status in enumerate(statuses):
        rule = f"area.rule.{number}"
        run.outcomes[rule] = summarize([Verdict(rule, "case", status)], {rule: "MUST"}).outcomes[0]
    return run


def test_more_inconclusive_than_judged_is_no_success() -> None:
    run = _run(Status.PASS, Status.INCONCLUSIVE, Status.INCONCLUSIVE)
    assert "2 rules were inconclusive and 1 judged" in run.too_thin
    assert run.finish() is Exit.TARGET


def test_a_few_inconclusive_rules_are_listed_and_no_more() -> None:
    run = _run(Status.PASS, Status.PASS, Status.INCONCLUSIVE, Status.INCONCLUSIVE)
    assert run.too_thin == ""
    assert run.finish() is Exit.OK
