"""What is recorded when: requests that hurt servers come last, and gentle runs leave them out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from wireproof.judge import Recording
from wireproof.record.recorder import Recorder
from wireproof.reference_server import memory
from wireproof.reference_server.app import App
from wireproof.scenario import load, needed

RISKY = "keyword-ref-escaped-name"


def record(names: Sequence[str], **options: bool) -> tuple[list[str], Recording]:
    order: list[str] = []
    sender = memory.MemorySender(App(memory.config()))
    recorder = Recorder(sender, concurrency=1, on_exchange=lambda x: order.append(x.scenario), **options)  # type: ignore[arg-type]
    out: list[Recording] = []

    async def keep() -> None:
        out.append(await recorder.record(names))

    asyncio.run(keep())
    return order, out[0]


def test_what_killed_an_engine_comes_last() -> None:
    assert load()[RISKY].risky and load()[RISKY].valid
    order, _ = record([RISKY, "plain-greedy", "parameter-word", "keyword-ref-once"])
    assert order.index("plain-greedy") < order.index("parameter-word") < order.index(RISKY)


def test_gentle_runs_leave_out_load_and_risk() -> None:
    loads = [s.name for s in load().values() if s.load and not s.slow]
    order, recorded = record([RISKY, "plain-greedy", loads[0]], gentle=True)
    assert order == ["plain-greedy"]
    assert all("gentle" in reason for _, reason in recorded.skipped.values())
    assert {s.name for s in needed([RISKY, "plain-greedy"], gentle=True)} == {"plain-greedy"}
