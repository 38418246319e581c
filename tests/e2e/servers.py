"""Targets that misbehave below and around HTTP: a few lines of asyncio each, on a free port of the loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.contextmanager
def listen(talk: Talk, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Accept connections in a thread and let `talk` have each; gives the port."""
    started = threading.Event()
    state: dict[str, Any] = {}

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await talk(reader, writer)
        with contextlib.suppress(ConnectionError):
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls, limit=2**26)
        state.update(port=server.sockets[0].getsockname()[1], loop=asyncio.get_running_loop(), stop=asyncio.Event())
        state["loop"].set_exception_handler(lambda loop, context: None)  # a client that leaves is no news
        started.set()
        await state["stop"].wait()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert started.wait(60)
    try:
        yield state["port"]
    finally:
        state["loop"].call_soon_threadsafe(state["stop"].set)
        thread.join(timeout=10)


@dataclass(frozen=True)
class Asked:
    """A request as a server sees it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, or {} when it is no JSON object."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def streams(self) -> bool:
        """Whether a stream is wanted."""
        return self.json.get("stream") is True


Pieces = AsyncIterator[bytes]


async def read_request(reader: asyncio.StreamReader) -> Asked:
    """Read one request; raises IncompleteReadError when the client leaves."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, path, *_ = first.split(" ")
    headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, path, headers, body)


@contextlib.contextmanager
def answering(answer: Callable[[Asked], Pieces], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve HTTP with one answer for each connection: the raw bytes that `answer` yields. Gives the base URL."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await read_request(reader)
        async for data in answer(asked):
            writer.write(data)
            await writer.drain()

    with listen(talk, tls) as port:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}/v1"


def response(body: bytes | str, *, status: str = "200 OK", media: str = "application/json", extra: str = "") -> bytes:
    """A complete response with a length; `extra` holds header lines that end with CRLF."""
    raw = body.encode() if isinstance(body, str) else body
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {len(raw)}\r\nConnection: close\r\n{extra}\r\n"
    )
    return head.encode("latin-1") + raw


MODELS = json.dumps({"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "x"}]})
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def completion(content: str = "hi", **members: Any) -> str:
    """A plain answer."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, "refusal": None},
        "logprobs": None,
        "finish_reason": "stop",
    }
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    answer = {"id": "c1", "object": "chat.completion", "created": 1764000000, "model": "m", "choices": [choice]}
    return json.dumps({**answer, "usage": usage, **members})


def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    """One chunk of a stream."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1764000000, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


@dataclass
class Log:
    """What a server was asked, for the test to look at."""

    seen: list[Asked] = field(default_factory=list)


@contextlib.contextmanager
def model_server(
    chat: Callable[[Asked], Pieces], *, models: str = MODELS, log: Log | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """A server with a sound list of models whose chat answers are the test's."""

    async def answer(asked: Asked) -> Pieces:
        if log is not None:
            log.seen.append(asked)
        if asked.path.endswith("/models"):
            yield response(models)
        elif asked.path.endswith("/chat/completions"):
            async for data in chat(asked):
                yield data
        else:
            yield response('{"error": {"message": "no such path"}}', status="404 Not Found")

    with answering(answer, tls) as url:
        yield url


def plainly(stream: Callable[[Asked], Pieces]) -> Callable[[Asked], Pieces]:
    """Plain requests are answered well, streams by the test: the preflight passes."""

    async def chat(asked: Asked) -> Pieces:
        if asked.streams:
            async for data in stream(asked):
                yield data
        else:
            yield response(completion())

    return chat
