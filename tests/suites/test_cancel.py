"""Rules about clients that leave: what shows an abort, what shows none, and what shows nothing."""

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
from wireproof.tables.table import Effect, as_json, from_json
from wireproof.verdict import Status
from wireproof.wire.transcript import Ending

from .leaving import VLLM, left_stream, metrics, no_answer, words
from .wire import broken, explain, plain, stream, text, verdict

STREAM, SETTLE, COUNTED = "cancel.stream.aborts", "cancel.counters.settle", "cancel.counted-as-aborted"
AREAS = ("cancel",)
BUSY = [1.0] * 14


# -- the gauge -----------------------------------------------------------------------------------


def test_an_abort_shows_in_the_gauge() -> None:
    found = left_stream([1, 1, 0])
    assert verdict(STREAM, *found) is Status.PASS
    assert aborts.by_gauge(found).text == "aborted within 206 ms"
    assert broken(*found, areas=AREAS) == set()


def test_a_deaf_server_fails_and_its_counters_are_no_second_failure() -> None:
    assert broken(*left_stream(BUSY), areas=AREAS) == {STREAM}
    assert "still 1 running or waiting after 4.9 s" in explain(STREAM, *left_stream(BUSY))


@pytest.mark.parametrize(
    ("changed", "status", "why"),
    [
        ({0: metrics("baseline", 2)}, Status.NOT_APPLICABLE, "others use the target"),
        ({0: metrics("baseline", 2), 1: metrics("baseline", 2)}, Status.NOT_APPLICABLE, "2 requests are running"),
        ({3: metrics("settled", 1)}, Status.NOT_APPLICABLE, "the gauge lags"),
        ({4: metrics("during", 0)}, Status.NOT_APPLICABLE, "did not rise"),
        ({2: words(64, 0.1, "cancel-stream", "control", Ending.COMPLETE)}, Status.INCONCLUSIVE, "too busy, to tell"),
        ({5: words(100, 0.01, "cancel-stream", "left", Ending.COMPLETE)}, Status.INCONCLUSIVE, "over before we left"),
        ({5: no_answer("cancel-stream", "left", Ending.CLIENT_LEFT)}, Status.INCONCLUSIVE, "no token had come"),
    ],
)
def test_a_channel_that_does_not_work_shows_nothing(changed: dict[int, Exchange], status: Status, why: str) -> None:
    """Protects servers from being blamed for a gauge that lags, or for other clients."""
    found = left_stream(BUSY)
    for number, x in changed.items():
        found[number] = x
    assert verdict(STREAM, *found) is status
    assert why in explain(STREAM, *found)


def test_without_metrics_it_is_not_applicable() -> None:
    lost = plain(
        {"detail": "Not Found"}, status=404, scenario="cancel-stream", step="rest", method="GET", path="/metrics"
    )
    assert verdict(STREAM, lost) is Status.NOT_APPLICABLE


def test_a_refusal_of_four_choices_is_unsupported() -> None:
    error = {"error": {"message": "n must be 1", "type": "invalid_request_error", "param": "n", "code": None}}
    left = plain(error, status=400, scenario="cancel-n4", step="left", tags={"optional": "n > 1"})
    assert (
        verdict("cancel.all-sequences.abort", *left_stream([0], scenario="cancel-n4", left=left)) is Status.UNSUPPORTED
    )


def test_an_end_of_its_own_is_no_abort() -> None:
    """A fast model is through with its answer before we look: the counter of tokens tells, or nothing does."""
    quick = words(1500, 0.001, "cancel-stream", "left", Ending.CLIENT_LEFT)
    fast = words(64, 0.001, "cancel-stream", "control", Ending.COMPLETE)
    for made, looks, status in (
        (2064, 12, Status.INCONCLUSIVE),  # it may have been over before the server had to notice
        (2064, 13, Status.FAIL),  # all of it was made, and it had 5 s to notice
        (4000, 13, Status.INCONCLUSIVE),  # others use it
        (1700, 12, Status.PASS),
        (0, 12, Status.INCONCLUSIVE),
    ):
        late = [1.0] * looks + [0.0]
        found = left_stream(late, left=quick, end={"made": 100 + made})
        found[2] = fast
        assert verdict(STREAM, *found) is status, (made, looks)


