"""What a run came to: one outcome per rule, counts, a sentence, an exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from wireproof.verdict import Status, Verdict, fold


class Exit(IntEnum):
    """Exit codes, the same for every command."""

    OK = 0
    VERDICTS = 1  # a rule at or above the chosen level is broken
    USAGE = 2
    TARGET = 3  # the target cannot be reached or judged, or an error of our own


@dataclass(frozen=True)
class Outcome:
    """One rule's outcome over all its cases."""

    rule: str
    level: str
    status: Status
    verdicts: tuple[Verdict, ...]

    @property
    def failing(self) -> tuple[Verdict, ...]:
        """The cases that failed."""
        return tuple(v for v in self.verdicts if v.status is Status.FAIL)

    @property
    def reason(self) -> str:
        """Why it is neither pass nor fail."""
        return next((v.reason for v in self.verdicts if v.status is self.status and v.reason), "")

    def gates(self, level: str) -> bool:
        """Whether this outcome makes a run at this level (must or should) fail."""
        return self.status is Status.FAIL and (self.level == "MUST" or (level == "should" and self.level == "SHOULD"))


@dataclass(frozen=True)
class Summary:
    """All outcomes of a run, in rule order."""

    outcomes: tuple[Outcome, ...]
    level: str = "must"

    @property
    def counts(self) -> dict[str, int]:
        """How many rules came to each status."""
        found = Counter(o.status.value for o in self.outcomes)
        return {status.value: found.get(status.value, 0) for status in Status}

    @property
    def gating(self) -> tuple[Outcome, ...]:
        """The failures that decide the exit code."""
        return tuple(o for o in self.outcomes if o.gates(self.level))

    @property
    def warnings(self) -> tuple[Outcome, ...]:
        """The failures below the chosen level."""
        return tuple(o for o in self.outcomes if o.status is Status.FAIL and not o.gates(self.level))

    @property
    def judged(self) -> int:
        """How many rules were shown to be kept or broken."""
        return sum(1 for o in self.outcomes if o.status in (Status.PASS, Status.FAIL))

    @property
    def exit(self) -> Exit:
        """The exit code. Zero verdicts is never success."""
        if self.gating:
            return Exit.VERDICTS
        if any(o.status is Status.ERROR for o in self.outcomes) or not self.judged:
            return Exit.TARGET
        return Exit.OK

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        counts = self.counts
        if not self.judged:
            return "Nothing was judged: no recorded exchange shows any of the selected rules."
        broken = [o for o in self.outcomes if o.status is Status.FAIL]
        by_level = Counter(o.level for o in broken)
        if not broken:
            kept = counts["pass"]
            what = "the one rule" if kept == 1 else f"all {kept} rules"
            lead = f"The target keeps {what} that could be judged"
        else:
            parts = [f"{by_level[level]} {level}" for level in ("MUST", "SHOULD", "MAY") if by_level[level]]
            noun = "rule" if len(broken) == 1 else "rules"
            lead = f"The target breaks {' and '.join(parts)} {noun} of {self.judged} judged"
        rest = [
            f"{counts[s.value]} {s.value}"
            for s in (Status.ERROR, Status.INCONCLUSIVE, Status.UNSUPPORTED)
            if counts[s.value]
        ]
        return f"{lead}{' (' + ', '.join(rest) + ')' if rest else ''}."


def summarize(
    verdicts: Iterable[Verdict], levels: Mapping[str, str], *, level: str = "must", order: Sequence[str] = ()
) -> Summary:
    """Fold verdicts to one outcome per rule. `levels` maps rule ids to MUST, SHOULD or MAY."""
    grouped: dict[str, list[Verdict]] = {rule: [] for rule in order}
    for v in verdicts:
        grouped.setdefault(v.rule, []).append(v)
    return Summary(
        tuple(
            Outcome(rule, levels.get(rule, "MUST"), fold(v.status for v in found), tuple(found))
            for rule, found in grouped.items()
            if found
        ),
        level,
    )
