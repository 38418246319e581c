"""Conversations of the cancel suite by hand: the gauges, a control, the request that is left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wireproof.read.endpoints import exchange_of
from wireproof.read.exchange import Exchange
from wireproof.wire.transcript import Ending

from .wire import chunk, exchange, plain, stream

VLLM = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{model_name="m"}} {running:.1f}
vllm:num_requests_waiting{{model_name="m"}} {waiting:.1f}
vllm:kv_cache_usage_perc{{model_name="m"}} {held}
vllm:generation_tokens_total{{model_name="m"}} {made:.1f}
vllm:request_success_total{{finished_reason="stop",model_name="m"}} {ended:.1f}
vllm:request_success_total{{finished_reason="abort",model_name="m"}} {aborted:.1f}
"""


def metrics(step: str, running: float, scenario: str = "cancel-stream", text: str = VLLM, **more: float) -> Exchange:
    """One look at /metrics."""
    values = {"waiting": 0, "held": 0.01, "made": 100, "ended": 5, "aborted": 0, **more}
    seconds = values.pop("seconds", 0.0)
    body = text.format(running=running, **values).encode()
    headers = {"Content-Type": "text/plain; version=0.0.4", "Content-Length": str(len(body))}
    return exchange(
        [body],
        request=b"",
        headers=headers,
        scenario=scenario,
        step=step,
        method="GET",
        path="/metrics",
        times=[seconds],
    )


def words(
    count: int, pace: float, scenario: str, step: str, ending: Ending, *, finish: str = "length", **request: Any
) -> Exchange:
    """A stream of so many tokens, `pace` seconds each; one that we left has no end."""
    items = [chunk({"content": "a "}) for _ in range(count)]
    times = [pace * (n + 1) for n in range(count)]
    complete = ending is Ending.COMPLETE
    if complete:
        items, times = [*items, chunk({}, finish=finish)], [*times, times[-1]]
    x = stream(
        *items,
        request={"max_tokens": 2000, **request},
        times=[*times, times[-1], times[-1]],
        scenario=scenario,
        step=step,
        done=complete,
    )
    t = x.transcript
    reads = t.reads if complete else t.reads[:-1]
    return exchange_of(replace(t, ending=ending, ended_at=times[-1], reads=reads))


def no_answer(scenario: str, step: str, ending: Ending, seconds: float = 0.5) -> Exchange:
    """A request without a single byte of answer."""
    t = plain(request={"max_tokens": 2000}, scenario=scenario, step=step).transcript
    return exchange_of(replace(t, reads=(), ending=ending, ended_at=seconds))


def left_stream(after: list[float], **changes: Any) -> list[Exchange]:
    """A whole round: the gauge after leaving shows these counts, one each 100 ms."""
    scenario = changes.pop("scenario", "cancel-stream")
    end = {"ended": 6, "aborted": 1, "made": 264, **changes.pop("end", {})}
    peak = changes.pop("peak", 0.02)
    left = changes.pop("left", None) or words(100, 0.01, scenario, "left", Ending.CLIENT_LEFT)
    assert not changes
    return [
        metrics("baseline", 0, scenario),
        metrics("baseline", 0, scenario),
        words(64, 0.01, scenario, "control", Ending.COMPLETE),
        metrics("settled", 0, scenario),
        metrics("during", 1, scenario, held=peak),
        left,
        *(metrics("after", count, scenario, seconds=0.002, **end) for count in after),
        *(metrics("end", 0, scenario, **end) for _ in range(2)),
    ]
