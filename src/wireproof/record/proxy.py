"""The loopback tap: client libraries talk to it, it talks to the target, and every byte of the answers is recorded.

    client library  --http-->  tap on 127.0.0.1  --http or https-->  target

The first segment of a request's path says which task it belongs to, so that bytes find their task also when several
run at a time; it is a random word, so that nobody else on the machine can use the tap. Clients get a placeholder for
the API key, and the tap puts the real one in its place: no third-party code ever holds it. Answers pass through as
they are, read by read, right or wrong. A client that leaves is seen, and passed on.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import socket
import ssl
import struct
import time
from dataclasses import dataclass, field
from types import TracebackType
from urllib.parse import urlsplit

import h11

from wireproof.record.target import Limits, Target
from wireproof.wire import redact
from wireproof.wire.http import FramingKind, parse_response
from wireproof.wire.transcript import Ending, Read, Request, Tags, Transcript

# What the clients send as their key.
PLACEHOLDER = "wireproof-placeholder-key"
_READ = 65536
# What a client may send: far more than any task does (bytes).
_REQUEST_LIMIT = 8 * 1024 * 1024
# How long an exchange may go on after its client's task is over (seconds).
_GRACE = 1.0
_REWRITTEN = frozenset({"host", "content-length", "transfer-encoding"})
# A chunked body may be over when it ends like this; the parser has the last word.
_LAST_CHUNK = re.compile(rb"\n0+[ \t]*(;[^\r\n]*)?\r?\n([^\r\n]+\r?\n)*\r?\n$")


@dataclass
class Passage:
    """One exchange on its way through the tap."""

    task: str
    request: Request
    connection: int
    reused: bool
    sent_at: float = 0.0
    reads: list[Read] = field(default_factory=list)
    ending: Ending = Ending.UNKNOWN
    detail: str = ""
    ended_at: float = 0.0
    size: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)
    kind: FramingKind | None = None  # how the answer says where it ends, once its head is there
    _least: int = 0  # it cannot be over with fewer bytes

    def add(self, data: bytes) -> None:
        """Take one read of the answer."""
        self.reads.append(Read(time.perf_counter() - self.sent_at, data))
        self.size += len(data)

    def end(self, ending: Ending, detail: str = "") -> None:
        """It is over; only the first end counts."""
        if not self.over.is_set():
            self.ending, self.detail = ending, detail
            self.ended_at = time.perf_counter() - self.sent_at if self.sent_at else 0.0
            self.over.set()

    def transcript(self) -> Transcript:
        """What was recorded so far."""
        tags = Tags(reused=self.reused)
        return Transcript(
            id="",
            scenario="",
            request=self.request,
            reads=tuple(self.reads),
            ending=self.ending,
            ended_at=self.ended_at,
            detail=self.detail,
            connection=self.connection,
            tags=tags,
        )

    def is_whole(self) -> bool:
        """Whether the framing says that the answer is over. One that ends with its connection never says so."""
        if self.size < self._least:
            return False
        if self.kind is FramingKind.CHUNKED:
            tail = b"".join(r.data for r in self.reads[-300:])[-300:]
            if not _LAST_CHUNK.search(tail):
                return False
        raw = b"".join(r.data for r in self.reads)
        if not re.search(rb"\n\r?\n", raw):
            return False
        response = parse_response(self.transcript())
        if response is None:
            return False
        self.kind = response.framing.kind
        if self.kind is FramingKind.LENGTH and response.framing.declared is not None:
            self._least = self.size - len(response.body) + response.framing.declared
        return response.framing.complete and self.kind is not FramingKind.CLOSE


class Tap:
    """Listens on the loopback while it is entered. Client libraries get `url(task)` as their base URL."""

    def __init__(self, target: Target, limits: Limits | None = None) -> None:
        self.target, self.limits = target, limits or Limits()
        self.secrets = redact.secrets(target.api_key, *target.headers.values())
        self.connections = 0
        self.tls = ssl.create_default_context() if target.base.startswith("https:") else None
        self._tasks: dict[str, str] = {}  # the secret segment -> the task
        self._passages: dict[str, list[Passage]] = {}
        self._links: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._port = 0

    async def __aenter__(self) -> Tap:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=128)
        self._port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for link in list(self._links):
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        try:
            await _Link(self, reader, writer).run()
        except asyncio.CancelledError:
            pass  # the tap is closed
        finally:
            self._links.discard(task)

    def url(self, task: str) -> str:
        """The base URL that a client is given for a task."""
        segment = f"{re.sub(r'[^A-Za-z0-9-]', '-', task)}.{secrets.token_urlsafe(12)}"
        self._tasks[segment] = task
        return f"http://127.0.0.1:{self._port}/{segment}/v1"

    def find(self, path: str) -> tuple[str, str] | None:
        """The task that a path belongs to, and the rest of the path; None for a stranger's."""
        _, segment, *rest = path.split("/", 2)
        task = self._tasks.get(segment)
        below = "/" + (rest[0] if rest else "")
        return None if task is None or not below.startswith("/v1") else (task, below.removeprefix("/v1"))

    def begin(self, passage: Passage) -> None:
        """Keep an exchange that begins."""
        self._passages.setdefault(passage.task, []).append(passage)

    async def collect(self, task: str) -> list[Transcript]:
        """The exchanges of a task that is over, in the order in which they began. What still runs is cut off here."""
        self._tasks = {segment: name for segment, name in self._tasks.items() if name != task}
        found = self._passages.pop(task, [])
        waiting = [asyncio.ensure_future(p.over.wait()) for p in found if not p.over.is_set()]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=_GRACE)
            for one in late:
                one.cancel()
        for passage in found:
            passage.end(Ending.CLIENT_LEFT, "the client's task was over")
        return [redact.transcript(p.transcript(), self.secrets) for p in found]


