"""The player: the one place with sockets. Reads requests with h11, plays the app's steps, watches for EOF.

h11 only parses. The bytes of answers are the app's own, because a wrong server must be able to send what no
HTTP library would.
"""

import asyncio
import contextlib
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import h11

from .answer import ApiError, Close, Emit, How, HttpRequest, Step
from .app import App
from .config import Config
from .routes import too_large
from .state import Orphan, ServerState

_READ = 65536
_AHEAD = 2**20  # how much of later requests is read while an answer is being sent
_LINGER_SECONDS = 5.0
_LINGER_BYTES = 256 * 2**20
_FLUSH_EVERY = 16


class _Gone(Exception):
    """The client closed the connection, or was idle for too long."""


class _Refused(Exception):
    """A request that is answered before it was read to its end."""

    def __init__(self, error: ApiError, request: HttpRequest) -> None:
        super().__init__(error.message)
        self.error, self.request = error, request


@dataclass
class _Connection:
    """One client's connection: requests in, steps out."""

    app: App
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    ahead: bytearray = field(default_factory=bytearray)
    ended: bool = False
    wrote: bool = False  # something of the present answer
    idle: float | None = None  # how long to wait for the next request, where the answer before says so

    async def serve(self) -> None:
        """Answer requests until the client leaves or an answer says that the connection ends."""
        how = How.KEEP
        while how is How.KEEP:
            try:
                request = await self._request()
            except _Refused as refusal:
                await self._play(self.app.refuse(_closing(refusal.request), refusal.error))
                await self._linger()
                return
            try:
                how = await self._play(self.app.handle(request))
            except (_Gone, ConnectionError, asyncio.CancelledError):
                raise
            except Exception:
                # A bug of ours (or of a fault): say so here, and to the client if it has heard nothing yet.
                traceback.print_exc(file=sys.stderr)
                if self.wrote:
                    return
                error = ApiError(500, "The server had an error while processing your request.", kind="server_error")
                how = await self._play(self.app.refuse(_closing(request), error))
        if how is How.RESET:
            self._reset()

    async def _more(self, timeout: float | None = None) -> bytes:
        if self.ahead:
            data = bytes(self.ahead)
            self.ahead.clear()
            return data
        if self.ended:
            return b""
        try:
            return await asyncio.wait_for(self.reader.read(_READ), timeout)
        except TimeoutError:
            raise _Gone from None

    async def _request(self) -> HttpRequest:
        """Read one whole request. What follows it on the connection stays in `ahead`."""
        config = self.app.config
        parser = h11.Connection(h11.SERVER, max_incomplete_event_size=config.header_limit)
        head: h11.Request | None = None
        body = bytearray()
        while True:
            try:
                event = parser.next_event()
            except h11.RemoteProtocolError as error:
                raise _Refused(_malformed(error), _request_of(head)) from None
            if event is h11.NEED_DATA:
                if parser.they_are_waiting_for_100_continue:
                    self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                    # A new informational answer must not be sent twice.
                    parser.send(h11.InformationalResponse(status_code=100, headers=[]))
                data = await self._more(config.idle_seconds if self.idle is None else self.idle)
                if not data:
                    raise _Gone
                try:
                    parser.receive_data(data)
                except h11.RemoteProtocolError as error:
                    raise _Refused(_malformed(error), _request_of(head)) from None
            elif isinstance(event, h11.Request):
                head = event
                if _declared_length(event) > config.body_limit:
                    raise _Refused(too_large(config), _request_of(head))
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > config.body_limit:
                    raise _Refused(too_large(config), _request_of(head))
            elif isinstance(event, h11.EndOfMessage):
                self.ahead[:0] = parser.trailing_data[0]
                return _request_of(head, bytes(body))
            else:
                raise _Gone

    async def _play(self, steps: Iterator[Step]) -> How:
        """Write the steps at their times; stop at once, and close the iterator, when the client is gone."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        watch = asyncio.ensure_future(self._watch())
        how = How.END
        self.wrote = False
        try:
            for number, step in enumerate(steps):
                if isinstance(step, Close):
                    how, self.idle = step.how, step.idle
                    continue
                # Small delays add up exactly; a client that reads slowly does not cause a burst later.
                due = max(due, loop.time() - 0.05) + step.after
                if due - loop.time() > 0.0005:
                    await asyncio.wait({watch}, timeout=due - loop.time())
                elif number % _FLUSH_EVERY == 0:
                    await asyncio.sleep(0)
                if self.ended:
                    raise _Gone
                if step.data:
                    self.wrote = True
                    await self._write(step, watch)
            await self._drain(watch)
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await watch
            close = getattr(steps, "close", None)
            if close is not None:
                close()
            _adopt(self.app.state)
        return how

    async def _write(self, step: Emit, watch: "asyncio.Future[None]") -> None:
        if self.writer.transport.is_closing():
            raise _Gone
        self.writer.write(step.data)
        if self.writer.transport.get_write_buffer_size() > _READ:
            await self._drain(watch)

    async def _drain(self, watch: "asyncio.Future[None]") -> None:
        """Wait until the client has taken what was written, or is gone."""
        drained = asyncio.ensure_future(self.writer.drain())
        await asyncio.wait({drained, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not drained.done():
            drained.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await drained
        if self.ended and self.writer.transport.is_closing():
            raise _Gone

    async def _watch(self) -> None:
        """Read ahead while an answer is sent: a pipelined request is kept, an EOF ends the answer."""
        while not self.ended:
            if len(self.ahead) > _AHEAD:
                await asyncio.sleep(0.05)
                continue
            try:
                data = await self.reader.read(_READ)
            except ConnectionError:
                data = b""
            if not data:
                self.ended = True
            self.ahead += data

    async def _linger(self) -> None:
        """Take in what the client still sends, so that it can read the refusal instead of a reset."""
        with contextlib.suppress(OSError, RuntimeError):
            self.writer.write_eof()
        taken = 0
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(_LINGER_SECONDS):
                while taken < _LINGER_BYTES and (data := await self.reader.read(_READ)):
                    taken += len(data)

    def _reset(self) -> None:
        """Close with RST: what an engine that dies looks like."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


