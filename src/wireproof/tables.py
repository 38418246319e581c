"""Outcome tables over a recording: what each JSON Schema keyword, each tool_choice and each leaving client came to.

A table is no verdict: it shows enforced, refused and ignored side by side. The rules say which of it is a finding.
Pure functions: a recording in, tables out; reports and the run record show them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from . import asking, keywords
from .asking import Choice
from .calls import calls, legacy_call
from .exchange import Exchange
from .schema_check import violated
from .verdict import Inconclusive, NotApplicable, Unsupported, show
from .wire import strictjson
from .wire.strictjson import get


class Outcome(StrEnum):
    """What became of something that was asked for."""

    HELD = "held"  # 200, and the answer keeps to it
    REFUSED = "refused"  # a 4xx with an error envelope
    IGNORED = "ignored"  # 200, and the answer does not keep to it
    UNCLEAR = "unclear"  # nothing to tell by: cut, the model did not play along, a broken answer


@dataclass(frozen=True)
class Cell:
    """One outcome: `text` says what came (short), `transcript` is the id of its exchange."""

    outcome: Outcome
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
        return {outcome.value: found.count(outcome) for outcome in Outcome}


# The exchanges of one row, by column: one for each sample.
Samples = dict[str, list[Exchange]]
# What a cell shows when samples differ: the first of these that came.
WORST_FIRST = (Outcome.IGNORED, Outcome.REFUSED, Outcome.HELD, Outcome.UNCLEAR)


def tables(exchanges: Iterable[Exchange]) -> list[Table]:
    """The tables that the exchanges fill, empty ones left out."""
    from . import cancel_table  # (it needs the classes above)

    exchanges = list(exchanges)
    by_table: dict[str, dict[str, Samples]] = {}
    for x in exchanges:
        tags = x.transcript.tags
        if tags.get("table"):
            row = by_table.setdefault(tags["table"], {}).setdefault(tags.get("row", ""), {})
            row.setdefault(tags.get("column", "plain"), []).append(x)
    made = [
        _keyword_table(by_table.get(keywords.TABLE, {})),
        _choice_table(by_table.get(CHOICE_TABLE, {})),
        cancel_table.table(exchanges),
    ]
    return [t for t in made if t.rows]


# -- keywords ---------------------------------------------------------------------

_KEYWORD_LEGEND = (
    "Each schema was sent with strict: true and a prompt that asks for an answer that violates it. held: the answer is "
    "valid; refused: a 4xx that says so; ignored: 200 with an invalid answer, the only finding; unclear: cut, or no "
    "answer."
)


def keyword_outcome(x: Exchange) -> tuple[Outcome, str]:
    """What became of the schema of one request (response_format, or the parameters of a forced strict function)."""
    refused = _refused(x)
    if refused is not None:
        return refused
    try:
        schema, text, finish = _constrained_text(x)
    except (Inconclusive, Unsupported, NotApplicable) as reason:
        return Outcome.UNCLEAR, str(reason)[:120]
    if finish == "length":
        return Outcome.UNCLEAR, f"cut by max_tokens: {show(text, 60)}"
    parsed = strictjson.parse(text)
    if not parsed.ok:
        return Outcome.IGNORED, f"no JSON: {show(text, 60)}"
    try:
        found = violated(schema, parsed.value)
    except ValueError as error:
        return Outcome.UNCLEAR, str(error)
    if found:
        return Outcome.IGNORED, f"{show(text, 60)}: {found[0].keyword}"
    return Outcome.HELD, show(text, 60)


def _constrained_text(x: Exchange) -> tuple[Any, str, Any]:
    """Schema, text and finish_reason of the one choice that a keyword request has."""
    form = asking.response_format(x)
    if form.schema is not None:
        outcome = x.outcomes[0]
        if not isinstance(outcome.content, str):
            raise Inconclusive(f"content is {show(outcome.content, 40)}")
        return form.schema, outcome.content, outcome.finish_reason
    made = calls(x)
    declared = asking.tools(x)
    if not made:
        raise Inconclusive("no tool call")
    call = made[0]
    tool = declared.get(call.name) if isinstance(call.name, str) else None
    if tool is None or not isinstance(call.arguments, str):
        raise Inconclusive("the call has no arguments, or another name")
    return tool.parameters or {}, call.arguments, call.finish


def _refused(x: Exchange) -> tuple[Outcome, str] | None:
    """A clean refusal, or an answer that is no success at all."""
    if x.ok:
        return None
    if x.response is None:
        return Outcome.UNCLEAR, x.refusal()[:120]
    # (SGLang and old vLLM write the envelope flat; the rules for errors say what they think of that.)
    flat = get(x.parsed.value, "object") == "error"
    envelope = flat or isinstance(get(x.parsed.value, "error"), dict)
    if x.status is not None and 400 <= x.status < 500 and envelope:
        return Outcome.REFUSED, x.refusal()[:120]
    return Outcome.UNCLEAR, x.refusal()[:120]


def _keyword_table(rows: dict[str, Samples]) -> Table:
    known = keywords.load()
    order = list(known)
    made = [
        Row(name, (known[name].keyword, known[name].type, name), _cells(rows[name], keyword_outcome))
        for name in sorted((n for n in rows if n in known), key=order.index)
    ]
    columns = ("plain", "stream", "tool")
    return Table(
        keywords.TABLE, "JSON Schema keywords", _KEYWORD_LEGEND, ("keyword", "type", "schema"), columns, tuple(made)
    )


# -- tool_choice --------------------------------------------------------------------

CHOICE_TABLE = "tool-choice"
_CHOICE_LEGEND = (
    "What each tool_choice came to. held: the answer keeps to it (with auto both a call and text do); refused: a 4xx; "
    "ignored: 200 that contradicts it; unclear: cut, or no answer."
)


def choice_outcome(x: Exchange) -> tuple[Outcome, str]:
    """Whether an answer keeps to the request's tool_choice."""
    refused = _refused(x)
    if refused is not None:
        return refused
    try:
        legacy = legacy_call(x) if asking.is_legacy(x) else None
        made = [legacy] if legacy else calls(x)
        finish = x.outcomes[0].finish_reason
    except (Inconclusive, Unsupported, NotApplicable) as reason:
        return Outcome.UNCLEAR, str(reason)[:120]
    names = [c.name if isinstance(c.name, str) else "?" for c in made]
    text = f"{', '.join(dict.fromkeys(names)) or 'text'} · {show(finish, 20)}"
    choice = _asked_choice(x)
    if not x.valid:
        return Outcome.IGNORED, text
    if finish == "length" and not made:
        return Outcome.UNCLEAR, text
    if choice.kind is Choice.NONE:
        return (Outcome.IGNORED if made else Outcome.HELD), text
    allowed = all(name in choice.names for name in names)
    missing = choice.forced and not made
    return (Outcome.HELD if allowed and not missing else Outcome.IGNORED), text


