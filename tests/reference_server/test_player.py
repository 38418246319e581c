"""A real socket: keep-alive, pipelining, disconnects, limits."""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from wireproof.reference_server import faults
from wireproof.reference_server.answer import Close, How, Step
from wireproof.reference_server.config import Config
from wireproof.reference_server.player import serve_in_thread

GET = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"

Address = tuple[str, int]

# Who waits for longer has found a hang (seconds). STORY takes three times as long.
HANG = 30.0
STORY: dict[str, Any] = {"said": "tell me a story", "max_tokens": 100_000, "ignore_eos": True}


@pytest.fixture(scope="module")
def address() -> Iterator[Address]:
    with serve_in_thread(Config(body_limit=100_000, token_seconds=0.001)) as url:
        parts = urlsplit(url)
        assert parts.path == "/v1"
        assert parts.hostname and parts.port
        yield parts.hostname, parts.port


@contextmanager
def connected(address: Address) -> Iterator[socket.socket]:
    with socket.create_connection(address, timeout=HANG) as sock:
        yield sock


def chat(said: str, *, headers: bytes = b"", **parameters: Any) -> tuple[bytes, bytes]:
    messages = [{"role": "user", "content": said}]
    body = json.dumps({"model": "tiny-reference", "messages": messages, **parameters}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n" % (headers, len(body))
    return head, body


def read_until(sock: socket.socket, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end):
        more = sock.recv(65536)
        if not more:
            break
        data += more
    return data


def whole(address: Address, said: str, **parameters: Any) -> bytes:
    """A plain answer on a connection of its own."""
    with connected(address) as sock:
        sock.sendall(b"".join(chat(said, headers=b"Connection: close\r\n", **parameters)))
        return read_until(sock, b"never")


@contextmanager
def spied(monkeypatch: pytest.MonkeyPatch, layer: faults.Layer, apply: Callable[..., Any]) -> Iterator[None]:
    """Every `/fault/spy` request gets this fault."""
    spy = faults.Fault("spy", layer, frozenset({"x"}), "s", (), "", apply)
    monkeypatch.setattr(faults, "parse", lambda names: (spy,))
    yield


def metric(address: Address, name: str) -> float:
    with connected(address) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        lines = read_until(sock, b"never").decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name + "{"))


def running(address: Address) -> float:
    return metric(address, "vllm:num_requests_running")


def wait_for(condition: Callable[[], bool]) -> bool:
    """Whether it comes true; a test that waits in vain has found a defect."""
    for _ in range(int(HANG / 0.02)):
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_keep_alive_and_pipelining(address: Address) -> None:
    with connected(address) as sock:
        for _ in range(2):
            sock.sendall(b"".join(chat("hi", stream=True)))
            assert read_until(sock, b"0\r\n\r\n").count(b"[DONE]") == 1
        sock.sendall(GET * 3)
        data = b""
        while data.count(b"max_model_len") < 3:
            data += sock.recv(65536)
        assert data.count(b"HTTP/1.1 200 OK") == 3


def test_expect_continue_and_chunked_request(address: Address) -> None:
    with connected(address) as sock:
        head, body = chat("Say: ahoy", headers=b"Expect: 100-continue\r\n")
        sock.sendall(head)
        assert sock.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(body)
        assert b'"content":"ahoy"' in read_until(sock, b"}")
        head = head.replace(b"Content-Length: %d" % len(body), b"Transfer-Encoding: chunked")
        sock.sendall(head.replace(b"Expect: 100-continue\r\n", b""))
        for at in range(0, len(body), 7):
            sock.sendall(b"%x\r\n%s\r\n" % (len(body[at : at + 7]), body[at : at + 7]))
        sock.sendall(b"0\r\n\r\n")
        assert b'"content":"ahoy"' in read_until(sock, b"}")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("said", ["[wait 60 s] hi", "tell me a story"])