class _Left(Exception):
    """The client has closed its connection."""


class _Link:
    """One connection of a client's, and the one to the target that belongs to it."""

    def __init__(self, tap: Tap, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tap, self._reader, self._writer = tap, reader, writer
        self._inbox = bytearray()
        self._news, self._left = asyncio.Event(), asyncio.Event()
        self._up: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._number, self._used = 0, False
        self._last: Passage | None = None

    async def run(self) -> None:
        """Pass on requests and answers until one side closes."""
        listening = asyncio.ensure_future(self._listen())
        try:
            while (asked := await self._request()) is not None:
                if not await self._exchange(*asked):
                    return
        except (_Left, h11.RemoteProtocolError, ConnectionError):
            pass
        finally:
            listening.cancel()
            if self._up is not None:
                self._up[1].close()
            with contextlib.suppress(OSError):
                self._writer.close()

    async def _listen(self) -> None:
        """Read ahead all the time, so that a client that leaves is seen at once."""
        with contextlib.suppress(ConnectionError):
            while (data := await self._reader.read(_READ)) and len(self._inbox) < _REQUEST_LIMIT:
                self._inbox += data
                self._news.set()
        self._left.set()
        self._news.set()

    async def _more(self) -> bytes:
        """What the client sends next. Between two requests the target may close, too, or say something unasked."""
        while not self._inbox:
            if self._left.is_set():
                raise _Left
            self._news.clear()
            waiting = {asyncio.ensure_future(self._news.wait())}
            above = asyncio.ensure_future(self._up[0].read(_READ)) if self._up is not None else None
            try:
                await asyncio.wait(waiting | ({above} if above else set()), return_when=asyncio.FIRST_COMPLETED)
                if above is not None and above.done():
                    data = above.result()
                    if not data:
                        raise _Left
                    if self._last is not None:
                        self._last.add(data)
                    self._writer.write(data)
            finally:
                for one in (*waiting, *([above] if above else [])):
                    one.cancel()
                if above is not None:
                    await asyncio.gather(above, return_exceptions=True)
        data = bytes(self._inbox)
        self._inbox.clear()
        return data

    async def _request(self) -> tuple[h11.Request, bytes] | None:
        """One whole request, or None when it is none that we pass on."""
        parser, head, body = h11.Connection(h11.SERVER), None, bytearray()
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                parser.receive_data(await self._more())
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > _REQUEST_LIMIT:
                    return None
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                self._inbox[:0] = parser.trailing_data[0]
                return head, bytes(body)
            else:
                return None

    def _rewritten(self, head: h11.Request, body: bytes) -> list[tuple[str, str]]:
        """The client's headers with the target's host, the real key and the target's own headers."""
        target = self._tap.target
        own = {name.lower() for name in target.headers}
        found = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in head.headers.raw_items()]
        sized = bool(body) or any(k.lower() in ("content-length", "transfer-encoding") for k, _ in found)
        out = [("Host", urlsplit(target.base).netloc.rsplit("@", 1)[-1])]
        for name, value in found:
            if name.lower() not in _REWRITTEN | own:
                out.append((name, value.replace(PLACEHOLDER, target.api_key or PLACEHOLDER)))
        out += target.headers.items()
        return [*out, ("Content-Length", str(len(body)))] if sized else out

    async def _exchange(self, head: h11.Request, body: bytes) -> bool:
        """Pass on one request and its answer; whether the connection goes on."""
        tap, method = self._tap, head.method.decode("latin-1")
        place = tap.find(head.target.decode("latin-1"))
        if place is None:
            self._writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return False
        headers, url = self._rewritten(head, body), tap.target.base + place[1]
        shown = redact.headers(headers, set(tap.target.headers))
        request = Request(method, redact.url(url), shown, redact.text(body, tap.secrets))
        if self._up is None:
            tap.connections += 1
            self._number = tap.connections
        passage = self._last = Passage(place[0], request, self._number, self._used)
        tap.begin(passage)
        try:
            async with asyncio.timeout(tap.limits.connect_seconds):
                up = self._up = self._up or await self._connect()
        except (OSError, TimeoutError) as error:
            passage.end(Ending.NOT_CONNECTED, str(error) or type(error).__name__)
            return False
        self._used = True
        parts = urlsplit(url)
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        up[1].write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body)
        with contextlib.suppress(ConnectionError):
            await up[1].drain()
        passage.sent_at = time.perf_counter()
        return await self._answer(passage, up[0])

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self._tap.target.base)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return await asyncio.open_connection(parts.hostname, port, ssl=self._tap.tls)

    async def _answer(self, passage: Passage, reader: asyncio.StreamReader) -> bool:
        """Pass on an answer to its end; whether the connection goes on."""
        limits = self._tap.limits
        leaving = asyncio.ensure_future(self._left.wait())
        try:
            while not passage.is_whole():
                reading = asyncio.ensure_future(reader.read(_READ))
                try:
                    await asyncio.wait(
                        {reading, leaving}, timeout=limits.idle_seconds, return_when=asyncio.FIRST_COMPLETED
                    )
                    if leaving.done() and not reading.done():
                        passage.end(Ending.CLIENT_LEFT)
                        return False
                    if not reading.done():
                        passage.end(Ending.IDLE_TIMEOUT, f"no byte for {limits.idle_seconds:g} s")
                        return False
                    data = reading.result()
                except (ConnectionError, ssl.SSLError) as error:
                    passage.end(Ending.RESET, f"{type(error).__name__}: {error}")
                    self._reset()
                    return False
                finally:
                    if not reading.done():
                        reading.cancel()
                        await asyncio.gather(reading, return_exceptions=True)
                if not data:
                    passage.end(Ending.COMPLETE if passage.kind is FramingKind.CLOSE else Ending.CLOSED)
                    return False
                passage.add(data)
                await self._pass_on(data)
                if passage.size > limits.bytes:
                    passage.end(Ending.BYTE_LIMIT, f"more than {limits.bytes} bytes")
                    return False
                if time.perf_counter() - passage.sent_at > limits.total_seconds:
                    passage.end(Ending.TOTAL_TIMEOUT, f"no end within {limits.total_seconds:g} s")
                    return False
            passage.end(Ending.COMPLETE)
            return True
        finally:
            leaving.cancel()

    async def _pass_on(self, data: bytes) -> None:
        """To the client; one that does not read, or is gone, is seen as gone."""
        self._writer.write(data)
        try:
            async with asyncio.timeout(self._tap.limits.idle_seconds):
                await self._writer.drain()
        except (ConnectionError, TimeoutError):
            self._left.set()

    def _reset(self) -> None:
        """The target's connection broke: so does the client's."""
        sock = self._writer.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