@pytest.mark.parametrize(
    ("rule", "scenario"),
    [
        ("cancel.plain.aborts", "cancel-plain"),
        ("cancel.before-first-byte.aborts", "cancel-prefill"),
        ("cancel.all-sequences.abort", "cancel-n4"),
    ],
)
def test_the_other_moments(rule: str, scenario: str) -> None:
    left = no_answer(scenario, "left", Ending.CLIENT_LEFT)
    good = left_stream([1, 0], scenario=scenario, left=left)
    bad = left_stream(BUSY, scenario=scenario, left=left)
    assert verdict(rule, *good) is Status.PASS
    assert broken(*bad, areas=AREAS) == {rule}


def test_a_structured_stream() -> None:
    rule, scenario = "cancel.structured.aborts", "cancel-structured"
    assert verdict(rule, *left_stream([1, 0], scenario=scenario)) is Status.PASS
    assert broken(*left_stream(BUSY, scenario=scenario), areas=AREAS) == {rule}
    error = {"error": {"message": "no schemas here", "type": "invalid_request_error", "param": None, "code": None}}
    refused = plain(error, status=400, scenario=scenario, step="left", tags={"optional": "strict json_schema"})
    assert verdict(rule, *left_stream([0], scenario=scenario, left=refused)) is Status.UNSUPPORTED


def test_a_token_that_had_come_is_no_prefill() -> None:
    assert (
        verdict("cancel.before-first-byte.aborts", *left_stream([0], scenario="cancel-prefill")) is Status.INCONCLUSIVE
    )


# -- counters ---------------------------------------------------------------------------------------


def test_counters_that_do_not_settle() -> None:
    found = left_stream([0])
    more = [*found[:-1], metrics("end", 0, ended=6, aborted=1, made=300)]
    assert broken(*more, areas=AREAS) == {SETTLE}
    held = left_stream([0], end={"held": 0.019})
    assert broken(*held, areas=AREAS) == {SETTLE}
    assert "of the KV cache in use" in explain(SETTLE, *held)
    assert verdict(SETTLE, *left_stream([0], end={"held": 0.011})) is Status.PASS


@pytest.mark.parametrize(
    ("looks", "more", "status"),
    [
        (1, {}, Status.PASS),  # it is hardly a coincidence
        (6, {}, Status.INCONCLUSIVE),
        (6, {"ended": 5 + 1}, Status.PASS),  # nothing but the control has come to its end
        (6, {"ended": 5 + 2}, Status.INCONCLUSIVE),
    ],
)
def test_a_model_that_stops_by_itself_proves_nothing(looks: int, more: dict[str, Any], status: Status) -> None:
    """Protects us from calling a deaf server good whose answer was over: it does not know ignore_eos."""
    text = VLLM if more else "vllm:num_requests_running {running:.1f}\n"
    found = [
        metrics("baseline", 0, text=text),
        words(30, 0.01, "cancel-stream", "control", Ending.COMPLETE, finish="stop"),
        metrics("during", 1, text=text),
        words(100, 0.01, "cancel-stream", "left", Ending.CLIENT_LEFT),
        *(metrics("after", 1, text=text, seconds=0.002) for _ in range(looks)),
        metrics("after", 0, text=text, seconds=0.002, **more),
    ]
    assert verdict(STREAM, *found) is status


def test_an_abort_that_comes_late_is_none() -> None:
    found = left_stream([1, 1, 1, 1, 1, 0])
    slow = [exchange_of(replace(x.transcript, ended_at=1.5)) if x.transcript.step == "after" else x for x in found]
    assert broken(*slow, areas=AREAS) == {STREAM}
    assert "aborted only after 7.9 to 9.5 s" in explain(STREAM, *slow)


def test_an_abort_that_counts_twice() -> None:
    found = left_stream([0], end={"ended": 7, "aborted": 1})
    assert broken(*found, areas=AREAS) == {COUNTED}


def test_an_abort_that_counts_as_a_success() -> None:
    found = left_stream([0], end={"ended": 7, "aborted": 0})
    assert broken(*found, areas=AREAS) == {COUNTED}
    assert "aborted +0, other ends +2" in explain(COUNTED, *found)


# -- the black box ------------------------------------------------------------------------------------


def _box(calm: float, busy: float, again: float, left: Exchange | None = None) -> list[Exchange]:
    name = "cancel-black-box"

    def probe(step: str, seconds: float) -> Exchange:
        t = plain(scenario=name, step=step, times=[seconds]).transcript
        return exchange_of(replace(t, ended_at=seconds))

    return [
        *(probe("calm", calm) for _ in range(3)),
        *(probe("busy", busy) for _ in range(3)),
        *(left or words(100, 0.02, name, "left", Ending.CLIENT_LEFT) for _ in range(4)),
        *(probe("again", again) for _ in range(4)),
    ]


