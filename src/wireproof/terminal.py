"""What a run prints: every gating failure in full, the rest in a line each, the sentence last.

All text goes through `safe`: what the target sent is shown, never obeyed, neither as rich
markup nor as an escape sequence. Works the same without a terminal, where the marked bytes
stand between >>> and <<< because there is no colour to show them.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import chop_cells
from rich.console import Console
from rich.text import Text

from .exchange import Exchange
from .failure import Excerpt, curl, excerpt, printable
from .summary import Outcome, Summary
from .tables import Outcome as Became
from .tables import Table
from .verdict import Status, Verdict, Violation
from .wire.transcript import Transcript

CASES = 3  # failing cases shown in full
ROWS = 16  # lines of arrival times in an excerpt
TEXT = 400  # characters of one value
CURL = 4000  # a longer curl line is left out: it would bury the failure
REASONS = 10  # lines of reasons, unless verbose
NAMED = 12  # ignored rows of an outcome table that its line names

_MARGIN, _LABEL = 2, 10

# Invisible or direction-changing characters that `printable` leaves, and what XML forbids.
_HIDDEN = re.compile("[\u061c\u200e\u200f\u2060-\u2064\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]")


def _visible(text: str) -> str:
    return _HIDDEN.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def safe(text: object, limit: int = TEXT) -> str:
    """Any text on one line, in which odd characters can be seen; cut after `limit` characters (0: never)."""
    value = str(text)
    if limit and len(value) > limit:
        value = f"{value[:limit]}… ({len(value)} characters)"
    return _visible(printable(value.encode("utf-8", "surrogatepass")).replace("\\n\n", "\\n"))


def safe_curl(transcript: Transcript, limit: int = CURL) -> str:
    """The curl line that repeats an exchange, safe to print; a line on why not when it is too long."""
    if transcript.tags.get("request") == "guessed":
        return "# the recording does not say what was asked"
    line = curl(transcript.request)
    if len(line) > limit:
        where = f"transcript {safe(transcript.id)} of the run record"
        return f"# too long for a line ({len(line)} characters): the request is in {where}"
    return "\n".join(safe(part, 0) for part in line.split("\n"))


@dataclass(frozen=True)
class Row:
    """Bytes that arrived together: a time since the request ("" when unknown), and (text, marked) parts."""

    time: str
    parts: tuple[tuple[str, bool], ...]


def rows(found: Excerpt, limit: int = ROWS) -> list[Row]:
    """The pieces of an excerpt by arrival; a dribble of many reads is put together to `limit` rows."""
    groups: list[tuple[list[float], list[tuple[str, bool]]]] = []
    for piece in found.pieces:
        times = [] if piece.at is None else [round(piece.at, 3)]
        if not groups or groups[-1][0][-1:] != times:
            groups.append((times, []))
        groups[-1][1].append((_visible(piece.text), piece.marked))
    step = -(-len(groups) // limit) or 1
    out = []
    for start in range(0, len(groups), step):
        together = groups[start : start + step]
        known = [t for times, _ in together for t in times]
        label = f"+{known[0]:.3f} s" if known else ""
        if known and known[-1] != known[0]:
            label = f"+{known[0]:.3f} to {known[-1]:.3f} s"
        out.append(Row(label, _joined([part for _, parts in together for part in parts])))
    return out


def _joined(parts: Iterable[tuple[str, bool]]) -> tuple[tuple[str, bool], ...]:
    out: list[tuple[str, bool]] = []
    for text, marked in parts:
        if out and out[-1][1] == marked:
            text = out.pop()[0] + text
        out.append((text, marked))
    return tuple(out)


def place(violation: Violation, found: Excerpt) -> str:
    """Where the marked bytes are, in words."""
    start, end = found.span
    if violation.span is None:
        return f"the answer's body, {found.total} bytes, begins"
    if start == end:
        return f"at byte {start} of {found.total}"
    return f"bytes {start} to {end} of {found.total}"


def head(violation: Violation, transcripts: Mapping[str, Transcript]) -> list[str]:
    """Status line and headers of the answer that a violation is about."""
    transcript = transcripts.get(violation.transcript)
    response = Exchange(transcript).response if transcript else None
    if response is None or response.status is None:
        return []
    lines = [f"{response.status} {response.reason}".strip()]
    lines += [f"{name}: {value}" for name, value in response.headers[:40]]
    return [safe(line) for line in lines]


def samples(verdict: Verdict) -> str:
    """How often a case failed, when it was tried more than once."""
    if verdict.attempts <= 1:
        return ""
    return f"fails {verdict.failed} of {verdict.attempts} samples"


def clients(rule: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Who breaks, and how: (client, reaction), each once."""
    found = [(safe(c.get("client", "")), safe(c.get("reaction", ""))) for c in rule.get("clients") or []]
    return list(dict.fromkeys(found))


def source(rule: Mapping[str, Any]) -> str:
    """What the rule rests on, in words."""
    kind, ref = safe(rule.get("source", "")), safe(rule.get("ref", ""))
    return f"{kind} ({ref})" if ref else kind


