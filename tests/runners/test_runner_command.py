"""`python -m wireproof.runners`, with the bundled reference server and a fake as the engines."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from wireproof.runners import environments, process, provision
from wireproof.runners.__main__ import main
from wireproof.runners.engine_files import load
from wireproof.runners.provision import Home
from wireproof.runners.recipes import EngineError, Environment
from wireproof.stored import run_record

FAKE = Path(__file__).with_name("fake_engine.py")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

ENGINES = {
    "reference": f"""
[[recipe]]
version = "0.1"
python = "{PYTHON}"
install = []
start = ["{{python}}", "-m", "wireproof.cli", "serve", "--port", "{{port}}"]
ready = "/v1/models"
timeout = 30
env = {{ PYTHONPATH = "{Path(__file__).resolve().parents[2] / "src"}" }}
""",
    "dead": f"""
[[recipe]]
version = "1"
like = "reference-0.1"
start = ["{{python}}", "{FAKE}", "{{port}}", "dies"]
""",
    "absent": """
[[recipe]]
version = "1"
like = "reference-0.1"
install = [["--no-index", "--find-links", "{here}", "no-package-of-this-name"]]
""",
}


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Options that keep a test in its folder."""
    folder = tmp_path / "engines"
    folder.mkdir()
    for rank, (name, text) in enumerate(ENGINES.items(), 1):
        (folder / f"{name}.toml").write_text(f'name = "{name}"\nrank = {rank}\n{text}', encoding="utf-8")
    return ["--engines", str(folder), "--home", str(tmp_path / "home")]


def port_of(text: str) -> int:
    return int(text.partition("on http://127.0.0.1:")[2].split()[0])


