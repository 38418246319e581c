"""Matrix, Markdown, JUnit and the terminal."""

from __future__ import annotations

import html as entities
import io
import json
import re
from xml.etree import ElementTree as ET

import pytest
from report_records import HOSTILE, hostile, record, transcript
from rich.console import Console

from wireproof.judge.summary import summarize
from wireproof.reports import matrix
from wireproof.reports.formats import junit, markdown
from wireproof.show import terminal
from wireproof.show import text as shown
from wireproof.show.excerpt import excerpt
from wireproof.stored.run_record import RunRecord
from wireproof.verdict import Status, Verdict, Violation


def printed(made: RunRecord, *, verbose: bool = False, width: int = 100, level: str = "must") -> str:
    out = io.StringIO()
    levels = {name: r["level"] for name, r in made.rules.items()}
    console = Console(file=out, width=width)
    cost = (made.end or {}).get("cost", {})
    summary = summarize(made.verdicts, levels, level=level)
    terminal.print_summary(console, summary, made.rules, made.transcripts, cost, verbose=verbose)
    return out.getvalue()


# -- matrix -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "given", "wanted"),
    [
        ("pep440", ["0.11.2", "0.9.2", "0.11.0rc1", "nightly"], ["nightly", "0.9.2", "0.11.0rc1", "0.11.2"]),
        ("build", ["b10001", "b6123", "b999"], ["b999", "b6123", "b10001"]),
        ("exact", ["zeta", "alpha"], ["zeta", "alpha"]),
    ],
)
def test_columns_are_ordered_as_the_engine_counts(order: str, given: list[str], wanted: list[str]) -> None:
    records = [record(v, order=order) for v in given]
    assert [c.record.engine[1] for c in matrix.columns(records)] == wanted


def test_columns_of_one_version_have_different_labels() -> None:
    assert [c.label for c in matrix.columns([record(), record()])] == ["vllm 0.11.2", "vllm 0.11.2 (2)"]


def test_matrix_json_has_a_cell_for_each_rule_and_column() -> None:
    made = matrix.matrix_json([record("0.11.2", fixed=["done.marker.once-and-last"]), record("0.9.2")])
    assert made["schema"] == "wireproof/matrix/1"
    assert [c["label"] for c in made["columns"]] == ["vllm 0.9.2", "vllm 0.11.2"]
    rows = {r["rule"]: r for r in made["rows"]}
    assert len(rows) == 11 and "sampling.cache.isolated" not in rows
    old, new = rows["done.marker.once-and-last"]["cells"]
    assert old == {"status": "fail", "gates": True, "failing_cases": ["chat-stream"]}
    assert new["status"] == "pass" and new["failing_cases"] == []
    assert rows["chunk.finish.delta-empty"]["cells"][0]["gates"] is False
    json.dumps(made)


def test_a_rule_that_a_run_did_not_reach_is_not_judged() -> None:
    made = record(crashed=True)
    short = type(made)(made.header, made.rules, made.transcripts, made.verdicts[:3], None)
    cells = {r["rule"]: r["cells"][0]["status"] for r in matrix.matrix_json([short])["rows"]}
    assert cells["http.type.event-stream"] == "not-judged"


# -- markdown -----------------------------------------------------------------


def test_markdown_has_sentence_counts_and_failures() -> None:
    text = markdown.render([record()])
    assert "The target breaks 2 MUST and 1 SHOULD rules of 7 judged" in text
    assert "4 pass, 2 fail, 1 warning, 1 error, 1 inconclusive, 1 unsupported, 1 not-applicable" in text
    assert "| F fail | <code>tools.fragment.index-present</code> | MUST |" in text
    assert "fails 1 of 5 samples" in text and "212 requests" in text


def test_markdown_of_several_records_says_what_differs() -> None:
    text = markdown.render([record("0.11.2", fixed=["done.marker.once-and-last"]), record("0.9.2")])
    differs = text.split("### What differs")[1]
    assert "| <code>done.marker.once-and-last</code> | MUST | F fail | P pass |" in differs
    assert "10 of 11 rules have the same outcome" in differs


def test_markdown_takes_no_markup_from_the_target() -> None:
    text = markdown.render([hostile()])
    assert "This run crashed" in text
    rest = re.sub(r"</?code>", "", text)
    assert not re.search(r"[<>@`\[\]\x1b\u202e]", rest)
    assert "<script>alert('x')</script>" in entities.unescape(text)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {7}


# -- junit --------------------------------------------------------------------


def test_junit_counts_what_it_holds() -> None:
    root = ET.fromstring(junit.render(record()).split("\n", 1)[1])
    assert {k: root.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "12", "failures": "2", "errors": "1", "skipped": "4",
    }  # fmt: skip
    for suite in root:
        assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
    assert len({suite.get("name") for suite in root}) == len(root) == 8


