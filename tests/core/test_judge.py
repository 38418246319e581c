"""From recordings to verdicts: what a check is called with, and what comes of what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from wireproof.judge.judge import Judge, Memo, failures, find_twins, judge_all
from wireproof.judge.rules import MUST, Across, Applies, Each, Of, Rule, Twins, contract
from wireproof.read.chat import Chat
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Recording, Take, recording
from wireproof.verdict import NotApplicable, Status, Unsupported, Verdict, inconclusive, require
from wireproof.wire.transcript import Ending, Transcript

from .making import plain_of, stream_of, transcript

ANY = Each("every exchange", lambda x: True, ("a",))


def rule(check: Callable[..., None] | None, on: Applies | None = ANY, reason: str = "") -> Rule:
    return Rule("r.x", MUST, "It holds.", "", contract(), on=on, check=check, reason=reason)


def judged(r: Rule, *transcripts: Transcript, skipped: Any = None, memo: Memo | None = None) -> list[Verdict]:
    made = recording(transcripts)
    return Judge(Recording(made.takes, skipped or {}), memo).judge(r)


def passes(*_: Any) -> None:
    pass


def fails(x: Exchange, *_: Any) -> None:
    require(False, "one thing", got="another", at=(1, 3))


def one(verdicts: list[Verdict]) -> Verdict:
    (found,) = verdicts
    return found


def named(name: str, sample: int = 0, step: str = "", **more: Any) -> Transcript:
    return plain_of({"choices": []}, id=f"t-{name}{step}{sample}", scenario=name, sample=sample, step=step, **more)


# -- what a check comes to -----------------------------------------------------------


def raises(error: Exception) -> Callable[..., None]:
    def check(*_: Any) -> None:
        raise error

    return check


@pytest.mark.parametrize(
    ("check", "status", "reason"),
    [
        (passes, Status.PASS, ""),
        (raises(inconclusive("no call")), Status.INCONCLUSIVE, "no call"),
        (raises(Unsupported("no logprobs")), Status.UNSUPPORTED, "no logprobs"),
        (raises(NotApplicable("n is 1")), Status.NOT_APPLICABLE, "n is 1"),
    ],
)
def test_outcomes(check: Callable[..., None], status: Status, reason: str) -> None:
    """Protects the six words: nothing that was not shown counts as a pass."""
    v = one(judged(rule(check), named("a")))
    assert (v.status, v.reason, v.violations, v.case) == (status, reason, (), "a")


def test_a_failure_names_the_bytes_and_their_transcript() -> None:
    """Protects the excerpt of a failure."""
    v = one(judged(rule(fails), named("a")))
    (found,) = v.violations
    assert v.status is Status.FAIL and v.reason == ""
    assert (found.expected, found.got, found.span, found.transcript) == ("one thing", "another", (1, 3), "t-a0")


@pytest.mark.parametrize("error", [TypeError("x"), AssertionError(), KeyError("x"), RecursionError()])
def test_a_check_that_crashes_is_our_error(error: Exception) -> None:
    """Protects the target from our bugs: an exception of the check is never its failure."""
    v = one(judged(rule(raises(error)), named("a")))
    assert v.status is Status.ERROR and v.violations == ()
    assert type(error).__name__ in v.reason and "check, line" in v.reason


def test_half_characters_in_messages_can_be_printed() -> None:
    """Protects the terminal and the record from lone surrogates of the target."""

    def check(x: Exchange) -> None:
        require(False, "text", got="\ud83d")

    v = one(judged(rule(check), named("a")))
    assert v.violations[0].got == "\\ud83d"
    v = one(judged(rule(raises(inconclusive("\ud83d"))), named("a")))
    assert v.reason == "\\ud83d"


def test_no_connection_is_an_error_and_the_check_is_not_asked() -> None:
    """Protects against judging silence."""
    lost = transcript(ending=Ending.NOT_CONNECTED, detail="refused", scenario="a")
    v = one(judged(rule(fails), lost))
    assert (v.status, v.reason) == (Status.ERROR, "no connection: refused")


def test_no_connection_is_an_error_where_nothing_matched() -> None:
    """Protects rules on "every response": with no connection there is none, and that is no fault of the model."""
    lost = transcript(ending=Ending.NOT_CONNECTED, detail="refused", scenario="a")
    on = Each("every response", lambda x: x.response is not None, ("a",))
    v = one(judged(rule(passes, on), lost))
    assert (v.status, v.reason) == (Status.ERROR, "no connection: refused")


@pytest.mark.parametrize(
    ("tags", "status", "body", "expected"),
    [
        ({"optional": "logprobs"}, 400, {"error": {"message": "no"}}, Status.UNSUPPORTED),
        ({"optional": "logprobs"}, 400, {"detail": "no"}, Status.INCONCLUSIVE),
        ({"optional": "logprobs"}, 500, {"error": {"message": "no"}}, Status.INCONCLUSIVE),
        ({}, 400, {"error": {"message": "no"}}, Status.INCONCLUSIVE),
    ],
)
def test_an_optional_feature_is_unsupported_only_when_honestly_refused(
    tags: dict[str, str], status: int, body: Any, expected: Status
) -> None:
    """Protects "unsupported" from being an excuse for errors of any kind."""

    def check(x: Chat) -> None:
        assert x.plain_choices

    t = plain_of(body, status=status, scenario="a", tags=tags)
    assert one(judged(rule(check, Of(("a",))), t)).status is expected


# -- samples -------------------------------------------------------------------------


def test_samples_are_one_verdict_that_counts() -> None:
    """Protects "fails 1 of 3": one failure is enough, and it is not hidden by two passes."""

    def check(x: Exchange) -> None:
        require(x.transcript.sample != 1, "sample 0 or 2", got=x.transcript.sample)

    v = one(judged(rule(check), *(named("a", n) for n in range(3))))
    assert (v.status, v.attempts, v.failed) == (Status.FAIL, 3, 1)
    assert [x.transcript for x in v.violations] == ["t-a1"]


def test_at_most_three_violations_are_kept() -> None:
    """Protects records from a hundred copies of one failure."""
    v = one(judged(rule(fails), *(named("a", n) for n in range(5))))
    assert (v.failed, len(v.violations)) == (5, 3)


def test_one_sample_that_shows_it_is_enough_for_a_pass() -> None:
    """Protects a rule whose model played along once."""

    def check(x: Exchange) -> None:
        if x.transcript.sample:
            raise inconclusive("no call")

    v = one(judged(rule(check), named("a"), named("a", 1)))
    assert (v.status, v.reason, v.failed) == (Status.PASS, "", 0)


# -- on what -------------------------------------------------------------------------


def test_each_is_judged_on_whatever_matches_by_case() -> None:
    """Protects rules that are true of every response, whichever scenario recorded it."""
    on = Each("all but b", lambda x: x.scenario != "b", ("a",))
    found = judged(rule(passes, on), named("a"), named("b"), named("c"), named("d", step="one"), named("d", step="two"))
    assert [v.case for v in found] == ["a", "c", "d/one", "d/two"]


def test_of_gets_one_argument_for_each_scenario() -> None:
    """Protects the order of arguments, and samples in rows (a scenario with fewer repeats its last)."""
    seen: list[Any] = []

    def check(*arguments: Any) -> None:
        seen.append([a.scenario + str(a.transcript.sample) for a in arguments])

    v = one(judged(rule(check, Of(("b", "a"))), named("a"), named("b"), named("b", 1), named("c")))
    assert seen == [["b0", "a0"], ["b1", "a0"]] and (v.case, v.attempts) == ("b + a", 2)


def test_of_gives_a_conversation_as_a_take() -> None:
    """Protects steps by name, and that a step which was not reached is inconclusive."""

    def check(take: Take) -> None:
        assert [x.transcript.step for x in take.steps("s")] == ["s1", "s2"]
        assert take["s1"].transcript.step == "s1"
        assert take["end"]

    v = one(judged(rule(check, Of(("a",))), named("a", step="s1"), named("a", step="s2")))
    assert v.status is Status.INCONCLUSIVE and "did not reach the step end" in v.reason


def test_across_needs_enough() -> None:
    """Protects rules that compare: one exchange shows nothing."""
    on = Across("all", lambda x: True, ("a",), at_least=2)
    sizes: list[int] = []
    r = rule(lambda found: sizes.append(len(found)), on)
    assert one(judged(r, named("a"))).status is Status.INCONCLUSIVE
    v = one(judged(r, named("a"), named("b"), named("c")))
    assert (v.status, v.case, sizes) == (Status.PASS, "all", [3])


GREEDY = {"model": "m", "temperature": 0, "max_tokens": 3}


def twins(plain: dict[str, Any], stream: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
    exchanges = [
        Chat(plain_of({"choices": []}, asked=plain, scenario="p")),
        Chat(stream_of({"choices": []}, asked=stream, scenario="s", **more)),
    ]
    return [(a.scenario, b.scenario) for a, b in find_twins(exchanges)]


def test_twins_differ_in_how_they_are_sent_only() -> None:
    """Protects the comparison of plain and streamed: the same request, greedy, answered, not cut."""
    pair = [("p", "s")]
    assert twins(GREEDY, GREEDY) == pair
    assert twins(GREEDY, {**GREEDY, "stream_options": {"include_usage": True}}) == pair
    assert twins(dict(reversed(GREEDY.items())), GREEDY) == pair
    assert twins(GREEDY, {**GREEDY, "max_tokens": 4}) == []
    assert twins({**GREEDY, "temperature": 1}, {**GREEDY, "temperature": 1}) == []
    assert twins({"model": "m"}, {"model": "m"}) == []
    assert twins(GREEDY, GREEDY, ending=Ending.CLIENT_LEFT) == []
    assert twins(GREEDY, GREEDY, tags={"valid": "no"}) == []
    assert twins(GREEDY, {**GREEDY, "stream": False}) == []


def test_twins_are_not_made_of_refusals_or_other_headers() -> None:
    """Protects the pairing from answers that are none, and from requests steered by a header."""
    ok = Chat(stream_of({"choices": []}, asked=GREEDY))
    refused = Chat(plain_of({"error": {}}, status=400, asked=GREEDY))
    assert find_twins([refused, ok]) == []
    base = plain_of({"choices": []}, asked=GREEDY)
    steered = replace(base, request=replace(base.request, headers=(("X-Wireproof-Seed", "1"),)))
    assert find_twins([Chat(steered), ok]) == []
    assert len(find_twins([Chat(base), ok])) == 1


def test_twins_rule_is_called_with_plain_then_stream() -> None:
    """Protects the order; every streamed sample meets the plain answer."""
    seen: list[Any] = []
    r = rule(lambda p, s: seen.append((p.asked_stream, s.asked_stream)), Twins("t", lambda x: True, ("a",)))
    plain = plain_of({"choices": []}, asked=GREEDY, scenario="a")
    streams = [stream_of({"choices": []}, asked=GREEDY, scenario="b", sample=n) for n in range(2)]
    v = one(judged(r, *streams, plain))
    assert (v.case, v.attempts, seen) == ("a ~ b", 2, [(False, True)] * 2)


# -- nothing to judge ----------------------------------------------------------------


def test_a_rule_without_a_check_says_why() -> None:
    """Protects the row of a rule that cannot be observed."""
    v = one(judged(rule(None, None, "not seen from outside"), named("a")))
    assert (v.status, v.reason) == (Status.NOT_APPLICABLE, "not seen from outside")


def test_nothing_to_judge_says_what_was_missing() -> None:
    """Protects the difference: left out by us, not recorded, or recorded and not what it should be."""
    none = rule(passes, Each("streams", lambda x: False, ("a", "b")))
    skipped = {"b": (Status.ERROR, "the run was stopped")}
    v = one(judged(none, named("a"), skipped=skipped))
    assert (v.status, v.case, v.reason) == (Status.ERROR, "b", "the run was stopped")
    assert one(judged(none, named("a"))).status is Status.INCONCLUSIVE
    v = one(judged(none, named("c")))
    assert v.status is Status.NOT_APPLICABLE and "nothing was recorded" in v.reason


def test_half_of_what_a_rule_compares_is_not_the_targets_fault() -> None:
    """Protects offline judging of a few files: a scenario that nobody recorded says so."""
    v = one(judged(rule(passes, Of(("a", "b"))), named("a")))
    assert (v.status, v.reason) == (Status.NOT_APPLICABLE, "b was not recorded")


def test_a_skipped_scenario_does_not_matter_when_another_showed_it() -> None:
    """Protects verdicts that were possible all the same."""
    v = one(judged(rule(passes), named("z"), skipped={"a": (Status.NOT_APPLICABLE, "slow")}))
    assert (v.status, v.case) == (Status.PASS, "z")


# -- memo ----------------------------------------------------------------------------


def test_a_memo_changes_no_verdict() -> None:
    """Protects the fault matrix: what is remembered equals what would be judged, ids of this run included."""
    asked: list[str] = []

    def check(x: Exchange, y: Exchange) -> None:
        asked.append(x.transcript.id)
        require(False, "one thing", got="another", at=(0, 1), owner=y)

    r = rule(check, Of(("a", "b")))
    memo: Memo = {}
    first = judged(r, named("a"), named("b"), memo=memo)
    again = [replace(named(n), id=f"other-{n}") for n in "ab"]
    second = judged(r, *again, memo=memo)
    assert len(asked) == 1, "the second was remembered"
    assert second == judged(r, *again) and len(asked) == 2
    assert first[0].violations[0].transcript == "t-b0"
    assert second[0].violations[0].transcript == "other-b"


def test_a_memo_is_by_rule() -> None:
    """Protects one rule from the verdict of another on the same bytes."""
    memo: Memo = {}
    other = Rule("r.y", MUST, "It holds.", "", contract(), on=ANY, check=fails)
    assert one(judged(rule(passes), named("a"), memo=memo)).status is Status.PASS
    assert one(judged(other, named("a"), memo=memo)).status is Status.FAIL


def test_judging_all() -> None:
    """Protects the callback, the order, and the set of broken rules."""
    checks = {"r.x": passes, "r.y": fails}
    rules = [Rule(name, MUST, "It holds.", "", contract(), on=ANY, check=c) for name, c in checks.items()]
    heard: list[str] = []
    found = judge_all(rules, recording([named("a"), named("b")]), on_rule=lambda r, v: heard.append(f"{r.id}{len(v)}"))
    assert heard == ["r.x2", "r.y2"] and failures(found) == {"r.y"}
