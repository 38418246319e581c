"""What CONTRIBUTING.md shows is whole: each example, put where it belongs, works without another change."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from wireproof import cli
from wireproof.read import client_outcomes
from wireproof.read.recording import recording
from wireproof.record.proxy import Tap
from wireproof.record.target import Limits, parse_target
from wireproof.reference_server import player
from wireproof.reference_server.config import Config
from wireproof.reports import formats
from wireproof.runners.clients.play import Driver, perform
from wireproof.runners.engine_files import load
from wireproof.scenarios import clients

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def shown(marker: str) -> str:
    """The block of code below a marker."""
    found = re.search(rf"<!-- {re.escape(marker)} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert found, f"CONTRIBUTING.md shows no {marker}"
    return found[1]


@pytest.mark.parametrize("name", re.findall(r"<!-- file: (\S+) -->", PAGE))
def test_what_it_quotes_is_the_file(name: str) -> None:
    assert shown(f"file: {name}") == (ROOT / name).read_text(encoding="utf-8")


def test_an_engine_is_one_file(tmp_path: Path) -> None:
    file = tmp_path / "new.toml"
    file.write_text(shown("file: runners/engines/mlx-lm.toml").replace('"mlx-lm"', '"new"', 1), encoding="utf-8")
    assert load(file).pick("new-0.32.2:copy").label == "new 0.32.2, copy"


@pytest.mark.asyncio
async def test_a_client_is_one_file_and_one_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = clients.parse(shown("example: client"), "httpx2-2.16")
    drivers = tmp_path / "drivers"
    drivers.mkdir()
    shutil.copy(ROOT / "runners" / "clients" / "drivers" / "tasks.py", drivers)
    (drivers / setup.driver).write_text(shown("example: driver"), encoding="utf-8")
    # Our own Python has httpx2, and no pydantic, of which the task needs nothing.
    (drivers / "pydantic.py").write_text("BaseModel = object\ndef ConfigDict(**more): return more\n", encoding="utf-8")
    monkeypatch.setattr(clients, "where", lambda: tmp_path)
    driver = Driver(setup, Path(sys.executable))
    async with player.serve(Config()) as url, Tap(parse_target(url), Limits.patient(10)) as tap:
        try:
            [(task, found)] = await perform(driver, tap, setup.tasks, "tiny-reference")
        finally:
            await driver.stop()
    [(answer, x)] = client_outcomes.answers(recording([replace(found, id="t1")]).takes[0])
    content = x.plain_choices[0]["message"]["content"]
    assert (task, answer["choices"][0]["content"]) == ("plain", content) and content


@pytest.fixture
def another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The format of the example, in a folder of its own."""
    (tmp_path / "broken.py").write_text(shown("example: format"), encoding="utf-8")
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path)])
    formats.load.cache_clear()
    yield
    formats.load.cache_clear()
    sys.modules.pop(f"{formats.__name__}.broken", None)


def test_a_format_is_one_module(another: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "run.jsonl"
    assert cli.main(["run", "--reference", "--fault", "done.missing", "--suite", "done", "-o", str(record)]) == 1
    capsys.readouterr()
    assert cli.main(["report", str(record), "--broken", str(tmp_path / "broken.tsv")]) == 0
    assert not capsys.readouterr().out  # without a format, it is Markdown
    assert "\tdone.marker.exact\n" in (tmp_path / "broken.tsv").read_text(encoding="utf-8")
