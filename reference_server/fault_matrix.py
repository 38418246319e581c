"""The fault matrix: every fault of the reference server against every rule, in memory and in virtual time.

    python -m wireproof.reference_server.fault_matrix [FAULT ...]

prints, for each fault (all of them by default), which rules it declares to break and which it breaks.

Most answers are the same with and without a fault. What the clean server answers is decoded and judged once, and
the model's words are remembered, so that a fault costs what it changes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wireproof.judge import rules as core_rules
from wireproof.judge.judge import Judge, Matches, Memo
from wireproof.judge.rules import Each, Rule
from wireproof.read.endpoints import exchange_of
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Recording
from wireproof.scenarios import catalog
from wireproof.verdict import Status, Verdict, fold
from wireproof.wire.transcript import Transcript

from . import faults
from .app import App
from .changes import Changes, SpiedApp, merged
from .memory import Counter, config, record
from .state import ServerState


@dataclass(frozen=True)
class FaultResult:
    """What one fault came to: the status of each rule, and a story for each that is not plainly passed."""

    statuses: Mapping[str, Status]
    stories: Mapping[str, str] = field(default_factory=dict)

    def ids(self, status: Status) -> set[str]:
        """The rules with a status."""
        return {rule for rule, found in self.statuses.items() if found is status}

    @property
    def broken(self) -> set[str]:
        """The rules that failed."""
        return self.ids(Status.FAIL)


@dataclass
class _Judged:
    """One exchange with what the rules for single exchanges say of it; shared by all faults that produce it."""

    exchange: Exchange
    by_status: dict[Status, set[str]] | None = None
    stories: dict[tuple[str, Status], str] = field(default_factory=dict)


class FaultMatrix:
    """Runs faults against all rules.

    A fault is recorded in the scenarios that it changes (changes.py); in all others the clean server's answers count.
    """

    def __init__(self, chosen: Mapping[str, Rule] | None = None) -> None:
        self.rules = dict(chosen or core_rules.load())
        self.names = sorted({name for r in self.rules.values() for name in r.needs})
        self._groups: dict[tuple[Any, ...], list[Rule]] = {}  # those that are judged on the same exchanges
        for r in self.rules.values():
            if isinstance(r.on, Each):
                self._groups.setdefault((id(r.on), r.forms), []).append(r)
        self._single = [r for group in self._groups.values() for r in group]
        self._matches: Matches = {}
        self._other = [r for r in self.rules.values() if not isinstance(r.on, Each)]
        self._health = {s.name for s in catalog.load().values() if s.health}
        self._hostile = [s.name for s in catalog.load().values() if s.name in self.names and not s.tame]
        self._memo: Memo = {}
        self._recall: dict[Any, Any] = {}
        self._known: dict[str, _Judged] = {}
        counter = Counter()
        app = SpiedApp(config(counter), ServerState(recall=self._recall))
        self._clean = record(
            scenarios=self.names,
            app=app,
            counter=counter,
            make=self._exchange,
            on_exchange=lambda x: app.belongs_to(x.scenario),
        )
        self._changes = Changes(app)
        self._clean_outcome = self._judged(self._clean, self._memo)
        self._clean_known, self._clean_matches = dict(self._known), dict(self._matches)

    def _exchange(self, t: Transcript) -> Exchange:
        digest = t.digest()
        known = self._known.get(digest)
        if known is None:
            known = self._known[digest] = _Judged(exchange_of(t))
        return known.exchange

    def recording(self, fault: str = "") -> Recording:
        """The recording of all scenarios from the server with a fault (none: the clean server)."""
        if not fault:
            return self._clean
        found = faults.parse(fault)
        changed = self._changes.scenarios(found[0]) if len(found) == 1 else None
        if changed is not None:
            names = [n for n in self.names if n in changed]
            if changed & self._health and self._hostile:  # it is asked after those that must be refused
                names = list(dict.fromkeys([*names, self._hostile[-1]]))
            elif changed & set(self._hostile):
                names = list(dict.fromkeys([*names, *self._health]))
            fresh = self._record(fault, names) if names else Recording(())
            if not set(fresh.skipped) & set(names):  # else it ended early: what others would have done, counts
                return merged(self._clean, fresh, frozenset(names))
        return self.whole(fault)

    def whole(self, fault: str) -> Recording:
        """The same, with every scenario recorded again."""
        return self._record(fault, self.names)

    def _record(self, fault: str, names: Sequence[str]) -> Recording:
        counter = Counter()
        app = App(config(counter), ServerState(recall=self._recall))
        return record(fault, scenarios=names, app=app, counter=counter, make=self._exchange)

    def outcome(self, fault: str = "", *, whole: bool = False) -> FaultResult:
        """The status of every rule on the server with a fault; `whole` records every scenario again."""
        if not fault:
            return self._clean_outcome
        self._known = dict(self._clean_known)
        self._matches = dict(self._clean_matches)  # what another fault brought is not kept: it would fill the memory
        recorded = self.whole(fault) if whole else self.recording(fault)
        return self._judged(recorded, dict(self._memo))

    def _judged(self, recorded: Recording, memo: Memo) -> FaultResult:
        judge = Judge(recorded, memo, self._matches)
        found: dict[str, set[Status]] = {}
        stories: dict[tuple[str, Status], str] = {}
        for x in recorded.exchanges:
            judged = self._known[x.digest]
            if judged.by_status is None:
                self._judge(judged)
            assert judged.by_status is not None
            for status, ids in judged.by_status.items():
                for rule in ids:
                    found.setdefault(rule, set()).add(status)
            for key, story in judged.stories.items():
                stories.setdefault(key, story)
        for r in self._single:
            if r.id not in found:
                self._note(r, [judge.nothing(r)], found, stories)
        for r in self._other:
            self._note(r, judge.judge(r), found, stories)
        folded = {rule: fold(statuses) for rule, statuses in found.items()}
        return FaultResult(folded, {r: stories[r, s] for r, s in folded.items() if (r, s) in stories})

    def _judge(self, judged: _Judged) -> None:
        judged.by_status = {}
        judge = Judge(Recording(()))
        for group in self._groups.values():
            if not judge.concerns(group[0], judged.exchange):
                continue
            for r in group:
                v = judge.single(r, judged.exchange)
                if v is None:
                    continue
                judged.by_status.setdefault(v.status, set()).add(r.id)
                if v.status is not Status.PASS:
                    judged.stories.setdefault((r.id, v.status), story(v))

    @staticmethod
    def _note(
        r: Rule, verdicts: Iterable[Verdict], found: dict[str, set[Status]], stories: dict[tuple[str, Status], str]
    ) -> None:
        for v in verdicts:
            found.setdefault(r.id, set()).add(v.status)
            if v.status is not Status.PASS:
                stories.setdefault((r.id, v.status), story(v))


def story(v: Verdict) -> str:
    """One verdict in a line."""
    if v.violations:
        return f"{v.case}: expected {v.violations[0].expected} / got {v.violations[0].got}"
    return f"{v.case}: {v.status.value}: {v.reason}"


def main(arguments: Sequence[str]) -> int:
    """Print declared against actual for the named faults; exit 1 when any differs."""
    matrix, known = FaultMatrix(), faults.load()
    names = list(arguments) or ["", *known]
    wrong, started = 0, time.perf_counter()
    for name in names:
        outcome = matrix.outcome(name)
        declared = set().union(*(f.breaks for f in faults.parse(name))) if name else set()
        errors = outcome.ids(Status.ERROR)
        if outcome.broken == declared and not errors:
            if arguments:
                print(f"{name or '(clean)'}: exact: {sorted(outcome.broken)}")
            continue
        wrong += 1
        print(f"{name or '(clean)'}:")
        for rule in sorted(outcome.broken - declared):
            print(f"  also breaks {rule} ({outcome.stories.get(rule, '')[:230]})")
        for rule in sorted(declared - outcome.broken):
            what = outcome.stories.get(rule, str(outcome.statuses.get(rule, "no such rule")))
            print(f"  does not break {rule} ({what[:230]})")
        for rule in sorted(errors):
            print(f"  ERROR in {rule}: {outcome.stories.get(rule, '')}")
    seconds = time.perf_counter() - started
    print(f"{len(names)} faults, {len(matrix.rules)} rules, {wrong} differ, {seconds:.1f} s")
    unbroken = set(matrix.rules) - set().union(*(f.breaks for f in known.values()), set())
    unbroken = {r for r in unbroken if matrix.rules[r].check is not None}
    if unbroken and not arguments:
        print("rules that no fault breaks:", ", ".join(sorted(unbroken)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
