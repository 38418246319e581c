"""Client set-ups as data, their environments, and drivers that hang, die or talk nonsense. No library is installed."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from wireproof.judge import rules
from wireproof.judge.judge import Judge
from wireproof.read import client_outcomes
from wireproof.read.recording import recording
from wireproof.record.proxy import Tap
from wireproof.record.recorder import Recorder, Unavailable
from wireproof.record.target import Limits, parse_target
from wireproof.reference_server import player
from wireproof.reference_server.app import App
from wireproof.reference_server.config import Config
from wireproof.reference_server.memory import MemorySender
from wireproof.runners.clients import environments, play
from wireproof.runners.clients.play import Driver, DriverError, perform
from wireproof.scenarios import clients, scenario
from wireproof.verdict import Status
from wireproof.wire.transcript import Transcript

SETUP = clients.Setup("fake", "A fake.", "fake", ">=3.11", ("no-such-package-of-wireproof==1",), "fake.py", ("plain",))

HELLO = 'import json, sys, time\nprint(json.dumps({"versions": {"fake": "1"}}), flush=True)\nfor line in sys.stdin:\n'
ASK = """    import urllib.request
    job = json.loads(line)
    body = json.dumps({"model": job["model"], "messages": [{"role": "user", "content": "Say hello."}]}).encode()
    request = urllib.request.Request(job["base_url"] + "/chat/completions", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request).read()
"""
SAY = '    print(json.dumps({"task": "plain", "ok": True, "result": {}}), flush=True)\n'


def _driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Driver:
    (tmp_path / "drivers").mkdir()
    (tmp_path / "drivers" / "fake.py").write_text(script, encoding="utf-8")
    monkeypatch.setattr(clients, "where", lambda: tmp_path)
    return Driver(SETUP, Path(sys.executable))


async def _done(driver: Driver, seconds: float = 60.0) -> list[dict[str, object]]:
    """Two outcomes of the same job."""
    try:
        return [await driver.do({"task": "plain"}, seconds) for _ in range(2)]
    finally:
        await driver.stop()


def _kinds(found: list[dict[str, object]]) -> list[object]:
    return [outcome["error"]["type"] for outcome in found]  # type: ignore[index]


@pytest.mark.asyncio
async def test_a_driver_that_hangs_is_started_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = await _done(_driver(tmp_path, monkeypatch, HELLO + "    time.sleep(60)\n"), seconds=0.3)
    assert _kinds(found) == ["DriverHang", "DriverHang"]


@pytest.mark.asyncio
async def test_a_driver_that_dies_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = await _done(_driver(tmp_path, monkeypatch, HELLO + "    sys.exit('it cannot go on')\n"))
    assert _kinds(found) == ["DriverCrash", "DriverCrash"] and "it cannot go on" in str(found[0]["error"])


NONSENSE = {
    "a line": "print('nonsense', flush=True)",
    "another job": """print('{"task": "stream", "ok": true}', flush=True)""",
    "deep": "print('[' * 1_000_000, flush=True)",
    "long": "print('9' * 10_000_000, flush=True)",
    "no line": "[sys.stdout.write('x' * 4096) for _ in iter(int, 1)]",  # it never ends
    "bytes": "sys.stdout.buffer.write(bytes(range(128, 256)) + b'\\n'); sys.stdout.flush()",
}


@pytest.mark.asyncio
@pytest.mark.parametrize("line", NONSENSE.values(), ids=NONSENSE)
async def test_a_driver_that_talks_nonsense(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = await _done(_driver(tmp_path, monkeypatch, HELLO + f"    {line}\n"))
    assert _kinds(found) == ["DriverNonsense", "DriverNonsense"]


@pytest.mark.asyncio
async def test_what_a_driver_complains_about_is_not_kept_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = "    [print('it hurts', n, file=sys.stderr) for n in range(200_000)]\n    sys.exit('no more')\n"
    driver = _driver(tmp_path, monkeypatch, HELLO + noise)
    found = await _done(driver)
    assert _kinds(found) == ["DriverCrash", "DriverCrash"] and "no more" in str(found[0]["error"])
    assert len(driver._said) <= 2000


@pytest.mark.asyncio
@pytest.mark.parametrize("script", ["raise SystemExit('no such library')", "print('[]')", "print('{}')"])
async def test_a_driver_that_does_not_start(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DriverError, match="does not start"):
        await _done(_driver(tmp_path, monkeypatch, script))


async def _performed(driver: Driver) -> list[tuple[str, Transcript]]:
    async with player.serve(Config()) as url, Tap(parse_target(url), Limits.patient(10)) as tap:
        try:
            return await perform(driver, tap, ["plain"], "tiny-reference")
        finally:
            await driver.stop()


@pytest.mark.asyncio
async def test_an_outcome_travels_with_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [(task, found)] = await _performed(_driver(tmp_path, monkeypatch, HELLO + ASK + SAY))
    assert task == "plain" and found.raw and '"ok": true' in found.tags.outcome
    assert found.tags.client == "fake" and found.tags.versions == "fake 1"


@pytest.mark.asyncio
async def test_an_outcome_of_an_odd_form_is_no_error_of_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say = '    print(json.dumps({"task": "plain", "ok": 1, "error": ["x"], "result": "y"}), flush=True)\n'
    [(_, found)] = await _performed(_driver(tmp_path, monkeypatch, HELLO + ASK + say))
    made = client_outcomes.outcome(recording([replace(found, id="t1")]).takes[0])
    assert (made.ok, made.error, made.result) == (False, {}, {})


@pytest.mark.asyncio
@pytest.mark.parametrize("script", [HELLO + "    time.sleep(60)\n", HELLO + ASK + SAY])
async def test_most_tasks_of_a_hanging_client_or_target_are_not_waited_for(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that hangs, and one whose target accepts everything and never says a word."""
    monkeypatch.setattr(play, "_PATIENCE", 0.5)
    driver = _driver(tmp_path, monkeypatch, script.replace('"plain"', 'job["task"]'))
    asked: list[str] = []

    async def do(job: dict[str, str], seconds: float) -> dict[str, object]:
        asked.append(job["task"])
        return await Driver.do(driver, job, seconds)

    monkeypatch.setattr(driver, "do", do)

    silent = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/v1"
    async with silent, Tap(parse_target(url), Limits(1.0, 0.2, 1.0)) as tap:
        try:
            found = await perform(driver, tap, list(clients.TASKS)[:6], "tiny-reference")
        except DriverError as error:  # the client that hangs has sent nothing at all
            assert "sent nothing" in str(error)
        else:
            assert "3 tasks in a row" in json.loads(found[0][1].tags.unsent)[list(clients.TASKS)[5]]
        finally:
            await driver.stop()
    assert asked == list(clients.TASKS)[:3]


