"""A real socket: keep-alive, pipelining, disconnects, limits."""

import itertools
import json
import socket
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from wireproof.reference_server import faults
from wireproof.reference_server.answer import Close, How
from wireproof.reference_server.config import Config
from wireproof.reference_server.player import serve_in_thread

GET = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def address():
    with serve_in_thread(Config(body_limit=100_000, token_seconds=0.001)) as url:
        parts = urlsplit(url)
        assert parts.path == "/v1"
        yield parts.hostname, parts.port


@contextmanager
def connected(address):
    with socket.create_connection(address, timeout=5) as sock:
        yield sock


def chat(said, *, headers=b"", **parameters):
    messages = [{"role": "user", "content": said}]
    body = json.dumps({"model": "tiny-reference", "messages": messages, **parameters}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n" % (headers, len(body))
    return head, body


def read_until(sock, end):
    data = b""
    while not data.endswith(end):
        more = sock.recv(65536)
        if not more:
            break
        data += more
    return data


@contextmanager
def spied(monkeypatch, layer, apply):
    """Every `/fault/spy` request gets this fault."""
    spy = faults.Fault("spy", layer, frozenset({"x"}), "s", (), "", apply)
    monkeypatch.setattr(faults, "parse", lambda names: (spy,))
    yield


def metric(address, name):
    with connected(address) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        lines = read_until(sock, b"never").decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name + "{"))


def wait_for(condition):
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_keep_alive_and_pipelining(address):
    with connected(address) as sock:
        for _ in range(2):
            sock.sendall(b"".join(chat("hi", stream=True)))
            assert read_until(sock, b"0\r\n\r\n").count(b"[DONE]") == 1
        sock.sendall(GET * 3)
        data = b""
        while data.count(b"max_model_len") < 3:
            data += sock.recv(65536)
        assert data.count(b"HTTP/1.1 200 OK") == 3


def test_expect_continue_and_chunked_request(address):
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
def test_disconnect_stops_the_generation(address, stream, said):
    with connected(address) as sock:
        sock.sendall(b"".join(chat(said, stream=stream, max_tokens=100_000, ignore_eos=True)))
        assert wait_for(lambda: metric(address, "vllm:num_requests_running") == 1)
    assert wait_for(lambda: metric(address, "vllm:num_requests_running") == 0)
    before = metric(address, "vllm:generation_tokens_total")
    time.sleep(0.1)
    assert metric(address, "vllm:generation_tokens_total") == before


def test_tokens_arrive_as_they_are_made(address):
    with connected(address) as sock:
        started = time.monotonic()
        sock.sendall(b"".join(chat("tell me a story", stream=True, max_tokens=300)))
        sock.recv(1000)
        first = time.monotonic() - started
        read_until(sock, b"0\r\n\r\n")
        whole = time.monotonic() - started
    assert first < 0.2 < 0.28 < whole


def test_reset_after_the_bytes(address, monkeypatch):
    def reset(steps, ctx):
        yield from itertools.islice(steps, 3)
        yield Close(How.RESET)

    with spied(monkeypatch, faults.Layer.SOCKET, reset), connected(address) as sock:
        sock.sendall(b"".join(chat("hi", stream=True)).replace(b"/v1", b"/fault/spy/v1", 1))
        time.sleep(0.1)
        data = sock.recv(65536)
        with pytest.raises(ConnectionResetError):
            sock.recv(65536)
    assert data.startswith(b"HTTP/1.1 200 OK") and b"[DONE]" not in data


def test_a_bug_is_answered_with_500(address, monkeypatch, capsys):
    def bug(body, ctx):
        if ctx.status == 200:
            raise RuntimeError("secret detail")
        return body

    with spied(monkeypatch, faults.Layer.MESSAGE, bug), connected(address) as sock:
        sock.sendall(GET.replace(b"/v1", b"/fault/spy/v1", 1))
        data = read_until(sock, b"}}")
    assert data.startswith(b"HTTP/1.1 500 ") and b'"server_error"' in data and b"secret" not in data
    assert "secret detail" in capsys.readouterr().err


@pytest.mark.parametrize("declared", [True, False])
def test_long_body_is_refused_readably(address, declared):
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
def test_malformed_http(address, sent, status):
    with connected(address) as sock:
        sock.sendall(sent)
        data = read_until(sock, b"never")
    assert data.split()[1] == status and b'{"error":{"message"' in data
    with connected(address) as sock:
        sock.sendall(GET)
        assert read_until(sock, b"]}").startswith(b"HTTP/1.1 200 OK")
