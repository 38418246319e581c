"""What is known of engines is in their files: how it is read, and that nobody else knows it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from wireproof import toml_table
from wireproof.read import call_markers, engine_facts, gauges, reasoning
from wireproof.read.endpoints import exchange_of
from wireproof.read.engine_facts import ByServer, EngineFacts, GaugeNames, InAnswer, InHeader, Order
from wireproof.read.exchange import Exchange
from wireproof.record import preflight
from wireproof.record.live import LiveSender
from wireproof.record.preflight import Engine
from wireproof.record.target import Limits, parse_target
from wireproof.scenarios.scenario import Scenario
from wireproof.toml_table import TableError

from .making import transcript

GOOD = """
name = "new"
title = "New"
rank = 4
reasoning = ["thinking"]

[version]
order = "build"
said_in = [
  { header = "x-new" },
  { path = "/info", key = "build", owner = "us", named_by = "engine" },
  { server = "New", key = "system_fingerprint" },
]

[gauges]
running = "new_running"
waiting = "new_waiting"
ended = { names = ["new_ended"], label = "why", aborted = "gone" }
slots = "busy"

[call_markers]
new = ["<new>", "</new>"]

[[recipe]]
version = "the business of the runners"
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of a user's own engines."""
    monkeypatch.setenv(engine_facts.VARIABLE, str(tmp_path))
    engine_facts.load.cache_clear()
    yield tmp_path
    engine_facts.load.cache_clear()


def read(tmp_path: Path, text: str) -> EngineFacts:
    path = tmp_path / "new.toml"
    path.write_text(text, encoding="utf-8")
    return engine_facts.parse(toml_table.read(path), str(path))


def test_every_fact(tmp_path: Path) -> None:
    assert read(tmp_path, GOOD) == EngineFacts(
        name="new",
        title="New",
        rank=4,
        recorded_as="new",
        order=Order.BUILD,
        said_in=(InHeader("x-new"), InAnswer("/info", "build", "us", "engine"), ByServer("new", "system_fingerprint")),
        gauges=GaugeNames(
            "New",
            "new_running",
            "new_waiting",
            ended=engine_facts.Ended(("new_ended",), "why", "gone"),
            slots="busy",
        ),
        call_markers=("<new>", "</new>"),
        reasoning=("thinking",),
    )
    bare = read(tmp_path, 'name = "new"')
    assert (bare.title, bare.recorded_as, bare.anything) == ("new", "new", False)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('title = "New"', 'titel = "New"', "titel: unknown"),
        ("[[recipe]]", "[[recipes]]", "recipes: unknown"),
        ("[[recipe]]", "[[engine]]", "engine: unknown; a file has one engine"),
        ("rank = 4", 'rank = "first"', "rank: 'first' is not a whole number"),
        ("rank = 4", "rank = true", "rank: True is not a whole number"),
        ('["thinking"]', '"thinking"', "reasoning: 'thinking' is not a list of members"),
        ('order = "build"', 'order = "newest"', "version: order: 'newest' is none of pep440, build, exact"),
        ('order = "build"', 'orders = "build"', "version: orders: unknown"),
        ('{ header = "x-new" }', "{}", "version: said_in 1: server: missing"),
        ('"x-new"', '"x-new", key = "k"', "version: said_in 1: key: unknown"),
        ('"/info"', '"info"', "version: said_in 2: path: 'info' is not a path"),
        (', key = "system_fingerprint"', "", "version: said_in 3: key: missing"),
        ("new_waiting", "", "gauges: waiting: it is empty"),
        ("slots =", "slot =", "gauges: slot: unknown"),
        ('label = "why", ', "", "gauges: ended: label: missing"),
        ('"</new>"', '""', "call_markers: new: an empty marker"),
        ('["<new>", "</new>"]', '"<new>"', "call_markers: new: '<new>' is not a list of texts"),
        ("[gauges]", "[[gauges]]", "gauges: not a table"),
        ("[[recipe]]", "[recipe", "is not TOML"),
    ],
)
def test_one_error_that_names_the_file_and_the_key(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(TableError) as caught:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert said in str(caught.value)
    assert str(tmp_path / "new.toml") in str(caught.value) and "\n" not in str(caught.value)


def test_the_engines_of_the_project() -> None:
    known = {facts.name: facts for facts in engine_facts.load()}
    assert {"vllm", "sglang", "llama.cpp", "mlx-lm", "litellm", "reference", "tgi", "lmdeploy"} <= known.keys()
    ranks = [facts.rank for facts in known.values()]
    assert ranks == sorted(set(ranks)) and ranks[0] == 1
    assert [names.name for names in gauges.ENGINES] == ["vLLM", "SGLang", "llama.cpp", "TGI", "LMDeploy"]
    assert reasoning.NAMES == ("reasoning", "reasoning_content")
    assert {"<tool_call>", "[TOOL_CALLS]", "<｜tool▁sep｜>", "<|START_ACTION|>"} <= set(call_markers.MARKERS)
    assert list(engine_facts.questions()) == ["/version", "/get_server_info", "/props"]


@pytest.mark.parametrize("module", [gauges, call_markers, reasoning, preflight])
def test_nobody_else_names_an_engine(module: Any) -> None:
    text = Path(module.__file__).read_text(encoding="utf-8").lower()
    text = text.replace("vllm==0.32.0", "")  # in the error that shows how --engine is written
    names = {name.lower() for facts in engine_facts.load() for name in (facts.name, facts.title, facts.recorded_as)}
    assert not [name for name in names - {"reference", "wireproof"} if name in text]


def test_an_own_file_is_known_beside_ours(own: Path) -> None:
    (own / "new.toml").write_text(GOOD, encoding="utf-8")
    (own / "vllm.toml").write_text('name = "vllm"\n[[recipe]]\nversion = "9"', encoding="utf-8")  # no facts: ours stay
    (own / "sglang.toml").write_text('name = "sglang"\nreasoning = ["thoughts"]', encoding="utf-8")
    known = engine_facts.by_recorded_name
    assert preflight.order_of("NEW", "1.2.3") == "build"
    assert [names.name for names in engine_facts.gauges()][:2] == ["vLLM", "llama.cpp"] and known("vllm") is not None
    assert "New" in {names.name for names in engine_facts.gauges()}
    assert set(engine_facts.reasoning_members()) == {"reasoning", "reasoning_content", "thinking", "thoughts"}
    assert {"<new>", "<tool_call>"} < set(engine_facts.call_markers())
    (own / "new.toml").write_text(GOOD.replace("rank", "rang"), encoding="utf-8")
    engine_facts.load.cache_clear()
    with pytest.raises(TableError, match=r"new\.toml: rang: unknown"):
        engine_facts.load()


def test_slots_and_counters_by_the_names_of_an_own_engine(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own / "new.toml").write_text(GOOD, encoding="utf-8")
    monkeypatch.setattr(gauges, "ENGINES", engine_facts.gauges())
    assert gauges.of_slots([{"busy": True}, {"busy": False}]) == gauges.Reading("New", 1.0)
    assert gauges.of_slots([{"is_processing": True}]) == gauges.Reading("llama.cpp", 1.0)
    assert gauges.of_slots([{"is_processing": 1}, 5]) is None and gauges.of_slots({}) is None
    monkeypatch.setattr(gauges, "_PREFIXES", ("new",))
    text = 'new_running 2\nnew_waiting 1\nnew_ended{why="gone"} 3\nnew_ended{why="stop"} 4\n'
    assert gauges.of_metrics(text) == gauges.Reading("New", 2.0, 1.0, aborted=3.0, ended=4.0)


# -- who answers -------------------------------------------------------------------------


def answer(body: Any, *, status: int = 200, **headers: str) -> Exchange:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"HTTP/1.1 {status} X", "Content-Type: application/json", *lines])
    return exchange_of(transcript(f"{head}\r\n\r\n".encode() + json.dumps(body).encode()))


