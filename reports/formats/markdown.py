"""A summary in Markdown for a pull request comment or $GITHUB_STEP_SUMMARY.

What came from the target stands in <code>, with every character that Markdown or GitHub
could read as markup, mention or reference written as an entity.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from wireproof.judge.summary import Outcome
from wireproof.show.text import cost_line, counts_line, safe, samples, table_line
from wireproof.stored.run_record import RunRecord

from .. import outcomes
from ..matrix import LETTERS, LEVELS, Column, columns, contract, differing, observable, rule_lines
from . import Format

FAILURES = 30  # rows; a comment on GitHub holds 65,536 characters
ROWS = 60
TEXT = 160

_SPECIAL = re.compile(r"[\\`*_{}\[\]()<>#+!|~:@&$^\"']")


def _text(value: object, limit: int = TEXT) -> str:
    return _SPECIAL.sub(lambda m: f"&#{ord(m[0])};", safe(value, limit))


def _code(value: object, limit: int = TEXT) -> str:
    shown = _text(value, limit)
    return f"<code>{shown}</code>" if shown else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [" | ".join(head), " | ".join("---" for _ in head), *(" | ".join(row) for row in rows)]
    return [f"| {line} |" for line in lines]


def render(records: Sequence[RunRecord], *, level: str = "must") -> str:
    """Sentence, counts, failing rules, and for several records what differs between them."""
    cols = columns(records, level=level)
    lines = ["## wireproof", ""]
    for column in cols:
        lines += _intro(column)
    lines += _failures(cols)
    if len(cols) > 1:
        lines += _differences(cols)
        for table in outcomes.compared([c.record for c in cols]):
            lines += _outcomes(table, cols)
    return "\n".join(lines).rstrip() + "\n"


def _intro(column: Column) -> list[str]:
    record = column.record
    target = (record.header.get("target") or {}).get("url", "")
    model = (record.header.get("model") or {}).get("id", "")
    out = [f"**{_text(column.label)}: {column.summary.sentence}**", ""]
    if record.crashed:
        out = ["**This run crashed: its record has no footer, so what follows is incomplete.**", "", *out]
    elif record.end and record.end.get("error"):
        out = [f"**This run ended with an error: {_text(record.end['error'])}**", "", *out]
    hidden = sum(1 for line in record.rules.values() if not line.get("checked", True))
    more = f", {hidden} cannot be observed" if hidden else ""
    out += [f"{counts_line(column.summary)}{more}. Target {_code(target)}, model {_code(model)}.", ""]
    if record.end:
        out[-2] += f" {cost_line(record.end['cost'])}."
    for table in record.tables:
        out += [f"{_text(table_line(table), 0)}.", ""]
    for title, text in contract(record):
        out += [f"{title}: {_text(text, 0)}.", ""]
    return out


def _failures(cols: Sequence[Column]) -> list[str]:
    lines = rule_lines(cols)
    rows: list[list[str]] = []
    for wanted in LEVELS:
        for name in observable(lines):
            for column in cols:
                outcome = column.outcomes.get(name)
                if outcome and outcome.failing and str(lines[name]["level"]) == wanted:
                    rows.append(_failure(column, outcome, len(cols) > 1))
    if not rows:
        return []
    head = ["", "Rule", "Level", *(["Engine"] if len(cols) > 1 else []), "Expected", "Got", "Case"]
    out = ["### Failures", "", *_table(head, rows[:FAILURES]), ""]
    if len(rows) > FAILURES:
        out += [f"and {len(rows) - FAILURES} more: see the HTML report.", ""]
    return out


def _failure(column: Column, outcome: Outcome, several: bool) -> list[str]:
    verdict = outcome.failing[0]
    violation = verdict.violations[0] if verdict.violations else None
    word = column.word(outcome.rule)
    case = _code(verdict.case)
    if samples(verdict):
        case += f" {samples(verdict)}"
    if len(outcome.failing) > 1:
        case += f" and {len(outcome.failing) - 1} more"
    return [
        f"{LETTERS[word]} {word}",
        _code(outcome.rule, 0),
        _text(outcome.level),
        *([_text(column.label)] if several else []),
        _text(violation.expected) if violation else "",
        _code(violation.got) if violation else "",
        case.strip(),
    ]


def _differences(cols: Sequence[Column]) -> list[str]:
    lines = rule_lines(cols)
    rules = observable(lines)
    found = differing(cols, rules)
    same = len(rules) - len(found)
    out = ["### What differs", ""]
    if found:
        head = ["Rule", "Level", *(_text(c.label) for c in cols)]
        rows = [
            [_code(name, 0), _text(lines[name]["level"]), *(f"{LETTERS[c.word(name)]} {c.word(name)}" for c in cols)]
            for name in found[:ROWS]
        ]
        out += [*_table(head, rows), ""]
        if len(found) > ROWS:
            out += [f"and {len(found) - ROWS} more: see the HTML report.", ""]
    return [*out, f"{same} of {len(rules)} rules have the same outcome in all columns.", ""]


def _outcomes(table: outcomes.Compared, cols: Sequence[Column]) -> list[str]:
    """An outcome table with a column for each record, and what was ignored anywhere first."""
    head = [_text(table.head), *(_text(cols[number].label) for number in table.tables)]
    cell = _worst if table.grouped else _each_way
    rows = [[_code(line.name), *(cell(found) for found in line.found)] for line in table.lines]
    return [f"### {_text(table.title)}", "", _text(table.legend, 0), "", *_table(head, rows), ""]


def _worst(found: Sequence[outcomes.Found]) -> str:
    if not found:
        return ""
    which = outcomes.worst(found)
    return f"{outcomes.SYMBOLS[which]} {which.value} {outcomes.share(found)}".strip()


def _each_way(found: Sequence[outcomes.Found]) -> str:
    parts = []
    for way, each in outcomes.merged(found):
        name = f"{_text(way)}: " if way else ""
        symbol = outcomes.SYMBOLS[each.outcome]
        parts.append(f"{name}{symbol} {each.outcome.value} {_code(each.cell.text, 80)}".strip())
    return "; ".join(parts)


FORMAT = Format("markdown", title="Markdown", suffix=".md", help="write Markdown (default: print it)", render=render)
