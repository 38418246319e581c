"""Commands that need no target, and mistakes in the options: one line, exit code 2, no traceback."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from wireproof import cli

from .helpers import LIMIT, ROOT, environment, no_traceback, wireproof
from .hostile import good
from .servers import Log, model_server


def test_list_json_is_one_array_of_rules() -> None:
    done = wireproof("list", "--json")
    assert (done.code, done.err) == (0, "")
    rules = json.loads(done.out)
    assert isinstance(rules, list)
    assert len(rules) > 100
    for rule in rules:
        assert {"id", "aliases", "area", "level", "source", "requirement", "checked", "reason", "faults"} <= set(rule)
        assert rule["id"].startswith(f"{rule['area']}.")
        assert rule["level"] in ("MUST", "SHOULD", "MAY")
        assert rule["requirement"]
        assert rule["checked"] or rule["reason"], rule["id"]
        assert isinstance(rule["aliases"], list)
    assert len({rule["id"] for rule in rules}) == len(rules)


def test_list_for_people() -> None:
    done = wireproof("list", "--suite", "done")
    assert done.code == 0
    assert "done.marker.exact" in done.out
    assert "sse." not in done.out


def test_list_into_a_pipe_that_closes() -> None:
    command = f'"{sys.executable}" -m wireproof.cli list --json | head -c 100'
    env = environment(PYTHONPATH=str(ROOT / "src"))
    done = subprocess.run(["sh", "-c", command], env=env, capture_output=True, timeout=LIMIT, check=False)
    assert done.returncode == 0
    assert done.stderr == b""


@pytest.mark.parametrize("name", ["done.marker.exact", "DONE-001", "done-001"])
def test_explain_by_id_and_number(name: str) -> None:
    done = wireproof("explain", name)
    assert (done.code, done.err) == (0, "")
    for part in ("done.marker.exact  (MUST, DONE-001)", "Why:", "Source:", "See it fail: wireproof run --reference"):
        assert part in done.out


def test_explain_says_why_a_rule_is_not_checked() -> None:
    unchecked = [r["id"] for r in json.loads(wireproof("list", "--json").out) if not r["checked"]]
    assert "Not checked: " in wireproof("explain", unchecked[0]).out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run"], "give either a URL to judge"),
        (["run", "http://127.0.0.1:1/v1", "--reference"], "give either a URL to judge"),
        (["run", "nonsense"], "'nonsense' is not an http(s) URL: give the base URL"),
        (["run", "ftp://127.0.0.1/v1"], "is not an http(s) URL"),
        (["run", "http://127.0.0.1:99999/v1"], "is not a URL"),
        (["run", "http://[::1/v1"], "is not a URL"),
        (["run", "http://127.0.0.1/v1?key=1"], "has a query or fragment"),
        (["run", "http://user:hunter2@127.0.0.1/v1"], "use --api-key-env"),
        (["run", "http://127.0.0.1:1/v1", "--fault", "done.missing"], "--fault belongs to --reference"),
        (["run", "--reference", "--fault", "done.mising"], "close matches: done.missing"),
        (["run", "--reference", "--suite", "nope"], "no rule belongs to 'nope'; suites are: auth, "),
        (["run", "--reference", "--timeout", "0"], "--timeout: '0' is not a number, 0.1 or more"),
        (["run", "--reference", "--timeout", "nan"], "--timeout: 'nan' is not a number"),
        (["run", "--reference", "--timeout", "inf"], "--timeout: 'inf' is not a number"),
        (["run", "--reference", "--concurrency", "x"], "--concurrency: 'x' is not a whole number"),
        (["run", "--reference", "--concurrency", "0"], "--concurrency: '0' is not a whole number, 1 or more"),
        (["run", "--reference", "--samples", "1.5"], "--samples: '1.5' is not a whole number"),
        (["run", "--reference", "--level", "may"], "invalid choice: 'may'"),
        (["run", "--reference", "--engine", "==1"], "write it as vllm==0.32.0"),
        (["run", "--reference", "--api-key-env", "NO_SUCH"], "NO_SUCH (--api-key-env) is not set"),
        (["run", "--reference", "--header", "X-Tenant"], "write NAME=VAR"),
        (["run", "--reference", "--header", "X-Tenant=NO_SUCH"], "NO_SUCH (--header X-Tenant) is not set"),
        (["list", "--suite", "nope"], "no rule belongs to 'nope'"),
        (["explain", "done.marker.exactly"], "did you mean done.marker.exact"),
        (["explain", "zzz"], "`wireproof list` has them all"),
        (["check", "no-such-file"], "no-such-file does not exist: give a transcript file"),
        (["check", "/dev/null"], "/dev/null"),
        (["check"], "the following arguments are required: PATH"),
        (["report", "no-such-file"], "cannot read no-such-file"),
        (["serve", "--port", "70000"], "--port: '70000' is not a whole number, from 0 to 65535"),
        (["serve", "--api-key-env", "NO_SUCH"], "NO_SUCH (--api-key-env) is not set"),
        (["serve", "--host", "203.0.113.1", "--port", "0"], "cannot listen on 203.0.113.1:0"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        ([], "the following arguments are required: COMMAND"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_told_in_one_line(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = cli.main(words)
    except SystemExit as exit:
        code = int(str(exit.code))
    out, err = capsys.readouterr()
    assert (code, out) == (2, ""), err
    assert err.startswith("wireproof: ")
    assert err.count("\n") == 1
    assert says in err
    assert "hunter2" not in err


@pytest.mark.parametrize("option", ["-o", "--html", "--junit"])
def test_a_file_that_cannot_be_written_is_told_before_the_run(option: str) -> None:
    asked = Log()
    with model_server(good, log=asked) as url:
        done = wireproof("run", url, option, "/proc/no/file")
    assert done.code == 2, done.text
    assert "cannot write /proc/no/file" in done.message
    assert [x.path for x in asked.seen] == []
    no_traceback(done)


def test_help_names_the_exit_codes() -> None:
    done = wireproof("--help")
    assert done.code == 0
    assert "Exit codes: 0 kept, 1 a rule is broken, 2 usage, 3 target unreachable" in " ".join(done.out.split())


def serve(*words: str) -> subprocess.Popen[str]:
    env = environment(PYTHONPATH=str(ROOT / "src"))
    command = [sys.executable, "-m", "wireproof.cli", "serve", *words]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_prints_its_url_and_stops_when_told(number: int) -> None:
    server = serve("--port", "0", "--print-url")
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        assert url.endswith("/v1")
        with urllib.request.urlopen(f"{url}/models", timeout=LIMIT) as answer:
            assert json.load(answer)["data"][0]["id"] == "tiny-reference"
        with socket.create_connection(("127.0.0.1", int(url.split(":")[2].removesuffix("/v1")))):
            server.send_signal(number)  # an open connection must not keep it
            out, err = server.communicate(timeout=LIMIT)
    finally:
        server.kill()
    assert (server.returncode, out, err) == (0, "", "")


def test_serve_asks_for_its_key() -> None:
    env = environment(PYTHONPATH=str(ROOT / "src"), SERVE_KEY="sk-of-the-server")
    command = [
        sys.executable,
        "-m",
        "wireproof.cli",
        "serve",
        "--port",
        "0",
        "--print-url",
        "--api-key-env",
        "SERVE_KEY",
    ]
    server = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        wrong = wireproof("run", url, "--suite", "done", "--api-key-env", "K", K="sk-of-someone-else")
        none = wireproof("run", url, "--suite", "done")
        right = wireproof("run", url, "--suite", "done", "--api-key-env", "SERVE_KEY", SERVE_KEY="sk-of-the-server")
    finally:
        server.terminate()
        server.communicate(timeout=LIMIT)
    assert (wrong.code, none.code, right.code) == (3, 3, 0), wrong.text + none.text + right.text
    assert "check the key in that variable" in wrong.message
    assert "name the variable that holds it with --api-key-env" in none.message
    assert "sk-of" not in wrong.text + none.text + right.text


def test_serve_on_a_busy_port_says_what_to_do() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        done = wireproof("serve", "--port", port)
    assert done.code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in done.message
    assert "--port 0" in done.message
    no_traceback(done)


def test_serve_lists_faults() -> None:
    done = wireproof("serve", "--list-faults")
    assert done.code == 0
    assert any(line.startswith("done.missing ") for line in done.out.splitlines())


@pytest.mark.parametrize(
    ("number", "shell"),
    [
        (signal.SIGINT, ""),
        (signal.SIGTERM, ""),
        (signal.SIGHUP, ""),
        (signal.SIGTERM, "trap '' INT; "),  # a background job of a script is born with SIGINT ignored
    ],
)
def test_a_run_that_is_interrupted_keeps_what_it_has(number: int, shell: str, tmp_path: Path) -> None:
    """Also when only the command is told, and not its process group, as CI systems do."""
    env = environment(PYTHONPATH=str(ROOT / "src"))
    command = [
        "/bin/sh",
        "-c",
        f'{shell}exec "$@"',
        "sh",
        sys.executable,
        "-m",
        "wireproof.cli",
        "run",
        "--reference",
        "--samples",
        "50",
        "-o",
        "r.jsonl",
    ]
    run = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    record = tmp_path / "r.jsonl"
    try:
        while run.poll() is None and not (record.exists() and b'"kind":"transcript"' in record.read_bytes()):
            time.sleep(0.05)
        run.send_signal(number)
        out, _ = run.communicate(timeout=LIMIT)
    finally:
        run.kill()
    assert run.returncode == 3, out
    assert "Traceback" not in out
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    assert any(line["kind"] == "transcript" for line in lines)
    assert lines[-1]["kind"] == "end"
    assert lines[-1]["exit"] == 3
    assert lines[-1]["error"] == "interrupted"
