"""One broken rule in full, as the terminal and JUnit show it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from rich.cells import chop_cells
from rich.text import Text

from wireproof.judge.summary import Outcome
from wireproof.show.excerpt import Excerpt, excerpt
from wireproof.show.text import clients, head, place, rows, safe, safe_curl, samples, source
from wireproof.verdict import Verdict
from wireproof.wire.transcript import Transcript

CASES = 3  # failing cases shown in full

_MARGIN, _LABEL = 2, 10


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
