"""What a run prints: every gating failure in full, the rest in a line each, the sentence last.

Works the same without a terminal, where the marked bytes stand between >>> and <<< because there is no colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from wireproof.judge.summary import Outcome, Summary
from wireproof.show.failure import failure_text
from wireproof.show.text import cost_line, counts_line, safe, table_line
from wireproof.tables.table import Table
from wireproof.verdict import Status
from wireproof.wire.transcript import Transcript

REASONS = 10  # lines of reasons, unless verbose

_MARGIN = 2


def print_summary(
    console: Console,
    summary: Summary,
    rules: Mapping[str, Mapping[str, Any]],
    transcripts: Mapping[str, Transcript],
    cost: Mapping[str, float],
    *,
    verbose: bool = False,
    failures: bool = True,
    tables: Sequence[Table] = (),
) -> None:
    """Print failures (unless they were shown already), warnings, what could not be judged, and the sentence."""

    def say(text: Text | str = "", style: str = "") -> None:
        console.print(Text(text, style=style) if isinstance(text, str) else text, soft_wrap=True, highlight=False)

    order = {"MUST": 0, "SHOULD": 1, "MAY": 2}
    for outcome in sorted(summary.gating if failures else (), key=lambda o: order.get(o.level, 3)):
        say(failure_text(rules.get(outcome.rule, {}), outcome, transcripts, width=console.width))
    for outcome in sorted(summary.warnings, key=lambda o: order.get(o.level, 3)):
        say(_warning(outcome))
    if summary.warnings:
        say()
    observable = [o for o in summary.outcomes if rules.get(o.rule, {}).get("checked", True)]
    _reasons(say, [o for o in observable if o.status is Status.ERROR], "ERROR", 0)
    statuses = [Status.INCONCLUSIVE, Status.UNSUPPORTED, *([Status.NOT_APPLICABLE] if verbose else [])]
    left = 0 if verbose else REASONS
    for status in statuses:
        _reasons(say, [o for o in observable if o.status is status], status.value, left)
    say(summary.sentence, "bold red" if summary.exit else "bold")
    say(counts_line(summary, hidden=len(summary.outcomes) - len(observable)))
    for table in tables:
        say(table_line(table))
    if cost:
        say(cost_line(cost), "dim")


def _warning(outcome: Outcome) -> Text:
    line = Text("WARN", style="yellow").append("  ").append(safe(outcome.rule, 0), style="bold")
    line.append(f"  ({safe(outcome.level)})")
    verdict = next(iter(outcome.failing), None)
    if verdict and verdict.violations:
        line.append(f": expected {safe(verdict.violations[0].expected)}, got {safe(verdict.violations[0].got)}")
    if len(outcome.failing) > 1:
        line.append(f" ({len(outcome.failing)} cases)")
    return line


def _reasons(say: Any, outcomes: Sequence[Outcome], title: str, limit: int) -> None:
    if not outcomes:
        return
    groups: dict[str, list[str]] = {}
    for outcome in outcomes:
        groups.setdefault(safe(outcome.reason) or "no reason was given", []).append(safe(outcome.rule, 0))
    say(f"{title}: {len(outcomes)} {'rule' if len(outcomes) == 1 else 'rules'}", "bold")
    ordered = sorted(groups.items(), key=lambda g: -len(g[1]))
    for reason, ids in ordered[: limit or None]:
        few = ids if not limit else ids[:3]
        more = f" and {len(ids) - len(few)} more" if len(ids) > len(few) else ""
        say(f"{'':{_MARGIN}}{reason}: {', '.join(few)}{more}")
    hidden = len(ordered) - limit
    if limit and hidden > 0:
        more = f"and {hidden} more {'reason' if hidden == 1 else 'reasons'}"
        say(f"{'':{_MARGIN}}{more}; the verbose output has them all")
    say()
