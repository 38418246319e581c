"""Gateways, and the engines behind them: `--metrics`, and the GPUs of this machine, over sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from wireproof.reference_server.config import Config
from wireproof.reference_server.player import serve_in_thread
from wireproof.stored import run_record

from .helpers import no_traceback, wireproof
from .servers import listen

KEY = "sk-gateway-0123456789"
RULE = "cancel.stream.aborts"


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    # (An answer of 2,000 tokens shall take longer than the five seconds in which it must be aborted.)
    with serve_in_thread(Config(token_seconds=0.005)) as url:
        yield url


@contextlib.contextmanager
def gateway(engine: str, *, deaf: bool) -> Iterator[str]:
    """A relay without gauges of its own. A deaf one reads the engine's answer to its end when its client has left."""
    port = int(urlsplit(engine).port or 0)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.splitlines() if line.lower().startswith(b"content-length:")), 0
        )
        body = await reader.readexactly(length)
        if b" /metrics" in head.split(b"\r\n", 1)[0]:
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            return
        upstream, up = await asyncio.open_connection("127.0.0.1", port)
        up.write(head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + body)
        gone = asyncio.ensure_future(reader.read(1))
        while data := await _next(upstream, gone, deaf=deaf):
            with contextlib.suppress(ConnectionError):
                if not gone.done():
                    writer.write(data)
                    await writer.drain()
        gone.cancel()
        up.close()

    with listen(talk) as found:
        yield f"http://127.0.0.1:{found}/v1"


async def _next(upstream: asyncio.StreamReader, gone: asyncio.Future[bytes], *, deaf: bool) -> bytes:
    """The engine's next bytes; none once the client has left, unless the gateway is deaf to it."""
    read = asyncio.ensure_future(upstream.read(65536))
    await asyncio.wait({read} if deaf else {read, gone}, return_when=asyncio.FIRST_COMPLETED)
    if not read.done():
        read.cancel()
        return b""
    return read.result()


def _status(record: Path, rule: str) -> tuple[str, str]:
    (found,) = [v for v in run_record.read(record).verdicts if v.rule == rule]
    return found.status.value, found.reason


@pytest.mark.parametrize(("deaf", "status"), [(False, "pass"), (True, "fail")])
def test_the_gauge_of_the_engine_tells_whether_a_gateway_passes_it_on(
    engine: str, tmp_path: Path, deaf: bool, status: str
) -> None:
    """Protects the operator of a gateway whose users' Stop button does not reach the GPU."""
    gauges = engine.replace("/v1", "/metrics")
    with gateway(engine, deaf=deaf) as url:
        words = (f"--metrics={gauges}", "--api-key-env=GATEWAY_KEY", "--level=should", f"--suite={RULE}")
        done = wireproof("run", url, *words, "-o", "run.jsonl", cwd=tmp_path, GATEWAY_KEY=KEY)
    no_traceback(done)
    assert _status(tmp_path / "run.jsonl", RULE)[0] == status, done.text
    assert done.code == (1 if deaf else 0)
    looks = [t for t in run_record.read(tmp_path / "run.jsonl").transcripts.values() if t.request.url == gauges]
    assert looks
    assert not any(t.request.header("authorization") for t in looks)
    assert KEY not in (tmp_path / "run.jsonl").read_text(encoding="utf-8")


def test_without_it_the_gauge_of_a_gateway_says_nothing(engine: str, tmp_path: Path) -> None:
    with gateway(engine, deaf=True) as url:
        done = wireproof("run", url, f"--suite={RULE},models", "-o", "run.jsonl", cwd=tmp_path)
    assert done.code == 0, done.text
    assert _status(tmp_path / "run.jsonl", RULE)[0] == "not-applicable"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000", "ftp://x/metrics", "http://me:pw@x/metrics", "7", "http://x/metrics?a"]
)
def test_a_metrics_url_that_is_none(url: str) -> None:
    done = wireproof("run", "http://127.0.0.1:9/v1", f"--metrics={url}")
    no_traceback(done)
    assert done.code == 2
    assert "pw@" not in done.text
    assert done.message


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/metrics", "404"),
        ("/v1/slots", "404"),
        (":9/metrics", "not-connected"),
        ("/fault/legal.no-metrics/metrics", ""),
    ],
)
def test_a_page_without_gauges_is_told_before_anything_is_recorded(engine: str, path: str, said: str) -> None:
    where = f"http://127.0.0.1{path}" if path.startswith(":") else engine.replace("/v1", path)
    done = wireproof("run", engine, f"--metrics={where}", f"--suite={RULE}")
    no_traceback(done)
    assert done.code == 2
    assert done.message.startswith(f"--metrics {where}: ")
    assert said in done.message


# Shows what the bundled server computes as the use of a GPU, as NVIDIA's tool would print it.
_SMI = """\
#!{python}
import sys, urllib.request
assert sys.argv[1:] == ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"], sys.argv
with urllib.request.urlopen("{metrics}") as answer:
    lines = answer.read().decode().splitlines()
running = next(float(line.split()[-1]) for line in lines if line.startswith("vllm:num_requests_running"))
print(4)
print(93 if running else 1)
"""


@pytest.mark.parametrize(("fault", "status"), [("", "pass"), ("fault/cancel.stream-goes-on/", "fail")])
def test_the_gpus_of_this_machine(engine: str, tmp_path: Path, fault: str, status: str) -> None:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(_SMI.format(python=sys.executable, metrics=engine.replace("/v1", "/metrics")), encoding="utf-8")
    tool.chmod(0o755)
    path = f"{tool.parent}{os.pathsep}{os.environ['PATH']}"
    url = engine.replace("/v1", f"/{fault}v1")
    done = wireproof("run", url, "--suite=cancel.gpu.aborts,models", "-o", "run.jsonl", cwd=tmp_path, PATH=path)
    no_traceback(done)
    found = _status(tmp_path / "run.jsonl", "cancel.gpu.aborts")
    assert found[0] == status, (found, done.text)
