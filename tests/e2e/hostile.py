"""What the tests of hostile targets share: how they are judged, and a few answers, one good and many bad."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from wireproof.record import preflight
from wireproof.record.target import Limits, parse_target

from .helpers import LIMIT, Done, no_traceback, wireproof
from .servers import STREAM_HEAD, Asked, Pieces, completion, event, response

Answer = Callable[[Asked], Pieces]

KEY = "sk-wireproof/secret+0123456789"


def judge(url: str, *words: object, cwd: Path | None = None, key: str = KEY, patience: float = 5) -> Done:
    """A small run with an API key that must not show."""
    options = ("--timeout", patience, "--suite", "done", "--api-key-env", "K")
    done = wireproof("run", url, *options, *words, cwd=cwd, K=key)
    no_traceback(done)
    assert key not in done.text
    return done


async def refusal(url: str, *, model: str | None = None, patience: float = 5) -> preflight.PreflightError:
    """Why the preflight, which every run begins with, does not let this target pass."""
    asked = preflight.run(parse_target(url, api_key=KEY), model=model, limits=Limits.patient(patience))
    with pytest.raises(preflight.PreflightError) as caught:
        await asyncio.wait_for(asked, LIMIT)
    assert KEY not in str(caught.value)
    return caught.value


async def good(asked: Asked) -> Pieces:
    """A right answer, streamed or not."""
    if asked.streams:
        yield STREAM_HEAD + event({"role": "assistant", "content": "hi"}) + event({}, "stop") + b"data: [DONE]\n\n"
    else:
        yield response(completion())


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
        await asyncio.sleep(0.02)


async def huge(asked: Asked) -> Pieces:
    yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 104857600\r\n\r\n"
    for _ in range(100):
        yield b" " * 2**20


async def escapes(asked: Asked) -> Pieces:
    yield response('{"error": {"message": "\\u001b[2J\\u001b]0;owned\\u0007 no"}}', status="500 Oops")


BOMB = gzip.compress(b'{"choices": [], "pad": "' + b"0" * (80 * 2**20) + b'"}', 9)


async def bomb(asked: Asked) -> Pieces:
    yield response(BOMB, extra="Content-Encoding: gzip\r\n")
