"""When bytes arrive: heartbeats, gaps, and whether anything holds the stream back."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from wireproof.judge.rules import SHOULD, Each, client, contract, each_of, rule
from wireproof.judge.subjects import STREAM_SCENARIOS
from wireproof.read.chat import Chat, is_stream
from wireproof.read.exchange import Exchange
from wireproof.verdict import NotApplicable, inconclusive, require

# The longest silence that the contract allows, and one second of grace for a busy host (seconds).
HEARTBEAT, GRACE = 15.0, 1.0
# LangChain raises a timeout after this long without a parsed chunk (seconds).
CHUNK_TIMEOUT = 120.0

TIMED = Each(
    "every chat stream recorded with times",
    lambda x: is_stream(x) and x.transcript.timed,
    (*STREAM_SCENARIOS, "stream-slow-first-token"),
)


def _event_times(x: Exchange) -> list[float]:
    """When each data event was complete (seconds after the request)."""
    response = x.answered
    ends = [end for end, _ in response.arrivals]
    times = [at for _, at in response.arrivals]
    if not ends:
        return []
    return [times[min(bisect_right(ends, e.span[1] - 1), len(times) - 1)] for e in x.events]


def _longest(times: list[float]) -> tuple[float, float]:
    """The longest gap between neighbours, and when it began."""
    return max(((b - a, a) for a, b in pairwise(times)), default=(0.0, 0.0))


def _waited(x: Exchange) -> float:
    """The longest wait for a data event once the headers were there; not applicable when that was short."""
    gap, _ = _longest([x.answered.head_at, *_event_times(x)])
    if gap < HEARTBEAT:
        raise NotApplicable(f"the stream was never without an event for {HEARTBEAT:.0f} s (longest: {gap:.1f} s)")
    return gap


@rule(
    "sse.heartbeat.every-15s",
    SHOULD,
    on=TIMED,
    book="SSE-015",
    source=contract("heartbeat comments; WHATWG 9.2.7 names 15 seconds, too"),
)
def test_heartbeat_every_15s(x: Exchange) -> None:
    """While no event is ready, the server sends a comment line at least every 15 s, even before the first token.

    Load balancers close a connection that is silent (often after 60 s) during a long prefill or hidden
    reasoning.
    """
    gap = _waited(x)
    silence, since = _longest([x.answered.head_at, *(at for _, at in x.answered.arrivals)])
    got = f"{silence:.1f} s of silence after {since:.1f} s (no event for {gap:.1f} s)"
    require(silence <= HEARTBEAT + GRACE, f"a byte every {HEARTBEAT:.0f} s", got=got)


@rule(
    "sse.gap.below-120s",
    SHOULD,
    on=TIMED,
    book="SSE-017",
    source=client("langchain-openai", "ChatOpenAI.stream_chunk_timeout"),
)
def test_gap_below_120s(x: Exchange) -> None:
    """Two data events of a stream are less than 120 s apart.

    LangChain's async streaming raises StreamChunkTimeoutError after 120 s without a parsed chunk;
    comments do not count.
    """
    gap = _waited(x)
    require(gap < CHUNK_TIMEOUT, f"less than {CHUNK_TIMEOUT:.0f} s between events", got=f"{gap:.1f} s")


# An answer that is over sooner than this shows nothing about buffering (seconds).
_TOO_FAST = 0.25


@rule("sse.flush.incremental", SHOULD, on=each_of("stream-long"), book="SSE-018", source=contract("proxy buffering"))
def test_flush_incremental(x: Exchange) -> None:
    """The server sends events as it produces them, not in one burst at the end.

    A buffer in the server or in front of it (nginx and Envoy have one by default) makes the first token
    as late as the last.
    """
    if not x.transcript.timed:
        raise NotApplicable("the recording has no times")
    times = [at for at, event in zip(_event_times(x), x.events, strict=True) if '"content":' in event.data]
    if len(times) < 20:
        raise inconclusive(f"the answer has only {len(times)} events: too few to tell")
    if times[-1] < _TOO_FAST:  # a busy machine gets such an answer in one read
        raise inconclusive(f"the whole answer came within {times[-1]:.3f} s: too fast to tell")
    distinct = len(set(times))
    got = f"first event after {times[0]:.3f} s, last after {times[-1]:.3f} s, in {distinct} reads"
    # Either proves it: an early first event, or many separate arrivals after a long prefill.
    require(times[0] < times[-1] / 2 or distinct >= 10, "a first event well before the last", got=got)


@rule(
    "sse.header.sent-early",
    SHOULD,
    on=Each(
        "every chat stream recorded with times",
        TIMED.match,
        ("stream-long-prompt", "stream-slow-first-token"),
    ),
    book="SSE-022",
    source=contract("headers before a long prefill"),
)
def test_header_sent_early(x: Chat) -> None:
    """The server sends the headers of a stream when it accepts the request, not with the first token.

    Heartbeats cannot protect a connection whose headers are still missing: undici times out after 300 s,
    gateways sooner.
    """
    if x.transcript.tags.beside:
        raise NotApplicable("it ran in parallel with other requests of ours")
    times = _event_times(x)
    carrying = [p.chunk.position for p in x.assembled.parts if p.carries]
    position = carrying[0] if carrying else 0
    if position >= len(times) or times[position] < 1.0:
        raise NotApplicable("the first token came too soon to tell it from the headers")
    first, head = times[position], x.answered.head_at
    require(head < first / 2, f"headers well before the first token ({first:.2f} s)", got=f"headers after {head:.2f} s")
