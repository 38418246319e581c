"""Sends requests to a real target over sockets, within limits, and records what came back."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import ssl
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpcore2

from .. import __version__
from ..gauges import BEHIND
from ..scenario import Scenario
from ..wire.sse import Event, SSEDecoder
from ..wire.transcript import Ending, Request, Transcript
from . import redact
from .gpus import Gpus
from .tap import ByteLimit, Log, TapBackend


class BadTarget(ValueError):
    """A target URL that cannot be used; the message says what one looks like."""


@dataclass(frozen=True)
class Target:
    """Where requests go. `base` is the URL that ends in /v1, `root` the same without it."""

    base: str
    api_key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Where the engine behind the target shows its load. Neither key nor headers are sent there.
    metrics: str | None = None

    @property
    def root(self) -> str:
        """The base without its last /v1."""
        return self.base.removesuffix("/v1")

    @property
    def shown(self) -> str:
        """The base as it may be stored."""
        return redact.url(self.base)

    def url(self, scenario: Scenario) -> str:
        """The URL of a scenario's request."""
        if self.elsewhere(scenario):
            return str(self.metrics)
        return (self.root if scenario.root else self.base) + scenario.path

    def elsewhere(self, scenario: Scenario) -> bool:
        """Whether a request goes to the engine behind the target."""
        return scenario.gauges and self.metrics is not None

    @property
    def is_here(self) -> bool:
        """Whether the engine runs on this machine, as far as its address tells."""
        host = urlsplit(self.metrics or self.base).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


