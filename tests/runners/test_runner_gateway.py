"""Gateways: what stands behind them is started first and stopped last, whatever happens in between."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wireproof.runners import standing
from wireproof.runners.__main__ import main
from wireproof.runners.engine_files import load
from wireproof.runners.provision import Home
from wireproof.runners.recipes import Catalogue, EngineError
from wireproof.stored import run_record
from wireproof.verdict import Status

FAKE = Path(__file__).with_name("fake_engine.py")
SRC = str(Path(__file__).resolve().parents[2] / "src")

# A file for each; they are like each other across the files.
ENGINES = {
    "engine": f"""
[[recipe]]
python = "3.11"
install = []
start = ["{{python}}", "{FAKE}", "{{port}}", "name=engine"]
ready = "/health"
timeout = 30
env = {{ JOURNAL = "{{home}}/journal", PYTHONPATH = "{SRC}" }}
""",
    "mortal": f"""
[[recipe]]
like = "engine"
start = ["{{python}}", "{FAKE}", "{{port}}", "name=engine", "mortal"]
""",
    "nameless": f"""
[[recipe]]
like = "engine"
start = ["{{python}}", "{FAKE}", "{{port}}", "name=engine", "nameless"]
""",
    "busy": f"""
[[recipe]]
like = "engine"
timeout = 0.5
start = ["{{python}}", "{FAKE}", "{{port}}", "name=engine", "busy"]
""",
    "reference": """
[[recipe]]
like = "engine"
start = ["{python}", "-m", "wireproof.cli", "serve", "--port", "{port}"]
ready = "/v1/models"
metrics = "/metrics"
fault_path = "/fault/{fault}/v1"
""",
    "gateway": f"""
[[recipe]]
version = "2"
like = "engine"
behind = ["engine", "mortal", "nameless", "busy", "reference"]
config = "{{here}}/gateway.txt"
start = ["{{python}}", "{FAKE}", "{{port}}", "name=gateway", "behind={{upstream}}", "config={{config}}"]
""",
    "outer": """
[[recipe]]
like = "gateway-2"
version = "3"
behind = ["gateway-2"]
""",
    "dead": f"""
[[recipe]]
like = "gateway-2"
start = ["{{python}}", "{FAKE}", "{{port}}", "name=gateway", "dies", "{{config}}"]
""",
    "fragile": f"""
[[recipe]]
like = "gateway-2"
start = ["{{python}}", "{FAKE}", "{{port}}", "name=gateway", "mortal", "{{config}}"]
""",
    "silent": f"""
