"""What the HTML page shows, as values: the templates only lay it out.

Every text here has gone through `safe` (what the target sent can be seen, and cannot
change what stands around it); escaping for HTML is the templates' part.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wireproof.judge.summary import Exit, Outcome
from wireproof.show.excerpt import excerpt
from wireproof.show.text import Arrival, clients, head, place, rows, safe, safe_curl, samples, source
from wireproof.verdict import Status, Verdict

from .matrix import LETTERS, LEVELS, Column, by_endpoint, contract, differing, observable, rule_lines

CASES = 5  # failing cases shown with their bytes, for each rule and column
TEXT = 600  # characters of one value
CURL = 16_000


@dataclass(frozen=True)
class RuleCell:
    """Letter, word, and where the detail is."""

    letter: str
    word: str
    href: str
    column: str


@dataclass(frozen=True)
class RuleView:
    """A rule as it stands in a record."""

    id: str
    anchor: str
    area: str
    level: str
    requirement: str
    why: str
    source: str
    link: str
    book: str
    reason: str
    clients: list[tuple[str, str]]
    faults: list[str]


@dataclass(frozen=True)
class CaseView:
    """One failing case with its bytes."""

    name: str
    samples: str
    expected: str
    got: str
    place: str
    rows: list[Arrival]
    head: list[str]
    curl: str
    known: bool  # a case with the same expectation stands further up


@dataclass(frozen=True)
class EntryView:
    """How one column fails a rule."""

    column: str
    anchor: str
    cases: list[CaseView]
    more: list[str]
    judged: int
    failed: int


@dataclass(frozen=True)
class FailureView:
    """A rule that at least one column breaks."""

    rule: RuleView
    word: str
    letter: str
    entries: list[EntryView]


def slug(text: str) -> str:
    """A text as part of an anchor; texts that differ give anchors that differ."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", text)[:80]
    return plain if plain == text else f"{plain}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"


def web_link(text: object) -> str:
    """The text when it is an http(s) link, else nothing: no other scheme becomes a link."""
    link = str(text)
    return link if re.fullmatch(r"https?://[!-~]{1,2000}", link) else ""


def rule_view(line: Mapping[str, Any], faults: Sequence[str]) -> RuleView:
    """A rule line as text."""
    name = str(line["id"])
    return RuleView(
        id=safe(name, 0),
        anchor=slug(name),
        area=safe(line["area"]),
        level=safe(line["level"]),
        requirement=safe(line["requirement"], TEXT),
        why=safe(line["why"], 4 * TEXT),
        source=source(line),
        link=web_link(line.get("link", "")),
        book=", ".join(safe(number) for number in line.get("aliases") or []),
        reason=safe(line.get("reason", ""), TEXT),
        clients=clients(line),
        faults=[safe(fault) for fault in faults],
    )


def _case(verdict: Verdict, column: Column, seen: set[str]) -> CaseView:
    violation = verdict.violations[0]
    known = violation.expected in seen
    seen.add(violation.expected)
    found = excerpt(violation, column.record.transcripts)
    transcript = column.record.transcripts.get(violation.transcript)
    return CaseView(
        name=safe(verdict.case) or "the run",
        samples=samples(verdict),
        expected=safe(violation.expected, TEXT),
        got=safe(violation.got, TEXT),
        place=place(violation, found) if found else "",
        rows=rows(found) if found else [],
        head=head(violation, column.record.transcripts),
        curl=safe_curl(transcript, CURL) if transcript else "",
        known=known,
    )


def _entry(outcome: Outcome, column: Column, seen: set[str]) -> EntryView:
    shown = [v for v in outcome.failing if v.violations][:CASES]
    return EntryView(
        column=safe(column.label),
        anchor=f"f-{slug(outcome.rule)}-{column.id}",
        cases=[_case(v, column, seen) for v in shown],
        more=[safe(v.case) for v in outcome.failing if v not in shown],
        judged=sum(1 for v in outcome.verdicts if v.status in (Status.PASS, Status.FAIL)),
        failed=len(outcome.failing),
    )


