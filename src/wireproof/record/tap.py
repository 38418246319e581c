"""The tap: every socket read with its time, below all decoding.

It sits at httpcore's public hook, the network backend. Anything higher has already
replaced bad UTF-8, joined reads, or refused the bytes that are interesting.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpcore2

from wireproof.wire.transcript import Read


class ByteLimit(Exception):
    """The response grew past the limit on bytes."""


@dataclass
class Log:
    """What one connection carried since the last `restart`."""

    clock: Callable[[], float] = time.perf_counter
    byte_limit: int = 16 * 1024 * 1024
    read_size: int | None = None
    sent_at: float = 0.0
    got: list[tuple[float, bytes]] = field(default_factory=list)
    total: int = 0
    connects: int = 0

    def restart(self) -> None:
        """Begin a new exchange."""
        self.got, self.total = [], 0
        self.sent_at = self.clock()

    def reads(self) -> list[Read]:
        """The reads so far, with seconds since the request was sent."""
        return [Read(at - self.sent_at, data) for at, data in self.got]


class TapStream(httpcore2.AsyncNetworkStream):
    """A network stream that notes what it reads."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream, log: Log) -> None:
        self._inner, self._log = inner, log

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read once; raises ByteLimit past the limit."""
        log = self._log
        if log.read_size:
            max_bytes = min(max_bytes, log.read_size)
        data = await self._inner.read(max_bytes, timeout)
        if data:
            log.got.append((log.clock(), data))
            log.total += len(data)
            if log.total > log.byte_limit:
                raise ByteLimit(f"more than {log.byte_limit} bytes")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write, and move the start of the exchange's clock."""
        await self._inner.write(buffer, timeout)
        if not self._log.got:
            self._log.sent_at = self._log.clock()

    async def aclose(self) -> None:
        """Close the connection."""
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """Wrap the TLS stream: what is tapped is the plain text inside it."""
        return TapStream(await self._inner.start_tls(ssl_context, server_hostname, timeout), self._log)

    def get_extra_info(self, info: str) -> Any:
        """Pass through."""
        return self._inner.get_extra_info(info)


class TapBackend(httpcore2.AsyncNetworkBackend):
    """A network backend whose streams are tapped into one log."""

    def __init__(self, log: Log) -> None:
        self._inner, self._log = httpcore2.AnyIOBackend(), log

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect, tapped."""
        stream = await self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        self._log.connects += 1
        return TapStream(stream, self._log)

    async def sleep(self, seconds: float) -> None:
        """Pass through (httpcore waits between connection attempts)."""
        await self._inner.sleep(seconds)
