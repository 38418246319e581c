"""Rules of a user's own: the example of docs/OWN_RULES.md, each of its rules failing on purpose, and faulty files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from wireproof.reference_server import player
from wireproof.reference_server.config import Config

from .helpers import ROOT, Done, command

EXAMPLE = ROOT / "docs" / "examples" / "own_rules"
IDS = ("acme.header.request-id", "acme.latency.first-token", "acme.model.names")


def wireproof(*words: object, cwd: Path | None = None) -> Done:
    return command(sys.executable, "-m", "wireproof.cli", *words, cwd=cwd)


def statuses(record: Path) -> dict[str, set[str]]:
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    out: dict[str, set[str]] = {}
    for line in lines:
        if line["kind"] == "verdict":
            out.setdefault(line["rule"], set()).add(line["status"])
    return out


@pytest.fixture(scope="module")
def slow() -> Iterator[str]:
    """A server whose first token takes longer than the example's budget."""
    with player.serve_in_thread(Config(token_seconds=1.2)) as url:
        yield url


def test_a_right_server_keeps_them_live_and_offline(tmp_path: Path) -> None:
    record, html = tmp_path / "run.jsonl", tmp_path / "report.html"
    words = ("--rules", EXAMPLE, "--suite", "acme")
    done = wireproof("run", "--reference", *words, "-o", record, "--html", html)
    assert done.code == 0, done.text
    assert statuses(record) == {name: {"pass"} for name in IDS}
    assert all(name in html.read_text(encoding="utf-8") for name in IDS)
    again = wireproof("check", record, *words)
    assert again.code == 0 and "keeps all 3 rules" in again.text, again.text


@pytest.mark.parametrize(
    ("fault", "broken", "code"),
    [
        ("http.no-request-id", "acme.header.request-id", 1),
        ("models.path-as-name", "acme.model.names", 1),
    ],
)
def test_each_fails_on_purpose(fault: str, broken: str, code: int, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    words = ("--model", "tiny-reference", "--rules", EXAMPLE, "--suite", "acme", "-o", record)
    done = wireproof("run", "--reference", "--fault", fault, *words)
    assert done.code == code and f"FAIL  {broken}" in done.text, done.text
    assert {name for name, found in statuses(record).items() if "fail" in found} == {broken}


def test_the_budget_fails_on_a_slow_server(slow: str) -> None:
    done = wireproof("run", slow, "--rules", EXAMPLE, "--suite", "acme.latency.first-token", "--level", "should")
    assert done.code == 1 and "a token within 1 s" in done.text, done.text


def test_pytest_judges_the_folder_alone(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    with player.serve_in_thread(Config()) as url:
        base = url.replace("/v1", "/fault/http.no-request-id/v1")
        more = ("-p", "wireproof.plugin", f"--target={base}", f"--junitxml={report}", EXAMPLE)
        done = command(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *more, cwd=tmp_path)
    assert done.code == 1 and "1 failed, 2 passed" in done.text, done.text
    cases = {c.get("name"): c for c in ET.parse(report).getroot().iter("testcase")}
    assert set(cases) == set(IDS)
    found = {p.get("name"): p.get("value") for p in cases["acme.header.request-id"].iter("property")}
    assert found == {
        "rule": "acme.header.request-id",
        "level": "MUST",
        "source": "contract (acme runbook 12)",
        "status": "fail",
    }


def test_they_can_be_listed_and_explained() -> None:
    listed = wireproof("list", "--rules", EXAMPLE, "--suite", "acme")
    assert listed.code == 0 and all(name in listed.text for name in IDS)
    told = wireproof("explain", "acme.model.names", "--rules", EXAMPLE)
    assert told.code == 0 and "acme naming guide" in told.text


HEAD = "from wireproof.rules import MUST, RESPONSES, Exchange, contract, each_of, require, rule\n"
GOOD = (
    HEAD + '@rule("own.a.b", MUST, on=RESPONSES, source=contract())\ndef test_a(x: Exchange) -> None:\n    "It is."\n'
)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"test_a.py": HEAD + "def broken(:\n"}, "test_a.py:2: invalid syntax"),
        ({"test_a.py": HEAD + "\n1 / 0\n"}, "test_a.py:3: ZeroDivisionError"),
        ({"test_a.py": HEAD + "import no_such_module_of_ours\n"}, "test_a.py:2: ModuleNotFoundError"),
        ({"test_a.py": GOOD.replace('"It is."', "pass")}, "has no docstring"),
        ({"test_a.py": GOOD.replace("own.a.b", "done.marker.exact")}, "done.marker.exact is defined twice"),
        ({"test_a.py": GOOD, "test_b.py": GOOD}, "test_b.py:2: rule own.a.b is defined twice"),
        ({"test_a.py": GOOD.replace("on=RESPONSES,", 'on=each_of("plain-gredy"),')}, "did you mean 'plain-greedy'"),
        ({"test_a.py": GOOD, "s.toml": "[x"}, "s.toml is not TOML"),
        ({"test_a.py": GOOD, "s.toml": '[x]\nwhat = "w"\nbdy = {}\n'}, "s.toml: scenario x: unknown or missing keys"),
        ({"test_a.py": GOOD, "s.toml": '[models]\nwhat = "w"\n'}, "a scenario models is there already"),
        ({"notes.txt": "none"}, "has no rules"),
    ],
)
def test_a_faulty_folder_is_one_clear_error(files: dict[str, str], says: str, tmp_path: Path) -> None:
    for name, text in files.items():
        tmp_path.joinpath(name).write_text(text, encoding="utf-8")
    done = wireproof("run", "http://127.0.0.1:9/v1", "--rules", tmp_path)
    assert done.code == 2 and says in done.message and "Traceback" not in done.text, done.text


def test_a_name_that_is_neither_folder_nor_package() -> None:
    done = wireproof("list", "--rules", "no-such-rules")
    assert done.code == 2 and "neither a folder nor an installed package" in done.message


def test_an_installed_package_offers_its_rules(tmp_path: Path) -> None:
    """An entry point is found by the metadata beside the package, as pip leaves it."""
    package, metadata = tmp_path / "acme_wireproof", tmp_path / "acme_wireproof-1.dist-info"
    package.mkdir()
    metadata.mkdir()
    package.joinpath("__init__.py").write_text("", encoding="utf-8")
    package.joinpath("test_own.py").write_text(GOOD, encoding="utf-8")
    metadata.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: acme-wireproof\nVersion: 1\n", "utf-8")
    metadata.joinpath("entry_points.txt").write_text("[wireproof.rules]\nacme = acme_wireproof\n", encoding="utf-8")
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from wireproof.cli import main; sys.exit(main())"
    done = command(sys.executable, "-c", code, tmp_path, "list", "--rules", "acme", "--suite", "own")
    assert done.code == 0 and "own.a.b" in done.text, done.text
