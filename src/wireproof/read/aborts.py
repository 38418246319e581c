"""Whether a request that we left was stopped: shown by the server's gauges, or by how fast it is again.

Pure functions over the exchanges of a conversation that we left. Nothing is guessed: where a channel
does not work on this target (no gauge, a gauge that lags, others who use the server), it says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from wireproof.read.chat import Chat, is_chat
from wireproof.read.exchange import Exchange
from wireproof.read.gauges import Reading, reading, used
from wireproof.read.leaving import (
    AFTER,
    AGAIN,
    BASELINE,
    BETWEEN,
    BUSY,
    CALM,
    CONTROL,
    CONTROL_TOKENS,
    DURING,
    FILLED,
    GPU_PERIOD,
    GPU_RISE,
    HOLDER,
    LEFT,
    LIMIT,
    LONG_TOKENS,
    PATIENCE,
    PAUSES,
    SETTLE,
    SETTLED,
    SHORTLY,
)
from wireproof.verdict import Inconclusive, NotApplicable
from wireproof.wire.transcript import Ending


@dataclass(frozen=True)
class Aborted:
    """`seconds` from our leaving to the abort, None when there was none in time; `text` says what was seen."""

    seconds: float | None
    text: str
    owner: Exchange


def _steps(found: Sequence[Exchange], step: str) -> list[Exchange]:
    return [x for x in found if x.transcript.step == step]


def _chats(found: Sequence[Exchange], step: str) -> list[Chat]:
    return [x for x in _steps(found, step) if is_chat(x)]


def readings(found: Sequence[Exchange], step: str) -> list[Reading]:
    """The gauges at each look of a step."""
    return [r for x in _steps(found, step) if (r := reading(x)) is not None]


def left(found: Sequence[Exchange]) -> Chat:
    """The exchange that we left; inconclusive when it was refused, or over before."""
    exchanges = _chats(found, LEFT)
    if not exchanges:
        raise Inconclusive("the conversation did not get to the request that is left")
    for x in exchanges:
        if x.response is not None and not x.ok:
            raise x.refused()
        if x.transcript.ending is not Ending.CLIENT_LEFT:
            raise Inconclusive("the answer was over before we left")
    return exchanges[0]


def _pace(x: Chat) -> float | None:
    """Seconds for each event of a stream; None when it is none, or came at one go."""
    if not x.is_event_stream or not x.transcript.timed:
        return None
    times = [at for _, at in x.answered.arrivals]
    events = len(x.chunks)
    if len(times) < 2 or events < 8 or times[-1] - times[0] < 0.005:
        return None
    return (times[-1] - times[0]) / events


def _limit(x: Chat) -> int:
    """How many tokens of each choice were asked for."""
    asked = x.asked.get("max_tokens")
    return asked if isinstance(asked, int) else LONG_TOKENS


def baseline(found: Sequence[Exchange]) -> Reading:
    """The gauges while nothing of ours runs; not applicable when there are none, or they move by themselves."""
    before = readings(found, BASELINE)
    if not before:
        raise NotApplicable("the target shows no gauge of its running requests (/metrics, /slots)")
    if len({r.load for r in before}) > 1:
        seen = ", ".join(f"{r.load:g}" for r in before)
        raise NotApplicable(f"others use the target: its gauge moved while we were idle ({seen})")
    if before[0].load > 0:
        raise NotApplicable(f"others use the target: {before[0].load:g} requests are running while ours are not")
    settled = readings(found, SETTLED)
    if settled and settled[-1].load > before[0].load:
        raise NotApplicable(f"the gauge lags: it showed {settled[-1].load:g} long after an answer was over")
    return before[0]


def by_gauge(found: Sequence[Exchange]) -> Aborted:
    """What the gauge of running requests shows."""
    start = baseline(found)
    x = left(found)
    during = readings(found, DURING)
    if not during or max(r.load for r in during) <= start.load:
        raise NotApplicable(f"the gauge did not rise while we were served (it stayed at {start.load:g})")
    seen, late = None, ""
    for before, at, now in _looks(found):
        seen = now or seen
        if seen is not None and seen.load <= start.load:
            if before <= LIMIT:
                return _unless_over(found, x, at, start, seen)
            late = f"aborted only after {before:.1f} to {at:.1f} s"
            break
    if seen is None:
        raise Inconclusive("the gauge could not be read any more after we had left")
    slow = max((c.transcript.ended_at for c in _chats(found, CONTROL)), default=0.0)
    if slow > LIMIT:
        raise Inconclusive(f"the target took {slow:.0f} s for a short answer: too slow, or too busy, to tell")
    still = f"still {seen.load:g} running or waiting after {at:.1f} s (before: {start.load:g})"
    return Aborted(None, late or still, x)


def _looks(found: Sequence[Exchange]) -> Iterator[tuple[float, float, Reading | None]]:
    """Our looks after we left: when the one before was taken, when this one (seconds since), and what it shows."""
    at = 0.0
    for number, poll in enumerate(_steps(found, AFTER)):
        before = at
        at += poll.transcript.ended_at + (PAUSES[min(number, len(PAUSES)) - 1] if number else 0.0)
        yield before, at, reading(poll)


def _keeps_on(found: Sequence[Exchange]) -> bool:
    """Whether the control, which has little to say, ran on to its limit: ignore_eos works, or the model rambles."""
    controls = [c for c in _chats(found, CONTROL) if c.ok and c.is_event_stream]
    return bool(controls) and [c.finish_reason for c in controls[-1].assembled.choices] == ["length"]


def had_tokens(x: Chat) -> bool:
    """Whether a token of the stream had come."""
    return x.is_event_stream and any(p.carries for p in x.assembled.parts)


def _within(seconds: float) -> str:
    """A time in words. Below 10 ms we cannot tell: the look itself takes some."""
    return f"within {max(1000 * seconds, 10):.0f} ms"


def before_first_token(found: Sequence[Exchange]) -> Aborted:
    """What the gauge shows of a request that was left while its prompt was read."""
    seen = by_gauge(found)
    if had_tokens(left(found)):
        raise Inconclusive("a token had come already when we left")
    return seen


def _unless_over(found: Sequence[Exchange], x: Chat, at: float, start: Reading, end: Reading) -> Aborted:
    """Aborted after `at` seconds, unless the answer would have been over by then anyway."""
    controls = _chats(found, CONTROL)
    pace = _pace(controls[-1]) if controls else None
    tokens = _limit(x)
    ran = start.ended is not None and end.ended is not None
    own = (end.ended or 0.0) - (start.ended or 0.0) - sum(c.ok for c in controls) if ran else 1.0
    if not _keeps_on(found) and at > SHORTLY and own > 0:
        raise Inconclusive(f"it ended {at:.1f} s after we left, and the model may have come to its own end")
    whole = (pace or 0.001) * tokens
    if at <= max(whole - x.transcript.ended_at, 0.0) / 2:
        return Aborted(at, f"aborted {_within(at)}", x)
    if start.generated is not None and end.generated is not None and end.generated > start.generated:
        made = end.generated - start.generated - CONTROL_TOKENS * sum(c.ok for c in controls)
        share = made / (tokens * x.asked_n)
        if share < 0.9:
            return Aborted(at, f"aborted {_within(at)}", x)
        if share < 1.1 and at >= 0.9 * LIMIT:  # (more than all of it: others use the target, too)
            return Aborted(None, f"made to its end: {made:g} tokens, the last ones up to {at:.1f} s after we left", x)
    raise Inconclusive(f"it ended {at:.1f} s after we left, when the answer may have been over anyway")


def by_queue(found: Sequence[Exchange]) -> Aborted:
    """What the gauges show of a request that was left while it waited for one of the streams in front of it."""
    start = baseline(found)
    filled = readings(found, FILLED)
    if start.waiting is None:
        raise NotApplicable("the target shows no gauge of waiting requests")
    if filled and not filled[-1].waiting:
        count = len(_steps(found, HOLDER))
        raise NotApplicable(f"{count} streams at a time did not make the target queue any of them")
    x = left(found)
    during = readings(found, DURING)
    if not filled or not during or during[-1].load != filled[-1].load + 1:
        raise Inconclusive("the gauges did not show the stream that was to wait")
    if any(h.transcript.ending is not Ending.CLIENT_LEFT for h in _steps(found, HOLDER)):
        raise Inconclusive("one of the streams in front ended, so that the queue moved by itself")
    at = 0.0
    for before, at, seen in _looks(found):
        if seen is not None and seen.load <= filled[-1].load:
            if before <= LIMIT:
                return Aborted(at, f"left the queue {_within(at)}", x)
            return Aborted(None, f"left the queue only after {before:.1f} to {at:.1f} s", x)
    counts = f"{during[-1].load:g} running or waiting after {at:.1f} s ({filled[-1].load:g} without it)"
    return Aborted(None, f"still {counts}", x)


def by_gpu(found: Sequence[Exchange]) -> Aborted:
    """What the use of the GPUs shows: the one that rose most beside the stream."""
    looks = {step: [u for x in _steps(found, step) if (u := used(x))] for step in (BASELINE, SETTLED, DURING)}
    if not looks[BASELINE]:
        raise NotApplicable("no GPU of this machine can be asked (nvidia-smi), or the target runs elsewhere")
    x = left(found)
    quiet = looks[BASELINE] + looks[SETTLED]
    count = min(len(u) for u in quiet + looks[DURING])
    idle = [max(u[gpu] for u in quiet) for gpu in range(count)]
    busy = [max((u[gpu] for u in looks[DURING]), default=0.0) for gpu in range(count)]
    gpu = max(range(count), key=lambda n: busy[n] - idle[n])
    told = f"{idle[gpu]:.0f} % in use before, {busy[gpu]:.0f} % beside the stream"
    if busy[gpu] - idle[gpu] < GPU_RISE:
        raise NotApplicable(f"the use of the GPU does not show what the target does: {told}")
    at, now = 0.0, busy[gpu]
    for poll in _steps(found, AFTER):
        before, at = at, at + poll.transcript.ended_at + GPU_PERIOD + _seconds_of(poll)
        seen = used(poll)
        now = seen[gpu] if seen and len(seen) > gpu else now
        if now <= idle[gpu] + (busy[gpu] - idle[gpu]) / 4:
            rest = (_pace(x) or 0.001) * LONG_TOKENS - x.transcript.ended_at
            if before > LIMIT:
                return Aborted(None, f"idle only after {before:.1f} to {at:.1f} s ({told})", x)
            if at > rest / 2 or (not _keeps_on(found) and before > GPU_PERIOD):
                raise Inconclusive(f"it was idle {at:.1f} s after we left, when the answer may have been over anyway")
            return Aborted(at, f"idle again {_within(at)}: {now:.0f} % in use ({told})", x)
    return Aborted(None, f"still {now:.0f} % in use after {at:.1f} s ({told})", x)


def _seconds_of(x: Exchange) -> float:
    """How long the look at the GPUs took (seconds)."""
    try:
        return min(max(float(x.transcript.tags.gpu_seconds or "0"), 0.0), 60.0)
    except ValueError:
        return 0.0


def by_black_box(found: Sequence[Exchange]) -> Aborted:
    """What a short request shows: as fast again as alone, or as slow as beside the streams that we left."""
    x = left(found)
    calm, busy, after = (_durations(found, step) for step in (CALM, BUSY, AGAIN))
    alone, beside, now = median(calm), median(busy), median(after[1:] or after)
    if max(calm) > 1.5 * alone:
        raise NotApplicable(f"a short request takes from {min(calm):.2f} to {max(calm):.2f} s by itself: too unsteady")
    if beside < 1.5 * alone or beside - alone < 0.05:
        told = f"{beside:.2f} s beside four streams, {alone:.2f} s alone"
        raise NotApplicable(f"running streams do not slow a short request down ({told}): nothing would show an abort")
    pace = _pace(x)
    rest = (pace or 0.001) * LONG_TOKENS - x.transcript.ended_at
    text = f"a short request took {now:.2f} s ({alone:.2f} s alone, {beside:.2f} s beside the streams)"
    if now >= alone + 0.75 * (beside - alone):
        return Aborted(None, f"still busy: {text}", x)
    if now > alone + 0.4 * (beside - alone):
        raise Inconclusive(f"neither calm nor busy: {text}")
    waited = SETTLE + sum(after) + BETWEEN * len(after)
    if rest < waited or (not _keeps_on(found) and SETTLE + after[0] > 3 * SHORTLY):
        raise Inconclusive(f"the streams may have been over anyway after {waited:.1f} s: {text}")
    return Aborted(SETTLE + after[0], f"aborted {_within(SETTLE + after[0])}: {text}", x)


def _durations(found: Sequence[Exchange], step: str) -> list[float]:
    """How long each probe took; one that had to wait for too long took that long, and was the last one."""
    exchanges = _steps(found, step)
    waited = [x for x in exchanges if x.transcript.ending is Ending.IDLE_TIMEOUT and step != CALM]
    if waited:
        return [max(x.transcript.ended_at, PATIENCE) for x in waited]
    if len(exchanges) < 3:
        raise Inconclusive(f"the conversation did not get through its {step} requests")
    for x in exchanges:
        if not x.ok:
            raise x.refused()
    return [x.transcript.ended_at for x in exchanges]
