"""The loopback tap between client libraries and a target: bytes, endings, secrets."""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from wireproof.read.chat import Chat
from wireproof.read.endpoints import exchange_of
from wireproof.record.proxy import PLACEHOLDER, Tap
from wireproof.record.target import Limits, parse_target
from wireproof.wire.transcript import Ending, Transcript

from .servers import STREAM_HEAD, Asked, Log, Pieces, answering, completion, event, listen, read_request, response
from .test_targets_refused import tls  # noqa: F401

KEY = "sk-of-the-target-0123456789"
HANG = 30.0  # who waits for longer has found a defect (seconds)
BODY = b'{"model": "m", "messages": []}'


def _ask(url: str, connection: http.client.HTTPConnection | None = None) -> tuple[int, bytes]:
    """One POST as a client library sends it."""
    parts = urlsplit(url)
    own = connection or http.client.HTTPConnection(parts.netloc, timeout=HANG)
    headers = {"Authorization": f"Bearer {PLACEHOLDER}", "Content-Type": "application/json"}
    own.request("POST", f"{parts.path}/chat/completions", BODY, headers)
    answer = own.getresponse()
    found = answer.status, answer.read()
    if connection is None:
        own.close()
    return found


async def _tapped(
    target: str,
    client: Callable[[str], object],
    *,
    limits: Limits | None = None,
    tls: ssl.SSLContext | None = None,  # noqa: F811
) -> list[Transcript]:
    """What the tap records while a client, in a thread of its own, works with the URL that it is given."""

    async with Tap(parse_target(target, api_key=KEY), limits) as tap:
        tap.tls = tls or tap.tls
        await asyncio.to_thread(client, tap.url("a task"))
        return await tap.collect("a task")


@pytest.mark.asyncio
async def test_requests_of_one_connection_are_told_apart() -> None:
    seen: list[Asked] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            seen.append(await read_request(reader))
            body = completion(f"answer {len(seen)}").encode()
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            writer.write(head + body)

    def client(url: str) -> None:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=HANG)
        for number in (1, 2):
            status, body = _ask(url, connection)
            assert status == 200 and f"answer {number}".encode() in body
        connection.close()

    with listen(talk) as port:
        found = await _tapped(f"http://127.0.0.1:{port}/below/v1", client)
    assert [x.completion["choices"][0]["message"]["content"] for x in map(Chat, found)] == ["answer 1", "answer 2"]
    assert [t.ending for t in found] == [Ending.COMPLETE, Ending.COMPLETE]
    assert [t.tags.reused for t in found] == [False, True] and found[0].connection == found[1].connection
    assert [a.path for a in seen] == ["/below/v1/chat/completions"] * 2
    assert {a.headers["host"] for a in seen} == {f"127.0.0.1:{port}"}
    assert {a.headers["authorization"] for a in seen} == {f"Bearer {KEY}"}
    assert found[0].request.url == f"http://127.0.0.1:{port}/below/v1/chat/completions"
    assert found[0].request.body == BODY and found[0].request.header("authorization") == "Bearer ***"


@pytest.mark.asyncio
async def test_secrets_of_the_target_are_not_kept() -> None:
    async def answer(asked: Asked) -> Pieces:
        yield response(completion(f"your key is {asked.headers['authorization'].split()[-1]}"))

    with answering(answer) as url:
        found = await _tapped(url, _ask)
    assert KEY.encode() not in found[0].raw and b"your key is ***" in found[0].raw


def _chunks(*pieces: bytes) -> list[bytes]:
    return [b"%x\r\n%s\r\n" % (len(p), p) for p in pieces] + [b"0\r\n\r\n"]


_CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
_JSON = completion().encode()
BODIES: dict[str, list[bytes]] = {
    "length": [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(_JSON), _JSON[:10], _JSON[10:]],
    "chunks": [_CHUNKED, *_chunks(_JSON[:9], _JSON[9:])],
    "byte by byte": [bytes([b]) for b in _CHUNKED + b"".join(_chunks(_JSON[:9], _JSON[9:]))],
    "a chunk that looks like the last": [_CHUNKED, *_chunks(b"0\r\n\r\n0\r\n\r\n", _JSON)],
    "trailers": [_CHUNKED, *_chunks(_JSON)[:-1], b"0\r\nX-Sum: 1\r\n\r\n"],
    "interim": [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"{}"],
    "nothing": [b"HTTP/1.1 204 No Content\r\n\r\n"],
}


