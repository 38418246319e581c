"""Records a plan: concurrent scenarios together, exclusive ones alone, each once per sample.

The recorder does not know whether requests go over a socket or to a server in memory:
that is the `Sender`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from wireproof.read.chat import is_chat
from wireproof.read.endpoints import exchange_of
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Recording, Take
from wireproof.scenarios.catalog import needed
from wireproof.scenarios.clients import WHEN_ASKED
from wireproof.scenarios.scenario import Scenario
from wireproof.verdict import Status
from wireproof.wire.transcript import Ending, Tags, Transcript

# So many requests in a row without a single byte of answer end the recording: the target is gone.
SILENT_LIMIT = 4
# So many answers that had to be cut off end it too: enough is seen, and each costs a whole timeout.
STUCK_LIMIT = 8
# How often, and for how long at most each time (seconds), we wait for a target that is busy after a bad request.
BUSY_TRIES, MOST_BUSY = 4, 20.0
_BUSY = frozenset({429, 503})
_CUT = frozenset({Ending.IDLE_TIMEOUT, Ending.TOTAL_TIMEOUT, Ending.BYTE_LIMIT})


class Lane(Protocol):
    """One client connection at a time: requests of a lane can share it."""

    async def send(self, scenario: Scenario, *, reuse: bool) -> Transcript:
        """Send one request; `reuse` keeps the connection of the request before."""
        ...

    async def start(self, scenario: Scenario) -> Flight:
        """Send one request over a new connection, and go on while it is answered."""
        ...

    async def close(self) -> None:
        """Give the connection back."""
        ...


class Flight(Protocol):
    """A request on its way."""

    async def leave(self) -> Transcript:
        """Close the connection now; what came so far."""
        ...

    async def wait(self) -> Transcript:
        """The whole exchange, when it has ended."""
        ...


class Unavailable(Exception):
    """A client library cannot be made to play; the status is that of the rules that need it."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class ClientPlayer(Protocol):
    """Plays the scenarios of client libraries."""

    async def play(self, scenario: Scenario) -> list[tuple[str, Transcript]]:
        """Every exchange with its step, in order. Raises Unavailable."""
        ...


class Sender(Protocol):
    """Makes lanes to one target."""

    model: str

    def lane(self) -> Lane:
        """A new lane."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait, in real or in virtual time (seconds)."""
        ...


