"""The contract pages: generated parts are current, examples are real, and the example stream proves its notes."""

from __future__ import annotations

import functools
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from wireproof.docs import contract, pages
from wireproof.judge import rules
from wireproof.judge.judge import failures, judge_all
from wireproof.read.chat import Chat
from wireproof.read.recording import recording
from wireproof.stored.files import parse
from wireproof.verdict import Status, Verdict

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FILES = dict(contract.files(DOCS))
EXAMPLE = contract.example()
EXAMPLES = ROOT / "fixtures" / "examples"
# Lines that a person writes on a page; the generated list comes on top.
LONGEST = 100


def _verdicts(stream: bytes) -> dict[str, list[Verdict]]:
    """Everything about the stream, beside the plain answer to the same request."""
    both = {"stream": stream, "plain": EXAMPLES.joinpath("two_token_plain.http").read_bytes()}
    read = [replace(t, id=name) for name, data in both.items() for t in parse(data, name, EXAMPLES / name)]
    return judge_all(rules.load().values(), recording(read))


@functools.cache
def _current() -> dict[Path, str]:
    return contract.current(DOCS, rules.load().values())


# -- the example ------------------------------------------------------------------


def test_the_example_keeps_every_rule_that_applies() -> None:
    verdicts = _verdicts(EXAMPLE.data)
    assert not failures(verdicts)
    passed = {name for name, found in verdicts.items() if any(v.status is Status.PASS for v in found)}
    # Line 1 is the status: with another one other rules apply.
    assert {r for note in EXAMPLE.notes for r in note.breaks if note.line > 1} <= passed


@pytest.mark.parametrize("note", EXAMPLE.notes, ids=lambda n: f"{n.line}-{n.breaks[0]}")
def test_a_note_is_proved_by_its_change(note: contract.Note) -> None:
    assert set(note.breaks) <= failures(_verdicts(EXAMPLE.changed(note)))


def test_every_line_of_the_example_with_a_meaning_has_a_note() -> None:
    noted = {note.line for note in EXAMPLE.notes}
    plain = {number for number, line in enumerate(EXAMPLE.lines, 1) if line.strip() and number not in noted}
    assert {EXAMPLE.lines[n - 1].split(b":")[0] for n in plain} == {b"Date"}


def test_the_example_makes_two_tokens() -> None:
    (transcript,) = parse(EXAMPLE.data, "stream", EXAMPLES)
    chunks = Chat(transcript).chunks
    texts = [c.value["choices"][0]["delta"].get("content") for c in chunks if c.value["choices"]]
    assert [t for t in texts if t] == ["Hello", "!"]


# -- the pages --------------------------------------------------------------------


def test_every_area_has_its_page() -> None:
    areas = {area for page in contract.PAGES.values() for area in page}
    missing = {r.area for r in rules.load().values()} - areas
    assert not missing, f"write docs/contract/AREA.md and add it to contract_docs.PAGES: {missing}"
    assert set(FILES) == {"contract", *contract.PAGES}
    assert {p.stem for p in DOCS.joinpath("contract").glob("*.md")} == set(contract.PAGES)


@pytest.mark.parametrize("page", FILES)
def test_generated_parts_are_current(page: str) -> None:
    assert FILES[page].read_text(encoding="utf-8") == _current()[FILES[page]], "run `make docs` and commit the result"


def test_make_docs_brings_a_stale_page_up_to_date(tmp_path: Path) -> None:
    docs_folder = tmp_path / "docs"
    shutil.copytree(DOCS, docs_folder)
    stale = docs_folder / "contract" / "done.md"
    stale.write_text(
        re.sub(r"(?s)(<!-- rules:begin -->\n).*(\n<!-- rules:end -->)", r"\1old\2", stale.read_text(encoding="utf-8")),
        encoding="utf-8",
    )
    assert pages.main([str(docs_folder)]) == 0
    assert stale.read_text(encoding="utf-8") == FILES["done"].read_text(encoding="utf-8")


def test_a_page_without_its_markers_is_an_error(tmp_path: Path) -> None:
    tmp_path.joinpath("contract").mkdir()
    tmp_path.joinpath("contract", "done.md").write_text("# Done\n", encoding="utf-8")
    with pytest.raises(ValueError, match="rules:begin"):
        contract.current(tmp_path, [])


@pytest.mark.parametrize("page", contract.PAGES)
def test_a_page_is_short_and_has_its_parts(page: str) -> None:
    text = FILES[page].read_text(encoding="utf-8")
    hand = re.sub(r"(?s)<!-- rules:begin -->.*<!-- rules:end -->", "", text)
    assert len(hand.splitlines()) <= LONGEST
    headings = re.findall(r"^## (.+)$", hand, re.MULTILINE)
    wanted = ["On the wire", "What must hold", "The rules", "What goes wrong", "Who is hurt", "Configuration"]
    assert [h for h in headings if h in wanted] == wanted


@pytest.mark.parametrize("page", FILES)
def test_rules_and_files_that_a_page_names_exist(page: str) -> None:
    text = FILES[page].read_text(encoding="utf-8")
    known = rules.load()
    areas = "|".join(a for areas in contract.PAGES.values() for a in areas)
    for name in re.findall(rf"`((?:{areas})\.[a-z0-9-]+\.[a-z0-9-]+)`", text):
        assert name in known, f"{page} names the rule {name}"
    for link in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
        if "://" not in link:
            assert FILES[page].parent.joinpath(link).exists(), f"{page} links to {link}"


@pytest.mark.parametrize("page", FILES)
def test_what_a_page_quotes_is_in_the_recording(page: str) -> None:
    """`<!-- from: FILE -->` stands before a block whose lines, in order, are in that file; `[...]` leaves out."""
    text = FILES[page].read_text(encoding="utf-8")
    for name, block in re.findall(r"<!-- from: (\S+) -->\n```\w*\n(.*?)```", text, re.DOTALL):
        recorded = ROOT.joinpath(name).read_text(encoding="utf-8").replace("\r", "")
        at = 0
        for piece in re.split(r"\[\.\.\.\]|\n", block):
            if piece.strip():
                found = recorded.find(piece.strip(), at)
                assert found >= 0, f"{page}: {name} has no {piece.strip()!r} after byte {at}"
                at = found + len(piece.strip())
    assert text.count("<!-- from: ") == len(re.findall(r"<!-- from: \S+ -->\n```\w*\n", text))
