"""The reference server without sockets: records scenarios in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from wireproof.exchange import Exchange
from wireproof.judge import Recording
from wireproof.record.live import Limits
from wireproof.record.recorder import Recorder
from wireproof.scenario import Scenario, load
from wireproof.wire.sse import Event, decode
from wireproof.wire.transcript import Ending, Read, Request, Transcript

from .answer import Close, Emit, How, HttpRequest
from .app import App
from .config import Config
from .player import too_large

_START = 1_780_000_000.0


@dataclass
class _Counter:
    """Deterministic ids and entropy, so that equal requests give equal bytes in every run."""

    value: int = 0

    def ids(self, prefix: str) -> str:
        self.value += 1
        return f"{prefix}{self.value:024x}"

    def entropy(self) -> int:
        self.value += 1
        return self.value * 0x9E3779B97F4A7C15 % 2**64


def config(**changes: object) -> Config:
    """A config whose clock, ids and entropy are fixed."""
    counter = _Counter()
    values: dict[str, object] = {"clock": lambda: _START, "ids": counter.ids, "entropy": counter.entropy}
    return Config(**{**values, **changes})  # type: ignore[arg-type]


class MemorySender:
    """Sends scenarios to an `App` in this process, in virtual time."""

    def __init__(self, app: App, fault: str = "", limits: Limits | None = None) -> None:
        self.app, self.model = app, app.config.model
        self.prefix = f"/fault/{fault}" if fault else ""
        self.limits = limits or Limits()
        self._lanes = 0

    def lane(self) -> _MemoryLane:
        """A new virtual connection."""
        self._lanes += 1
        return _MemoryLane(self, self._lanes)

    async def sleep(self, seconds: float) -> None:
        """Virtual time passes at once."""


@dataclass
class _Collected:
    reads: list[Read] = field(default_factory=list)
    now: float = 0.0
    ending: Ending = Ending.CLOSED
    detail: str = ""
    keep: bool = False


class _MemoryLane:
    def __init__(self, sender: MemorySender, number: int) -> None:
        self._sender, self._number, self._open, self._connects = sender, number, False, 0

    async def close(self) -> None:
        self._open = False

    async def send(self, scenario: Scenario, *, reuse: bool) -> Transcript:
        if not (reuse and self._open):
            self._connects += 1
        sender = self._sender
        body = scenario.content(sender.model)
        headers = {"Host": "reference", "Accept": "*/*"}
        if body or scenario.method == "POST":
            headers["Content-Type"] = "application/json"
        for name, value in scenario.headers.items():
            headers = {k: v for k, v in headers.items() if k.lower() != name.lower()} | {name: value}
        path = ("" if scenario.root else "/v1") + scenario.path
        url = "http://reference" + path  # without the fault: equal bytes shall be judged once
        path = sender.prefix + path
        request = HttpRequest(scenario.method, path, tuple(headers.items()), body)
        limit = sender.app.config.body_limit
        if len(body) > limit:  # the player refuses it before the app sees it
            steps = sender.app.refuse(request, too_large(sender.app.config))
        else:
            steps = sender.app.handle(request)
        got = self._collect(scenario, steps)
        self._open = got.keep
        return Transcript(
            id="",
            scenario=scenario.name,
            request=Request(scenario.method, url, tuple(headers.items()), body),
            reads=tuple(got.reads),
            ending=got.ending,
            ended_at=got.now,
            detail=got.detail,
            connection=self._number * 1000 + self._connects,
        )

    def _collect(self, scenario: Scenario, steps: Iterable[Emit | Close]) -> _Collected:
        got = _Collected()
        idle = scenario.idle_seconds or self._sender.limits.idle_seconds
        silent = size = 0.0
        iterator = iter(steps)
        for step in iterator:
            if isinstance(step, Close):
                ends = {How.KEEP: Ending.COMPLETE, How.END: Ending.CLOSED, How.RESET: Ending.RESET}
                got.ending, got.keep = ends[step.how], step.how is How.KEEP
                break
            silent = silent + step.after
            if silent >= idle:
                got.now += idle - (silent - step.after)
                got.ending, got.detail = Ending.IDLE_TIMEOUT, f"no byte for {idle:g} s"
                break
            got.now += step.after
            if got.now >= self._sender.limits.total_seconds:
                got.ending = Ending.TOTAL_TIMEOUT
                break
            if not step.data:
                continue
            silent = 0.0
            piece = scenario.read_size or len(step.data)
            for start in range(0, len(step.data), piece):
                got.reads.append(Read(got.now, step.data[start : start + piece]))
            size += len(step.data)
            if size > self._sender.limits.bytes:
                got.ending = Ending.BYTE_LIMIT
                break
            if scenario.leave_after_events is not None and _events(got.reads) >= scenario.leave_after_events:
                got.ending = Ending.CLIENT_LEFT
                break
        close = getattr(iterator, "close", None)
        if close is not None:
            close()
        return got


def _events(reads: Sequence[Read]) -> int:
    t = Transcript("", "", Request("POST", ""), tuple(reads), Ending.CLIENT_LEFT)
    response = Exchange(t).response
    return sum(isinstance(item, Event) and item.terminated for item in decode(response.content)) if response else 0


def record(
    fault: str = "",
    *,
    scenarios: Sequence[str] = (),
    settings: Config | None = None,
    exchange: Callable[[Transcript], Exchange] = Exchange,
) -> Recording:
    """Record scenarios (all of them by default) from a fresh reference server with a fault.

    `exchange` makes an exchange of a transcript; it may give back one that it made of an equal transcript before.
    """
    names = list(scenarios) or list(load())
    recorder = Recorder(MemorySender(App(settings or config()), fault), concurrency=1, exchange=exchange)
    out: list[Recording] = []

    async def keep() -> None:  # a result that asyncio.run returns is printed by it once, at great length
        out.append(await recorder.record(names, slow=True))

    asyncio.run(keep())
    return out[0]