def _next_step(cols: Sequence[Column], level: str) -> str:
    """What to do next, in one or two sentences."""
    gating = {o.rule for c in cols for o in c.summary.gating}
    warnings = {o.rule for c in cols for o in c.summary.warnings}
    errors = {o.rule for c in cols for o in c.summary.outcomes if o.status is Status.ERROR}
    if any(c.record.crashed for c in cols):
        return "Run again what did not end, before anything is concluded: rules that were not reached count as nothing."
    if gating:
        which = "the failure" if len(gating) == 1 else f"the {len(gating)} failures"
        return f"Start with {which} below: each shows the bytes that break the rule and a curl line that repeats it."
    if errors:
        return "Some rules could not be judged for an error of ours or a lost connection: see below, and run it again."
    if not all(c.summary.judged for c in cols):
        return "Nothing was shown, so this is no success: check the selection and what was recorded."
    if warnings:
        gate = "SHOULD and MAY" if level == "must" else "MAY"
        return f"Nothing fails at the level {level}. The warnings below ({gate} rules) show where clients may differ."
    return f"Nothing to do: no rule is broken at the level {level}."


def _sentence(cols: Sequence[Column]) -> str:
    if len(cols) == 1:
        return cols[0].summary.sentence
    bad = sum(1 for c in cols if c.summary.gating)
    if bad:
        verb = "breaks" if bad == 1 else "break"
        return f"{bad} of {len(cols)} targets {verb} rules at the level {cols[0].level}."
    if all(c.summary.exit is Exit.OK for c in cols):
        return f"All {len(cols)} targets keep the rules at the level {cols[0].level}."
    return f"No rule was seen broken, but not all of the {len(cols)} targets could be judged."


def _facts(column: Column, total: int) -> list[tuple[str, str]]:
    header, end = column.record.header, column.record.end or {}
    cost: Mapping[str, Any] = end.get("cost") or {}
    engine = " ".join(part for part in column.record.engine if part)

    def number(name: str, unit: str = "") -> str:
        return f"{cost[name]:,.0f}{unit}".replace(",", "\u202f") if name in cost else "not known"

    selection = header.get("selection") or {}
    suites = ", ".join(map(str, selection.get("suites") or [])) or "all suites"
    facts = [
        ("Target", (header.get("target") or {}).get("url", "")),
        ("Engine", engine),
        ("Model", (header.get("model") or {}).get("id", "")),
        ("Rules judged", f"{column.summary.judged} of {total} selected ({suites})"),
        ("Requests", number("requests")),
        ("Prompt tokens", number("prompt_tokens")),
        ("Completion tokens", number("completion_tokens")),
        ("Seconds", f"{cost['seconds']:.1f}" if "seconds" in cost else "not known"),
        ("Started", str(header.get("started", "")).replace("T", " ")),
        ("Tool", f"wireproof {header.get('tool', '')}"),
        ("Level", column.level),
        ("Recorded", selection.get("mode", "")),
        *contract(column.record),
    ]
    return [(name, safe(value, TEXT)) for name, value in facts]


def _counts(column: Column) -> list[tuple[str, dict[str, int]]]:
    """For each level and for all: how many rules came to each word of LETTERS."""
    table = []
    lines = column.record.rules
    known = {**{n: str(x["level"]) for n, x in lines.items()}, **{o.rule: o.level for o in column.summary.outcomes}}
    pool = [n for n in known if lines.get(n, {}).get("checked", True)]
    for level in (*LEVELS, "all"):
        found = [column.word(name) for name in pool if level in ("all", known[name])]
        table.append((level, {word: found.count(word) for word in LETTERS}))
    return table