def listening(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def test_an_engine_is_started_judged_and_stopped(
    words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    code = main(["run", "reference-0.1", *words, "--out", str(out), "--html", "--", "--suite", "done"])
    text = capfd.readouterr().out
    assert code == 0, text
    assert "The target keeps all" in text
    assert "reference-0.1: stopped\n" in text
    assert not listening(port_of(text))
    assert sorted(p.name for p in out.iterdir()) == ["reference-0.1.html", "reference-0.1.jsonl"]
    record = run_record.read(out / "reference-0.1.jsonl")
    assert not record.crashed
    assert record.label == "reference 0.1"
    assert str(tmp_path) not in (out / "reference-0.1.html").read_text(encoding="utf-8")


OWN = f"""
name = "own"
rank = 1

[version]
name = "mine"
order = "exact"
said_in = [{{ path = "/version", key = "version", owner = "wireproof" }}]

[[recipe]]
version = "9"
like = "reference"
env = {{ PYTHONPATH = "{Path(__file__).resolve().parents[2] / "src"}" }}
"""


def test_an_engine_is_one_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A user's own, like one of ours: it is started, and the judge knows what its file says."""
    (tmp_path / "own.toml").write_text(OWN, encoding="utf-8")
    words = ["--engines", str(tmp_path / "own.toml"), "--home", str(tmp_path / "home"), "--out", str(tmp_path)]
    assert main(["run", "own-9:done.twice", *words, "--", "--suite", "done"]) == 1, capfd.readouterr().out
    header = run_record.read(tmp_path / "own-9-done.twice.jsonl").header
    assert (header["engine"]["name"], header["engine"]["order"]) == ("mine", "exact")


def test_one_that_dies_does_not_keep_the_next_from_being_judged(
    words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = main(["run", "dead-1", "reference-0.1", *words, "--out", str(tmp_path), "--", "--suite", "DONE-001"])
    done = capfd.readouterr()
    assert code == 3
    assert done.err.startswith("wireproof: dead-1 ended with exit code 3")
    assert "line 39 of a long log" in done.err
    assert "The target keeps" in done.out


def test_sigterm_stops_the_engine_and_keeps_the_record(words: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "wireproof.runners", "run", "reference-0.1", *words, "--out", str(tmp_path)]
    with subprocess.Popen(
        [*command, "--", "--slow"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as running:
        assert running.stdout is not None
        lines = [next(running.stdout), next(running.stdout)]
        port = port_of(lines[1])
        raw = tmp_path / "home" / "runs" / "reference-0.1.jsonl"
        # until it judges
        while running.poll() is None and not (raw.exists() and b'"kind":"transcript"' in raw.read_bytes()):
            time.sleep(0.05)
        os.kill(running.pid, signal.SIGTERM)
        text, _ = running.communicate(timeout=60)
    assert running.returncode == 3, text
    assert "wireproof: stopped by SIGTERM" in text
    assert "reference-0.1: stopped\n" in text
    assert not listening(port)
    record = run_record.read(tmp_path / "reference-0.1.jsonl")
    assert not record.crashed and record.end is not None and record.end["exit"] == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "vllm"], "no engine is called 'vllm'; there are reference-0.1, dead-1, absent-1"),
        (["run", "reference-0.1:copy"], "reference-0.1 has no variant 'copy': it has one model only"),
        (["provision", "reference-0.1", "nobody"], "no engine is called 'nobody'"),
        (["run", "reference-0.1", "--", "-o", "x"], "-o: records and reports are written by us"),
        (["run", "reference-0.1", "--", "--html=x"], "--html=x: records and reports are written by us"),
        (["list", "--", "--slow"], "options after -- belong to `run`"),
    ],
)
def test_mistakes(words: list[str], arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    assert main([*arguments[:cut], *words, *arguments[cut:]]) == 2
    done = capsys.readouterr()
    assert done.err.startswith(f"wireproof: {said}")
    assert not done.out


@pytest.mark.parametrize("first", [True, False])
def test_listing(words: list[str], first: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Options may stand before the command, or after it."""
    assert main([*words, "list"] if first else ["list", *words]) == 0
    one, _, third = capsys.readouterr().out.splitlines()
    assert one.split() == ["reference-0.1", "(its", "own", "model)", "installed"]
    assert third.split()[-1] == "-"


def test_what_cannot_be_installed(
    words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ensurepip", reason="Debian has it in python3-venv")
    without = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "uv" else without(name))
    assert main(["provision", "absent-1", *words]) == 3
    done = capfd.readouterr()
    log = tmp_path / "home" / "logs" / "absent-1-install.log"
    assert done.err.startswith("wireproof: absent-1 cannot be installed: `pip install --no-index")
    assert f"The log is {log}" in done.err
    assert "No matching distribution found" in done.err and "No matching distribution found" in log.read_text()
    assert not (tmp_path / "home" / "absent-1" / "stamp.json").exists()


class Installs:
    """Stands in for the commands that install: makes the interpreter, and counts."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []

    async def install(self, command: Sequence[str], log: Path) -> int:
        return self(command)

    def __call__(self, command: Sequence[str], **more: object) -> int:
        self.commands.append(list(command))
        if "venv" in command[1:3]:
            python = Path(command[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.touch()
        if command[1].endswith(("make_tiny_model.py", "convert.py")):
            Path(command[-1]).mkdir(parents=True)
        return 0


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch) -> Installs:
    fake = Installs()
    monkeypatch.setattr(process, "run", fake)
    monkeypatch.setattr(environments, "run", fake.install)
    return fake


def test_a_model_is_made_once_by_who_can(tmp_path: Path, installs: Installs) -> None:
    catalogue = load()
    home = Home(tmp_path, lambda text: None)
    made = home.model(catalogue.engines["mlx-lm-0.32.2"], "copy", catalogue)
    assert made.parent == tmp_path / "models" and made.name.startswith("copy-")
    assert installs.commands[-1][0] == str(tmp_path / "maker" / "venv" / "bin" / "python")
    assert not (tmp_path / "mlx-lm-0.32.2").exists()
    count = len(installs.commands)
    assert home.model(catalogue.engines["vllm-0.32.0"], "copy", catalogue) == made
    assert len(installs.commands) == count


CONVERTS = f"""
name = "c"

[[recipe]]
python = "{PYTHON}"
install = [["gguf"]]
program = "my-server"
makes_models = false
models = ["copy"]
convert = ["{{python}}", "{{here}}/scripts/convert.py", "{{source}}", "{{model}}"]
start = ["{{program}}", "{{model}}", "{{port}}"]
ready = "/health"
"""


def test_a_model_is_converted_once(tmp_path: Path, installs: Installs) -> None:
    script = tmp_path / "scripts" / "convert.py"
    script.parent.mkdir()
    script.touch()
    (tmp_path / "c.toml").write_text(CONVERTS, encoding="utf-8")
    catalogue = load(tmp_path / "c.toml")
    home, engine = Home(tmp_path / "home", lambda text: None), catalogue.engines["c"]
    made = home.model(engine, "copy", catalogue)
    python, asked, source, target = installs.commands[-1]
    assert python == str(home.python("c", engine.environment)) and asked == str(script)
    assert made.name.startswith(Path(source).name + "-c-") and target == f"{made}.partial"
    count = len(installs.commands)
    assert home.model(engine, "copy", catalogue) == made
    assert len(installs.commands) == count
    script.write_text("# another\n")
    assert home.model(engine, "copy", catalogue) != made


def test_a_program_that_we_do_not_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.toml").write_text(CONVERTS, encoding="utf-8")
    engine = load(tmp_path / "c.toml").engines["c"]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MY_SERVER", raising=False)
    with pytest.raises(
        EngineError, match=r"^c: there is no my-server on PATH: build or install it, .* into MY_SERVER$"
    ):
        provision.find_program(engine)
    program = tmp_path / "my-server"
    program.write_text("#!/bin/sh\n")
    monkeypatch.setenv("MY_SERVER", str(program))
    with pytest.raises(EngineError, match=r"^c: MY_SERVER names .*/my-server, which cannot be run: build"):
        provision.find_program(engine)
    program.chmod(0o755)
    assert provision.find_program(engine) == program
    monkeypatch.delenv("MY_SERVER")
    assert provision.find_program(engine) == program


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EngineError, match="choose another folder with --home"):
        Home(tmp_path / "file").provision("a-1", Environment(PYTHON, (("b",),), tmp_path))


def test_where_engines_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIREPROOF_ENGINES", "/e")
    assert provision.default_home() == Path("/e")
    monkeypatch.delenv("WIREPROOF_ENGINES")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert provision.default_home() == Path("/c/wireproof/engines")


def test_the_environment_of_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    engine = load().engines["sglang-0.5.23"]
    home = Home(tmp_path, lambda text: None)
    places = provision.template_values(home, python=tmp_path / "bin" / "python", model=None, port=1)
    found = provision.environment_of(engine, home, places)
    assert "PYTHONHOME" not in found
    assert (Path(found["PYTHONPATH"]) / "sitecustomize.py").is_file()
    assert found["PATH"].split(os.pathsep)[0] == str(tmp_path / "bin")
    assert json.dumps(found).count("{") == 1  # every place is filled in
