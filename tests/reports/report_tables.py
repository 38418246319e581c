"""Outcome tables written by hand, of the size that a run makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from report_records import HOSTILE, hostile, record, transcript

from wireproof.stored.run_record import RunRecord, validate
from wireproof.tables.table import Cell, Effect, Row, Table, as_json
from wireproof.wire.transcript import Transcript

KEYWORDS: dict[str, tuple[str, ...]] = {
    "string": ("pattern", "format", "minLength", "maxLength", "enum", "const"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "enum", "const"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "enum", "const"),
    "array": (
        "items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains",
        "unevaluatedItems",
    ),
    "object": (
        "required", "properties", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
        "maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
    ),
    "any": ("type", "anyOf", "allOf", "oneOf", "not", "if", "$ref", "$defs", "nullable"),
}  # fmt: skip
MANY = {"pattern": 8, "format": 14, "enum": 3, "const": 2, "anyOf": 5, "allOf": 5, "oneOf": 5, "$ref": 8, "type": 9}
IGNORED = ("number-multipleOf", "array-uniqueItems", "any-not", "string-format-3")
REFUSED = ("array-contains", "array-minContains", "object-propertyNames", "any-if", "string-format-7")
CHOICES = {
    "none": ("text · stop", "text · stop"),
    "auto": ("get_weather · tool_calls", "text · stop"),
    "required": ("get_weather, get_time · tool_calls", "get_weather, get_time · tool_calls"),
    "named": ("get_weather · stop", "get_time · stop"),
    "named, unknown": ("400 no tool is called nope", "400 no tool is called nope"),
}
LEGEND = (
    "Each schema was sent with strict: true and a prompt that asks for an answer that violates it. held: the answer is "
    "valid; refused: a 4xx that says so; ignored: 200 with an invalid answer, the only finding; unclear: cut, or no "
    "answer."
)


def keywords(
    ignored: Sequence[str] = IGNORED, refused: Sequence[str] = REFUSED, ways: Mapping[str, int] | None = None
) -> Table:
    """A table of some 130 schemas; every seventh is streamed, every fifth is sent as a tool."""
    rows: list[Row] = []
    sent = 0
    every = ways or {"plain": 1, "stream": 7, "tool": 5}
    for kind, names in KEYWORDS.items():
        for keyword in names:
            many = MANY.get(keyword, 2)
            for number in range(many):
                name = f"{kind}-{keyword}" + (f"-{number}" if number else "")
                cells = {}
                for way, step in every.items():
                    if len(rows) % step == 0:
                        cells[way] = _cell(name, ignored, refused, f"k{sent}")
                        sent += 1
                rows.append(Row(name, (keyword, kind, name), cells))
    return Table("keywords", "JSON Schema keywords", LEGEND, ("keyword", "type", "schema"), tuple(every), tuple(rows))


def _cell(name: str, ignored: Sequence[str], refused: Sequence[str], sent: str) -> Cell:
    if name in ignored:
        return Cell(Effect.IGNORED, f'{{"value": [7, 7]}}: {name.split("-")[1]}', sent)
    if name in refused:
        return Cell(Effect.REFUSED, f"400 the keyword {name.split('-')[1]} is not supported", sent)
    if name == "any-$ref-5":
        return Cell(Effect.UNCLEAR, 'cut by max_tokens: {"value": {"next": {"next": {"next"', sent)
    return Cell(Effect.HELD, '{"value": "ffff-00"}', sent)


def choices() -> Table:
    """What each tool_choice came to."""

    def outcome(text: str) -> Effect:
        if text.startswith("400"):
            return Effect.REFUSED
        return Effect.IGNORED if "get_time · stop" in text else Effect.HELD

    rows = []
    for name, texts in CHOICES.items():
        sent = zip(("plain", "stream"), texts, strict=True)
        rows.append(Row(name, (name,), {way: Cell(outcome(t), t, f"c-{name}-{way}") for way, t in sent}))
    legend = "What each tool_choice came to."
    return Table("tool-choice", "tool_choice", legend, ("tool_choice",), ("plain", "stream"), tuple(rows))


def with_tables(made: RunRecord, *tables: Table) -> RunRecord:
    """A record with tables, and a transcript for each of their cells."""
    for table in tables:
        validate({"kind": "table", **as_json(table)})
    cells = [(f"{row.name} {way}", cell) for t in tables for row in t.rows for way, cell in row.cells.items()]
    sent = {cell.transcript: _exchange(cell, name) for name, cell in cells}
    return replace(made, tables=tables, transcripts={**made.transcripts, **sent})


def _exchange(cell: Cell, name: str) -> Transcript:
    body = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"' + cell.text.encode() + b'"}}]}'
    schema = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
    form = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}
    asked = {"model": "tiny", "messages": [{"role": "user", "content": f"Say: {name}"}], "response_format": form}
    return transcript(cell.transcript, name, [body], asked)


def tabled(version: str = "0.11.2", **changes: object) -> RunRecord:
    """A record with both tables."""
    return with_tables(record(version), keywords(**changes), choices())  # type: ignore[arg-type]


def hostile_tables() -> RunRecord:
    """Tables in which everything that a target can choose, and everything else, is an attack."""
    cells = {w: Cell(o, HOSTILE * 20, f"{HOSTILE}-{o}") for w, o in zip(("plain", HOSTILE), Effect, strict=False)}
    ignored = {"plain": Cell(Effect.IGNORED, HOSTILE, "evil")}
    rows = (Row(HOSTILE, (HOSTILE, HOSTILE, HOSTILE), cells), Row("x", (HOSTILE, "", "x"), ignored))
    grouped = Table(HOSTILE, HOSTILE, HOSTILE, (HOSTILE, HOSTILE, HOSTILE), ("plain", HOSTILE), rows)
    flat = replace(grouped, id="flat", heads=(HOSTILE,), rows=tuple(replace(r, labels=(r.name,)) for r in rows))
    return with_tables(hostile(), grouped, flat)