@pytest.mark.parametrize(
    ("calm", "busy", "again", "status"),
    [
        (0.2, 0.8, 0.22, Status.PASS),
        (0.2, 0.8, 0.8, Status.FAIL),
        (0.2, 0.8, 0.5, Status.INCONCLUSIVE),
        (0.2, 0.25, 0.2, Status.NOT_APPLICABLE),  # four streams do not show
        (0.01, 0.03, 0.03, Status.NOT_APPLICABLE),  # too fast to tell
    ],
)
def test_the_pace_of_a_short_request(calm: float, busy: float, again: float, status: Status) -> None:
    found = _box(calm, busy, again)
    assert verdict("cancel.black-box.aborts", *found) is status
    assert broken(*found, areas=AREAS) == ({"cancel.black-box.aborts"} if status is Status.FAIL else set())


def test_probes_that_have_to_wait() -> None:
    """A server with four places only: the probe waits for one of them."""
    found = _box(0.2, 0.8, 0.22)
    queued = no_answer("cancel-black-box", "busy", Ending.IDLE_TIMEOUT, 10.0)
    assert verdict("cancel.black-box.aborts", *found[:3], queued, *found[6:]) is Status.PASS
    still = no_answer("cancel-black-box", "again", Ending.IDLE_TIMEOUT, 10.0)
    assert verdict("cancel.black-box.aborts", *found[:3], queued, *found[6:10], still) is Status.FAIL


def test_streams_that_would_be_over_anyway_show_nothing() -> None:
    fast = words(100, 0.001, "cancel-black-box", "left", Ending.CLIENT_LEFT)
    assert verdict("cancel.black-box.aborts", *_box(0.6, 1.8, 0.6, left=fast)) is Status.INCONCLUSIVE


# -- the others -----------------------------------------------------------------------------------------


def _others(other: Exchange, again: Exchange | None = None) -> list[Exchange]:
    name = "cancel-others"
    return [
        stream(*text("a "), scenario=name, step="alone"),
        words(10, 0.01, name, "left", Ending.CLIENT_LEFT),
        other,
        words(10, 0.01, name, "left-again", Ending.CLIENT_LEFT),
        again or plain(scenario=name, step="same-id"),
    ]


def _other(*, finish: str | None = "stop", ending: Ending = Ending.COMPLETE) -> Exchange:
    chunks = text(*["a "] * 5, finish=finish) if finish else text(*["a "] * 5)[:-1]
    x = stream(*chunks, times=[0.1 * n for n in range(9)], scenario="cancel-others", step="other")
    return exchange_of(replace(x.transcript, ending=ending, ended_at=0.8))


UNDISTURBED, REUSED = "cancel.others.undisturbed", "operations.request-id.reused-after-cancel"


def test_a_stream_beside_one_that_is_left() -> None:
    assert verdict(UNDISTURBED, *_others(_other())) is Status.PASS
    for disturbed in (
        _other(finish="abort"),
        _other(finish=None, ending=Ending.IDLE_TIMEOUT),
        no_answer("cancel-others", "other", Ending.IDLE_TIMEOUT, 60.0),
    ):
        assert verdict(UNDISTURBED, *_others(disturbed)) is Status.FAIL
    unfinished = stream(*text("a ")[:-1], scenario="cancel-others", step="alone")
    assert verdict(UNDISTURBED, unfinished, *_others(_other(finish=None))[1:]) is Status.INCONCLUSIVE
    early = exchange_of(replace(_other().transcript, ended_at=0.05))
    assert verdict(UNDISTURBED, *_others(early)) is Status.INCONCLUSIVE


def test_an_id_that_comes_again() -> None:
    assert verdict(REUSED, *_others(_other())) is Status.PASS
    hung = no_answer("cancel-others", "same-id", Ending.IDLE_TIMEOUT, 60.0)
    found = _others(_other(), hung)
    assert verdict(REUSED, *found) is Status.FAIL
    assert broken(*found, areas=AREAS) == set()