@pytest.mark.asyncio
@pytest.mark.parametrize("name", BODIES)
async def test_the_end_of_an_answer_is_seen_on_a_connection_that_stays_open(name: str) -> None:
    """The target closes nothing before the tap does: who waits for it to close sees no end."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for piece in BODIES[name]:
            writer.write(piece)
            await asyncio.sleep(0.001)
        await reader.read()

    with listen(talk) as port:
        found = await _tapped(f"http://127.0.0.1:{port}/v1", _ask)
    assert found[0].raw == b"".join(BODIES[name]) and found[0].ending is Ending.COMPLETE


@pytest.mark.asyncio
async def test_a_body_that_ends_with_its_connection() -> None:
    async def answer(asked: Asked) -> Pieces:
        yield STREAM_HEAD + event({"role": "assistant", "content": "a"}, "stop")
        yield b"data: [DONE]\n\n"

    with answering(answer) as url:
        found = await _tapped(url, _ask)
    assert found[0].ending is Ending.COMPLETE and Chat(found[0]).done


@pytest.mark.asyncio
async def test_a_client_that_leaves_is_passed_on_at_once() -> None:
    gone = threading.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(STREAM_HEAD + event({"role": "assistant", "content": "a"}))
        assert await reader.read() == b""
        gone.set()

    def client(url: str) -> None:
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=HANG) as own:
            own.sendall(f"POST {parts.path}/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            while b"data: " not in own.recv(4096):
                pass
        assert gone.wait(HANG), "the target does not hear of it"

    with listen(talk) as port:
        found = await _tapped(f"http://127.0.0.1:{port}/v1", client)
    assert found[0].ending is Ending.CLIENT_LEFT and b"data: " in found[0].raw


async def _cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")


async def _break(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _cut(reader, writer)
    await asyncio.sleep(0.05)
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _cut(reader, writer)
    await asyncio.sleep(10)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("talk", "ending"), [(_cut, Ending.CLOSED), (_break, Ending.RESET), (_hang, Ending.IDLE_TIMEOUT)]
)
async def test_an_answer_that_does_not_end_well_is_not_mended(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], ending: Ending
) -> None:
    def client(url: str) -> None:
        with pytest.raises((http.client.HTTPException, OSError)):
            _ask(url)

    with listen(talk) as port:
        found = await _tapped(f"http://127.0.0.1:{port}/v1", client, limits=Limits(idle_seconds=0.3))
    assert found[0].ending is ending and found[0].raw.endswith(b"{")


@pytest.mark.asyncio
async def test_a_target_with_https(tls: tuple[ssl.SSLContext, Path]) -> None:  # noqa: F811
    async def answer(asked: Asked) -> Pieces:
        yield response(completion())

    trusting = ssl.create_default_context(cafile=str(tls[1]))
    with answering(answer, tls[0]) as url:
        found = await _tapped(url, _ask, tls=trusting)
    assert exchange_of(found[0]).ok and found[0].request.url.startswith("https://")


@pytest.mark.asyncio
async def test_a_target_that_is_not_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def client(url: str) -> None:
        with pytest.raises((http.client.HTTPException, OSError)):
            _ask(url)

    found = await _tapped(f"http://127.0.0.1:{port}/v1", client)
    assert [t.ending for t in found] == [Ending.NOT_CONNECTED]


@pytest.mark.asyncio
async def test_strangers_are_turned_away() -> None:
    log = Log()

    async def answer(asked: Asked) -> Pieces:
        log.seen.append(asked)
        yield response(completion())

    def client(url: str) -> None:
        parts = urlsplit(url)
        for path in ("/v1", "/a-task/v1", f"{parts.path.removesuffix('/v1')}/v2"):
            assert _ask(f"http://{parts.netloc}{path}") == (404, b"")

    with answering(answer) as target:
        assert await _tapped(target, client) == []
    assert not log.seen, "the target was asked"
