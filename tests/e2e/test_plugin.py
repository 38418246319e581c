"""`pytest --target=URL` in the places where users type it, and pytest without it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from wireproof.judge import rules
from wireproof.reference_server.config import Config
from wireproof.reference_server.player import serve_in_thread

from . import environments
from .helpers import LIMIT, ROOT, Done, command, environment, no_traceback

PLUGIN = ("-p", "wireproof.plugin")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve_in_thread(Config()) as found:
        yield found


def run_pytest(*words: object, cwd: Path) -> Done:
    """pytest as it is installed here. The plugin is named, because it may not be installed."""
    installed = "wireproof.plugin" in {e.value for e in entry_points(group="pytest11")}
    env = environment(PYTHONPATH=str(ROOT / "src"))
    done = command(sys.executable, "-m", "pytest", *(() if installed else PLUGIN), *words, cwd=cwd, env=env)
    no_traceback(done)
    return done


STRANGE = """
[pytest]
python_files = check_*.py
python_functions = check_*
norecursedirs = * suites done
addopts = -ra --strict-markers --strict-config --import-mode=importlib -p no:cacheprovider
"""


@pytest.mark.parametrize("ini", [None, STRANGE], ids=["empty", "strange"])
def test_a_target_is_judged_from_any_folder(url: str, tmp_path: Path, ini: str | None) -> None:
    if ini:
        tmp_path.joinpath("pytest.ini").write_text(ini)
        tmp_path.joinpath("check_own.py").write_text("def check_own(): raise AssertionError")
    done = run_pytest(f"--target={url}", "--wireproof-suite=done,sse.line", "-q", cwd=tmp_path)
    assert done.code == 0, done.text
    assert "The target keeps all " in done.out
    expected = [r for r in rules.select(rules.load().values(), ["done", "sse.line"]) if r.check]
    passed = next(line for line in done.out.splitlines() if " passed" in line)
    assert sum(int(n) for n in passed.replace(",", "").split() if n.isdigit()) >= len(expected)


def test_all_rules_are_collected_from_a_foreign_folder(url: str, tmp_path: Path) -> None:
    tmp_path.joinpath("pytest.ini").write_text(STRANGE)
    done = run_pytest(f"--target={url}", "-q", "--collect-only", cwd=tmp_path)
    assert done.code == 0, done.text
    found = {line.rpartition("::")[2] for line in done.out.splitlines() if "::" in line}
    assert found == {r.id for r in rules.load().values() if r.check}


def test_from_the_checkout(url: str) -> None:
    done = run_pytest(f"--target={url}", "-q", "-k", "done.marker", "-p", "no:cacheprovider", cwd=ROOT)
    assert done.code == 0, done.text
    assert "4 passed" in done.out
    by_mark = run_pytest(f"--target={url}", "-q", "-m", "must and done", "-p", "no:cacheprovider", cwd=ROOT)
    assert by_mark.code == 0, by_mark.text
    one = "suites/done/test_marker.py::done.marker.exact"
    by_node = run_pytest(f"--target={url}", one, "-q", "-p", "no:cacheprovider", cwd=ROOT)
    assert by_node.code == 0, by_node.text
    assert "1 passed" in by_node.out


def test_suites_without_a_target_are_skipped_with_advice() -> None:
    done = run_pytest("suites", "-q", "-p", "no:cacheprovider", cwd=ROOT)
    assert done.code == 0
    assert "rules skipped: give the server to judge with --target=URL" in done.message


def test_a_broken_rule_fails_the_session_with_its_bytes(url: str, tmp_path: Path) -> None:
    faulty = url.replace("/v1", "/fault/done.missing/v1")
    done = run_pytest(f"--target={faulty}", "--wireproof-suite=done", "-q", cwd=tmp_path)
    assert done.code == 1
    assert "FAIL  done.marker.exact  (MUST, DONE-001)" in done.out
    assert "curl -isN" in done.out


def test_an_unreachable_target_is_one_message(tmp_path: Path) -> None:
    done = run_pytest("--target=http://127.0.0.1:1/v1", cwd=tmp_path)
    assert done.code == 3
    assert done.message.startswith("cannot connect to http://127.0.0.1:1/v1")
    assert "FAILED" not in done.text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--target=nonsense"], "--target: 'nonsense' is not an http(s) URL"),
        (["--target=http://127.0.0.1:1/v1", "--wireproof-suite=nope"], "no rule belongs to 'nope'"),
        (["--target=http://127.0.0.1:1/v1", "--wireproof-timeout=0"], "--wireproof-timeout must be 0.1 or more"),
        (["--target=http://127.0.0.1:1/v1", "--wireproof-timeout=nan"], "--wireproof-timeout must be 0.1 or more"),
        (["--target=http://127.0.0.1:1/v1", "--wireproof-api-key-env=NO_SUCH"], "NO_SUCH"),
        (["--target=http://127.0.0.1:1/v1", "--wireproof-header=X"], "write NAME=VAR"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_a_mistake_in_the_options(words: list[str], says: str, tmp_path: Path) -> None:
    done = run_pytest(*words, cwd=tmp_path)
    assert done.code in (2, 4), done.text
    assert says in done.text


OWN = "def test_one():\n    pass\n\n\ndef test_two(tmp_path):\n    pass\n"


def test_without_a_target_nothing_changes(tmp_path: Path) -> None:
    tmp_path.joinpath("test_own.py").write_text(OWN)
    # (pytest-asyncio warns in every session without its option, which is not our doing.)
    ours = run_pytest("-W", "error", "-p", "no:asyncio", "--strict-markers", "--strict-config", "-v", cwd=tmp_path)
    plain = command(sys.executable, "-m", "pytest", "-p", "no:wireproof.plugin", "-v", cwd=tmp_path)
    assert (ours.code, plain.code) == (0, 0), ours.text
    assert "2 passed" in ours.out
    assert not [line for line in ours.out.splitlines() if "wireproof" in line and not line.startswith("plugins: ")]
    items = [[line for line in d.out.splitlines() if "::" in line] for d in (ours, plain)]
    assert items[0] == items[1]


def test_own_tests_beside_the_target(url: str, tmp_path: Path) -> None:
    tmp_path.joinpath("test_own.py").write_text(OWN)
    words = ("--pyargs", "wireproof.suites", f"--target={url}", "--wireproof-suite=done.marker", "-q")
    done = run_pytest("test_own.py", *words, cwd=tmp_path)
    assert done.code == 0, done.text
    assert "6 passed" in done.out
    tmp_path.joinpath("test_own.py").write_text(OWN + "    assert 0\n")
    done = run_pytest("test_own.py", *words, cwd=tmp_path)
    assert done.code == 1, done.text
    alone = run_pytest("test_own.py", f"--target={url}", cwd=tmp_path)
    assert "nothing was judged" in alone.message


def test_workers_of_xdist_are_refused(tmp_path: Path) -> None:
    plugin = "def pytest_addoption(parser):\n    parser.addoption('--many', dest='numprocesses', type=int)\n"
    tmp_path.joinpath("conftest.py").write_text(plugin)
    done = run_pytest("--target=http://127.0.0.1:1/v1", "--many=2", cwd=tmp_path)
    assert done.code == 4
    assert "leave -n out" in done.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_session_that_is_told_to_end_leaves_its_report_and_nothing_else(
    url: str, tmp_path: Path, number: signal.Signals
) -> None:
    """Protects /tmp: the record lies there while only a report was asked for."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    words = (
        f"--target={url}",
        "--wireproof-html=r.html",
        "--wireproof-samples=50",
        "--wireproof-suite=usage",
        "-q",
        "-p",
        "no:cacheprovider",
    )
    env = environment(PYTHONPATH=str(ROOT / "src"), TMPDIR=str(scratch))
    installed = "wireproof.plugin" in {e.value for e in entry_points(group="pytest11")}
    command = [sys.executable, "-m", "pytest", *(() if installed else PLUGIN), *words]
    run = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        while run.poll() is None and not any(
            b'"kind":"transcript"' in path.read_bytes() for path in scratch.glob("*/run.jsonl")
        ):
            time.sleep(0.05)
        run.send_signal(number)
        out, _ = run.communicate(timeout=LIMIT)
    finally:
        run.kill()
    assert run.returncode == 3, out
    assert "Traceback" not in out
    assert list(scratch.iterdir()) == []
    assert "interrupted" in tmp_path.joinpath("r.html").read_text(encoding="utf-8")


