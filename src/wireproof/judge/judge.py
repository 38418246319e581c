"""Verdicts from recordings: no I/O, no clock. The same function judges live, offline and in the fault matrix."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wireproof.judge.rules import Across, Each, EachStep, Of, Rule, Twins
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Recording, Take
from wireproof.read.views import view
from wireproof.verdict import Broken, Inconclusive, NotApplicable, Status, Unsupported, Verdict, Violation, fold
from wireproof.wire.endpoints import Endpoint
from wireproof.wire.transcript import Ending

Memo = dict[tuple[str, ...], "_Result"]
# (rule's subject, exchange's digest) -> whether the rule is judged on it.
Matches = dict[tuple[int, str], bool]


@dataclass(frozen=True)
class _Result:
    status: Status
    reason: str = ""
    violation: Violation | None = None
    owner: int = 0  # which of the exchanges the violation's bytes belong to


class Judge:
    """Judges rules on one recording. A `memo` and `matches` shared between judges skip what was judged before."""

    def __init__(self, recorded: Recording, memo: Memo | None = None, matches: Matches | None = None) -> None:
        self._recorded = recorded
        self._exchanges = recorded.exchanges
        self._memo: Memo = {} if memo is None else memo
        self._matches: Matches = {} if matches is None else matches
        self._twins: list[tuple[Exchange, Exchange]] | None = None

    @property
    def exchanges(self) -> list[Exchange]:
        """Everything that was recorded."""
        return self._exchanges

    def judge(self, r: Rule) -> list[Verdict]:
        """The verdicts of one rule, one for each case."""
        if r.check is None or r.on is None:
            return [Verdict(r.id, "", Status.NOT_APPLICABLE, reason=r.reason)]
        if isinstance(r.on, Each):
            verdicts = self._each(r, r.on)
        elif isinstance(r.on, Of):
            verdicts = self._of(r, r.on)
        elif isinstance(r.on, EachStep):
            verdicts = self._steps(r, r.on)
        elif isinstance(r.on, Twins):
            verdicts = self._pairs(r, r.on)
        else:
            verdicts = self._across(r, r.on)
        return verdicts or [self.nothing(r)]

    def concerns(self, r: Rule, x: Exchange) -> bool:
        """Whether a rule is judged on an exchange."""
        assert isinstance(r.on, Each | Twins | Across)
        key = (id(r.on), x.digest)
        found = self._matches.get(key)
        if found is None:
            found = self._matches[key] = _concerns(r.on, x)
        return found and r.takes(x)

    def single(self, r: Rule, x: Exchange) -> Verdict | None:
        """The verdict of a rule for single exchanges on one of them; None when it does not concern it."""
        if r.check is None or not isinstance(r.on, Each) or not self.concerns(r, x):
            return None
        found = _judge_once(r, (x,), (x,))
        return Verdict(r.id, _case(x), found.status, (found.violation,) if found.violation else (), found.reason)

    def nothing(self, r: Rule) -> Verdict:
        """No exchange matched: say which scenario should have given one, and why it did not."""
        for name in r.needs:
            if name in self._recorded.skipped:
                status, reason = self._recorded.skipped[name]
                return Verdict(r.id, name, status, reason=reason)
        takes = [take for name in r.needs for take in self._recorded.of(name)]
        lost = [x for take in takes for x in take.exchanges if x.transcript.ending is Ending.NOT_CONNECTED]
        if lost:
            return Verdict(r.id, lost[0].scenario, Status.ERROR, reason=f"no connection: {lost[0].transcript.detail}")
        absent = [name for name in r.needs if not self._recorded.of(name)]
        if takes and absent and isinstance(r.on, Of):
            return Verdict(r.id, "", Status.NOT_APPLICABLE, reason=f"{', '.join(absent)} was not recorded")
        if takes:
            return Verdict(r.id, "", Status.INCONCLUSIVE, reason="the target gave nothing that this rule is judged on")
        return Verdict(r.id, "", Status.NOT_APPLICABLE, reason="nothing was recorded that this rule is judged on")

    def _run(self, r: Rule, arguments: Sequence[Any], exchanges: Sequence[Exchange]) -> _Result:
        key = (r.id, *(x.digest for x in exchanges))
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = _judge_once(r, arguments, exchanges)
        if found.violation is None:
            return found
        # A remembered violation points to the transcript of another run: its id is no part of the digest.
        here = exchanges[found.owner].transcript.id if exchanges else ""
        return replace(found, violation=replace(found.violation, transcript=here))

    def _each(self, r: Rule, on: Each) -> list[Verdict]:
        by_case: dict[str, list[_Result]] = {}
        for x in self._exchanges:
            if self.concerns(r, x):
                by_case.setdefault(_case(x), []).append(self._run(r, (x,), (x,)))
        return [_combine(r.id, case, results) for case, results in by_case.items()]

    def _of(self, r: Rule, on: Of) -> list[Verdict]:
        columns = [self._recorded.of(name) for name in on.scenarios]
        case = " + ".join(on.scenarios)
        if not all(columns):
            return []
        results = []
        for row in range(max(len(c) for c in columns)):
            takes = [c[min(row, len(c) - 1)] for c in columns]
            arguments = [t if t.conversation else t.exchanges[0] for t in takes]
            results.append(self._run(r, arguments, [x for t in takes for x in t.exchanges]))
        return [_combine(r.id, case, results)]

    def _steps(self, r: Rule, on: EachStep) -> list[Verdict]:
        """One verdict for each step, and one for each scenario that was asked for and could not be recorded."""
        out = []
        for name, step in on.steps:
            results = [self._step(r, take, step) for take in self._recorded.of(name)]
            if results:
                out.append(_combine(r.id, f"{name}/{step}", results))
        for name in on.needs:
            status, reason = self._recorded.skipped.get(name, (Status.NOT_APPLICABLE, ""))
            if status is not Status.NOT_APPLICABLE:
                out.append(Verdict(r.id, name, status, reason=reason))
        return out

    def _step(self, r: Rule, take: Take, step: str) -> _Result:
        found = tuple(x for x in take.exchanges if x.transcript.step == step)
        if found:
            return self._run(r, (replace(take, exchanges=found),), found)
        unsent = (take.exchanges[0].transcript.tags.unsent if take.exchanges else "") or "{}"
        return _Result(Status.INCONCLUSIVE, json.loads(unsent).get(step, "nothing was sent"))

    def _pairs(self, r: Rule, on: Twins) -> list[Verdict]:
        if self._twins is None:
            self._twins = find_twins(self._exchanges)
        by_case: dict[str, list[_Result]] = {}
        for plain, stream in self._twins:
            if self.concerns(r, plain) and self.concerns(r, stream):
                case = f"{plain.scenario} ~ {stream.scenario}"
                by_case.setdefault(case, []).append(self._run(r, (plain, stream), (plain, stream)))
        return [_combine(r.id, case, results) for case, results in by_case.items()]

    def _across(self, r: Rule, on: Across) -> list[Verdict]:
        places: dict[str, list[Exchange]] = {}
        for x in self._exchanges:
            if self.concerns(r, x):
                places.setdefault(x.place, []).append(x)
        several = len(places) > 1
        return [
            _combine(r.id, f"{on.what} ({place or 'others'})" if several else on.what, [self._run(r, (found,), found)])
            for place, found in places.items()
            if len(found) >= on.at_least
        ]


def _case(x: Exchange) -> str:
    return f"{x.scenario}/{x.transcript.step}" if x.transcript.step else x.scenario


def _concerns(on: Each | Twins | Across, x: Exchange) -> bool:
    """Whether an exchange matches; not when that depends on what its recording does not say."""
    if x.transcript.tags.behind:  # another server than the one that is judged
        return False
    try:
        return on.match(x)
    except NotApplicable:
        return False


def _judge_once(r: Rule, arguments: Sequence[Any], exchanges: Sequence[Exchange]) -> _Result:
    assert r.check is not None
    lost = [x for x in exchanges if x.transcript.ending is Ending.NOT_CONNECTED]
    if lost:
        return _Result(Status.ERROR, f"no connection: {lost[0].transcript.detail}")
    for argument, form in zip(arguments, r.forms, strict=False):
        if isinstance(argument, Exchange) and not isinstance(argument, form):
            return _Result(Status.INCONCLUSIVE, f"{argument.scenario} did not ask the endpoint that this rule is about")
    try:
        r.check(*arguments)
    except Broken as broken:
        ids = [x.transcript.id for x in exchanges]
        owner = ids.index(broken.owner) if broken.owner in ids else 0
        return _Result(Status.FAIL, "", Violation(broken.expected, _writable(broken.got), "", broken.span), owner)
    except Inconclusive as reason:
        return _Result(Status.INCONCLUSIVE, _writable(str(reason)))
    except Unsupported as reason:
        return _Result(Status.UNSUPPORTED, _writable(str(reason)))
    except NotApplicable as reason:
        return _Result(Status.NOT_APPLICABLE, str(reason))
    except Exception as error:  # a defect of the check is our error, never the target's failure
        where = traceback.extract_tb(error.__traceback__)[-1]
        what = _writable(repr(error))
        return _Result(Status.ERROR, f"the check itself failed: {what} ({where.name}, line {where.lineno})")
    return _Result(Status.PASS)


def _writable(text: str) -> str:
    """Text that can be printed and stored: half characters from the target (lone surrogates) are escaped."""
    return text.encode("utf-8", errors="backslashreplace").decode()


def _combine(rule_id: str, case: str, results: Sequence[_Result]) -> Verdict:
    """One verdict for the samples of a case."""
    status = fold(result.status for result in results)
    violations = [result.violation for result in results if result.violation]
    reason = next((result.reason for result in results if result.status is status), "")
    failed = sum(1 for result in results if result.status is Status.FAIL)
    return Verdict(rule_id, case, status, tuple(violations[:3]), reason, len(results), failed)


@view
def twin_key(x: Exchange) -> str | None:
    """What two requests must share to be the same request once streamed and once not."""
    asked = x.asked
    if x.endpoint is not Endpoint.CHAT or not asked or asked.get("temperature") != 0 or not x.valid or x.cut_by_us:
        return None
    rest = {k: v for k, v in asked.items() if k not in ("stream", "stream_options")}
    extra = sorted((k.lower(), v) for k, v in x.request.headers if k.lower().startswith("x-wireproof"))
    return json.dumps([x.place, rest, extra], sort_keys=True)


def find_twins(exchanges: Sequence[Exchange]) -> list[tuple[Exchange, Exchange]]:
    """Pairs (plain, stream) whose requests differ in `stream` and `stream_options` only, at temperature 0."""
    plain: dict[str, Exchange] = {}
    streams: dict[str, list[Exchange]] = {}
    for x in exchanges:
        key = twin_key(x)
        if key is None or not x.ok:
            continue
        if x.asked_stream:
            streams.setdefault(key, []).append(x)
        else:
            plain.setdefault(key, x)
    return [(plain[key], stream) for key, found in streams.items() if key in plain for stream in found]


def judge_all(
    rules: Iterable[Rule],
    recorded: Recording,
    *,
    memo: Memo | None = None,
    on_rule: Callable[[Rule, list[Verdict]], None] | None = None,
) -> dict[str, list[Verdict]]:
    """The verdicts of many rules, by rule id."""
    judge = Judge(recorded, memo)
    out: dict[str, list[Verdict]] = {}
    for r in rules:
        out[r.id] = judge.judge(r)
        if on_rule:
            on_rule(r, out[r.id])
    return out


def failures(verdicts: Mapping[str, Sequence[Verdict]]) -> set[str]:
    """Ids of the rules that were broken."""
    return {rule_id for rule_id, found in verdicts.items() if fold(v.status for v in found) is Status.FAIL}
