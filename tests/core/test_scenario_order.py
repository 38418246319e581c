"""What is recorded when: requests that hurt servers come last, and gentle runs leave them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from wireproof.read.recording import Recording
from wireproof.record.recorder import Recorder
from wireproof.record.target import parse_target
from wireproof.reference_server import memory
from wireproof.reference_server.app import App
from wireproof.run.run import Options
from wireproof.scenarios.catalog import load, needed
from wireproof.scenarios.scenario import Scenario
from wireproof.wire.transcript import Read, Transcript

RISKY = "keyword-ref-escaped-name"


async def record(names: Sequence[str], **options: bool) -> tuple[list[str], Recording]:
    order: list[str] = []
    sender = memory.MemorySender(App(memory.config()))
    recorder = Recorder(sender, concurrency=1, on_exchange=lambda x: order.append(x.scenario), **options)  # type: ignore[arg-type]
    return order, await recorder.record(names)


@pytest.mark.asyncio
async def test_what_killed_an_engine_comes_last() -> None:
    assert load()[RISKY].risky and load()[RISKY].valid
    order, _ = await record([RISKY, "plain-greedy", "parameter-word", "keyword-ref-once"])
    assert order.index("plain-greedy") < order.index("parameter-word") < order.index(RISKY)


@pytest.mark.asyncio
async def test_gentle_runs_leave_out_load() -> None:
    loads = [s.name for s in load().values() if s.load and not s.slow]
    order, recorded = await record(["plain-greedy", loads[0]], gentle=True)
    assert order == ["plain-greedy"]
    assert "gentle" in recorded.skipped[loads[0]][1]
    assert {s.name for s in needed([loads[0], "plain-greedy"], gentle=True)} == {"plain-greedy"}


@pytest.mark.asyncio
async def test_what_killed_an_engine_is_sent_on_request_only() -> None:
    """Protects a shared production endpoint from a default run."""
    order, recorded = await record([RISKY, "plain-greedy"], risky=False)
    assert order == ["plain-greedy"]
    assert "--risky" in recorded.skipped[RISKY][1]
    assert not Options(parse_target("http://127.0.0.1/v1")).risky


@pytest.mark.asyncio
async def test_a_plain_request_after_every_bad_one() -> None:
    """Protects the blame: a server that says 400 and then dies is found out before the next request."""
    bad = ["parameter-word", "messages-empty", "messages-missing"]
    order, _ = await record([*bad, "health-after-refusals"], thorough=True)
    assert order[1::2] == ["health-after-refusals"] * 3
    order, _ = await record([*bad, "health-after-refusals"])
    assert order.count("health-after-refusals") == 1  # nothing looks suspicious


class _Busy(memory.MemorySender):
    """A server that is busy for some seconds after a bad request, and says so."""

    def __init__(self, statuses: Sequence[int]) -> None:
        super().__init__(App(memory.config()))
        self.statuses, self.slept = list(statuses), [0.0]

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await super().sleep(seconds)

    def lane(self) -> Any:
        lane, sender = super().lane(), self

        class Lane:
            close = lane.close

            async def send(self, scenario: Scenario, *, reuse: bool) -> Transcript:
                t = await lane.send(scenario, reuse=reuse)
                if not scenario.health or not sender.statuses:
                    return t
                status = sender.statuses.pop(0)
                body = b"HTTP/1.1 %d Busy\r\nretry-after: 7\r\ncontent-length: 2\r\n\r\n{}" % status
                return replace(t, reads=(Read(0.0, body),))

        return Lane()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("statuses", "waited", "dead"), [([], 0, False), ([429, 503], 14, False), ([429] * 9, 28, True), ([500], 0, True)]
)
async def test_busy_is_not_dead(statuses: list[int], waited: float, dead: bool) -> None:
    """Protects a gateway that shuts its engine out for some seconds after our bad requests from being called dead."""
    sender = _Busy(statuses)
    recorder = Recorder(sender, concurrency=1)
    found = await recorder.record(["parameter-word", "health-after-refusals"])
    asked = [x.status for x in found.exchanges if x.scenario == "health-after-refusals"]
    assert len(asked) == len(sender.slept)  # each try is in the recording, so that it is judged again as it was
    assert sum(sender.slept) == waited
    assert recorder.died is dead
