"""The reference server without sockets: records scenarios in virtual time."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from wireproof.read.endpoints import exchange_of
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Recording
from wireproof.record.recorder import Recorder
from wireproof.record.target import Limits
from wireproof.scenarios.catalog import load
from wireproof.scenarios.scenario import Scenario
from wireproof.wire import redact
from wireproof.wire.sse import Event, decode
from wireproof.wire.transcript import Ending, Read, Request, Tags, Transcript

from .answer import Close, Emit, How, HttpRequest
from .app import App
from .config import Config
from .player import too_large

_START = 1_780_000_000.0


_BLOCK = 2**20


@dataclass
class Counter:
    """Deterministic ids and entropy, so that equal requests give equal bytes in every run.

    Each scenario has numbers of its own: what it records does not depend on which others are recorded before it.
    """

    value: int = 0
    _scenario: str = ""
    _values: dict[str, int] = field(default_factory=dict)

    def begin(self, scenario: Scenario) -> None:
        """Go on with the numbers of a scenario."""
        self._values[self._scenario] = self.value
        self._scenario = scenario.name
        number = _numbers().get(scenario.name, 0)
        self.value = self._values.get(scenario.name, number * _BLOCK)

    def ids(self, prefix: str) -> str:
        self.value += 1
        return f"{prefix}{self.value:024x}"

    def entropy(self) -> int:
        self.value += 1
        return self.value * 0x9E3779B97F4A7C15 % 2**64


@functools.cache
def _numbers() -> dict[str, int]:
    return {name: number for number, name in enumerate(load(), 1)}


def config(counter: Counter | None = None, **changes: object) -> Config:
    """A config whose clock, ids and entropy are fixed, that asks for a key, and serves two models."""
    counter = counter or Counter()
    values: dict[str, object] = {"clock": lambda: _START, "ids": counter.ids, "entropy": counter.entropy}
    values["api_key"] = "sk-reference-0123456789"
    values["models"] = ("tiny-reference", "org/tiny-reference")
    return Config(**{**values, **changes})  # type: ignore[arg-type]


class MemorySender:
    """Sends scenarios to an `App` in this process, in virtual time. `now` is its clock (seconds)."""

    def __init__(self, app: App, fault: str = "", limits: Limits | None = None) -> None:
        self.app, self.model = app, app.config.model
        self.prefix = f"/fault/{fault}" if fault else ""
        self.limits = limits or Limits()
        self.now = 0.0
        self.flights: list[_MemoryFlight] = []
        self._lanes = 0

    @property
    def working(self) -> bool:
        """Whether its model computes anything now: what a GPU would show."""
        return self.app.gauges.running > 0 or bool(self.app.state.orphans)

    def lane(self) -> _MemoryLane:
        """A new virtual connection."""
        self._lanes += 1
        return _MemoryLane(self, self._lanes)

    async def sleep(self, seconds: float) -> None:
        """Virtual time passes at once."""
        self.advance(self.now + seconds)

    def advance(self, to: float) -> None:
        """Let everything that goes on in the background come to a time."""
        while flights := [f for f in self.flights if not f.over and f.due <= to]:
            min(flights, key=lambda f: f.due).step()
        self.now = max(self.now, to)
        for orphan in list(self.app.state.orphans):
            if not orphan.running:
                orphan.running, orphan.due = True, self.now
            while orphan.due <= self.now:
                step = next(orphan.steps, None)
                if not isinstance(step, Emit):
                    self.app.state.orphans.remove(orphan)
                    break
                orphan.due += step.after


class _MemoryLane:
    def __init__(self, sender: MemorySender, number: int) -> None:
        self._sender, self._number, self._connects = sender, number, 0
        self._open_until = 0.0  # when the server closes the idle connection (seconds, the sender's clock)

    async def close(self) -> None:
        self._open_until = 0.0

    def _begin(self, scenario: Scenario) -> _MemoryFlight:
        self._connects += 1
        sender = self._sender
        key = sender.app.config.api_key
        body = scenario.content(sender.model)
        headers = {"Host": "reference", "Accept": "*/*"}
        if body or scenario.method == "POST":
            headers["Content-Type"] = "application/json"
        if key and scenario.authorize:
            headers["Authorization"] = f"Bearer {key}"
        for name, value in scenario.headers.items():
            value = value.replace("$KEY", key or "none")
            headers = {k: v for k, v in headers.items() if k.lower() != name.lower()} | {name: value}
        path = ("" if scenario.root else "/v1") + scenario.address
        url = "http://reference" + path  # without the fault: equal bytes shall be judged once
        request = HttpRequest(scenario.method, sender.prefix + path, tuple(headers.items()), body)
        if len(body) > sender.app.config.body_limit:  # the player refuses it before the app sees it
            steps = sender.app.refuse(request, too_large(sender.app.config))
        else:
            steps = sender.app.handle(request)
        sent = Request(scenario.method, url, redact.headers(list(headers.items()), set()), body)
        connection = self._number * 1000 + self._connects
        tags = Tags(keyed=bool(key))
        if scenario.gpu:
            tags |= Tags(gpu="2 88" if sender.working else "2 0", gpu_seconds="0.050")
        return _MemoryFlight(sender, scenario, iter(steps), sent, connection, tags)

    async def start(self, scenario: Scenario) -> _MemoryFlight:
        flight = self._begin(scenario)
        self._sender.flights.append(flight)
        return flight

    async def send(self, scenario: Scenario, *, reuse: bool) -> Transcript:
        kept = reuse and self._sender.now < self._open_until
        if kept:
            self._connects -= 1
        flight = self._begin(scenario)
        transcript = await flight.wait()
        self._open_until = self._sender.now + flight.keep
        return transcript


class _MemoryFlight:
    """One request on its way, in virtual time."""

    def __init__(
        self,
        sender: MemorySender,
        scenario: Scenario,
        steps: Iterator[Emit | Close],
        sent: Request,
        connection: int,
        tags: Tags,
    ) -> None:
        self._sender, self._scenario, self._steps, self._sent = sender, scenario, steps, sent
        self._connection, self._tags = connection, tags
        self._began = sender.now
        self._idle = scenario.idle_seconds or sender.limits.idle_seconds
        self._silent = 0.0
        self._size = 0
        self._reads: list[Read] = []
        self._now = 0.0
        self._next: Emit | Close | None = None
        self._ending, self._detail = Ending.CLOSED, ""
        self.keep = 0.0  # how long the connection stays open afterwards
        self.over = False
        self._look()

    def _look(self) -> None:
        self._next = next(self._steps, None)
        if self._next is None:
            self._end(self._ending)

    @property
    def due(self) -> float:
        """When its next step comes (seconds, the sender's clock)."""
        after = self._next.after if isinstance(self._next, Emit) else 0.0
        return self._began + self._now + after

    def step(self) -> None:
        """Take the next step."""
        step, limits = self._next, self._sender.limits
        if isinstance(step, Close):
            ends = {How.KEEP: Ending.COMPLETE, How.END: Ending.CLOSED, How.RESET: Ending.RESET}
            idle = self._sender.app.config.idle_seconds if step.idle is None else step.idle
            self.keep = idle if step.how is How.KEEP else 0.0
            next(self._steps, None)  # what the server does after its last byte
            return self._end(ends[step.how])
        assert step is not None
        self._silent += step.after
        if self._silent >= self._idle:
            self._now += self._idle - (self._silent - step.after)
            return self._end(Ending.IDLE_TIMEOUT, f"no byte for {self._idle:g} s")
        self._now += step.after
        if self._now >= limits.total_seconds:
            return self._end(Ending.TOTAL_TIMEOUT)
        if step.data:
            self._silent = 0.0
            piece = self._scenario.read_size or len(step.data)
            for start in range(0, len(step.data), piece):
                self._reads.append(Read(self._now, step.data[start : start + piece]))
            self._size += len(step.data)
            if self._size > limits.bytes:
                return self._end(Ending.BYTE_LIMIT)
            leave = self._scenario.leave_after_events
            if leave is not None and b"\n" in step.data and _events(self._reads) >= leave:
                return self._end(Ending.CLIENT_LEFT)
        self._look()
        return None

    def _end(self, ending: Ending, detail: str = "") -> None:
        self._ending, self._detail, self.over = ending, detail, True
        if self in self._sender.flights:
            self._sender.flights.remove(self)
        close = getattr(self._steps, "close", None)
        if close is not None:
            close()

    async def wait(self) -> Transcript:
        """Virtual time passes until it is over."""
        while not self.over:
            if self._sender.flights or self._sender.app.state.orphans:
                self._sender.advance(self.due)
            if (not self.over and self.due <= self._sender.now + 1e-9) or not self._sender.flights:
                self.step()
        self._sender.now = max(self._sender.now, self._began + self._now)
        return self._transcript()

    async def leave(self) -> Transcript:
        """The client closes the connection now."""
        if not self.over:
            self._now = max(self._now, self._sender.now - self._began)
            self._end(Ending.CLIENT_LEFT)
        return self._transcript()

    def _transcript(self) -> Transcript:
        return Transcript(
            id="",
            scenario=self._scenario.name,
            request=self._sent,
            reads=tuple(self._reads),
            ending=self._ending,
            ended_at=self._now,
            detail=self._detail,
            connection=self._connection,
            tags=self._tags,
        )


def _events(reads: Sequence[Read]) -> int:
    t = Transcript("", "", Request("POST", ""), tuple(reads), Ending.CLIENT_LEFT)
    response = exchange_of(t).response
    return sum(isinstance(item, Event) and item.terminated for item in decode(response.content)) if response else 0


def record(
    fault: str = "",
    *,
    scenarios: Sequence[str] = (),
    app: App | None = None,
    counter: Counter | None = None,
    make: Callable[[Transcript], Exchange] = exchange_of,
    on_exchange: Callable[[Exchange], None] | None = None,
) -> Recording:
    """Record scenarios (all of them by default) from a fresh reference server with a fault.

    `app` is a server of one's own, made with `config(counter)`. `make` makes an exchange of a transcript; it may give
    back one that it made of an equal transcript before.
    """
    names = list(scenarios) or list(load())
    counter = counter or Counter()
    sender = MemorySender(app or App(config(counter)), fault)
    recorder = Recorder(sender, concurrency=1, make=make, on_scenario=counter.begin, on_exchange=on_exchange)
    out: list[Recording] = []

    async def keep() -> None:  # a result that asyncio.run returns is printed by it once, at great length
        out.append(await recorder.record(names, slow=True))

    asyncio.run(keep())
    return out[0]