@pytest.mark.asyncio
async def test_a_client_that_sends_nothing_is_our_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DriverError, match="sent nothing"):
        await _performed(_driver(tmp_path, monkeypatch, HELLO + SAY))


# -- environments ------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_an_environment_that_cannot_be_made_has_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(environments.NotInstalled, match=r"fake cannot be installed .*no-such-package-of-wireproof"):
        await environments.provide(SETUP, tmp_path)
    assert not environments.wanted(SETUP, tmp_path).installed


@pytest.mark.asyncio
async def test_a_broken_package_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    wheel = tmp_path / "torn-1-py3-none-any.whl"
    wheel.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(environments.NotInstalled, match=r"fake cannot be installed .*torn.*the log is"):
        await environments.provide(replace(SETUP, packages=(str(wheel),)), tmp_path / "home")
    assert not (tmp_path / "home" / "fake" / "venv").exists()


@pytest.mark.asyncio
async def test_a_python_that_is_too_old_is_told(tmp_path: Path) -> None:
    with pytest.raises(environments.NotInstalled, match="needs Python >=99"):
        await environments.provide(replace(SETUP, python=">=99"), tmp_path)


# -- as data -----------------------------------------------------------------------------


def test_the_set_ups_are_pinned_and_have_drivers() -> None:
    assert {s.client for s in clients.load().values()} == {"openai-python", "langchain", "llamaindex"}
    for setup in clients.load().values():
        assert (clients.where() / "drivers" / setup.driver).is_file()
    used = {t for s in clients.load().values() for t in s.tasks}
    assert used == set(clients.TASKS), "a task that nobody does"


_GOOD = 'what = "w"\nclient = "c"\ndriver = "d"\npython = ">=3.11"\npackages = ["a==1"]\ntasks = ["plain"]\n'


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('"a==1"', '"a"', "not pinned"),
        ('"plain"', '"dance"', "no task 'dance'"),
        ("driver", "drivers", "missing .'driver'."),
    ],
)
def test_a_mistake_in_a_set_up_is_named(before: str, after: str, says: str) -> None:
    assert clients.parse(_GOOD, "x").tasks == ("plain",)
    with pytest.raises(ValueError, match=says):
        clients.parse(_GOOD.replace(before, after), "x")


# -- in a run ----------------------------------------------------------------------------


class _Nobody:
    async def play(self, found: scenario.Scenario) -> list[tuple[str, Transcript]]:
        raise Unavailable(Status.UNSUPPORTED, "no network")


@pytest.mark.asyncio
@pytest.mark.parametrize(("player_of", "status"), [(_Nobody(), Status.UNSUPPORTED), (None, Status.NOT_APPLICABLE)])
async def test_without_a_client_its_rules_say_why(player_of: play.Clients | None, status: Status) -> None:
    recorder = Recorder(MemorySender(App(Config())), clients=player_of)
    recorded = await recorder.record(["client-langchain-1.7", "plain-greedy"])
    [verdict] = {(v.status, v.reason) for v in Judge(recorded).judge(rules.load()["client.langchain.tools"])}
    assert verdict == (status, "no network" if player_of else clients.WHEN_ASKED)
    assert [t.scenario for t in recorded.takes] == ["plain-greedy"]


@pytest.mark.asyncio
async def test_a_library_that_cannot_be_imported_is_unsupported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def provide(*_: object) -> Path:
        return Path(sys.executable)

    _driver(tmp_path, monkeypatch, "import no_such_library_of_wireproof\n")
    monkeypatch.setattr(clients, "load", lambda: {"fake": SETUP})
    monkeypatch.setattr(environments, "provide", provide)
    found = play.Clients(parse_target("http://127.0.0.1:9/v1"), "m", Limits(), tmp_path)

    with pytest.raises(Unavailable, match=r"No module named 'no_such_library_of_wireproof'; remove .*fake") as told:
        async with found:
            await found.play(scenario.Scenario(name="client-fake", what="", client="fake"))
    assert told.value.status is Status.UNSUPPORTED


def test_the_suite_has_two_names() -> None:
    every = rules.load().values()
    for name, area in (("clients", "client"), ("Tools", "tool"), ("cancellation", "cancel"), ("models", "models")):
        assert rules.select(every, [name]) == [r for r in every if r.area == area] != []
