"""The published records can be read by this version, and reports come out of them."""

import functools
from pathlib import Path

import pytest

from wireproof.reports import matrix
from wireproof.reports.formats import html
from wireproof.stored.run_record import RunRecord
from wireproof.stored.run_record import read as read_record

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "published"
RECORDS = sorted(FOLDER.glob("*.jsonl.xz"))


@functools.cache
def read(path: Path) -> RunRecord:
    return read_record(path)


def test_there_are_records_of_two_engines() -> None:
    assert len({read(p).engine[0] for p in RECORDS}) >= 2


@pytest.mark.parametrize("path", RECORDS, ids=lambda p: p.stem)
def test_a_published_record_is_whole(path: Path) -> None:
    record = read(path)
    assert not record.crashed
    assert record.transcripts and record.verdicts


def test_the_matrix_has_a_column_for_each() -> None:
    records = [read(p) for p in RECORDS]
    table = matrix.matrix_json(records, level="must")
    assert len(table["columns"]) == len(RECORDS)
    assert all(len(row["cells"]) == len(RECORDS) for row in table["rows"])
    assert "<table" in html.render(records)