def failure_text(
    rule: Mapping[str, Any], outcome: Outcome, transcripts: Mapping[str, Transcript], *, width: int = 100
) -> Text:
    """A failing rule in full. Print it with `soft_wrap=True`, so that the curl line stays one line."""
    out = Text(no_wrap=True, overflow="ignore")
    numbers = ", ".join([outcome.level, *map(str, rule.get("aliases") or [])])
    out.append("FAIL", style="bold red").append("  ").append(safe(outcome.rule, 0), style="bold")
    out.append(f"  ({safe(numbers)})\n")
    for line in _wrap(safe(rule.get("requirement", "")), width - _MARGIN):
        out.append(f"{'':{_MARGIN}}{line}\n")
    shown: set[str] = set()
    for verdict in outcome.failing[:CASES]:
        _case(out, verdict, transcripts, shown, width)
    more = len(outcome.failing) - CASES
    if more > 0:
        out.append(f"\n{'':{_MARGIN}}and {more} more {'case' if more == 1 else 'cases'}\n")
    out.append("\n")
    if rule.get("why"):
        _field(out, "why", safe(rule["why"], 0), width)
    for number, (name, reaction) in enumerate(clients(rule)):
        _field(out, "breaks" if number == 0 else "", f"{name}: {reaction}", width)
    link = safe(rule.get("link", ""), 0)
    if rule.get("source"):
        _field(out, "source", f"{source(rule)} {link}".strip(), width)
    return out


def _case(out: Text, verdict: Verdict, transcripts: Mapping[str, Transcript], shown: set[str], width: int) -> None:
    out.append("\n")
    said = samples(verdict)
    name = safe(verdict.case) or "(the run)"
    _field(out, "case", f"{name} ({said})" if said else name, width)
    if not verdict.violations:
        return
    violation = verdict.violations[0]
    if violation.expected in shown:  # one look at the bytes is enough, the report has the others
        _field(out, "got", safe(violation.got), width)
        return
    shown.add(violation.expected)
    _field(out, "expected", safe(violation.expected), width)
    _field(out, "got", safe(violation.got), width, "bold")
    found = excerpt(violation, transcripts)
    if found:
        _field(out, "bytes", place(violation, found), width)
        _bytes(out, found, width)
    elif lines := head(violation, transcripts):
        _field(out, "answer", lines[0], width)
    if violation.transcript in transcripts:
        out.append(f"{'':{_MARGIN}}{'repeat':<{_LABEL}}", style="dim")
        out.append(f"{safe_curl(transcripts[violation.transcript])}\n")


def _bytes(out: Text, found: Excerpt, width: int) -> None:
    ordered = rows(found)
    gutter = max(_LABEL, *(len(r.time) + 2 for r in ordered)) if ordered else _LABEL
    flat = [marked for r in ordered for _, marked in r.parts]
    first = flat.index(True) if True in flat else -1
    last = len(flat) - 1 - flat[::-1].index(True) if True in flat else -1
    number = 0
    for row in ordered:
        line = Text()
        for text, marked in row.parts:
            opening, closing = ">>>" if number == first else "", "<<<" if number == last else ""
            if closing and text.endswith("\n"):
                text, closing = text[:-1], f"{closing}\n"
            line.append(f"{opening}{text}{closing}", style="bold reverse" if marked else "")
            number += 1
        line.rstrip()
        label = row.time
        for part in line.split("\n"):
            for piece in _fold(part, max(20, width - _MARGIN - gutter)):
                out.append(f"{'':{_MARGIN}}{label:<{gutter}}", style="dim").append_text(piece).append("\n")
                label = ""


def _fold(line: Text, width: int) -> Iterable[Text]:
    if not line.plain:
        return [line]
    offsets, at = [], 0
    for piece in chop_cells(line.plain, width)[:-1]:
        at += len(piece)
        offsets.append(at)
    return line.divide(offsets)


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(20, width), break_long_words=False, break_on_hyphens=False) or [""]


def _field(out: Text, name: str, value: str, width: int, style: str = "") -> None:
    for number, line in enumerate(_wrap(value, width - _MARGIN - _LABEL)):
        out.append(f"{'':{_MARGIN}}{name if number == 0 else '':<{_LABEL}}", style="dim")
        out.append(f"{line}\n", style=style)


# -- the whole run ------------------------------------------------------------------


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


def counts_line(summary: Summary, hidden: int = 0) -> str:
    """How many rules came to each status; `hidden` of the not-applicable ones cannot be observed."""
    warnings = len(summary.warnings)
    counts = dict(summary.counts)
    counts["fail"] -= warnings
    counts["not-applicable"] -= hidden
    named = [f"{counts['pass']} pass", f"{counts['fail']} fail"]
    named += [f"{warnings} {'warning' if warnings == 1 else 'warnings'}"] if warnings else []
    named += [f"{counts[s]} {s}" for s in ("error", "inconclusive", "unsupported", "not-applicable") if counts[s]]
    named += [f"{hidden} cannot be observed"] if hidden else []
    return ", ".join(named)


def table_line(table: Table) -> str:
    """An outcome table in one line."""
    return f"{safe(table.title)}: {table_counts(table)}"


def table_counts(table: Table) -> str:
    """How many cells of an outcome table came to what, and which rows have one that was ignored."""
    counts = table.counts()
    always = (Became.HELD, Became.IGNORED)
    order = (Became.HELD, Became.REFUSED, Became.UNCLEAR, Became.IGNORED)  # the names follow what was ignored
    parts = [f"{counts[o]} {o.value}" for o in order if counts[o] or o in always]
    ignored = [r for r in table.rows if any(c.outcome is Became.IGNORED for c in r.cells.values())]
    names = list(dict.fromkeys(safe(r.labels[0] if r.labels else r.name) for r in ignored))
    line = ", ".join(parts)
    if names:
        line += f": {', '.join(names[:NAMED])}"
    return line + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def cost_line(cost: Mapping[str, float]) -> str:
    """What a run cost, in words."""
    tokens = f"{cost.get('prompt_tokens', 0):.0f} prompt and {cost.get('completion_tokens', 0):.0f} completion tokens"
    return f"{cost.get('requests', 0):.0f} requests, {tokens}, {cost.get('seconds', 0):.1f} s"
