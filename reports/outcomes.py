"""Outcome tables side by side: what each record shows for each row, the findings first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wireproof.stored.run_record import RunRecord
from wireproof.tables.table import Cell, Effect, Row, Table

# From the only finding to nothing to say.
ORDER = (Effect.IGNORED, Effect.REFUSED, Effect.UNCLEAR, Effect.HELD)
# Symbol beside the word: never colour alone.
SYMBOLS = {Effect.IGNORED: "✗", Effect.REFUSED: "⊘", Effect.UNCLEAR: "?", Effect.HELD: "✓"}


@dataclass(frozen=True)
class Found:
    """One cell with the row and the way of asking that it belongs to."""

    row: Row
    way: str
    cell: Cell

    @property
    def outcome(self) -> Effect:
        """What became of it."""
        return self.cell.outcome


@dataclass(frozen=True)
class Line:
    """A row of the comparison: for each record that has the table its cells, none where it has no such row."""

    name: str
    found: tuple[tuple[Found, ...], ...]

    @property
    def worst(self) -> Effect:
        """The outcome nearest to a finding in any record."""
        return worst([f for each in self.found for f in each])


@dataclass(frozen=True)
class Compared:
    """One table of the records that have it. `grouped`: its rows are grouped by their first label, the keyword."""

    id: str
    title: str
    legend: str
    head: str
    grouped: bool
    tables: Mapping[int, Table]  # by the number of their record
    lines: tuple[Line, ...]


def cells(table: Table) -> list[Found]:
    """The cells of a table by row, each row in the order of the table's columns."""
    return [Found(row, way, row.cells[way]) for row in table.rows for way in _ways(table, row)]


def _ways(table: Table, row: Row) -> list[str]:
    """The ways in which a row was asked; those that the table does not name come last."""
    return [w for w in table.columns if w in row.cells] + [w for w in row.cells if w not in table.columns]


def group(row: Row) -> str:
    """What rows are grouped by."""
    return row.labels[0] if row.labels else row.name


def headed(text: str) -> str:
    """A label as the head of a column: a word begins with a capital, a name stays as it is."""
    return text[:1].upper() + text[1:] if text.replace(" ", "").isalpha() else text


def worst(found: Iterable[Found]) -> Effect:
    """The outcome that is nearest to a finding."""
    outcomes = {f.outcome for f in found}
    return next((o for o in ORDER if o in outcomes), Effect.UNCLEAR)


def share(found: Sequence[Found]) -> str:
    """How many of the cells came to the worst outcome; empty when all did."""
    many = sum(f.outcome is worst(found) for f in found)
    return "" if many == len(found) else f"{many} of {len(found)}"


def merged(found: Sequence[Found]) -> list[tuple[str, Found]]:
    """Cells of one row with their ways of asking; ways that came to the same are one, and unnamed when all did."""
    same: dict[tuple[Effect, str], list[Found]] = {}
    for f in found:
        same.setdefault((f.outcome, f.cell.text), []).append(f)
    return [("" if len(same) == 1 else ", ".join(f.way for f in each), each[0]) for each in same.values()]


def compared(records: Sequence[RunRecord]) -> list[Compared]:
    """Every table that some record has; its lines with what is ignored anywhere first."""
    ids = dict.fromkeys(table.id for record in records for table in record.tables)
    return [_compared(records, name) for name in ids]


def _compared(records: Sequence[RunRecord], name: str) -> Compared:
    tables = {n: t for n, record in enumerate(records) for t in record.tables if t.id == name}
    first = next(iter(tables.values()))
    by_record: list[dict[str, list[Found]]] = []
    for table in tables.values():
        by_record.append({})
        for found in cells(table):
            by_record[-1].setdefault(group(found.row), []).append(found)
    names = dict.fromkeys(row for each in by_record for row in each)
    lines = [Line(row, tuple(tuple(each.get(row, ())) for each in by_record)) for row in names]
    lines.sort(key=lambda line: line.worst is not Effect.IGNORED)
    head = first.heads[0] if first.heads else ""
    return Compared(name, first.title, first.legend, headed(head), len(first.heads) > 1, tables, tuple(lines))


def as_json(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """The comparison as the matrix has it in JSON: a cell for each record, null where nothing was recorded."""

    def each_record(table: Compared, values: Iterable[Any]) -> list[Any]:
        known = dict(zip(table.tables, values, strict=True))
        return [known.get(number) for number in range(len(records))]

    return [
        {
            "id": table.id,
            "title": table.title,
            "counts": each_record(table, (t.counts() for t in table.tables.values())),
            "rows": [
                {"name": line.name, "cells": each_record(table, (_cell_json(f) if f else None for f in line.found))}
                for line in table.lines
            ],
        }
        for table in compared(records)
    ]


def _cell_json(found: Sequence[Found]) -> dict[str, Any]:
    outcomes = [f.outcome for f in found]
    counts = {o.value: outcomes.count(o) for o in Effect if o in outcomes}
    return {"outcome": worst(found).value, "counts": counts}
