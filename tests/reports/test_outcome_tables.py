"""Outcome tables in every report: the counts in a line, what was ignored by name, a grid that shows where."""

from __future__ import annotations

import html as entities
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from report_records import HOSTILE, record
from report_tables import KEYWORDS, choices, hostile_tables, keywords, tabled, with_tables
from rich.console import Console

from wireproof.judge import rules
from wireproof.judge.summary import Summary
from wireproof.record.preflight import Engine
from wireproof.record.target import parse_target
from wireproof.reference_server import memory
from wireproof.reports import matrix, outcomes
from wireproof.reports.formats import html, junit, markdown
from wireproof.run import check
from wireproof.run.run import Options, Run, header
from wireproof.scenarios.keywords import scenarios
from wireproof.show import terminal
from wireproof.show import text as shown
from wireproof.stored import run_record
from wireproof.stored.run_record import RunRecord
from wireproof.tables.all import tables
from wireproof.tables.table import Cell, Effect, Row

LINE = "JSON Schema keywords: 175 held, 7 refused, 1 unclear, 4 ignored: format, multipleOf, uniqueItems, not"
EMPTY = replace(keywords(), rows=())


def section(page: str, table: str = "keywords") -> str:
    """The section of a table, and nothing of another one."""
    return page.split(f'<section id="table-{table}">')[1].split("\n</section>")[0]


def visible(source: str) -> str:
    """The text of a piece of HTML."""
    return " ".join(entities.unescape(re.sub(r"<[^>]*>", " ", source)).split())


def rows(source: str) -> dict[str, str]:
    """The rows of the grid by name, as HTML."""
    body = source.split('<table class="grid')[1].split("</table>")[0]
    found = re.findall(r"<tr[^>]*><th scope=\"row\"><code>(.*?)</code></th>(.*?)</tr>", body, re.DOTALL)
    return {entities.unescape(name): cells for name, cells in found}


# -- one line ---------------------------------------------------------------------


def test_the_line_counts_and_names_what_was_ignored() -> None:
    assert shown.table_line(keywords()) == LINE
    assert shown.table_line(choices()) == "tool_choice: 7 held, 2 refused, 1 ignored: named"
    assert shown.table_line(keywords(ignored=(), refused=())).endswith(": 186 held, 1 unclear, 0 ignored")
    assert shown.table_line(EMPTY) == "JSON Schema keywords: 0 held, 0 ignored"


def test_the_line_stays_a_line() -> None:
    every = [row.name for row in keywords().rows]
    line = shown.table_line(keywords(ignored=every))
    assert line.endswith("minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, items and 27 more")
    for table in hostile_tables().tables:
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", shown.table_line(table))


def test_terminal_markdown_and_junit_have_the_line() -> None:
    made = tabled()
    out = io.StringIO()
    terminal.print_summary(Console(file=out, width=60), Summary((), "must"), {}, {}, {}, tables=made.tables)
    assert LINE in out.getvalue().splitlines()
    assert f"{LINE}." in entities.unescape(markdown.render([made]))
    root = ET.fromstring(junit.render(made).split("\n", 1)[1])
    found = root.find("testsuite/properties/property[@name='JSON Schema keywords']")
    assert found is not None and f"JSON Schema keywords: {found.get('value')}" == LINE


def test_a_record_without_tables_shows_none() -> None:
    page = html.render([record()])
    assert "ignored" not in page.split("<body>")[1] and 'class="lines"' not in page
    assert "ignored" not in markdown.render([record()]) + junit.render(record())
    assert matrix.matrix_json([record()])["tables"] == []


# -- HTML ---------------------------------------------------------------------------


def test_the_grid_has_a_row_for_each_keyword_with_its_schemas() -> None:
    found = rows(section(html.render([tabled()])))
    assert list(found) == list(dict.fromkeys(k for names in KEYWORDS.values() for k in names))
    plain, stream, tool = found["multipleOf"].split("</td>")[:3]
    assert visible(plain).split() == ["integer", *["✓", "held"] * 2, "number", "✗", "ignored", "✓", "held"]
    assert visible(stream) == "" and visible(tool).startswith("integer ✓ held number ✓ held")
    assert 'title="number-multipleOf, plain: ignored: {&#34;value&#34;: [7, 7]}: multipleOf"' in plain
    assert found["pattern"].count("✓") == 8 + 2 + 2