def _reasons(cols: Sequence[Column], status: Status) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Reasons with the (rule, anchor, column) that have them, most common first."""
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for column in cols:
        for outcome in column.summary.outcomes:
            if outcome.status is status:
                reason = safe(outcome.reason, TEXT) or "no reason was given"
                anchor = f"r-{slug(outcome.rule)}-{column.id}"
                groups.setdefault(reason, []).append((safe(outcome.rule, 0), anchor, safe(column.label)))
    return sorted(groups.items(), key=lambda g: -len(g[1]))


def _ended_badly(cols: Sequence[Column]) -> list[tuple[str, str]]:
    ends = [(c.label, c.record.end or {}) for c in cols]
    return [(safe(label), safe(end["error"], TEXT)) for label, end in ends if end.get("error")]


def _cell(column: Column, name: str) -> RuleCell:
    word = column.word(name)
    href = f"m-{slug(name)}"
    if word in ("fail", "warning"):
        href = f"f-{slug(name)}-{column.id}"
    elif word in ("error", "inconclusive", "unsupported"):
        href = f"r-{slug(name)}-{column.id}"
    return RuleCell(LETTERS[word], word, href, safe(column.label))


def page(cols: Sequence[Column], level: str, fault_matrix: Mapping[str, Sequence[str]] | None) -> dict[str, Any]:
    """Everything that the page shows."""
    lines = rule_lines(cols)
    faults = {name: list(line.get("faults") or []) for name, line in lines.items()}
    if fault_matrix is not None:
        faults = {name: list(fault_matrix.get(name, ())) for name in lines}
    views = {name: rule_view(line, faults[name]) for name, line in lines.items()}
    rules = observable(lines)
    cells = {name: [_cell(c, name) for c in cols] for name in rules}

    failures = []
    for wanted in LEVELS:
        for name in rules:
            failing = [c for c in cols if (o := c.outcomes.get(name)) and o.status is Status.FAIL]
            if failing and views[name].level == wanted:
                word = failing[0].word(name)
                seen: set[str] = set()
                entries = [_entry(c.outcomes[name], c, seen) for c in failing]
                failures.append(FailureView(views[name], word, LETTERS[word], entries))

    areas: dict[str, list[tuple[RuleView, list[RuleCell]]]] = {}
    for name in rules:
        areas.setdefault(views[name].area, []).append((views[name], cells[name]))
    totals = [sum(1 for line in c.record.rules.values() if line.get("checked", True)) for c in cols]
    counts = [_counts(c) for c in cols]
    return {
        "sentence": _sentence(cols),
        "sentences": [(safe(c.label), c.summary.sentence) for c in cols] if len(cols) > 1 else [],
        "next_step": _next_step(cols, level),
        "crashed": [safe(c.label) for c in cols if c.record.crashed],
        "ended_badly": _ended_badly(cols),
        "bad": any(c.summary.exit for c in cols),
        "columns": [safe(c.label) for c in cols],
        "facts": [_facts(c, total) for c, total in zip(cols, totals, strict=True)],
        "words": [(w, x) for w, x in LETTERS.items() if w != "not-judged" or any(c[-1][1][w] for c in counts)],
        "counts": [(safe(c.label), table) for c, table in zip(cols, counts, strict=True)],
        "failures": failures,
        "matrix": [
            (safe(title), [(name, areas[name]) for name in map(safe, members)])
            for title, members in by_endpoint(lines, rules)
        ],
        "differing": [(views[n], cells[n]) for n in differing(cols, rules)] if len(cols) > 1 else [],
        "unjudged": [
            (status.value, LETTERS[status.value], _reasons(cols, status))
            for status in (Status.ERROR, Status.INCONCLUSIVE, Status.UNSUPPORTED)
        ],
        "unobservable": [views[n] for n, line in lines.items() if not line.get("checked", True)],
        "proven": [views[n] for n in rules if views[n].faults],
        "unproven": [views[n] for n in rules if not views[n].faults],
    }
