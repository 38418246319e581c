"""A real nginx in front of the bundled server: who buffers is found out, and who does not is left alone."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wireproof.judge import rules
from wireproof.record.target import parse_target
from wireproof.reference_server import faults
from wireproof.reference_server.config import Config
from wireproof.reference_server.player import serve_in_thread
from wireproof.resources import folder
from wireproof.run.run import Options, Run
from wireproof.verdict import Status

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
if NGINX is None and not os.environ.get("CI"):
    pytest.skip("nginx is not installed", allow_module_level=True)


def _brotli() -> Path | None:
    """nginx's module for br, where this nginx looks for modules; None when it is not installed."""
    if NGINX is None:
        return None
    built = subprocess.run([NGINX, "-V"], capture_output=True, text=True, check=True).stderr
    found = re.search(r"--modules-path=(\S+)", built)
    module = Path(found[1] if found else "modules") / "ngx_http_brotli_filter_module.so"
    return module if module.is_file() else None


BROTLI = _brotli()
INCREMENTAL = "operations.proxy.incremental"
GZIP, BR = "operations.encoding.gzip-incremental", "operations.encoding.br-incremental"
RULES = (
    INCREMENTAL,
    GZIP,
    BR,
    "sse.flush.incremental",
    "sse.header.no-length-or-encoding",
    "http.body.framed-exactly",
    "http.connection.reusable",
    "http.accept.json-still-streams",
    "done.marker.exact",
)
Judge = Callable[[str, str], dict[str, Status]]


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


@contextmanager
def nginx(settings: str, upstream: int, prefix: Path) -> Iterator[int]:
    """nginx with one of the settings in fixtures/nginx; gives its port."""
    assert NGINX is not None, "nginx is missing: .ci/run installs it"
    assert BROTLI or not settings.startswith("brotli"), "nginx's module for br is missing: .ci/run installs it"
    templates, port = folder("fixtures") / "nginx", _free_port()
    conf = (templates / "nginx.conf").read_text(encoding="utf-8")
    load = f"load_module {BROTLI};" if settings.startswith("brotli") else ""
    for name, value in (("MODULES", load), ("PREFIX", prefix), ("PORT", port), ("UPSTREAM", upstream)):
        conf = conf.replace(f"@{name}@", str(value))
    (prefix / "nginx.conf").write_text(conf, encoding="utf-8")
    shutil.copy(templates / f"{settings}.conf", prefix / "location.conf")
    command = [NGINX, "-p", str(prefix), "-e", str(prefix / "error.log"), "-c", str(prefix / "nginx.conf")]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        while True:  # until it listens, or ends
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert child.poll() is None, child.communicate()[1]
            time.sleep(0.05)
        yield port
    finally:
        child.terminate()
        child.communicate(timeout=60)


@pytest.fixture(scope="module")
def upstream() -> Iterator[int]:
    with serve_in_thread(Config()) as url:
        yield int(url.rsplit(":", 1)[1].removesuffix("/v1"))


@pytest.fixture
def judge(upstream: int, tmp_path: Path) -> Judge:
    """The verdicts of RULES through nginx with some settings, on the bundled server with a fault."""

    def judged(settings: str, fault: str = "") -> dict[str, Status]:
        chosen = [rules.load()[name] for name in RULES]
        with nginx(settings, upstream, tmp_path) as port:
            base = f"http://127.0.0.1:{port}" + (f"/fault/{fault}" if fault else "") + "/v1"
            run = Run(Options(parse_target(base)), chosen, faults.by_rule())
            run.record()
            return {r.id: run.outcome(r).status for r in chosen}

    return judged


def _failed(found: dict[str, Status]) -> set[str]:
    assert Status.ERROR not in found.values()
    return {name for name, status in found.items() if status is Status.FAIL}


def test_default_settings_leave_a_server_alone_that_asks_for_it(judge: Judge) -> None:
    """X-Accel-Buffering: no is enough: nobody has to change a proxy."""
    found = judge("default", "")
    assert _failed(found) == set()
    assert found[INCREMENTAL] is Status.PASS


@pytest.mark.parametrize(("settings", "fault"), [("deaf", ""), ("default", "sse.proxy-may-buffer")])
def test_default_buffering_is_found(judge: Judge, settings: str, fault: str) -> None:
    """Without the header, or with a proxy that is told to ignore it, text comes in blocks."""
    assert INCREMENTAL in _failed(judge(settings, fault))


def test_proxy_buffering_off_helps_a_server_that_says_nothing(judge: Judge) -> None:
    found = judge("off", "sse.proxy-may-buffer")
    assert _failed(found) == set()
    assert found[INCREMENTAL] is Status.PASS


def test_keep_alive_to_the_server(judge: Judge) -> None:
    """HTTP/1.1 to the server changes nothing for the client."""
    assert _failed(judge("keepalive", "")) == set()


WITH_BROTLI = pytest.mark.skipif(
    BROTLI is None and not os.environ.get("CI"), reason="nginx's module for br is not installed"
)
ENCODED = "sse.header.no-length-or-encoding"


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ("gzip", GZIP),
        ("gzip_off", GZIP),
        pytest.param("brotli", BR, marks=WITH_BROTLI),
        pytest.param("brotli_off", BR, marks=WITH_BROTLI),
    ],
)
def test_compression_by_a_proxy_that_does_not_buffer(judge: Judge, settings: str, rule: str) -> None:
    """Asked not to buffer, or told so: nginx flushes after each event. Risky, and said so, but nothing is late."""
    found = judge(settings, "")
    assert _failed(found) == {ENCODED}
    assert found[rule] is Status.PASS


@pytest.mark.parametrize(
    ("settings", "worse", "same"),
    [("gzip", GZIP, BR), pytest.param("brotli", BR, GZIP, marks=WITH_BROTLI)],
)
def test_compression_by_a_proxy_that_buffers(judge: Judge, settings: str, worse: str, same: str) -> None:
    """Blocks of 4 KB become one at the end for those who accept the coding; for the others they stay what they are."""
    found = judge(settings, "sse.proxy-may-buffer")
    assert {worse, INCREMENTAL, ENCODED} <= _failed(found)
    assert found[same] is Status.NOT_APPLICABLE
    assert found["http.body.framed-exactly"] is Status.PASS


def test_buffering_without_compression_is_not_blamed_on_it(judge: Judge) -> None:
    found = judge("deaf", "")
    assert {found[GZIP], found[BR]} == {Status.NOT_APPLICABLE}
