"""Settings in a file: what they set, who wins, what every report shows, and mistakes in them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wireproof.reference_server import player
from wireproof.reference_server.config import Config

from .helpers import Done, command

CONTRACT = """
target = "{url}"
suite = ["done", "http.request-id.present", "usage.total.sum"]
level = "must"
[raise]
"http.request-id.present" = "support finds answers by it"
[drop]
"usage.total.sum" = "the gateway counts <otherwise>"
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with player.serve_in_thread(Config()) as found:
        yield found


def wireproof(cwd: Path, *words: object) -> Done:
    return command(sys.executable, "-m", "wireproof.cli", *words, cwd=cwd)


def contract(folder: Path, url: str, name: str = "wireproof.toml") -> Path:
    text = CONTRACT.format(url=url)
    if name == "pyproject.toml":
        head, _, tables = text.partition("[raise]")
        text = "[tool.wireproof]" + head + "[tool.wireproof.raise]" + tables.replace("[drop]", "[tool.wireproof.drop]")
    folder.joinpath(name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["wireproof.toml", "pyproject.toml"])
def test_a_contract_is_found_from_below_and_shown_everywhere(name: str, url: str, tmp_path: Path) -> None:
    below = contract(tmp_path, url.replace("/v1", "/fault/http.no-request-id/v1"), name) / "a" / "b"
    below.mkdir(parents=True)
    outputs = ("-o", "run.jsonl", "--html", "r.html", "--junit", "r.xml")
    done = wireproof(below, "run", *outputs)
    assert done.code == 1, done.text
    assert f"Settings: {tmp_path / name}" in done.out
    assert "FAIL  http.request-id.present  (MUST" in done.text, "it is a SHOULD without the file"
    assert "Dropped: usage.total.sum: the gateway counts <otherwise>" in done.text
    lines = [json.loads(line) for line in below.joinpath("run.jsonl").read_text(encoding="utf-8").splitlines()]
    selection = lines[0]["selection"]
    assert selection["settings"] == name and set(selection["raised"]) == {"http.request-id.present"}
    assert selection["dropped"] == {"usage.total.sum": "the gateway counts <otherwise>"}
    judged = {line["rule"] for line in lines if line["kind"] == "verdict"}
    assert "usage.total.sum" not in judged and "done.marker.exact" in judged
    html = below.joinpath("r.html").read_text(encoding="utf-8")
    assert "Raised to MUST" in html and "counts &lt;otherwise&gt;" in html
    assert "the gateway counts &lt;otherwise&gt;" in below.joinpath("r.xml").read_text(encoding="utf-8")
    shown = wireproof(below, "report", "run.jsonl")
    assert "Raised to MUST: http" in shown.text and "Dropped: usage" in shown.text
    again = wireproof(below, "check", "run.jsonl")
    assert again.code == 1 and "Dropped: usage.total.sum" in again.text


def test_the_command_line_wins(url: str, tmp_path: Path) -> None:
    contract(tmp_path, "http://127.0.0.1:9/v1")
    done = wireproof(tmp_path, "run", url, "--suite", "stop", "-o", "run.jsonl")
    assert done.code == 0, done.text
    first = json.loads(tmp_path.joinpath("run.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert first["target"]["url"] == url and first["selection"]["suites"] == ["stop"]
    nothing = wireproof(tmp_path, "run", "--settings", "none")
    assert nothing.code == 2 and "give either a URL" in nothing.message


def test_pytest_takes_them_but_wants_its_target(url: str, tmp_path: Path) -> None:
    contract(tmp_path, url)
    base = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "wireproof.plugin")
    done = command(sys.executable, *base, f"--target={url}", "--wireproof-record=run.jsonl", cwd=tmp_path)
    assert done.code == 0, done.text
    judged = tmp_path.joinpath("run.jsonl").read_text(encoding="utf-8")
    assert '"rule":"done.marker.exact"' in judged.replace('": "', '":"') and "chunk.role.first" not in judged
    tmp_path.joinpath("test_mine.py").write_text("def test_a(): pass\n", encoding="utf-8")
    alone = command(sys.executable, *base, cwd=tmp_path)
    assert alone.code == 0 and "1 passed" in alone.text and "wireproof" not in alone.text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('modle = "m"', "there is no setting 'modle'; did you mean 'model'?"),
        ("concurrency = 0", "concurrency: 0 is not a number, 1 or more"),
        ('concurrency = "4"', "concurrency: '4' is not a number"),
        ("gentle = 1", "gentle: 1 is not true or false"),
        ('level = "may"', "level: 'may' is not must or should"),
        ('api-key = "sk-1"', "name its variable, api-key-env"),
        ("target = 7", "target: 7 is not a URL"),
        (
            '[drop]\n"done.marker.exakt" = "x"',
            "'done.marker.exakt'; did you mean 'done.marker.exact'?",
        ),
        ('[raise]\n"done.marker.exact" = ""', "give the reason as text"),
        ('drop = ["done.marker.exact"]', "write a table, [drop]"),
        ('[drop]\n"a.b" = "x"\n[raise]\n"a.b" = "y"', "choose one"),
        ("[", "is not TOML"),
        ('rules = "own"', "rules: 'own' is not a list of texts"),
    ],
)
def test_a_mistake_is_one_line_that_names_file_and_key(text: str, says: str, tmp_path: Path) -> None:
    tmp_path.joinpath("wireproof.toml").write_text(text, encoding="utf-8")
    done = wireproof(tmp_path, "run", "http://127.0.0.1:9/v1")
    assert done.code == 2 and says in done.message and "wireproof.toml" in done.message, done.text


def test_what_describes_a_server_says_nothing_of_the_bundled_one(tmp_path: Path) -> None:
    text = 'target = "http://127.0.0.1:9/v1"\nmodel = "acme/large"\napi-key-env = "NO_SUCH_KEY"\nsuite = "stop"\n'
    tmp_path.joinpath("wireproof.toml").write_text(text, encoding="utf-8")
    done = wireproof(tmp_path, "run", "--reference")
    assert done.code == 0 and "keeps all 7 rules" in done.text, done.text


def test_another_file_can_be_named(url: str, tmp_path: Path) -> None:
    contract(tmp_path, url).joinpath("wireproof.toml").rename(tmp_path / "gate.toml")
    done = wireproof(tmp_path, "run", "--settings", "gate.toml")
    assert done.code == 0 and "Raised to MUST: http.request-id.present" in done.text, done.text
    missing = wireproof(tmp_path, "run", "--settings", "no.toml")
    assert missing.code == 2 and "no.toml cannot be read" in missing.message
