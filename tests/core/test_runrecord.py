"""The run record: what is written is read back, and what is broken is refused by its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wireproof.judge.rules import MUST, Rule, contract
from wireproof.stored.run_record import SCHEMA, RecordError, Writer, parse, read, validate
from wireproof.tables.table import Cell, Effect, Row, Table
from wireproof.verdict import Status, Verdict, Violation

from .making import stream_of

HEADER: dict[str, Any] = {
    "tool": "0.1.0",
    "rules": "sha256:" + "0" * 64,
    "started": "2026-11-29T12:00:00Z",
    "target": {"url": "http://127.0.0.1:8000/v1"},
    "engine": {"name": "vllm", "version": "0.12.0"},
    "model": {"id": "m"},
    "selection": {"mode": "live", "level": "must", "suites": []},
}
RULE = Rule("done.x", MUST, "It ends.", "Clients hang.", contract("C1"), book=("DONE-001",), check=lambda x: None)
T = stream_of({"choices": []}, id="t1", scenario="a")
VERDICTS = (
    Verdict("done.x", "a", Status.FAIL, (Violation("[DONE]", "\u2028 \U0001f600", "t1", (3, 9)),), "", 3, 1),
    Verdict("done.x", "b", Status.FAIL, (Violation("x", "y"),), failed=1),
    Verdict("done.x", "", Status.NOT_APPLICABLE, reason="nothing was recorded"),
)
TABLE = Table(
    "keywords",
    "JSON Schema keywords",
    "held: the answer is valid.",
    ("keyword", "type"),
    ("plain", "stream"),
    (
        Row("a", ("pattern", "string"), {"plain": Cell(Effect.HELD, "\ud800 \u2028", "t1")}),
        Row("b", ("not", "any"), {w: Cell(o, w, "t1") for w, o in zip(("plain", "stream"), Effect, strict=False)}),
        Row("c", (), {}),
    ),
)
COST = {"requests": 1, "prompt_tokens": 2, "completion_tokens": 3, "seconds": 0.5}


def written(path: Path, *, end: bool = True) -> list[str]:
    with Writer(path, HEADER) as writer:
        writer.rule(RULE, ["done.missing"], [{"client": "openai-python", "reaction": "hangs", "case": "x"}])
        writer.transcript(T)
        for v in VERDICTS:
            writer.verdict(v, "MUST")
        if end:
            writer.end({"fail": 1}, COST, 1)
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


@pytest.fixture
def lines(tmp_path: Path) -> list[str]:
    return written(tmp_path / "run.jsonl")


def changed(lines: list[str], number: int, **members: Any) -> list[str]:
    """The lines with members of one line (from 1) replaced; None removes one."""
    value = {**json.loads(lines[number - 1]), **members}
    value = {k: v for k, v in value.items() if v is not None}
    return [*lines[: number - 1], json.dumps(value) + "\n", *lines[number:]]


def test_round_trip(tmp_path: Path) -> None:
    """Protects every report: they see what the run saw."""
    path = tmp_path / "deep" / "run.jsonl"
    written(path)
    record = read(path)
    assert record.verdicts == VERDICTS
    assert record.transcripts == {"t1": T}
    assert record.rules["done.x"]["faults"] == ["done.missing"]
    assert (record.engine, record.label, record.crashed) == (("vllm", "0.12.0"), "vllm 0.12.0", False)
    assert record.end and record.end["exit"] == 1 and record.end["cost"] == COST


@pytest.mark.parametrize("table", [TABLE, Table("empty", "", "", (), (), ())], ids=["full", "empty"])
def test_tables_round_trip(tmp_path: Path, table: Table) -> None:
    """Protects the keyword table of a report: it is what the run saw, with the counts in the record too."""
    path = tmp_path / "run.jsonl"
    with Writer(path, HEADER) as writer:
        writer.table(table)
        writer.end({}, COST, 0)
    assert read(path).tables == (table,)
    line = json.loads(path.read_text(encoding="utf-8").splitlines()[1])
    assert line["counts"] == table.counts() and set(line["counts"]) == {"held", "refused", "ignored", "unclear"}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"rows": None}, "line 2: .*rows"),
        ({"columns": "plain"}, "line 2: .*columns"),
        ({"rows": [{"name": "a", "labels": []}]}, "line 2: .*cells"),
        ({"rows": [{"name": "a", "labels": [], "cells": {"plain": {"outcome": "kept"}}}]}, "line 2: .*plain"),
        (
            {"rows": [{"name": "a", "labels": [], "cells": {"p": {"outcome": "kept", "text": "", "transcript": ""}}}]},
            "line 2: .*kept",
        ),
        ({"counts": {"held": -1}}, "line 2: .*held"),
    ],
)
def test_the_schema_refuses_a_broken_table(tmp_path: Path, members: dict[str, Any], message: str) -> None:
    """Protects reports from a table that they would misread."""
    path = tmp_path / "run.jsonl"
    with Writer(path, HEADER) as writer:
        writer.table(TABLE)
    found = path.read_text(encoding="utf-8").splitlines(keepends=True)
    with pytest.raises(RecordError, match=message):
        parse(changed(found, 2, **members))


def test_the_file_is_ascii_and_a_line_each(tmp_path: Path) -> None:
    """Protects readers that split at U+2028, and terminals."""
    found = written(tmp_path / "run.jsonl")
    assert "".join(found).isascii() and len(found) == 7


def test_lines_are_there_before_the_end(tmp_path: Path) -> None:
    """Protects what a crash leaves behind."""
    path = tmp_path / "run.jsonl"
    writer = Writer(path, HEADER)
    writer.transcript(T)
    assert len(path.read_text().splitlines()) == 2
    assert read(path).crashed
    writer.close()


def test_a_crashed_run(tmp_path: Path) -> None:
    """Protects partial results: no footer, and a last line cut anywhere."""
    whole = written(tmp_path / "run.jsonl", end=False)
    assert parse(whole).crashed
    for cut in (1, 10, len(whole[-1]) - 2):
        record = parse([*whole[:-1], whole[-1][:cut]])
        assert record.crashed and record.verdicts == VERDICTS[:-1]


def test_a_torn_line_in_the_middle_is_refused(lines: list[str]) -> None:
    """Protects against a silently shortened record."""
    with pytest.raises(RecordError, match=r"line 3: not JSON"):
        parse([*lines[:2], lines[2][:20] + "\n", *lines[3:]])


def test_blank_lines_do_not_shift_the_line_numbers(lines: list[str]) -> None:
    """Protects the number that an editor shows."""
    with pytest.raises(RecordError, match="line 6: "):
        parse([*lines[:2], "\n", "  \n", "\n", *changed(lines, 3, ending=None)[2:]])


@pytest.mark.parametrize(
    ("number", "members", "message"),
    [
        (1, {"engine": {"name": "x"}}, r"line 1: .*engine.*version"),
        (1, {"rules": "md5:1"}, "line 1: .*rules"),
        (2, {"level": "WILL"}, "line 2: .*level.*WILL"),
        (3, {"reads": [[0.0]]}, "line 3: .*reads"),
        (3, {"ending": "weird"}, "line 3: .*weird"),
        (3, {"reads": [[0.0, {"base64": "?"}]]}, "line 3: "),
        (4, {"status": "failed"}, "line 4: .*status.*failed"),
        (4, {"violations": None}, "line 4: .*violations"),
        (4, {"violations": [{"expected": "x", "got": "y", "span": [5]}]}, "line 4: .*span"),
        (7, {"exit": 9}, "line 7: .*exit"),
        (7, {"cost": {}}, "line 7: .*cost"),
    ],
)
def test_the_schema_refuses_by_line(lines: list[str], number: int, members: dict[str, Any], message: str) -> None:
    """Protects reports from records that they would misread; each line kind has a schema that can refuse."""
    with pytest.raises(RecordError, match=message):
        parse(changed(lines, number, **members))


def test_the_writer_refuses_too(tmp_path: Path) -> None:
    """Protects the file: what cannot be read is not written."""
    with pytest.raises(RecordError, match="engine"):
        Writer(tmp_path / "a.jsonl", {**HEADER, "engine": {}})
    with Writer(tmp_path / "b.jsonl", HEADER) as writer, pytest.raises(RecordError, match="violations"):
        writer.verdict(Verdict("r", "a", Status.FAIL), "MUST")
    assert len((tmp_path / "b.jsonl").read_text().splitlines()) == 1


def test_unknown_kinds_and_keys_are_ignored(lines: list[str]) -> None:
    """Protects old readers from newer writers."""
    newer = [*lines[:3], '{"kind": "weather", "sun": true}\n', *changed(lines, 4, mood="good")[3:]]
    record = parse(newer)
    assert record.verdicts == VERDICTS and [dict(x) for x in record.extra] == [{"kind": "weather", "sun": True}]


def test_another_schema_number_is_refused(lines: list[str]) -> None:
    """Protects against keys whose meaning changed, and says what to do."""
    with pytest.raises(RecordError, match=r"wireproof/run/2.*reads wireproof/run/1.*update"):
        parse(changed(lines, 1, schema="wireproof/run/2"))


@pytest.mark.parametrize("content", ["", "\n\n", "{}", "[]", "hello", '{"kind": "verdict"}', "[" * 5000])
def test_what_is_no_record_is_refused_with_advice(content: str) -> None:
    """Protects the user from a traceback."""
    with pytest.raises(RecordError):
        parse([content], "x.jsonl")


def test_two_records_in_one_file_are_refused(lines: list[str]) -> None:
    """Protects `cat a.jsonl b.jsonl`, which would mix the verdicts of two runs."""
    with pytest.raises(RecordError, match="line 8: a second header"):
        parse(lines + lines)


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    """Protects the user from a traceback; the message says what to do."""
    with pytest.raises(RecordError, match="cannot read"):
        read(tmp_path / "none.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(RecordError, match="not UTF-8"):
        read(tmp_path / "latin.jsonl")
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="choose another file"):
        Writer(tmp_path / "file" / "run.jsonl", HEADER)


def test_a_label_given_wins(lines: list[str]) -> None:
    """Protects the name of a column."""
    assert parse(changed(lines, 1, label="ours")).label == "ours"


def test_the_schema_is_the_one_the_writer_names() -> None:
    """Protects against raising one number and not the other."""
    validate({"kind": "run", "schema": SCHEMA, **HEADER})
    validate({"kind": "weather"})