[[recipe]]
like = "gateway-2"
start = ["{{python}}", "{FAKE}", "{{port}}", "name=gateway", "silent", "{{config}}"]
""",
}
TEMPLATE = 'model: "{served}"\nbase: "{upstream}"\nport: {port}\nelse: {}\n'


class World:
    """The engines of one test, in its folder."""

    def __init__(self, folder: Path) -> None:
        self.engines = folder / "engines"
        self.engines.mkdir()
        for name, text in ENGINES.items():
            (self.engines / f"{name}.toml").write_text(f'name = "{name}"\n{text}', encoding="utf-8")
        (self.engines / "gateway.txt").write_text(TEMPLATE, encoding="utf-8")
        self.said: list[str] = []
        self.home = Home(folder / "home", self.said.append)
        self.out = folder / "out"

    @property
    def catalogue(self) -> Catalogue:
        return load(self.engines)

    @property
    def words(self) -> list[str]:
        return ["--engines", str(self.engines), "--home", str(self.home.path), "--out", str(self.out)]

    @property
    def journal(self) -> list[str]:
        return (self.home.cache / "journal").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def listening(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def test_the_order(world: World) -> None:
    with standing.started(world.catalogue.pick("gateway-2"), world.catalogue, world.home) as gateway:
        assert world.journal == ["engine begins", "gateway begins"]
        assert [s.pick.engine.id for s in gateway.chain] == ["gateway-2", "engine"]
        assert all(listening(s.port) for s in gateway.chain)
    assert world.journal[2:] == ["gateway ends", "engine ends"]
    assert not any(listening(s.port) for s in gateway.chain)
    assert [line.partition(";")[0] for line in world.said if "starting" in line or "stopped" in line] == [
        "engine (behind gateway-2-over-engine): starting",
        "gateway-2-over-engine: starting",
        "gateway-2-over-engine: stopped",
        "engine (behind gateway-2-over-engine): stopped",
    ]


def test_the_file_of_settings(world: World) -> None:
    pick = world.catalogue.pick("gateway-2:reference:done.twice")
    with standing.started(pick, world.catalogue, world.home) as gateway:
        behind = gateway.chain[1]
    written = (world.home.path / "configs" / "gateway-2-over-reference-done.twice.txt").read_text(encoding="utf-8")
    assert written.splitlines() == [
        'model: "tiny-reference"',
        f'base: "http://127.0.0.1:{behind.port}/fault/done.twice/v1"',
        f"port: {gateway.port}",
        "else: {}",
    ]


def test_a_gateway_behind_a_gateway(world: World) -> None:
    pick = world.catalogue.pick("outer-3:gateway-2:reference")
    assert (pick.name, pick.label) == (
        "outer-3-over-gateway-2-over-reference",
        "outer 3 over gateway 2 over reference",
    )
    with standing.started(pick, world.catalogue, world.home) as outer:
        assert standing.served(outer) == "tiny-reference"
        assert len({s.port for s in outer.chain}) == 3


def test_the_gauges_of_what_stands_behind(world: World) -> None:
    """A gateway is judged by them, too; an engine by its own, which need no option."""
    pick = world.catalogue.pick("outer-3:gateway-2:reference")
    with standing.started(pick, world.catalogue, world.home) as outer:
        assert outer.gauges == [f"--metrics=http://127.0.0.1:{outer.chain[-1].port}/metrics"]
        assert outer.chain[-1].gauges == []
    with standing.started(world.catalogue.pick("gateway-2:engine"), world.catalogue, world.home) as bare:
        assert bare.gauges == []


def test_one_that_never_gets_ready(world: World) -> None:
    pick = world.catalogue.pick("gateway-2:busy")
    with (
        pytest.raises(
            EngineError, match=r"^busy \(behind gateway-2-over-busy\) was not ready within 0 s .*answers 503"
        ),
        standing.started(pick, world.catalogue, world.home),
    ):
        raise AssertionError("not reached")
    assert world.journal == ["engine begins", "engine ends"]  # and no gateway


def test_one_that_lists_no_model(world: World) -> None:
    pick = world.catalogue.pick("gateway-2:nameless")
    with (
        pytest.raises(EngineError, match="nameless lists no model on http"),
        standing.started(pick, world.catalogue, world.home),
    ):
        raise AssertionError("not reached")
    assert world.journal == ["engine begins", "engine ends"]


def test_a_gateway_that_dies_at_once(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "dead-2", *world.words]) == 3
    assert capfd.readouterr().err.startswith("wireproof: dead-2-over-engine ended with exit code 3 after")
    assert world.journal == ["engine begins", "gateway begins", "engine ends"]


def test_a_gateway_that_dies_while_it_is_judged(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    """That is its own failure: the judge says so."""
    assert main(["run", "fragile-2", *world.words]) == 3
    out = capfd.readouterr().out
    assert "fragile-2-over-engine: stopped, but had ended with exit code 4 before; log " in out
    assert world.journal == ["engine begins", "gateway begins", "engine ends"]


def test_an_engine_that_dies_behind_its_gateway(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    """That is no failure of the gateway's: nothing is judged then."""
    assert main(["run", "gateway-2:mortal", *world.words]) == 3
    done = capfd.readouterr()
    assert "wireproof: mortal ended with exit code 4 while gateway-2-over-mortal was judged" in done.err
    assert world.journal == ["engine begins", "gateway begins", "gateway ends"]


def test_the_record_says_what_stood_behind(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["run", "gateway-2:reference:done.twice", *world.words, "--", "--suite", "done"])
    text = capfd.readouterr().out
    assert code == 1, text
    record = run_record.read(world.out / "gateway-2-over-reference-done.twice.jsonl")
    assert record.label == "gateway 2 over reference, done.twice"
    assert {v.rule for v in record.verdicts if v.status is Status.FAIL} == {"done.marker.once-and-last"}


