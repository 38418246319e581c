"""The wheel and the sdist: what is in them, and that an installation does what the checkout does. No network."""

from __future__ import annotations

import email
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from wireproof.judge import rules

from . import environments
from .helpers import ROOT, command, environment

pytest.importorskip("hatchling", reason="hatchling builds the wheel: it is in the dev dependencies")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment in which the wheel is installed as pip does it."""
    folder = tmp_path_factory.mktemp("installed")
    found = environments.make(folder / "venv")
    words = [
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--disable-pip-version-check",
        "--prefix",
        folder / "venv",
    ]
    done = command(found, "-m", "pip", *words, "--ignore-installed", wheel)
    assert done.code == 0, done.text
    return found


def test_what_the_wheel_holds(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = email.message_from_bytes(archive.read("wireproof-0.1.0.dist-info/METADATA"))
    assert {name.split("/")[0] for name in names} == {"wireproof", "wireproof-0.1.0.dist-info"}
    held = set(names)
    for folder in ("suites", "fixtures", "runners", "reference_server", "reports"):
        left_out = {"__pycache__", "published"}
        tracked = [p for p in ROOT.joinpath(folder).rglob("*") if p.is_file() and not left_out & set(p.parts)]
        missing = {f"wireproof/{p.relative_to(ROOT).as_posix()}" for p in tracked} - held
        assert not missing
    for name in ("py.typed", "stored/run.schema.json", "suites/pytest.ini", "fixtures/schemas/openai/LICENSE"):
        assert f"wireproof/{name}" in held
    licences = {name for name in names if ".dist-info/licenses/" in name}
    assert licences == {
        "wireproof-0.1.0.dist-info/licenses/LICENSE",
        "wireproof-0.1.0.dist-info/licenses/fixtures/schemas/openai/LICENSE",
    }
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]
    assert not [name for name in names if "docs/published" in name], "run records are megabytes"
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"


def test_the_installation_is_not_the_checkout(python: Path, tmp_path: Path) -> None:
    code = "import wireproof, sys; print(wireproof.__file__); print(len(wireproof.__path__))"
    done = command(python, "-c", code, cwd=tmp_path, env=environment())
    where, parts = done.out.split()
    assert Path(where).is_relative_to(python.parent.parent)
    assert parts == "1"
    absent = command(python, "-c", "import fixtures", cwd=tmp_path, env=environment())
    assert absent.code == 1


def test_the_same_checks_are_collected(python: Path, tmp_path: Path) -> None:
    words = ("--target=http://127.0.0.1:1/v1", "--collect-only", "-q")
    done = command(python, "-m", "pytest", *words, cwd=tmp_path, env=environment())  # through the entry point
    assert done.code == 0, done.text
    found = [line.rpartition("::")[2] for line in done.out.splitlines() if "::" in line]
    assert sorted(found) == sorted(r.id for r in rules.load().values() if r.check)


def test_the_commands_work(python: Path, tmp_path: Path) -> None:
    script = python.parent / "wireproof"
    listed = command(script, "list", "--json", cwd=tmp_path, env=environment())
    assert (listed.code, listed.err) == (0, "")
    assert [r["id"] for r in json.loads(listed.out)] == list(rules.load())
    files = ("-o", "r.jsonl", "--html", "r.html", "--junit", "r.xml")
    done = command(script, "run", "--reference", "--suite", "done", *files, cwd=tmp_path, env=environment())
    assert done.code == 0, done.text
    assert command(script, "check", "r.jsonl", cwd=tmp_path, env=environment()).code == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.html", "r.jsonl", "r.xml"]


def test_the_sdist_can_build_the_wheel_again(built: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    source = next(tmp_path.iterdir())
    assert not source.joinpath("build").exists()
    assert not source.joinpath(".venv").exists()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    again = next(tmp_path.joinpath("dist").glob("*.whl"))
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert sorted(first.namelist()) == sorted(second.namelist())
