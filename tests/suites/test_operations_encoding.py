"""Rules about streams for clients that accept compressed answers, with times by hand."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import brotli
import pytest

from wireproof.read.endpoints import exchange_of
from wireproof.read.exchange import Exchange
from wireproof.verdict import Status
from wireproof.wire.transcript import Ending

from .leaving import no_answer
from .wire import broken, chunk, event, explain, plain, stream, verdict

CODINGS = ("gzip", "br")
EVENTS = [event(chunk({"content": f"{n}, "})) for n in range(100)]


def rule_of(coding: str) -> str:
    return f"operations.encoding.{coding}-incremental"


def bare(together: int = 1, pace: float = 0.01, **more: Any) -> Exchange:
    """The stream without Accept-Encoding; so many events come together."""
    times = [pace * (n // together * together + together) for n in range(len(EVENTS) + 2)]
    return stream(*EVENTS, times=times, **{"scenario": "stream-long", **more})


def accepting(coding: str, together: int = 1, pace: float = 0.01) -> Exchange:
    """The same for a client that accepts a coding, not compressed."""
    return bare(together, pace, scenario=f"stream-long-{coding}", sent={"Accept-Encoding": coding})


def packed(coding: str, flushed_every: int, pace: float = 0.01) -> Exchange:
    """The same, compressed: the compressor is flushed after so many events, and at the end."""
    if coding == "br":
        own = brotli.Compressor()
        add, flush, end = own.process, own.flush, own.finish
    else:
        squeeze = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
        add, end = squeeze.compress, squeeze.flush
        flush = _sync(squeeze.flush)
    pieces, times = [], []
    for number, data in enumerate([*EVENTS, event("[DONE]")], 1):
        ready = add(data) + (flush() if number % flushed_every == 0 else b"")
        if ready:
            pieces.append(ready)
            times.append(pace * number)
    pieces.append(end())
    return stream(
        *pieces,
        done=False,
        times=[*times, pace * 101, pace * 101],
        headers={"Content-Encoding": coding},
        sent={"Accept-Encoding": coding},
        scenario=f"stream-long-{coding}",
    )


def _sync(flush: Callable[[int], bytes]) -> Callable[[], bytes]:
    return lambda: flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize("coding", CODINGS)
def test_event_by_event(coding: str) -> None:
    """Not compressed, or flushed soon enough: both are right."""
    for x in (accepting(coding), accepting(coding, 8), packed(coding, 1), packed(coding, 5)):
        assert len(x.events) == 101
        assert verdict(rule_of(coding), bare(), x) is Status.PASS


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("every", [20, 50, 1000])
def test_a_compressor_that_holds_back(coding: str, every: int) -> None:
    x = packed(coding, every)
    assert len(x.events) == 101
    assert broken(bare(), x, areas=("operations",)) == {rule_of(coding)}
    assert f"(Content-Encoding: {coding}), without Accept-Encoding 101" in explain(rule_of(coding), bare(), x)


@pytest.mark.parametrize("coding", CODINGS)
def test_held_back_and_not_compressed(coding: str) -> None:
    """It is the waiting that hurts, not the coding."""
    assert broken(bare(), accepting(coding, 101), areas=("operations",)) == {rule_of(coding)}


@pytest.mark.parametrize("coding", CODINGS)
def test_no_worse_than_without(coding: str) -> None:
    """Blocks for everybody are the business of other rules; blocks that become one burst are not."""
    rule = rule_of(coding)
    assert verdict(rule, bare(20), accepting(coding, 20)) is Status.NOT_APPLICABLE
    assert verdict(rule, bare(102), accepting(coding, 102)) is Status.NOT_APPLICABLE
    assert verdict(rule, bare(20), packed(coding, 1000)) is Status.FAIL
    assert verdict(rule, bare(20), packed(coding, 1)) is Status.PASS


@pytest.mark.parametrize("coding", CODINGS)
def test_what_shows_nothing(coding: str) -> None:
    rule = rule_of(coding)
    name = f"stream-long-{coding}"
    assert verdict(rule, bare(), packed(coding, 1000, 0.002)) is Status.INCONCLUSIVE, "too fast"
    assert verdict(rule, bare(1, 0.002), packed(coding, 1000)) is Status.INCONCLUSIVE, "nothing to compare with"
    few = stream(*EVENTS[:20], times=[0.1 * n for n in range(22)], scenario=name)
    assert verdict(rule, bare(), few) is Status.INCONCLUSIVE
    untimed = exchange_of(replace(packed(coding, 1000).transcript, timed=False))
    assert verdict(rule, bare(), untimed) is Status.NOT_APPLICABLE
    error = {"error": {"message": "no", "type": "server_error", "param": None, "code": None}}
    assert verdict(rule, bare(), plain(error, status=500, scenario=name)) is Status.INCONCLUSIVE
    assert verdict(rule, bare()) is Status.NOT_APPLICABLE
    unknown = stream(
        b"\x28\xb5\x2f\xfd", done=False, times=[0.1, 0.5], headers={"Content-Encoding": "zstd"}, scenario=name
    )
    assert verdict(rule, bare(), unknown) is Status.INCONCLUSIVE


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, {"choices": [7]}])
def test_odd_answers_are_no_exception(coding: str, junk: Any) -> None:
    """`broken` raises when a check does."""
    name = f"stream-long-{coding}"
    head = {"Content-Encoding": coding}
    for x in (
        plain(junk, scenario=name),
        plain(b"\xff\x00", headers=head, scenario=name),
        stream(raw=b"", headers=head, scenario=name),
        stream(raw=b"\x1f\x8b\x08", headers=head, scenario=name),
        stream(raw=b"\n\ndata", scenario=name),
        stream(*([junk] * 50 if isinstance(junk, dict) else []), times=[1.0], scenario=name),
    ):
        broken(bare(), x, areas=("operations",))
        broken(exchange_of(replace(x.transcript, scenario="stream-long")), packed(coding, 1000), areas=("operations",))
    broken(bare(), no_answer(name, "", Ending.CLOSED), areas=("operations",))