def test_junit_says_the_same_as_the_terminal() -> None:
    made = record()
    root = ET.fromstring(junit.render(made).split("\n", 1)[1])
    found = root.find(".//testcase[@name='tools.fragment.index-present']/failure")
    assert found is not None and found.get("type") == "MUST"
    assert found.get("message", "").startswith("expected an integer")
    assert found.text and found.text.strip() in printed(made)


def test_a_warning_passes_in_junit_unless_the_level_is_should() -> None:
    path = ".//testcase[@name='chunk.finish.delta-empty']"
    root = ET.fromstring(junit.render(record()).split("\n", 1)[1])
    assert root.find(f"{path}/failure") is None and "warning" in (root.findtext(f"{path}/system-out") or "")
    root = ET.fromstring(junit.render(record(), level="should").split("\n", 1)[1])
    assert root.find(f"{path}/failure") is not None


def test_junit_of_a_hostile_and_crashed_run_is_still_xml() -> None:
    text = junit.render(hostile())
    root = ET.fromstring(text.split("\n", 1)[1])
    assert next(e.get("type") for e in root.iterfind("testsuite/testcase/error")) == "crashed"
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff\u202e]", text)


# -- terminal -----------------------------------------------------------------


def test_terminal_shows_every_failure_in_full_and_the_sentence_last() -> None:
    text = printed(record())
    assert text.count("FAIL  ") == 2 and text.count("WARN  ") == 1
    for wanted in (
        "DONE-003",
        "got       a fragment",
        ">>>data:",
        "<<<",
        "+0.307 s",
        "breaks    openai-python",
        "https://",
    ):
        assert wanted in text, wanted
    last = text.splitlines()[-3:]
    assert last[0].startswith("The target breaks 2 MUST")
    assert last[1].startswith("4 pass, 2 fail, 1 warning") and last[2].startswith("212 requests")


def test_the_curl_line_stays_one_line_in_any_width() -> None:
    lines = [x for x in printed(record(), width=40).splitlines() if "curl -isN" in x]
    assert lines and all(x.endswith("'") and "It" in x for x in lines)


def test_success_is_quiet() -> None:
    made = record()
    passing = tuple(Verdict(name, "chat", Status.PASS) for name, r in made.rules.items() if r["checked"])
    text = printed(type(made)(made.header, made.rules, {}, passing, made.end))
    assert len(text.splitlines()) == 3 and "keeps all 11 rules" in text


def test_reasons_are_grouped_and_capped() -> None:
    made = record()
    many = [Verdict(f"x.rule.n{n}", "c", Status.INCONCLUSIVE, reason=f"reason {n // 2}") for n in range(60)]
    big = type(made)(made.header, {}, {}, (Verdict("a.b", "c", Status.PASS), *many), made.end)
    short, long = printed(big), printed(big, verbose=True)
    assert "and 20 more reasons" in short and len(short.splitlines()) < 20
    assert "reason 29" in long and "more reasons" not in long


def test_more_than_three_cases_are_counted() -> None:
    made = record()
    violation = made.verdicts[2].violations
    name = "tools.fragment.index-present"
    cases = tuple(Verdict(name, f"case-{n}", Status.FAIL, violation) for n in range(7))
    text = printed(type(made)(made.header, made.rules, made.transcripts, cases, made.end))
    assert "case-2" in text and "case-3" not in text and "and 4 more cases" in text
    assert text.count("  expected ") == 1 and text.count("  got ") == 3 and text.count(">>>") == 1


@pytest.mark.parametrize("width", [20, 40, 100, 400])
def test_terminal_obeys_nothing_that_the_target_says(width: int) -> None:
    made = hostile()
    text = printed(made, width=width)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", text)
    assert "[bold]m[/]" in text.replace("\n", "")
    assert all(shown.safe(v.rule, 0) in text for v in made.verdicts if v.status is Status.FAIL)


@pytest.mark.parametrize("text", ["\ud800", "a\nb", "\u200e", "\ufffe", "\x1b]0;x\x07", "\U000e0041", HOSTILE])
def test_safe_is_one_line_of_plain_characters(text: str) -> None:
    assert not re.search("[\x00-\x1f\x7f-\x9f\u200e\u202e\ufffe\ud800-\udfff\U000e0041]", shown.safe(text))


def test_a_dribble_of_bytes_is_put_together() -> None:
    t = transcript("d", "s", [bytes([b]) for b in b"data: 0123456789\n\n" * 30])
    found = excerpt(Violation("x", "y", "d", (100, 140)), {"d": t})
    assert found is not None
    rows = shown.rows(found)
    assert len(rows) <= shown.ROWS and " to " in rows[0].time
    assert "".join(x for r in rows for x, marked in r.parts if marked).replace("\\n\n", "\n") == t.raw.decode()[100:140]