def test_disconnect_stops_the_generation(address: Address, stream: bool, said: str) -> None:
    with connected(address) as sock:
        sock.sendall(b"".join(chat(said, stream=stream, max_tokens=100_000, ignore_eos=True)))
        assert wait_for(lambda: running(address) == 1)
    assert wait_for(lambda: running(address) == 0)
    before = metric(address, "vllm:generation_tokens_total")
    # Another answer is the clock: while it is made, nobody else makes a token.
    assert b'"completion_tokens":100' in whole(address, "tell me a story", max_tokens=100, ignore_eos=True)
    assert metric(address, "vllm:generation_tokens_total") == before + 100


def test_tokens_arrive_as_they_are_made(address: Address) -> None:
    """The first is here while the last is still far from being made."""
    with connected(address) as sock:
        sock.sendall(b"".join(chat(**STORY, stream=True)))
        data = b""
        while data.count(b'"content":"') < 3:
            more = sock.recv(65536)
            assert more, data
            data += more
        assert running(address) == 1
    assert b"[DONE]" not in data and b'"finish_reason":"' not in data
    assert wait_for(lambda: running(address) == 0)


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_takes_its_time(address: Address, stream: bool) -> None:
    """The first to ask is told to wait for a minute: who asks after it has the answer before it."""
    with connected(address) as slow:
        slow.sendall(b"".join(chat("[wait 60 s] Say: ahoy", stream=stream)))
        assert wait_for(lambda: running(address) == 1)
        assert b'"content":"ahoy"' in whole(address, "Say: ahoy")
        assert running(address) == 1
        slow.setblocking(False)
        try:
            early = slow.recv(65536)
        except BlockingIOError:
            early = b""
    assert b"ahoy" not in early
    assert wait_for(lambda: running(address) == 0)


def test_reset_after_the_bytes(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    def reset(steps: Iterator[Step], ctx: object) -> Iterator[Step]:
        yield from itertools.islice(steps, 3)
        yield Close(How.RESET)

    data = b""
    with spied(monkeypatch, faults.Layer.SOCKET, reset), connected(address) as sock:
        sock.sendall(b"".join(chat("hi", stream=True)).replace(b"/v1", b"/fault/spy/v1", 1))
        with pytest.raises(ConnectionResetError):
            while more := sock.recv(65536):
                data += more
    assert data.startswith(b"HTTP/1.1 200 OK") and b"[DONE]" not in data


def test_a_bug_is_answered_with_500(
    address: Address, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def bug(body: object, ctx: Any) -> object:
        if ctx.status == 200:
            raise RuntimeError("secret detail")
        return body

    with spied(monkeypatch, faults.Layer.MESSAGE, bug), connected(address) as sock:
        sock.sendall(GET.replace(b"/v1", b"/fault/spy/v1", 1))
        data = read_until(sock, b"}}")
    assert data.startswith(b"HTTP/1.1 500 ") and b'"server_error"' in data and b"secret" not in data
    assert "secret detail" in capsys.readouterr().err


@pytest.mark.parametrize("declared", [True, False])
def test_long_body_is_refused_readably(address: Address, declared: bool) -> None:
    body = b"x" * 3_000_000
    with connected(address) as sock:
        framing = b"Content-Length: %d" % len(body) if declared else b"Transfer-Encoding: chunked"
        sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % framing)
        sock.sendall(body if declared else b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        data = read_until(sock, b"never")
    assert data.startswith(b"HTTP/1.1 413 ") and b'"request_too_large"' in data and b"connection: close" in data


@pytest.mark.parametrize(
    "sent, status",
    [
        (b"BLAH\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000, b"431"),
        (b"GET /v1/models HTTP/1.1\r\n\r\n", b"400"),
        (b"POST /v1/tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", b"400"),
    ],
)
def test_malformed_http(address: Address, sent: bytes, status: bytes) -> None:
    with connected(address) as sock:
        sock.sendall(sent)
        data = read_until(sock, b"never")
    assert data.split()[1] == status and b'{"error":{"message"' in data
    with connected(address) as sock:
        sock.sendall(GET)
        assert read_until(sock, b"]}").startswith(b"HTTP/1.1 200 OK")
