"""Streams for clients that accept compressed answers: still event by event."""

from __future__ import annotations

from wireproof.judge.rules import SHOULD, Source, of, rule
from wireproof.read.exchange import Exchange
from wireproof.verdict import NotApplicable, inconclusive, require

_GITHUB = "https://github.com/"
# An answer that is over sooner than this shows nothing about buffering (seconds).
_TOO_FAST = 0.25
# Fewer events than _TOO_FEW show nothing about it either; _TOGETHER in one arrival are one by one on a busy machine.
_TOO_FEW, _TOGETHER = 40, 8


def _arrivals(x: Exchange) -> tuple[int, int]:
    """How many events came, and in how many arrivals of decoded content; inconclusive when that says nothing."""
    if not x.ok or not x.is_event_stream:
        raise x.refused()
    if not x.transcript.timed:
        raise NotApplicable("the recording has no times")
    # Not the reads: a compressor that is not flushed sends bytes that nobody can decode yet.
    times = [x.answered.at(event.span[1] - 1) for event in x.events]
    if len(times) < _TOO_FEW or times[-1] < _TOO_FAST:
        raise inconclusive(f"{len(times)} events within {times[-1] if times else 0:.2f} s: too few or too fast to tell")
    return len(times), len(set(times))


def _one_by_one(bare: Exchange, accepting: Exchange) -> None:
    """Require events one by one for a client that accepts a coding, unless one that accepts none fares no better."""
    events, arrivals = _arrivals(accepting)
    if arrivals * _TOGETHER >= events:
        return
    others, came = _arrivals(bare)
    if arrivals * others * 2 > came * events:  # more than half as many arrivals, for the events that there were
        raise NotApplicable("it is no better without Accept-Encoding: other rules judge that")
    coding = accepting.answered.header("content-encoding") or "none"
    got = f"{events} events in {arrivals} arrivals (Content-Encoding: {coding}), without Accept-Encoding {came}"
    require(False, "events one by one", got=got, owner=accepting)


@rule(
    "operations.encoding.gzip-incremental",
    SHOULD,
    on=of("stream-long", "stream-long-gzip"),
    source=Source("contract", "Starlette's GZipMiddleware held streams back", f"{_GITHUB}Kludex/starlette/pull/2871"),
)
def test_gzip_incremental(bare: Exchange, accepting: Exchange) -> None:
    """A client that accepts gzip gets each event as it is made: uncompressed, or flushed after each one.

    httpx, openai-python and every browser accept gzip; curl does not unless told to, and looks fine. A compressor
    holds back what it gets, often until the end: GZipMiddleware of Starlette before 0.46 and of Django, `compression`
    of Express without `res.flush()`, nginx when it buffers and compresses.
    """
    _one_by_one(bare, accepting)


@rule(
    "operations.encoding.br-incremental",
    SHOULD,
    on=of("stream-long", "stream-long-br"),
    source=Source("contract", "OpenRouter's br came in batches", f"{_GITHUB}lidge-jun/opencodex/pull/115"),
)
def test_br_incremental(bare: Exchange, accepting: Exchange) -> None:
    """A client that accepts br gets each event as it is made: uncompressed, or flushed after each one.

    Browsers, the fetch of node and Bun, and httpx with its extra accept br; servers prefer it to gzip. A server that
    flushes gzip may forget br, whose compressor holds back more: 4 MB by default.
    """
    _one_by_one(bare, accepting)