def _asked_choice(x: Exchange) -> asking.ToolChoice:
    """tool_choice, or what the deprecated function_call says."""
    value = x.asked.get("function_call")
    name = get(value, "name")
    if not asking.is_legacy(x) or value is None:
        return asking.tool_choice(x)
    if isinstance(name, str):
        return asking.ToolChoice(Choice.NAMED, frozenset({name}))
    return asking.ToolChoice(Choice.NONE if value == "none" else Choice.AUTO, frozenset(asking.tools(x)))


def _choice_table(rows: dict[str, Samples]) -> Table:
    made = [Row(name, (name,), _cells(found, choice_outcome)) for name, found in rows.items()]
    return Table(CHOICE_TABLE, "tool_choice", _CHOICE_LEGEND, ("tool_choice",), ("plain", "stream"), tuple(made))


def _cells(found: Samples, judge: Callable[[Exchange], tuple[Outcome, str]]) -> dict[str, Cell]:
    out = {}
    for column, samples in found.items():
        judged = [(*judge(x), x) for x in samples]
        outcome, text, x = min(judged, key=lambda one: WORST_FIRST.index(one[0]))
        same = sum(other is outcome for other, _, _ in judged)
        some = f" ({same} of {len(judged)} samples)" if same < len(judged) else ""
        out[column] = Cell(outcome, text + some, x.transcript.id)
    return out


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
            {k: Cell(Outcome(c["outcome"]), c["text"], c["transcript"]) for k, c in row["cells"].items()},
        )
        for row in line["rows"]
    )
    return Table(line["id"], line["title"], line["legend"], tuple(line["heads"]), tuple(line["columns"]), rows)