def test_what_was_ignored_comes_first_and_every_symbol_has_its_word() -> None:
    text = section(html.render([tabled()]))
    assert visible(text.split("<table")[0]).startswith(
        "JSON Schema keywords ✗ 4 ignored ⊘ 7 refused ? 1 unclear ✓ 175 held Each schema was sent with strict"
    )
    findings = text.split('<table class="plain ignored">')[1].split("</table>")[0]
    assert re.findall(r'<th scope="row"><code>(.*?)</code>', findings) == ["format", "multipleOf", "uniqueItems", "not"]
    assert text.index("plain ignored") < text.index('class="grid"') < text.index("187 exchanges behind this table")
    assert len(re.findall(r'<tr class="hot">', text)) == 4
    for symbol, word in re.findall(r"<b>(.)</b>(?:<span class=\"unseen\">)? (\w+)", text):
        assert word.isdigit() or outcomes.SYMBOLS[Effect(word)] == symbol


def test_every_outcome_leads_to_its_exchange() -> None:
    made = tabled()
    text = section(html.render([made]))
    links = set(re.findall(r'<td>.*?href="#(x[^"]*)"', text)) | set(re.findall(r'href="#(x[^"]*)"', text))
    assert len(links) == 187 == len(re.findall(r'<div class="exchange" id="(x[^"]*)">', text))
    behind = text.split('id="x1-k10-c1"')[1].split("</details>\n</details>")[0]
    assert "The answer&#39;s body" in behind or "The answer's body" in behind
    assert "curl -isN" in behind and "json_schema" in behind


def test_an_exchange_that_is_not_in_the_record_is_no_link() -> None:
    made = replace(tabled(), transcripts={})
    text = section(html.render([made]))
    assert "href" not in text and text.count("✗") > 4 and "exchanges behind" not in text


def test_tool_choice_shows_what_came() -> None:
    text = section(html.render([tabled()]), "tool-choice")
    assert [visible(cell) for cell in rows(text)["named"].split("</td>")[:2]] == [
        "✓ held get_weather · stop", "✗ ignored get_time · stop",
    ]  # fmt: skip
    assert visible(rows(text)["named, unknown"]).startswith("⊘ refused 400 no tool is called nope")
    assert "What was ignored" not in text  # the grid says it all


def test_an_empty_table_says_so_without_a_grid_of_nothing() -> None:
    text = section(html.render([with_tables(record(), EMPTY)]))
    assert "✗ 0 ignored" in visible(text) and rows(text) == {} and "exchanges behind" not in text