LLAMA = {"system_fingerprint": "b11434-abc"}
OURS = {"data": [{"id": "m", "owned_by": "wireproof"}]}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("tiny", "listed", "answers", "found"),
    [
        (answer({}), {}, {}, Engine()),
        (
            answer({}, x_litellm_version="1.80.11"),
            {},
            {"/version": {"version": "1"}},
            Engine("litellm", "1.80.11", "pep440"),
        ),
        (answer({}), {}, {"/version": {"version": "0.32.0"}}, Engine("vllm", "0.32.0", "pep440")),
        (answer({}), OURS, {"/version": {"version": "0.1.0"}}, Engine("wireproof", "0.1.0", "pep440")),
        (answer({}), {}, {"/version": {"version": "b12", "engine": "mine"}}, Engine("mine", "b12", "build")),
        (answer({}), {}, {"/version": {"version": "1.x", "engine": 5}}, Engine("unknown", "1.x", "exact")),
        (
            answer({}),
            {},
            {"/version": {"version": 5}, "/props": {"build_info": "b1"}},
            Engine("llama.cpp", "b1", "build"),
        ),
        (answer({}), {}, {"/get_server_info": {"version": "0.5"}}, Engine("sglang", "0.5", "pep440")),
        (
            answer({}),
            {},
            {"/get_server_info": {"version": "0.5"}, "/props": {"build_info": "b1"}},
            Engine("sglang", "0.5", "pep440"),
        ),
        (answer(LLAMA, Server="Llama.CPP"), {}, {}, Engine("llama.cpp", "b11434-abc", "build")),
        (answer({}, Server="llama.cpp"), {}, {}, Engine("llama.cpp", "", "build")),
        (answer({}, Server="uvicorn"), {}, {"/version": {"version": "9" * 99}}, Engine("vllm", "9" * 60, "pep440")),
    ],
)
async def test_who_answers(
    tiny: Exchange, listed: Any, answers: Mapping[str, Any], found: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def ask(sender: LiveSender, scenario: Scenario) -> Exchange:
        asked.append(scenario.path)
        return answer(answers[scenario.path]) if scenario.path in answers else answer({}, status=404)

    monkeypatch.setattr(preflight, "_ask", ask)
    sender = LiveSender(parse_target("http://h/v1"), "m", Limits())
    assert await preflight._identify(sender, (answer(listed), tiny)) == found
    assert asked == ["/version", "/get_server_info", "/props"][: len(asked)]


@pytest.mark.parametrize(
    ("name", "version", "order"),
    [
        ("vLLM", "b1", "pep440"),
        ("Llama.cpp", "1.2", "build"),
        ("mlx-lm", "x", "pep440"),
        ("other", "b77", "build"),
        ("other", "1.2", "pep440"),
        ("other", "main", "exact"),
    ],
)
def test_how_versions_are_compared(name: str, version: str, order: str) -> None:
    assert preflight.parse_engine(f"{name}=={version}") == Engine(name, version, order)
