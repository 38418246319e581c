"""`wireproof run` and what follows from its record, against the bundled server over sockets."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wireproof.reference_server.config import Config
from wireproof.reference_server.player import serve_in_thread
from wireproof.stored import run_record

from .helpers import Done, no_traceback, wireproof

FAULT = "done.missing"
BROKEN = "done.marker.exact"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve_in_thread(Config()) as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def full(url: str, folder: Path) -> Done:
    """One run of everything, with all that it can write."""
    files = ("-o", "out/run.jsonl", "--html", "out/report.html", "--junit", "out/junit.xml")
    return wireproof("run", url, *files, cwd=folder)


def outcomes(path: Path) -> dict[str, Counter[str]]:
    """Rule -> how many cases came to what."""
    found: dict[str, Counter[str]] = {}
    for verdict in run_record.read(path).verdicts:
        found.setdefault(verdict.rule, Counter())[verdict.status.value] += 1
    return found


def test_a_right_server_is_found_right(full: Done, folder: Path) -> None:
    assert full.code == 0, full.text
    assert full.err == ""
    assert " 0 fail" in full.out
    assert "Run record: out/run.jsonl, HTML report: out/report.html, JUnit XML: out/junit.xml" in full.out
    record = run_record.read(folder / "out" / "run.jsonl")
    assert record.end is not None
    assert record.end["exit"] == 0
    assert "error" not in record.end
    assert record.end["cost"]["requests"] == len(record.transcripts) > 50
    assert record.header["engine"] == {"name": "wireproof", "version": "0.1.0", "order": "pep440"}
    assert record.header["model"] == {"id": "tiny-reference"}


def test_reports_are_written(full: Done, folder: Path) -> None:
    assert full.code == 0
    page = folder.joinpath("out", "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert BROKEN in page
    root = ET.parse(folder / "out" / "junit.xml").getroot()
    names = {case.get("name") for case in root.iter("testcase")}
    assert names == set(run_record.read(folder / "out" / "run.jsonl").rules)


def test_the_record_is_judged_again_with_the_same_outcomes(full: Done, folder: Path) -> None:
    assert full.code == 0
    done = wireproof("check", "out/run.jsonl", "-o", "out/again.jsonl", cwd=folder)
    assert done.code == 0, done.text
    assert outcomes(folder / "out" / "again.jsonl") == outcomes(folder / "out" / "run.jsonl")


def test_a_fault_fails_the_run_and_shows_where(folder: Path) -> None:
    files = ("-o", "fault.jsonl", "--html", "fault.html", "--junit", "fault.xml")
    done = wireproof("run", "--reference", "--fault", FAULT, "--suite", "done,sse.line", *files, cwd=folder)
    assert done.code == 1, done.text
    assert f"FAIL  {BROKEN}  (MUST, DONE-001)" in done.out
    for part in ("expected", "got", "bytes", ">>>", "<<<", "curl -isN http://127.0.0.1:", "source"):
        assert part in done.out
    record = run_record.read(folder / "fault.jsonl")
    assert record.end is not None
    assert record.end["exit"] == 1
    assert record.end["counts"]["fail"] == 1
    failed = ET.parse(folder / "fault.xml").getroot().findall(".//testcase/failure/..")
    assert [case.get("name") for case in failed] == [BROKEN]
    again = wireproof("check", "fault.jsonl", cwd=folder)
    assert again.code == 1
    assert f"FAIL  {BROKEN}" in again.out


def test_a_should_rule_fails_the_run_only_when_asked(url: str) -> None:
    faulty = url.replace("/v1", "/fault/sse.cacheable/v1")
    warned = wireproof("run", faulty, "--suite", "sse.header.no-cache")
    failed = wireproof("run", faulty, "--suite", "sse.header.no-cache", "--level", "should")
    assert (warned.code, failed.code) == (0, 1), warned.text + failed.text
    assert "WARN  sse.header.no-cache" in warned.out
    assert "FAIL  sse.header.no-cache" in failed.out


@pytest.mark.parametrize(
    ("suite", "expected"),
    [("done.marker.exact", 1), ("DONE-001,done-003", 2), ("done.marker", None), ("usage.total.sum,done", None)],
)
def test_suites_are_chosen_by_area_id_prefix_and_number(
    url: str, tmp_path: Path, suite: str, expected: int | None
) -> None:
    done = wireproof("run", url, "--suite", suite, "-o", tmp_path / "r.jsonl", "--html", tmp_path / "r.html")
    assert done.code == 0, done.text
    record = run_record.read(tmp_path / "r.jsonl")
    listed = wireproof("list", "--json", "--suite", suite)
    ids = {entry["id"] for entry in json.loads(listed.out)}
    assert set(record.rules) == ids == {v.rule for v in record.verdicts}
    assert expected is None or len(ids) == expected


def test_without_a_record_only_the_reports_are_left(url: str, tmp_path: Path) -> None:
    done = wireproof("run", url, "--suite", "done", "--junit", "j.xml", cwd=tmp_path, TMPDIR=str(tmp_path))
    assert done.code == 0
    assert [p.name for p in tmp_path.iterdir()] == ["j.xml"]
    assert "JUnit XML: j.xml" in done.out
    assert "Run record" not in done.out


def test_report_of_one_and_of_several_records(full: Done, folder: Path) -> None:
    assert full.code == 0
    one = wireproof("report", "out/run.jsonl", cwd=folder)
    assert one.code == 0
    assert "The target keeps all" in one.out
    files = ("--html", "two.html", "--markdown", "two.md", "--json", "two.json", "--junit", "two.xml")
    two = wireproof("report", "out/run.jsonl", "out/run.jsonl", *files, cwd=folder)
    assert (two.code, two.err) == (0, ""), two.text
    assert "What differs" in folder.joinpath("two.md").read_text(encoding="utf-8")
    matrix = json.loads(folder.joinpath("two.json").read_text(encoding="utf-8"))
    assert BROKEN in json.dumps(matrix)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda lines: [*lines[:3], "{garbage", *lines[3:]], "line 4: not JSON"),
        (lambda lines: [*lines[:3], "[1]", *lines[3:]], "line 4: not a JSON object"),
        (lambda lines: [lines[0], '{"kind":"verdict","rule":1}', *lines[1:]], "line 2: a verdict line breaks"),
        (lambda lines: ['{"a":1}', *lines[1:]], "is not a wireproof run record"),
        (lambda lines: ["\x00\x01\x02"], "line 1: not JSON"),
        (lambda lines: [], "is empty"),
        (lambda lines: [lines[0].replace("run/1", "run/9"), *lines[1:]], "update wireproof"),
    ],
)
def test_a_garbage_record_is_refused_with_its_line(
    full: Done, folder: Path, tmp_path: Path, change: Callable[[list[str]], list[str]], says: str
) -> None:
    assert full.code == 0
    lines = folder.joinpath("out", "run.jsonl").read_text(encoding="utf-8").splitlines()
    tmp_path.joinpath("bad.jsonl").write_text("\n".join(change(lines)), encoding="utf-8")
    done = wireproof("report", "bad.jsonl", cwd=tmp_path)
    assert done.code == 2, done.text
    assert says in done.message
    assert "bad.jsonl" in done.message
    no_traceback(done)


def test_a_record_that_is_cut_off_is_shown_as_a_crashed_run(full: Done, folder: Path, tmp_path: Path) -> None:
    assert full.code == 0
    text = folder.joinpath("out", "run.jsonl").read_text(encoding="utf-8")
    tmp_path.joinpath("cut.jsonl").write_text(text[: len(text) * 9 // 10], encoding="utf-8")
    done = wireproof("report", "cut.jsonl", "--html", "cut.html", cwd=tmp_path)
    assert done.code == 0, done.text
    page = tmp_path.joinpath("cut.html").read_text(encoding="utf-8")
    assert "footer" in page or "crashed" in page
