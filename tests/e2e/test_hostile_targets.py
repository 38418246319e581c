"""Targets that pass the preflight, and then flood, stall, die, or give the key back."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wireproof.stored import run_record
from wireproof.verdict import Status
from wireproof.wire.transcript import Ending

from .helpers import LIMIT, ROOT, environment, wireproof
from .hostile import KEY, Answer, bomb, good, judge
from .servers import MODELS, STREAM_HEAD, Asked, Pieces, completion, event, model_server, plainly, response

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
    ("stream", "suite", "code", "shows", "ending"),
    [
        (endless, "done", 3, "", Ending.BYTE_LIMIT),
        (stalled, "done.marker.exact", 1, "FAIL  done.marker.exact", Ending.IDLE_TIMEOUT),
        (dripping, "done.marker.exact", 1, "FAIL  done.marker.exact", Ending.TOTAL_TIMEOUT),
        (deep, "done,sse.event.one-json", 1, "FAIL  sse.event.one-json", Ending.COMPLETE),
        (wide, "done", 0, "", Ending.COMPLETE),
        (torn, "sse.stream.utf8", 1, "FAIL  sse.stream.utf8", Ending.COMPLETE),
        (bomb, "done", 3, "", Ending.COMPLETE),
    ],
)
def test_a_stream_misbehaves(stream: Answer, suite: str, code: int, shows: str, ending: Ending, tmp_path: Path) -> None:
    """Where the target does not end its answer, we do."""
    with model_server(plainly(stream)) as url:
        files = ("-o", "r.jsonl", "--html", "r.html")
        done = judge(url, "--suite", suite, *files, cwd=tmp_path, patience=0.5 if stream in (stalled, dripping) else 20)
    assert done.code == code, done.text
    assert shows in done.out
    lines = tmp_path.joinpath("r.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[-1])["exit"] == code
    streams = run_record.read(tmp_path / "r.jsonl").transcripts.values()
    assert {t.ending for t in streams} == {ending}
    assert tmp_path.joinpath("r.jsonl").stat().st_size < 64 * 2**20


def test_many_answers_without_an_end_are_enough(tmp_path: Path) -> None:
    with model_server(plainly(stalled)) as url:
        done = judge(url, "--suite", "done,sse,chunk", "-o", "r.jsonl", cwd=tmp_path, patience=0.5)
    assert done.code == 1, done.text
    assert "Recording ended early: 8 answers had no end (idle-timeout no byte for 0.5 s)" in done.out
    end = json.loads(tmp_path.joinpath("r.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert "8 answers had no end" in end["error"]


def test_the_server_hangs_up_from_the_middle_on(tmp_path: Path) -> None:
    answered = 0

    async def chat(asked: Asked) -> Pieces:
        nonlocal answered
        answered += 1
        if answered > 12:
            raise ConnectionAbortedError
        async for data in good(asked):
            yield data

    with model_server(chat) as url:
        done = judge(url, "--suite", "done,sse,usage,choice", "-o", "r.jsonl", "--html", "r.html", cwd=tmp_path)
    assert done.code == 3, done.text
    assert "Recording ended early: the target did not answer 4 requests in a row" in done.out
    lines = [json.loads(line) for line in tmp_path.joinpath("r.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sum(line["kind"] == "transcript" for line in lines) >= 12
    assert lines[-1]["exit"] == 3
    assert "did not answer" in lines[-1]["error"]
    assert tmp_path.joinpath("r.html").stat().st_size > 1000


def test_the_server_dies_in_the_middle(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "wireproof.cli"]
    env = environment(PYTHONPATH=str(ROOT / "src"))
    server = subprocess.Popen(
        [*words, "serve", "--port", "0", "--print-url"], env=env, stdout=subprocess.PIPE, text=True
    )
    record = tmp_path / "r.jsonl"
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        command = [*words, "run", url, "-o", str(record)]
        run = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while run.poll() is None and not (record.exists() and record.stat().st_size > 500_000):
            time.sleep(0.05)
        server.kill()
        out, _ = run.communicate(timeout=LIMIT)
    finally:
        server.kill()
        server.communicate()
    assert run.returncode == 3, out
    assert "Traceback" not in out
    # Those that were on their way when it died are reset or closed, later ones find nobody.
    early = r"Recording ended early: the target did not answer 4 requests in a row \((not-connected|reset|closed)"
    assert re.search(early, out), out
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    assert lines[-1]["kind"] == "end"
    assert lines[-1]["exit"] == 3
    found = run_record.read(record)
    # Its death cut some answers, for which it is blamed, and no request that found nobody is held against it.
    cut_off = {t.scenario for t in found.transcripts.values() if t.ending in (Ending.CLOSED, Ending.RESET)}
    failed = [v for v in found.verdicts if v.status is Status.FAIL]
    assert {v.case for v in failed if v.rule == "http.body.framed-exactly"} <= cut_off
    blamed = {found.transcripts[x.transcript].ending for v in failed for x in v.violations}
    assert Ending.NOT_CONNECTED not in blamed, failed
    # What was judged before is kept, and what could not be judged says why.
    assert sum(v.status is Status.PASS for v in found.verdicts) > 50
    reasons = {v.reason.split(":")[0].split(" (")[0] for v in found.verdicts if v.status is Status.ERROR}
    gone = "the target did not answer 4 requests in a row"
    assert {gone} <= reasons <= {gone, "no connection"}


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
