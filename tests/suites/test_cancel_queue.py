"""Rules about a client that leaves the queue, and about what the GPUs show of one that leaves a stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from wireproof.read import aborts, gauges
from wireproof.read.endpoints import exchange_of
from wireproof.read.exchange import Exchange
from wireproof.reference_server.memory import record
from wireproof.tables import cancellation
from wireproof.tables.all import tables
from wireproof.tables.table import Effect
from wireproof.verdict import Status
from wireproof.wire.transcript import Ending, Tags

from .leaving import metrics, no_answer, words
from .wire import broken, explain, plain, stream, verdict

QUEUED, GPU = "cancel.queued.aborts", "cancel.gpu.aborts"
AREAS = ("cancel",)


# -- the queue -------------------------------------------------------------------------------------


def _waiting(step: str, running: float, waiting: float) -> Exchange:
    return metrics(step, running, "cancel-queued", waiting=waiting, seconds=0.002)


def _queue(after: list[tuple[float, float]], left: Exchange | None = None) -> list[Exchange]:
    """Two places, a third stream that waits, a fourth that is left: `after` is what runs and waits then."""
    return [
        metrics("baseline", 0, "cancel-queued"),
        metrics("baseline", 0, "cancel-queued"),
        words(64, 0.01, "cancel-queued", "control", Ending.COMPLETE),
        metrics("settled", 0, "cancel-queued"),
        *(_waiting("filling", running, waiting) for running, waiting in ((1, 0), (2, 0), (1, 1))),
        *(_waiting("filled", running, waiting) for running, waiting in ((1, 1), (2, 1))),
        *(_waiting("during", running, waiting) for running, waiting in ((2, 1), (2, 2))),
        left or no_answer("cancel-queued", "left", Ending.CLIENT_LEFT),
        *(_waiting("after", running, waiting) for running, waiting in after),
        *(words(9, 0.01, "cancel-queued", "holder", Ending.CLIENT_LEFT) for _ in range(3)),
    ]


def test_who_leaves_the_queue_is_taken_out_of_it() -> None:
    found = _queue([(2, 2), (2, 1)])
    assert verdict(QUEUED, *found) is Status.PASS
    assert aborts.by_queue(found).text == "left the queue within 104 ms"
    assert broken(*found, areas=AREAS) == set()


def test_who_stays_in_the_queue_is_found() -> None:
    found = _queue([(2, 2)] * 14)
    assert broken(*found, areas=AREAS) == {QUEUED}
    assert "still 4 running or waiting after 4.9 s (3 without it)" in explain(QUEUED, *found)


@pytest.mark.parametrize(
    ("found", "status", "why"),
    [
        (
            [*_queue([(2, 1)])[:-1], words(9, 0.01, "cancel-queued", "holder", Ending.COMPLETE)],
            Status.INCONCLUSIVE,
            "the queue moved by itself",
        ),
        (_queue([(2, 1)])[:4], Status.INCONCLUSIVE, "did not get to the request"),
        (
            [*_queue([])[:4], _waiting("filled", 3, 0), *_queue([])[-3:]],
            Status.NOT_APPLICABLE,
            "3 streams at a time did not make the target queue",
        ),
        (
            _queue([(2, 1)], words(5, 0.01, "cancel-queued", "left", Ending.CLIENT_LEFT)),
            Status.INCONCLUSIVE,
            "the request did not wait",
        ),
        ([x for x in _queue([(2, 1)]) if x.transcript.step != "during"], Status.INCONCLUSIVE, "did not show"),
        (_queue([(2, 1)])[2:], Status.NOT_APPLICABLE, "no gauge"),
    ],
)
def test_what_shows_nothing_of_the_queue(found: list[Exchange], status: Status, why: str) -> None:
    assert verdict(QUEUED, *found) is status
    assert why in explain(QUEUED, *found)


def test_llama_cpps_slots_show_no_queue() -> None:
    slots = [
        plain([{"id": 0, "is_processing": False}], method="GET", path="/slots", scenario="cancel-queued", step=step)
        for step in ("baseline", "baseline", "filling", "filled")
    ]
    assert verdict(QUEUED, *slots) is Status.NOT_APPLICABLE
    assert "no gauge of waiting requests" in explain(QUEUED, *slots)


def test_places_of_the_bundled_server() -> None:
    """Its ninth stream waits, and is served in its turn."""
    found = record("", scenarios=["cancel-queued"]).exchanges
    (filled,) = [gauges.reading(x) for x in found if x.transcript.step == "filling"][-1:]
    assert filled is not None
    assert (filled.running, filled.waiting) == (8, 1)
    assert aborts.by_queue(found).seconds is not None


# -- the GPUs --------------------------------------------------------------------------------------


def _gpu(step: str, used: str, took: str = "0.200") -> Exchange:
    t = metrics(step, 0, "cancel-gpu").transcript
    return exchange_of(replace(t, tags=replace(t.tags, gpu=used, gpu_seconds=took)))


def _gpus(idle: str, busy: str, after: list[str], pace: float = 0.02) -> list[Exchange]:
    return [
        *(_gpu("baseline", idle) for _ in range(3)),
        words(64, pace, "cancel-gpu", "control", Ending.COMPLETE),
        _gpu("settled", idle),
        _gpu("during", idle),
        _gpu("during", busy),
        words(100, pace, "cancel-gpu", "left", Ending.CLIENT_LEFT),
        *(_gpu("after", used) for used in after),
    ]


@pytest.mark.parametrize(
    ("idle", "busy", "after", "status", "text"),
    [
        ("0", "97", ["97", "0"], Status.PASS, "idle again within 2400 ms: 0 % in use (0 % in use before, 97 % beside"),
        ("0", "97", ["90"] * 5, Status.FAIL, "still 90 % in use after 6.0 s"),
        ("60 0", "70 95", ["70 95", "60 2"], Status.PASS, "2 % in use (0 % in use before, 95 %"),  # another's GPU
        ("0", "20", ["0"], Status.NOT_APPLICABLE, "does not show what the target does"),
        ("95", "97", ["95"], Status.NOT_APPLICABLE, "does not show what the target does"),
        ("x", "y", ["z"], Status.NOT_APPLICABLE, "no GPU of this machine can be asked"),
    ],
)
def test_the_use_of_the_gpus(idle: str, busy: str, after: list[str], status: Status, text: str) -> None:
    found = _gpus(idle, busy, after)
    assert verdict(GPU, *found) is status
    assert broken(*found, areas=AREAS) == ({GPU} if status is Status.FAIL else set())
    told = aborts.by_gpu(found).text if status in (Status.PASS, Status.FAIL) else explain(GPU, *found)
    assert text in told


def test_an_answer_that_may_have_been_over_is_no_abort() -> None:
    found = _gpus("0", "97", ["97", "97", "0"], pace=0.002)
    assert verdict(GPU, *found) is Status.INCONCLUSIVE


def test_a_gauge_that_hides_what_is_computed() -> None:
    """Protects users of a server whose metrics look fine while its GPU works for nobody."""
    found = record("cancel.gauge-falls-only", scenarios=["cancel-stream", "cancel-gpu"]).exchanges
    (table,) = tables(found)
    cells = {channel: cell.outcome for row in table.rows for channel, cell in row.cells.items()}
    assert cells == {cancellation.GAUGE: Effect.HELD, cancellation.GPU: Effect.IGNORED}


@pytest.mark.parametrize("junk", [None, 7, "x", [], {"choices": 7}])
def test_odd_answers_are_no_exception(junk: Any) -> None:
    """`broken` raises when a check does."""
    steps = ("baseline", "settled", "filling", "filled", "during", "left", "after", "holder", "control")
    names = ("cancel-queued", "cancel-gpu")
    odd = [plain(junk, scenario=name, step=step) for name in names for step in steps]
    tagged = [exchange_of(replace(x.transcript, tags=Tags(gpu="nan", gpu_seconds="inf"))) for x in odd]
    streams = [stream(junk, scenario=name, step=step) for name in names for step in steps if isinstance(junk, dict)]
    for found in (odd, tagged, streams):
        broken(*found, areas=AREAS)
        tables(found)


# -- the engine behind a gateway -------------------------------------------------------------------


def test_a_look_at_the_engine_behind_is_judged_by_no_rule_about_the_target() -> None:
    """Protects a gateway from being billed for what the engine's own port does."""
    bad = plain("no json", headers={}, method="GET", path="/metrics", status=500)
    assert broken(bad) != set()
    behind = exchange_of(replace(bad.transcript, tags=Tags(behind=True)))
    assert broken(behind) == set()