def _malformed(error: h11.RemoteProtocolError) -> ApiError:
    status = error.error_status_hint if error.error_status_hint in (400, 413, 431, 501) else 400
    return ApiError(status, f"Malformed HTTP request: {error}.")


def _declared_length(head: h11.Request) -> int:
    return next((int(value) for name, value in head.headers if name == b"content-length"), 0)


def _request_of(head: h11.Request | None, body: bytes = b"") -> HttpRequest:
    """h11's request to ours."""
    if head is None:
        return HttpRequest("GET", "/")
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers]
    target = head.target.decode("latin-1")
    if "://" in target[:8]:  # absolute form, as a proxy may send
        target = "/" + target.split("://", 1)[1].partition("/")[2]
    return HttpRequest(head.method.decode("latin-1"), target, tuple(headers), body, head.http_version.decode("ascii"))


def _closing(request: HttpRequest) -> HttpRequest:
    """A refused request as one after which the connection ends."""
    headers = tuple(pair for pair in request.headers if pair[0].lower() != "connection")
    return HttpRequest(request.method, request.target, (*headers, ("connection", "close")), b"", request.version)


_NIGHT_WORK: set[asyncio.Task[None]] = set()


def _adopt(state: ServerState) -> None:
    """Go on with answers whose client has left, in real time."""
    for orphan in state.orphans:
        if not orphan.running:
            orphan.running = True
            task = asyncio.ensure_future(_work_on(orphan, state))
            _NIGHT_WORK.add(task)
            task.add_done_callback(_NIGHT_WORK.discard)


async def _work_on(orphan: Orphan, state: ServerState) -> None:
    try:
        for step in orphan.steps:
            await asyncio.sleep(step.after if isinstance(step, Emit) else 0)
    finally:
        state.orphans.remove(orphan)


async def _client(app: App, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        await _Connection(app, reader, writer).serve()
    except (_Gone, ConnectionError):
        pass
    finally:
        with contextlib.suppress(ConnectionError, OSError):
            writer.close()


@asynccontextmanager
async def serve(
    config: Config, host: str = "127.0.0.1", port: int = 0, state: ServerState | None = None
) -> AsyncIterator[str]:
    """Serve while the block runs; gives the base URL, `http://host:port/v1`."""
    app = App(config, state)
    clients: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        clients.add(task)
        try:
            await _client(app, reader, writer)
        except asyncio.CancelledError:
            pass  # the server stops
        finally:
            clients.discard(task)

    server = await asyncio.start_server(accept, host, port, backlog=512)
    bound = server.sockets[0].getsockname()
    shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
    try:
        yield f"http://{shown}:{bound[1]}/v1"
    finally:
        server.close()
        for task in list(_NIGHT_WORK):
            task.cancel()
        closing = asyncio.ensure_future(server.wait_closed())
        while clients or not closing.done():  # a connection that came a moment ago may begin only now
            for task in list(clients):
                task.cancel()
            await asyncio.wait({closing, *clients}, timeout=0.05)


@contextmanager
def serve_in_thread(
    config: Config, host: str = "127.0.0.1", port: int = 0, state: ServerState | None = None
) -> Iterator[str]:
    """Serve from a thread while the block runs; gives the base URL."""
    ready = threading.Event()
    found: dict[str, object] = {}

    async def main() -> None:
        stop = asyncio.Event()
        async with serve(config, host, port, state) as url:
            found.update(url=url, loop=asyncio.get_running_loop(), stop=stop)
            ready.set()
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            found["error"] = error
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="reference-server", daemon=True)
    thread.start()
    ready.wait()
    if "url" not in found:
        raise RuntimeError("the reference server did not start") from found.get("error")  # type: ignore[misc]
    try:
        yield str(found["url"])
    finally:
        loop, stop = found["loop"], found["stop"]
        assert isinstance(loop, asyncio.AbstractEventLoop) and isinstance(stop, asyncio.Event)
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(stop.set)
        thread.join(timeout=10)


def run_forever(
    config: Config, host: str = "127.0.0.1", port: int = 0, on_ready: Callable[[str], None] | None = None
) -> None:
    """Serve until SIGINT or SIGTERM; `on_ready` gets the base URL."""

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        async with serve(config, host, port) as url:
            if on_ready is not None:
                on_ready(url)
            await stop.wait()

    asyncio.run(main())


__all__ = ["run_forever", "serve", "serve_in_thread", "too_large"]