@dataclass(frozen=True)
class Cost:
    """What a run cost, as far as the target reported it."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    def plus(self, x: Exchange) -> Cost:
        """With one more exchange."""
        usage = x.usage or {} if is_chat(x) and x.ok else {}
        counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        prompt, completion = (c if isinstance(c, int) and 0 <= c < 10**9 else 0 for c in counts)
        return replace(
            self,
            requests=self.requests + 1,
            prompt_tokens=self.prompt_tokens + prompt,
            completion_tokens=self.completion_tokens + completion,
        )


@dataclass(frozen=True)
class Progress:
    """How far the recording is."""

    done: int
    total: int
    cost: Cost


@dataclass
class Recorder:
    """Records scenarios through a sender.

    `on_exchange` is called for every transcript as soon as it exists (partial results),
    `on_progress` after every scenario. `byte_budget` bounds what a whole run may receive.
    """

    sender: Sender
    concurrency: int = 4
    samples: int = 1
    gentle: bool = False
    risky: bool = True
    thorough: bool = False  # a plain request after every one that must be refused, not only after what looks suspicious
    only: frozenset[str] | None = None  # a profile's scenarios
    byte_budget: int = 64 * 1024 * 1024
    on_scenario: Callable[[Scenario], None] | None = None  # before it is recorded
    on_exchange: Callable[[Exchange], None] | None = None
    on_progress: Callable[[Progress], None] | None = None
    make: Callable[[Transcript], Exchange] = exchange_of
    clients: ClientPlayer | None = None  # without it, scenarios of client libraries are left out
    cost: Cost = field(default_factory=Cost)
    stopped: str = ""  # why recording ended early
    gone: bool = False  # it ended because the target does not answer any more
    died: bool = False  # it ended because the target did not survive a request that it had to refuse
    _count: int = 0
    _bytes: int = 0
    _done: int = 0
    _silent: int = 0
    _stuck: int = 0

    async def record(self, names: Sequence[str], *, slow: bool = False) -> Recording:
        """Record the named scenarios.

        Returns the recording; scenarios that were left out are in its `skipped` with the reason.
        """
        plan = needed(names, slow=slow, gentle=self.gentle, risky=self.risky)
        plan = [s for s in plan if self.only is None or s.name in self.only]
        skipped = self._left_out(set(names) - {s.name for s in plan}, slow=slow)
        if self.clients is None:
            skipped |= {s.name: (Status.NOT_APPLICABLE, WHEN_ASKED) for s in plan if s.client}
            plan = [s for s in plan if not s.client]
        health = next((s for s in plan if s.health), None)
        many = [(s, max(s.samples, 1 if s.exclusive or s.client else self.samples)) for s in plan if s is not health]
        jobs = [(s, i) for s, samples in many for i in range(samples)]
        takes: dict[tuple[str, int], Take] = {}
        gate = asyncio.Semaphore(max(1, self.concurrency))

        async def run(scenario: Scenario, sample: int) -> None:
            async with gate:
                if self.stopped:
                    skipped.setdefault(
                        scenario.name, (Status.INCONCLUSIVE if self.died else Status.ERROR, self.stopped)
                    )
                    return
                try:
                    takes[scenario.name, sample] = await self._take(scenario, sample)
                except Unavailable as error:
                    skipped[scenario.name] = (error.status, str(error))
            self._done += 1
            if self.on_progress:
                self.on_progress(Progress(self._done, len(jobs), self.cost))

        # Requests that a server must refuse come last, one by one: some servers don't survive them.
        together = [job for job in jobs if job[0].tame and not job[0].exclusive]
        alone = [job for job in jobs if job[0].tame and job[0].exclusive]
        hostile = sorted((job for job in jobs if not job[0].tame), key=lambda job: _harm(job[0]))
        if self.concurrency <= 1:
            alone = [*together, *alone]
        else:
            async with asyncio.TaskGroup() as group:
                for job in together:
                    group.create_task(run(*job))
        for job in alone:
            await run(*job)
        checks: list[Take] = []
        for number, (scenario, sample) in enumerate(hostile, 1):
            await run(scenario, sample)
            take = takes.get((scenario.name, sample))
            if health and take and (self.thorough or number == len(hostile) or _suspicious(take)):
                checks += await self._check_health(health, len(checks), after=scenario)
        if health and not hostile and not self.stopped:
            checks.append(await self._take(health, 0))
        ordered = [takes[s.name, i] for s, i in jobs if (s.name, i) in takes]
        return Recording((*ordered, *checks), skipped)

    def _left_out(self, names: set[str], *, slow: bool) -> dict[str, tuple[Status, str]]:
        """Why scenarios are not recorded."""
        out: dict[str, tuple[Status, str]] = {}
        for scenario in needed(names, slow=True):
            reason = "the profile leaves it out"
            if scenario.slow and not slow:
                reason = "slow scenarios are left out by default: add --slow"
            elif scenario.risky and not self.risky:
                reason = "it has killed a real engine, and is left out by default: add --risky when the target is yours"
            elif scenario.load and self.gentle:
                reason = "a gentle run leaves out what loads the target"
            out[scenario.name] = (Status.NOT_APPLICABLE, reason)
        return out

    async def _check_health(self, health: Scenario, number: int, *, after: Scenario) -> list[Take]:
        """A plain request after one that had to be refused; ends the recording when the server is gone.

        One that is busy is asked again: gateways shut an engine out for some seconds after errors of ours. One that is
        silent, once: it may still read what we sent.
        """
        takes = [await self._take(health, number, step=after.name)]
        for tried in range(BUSY_TRIES):
            x = takes[-1].exchanges[0]
            silent = x.transcript.ending is Ending.IDLE_TIMEOUT and not tried
            if self.stopped or not (silent or x.status in _BUSY):
                break
            await self.sender.sleep(_retry_after(x))
            takes.append(await self._take(health, number + len(takes), step=after.name))
        x = takes[-1].exchanges[0]
        if not x.ok and not self.stopped:
            self.died = True  # a rule of its own says so
            self.stopped = f"after the request {after.name!r} the target no longer answers a plain one ({x.refusal()})"
        return takes

    async def _take(self, scenario: Scenario, sample: int, step: str = "") -> Take:
        if self.on_scenario:
            self.on_scenario(scenario)
        if scenario.client:
            assert self.clients is not None, "left out of the plan"
            played = await self.clients.play(scenario)
            kept = tuple(self._keep(t, scenario, sample, task, beside=True) for task, t in played)
            return Take(scenario.name, sample, kept, conversation=True)
        if scenario.play is None:
            lane = self.sender.lane()
            try:
                exchange_of = self._keep(await lane.send(scenario, reuse=False), scenario, sample, step)
            finally:
                await lane.close()
            return Take(scenario.name, sample, (exchange_of,))
        session = _Conversation(self, scenario, sample)
        try:
            await scenario.play(session)
        finally:
            await session.lane.close()
        return Take(scenario.name, sample, tuple(session.exchanges), conversation=True)

    def _keep(self, t: Transcript, scenario: Scenario, sample: int, step: str, *, beside: bool = False) -> Exchange:
        self._count += 1
        tags = scenario.tags | t.tags | Tags(beside=beside and not scenario.client)
        x = self.make(replace(t, id=f"t{self._count}", scenario=scenario.name, sample=sample, step=step, tags=tags))
        self.cost = self.cost.plus(x)
        self._watch(x, beside)
        if self.on_exchange:
            self.on_exchange(x)
        return x

    def _watch(self, x: Exchange, beside: bool) -> None:
        """Stop a run that can only go on failing: too many bytes, too many cut answers, or a silent target.

        Requests beside others wait at the same time, and some are left before there can be an answer: when they get
        none, that is for the rules.
        """
        t = x.transcript
        self._bytes += max(sum(len(r.data) for r in t.reads), len(x.response.content) if x.response else 0)
        self._silent = 0 if t.reads else self._silent + (not beside)
        self._stuck += t.ending in _CUT and bool(t.reads) and not beside
        if self.stopped:
            return
        detail = f"{t.ending.value} {t.detail}".strip()
        if self._silent >= SILENT_LIMIT:
            self.gone = True
            self.stopped = f"the target did not answer {self._silent} requests in a row ({detail})"
        elif self._bytes > self.byte_budget:
            self.stopped = f"the target sent more than {self.byte_budget} bytes in this run"
        elif self._stuck >= STUCK_LIMIT:
            self.stopped = f"{self._stuck} answers had no end ({detail})"


def _retry_after(x: Exchange) -> float:
    """How long a busy server asks us to wait (seconds), within bounds."""
    said = (x.response.header("retry-after") or "").strip() if x.response else "1"
    return min(max(float(said), 1.0), MOST_BUSY) if said.isdecimal() and len(said) < 6 else 6.0


def _harm(scenario: Scenario) -> tuple[bool, bool, bool]:
    """What may hurt a server more is sorted behind what may hurt it less."""
    return scenario.risky, scenario.load, scenario.exclusive


def _suspicious(take: Take) -> bool:
    """Whether an answer to a bad request looks as if it had hurt the server."""
    return any(x.status is None or x.status >= 500 or x.status == 404 for x in take.exchanges)


class _Conversation:
    """The `Session` of one conversation."""

    def __init__(self, recorder: Recorder, scenario: Scenario, sample: int) -> None:
        self._recorder, self._scenario, self._sample = recorder, scenario, sample
        self.model = recorder.sender.model
        self.lane = recorder.sender.lane()
        self.exchanges: list[Exchange] = []

    async def send(self, step: str, scenario: Scenario, *, reuse: bool = False) -> Exchange:
        return self.keep(await self.lane.send(scenario, reuse=reuse), step, scenario)

    def keep(self, t: Transcript, step: str, scenario: Scenario, *, beside: bool = False) -> Exchange:
        merged = replace(self._scenario, valid=scenario.valid, optional=scenario.optional or self._scenario.optional)
        exchange_of = self._recorder._keep(t, merged, self._sample, step, beside=beside)
        self.exchanges.append(exchange_of)
        return exchange_of

    async def start(self, step: str, scenario: Scenario) -> _Started:
        lane = self._recorder.sender.lane()
        return _Started(self, step, scenario, lane, await lane.start(scenario))

    async def together(self, *requests: tuple[str, Scenario]) -> list[Exchange]:
        started = [await self.start(step, scenario) for step, scenario in requests]
        return [await flight.wait() for flight in started]

    async def sleep(self, seconds: float) -> None:
        await self._recorder.sender.sleep(seconds)


@dataclass
class _Started:
    """The `Pending` of one request."""

    conversation: _Conversation
    step: str
    scenario: Scenario
    lane: Lane
    flight: Flight

    async def leave(self) -> Exchange:
        return await self._kept(await self.flight.leave())

    async def wait(self) -> Exchange:
        return await self._kept(await self.flight.wait())

    async def _kept(self, t: Transcript) -> Exchange:
        await self.lane.close()
        return self.conversation.keep(t, self.step, self.scenario, beside=True)