def test_hostile_tables_are_shown_and_do_nothing() -> None:
    page = html.render([hostile_tables()])
    assert page.count("<script>") == 1 and "<img" not in page
    assert not re.search("[\u202e\x1b\x00\x9b\ud800]", page)
    assert "<script>alert('x')</script>" in visible(page.split("<main>")[1])
    ids = re.findall(r' id="([^"]*)"', page)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", i) for i in ids) and len(ids) == len(set(ids))
    text = markdown.render([hostile_tables(), tabled()])
    assert not re.search(r"[<>@`\[\]\x1b\u202e]", re.sub(r"</?code>", "", text))
    table = [line for line in text.split("### What differs")[1].splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {3, 5}  # a name and one record; a rule, its level and both records


# -- several records ------------------------------------------------------------------


def several() -> list[RunRecord]:
    return [record("0.32.0"), tabled("0.11.2", ignored=("any-not",), refused=()), tabled("0.9.2")]


def test_several_records_are_compared_keyword_by_keyword() -> None:
    page = html.render(several())
    text = section(page)
    head = re.findall(r'<th scope="col">([^<]*)</th>', text.split('<table class="grid')[1])
    assert head == ["Keyword", "vllm 0.9.2", "vllm 0.11.2"]  # in the matrix's order; one recorded no table
    found = rows(text)
    assert list(found)[:4] == ["format", "multipleOf", "uniqueItems", "not"]
    assert visible(found["format"]) == "✗ ignored 1 of 19 ✓ held"
    assert visible(found["contains"]) == "⊘ refused 1 of 2 ✓ held"
    assert re.search(r'title="any-not, plain: ignored: [^"]*"', found["not"])
    lines = visible(page.split('<dl class="lines">')[1].split("</dl>")[0])
    assert "vllm 0.9.2 175 held, 7 refused" in lines and "vllm 0.32.0 not recorded" in lines
    choice = visible(rows(section(page, "tool-choice"))["auto"].split("</td>")[0])
    assert choice == "plain ✓ held get_weather · tool_calls stream ✓ held text · stop"


def test_the_markdown_matrix_has_a_row_for_each_keyword() -> None:
    text = entities.unescape(re.sub("</?code>", "", markdown.render(several())))
    part = text.split("### JSON Schema keywords")[1].split("###")[0]
    assert "| Keyword | vllm 0.9.2 | vllm 0.11.2 |" in part
    assert "| format | ✗ ignored 1 of 19 | ✓ held |" in part and "| $ref | ? unclear 1 of 10 |" in part
    assert part.count("\n|") == 2 + len({k for names in KEYWORDS.values() for k in names})
    choice = text.split("### tool_choice")[1]
    assert "| named | plain: ✓ held get_weather · stop; stream: ✗ ignored get_time · stop |" in choice
    assert "| none | ✓ held text · stop | ✓ held text · stop |" in choice


def test_the_json_matrix_has_a_cell_for_each_record() -> None:
    found = {t["id"]: t for t in matrix.matrix_json(several())["tables"]}
    rows_ = {r["name"]: r["cells"] for r in found["keywords"]["rows"]}
    assert rows_["not"] == [
        {"outcome": "ignored", "counts": {"held": 1, "ignored": 1}},
        {"outcome": "ignored", "counts": {"held": 1, "ignored": 1}},
        None,
    ]
    assert found["keywords"]["counts"][2] is None and found["keywords"]["counts"][0]["refused"] == 7
    json.dumps(found)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("held refused unclear ignored", Effect.IGNORED),
        ("unclear held refused", Effect.REFUSED),
        ("held unclear", Effect.UNCLEAR),
        ("held", Effect.HELD),
    ],
)
def test_the_worst_is_what_is_nearest_to_a_finding(given: str, wanted: Effect) -> None:
    row = Row("r", ("r",), {})
    found = [outcomes.Found(row, "plain", Cell(Effect(o), "", "")) for o in given.split()]
    assert outcomes.worst(found) is wanted


# -- from a recording -------------------------------------------------------------------


def test_check_makes_the_tables_of_a_record_again(tmp_path: Path) -> None:
    """Protects offline judging: what a live run shows, its record shows too."""
    path, again = tmp_path / "run.jsonl", tmp_path / "again.jsonl"
    recorded = memory.record(scenarios=[s.name for s in scenarios()][:6])
    chosen = rules.select(rules.load().values(), ["done"])
    run = Run(Options(parse_target("http://reference/v1")), chosen, {})
    run.open(path, header(chosen, mode="memory", url="", engine=Engine(), model="m", level="must", suites=()))
    run.use(recorded)
    run.finish()
    made = run_record.read(path)
    assert list(made.tables) == tables(recorded.exchanges) and made.tables[0].counts()["held"] > 0
    page = tmp_path / "again.html"
    check.check([path], chosen, record=again, html=page)
    assert run_record.read(again).tables == made.tables
    assert 'id="table-keywords"' in page.read_text(encoding="utf-8")
    check.check([path, again], chosen, record=tmp_path / "both.jsonl")
    both = run_record.read(tmp_path / "both.jsonl").tables
    assert [t.title.split("/")[-1] for t in both] == ["run.jsonl", "again.jsonl"]  # none hides the other


def test_hostile_text_is_not_lost_in_a_line() -> None:
    row = Row(HOSTILE, (HOSTILE,), {"plain": Cell(Effect.IGNORED, "", "")})
    assert "\\u202eoverride" in shown.table_line(replace(EMPTY, rows=(row,)))