def _checked(url: str, example: str) -> str:
    """The URL without the spaces and slashes around it. Raises BadTarget, with an example, for what is none of ours."""
    shown = f"{redact.url(url)!r}"
    try:
        parts = urlsplit(url.strip())
        port_ok = parts.port is None or 0 < parts.port < 65536
    except ValueError as error:
        raise BadTarget(f"{shown} is not a URL ({error}): {example}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_ok:
        raise BadTarget(f"{shown} is not an http(s) URL: {example}")
    if "@" in parts.netloc:
        raise BadTarget(f"{shown} holds a user name, which is not sent: use --api-key-env, or --header NAME=VAR")
    if parts.query or parts.fragment:
        raise BadTarget(f"{shown} has a query or fragment: {example}")
    if not url.isascii():
        raise BadTarget(f"{shown} is not ASCII: write the host in punycode (xn--...) and the path with %-escapes")
    return url.strip().rstrip("/")


def parse_target(
    url: str, *, api_key: str | None = None, headers: Mapping[str, str] | None = None, metrics: str | None = None
) -> Target:
    """A target from what a user typed.

    Raises BadTarget for anything but http(s)://host[:port][/path], and for `metrics` that is no page of gauges.
    """
    base = _checked(url, "give the base URL of the API, such as http://127.0.0.1:8000/v1")
    for name, value in (("the API key", api_key or ""), *(headers or {}).items()):
        if not value.isascii() or not value.isprintable():
            raise BadTarget(f"the value of {name} holds characters that no HTTP header can carry: look at its variable")
    for suffix in ("/chat/completions", "/models"):
        base = base.removesuffix(suffix)
    if not urlsplit(base).path:
        base += "/v1"  # a bare host: the API is served under /v1 everywhere
    return Target(base, api_key or None, dict(headers or {}), _metrics(metrics) if metrics else None)


def _metrics(url: str) -> str:
    """Where an engine shows its load, as a user typed it. Raises BadTarget for anything but the URL of such a page."""
    example = "give the URL of the engine's gauges, such as http://127.0.0.1:8000/metrics"
    base = _checked(url, example)
    if not base.endswith(("/metrics", "/slots")):
        raise BadTarget(f"{redact.url(url)!r} ends neither in /metrics nor in /slots: {example}")
    return base


@dataclass(frozen=True)
class Limits:
    """What we accept from a target, per exchange (seconds, bytes)."""

    connect_seconds: float = 10.0
    idle_seconds: float = 60.0
    total_seconds: float = 300.0
    bytes: int = 4 * 1024 * 1024

    @classmethod
    def patient(cls, seconds: float) -> Limits:
        """Limits for a target that may be silent for so long; a whole answer may take five times that."""
        return cls(min(10.0, seconds), seconds, 5 * seconds)


class LiveSender:
    """Makes connections to one target."""

    def __init__(self, target: Target, model: str, limits: Limits | None = None) -> None:
        self.target, self.model, self.limits = target, model, limits or Limits()
        self._lanes = 0
        secure = any(url.startswith("https:") for url in (target.base, target.metrics or ""))
        self._ssl = ssl.create_default_context() if secure else None
        self.gpus = Gpus() if target.is_here else None

    def lane(self) -> LiveLane:
        """A lane with a connection of its own."""
        self._lanes += 1
        return LiveLane(self, self._lanes, self._ssl)

    async def sleep(self, seconds: float) -> None:
        """Wait in real time."""
        await asyncio.sleep(seconds)


@dataclass
class LiveFlight:
    """A request on its way over a socket."""

    task: asyncio.Task[Transcript]
    leaving: asyncio.Event

    async def leave(self) -> Transcript:
        """Close the connection now."""
        self.leaving.set()
        return await self.task

    async def wait(self) -> Transcript:
        """Wait for the end."""
        return await self.task


class LiveLane:
    """One connection at a time to the target."""

    def __init__(self, sender: LiveSender, number: int, context: ssl.SSLContext | None) -> None:
        self._sender, self._number, self._ssl = sender, number, context
        self._log = Log(byte_limit=sender.limits.bytes)
        self._pool: httpcore2.AsyncConnectionPool | None = None
        self._leaving: asyncio.Event | None = None

    async def close(self) -> None:
        """Close the connection, if one is open."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await pool.aclose()

    def _headers(self, scenario: Scenario, body: bytes) -> tuple[list[tuple[str, str]], set[str]]:
        target = self._sender.target
        out = {"Host": urlsplit(target.url(scenario)).netloc.rsplit("@", 1)[-1]}
        out |= {"Accept": "*/*", "User-Agent": f"wireproof/{__version__}"}
        if target.elsewhere(scenario):
            return list(out.items()), set()
        if body or scenario.method == "POST":
            out["Content-Type"] = "application/json"
        if target.api_key and scenario.authorize:
            out["Authorization"] = f"Bearer {target.api_key}"
        secret = {name.lower() for name in target.headers}
        for extra in (target.headers, scenario.headers):
            for name, value in extra.items():
                value = value.replace("$KEY", target.api_key or "none")
                out = {k: v for k, v in out.items() if k.lower() != name.lower()} | {name: value}
        if body or scenario.method == "POST":
            out["Content-Length"] = str(len(body))
        return list(out.items()), secret - {n.lower() for n in scenario.headers}

    async def send(self, scenario: Scenario, *, reuse: bool) -> Transcript:
        """Send one request and read its response within the limits. Never raises for the target's sake."""
        sender, log = self._sender, self._log
        limits = sender.limits
        if self._pool is None or not reuse:
            await self.close()
            backend = TapBackend(log)
            self._pool = httpcore2.AsyncConnectionPool(self._ssl, max_connections=1, network_backend=backend)
        body = scenario.content(sender.model)
        headers, secret_names = self._headers(scenario, body)
        url = sender.target.url(scenario)
        log.read_size = scenario.read_size
        log.restart()
        idle = scenario.idle_seconds or limits.idle_seconds
        total = max(limits.total_seconds, 2 * idle)
        timeout = {"connect": limits.connect_seconds, "read": idle, "write": idle, "pool": limits.connect_seconds}
        ending, detail = Ending.COMPLETE, ""
        before = log.connects
        try:
            async with asyncio.timeout(total):
                ending = await self._until_left(self._exchange(scenario, url, headers, body, timeout))
        except TimeoutError:
            ending, detail = Ending.TOTAL_TIMEOUT, f"no end within {total:g} s"
        except ByteLimit as error:
            ending, detail = Ending.BYTE_LIMIT, str(error)
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.UnsupportedProtocol) as error:
            ending, detail = Ending.NOT_CONNECTED, str(error) or type(error).__name__
        except (httpcore2.ReadTimeout, httpcore2.WriteTimeout, httpcore2.PoolTimeout):
            ending, detail = Ending.IDLE_TIMEOUT, f"no byte for {idle:g} s"
        except httpcore2.RemoteProtocolError as error:
            ending, detail = Ending.CLOSED, str(error)
        except (httpcore2.NetworkError, httpcore2.LocalProtocolError, OSError, ssl.SSLError) as error:
            ending = Ending.RESET if log.connects or before else Ending.NOT_CONNECTED
            detail = f"{type(error).__name__}: {error}"
        ended_at = log.clock() - log.sent_at
        if ending is not Ending.COMPLETE:
            await self.close()
        seen = await sender.gpus.look() if scenario.gpu and sender.gpus else {}
        elsewhere = {BEHIND: "yes"} if sender.target.elsewhere(scenario) else {}
        secrets = redact.secrets(sender.target.api_key, *sender.target.headers.values())
        recorded = Transcript(
            id="",
            scenario=scenario.name,
            request=Request(
                scenario.method,
                redact.url(url),
                redact.headers(headers, secret_names),
                redact.text(body, secrets),
            ),
            reads=tuple(log.reads()),
            ending=ending,
            ended_at=ended_at,
            detail=detail,
            connection=self._number * 1000 + log.connects,
            tags=({"reused": "yes"} if reuse and log.connects == before else {})
            | ({"keyed": "yes"} if sender.target.api_key else {})
            | seen
            | elsewhere,
        )
        return redact.transcript(recorded, secrets)

    async def start(self, scenario: Scenario) -> LiveFlight:
        """Send one request over a new connection, and go on while it is answered."""
        self._leaving = asyncio.Event()
        flight = LiveFlight(asyncio.create_task(self.send(scenario, reuse=False)), self._leaving)
        await asyncio.sleep(0)  # let it begin before whatever comes next
        return flight

    async def _until_left(self, exchange: Coroutine[Any, Any, Ending]) -> Ending:
        """The exchange, or CLIENT_LEFT as soon as we are told to leave: the connection is then closed."""
        if self._leaving is None:
            return await exchange
        running, told = asyncio.ensure_future(exchange), asyncio.ensure_future(self._leaving.wait())
        try:
            await asyncio.wait({running, told}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
            return Ending.CLIENT_LEFT
        finally:
            told.cancel()
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await running

    async def _exchange(
        self,
        scenario: Scenario,
        url: str,
        headers: list[tuple[str, str]],
        body: bytes,
        timeout: dict[str, float],
    ) -> Ending:
        assert self._pool is not None
        request = httpcore2.Request(
            scenario.method.encode(),
            url.encode(),
            headers=[(k.encode(), v.encode()) for k, v in headers],
            content=body,
            extensions={"timeout": timeout},
        )
        decoder, events = SSEDecoder(), 0
        response = await self._pool.handle_async_request(request)
        try:
            async for data in response.aiter_stream():
                if scenario.leave_after_events is not None:
                    events += sum(isinstance(item, Event) for item in decoder.receive(data))
                    if events >= scenario.leave_after_events:
                        return Ending.CLIENT_LEFT
        finally:
            await response.aclose()
        return Ending.COMPLETE
