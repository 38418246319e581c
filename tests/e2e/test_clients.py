"""Real client libraries over real sockets against the reference server: clean it passes, and each rule can fail.

The rules of clients cannot be broken in memory, where no library runs: each has its fault here. The environments are
cached (~/.cache/wireproof/clients, or $WIREPROOF_CLIENTS). Where they cannot be made, the tests are skipped with the
reason; where CI=true is set that is a failure.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from wireproof import clients, rules
from wireproof.clients import AREA
from wireproof.judge import Judge, Recording, recording
from wireproof.record.live import Limits, parse_target
from wireproof.record.proxy import Tap
from wireproof.reference_server import player
from wireproof.reference_server.config import Config
from wireproof.runners.clients import environments
from wireproof.runners.clients.play import Driver, perform
from wireproof.verdict import Status, Verdict

RULES = {r.id: r for r in rules.load().values() if r.area == AREA and r.check is not None}
NEW, OLD, CHAIN, INDEX = "openai-3.57", "openai-1.55", "langchain-1.7", "llamaindex-0.8"
_INSTALL_SECONDS = 300.0


@dataclass(frozen=True)
class Proof:
    """A fault that breaks a rule, shown by some tasks of a set-up; `got` is in the message of the violation."""

    rule: str
    fault: str
    setup: str
    tasks: tuple[str, ...]
    got: str
    more: Mapping[str, Any] = field(default_factory=dict)


PROOFS = [
    Proof("client.openai.create", "choice.choices-null", NEW, ("plain",), "TypeError"),
    Proof("client.openai.create", "choice.choices-null", OLD, ("plain-async",), "TypeError"),
    Proof("client.openai.stream", "done.lower-case", NEW, ("stream",), "JSONDecodeError"),
    Proof("client.openai.stream", "done.json-string", OLD, ("stream",), "Error"),
    Proof("client.openai.stream-helper", "chunk.role-every-chunk", NEW, ("helper",), "assistantassistant"),
    Proof("client.openai.stream-helper", "toolstream.id-repeated", OLD, ("helper-tools",), "call_"),
    Proof("client.openai.parse", "schema.ignores-const", NEW, ("parse",), "ValidationError"),
    Proof("client.langchain.invoke-and-stream", "usage.every-chunk", CHAIN, ("stream",), "'prompt'"),
    Proof("client.langchain.invoke-and-stream", "finish.twice", CHAIN, ("stream-async",), "stopstop"),
    Proof("client.langchain.structured-output", "schema.ignores-const", CHAIN, ("structured-schema",), "Error"),
    Proof("client.langchain.tools", "toolstream.index-missing", CHAIN, ("tools-required",), ""),
    Proof("client.llamaindex.calls", "toolstream.id-repeated", INDEX, ("tools-required",), "call_"),
    Proof("client.llamaindex.calls", "chunk.choices-null", INDEX, ("stream",), "TypeError"),
    Proof("client.errors.mapped", "error.string", NEW, ("error-value",), ""),
    Proof("client.errors.mapped", "error.html", OLD, ("error-model",), ""),
    Proof("client.errors.mid-stream", "error.stream-flat", NEW, ("stream",), "TypeError"),
    Proof("client.errors.mid-stream", "error.stream-flat", CHAIN, ("stream",), "no exception"),
    Proof("client.errors.mid-stream", "error.stream-detail", INDEX, ("stream",), "TypeError"),
    Proof("client.values.no-none", "choice.role-missing", NEW, ("plain",), "None as role"),
    Proof("client.values.no-none", "toolstream.id-missing", OLD, ("tools",), "None as id"),
    Proof("client.break.usable", "cancel.dies-of-many", NEW, ("leave",), "Error", {"times": 26}),
    Proof("client.async.unmixed", "operations.cache-mixed", NEW, ("unmixed",), "quartz-06"),
]


class Players:
    """All drivers, started once: a fault is only another URL to them."""

    def __init__(self, base: str) -> None:
        self.base, self._runner = base, asyncio.Runner()
        self._drivers: dict[str, Driver] = {}

    def start(self) -> None:
        """Install and start all of them at a time. Raises NotInstalled."""

        async def one(setup: clients.Setup) -> Driver:
            driver = Driver(setup, await environments.provide(setup, seconds=_INSTALL_SECONDS))
            await driver.start()
            return driver

        async def every() -> list[Driver]:
            return await asyncio.gather(*(one(s) for s in clients.load().values()))

        self._drivers = {d.setup.name: d for d in self._runner.run(every())}

    def close(self) -> None:
        """Stop them."""

        async def every() -> None:
            await asyncio.gather(*(d.stop() for d in self._drivers.values()))

        self._runner.run(every())
        self._runner.close()

    def play(
        self, chosen: Mapping[str, tuple[str, ...]], fault: str = "", more: Mapping[str, Any] | None = None
    ) -> Recording:
        """What a recorder would have: the exchanges of some tasks of some set-ups, with a server that has a fault."""
        url = self.base.replace("/v1", f"/fault/{fault}/v1") if fault else self.base

        async def go() -> Recording:
            async with Tap(parse_target(url), Limits.patient(20)) as tap:
                every = (
                    perform(self._drivers[name], tap, tasks, "tiny-reference", more) for name, tasks in chosen.items()
                )
                played = await asyncio.gather(*every)
            found = []
            for name, exchanges in zip(chosen, played, strict=True):
                found += [replace(t, scenario=clients.PREFIX + name, step=task) for task, t in exchanges]
            return recording(replace(t, id=f"t{n}") for n, t in enumerate(found, 1))

        return self._runner.run(go())


@pytest.fixture(scope="module")
def players() -> Iterator[Players]:
    with player.serve_in_thread(Config()) as base:
        found = Players(base)
        try:
            found.start()
        except environments.NotInstalled as error:
            if os.environ.get("CI"):
                pytest.fail(str(error))
            pytest.skip(str(error))
        try:
            yield found
        finally:
            found.close()


def _told(verdicts: list[Verdict]) -> list[str]:
    return [f"{v.case}: {v.status.value}: {v.reason or [x.got for x in v.violations]}" for v in verdicts]


def test_the_clean_server_passes_with_every_client(players: Players) -> None:
    judge = Judge(players.play({s.name: s.tasks for s in clients.load().values()}))
    for r in RULES.values():
        verdicts = judge.judge(r)
        odd = [v for v in verdicts if v.status not in (Status.PASS, Status.NOT_APPLICABLE)]
        assert not _told([v for v in odd if v.case.split("/")[-1] != "error-key"]), r.id
        # A sound server gives no error in mid-stream: see the next test.
        assert r.id == "client.errors.mid-stream" or any(v.status is Status.PASS for v in verdicts), r.id


def test_an_error_that_is_wrapped_is_raised_by_every_client(players: Players) -> None:
    chosen = {s.name: ("stream", "stream-async") for s in clients.load().values()}
    verdicts = Judge(players.play(chosen, "legal.error-event-named")).judge(RULES["client.errors.mid-stream"])
    shown = [v for v in verdicts if v.case.split("/")[-1] in ("stream", "stream-async")]
    assert len(shown) == 8 and {v.status for v in shown} == {Status.PASS}, _told(shown)


@pytest.mark.parametrize("proof", PROOFS, ids=[f"{p.rule}-{p.fault}-{p.setup}" for p in PROOFS])
def test_a_fault_breaks_the_rule(proof: Proof, players: Players) -> None:
    verdicts = Judge(players.play({proof.setup: proof.tasks}, proof.fault, proof.more)).judge(RULES[proof.rule])
    found = [v for v in verdicts if v.case == f"{clients.PREFIX}{proof.setup}/{proof.tasks[0]}"]
    assert [v.status for v in found] == [Status.FAIL], _told(found)
    assert proof.got in found[0].violations[0].got, _told(found)


def test_every_rule_of_clients_has_its_fault() -> None:
    assert {p.rule for p in PROOFS} == set(RULES)
