"""Targets that cannot be judged: one line that says what to do, the right exit code, in time."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from wireproof.record import preflight
from wireproof.record.target import Limits, parse_target
from wireproof.reference_server import faults
from wireproof.reference_server.config import Config
from wireproof.reference_server.player import serve_in_thread

from .helpers import wireproof
from .hostile import Answer, bomb, dots, escapes, good, headers, huge, judge, nested, noise, page, refusal
from .servers import Asked, Log, Pieces, Talk, answering, listen, model_server, response

# -- nothing that can be judged ------------------------------------------------


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    done = judge(url)
    assert done.code == 3
    assert f"cannot connect to {url}" in done.message
    assert "is the server running" in done.message


@pytest.mark.asyncio
async def test_no_such_host() -> None:
    error = await refusal("http://no-such-host.invalid/v1")
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


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("talk", "patience", "says"),
    [
        (silence, 0.3, "accepts connections but does not answer GET /v1/models (idle-timeout: no byte for 0.3 s)"),
        (ssh, 5, "does not speak HTTP (it sent b'SSH-2.0-OpenSSH_9.6\\r\\n'): check host, port and http/https"),
        (hang_up, 5, "accepts connections but does not answer"),
    ],
)
async def test_something_else_listens(talk: Talk, patience: float, says: str) -> None:
    with listen(talk) as port:
        error = await refusal(f"http://127.0.0.1:{port}/v1", patience=patience)
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


@pytest.mark.asyncio
async def test_https_and_http_are_mixed_up(tls: tuple[ssl.SSLContext, Path]) -> None:
    with model_server(good, tls=tls[0]) as url:
        error = await refusal(url.replace("https:", "http:"))
    assert "http" in str(error)
    assert not error.usage
    with model_server(good) as waits, serve_in_thread(Config()) as answers:
        for url in (waits, answers):
            error = await refusal(url.replace("http:", "https:"), patience=0.3)
            assert "does that port speak plain http://?" in str(error)
            assert not error.usage


@pytest.mark.asyncio
async def test_a_certificate_that_nobody_signed(tls: tuple[ssl.SSLContext, Path]) -> None:
    with model_server(good, tls=tls[0]) as url:
        error = await refusal(url)
        trusted = wireproof("run", url, "--suite", "done", SSL_CERT_FILE=str(tls[1]))
    assert "SSL_CERT_FILE" in str(error)
    assert trusted.code == 0, trusted.text


@pytest.mark.asyncio
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
async def test_everything_is_answered_with_nonsense(answer: Answer, says: str) -> None:
    with answering(answer) as url:
        error = await refusal(url, patience=0.3 if answer is dots else 5)
    assert not error.usage
    assert "the answer to GET /v1/models " in str(error)
    assert says in str(error)


@pytest.mark.asyncio
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
async def test_only_the_list_of_models_is_sound(chat: Answer, says: str) -> None:
    with model_server(chat) as url:
        error = await refusal(url, patience=0.3 if chat is dots else 5)
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


@pytest.mark.asyncio
async def test_no_fault_of_the_reference_server_is_stopped_by_the_preflight() -> None:
    """What rules can judge must reach them; a list that leaves no choice is told, and naming the model helps."""
    stopped, unclear = {}, set()
    with serve_in_thread(Config(token_seconds=0.0)) as url:
        for name in faults.load():
            target = parse_target(url.replace("/v1", f"/fault/{name}/v1"))
            for model in (None, "tiny-reference"):
                try:
                    await preflight.run(target, model=model, engine="x", limits=Limits.patient(5))
                    break
                except preflight.PreflightError as error:
                    if error.usage and model is None and "--model" in str(error):
                        unclear.add(name)
                        continue
                    stopped[name] = str(error)
                    break
    assert stopped == {}
    assert {name.removeprefix("legal.").split(".")[0].split("-")[0] for name in unclear} <= {"model", "models"}, unclear
