"""The outcome table: its model, and its form in the run record.

A table is no verdict: it shows enforced, refused and ignored side by side. The rules say which of it is a finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Effect(StrEnum):
    """What became of something that was asked for."""

    HELD = "held"  # 200, and the answer keeps to it
    REFUSED = "refused"  # a 4xx with an error envelope
    IGNORED = "ignored"  # 200, and the answer does not keep to it
    UNCLEAR = "unclear"  # nothing to tell by: cut, the model did not play along, a broken answer


# What a cell shows when samples differ: the first of these that came.
WORST_FIRST = (Effect.IGNORED, Effect.REFUSED, Effect.HELD, Effect.UNCLEAR)


@dataclass(frozen=True)
class Cell:
    """One outcome: `text` says what came (short), `transcript` is the id of its exchange."""

    outcome: Effect
    text: str
    transcript: str


@dataclass(frozen=True)
class Row:
    """`name` is the scenario row, `labels` say what it is about, `cells` has one for each recorded column."""

    name: str
    labels: tuple[str, ...]
    cells: dict[str, Cell]


@dataclass(frozen=True)
class Table:
    """`heads` name the labels of each row, `columns` the ways in which it was asked."""

    id: str
    title: str
    legend: str
    heads: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def counts(self) -> dict[str, int]:
        """How many cells have each outcome."""
        found = [cell.outcome for row in self.rows for cell in row.cells.values()]
        return {outcome.value: found.count(outcome) for outcome in Effect}


def as_json(table: Table) -> dict[str, Any]:
    """The table as one line of a run record."""
    return {
        "id": table.id,
        "title": table.title,
        "legend": table.legend,
        "heads": list(table.heads),
        "columns": list(table.columns),
        "rows": [
            {
                "name": row.name,
                "labels": list(row.labels),
                "cells": {
                    column: {"outcome": c.outcome.value, "text": c.text, "transcript": c.transcript}
                    for column, c in row.cells.items()
                },
            }
            for row in table.rows
        ],
        "counts": table.counts(),
    }


def from_json(line: Mapping[str, Any]) -> Table:
    """The table of a record's line (validated by the record's schema)."""
    rows = tuple(
        Row(
            row["name"],
            tuple(row["labels"]),
            {k: Cell(Effect(c["outcome"]), c["text"], c["transcript"]) for k, c in row["cells"].items()},
        )
        for row in line["rows"]
    )
    return Table(line["id"], line["title"], line["legend"], tuple(line["heads"]), tuple(line["columns"]), rows)
