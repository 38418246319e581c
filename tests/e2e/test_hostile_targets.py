"""Targets that are no servers of this API, or that lie, flood, stall and die: one line, the right code, in time."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from wireproof.record import preflight
from wireproof.record.live import Limits, parse_target
from wireproof.reference_server import faults
from wireproof.reference_server.config import Config
from wireproof.reference_server.player import serve_in_thread

from .helpers import Done, no_traceback, wireproof
from .servers import (
    MODELS,
    STREAM_HEAD,
    Asked,
    Log,
    Pieces,
    answering,
    completion,
    event,
    listen,
    model_server,
    plainly,
    response,
)

KEY = "sk-wireproof/secret+0123456789"


def judge(url: str, *words: object, cwd: Path | None = None, key: str = KEY, patience: float = 5) -> Done:
    """A small run with an API key that must not show."""
    options = ("--timeout", patience, "--suite", "done", "--api-key-env", "K")
    done = wireproof("run", url, *options, *words, cwd=cwd, K=key)
    no_traceback(done)
    assert key not in done.text
    assert done.seconds < 20
    return done


def refusal(url: str, *, model: str | None = None, patience: float = 0.3) -> preflight.PreflightError:
    """Why the preflight, which every run begins with, does not let this target pass."""
    target, started = parse_target(url, api_key=KEY), time.monotonic()
    with pytest.raises(preflight.PreflightError) as caught:
        asyncio.run(preflight.run(target, model=model, limits=Limits.patient(patience)))
    assert time.monotonic() - started < 10
    assert KEY not in str(caught.value)
    return caught.value


# -- nothing that can be judged ------------------------------------------------


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    done = judge(url)
    assert done.code == 3
    assert f"cannot connect to {url}" in done.message
    assert "is the server running" in done.message


def test_no_such_host() -> None:
    error = refusal("http://no-such-host.invalid/v1")
    assert "cannot connect to http://no-such-host.invalid/v1" in str(error)
    assert not error.usage


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def ssh(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
    await writer.drain()
    await asyncio.sleep(1)


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


@pytest.mark.parametrize(
    ("talk", "says"),
    [
        (silence, "accepts connections but does not answer GET /v1/models (idle-timeout: no byte for 0.3 s)"),
        (ssh, "does not speak HTTP (it sent b'SSH-2.0-OpenSSH_9.6\\r\\n'): check host, port and http/https"),
        (hang_up, "accepts connections but does not answer"),
    ],
)
def test_something_else_listens(talk, says: str) -> None:  # type: ignore[no-untyped-def]
    with listen(talk) as port:
        error = refusal(f"http://127.0.0.1:{port}/v1")
    assert not error.usage
    assert says in str(error)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ssl.SSLContext, Path]]:
    if not shutil.which("openssl"):
        pytest.skip("openssl makes the certificate of this test")
    folder = tmp_path_factory.mktemp("tls")
    names = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-subj", "/CN=127.0.0.1"]
    names += ["-addext", "subjectAltName=IP:127.0.0.1"]
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    subprocess.run([str(w) for w in words], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    yield context, folder / "cert.pem"


async def good(asked: Asked) -> Pieces:
    """A right answer, streamed or not."""
    if asked.streams:
        yield STREAM_HEAD + event({"role": "assistant", "content": "hi"}) + event({}, "stop") + b"data: [DONE]\n\n"
    else:
        yield response(completion())


def test_https_and_http_are_mixed_up(tls: tuple[ssl.SSLContext, Path]) -> None:
    with model_server(good, tls=tls[0]) as url:
        error = refusal(url.replace("https:", "http:"))
    assert "http" in str(error)
    assert not error.usage
    with model_server(good) as waits, serve_in_thread(Config()) as answers:
        for url in (waits, answers):
            error = refusal(url.replace("http:", "https:"))
            assert "does that port speak plain http://?" in str(error)
            assert not error.usage


def test_a_certificate_that_nobody_signed(tls: tuple[ssl.SSLContext, Path]) -> None:
    with model_server(good, tls=tls[0]) as url:
        error = refusal(url)
        trusted = wireproof("run", url, "--suite", "done", SSL_CERT_FILE=str(tls[1]))
    assert "SSL_CERT_FILE" in str(error)
    assert trusted.code == 0, trusted.text


async def page(asked: Asked) -> Pieces:
    yield response("<!doctype html><title>Welcome</title>", media="text/html")


async def nested(asked: Asked) -> Pieces:
    yield response('{"choices":' + "[" * 100_000 if "chat" in asked.path else "[" * 100_000)


async def noise(asked: Asked) -> Pieces:
    yield response(b"\xff\xfe\x80" * 100, extra="X-Odd: \xff\xfe\r\n")


async def headers(asked: Asked) -> Pieces:
    yield b"HTTP/1.1 200 OK\r\n"
    while True:
        yield b"X-More: " + b"y" * 1000 + b"\r\n"


async def dots(asked: Asked) -> Pieces:
    yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n"
    while True:
        yield b" "
        await asyncio.sleep(0.2)


async def huge(asked: Asked) -> Pieces:
    yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 104857600\r\n\r\n"
    for _ in range(100):
        yield b" " * 2**20


async def escapes(asked: Asked) -> Pieces:
    yield response('{"error": {"message": "\\u001b[2J\\u001b]0;owned\\u0007 no"}}', status="500 Oops")


BOMB = gzip.compress(b'{"choices": [], "pad": "' + b"0" * (80 * 2**20) + b'"}', 9)


async def bomb(asked: Asked) -> Pieces:
    yield response(BOMB, extra="Content-Encoding: gzip\r\n")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (page, "is a web page"),
        (nested, "is not that of the API"),
        (noise, "is not that of the API"),
        (headers, "is empty (200: Receive buffer too long)"),
        (dots, "does not end (no end within 1.5 s)"),
        (huge, "does not end (more than 4194304 bytes)"),
        (bomb, "is not that of the API"),
    ],
)
def test_everything_is_answered_with_nonsense(answer, says: str) -> None:  # type: ignore[no-untyped-def]
    with answering(answer) as url:
        error = refusal(url)
    assert not error.usage
    assert "the answer to GET /v1/models " in str(error)
    assert says in str(error)


@pytest.mark.parametrize(
    ("chat", "says"),
    [
        (page, "is a web page"),
        (noise, "is not that of the API"),
        (headers, "is empty (200: Receive buffer too long)"),
        (dots, "does not end (no end within 1.5 s)"),
        (huge, "does not end (more than 4194304 bytes)"),
        (bomb, "cannot be decoded (the body inflates past the limit)"),
    ],
)
def test_only_the_list_of_models_is_sound(chat, says: str) -> None:  # type: ignore[no-untyped-def]
    with model_server(chat) as url:
        error = refusal(url)
    assert not error.usage
    assert says in str(error)


def test_what_a_target_says_is_shown_and_never_obeyed() -> None:
    with model_server(escapes) as url:
        done = judge(url)
    assert done.code == 3, done.text
    assert "a completion of one token fails with 500" in done.message
    assert "\x1b" not in done.text


# -- keys, redirects, models ------------------------------------------------------


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
def test_the_key_is_refused(status: str) -> None:
    async def refuse(asked: Asked) -> Pieces:
        yield response(json.dumps({"error": {"message": f"bad key {asked.headers['authorization']}"}}), status=status)

    with answering(refuse) as url:
        done = judge(url)
    assert done.code == 3
    assert f"refuses the API key ({status[:3]} bad key *" in done.message
    assert "check the key in that variable" in done.message


def test_a_redirect_is_not_followed() -> None:
    elsewhere = Log()
    with model_server(good, log=elsewhere) as other:

        async def redirect(asked: Asked) -> Pieces:
            yield response("", status="307 Temporary Redirect", extra=f"Location: {other}/models\r\n")

        with answering(redirect) as url:
            done = judge(url)
    assert done.code == 3
    assert f"redirects to {other}/models: give that URL" in done.message
    assert elsewhere.seen == []


def test_the_model_must_be_chosen_among_several() -> None:
    models = json.dumps({"object": "list", "data": [{"id": "first"}, {"id": "second"}]})
    with model_server(good, models=models) as url:
        several, chosen = judge(url), judge(url, "--model", "second")
    assert several.code == 2
    assert "serves 2 models, choose one with --model: first, second" in several.message
    assert chosen.code == 0, chosen.text


def test_an_unknown_model_is_told_with_those_that_exist() -> None:
    async def chat(asked: Asked) -> Pieces:
        yield response(json.dumps({"error": {"message": f"no {asked.json['model']}"}}), status="404 Not Found")

    with model_server(chat) as url:
        done = judge(url, "--model", "absent")
    assert done.code == 2
    assert "does not serve the model 'absent' (404 no absent): choose one of m" in done.message


def test_a_server_without_a_list_of_models() -> None:
    async def answer(asked: Asked) -> Pieces:
        if asked.path.endswith("/chat/completions"):
            async for data in good(asked):
                yield data
        else:
            yield response('{"detail": "Not Found"}', status="404 Not Found")

    with answering(answer) as url:
        unnamed, named = judge(url), judge(url, "--model", "m")
    assert unnamed.code == 2
    assert "name the model with --model" in unnamed.message
    assert named.code == 0, named.text


def test_a_base_url_without_v1() -> None:
    with model_server(good) as url:
        done = judge(url.removesuffix("/v1"))
        pasted = judge(f"{url}/chat/completions")
    assert (done.code, pasted.code) == (0, 0), done.text + pasted.text


# -- streams that misbehave -------------------------------------------------------


async def endless(asked: Asked) -> Pieces:
    yield STREAM_HEAD
    while True:
        yield event({"content": "x"}) * 400


async def stalled(asked: Asked) -> Pieces:
    yield STREAM_HEAD + event({"role": "assistant", "content": "x"}) * 3
    await asyncio.sleep(30)


async def dripping(asked: Asked) -> Pieces:
    yield STREAM_HEAD
    while True:
        for byte in event({"content": "x"}):
            yield bytes([byte])
            await asyncio.sleep(0.02)


async def deep(asked: Asked) -> Pieces:
    yield STREAM_HEAD + b"data: " + b"[" * 100_000 + b"\n\ndata: [DONE]\n\n"


async def wide(asked: Asked) -> Pieces:
    yield STREAM_HEAD + event({"role": "assistant", "content": "z" * 2**20}) + event({}, "stop") + b"data: [DONE]\n\n"


async def torn(asked: Asked) -> Pieces:
    words = event({"role": "assistant", "content": "@"}).replace(b"@", b"\xff\xfe\x80")
    yield STREAM_HEAD + words + event({}, "stop") + b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("stream", "suite", "code", "shows"),
    [
        (endless, "done", 3, ""),
        (stalled, "done.marker.exact", 1, "FAIL  done.marker.exact"),
        (dripping, "done.marker.exact", 1, "FAIL  done.marker.exact"),
        (deep, "done,sse.event.one-json", 1, "FAIL  sse.event.one-json"),
        (wide, "done", 0, ""),
        (torn, "sse.stream.utf8", 1, "FAIL  sse.stream.utf8"),
        (bomb, "done", 3, ""),
    ],
)
def test_a_stream_misbehaves(stream, suite: str, code: int, shows: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with model_server(plainly(stream)) as url:
        files = ("-o", "r.jsonl", "--html", "r.html")
        done = judge(url, "--suite", suite, *files, cwd=tmp_path, patience=0.5 if code else 20)
    assert done.code == code, done.text
    assert shows in done.out
    lines = tmp_path.joinpath("r.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[-1])["exit"] == code
    assert tmp_path.joinpath("r.jsonl").stat().st_size < 64 * 2**20


def test_many_answers_without_an_end_are_enough(tmp_path: Path) -> None:
    with model_server(plainly(stalled)) as url:
        done = judge(url, "--suite", "done,sse,chunk", "-o", "r.jsonl", cwd=tmp_path, patience=0.5)
    assert done.code == 1, done.text
    assert "Recording ended early: 8 answers had no end (idle-timeout no byte for 0.5 s)" in done.out
    end = json.loads(tmp_path.joinpath("r.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert "8 answers had no end" in end["error"]


def test_the_server_dies_in_the_middle(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        answered = 0

        async def chat(asked: Asked) -> Pieces:
            nonlocal answered
            answered += 1
            if answered > 12:
                raise ConnectionAbortedError
            async for data in good(asked):
                yield data

        url = stack.enter_context(model_server(chat))
        done = judge(url, "--suite", "done,sse,usage,choice", "-o", "r.jsonl", "--html", "r.html", cwd=tmp_path)
    assert done.code == 3, done.text
    assert "Recording ended early: the target did not answer 4 requests in a row" in done.out
    lines = [json.loads(line) for line in tmp_path.joinpath("r.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sum(line["kind"] == "transcript" for line in lines) >= 12
    assert lines[-1]["exit"] == 3
    assert "did not answer" in lines[-1]["error"]
    assert tmp_path.joinpath("r.html").stat().st_size > 1000


# -- the key comes back ------------------------------------------------------------


def cut(data: bytes, at: int) -> bytes:
    """Two chunks of the chunked transfer coding, with the cut inside the key."""
    parts = (data[:at], data[at:], b"")
    return b"".join(f"{len(p):x}\r\n".encode() + p + b"\r\n" for p in parts)


@pytest.mark.parametrize("way", ["plain", "json", "url", "gzip", "chunks", "drip", "short"])
def test_an_echoed_key_is_stored_nowhere(way: str, tmp_path: Path) -> None:
    key = "hush" if way == "short" else KEY

    async def chat(asked: Asked) -> Pieces:
        echo = asked.headers.get("authorization", "")
        words = {"json": echo.replace("/", "\\/"), "url": echo.replace("/", "%2F").replace("+", "%2B")}.get(way, echo)
        said = event({"role": "assistant", "content": "@"}).replace(b"@", words.encode())
        said += event({}, "length") + f": {words}\n\n".encode()
        head = STREAM_HEAD[:-2] + f"X-Echo: {words}\r\nSet-Cookie: {words}\r\n".encode()
        if not asked.streams:
            yield response(completion().replace('"hi"', f'"{words}"'), extra=f"X-Echo: {words}\r\n")
        elif way == "gzip":
            yield head + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(said)
        elif way == "chunks":
            yield head + b"Transfer-Encoding: chunked\r\n\r\n" + cut(said, said.index(key.encode()) + 5)
        else:
            whole = head + b"\r\n" + said
            for at in range(0, len(whole), 7 if way == "drip" else len(whole)):
                yield whole[at : at + (7 if way == "drip" else len(whole))]

    files = ("-o", "r.jsonl", "--html", "r.html", "--junit", "r.xml")
    with model_server(chat, models=MODELS) as url:
        done = judge(url, "--suite", "done", "-v", *files, cwd=tmp_path, key=key)
        reported = wireproof("report", "r.jsonl", "--markdown", "r.md", "--json", "r.json", cwd=tmp_path)
    assert done.code == 1, done.text  # there is no [DONE], so that bytes are shown
    assert reported.code == 0
    for path in tmp_path.iterdir():
        text = path.read_text(encoding="utf-8")
        for spelling in (key, key.replace("/", "\\/"), key.replace("/", "\\\\/"), key.replace("/", "%2F")):
            assert f"Bearer {spelling}" not in text, path.name
            assert way == "short" or spelling not in text, path.name
    assert "***" in tmp_path.joinpath("r.jsonl").read_text(encoding="utf-8")


def test_no_fault_of_the_reference_server_is_stopped_by_the_preflight() -> None:
    """What rules can judge must reach them."""
    stopped = {}
    with serve_in_thread(Config(token_seconds=0.0)) as url:
        for name in faults.load():
            target = parse_target(url.replace("/v1", f"/fault/{name}/v1"))
            try:
                asyncio.run(preflight.run(target, model=None, engine="x", limits=Limits.patient(5)))
            except preflight.PreflightError as error:
                stopped[name] = str(error)
    assert stopped == {}
