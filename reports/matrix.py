"""The matrix: rules by engine version. HTML, Markdown and JSON show the same one."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from packaging.version import InvalidVersion, Version

from wireproof.judge.summary import Outcome, Summary, summarize
from wireproof.show.text import safe
from wireproof.stored.run_record import RunRecord
from wireproof.verdict import Status
from wireproof.wire.endpoints import ANY, TITLES

from . import outcomes

SCHEMA = "wireproof/matrix/1"
LEVELS = ("MUST", "SHOULD", "MAY")

# Letter and word of a cell: never colour alone.
LETTERS = {
    "pass": "P",
    "fail": "F",
    "warning": "W",
    "error": "E",
    "inconclusive": "I",
    "unsupported": "U",
    "not-applicable": "–",
    "not-judged": "·",
}


@dataclass(frozen=True)
class Column:
    """One record as a column: a label that no other column has, and its outcomes at a level."""

    id: str
    label: str
    record: RunRecord
    level: str

    @cached_property
    def summary(self) -> Summary:
        """The outcomes of the rules that can be observed."""
        levels = {name: str(line["level"]) for name, line in self.record.rules.items()}
        seen = [v for v in self.record.verdicts if _checked(self.record.rules.get(v.rule, {}))]
        return summarize(seen, levels, level=self.level, order=list(levels))

    @cached_property
    def outcomes(self) -> Mapping[str, Outcome]:
        """Outcomes by rule."""
        return {o.rule: o for o in self.summary.outcomes}

    def word(self, rule: str) -> str:
        """A key of LETTERS: the status, with a failure below the gate as "warning"."""
        outcome = self.outcomes.get(rule)
        if outcome is None:
            return "not-judged"
        if outcome.status is Status.FAIL and not outcome.gates(self.level):
            return "warning"
        return outcome.status.value


def _checked(line: Mapping[str, Any]) -> bool:
    return bool(line.get("checked", True))


def _version_key(version: str, order: str) -> tuple[Any, ...]:
    if order == "build":
        return (1, [int(digits) for digits in re.findall(r"[0-9]{1,18}", version)])
    if order == "pep440":
        try:
            return (1, Version(version))
        except InvalidVersion:
            return (0, version)  # what has no place in the order stands before it
    return (2,)  # exact: as given, the sort is stable


def columns(records: Sequence[RunRecord], *, level: str = "must") -> list[Column]:
    """The records in the order of their columns: by engine, then by version in the engine's own order."""

    def key(record: RunRecord) -> tuple[Any, ...]:
        name, version = record.engine
        order = str((record.header.get("engine") or {}).get("order") or "pep440")
        return (name.lower(), name, order, _version_key(version, order))

    out: list[Column] = []
    taken: set[str] = set()
    for number, record in enumerate(sorted(records, key=key), 1):
        label = record.label or "unknown"
        names = itertools.chain([label], (f"{label} ({n})" for n in itertools.count(2)))
        unique = next(name for name in names if name not in taken)
        taken.add(unique)
        out.append(Column(f"c{number}", unique, record, level))
    return out


def rule_lines(cols: Sequence[Column]) -> dict[str, Mapping[str, Any]]:
    """Every rule that some record has, by id, in order of definition; later versions win."""
    out: dict[str, Mapping[str, Any]] = {}
    for column in cols:
        out.update(column.record.rules)
        for verdict in column.record.verdicts:  # a verdict whose rule line is missing is still shown
            out.setdefault(verdict.rule, _bare(verdict.rule))
    return out


def _bare(rule: str) -> dict[str, Any]:
    return {"id": rule, "area": rule.split(".", 1)[0], "level": "MUST", "requirement": "", "why": "", "checked": True}


def contract(record: RunRecord) -> list[tuple[str, str]]:
    """What a team's settings changed in this run, with the reasons: (title, text)."""
    selection = record.header.get("selection") or {}
    named = (("Raised to MUST", selection.get("raised")), ("Dropped", selection.get("dropped")))
    return [
        (title, "; ".join(f"{safe(rule, 0)}: {safe(reason)}" for rule, reason in found.items()))
        for title, found in named
        if found
    ]


def by_endpoint(lines: Mapping[str, Mapping[str, Any]], rules: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Areas in groups: (title of the endpoint that most rules of the area are about, the areas), in stable order."""
    counts: dict[str, Counter[str]] = {}
    for name in rules:
        counts.setdefault(str(lines[name]["area"]), Counter())[str(lines[name].get("endpoint", ""))] += 1
    titles = {"": ANY, **{e.value: title for e, title in TITLES.items()}}
    groups: dict[str, list[str]] = {}
    for area, found in counts.items():
        endpoint = found.most_common(1)[0][0]
        groups.setdefault(titles.get(endpoint, endpoint), []).append(area)
    return list(groups.items())


def observable(lines: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Ids of the rules that a check can judge, grouped by area."""
    areas: dict[str, list[str]] = {}
    for name, line in lines.items():
        if _checked(line):
            areas.setdefault(str(line["area"]), []).append(name)
    return [name for found in areas.values() for name in found]


def differing(cols: Sequence[Column], rules: Sequence[str]) -> list[str]:
    """The rules whose outcome is not the same in all columns."""
    return [name for name in rules if len({c.word(name) for c in cols}) > 1]


def matrix_json(records: Sequence[RunRecord], *, level: str = "must") -> dict[str, Any]:
    """The matrix as JSON: columns in order, a row for each rule, a cell for each column."""
    cols = columns(records, level=level)
    lines = rule_lines(cols)
    return {
        "schema": SCHEMA,
        "level": level,
        "columns": [
            {
                "label": c.label,
                "engine": c.record.engine[0],
                "version": c.record.engine[1],
                "model": str((c.record.header.get("model") or {}).get("id", "")),
                "started": str(c.record.header.get("started", "")),
                "crashed": c.record.crashed,
                "counts": c.summary.counts,
            }
            for c in cols
        ],
        "rows": [
            {
                "rule": name,
                "level": lines[name]["level"],
                "area": lines[name]["area"],
                "cells": [_cell(c, name) for c in cols],
            }
            for name in observable(lines)
        ],
        "tables": outcomes.as_json([c.record for c in cols]),
    }


def _cell(column: Column, rule: str) -> dict[str, Any]:
    outcome = column.outcomes.get(rule)
    if outcome is None:
        return {"status": "not-judged", "gates": False, "failing_cases": []}
    return {
        "status": outcome.status.value,
        "gates": outcome.gates(column.level),
        "failing_cases": [v.case for v in outcome.failing],
    }