@pytest.mark.parametrize(
    ("scenario", "rule"), [("cancel-many", "cancel.many.still-serves"), ("cancel-early", "cancel.early.no-leak")]
)
def test_after_many(scenario: str, rule: str) -> None:
    def at(step: str, status: int = 200) -> Exchange:
        return plain(
            None if status == 200 else {"error": {"message": "busy"}}, status=status, scenario=scenario, step=step
        )

    left = [no_answer(scenario, "left", Ending.CLIENT_LEFT, 0.01) for _ in range(5)]
    assert verdict(rule, at("before"), *left, at("then")) is Status.PASS
    assert verdict(rule, at("before"), *left, at("then", 429)) is Status.FAIL
    assert verdict(rule, at("before"), *left, no_answer(scenario, "then", Ending.RESET)) is Status.FAIL
    assert verdict(rule, at("before", 429), *left, at("then", 429)) is Status.INCONCLUSIVE


# -- what lies beneath --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\x00",
        "<html>",
        "vllm:num_requests_running",
        "vllm:num_requests_running{ 1",
        "vllm:num_requests_running x",
        "{}",
    ],
)
def test_no_metrics_are_no_reading(text: str) -> None:
    assert gauges.of_metrics(text) is None


def test_metrics_of_engines() -> None:
    assert gauges.of_metrics(VLLM.format(running=2, waiting=1, held=0.5, made=7, ended=3, aborted=2)) == gauges.Reading(
        "vLLM", 2, 1, 7, 0.5, 2, 3
    )
    two = 'sglang:num_running_reqs{dp_rank="0"} 1\nsglang:num_running_reqs{dp_rank="1",x="a\\"}"} 2 17\n'
    assert gauges.of_metrics(two + "sglang:num_aborted_requests_total 4\n") == gauges.Reading("SGLang", 3, aborted=4)
    slots = plain([{"id": 0, "is_processing": True}, {"id": 1, "is_processing": False}, 7], method="GET", path="/slots")
    assert gauges.reading(slots) == gauges.Reading("llama.cpp", 1)
    junk: Any
    for junk in ({}, [], [7], [{"is_processing": "yes"}], "x", None):
        assert gauges.reading(plain(junk, method="GET", path="/slots")) is None
    assert gauges.of_metrics("vllm:num_requests_running NaN\n") is None
    gauges.of_metrics('vllm:num_requests_running{a="' + "b" * 200_000)  # in time


@pytest.mark.parametrize("junk", [None, 7, "x", [], {"choices": 7}, {"choices": [{"finish_reason": []}]}])
def test_odd_answers_are_no_exception(junk: Any) -> None:
    """`broken` raises when a check does."""
    names = ("cancel-stream", "cancel-plain", "cancel-black-box", "cancel-others", "cancel-many", "cancel-early")
    steps = ("baseline", "control", "during", "left", "after", "end", "calm", "other", "same-id", "before", "then")
    odd = [plain(junk, scenario=name, step=step) for name in names for step in steps]
    broken(*odd, areas=AREAS)
    streams = [stream(junk, scenario=name, step=step) for name in names for step in steps if isinstance(junk, dict)]
    broken(*streams, areas=AREAS)
    tables([*odd, *streams])


def test_the_table() -> None:
    table = cancellation.table([*left_stream([1, 1, 0]), *_box(0.2, 0.8, 0.8)])
    (row,) = table.rows
    assert [(name, c.outcome, c.text[:23]) for name, c in row.cells.items()] == [
        ("gauge", Effect.HELD, "aborted within 206 ms"),
        ("black box", Effect.IGNORED, "still busy: a short req"),
    ]
    assert row.cells["gauge"].transcript == "t-cancel-stream-left"
    assert from_json(as_json(table)) == table


def test_of_several_samples_the_worst_one_is_in_the_table() -> None:
    again = [exchange_of(replace(x.transcript, sample=1)) for x in left_stream(BUSY)]
    (row,) = cancellation.table([*left_stream([1, 0]), *again]).rows
    assert row.cells["gauge"].outcome is Effect.IGNORED


def test_the_table_of_a_deaf_server() -> None:
    names = ["cancel-stream", "cancel-plain", "cancel-prefill", "cancel-n4", "cancel-black-box", "cancel-structured"]
    (deaf,) = tables(record("cancel.router-goes-on", scenarios=names).exchanges)
    assert deaf.counts() == {"held": 0, "refused": 0, "ignored": 6, "unclear": 0}
    (bare,) = tables(record("legal.no-metrics", scenarios=names).exchanges)
    assert bare.counts() == {"held": 1, "refused": 0, "ignored": 0, "unclear": 5}
