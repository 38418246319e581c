"""Conversations in which we leave before the answer is over, and look at what the server does then.

A gauge is a witness only once it was seen to work: it must stand still while nothing of ours runs, fall soon after an
answer that we read to its end (`control`), and rise while the long answer is made. aborts.py reads what they record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

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
    END,
    FILLED,
    FILLING,
    GPU_LOOKS,
    GPU_PERIOD,
    GPU_RISE,
    HOLDER,
    LEFT,
    LONG_TOKENS,
    PATIENCE,
    PAUSES,
    REST,
    SETTLE,
    SETTLED,
)
from wireproof.scenarios.scenario import Pending, Scenario, Session, conversation

_LITTLE = "Say: I am still here"
_COUNT = "Count from 1 to 1000, separated by commas."


def _request(say: str, tokens: int, *, stream: bool = True, **more: Any) -> Scenario:
    body = {"messages": [{"role": "user", "content": say}], "max_tokens": tokens, "temperature": 0, **more}
    return Scenario(name="request", what=say, body={**body, "stream": True} if stream else body)


def _with_id(scenario: Scenario, request_id: str) -> Scenario:
    return replace(scenario, headers={"X-Request-Id": request_id})


_METRICS = Scenario(name="gauges", what="The gauges.", method="GET", path="/metrics", root=True, gauges=True)
_SLOTS = replace(_METRICS, path="/slots")
_SHORT = _request("Say: I am still there", 12, stream=False)


async def _look(session: Session, step: str, where: Scenario, base: float, looks: int, *, rise: bool) -> None:
    """Look at the gauge until it has risen above, or come back to, where it was."""
    for pause in (0.0, *PAUSES[: looks - 1]):
        if pause:
            await session.sleep(pause)
        seen = reading(await session.send(step, where))
        if seen is not None and (seen.load > base) is rise:
            return


# How long we wait for a target that is busy: a deaf one works on what we left before (seconds).
_REST = 45


async def _gauge(session: Session) -> tuple[Scenario, float] | None:
    """Where the target shows its load, and how high it is; None when it does not."""
    for where in (_METRICS, _SLOTS):
        seen = reading(await session.send(REST, where))
        for _ in range(_REST):  # what a server that is deaf has left from before
            if seen is None or seen.load == 0:
                break
            await session.sleep(1.0)
            seen = reading(await session.send(REST, where))
        if seen is not None:
            for _ in range(2):
                await session.sleep(0.2)
                await session.send(BASELINE, where)
            return where, seen.load
    return None


async def _control(session: Session) -> tuple[dict[str, Any], Exchange]:
    """An answer that is read to its end: shows the pace, and whether `ignore_eos` keeps a model at work here.

    It has little to say, so that a model that stops by itself does so.
    """
    more: dict[str, Any] = {"ignore_eos": True}
    # A server may refuse a parameter that is no OpenAI one.
    x = await session.send(CONTROL, replace(_request(_LITTLE, CONTROL_TOKENS, **more), valid=False))
    if x.ok:
        return more, x
    return {}, await session.send(CONTROL, _request(_LITTLE, CONTROL_TOKENS))


def _first_token(x: Exchange) -> float:
    """When the first bytes of an answer came (seconds), in bounds."""
    arrivals = x.response.arrivals if x.response else []
    return min(arrivals[0][1] if arrivals else 0.0, 2.0)


async def _leave_one(session: Session, long: Scenario, *, early: bool = False, settle: bool = False) -> None:
    """One round: the gauge at rest, a control, the request that we leave (`early`: at once), and the gauge after."""
    found = await _gauge(session)
    if found is None:
        return
    where, base = found
    more, control = await _control(session)
    await _look(session, SETTLED, where, base, 10, rise=False)
    flight = await session.start(LEFT, replace(long, body={**(long.body or {}), **more}))
    await _look(session, DURING, where, base, len(PAUSES) + 1, rise=True)
    if not early:
        await session.sleep(0.2 + 2 * _first_token(control))
        await session.send(DURING, where)
    await flight.leave()
    await _look(session, AFTER, where, base, len(PAUSES) + 1, rise=False)
    for _ in range(2 if settle else 0):  # do the counters stand still?
        await session.sleep(0.5)
        await session.send(END, where)


_LONG = _request(_COUNT, LONG_TOKENS)


# (These two come first: what a deaf server works on after the others shows in no gauge when it hides it.)


@conversation(
    "cancel-black-box",
    "A short request alone, beside four long streams, and after the client left them.",
    exclusive=True,
    load=True,
)
async def _(session: Session) -> None:
    await _gauge(session)
    more, control = await _control(session)
    # With as many streams as places the probe waits for one of them to end: not for longer than this.
    probe = replace(_request(_COUNT, 32, stream=False, **more), idle_seconds=PATIENCE)
    for _ in range(3):
        await session.send(CALM, probe)
    flights = [await session.start(LEFT, _request(_COUNT, LONG_TOKENS, **more)) for _ in range(4)]
    await session.sleep(0.2 + _first_token(control))
    for _ in range(3):
        x = await (await session.start(BUSY, probe)).wait()
        if not x.ok:
            break
    for flight in flights:
        await flight.leave()
    await session.sleep(SETTLE)
    for _ in range(4):
        x = await (await session.start(AGAIN, probe)).wait()
        if not x.ok:
            break
        await session.sleep(BETWEEN)


@conversation(
    "cancel-gpu", "A client leaves a long stream; the use of the GPUs before and after.", exclusive=True, load=True
)
async def _(session: Session) -> None:
    look = replace(_METRICS, gpu=True)
    idle = used(await session.send(REST, look))
    for _ in range(_REST):
        if idle is None or max(idle) < GPU_RISE:
            break
        await session.sleep(GPU_PERIOD)
        idle = used(await session.send(REST, look))
    if idle is None:
        return
    for _ in range(2):
        await session.sleep(GPU_PERIOD)
        await session.send(BASELINE, look)
    more, _ = await _control(session)
    await session.sleep(GPU_PERIOD)
    await session.send(SETTLED, look)
    flight = await session.start(LEFT, replace(_LONG, body={**(_LONG.body or {}), **more}))
    await _look_at_gpus(session, DURING, look, max(idle) + GPU_RISE, 3, rise=True)
    await flight.leave()
    await _look_at_gpus(session, AFTER, look, max(idle) + 5.0, GPU_LOOKS, rise=False)


async def _look_at_gpus(session: Session, step: str, where: Scenario, level: float, looks: int, *, rise: bool) -> None:
    """Look at the use of the GPUs until one of them is above a level, or none is (percent)."""
    for _ in range(looks):
        await session.sleep(GPU_PERIOD)
        now = used(await session.send(step, where))
        if now is None or (max(now) > level) is rise:
            return


@conversation(
    "cancel-stream", "A client leaves a long stream midway; the gauges before and after.", exclusive=True, load=True
)
async def _(session: Session) -> None:
    await _leave_one(session, _LONG, settle=True)


@conversation("cancel-plain", "A long plain answer whose client leaves.", exclusive=True, load=True)
async def _(session: Session) -> None:
    await _leave_one(session, _request(_COUNT, LONG_TOKENS, stream=False))


@conversation("cancel-prefill", "A long prompt whose client leaves before the first token.", exclusive=True, load=True)
async def _(session: Session) -> None:
    # It must fit into a context of 4,096 tokens, or 8,192 single letters. (The bundled server can be asked to wait.)
    prompt = "wireproof pads this message. " * 200 + "[wait 2 s] " + _COUNT
    await _leave_one(session, _request(prompt, LONG_TOKENS // 2), early=True)


@conversation("cancel-n4", "A stream of four choices whose client leaves.", exclusive=True, load=True, optional="n > 1")
async def _(session: Session) -> None:
    # (vLLM refuses n > 1 at temperature 0.)
    await _leave_one(session, _request(_COUNT, LONG_TOKENS, n=4, temperature=1, seed=7))


# One value, and more tokens than are asked for: nothing but the schema is needed for a long answer.
_COUNTED = ",".join(str(n) for n in range(1, 1800))
_ONE_VALUE = {
    "type": "object",
    "properties": {"count": {"type": "string", "enum": [_COUNTED]}},
    "required": ["count"],
    "additionalProperties": False,
}


@conversation(
    "cancel-structured",
    "A long stream under a strict schema, whose client leaves midway.",
    exclusive=True,
    load=True,
    optional="strict json_schema",
)
async def _(session: Session) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": _ONE_VALUE}}
    await _leave_one(session, _request(_COUNT, LONG_TOKENS, response_format=form))


#: Streams that we open to fill the target's places: engines for CPUs and tests have 4 to 16.
MOST_HOLDERS = 20


@conversation("cancel-queued", "A stream that waits in the queue, and whose client leaves.", exclusive=True, load=True)
async def _(session: Session) -> None:
    found = await _gauge(session)
    if found is None or found[1] > 0:  # nobody shall wait for our sake who uses the target
        return
    where, base = found
    more, _ = await _control(session)
    await _look(session, SETTLED, where, base, 10, rise=False)
    long = replace(_LONG, body={**(_LONG.body or {}), **more})
    holders: list[Pending] = []
    while len(holders) < MOST_HOLDERS:
        holders.append(await session.start(HOLDER, long))
        await session.sleep(0.05)
        seen = reading(await session.send(FILLING, where))
        if seen is None or seen.waiting is None or seen.waiting > 0:
            break
    # (Gauges lag: what was started last shows a little later.)
    seen = await _look_at_load(session, FILLED, where, lambda load: load >= base + len(holders))
    if seen is not None and seen.waiting:
        before = seen.load
        flight = await session.start(LEFT, long)
        await _look_at_load(session, DURING, where, lambda load: load > before)
        await flight.leave()
        await _look_at_load(session, AFTER, where, lambda load: load <= before)
    for holder in holders:
        await holder.leave()


async def _look_at_load(
    session: Session, step: str, where: Scenario, enough: Callable[[float], bool]
) -> Reading | None:
    """Look at the gauges until as many requests run or wait as is enough; the last reading."""
    seen = None
    for pause in (0.0, *PAUSES):
        if pause:
            await session.sleep(pause)
        seen = reading(await session.send(step, where)) or seen
        if seen is not None and enough(seen.load):
            break
    return seen


@conversation(
    "cancel-others",
    "A client leaves a stream; another runs beside it, and the next has its id.",
    exclusive=True,
    load=True,
)
async def _(session: Session) -> None:
    await session.send("alone", _request(_COUNT, 12))
    # One id is the beginning of the other: some engines abort by prefix.
    leaving = await session.start(LEFT, _with_id(_LONG, "wireproof-7"))
    other = await session.start("other", _with_id(_request(_COUNT, 200), "wireproof-77"))
    await session.sleep(0.1)
    await leaving.leave()
    await other.wait()
    leaving = await session.start("left-again", _with_id(_LONG, "wireproof-8"))
    await session.sleep(0.1)
    await leaving.leave()
    await session.send("same-id", _with_id(_SHORT, "wireproof-8"))


MANY, EARLY = 30, 20


@conversation(
    "cancel-many", "Thirty streams whose clients leave after some events, then a request.", exclusive=True, load=True
)
async def _(session: Session) -> None:
    await session.send("before", _SHORT)
    for _ in range(MANY):
        await session.send(LEFT, replace(_request(_COUNT, 400), leave_after_events=3))
    await session.sleep(0.5)
    await session.send("then", _SHORT)


@conversation(
    "cancel-early", "Twenty requests whose clients leave within 15 ms, then four at a time.", exclusive=True, load=True
)
async def _(session: Session) -> None:
    four = [("before", _SHORT)] * 4
    await session.together(*four)
    for number in range(EARLY):
        flight = await session.start(LEFT, _request(_COUNT, 400))
        await session.sleep(0.005 * (number % 4))
        await flight.leave()
    await session.sleep(1.0)
    await session.together(*[("then", scenario) for _, scenario in four])