def test_filters_that_leave_nothing_are_no_success(url: str, tmp_path: Path) -> None:
    done = run_pytest(f"--target={url}", "-k", "no_such_rule", cwd=tmp_path)
    assert done.code == 5
    assert "nothing was judged" in done.message


def test_a_plain_checkout_needs_no_installation(url: str, tmp_path: Path) -> None:
    python = environments.make(tmp_path / "venv")
    words = ("-I", "-m", "pytest", f"--target={url}", "--wireproof-suite=done", "-q", "-p", "no:cacheprovider")
    missing = subprocess.run([python, "-I", "-c", "import wireproof"], capture_output=True, check=False)
    assert missing.returncode == 1
    done = command(python, *words, cwd=ROOT)
    assert done.code == 0, done.text
    assert "The target keeps all" in done.out


# What a run needs, and a pytest run of our users' does not.
HEAVY = ("rich", "jinja2", "jsonschema", "numpy", "h11", "httpcore2", "httpx2", "asyncio")
OURS = {"wireproof", "wireproof.plugin", "wireproof.resources", "wireproof.run", "wireproof.run.options"}


def test_without_a_target_next_to_nothing_is_imported(tmp_path: Path) -> None:
    """The plugin is loaded by every pytest run where wireproof is installed: each import costs all of them."""
    code = "import sys\ndef test_a():\n    open('found', 'w').write(' '.join(sys.modules))\n"
    tmp_path.joinpath("test_a.py").write_text(code, encoding="utf-8")
    env = environment(PYTHONPATH=str(ROOT / "src"), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    command(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path, env=env)
    without = set(tmp_path.joinpath("found").read_text().split())
    done = command(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PLUGIN, cwd=tmp_path, env=env)
    assert done.code == 0, done.text
    brought = set(tmp_path.joinpath("found").read_text().split()) - without
    assert {name for name in brought if name.split(".")[0] == "wireproof"} == OURS
    assert not brought & set(HEAVY)


def test_markers_lists_the_areas_without_a_target(tmp_path: Path) -> None:
    done = run_pytest("--markers", cwd=tmp_path)
    assert done.code == 0
    assert all(f"@pytest.mark.{area}:" in done.out for area in ("done", "toolstream", "cancel", "must", "should"))


@pytest.mark.parametrize(
    ("words", "kept"), [(("-k", "done.marker"), "done.marker."), (("-m", "stop and must"), "stop.")]
)
def test_filters_narrow_the_record_too(url: str, tmp_path: Path, words: tuple[str, ...], kept: str) -> None:
    done = run_pytest(f"--target={url}", "--wireproof-record=run.jsonl", "-q", *words, cwd=tmp_path)
    assert done.code == 0, done.text
    lines = [json.loads(line) for line in tmp_path.joinpath("run.jsonl").read_text(encoding="utf-8").splitlines()]
    named = {line["id"] for line in lines if line["kind"] == "rule"}
    assert named and all(name.startswith(kept) for name in named)
    assert lines[0]["selection"]["rules"] == len(named)
    asked = {line["scenario"] for line in lines if line["kind"] == "transcript"}
    assert asked <= {name for r in rules.load().values() if r.id in named for name in r.needs}
