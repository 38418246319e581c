"""Real client libraries over real sockets against the reference server: clean it passes, and each rule can fail.

The rules of clients cannot be broken in memory, where no library runs: each has its fault here. The environments are
cached (~/.cache/wireproof/clients, or $WIREPROOF_CLIENTS). Where they cannot be made, the tests are skipped with the
reason; where CI=true is set that is a failure.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from wireproof.judge import rules
from wireproof.judge.judge import Judge
from wireproof.read.recording import Recording, recording
from wireproof.record.proxy import Tap
from wireproof.record.target import Limits, parse_target
from wireproof.reference_server import player
from wireproof.reference_server.config import Config
from wireproof.runners.clients import environments
from wireproof.runners.clients.play import Driver, perform
from wireproof.scenarios import clients
from wireproof.scenarios.clients import AREA
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
    Proof("client.openai.parse", "schema.ignores-const", OLD, ("helper-parse",), "ValidationError"),
    Proof("client.openai.create", "choice.choices-null", NEW, ("tools-auto",), "TypeError"),
    Proof("client.openai.create", "choice.choices-null", OLD, ("agent",), "TypeError"),
    Proof("client.openai.stream", "done.lower-case", NEW, ("tools-auto",), "JSONDecodeError"),
    Proof("client.openai.stream", "done.lower-case", NEW, ("agent",), "JSONDecodeError"),
    Proof("client.langchain.invoke-and-stream", "usage.every-chunk", CHAIN, ("stream",), "'prompt'"),
    Proof("client.langchain.invoke-and-stream", "finish.twice", CHAIN, ("stream-async",), "stopstop"),
    Proof("client.langchain.structured-output", "schema.ignores-const", CHAIN, ("structured-schema",), "Error"),
    Proof("client.langchain.structured-output", "schema.ignores-const", CHAIN, ("structured-stream",), "Error"),
    Proof("client.langchain.tools", "toolstream.index-missing", CHAIN, ("tools-required",), ""),
    Proof("client.llamaindex.calls", "toolstream.id-repeated", INDEX, ("tools-required",), "call_"),
    Proof("client.llamaindex.calls", "chunk.choices-null", INDEX, ("stream",), "TypeError"),
    Proof("client.llamaindex.calls", "toolstream.id-repeated", INDEX, ("tools",), "call_"),
    Proof("client.llamaindex.calls", "chunk.choices-null", INDEX, ("tools-auto",), "TypeError"),
    Proof("client.llamaindex.calls", "chunk.choices-null", INDEX, ("tools-none",), "TypeError"),
    Proof("client.llamaindex.calls", "choice.choices-null", INDEX, ("round-trip",), "TypeError"),
    Proof("client.llamaindex.calls", "schema.ignores-const", INDEX, ("structured-schema",), "ValidationError"),
    Proof("client.errors.mapped", "error.string", NEW, ("error-value",), ""),
    Proof("client.errors.mapped", "error.html", OLD, ("error-model",), ""),
    Proof("client.errors.mapped", "error.string", CHAIN, ("error-stream",), ""),
    Proof("client.errors.mapped", "error.string", INDEX, ("error-stream",), ""),
    Proof("client.errors.mapped", "legal.client-422+error.detail-422", NEW, ("plain",), "Field required"),
    Proof("client.errors.mapped", "legal.client-422+error.detail-422", CHAIN, ("stream",), "Field required"),
    Proof("client.errors.mapped", "legal.client-429+error.page", OLD, ("stream",), "<html>"),
    Proof("client.errors.mapped", "legal.client-429+error.string", INDEX, ("plain",), "Rate limit"),
    Proof("client.errors.mapped", "legal.client-429+error.members-beside", NEW, ("plain",), "None"),
    Proof("client.errors.mapped", "legal.client-422+error.members-beside", INDEX, ("stream",), "None"),
    Proof("client.errors.mapped", "legal.client-500+error.page", INDEX, ("plain-async",), "<html>"),
    Proof("client.errors.mapped", "legal.client-500+error.message-missing", CHAIN, ("plain",), "engine_dead"),
    Proof("client.errors.mapped", "legal.client-500+error.type-null", OLD, ("plain",), "None"),
    Proof("client.errors.mapped", "legal.client-503+error.string", CHAIN, ("agent",), "being loaded"),
    Proof("client.errors.mid-stream", "error.stream-flat", NEW, ("stream",), "TypeError"),
    Proof("client.errors.mid-stream", "error.stream-flat", CHAIN, ("stream",), "no exception"),
    Proof("client.errors.mid-stream", "error.stream-detail", INDEX, ("stream",), "TypeError"),
    Proof("client.values.no-none", "choice.role-missing", NEW, ("plain",), "None as role"),
    Proof("client.values.no-none", "toolstream.id-missing", OLD, ("tools",), "None as id"),
    Proof("client.break.usable", "cancel.dies-of-many", NEW, ("leave",), "Error", {"times": 34}),
    Proof("client.break.usable", "cancel.dies-of-many", OLD, ("leave-async",), "Error", {"times": 34}),
    Proof("client.break.usable", "cancel.dies-of-many", CHAIN, ("leave-async",), "Error", {"times": 80}),
    Proof("client.break.usable", "cancel.dies-of-many", INDEX, ("leave-async",), "Error", {"times": 34}),
    Proof("client.async.unmixed", "operations.cache-mixed", NEW, ("unmixed",), "quartz-04"),
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
        self,
        chosen: Mapping[str, tuple[str, ...]],
        fault: str = "",
        more: Mapping[str, Any] | None = None,
        *,
        base: str = "",
        key: str | None = None,
    ) -> Recording:
        """What a recorder would have: the exchanges of some tasks of some set-ups, with a server that has a fault."""
        base = base or self.base
        url = base.replace("/v1", f"/fault/{fault}/v1") if fault else base

        async def go() -> Recording:
            async with Tap(parse_target(url, api_key=key), Limits.patient(20)) as tap:
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
    # Streams last long enough that a client on a busy machine leaves before their end.
    with player.serve_in_thread(Config(token_seconds=0.006)) as base:
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


def _mapped(found: Recording) -> list[Verdict]:
    return [v for v in Judge(found).judge(RULES["client.errors.mapped"]) if v.status is not Status.INCONCLUSIVE]


def _errors(found: Recording) -> dict[str, Any]:
    """The exception of each task, by set-up and task."""
    tagged = [x.transcript for x in found.exchanges if x.transcript.tags.outcome]
    return {f"{t.scenario}/{t.step}": json.loads(t.tags.outcome)["error"] for t in tagged}


CLASSES = {
    "422": ("UnprocessableEntityError", "invalid_request_error", "less_than_equal", "max_tokens"),
    "429": ("RateLimitError", "rate_limit_error", "rate_limit_exceeded", None),
    "500": ("InternalServerError", "server_error", "engine_dead", None),
    "503": ("InternalServerError", "server_error", "model_loading", None),
}


@pytest.mark.parametrize("status", CLASSES)
def test_every_client_raises_the_class_of_a_status(status: str, players: Players) -> None:
    """With the type, the code and the param that were sent, plain, streamed and asynchronous."""
    chosen = {s.name: ("plain", "stream", "plain-async", "stream-async") for s in clients.load().values()}
    found = players.play(chosen, f"legal.client-{status}")
    shown = [v for v in _mapped(found) if v.status is not Status.NOT_APPLICABLE]
    assert len(shown) == 16 and {v.status for v in shown} == {Status.PASS}, _told(shown)
    for case, error in _errors(found).items():
        name, *members = CLASSES[status]
        assert name in error["bases"] and str(error["status"]) == status, case
        assert [error["kind"], error["code"], error["param"]] == members, case


def test_no_task_asks_twice(players: Players) -> None:
    """A server that says 429 and Retry-After: 7 gets one request of each task. By default it would be 3 to 12."""
    found = players.play({s.name: s.tasks for s in clients.load().values()}, "legal.client-429")
    asked = Counter(f"{x.scenario}/{x.transcript.step}" for x in found.exchanges)
    many = {case: n for case, n in asked.items() if n != 1 and case.split("/")[-1] != "unmixed"}
    assert not many
    assert all(n <= 24 for n in asked.values()), "unmixed has 24 words"
    shown = [v for v in Judge(found).judge(RULES["client.errors.mapped"]) if "error-" not in v.case]
    assert {v.status for v in shown} == {Status.PASS}, _told([v for v in shown if v.status is not Status.PASS])


@pytest.mark.parametrize("name", ["legal.client-429+error.flat", "legal.client-503+legal.error-more-members"])
def test_other_bodies_that_every_client_can_read(name: str, players: Players) -> None:
    """A flat error gives all of its members to the clients of Python: the rules of envelopes judge it."""
    verdicts = _mapped(players.play({s.name: ("plain", "stream") for s in clients.load().values()}, name))
    shown = [v for v in verdicts if v.case.split("/")[-1] in ("plain", "stream")]
    assert len(shown) == 8 and {v.status for v in shown} == {Status.PASS}, _told(shown)


@pytest.mark.parametrize(("name", "status"), [("", Status.PASS), ("auth.string", Status.FAIL)])
def test_a_wrong_key_is_an_authentication_error(name: str, status: Status, players: Players) -> None:
    chosen = {s.name: ("error-key",) for s in clients.load().values()}
    with player.serve_in_thread(Config(api_key="a-key-of-the-test")) as base:
        found = players.play(chosen, name, base=base, key="a-key-of-the-test")
    shown = [v for v in _mapped(found) if v.case.endswith("/error-key")]
    assert [v.status for v in shown] == 4 * [status], _told(shown)
    assert all("AuthenticationError" in error["bases"] for error in _errors(found).values())


@pytest.mark.parametrize("proof", PROOFS, ids=[f"{p.rule}-{p.fault}-{p.setup}-{p.tasks[0]}" for p in PROOFS])
def test_a_fault_breaks_the_rule(proof: Proof, players: Players) -> None:
    verdicts = Judge(players.play({proof.setup: proof.tasks}, proof.fault, proof.more)).judge(RULES[proof.rule])
    found = [v for v in verdicts if v.case == f"{clients.PREFIX}{proof.setup}/{proof.tasks[0]}"]
    assert [v.status for v in found] == [Status.FAIL], _told(found)
    assert proof.got in found[0].violations[0].got, _told(found)


def test_every_rule_of_clients_has_its_fault() -> None:
    assert {p.rule for p in PROOFS} == set(RULES)
