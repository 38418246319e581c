"""Sends requests to a real target over sockets, within limits, and records what came back."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpcore2

from wireproof import __version__
from wireproof.record.gpus import Gpus
from wireproof.record.tap import ByteLimit, Log, TapBackend
from wireproof.record.target import Limits, Target
from wireproof.scenarios.scenario import Scenario
from wireproof.wire import redact
from wireproof.wire.sse import Event, SSEDecoder
from wireproof.wire.transcript import Ending, Request, Tags, Transcript


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
        seen = await sender.gpus.look() if scenario.gpu and sender.gpus else Tags()
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
            tags=Tags(
                reused=reuse and log.connects == before,
                keyed=bool(sender.target.api_key),
                behind=sender.target.elsewhere(scenario),
            )
            | seen,
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