def test_a_fault_without_a_gateway(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "reference:no.such", *world.words, "--", "--suite", "done"]) == 2
    assert "unknown fault 'no.such'" in capfd.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_all_are_stopped_when_we_are(world: World, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "wireproof.runners", "run", "silent-2", *world.words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if line.startswith("silent-2-over-engine: starting"):
                break
        while "gateway begins" not in world.journal and running.poll() is None:
            time.sleep(0.05)
        os.kill(running.pid, number)
        text, _ = running.communicate(timeout=60)
    assert running.returncode == 3, text
    assert f"wireproof: stopped by {number.name}" in text
    assert world.journal[-1] == "engine ends"


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("gateway-2", ("gateway-2-over-engine", "gateway 2 over engine")),
        ("gateway-2:engine", ("gateway-2-over-engine", "gateway 2 over engine")),
        ("gateway-2:reference:x.y", ("gateway-2-over-reference-x.y", "gateway 2 over reference, x.y")),
        ("reference:x.y", ("reference-x.y", "reference, x.y")),
    ],
)
def test_picking(world: World, name: str, chosen: tuple[str, str]) -> None:
    pick = world.catalogue.pick(name)
    assert (pick.name, pick.label) == chosen


def test_picking_by_the_model_behind() -> None:
    catalogue = load()
    for text, name in (
        ("litellm-1.80.11", "litellm-1.80.11-over-vllm-0.32.0-copy"),
        ("litellm-1.80.11:random", "litellm-1.80.11-over-vllm-0.32.0-random"),
        ("litellm-1.80.11:mlx-lm-0.32.2:copy", "litellm-1.80.11-over-mlx-lm-0.32.2-copy"),
        ("litellm-1.80.11:reference", "litellm-1.80.11-over-reference"),
    ):
        assert catalogue.pick(text).name == name
    assert catalogue.pick("litellm-1.80.11:copy").label == "litellm 1.80.11 over vllm 0.32.0, copy"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gateway-2:", "'gateway-2:': a variant follows the colon, or leave it away"),
        (
            "gateway-2:dead",
            "gateway-2 has no variant 'dead': choose a model (copy, random), or what stands behind it"
            " (engine, mortal, nameless, busy, reference)",
        ),
        ("gateway-2:copy", "gateway-2 has no variant 'copy': choose a model"),
        ("gateway-2:engine:copy", "engine has no variant 'copy': it has one model only"),
        ("reference:a/b", "reference has no variant 'a/b': it has one model only"),
    ],
)
def test_names_that_are_wrong(world: World, name: str, said: str) -> None:
    with pytest.raises(EngineError) as caught:
        world.catalogue.pick(name)
    assert str(caught.value).startswith(said)
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("gateway", '["engine"', '["nobody"', "behind: 'nobody' is no engine; there are busy, dead"),
        ("gateway", "behind =", 'models = ["copy"]\nbehind =', "behind: it serves what the engine behind it"),
        ("gateway", '"config={config}"', '"x"', "config: nothing is told its {config}"),
        ("gateway", "gateway.txt", "absent.txt", "config: cannot read"),
        (
            "gateway",
            '["engine"',
            '["outer-3"',
            "it would stand behind itself (outer-3 over gateway-2 over outer-3)",
        ),
        ("engine", '"name=engine"', '"{upstream}"', "start: {upstream} cannot be filled in"),
        ("engine", '"name=engine"', '"{program}"', "start: {program} cannot be filled in"),
        ("reference", "/fault/{fault}", "/fault/{port}", "fault_path: {port} cannot be filled in"),
        ("gateway", 'version = "2"', 'version = "2"\nprogram = "p"', "program: nothing is told"),
        ("gateway", 'version = "2"', 'version = "2"\nconvert = ["c"]', "convert: the command must"),
        ("engine", "install = []", 'install = [["x"]]', "version: missing"),
    ],
)
def test_recipes_that_are_wrong(world: World, name: str, old: str, new: str, said: str) -> None:
    file = world.engines / f"{name}.toml"
    one = file.read_text(encoding="utf-8")
    assert old in one
    file.write_text(one.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(EngineError) as caught:
        load(world.engines)
    assert caught.value.code == 2
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_template_that_is_wrong(world: World) -> None:
    (world.engines / "gateway.txt").write_text("{upsteam}", encoding="utf-8")
    with pytest.raises(EngineError, match=r"config: \{upsteam\} cannot be filled in; .*\{upstream\}"):
        load(world.engines)
    (world.engines / "gateway.txt").write_text("nothing", encoding="utf-8")
    file = world.engines / "gateway.toml"
    file.write_text(file.read_text(encoding="utf-8").replace("behind={upstream}", "x", 1), encoding="utf-8")
    with pytest.raises(EngineError, match=r"behind: nothing is told its \{upstream\}"):
        load(world.engines)
