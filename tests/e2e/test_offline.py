"""`wireproof check` on recordings of every kind, whole, odd, cut off and broken."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from wireproof import cli
from wireproof.judge import rules
from wireproof.judge.judge import judge_all
from wireproof.read.recording import recording
from wireproof.stored.files import NotATranscript, parse, read_paths
from wireproof.verdict import Status, fold
from wireproof.wire.transcript import Transcript, to_json

from .helpers import ROOT
from .servers import completion, event

STREAM = event({"role": "assistant", "content": "hi"}) + event({}, "stop") + b"data: [DONE]\n\n"
NO_DONE = STREAM.removesuffix(b"data: [DONE]\n\n")
PLAIN = completion().encode()
ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hi."}], "temperature": 0}


def head(media: str = "text/event-stream", *more: str, first: str = "HTTP/1.1 200 OK") -> bytes:
    lines = [first, f"Content-Type: {media}", "X-Request-Id: r1", "Cache-Control: no-cache", *more]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


def comments(path: str = "/v1/chat/completions", **asked: Any) -> bytes:
    return f"# POST {path}\n# body: {json.dumps({**ASKED, **asked})}\n# ---\n".encode()


@cache
def checked() -> list[rules.Rule]:
    return [r for r in rules.load().values() if r.check]


def statuses(*transcripts: Transcript) -> dict[str, Status]:
    numbered = [replace(t, id=f"t{n}") for n, t in enumerate(transcripts)]
    verdicts = judge_all(checked(), recording(numbered))
    return {rule: fold(v.status for v in found) for rule, found in verdicts.items()}


def read(data: bytes, name: str = "file.txt") -> list[Transcript]:
    return list(parse(data, name, Path(name)))


def broken(data: bytes) -> set[str]:
    """MUST rules that the bytes of one file break; nothing may be an error of ours."""
    found = statuses(*read(data))
    assert Status.ERROR not in found.values()
    levels = rules.load()
    return {r for r, status in found.items() if status is Status.FAIL and levels[r].level == "MUST"}


def har(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"log": {"version": "1.2", "entries": entries}}).encode()


def entry(body: bytes, media: str, *, asked: dict[str, Any] | None = None, encode: bool = False) -> dict[str, Any]:
    content = {"size": len(body), "mimeType": media, "text": body.decode()}
    if encode:
        content |= {"text": base64.b64encode(body).decode(), "encoding": "base64"}
    request: dict[str, Any] = {
        "method": "POST",
        "url": "https://user:pw@api.example/v1/chat/completions",
        "headers": [{"name": ":path", "value": "/v1"}, {"name": "Authorization", "value": "Bearer sk-in-the-browser"}],
    }
    if asked is not None:
        request["postData"] = {"mimeType": "application/json", "text": json.dumps(asked)}
    headers = [{"name": "content-type", "value": media}, {"name": "content-encoding", "value": "gzip"}]
    return {"request": request, "response": {"status": 200, "headers": headers, "content": content}}


VERBOSE = (
    b"* Host 127.0.0.1:8000 was resolved.\n*   Trying 127.0.0.1:8000...\n* Connected to 127.0.0.1 port 8000\n"
    b"> POST /v1/chat/completions HTTP/1.1\r\n> Host: 127.0.0.1:8000\r\n> Authorization: Bearer sk-typed-by-hand\r\n"
    b"> X-Request-Id: mine\r\n> \r\n} [127 bytes data]\n* upload completely sent off: 127 bytes\n"
)


def as_verbose(response: bytes, *, included: bool) -> bytes:
    """What `curl -v 2>&1` makes of a response, with -i or without."""
    first, body = response.split(b"\r\n\r\n", 1)
    lines = b"".join(b"< " + line + b"\r\n" for line in [*first.split(b"\r\n"), b""])
    whole = first + b"\r\n\r\n" if included else b""
    return VERBOSE + lines + whole + b"{ [5 bytes data]\n" + body + b"* Connection #0 to host 127.0.0.1 left intact\n"


WHOLE: dict[str, Callable[[bytes], bytes]] = {
    "curl": lambda body: comments(stream=True) + head() + body,
    "curl without the request": lambda body: head() + body,
    "curl, CRLF comments": lambda body: comments(stream=True).replace(b"\n", b"\r\n") + head() + body,
    "curl, 100 first": lambda body: b"HTTP/1.1 100 Continue\r\n\r\n" + head() + body,
    "curl, 103 first": lambda body: b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + head() + body,
    "curl, proxy first": lambda body: b"HTTP/1.1 200 Connection established\r\n\r\n" + head() + body,
    "curl, HTTP/2": lambda body: head(first="HTTP/2 200 ") + body,
    "curl, HTTP/3": lambda body: head(first="HTTP/3 200") + body,
    "curl -v": lambda body: as_verbose(head() + body, included=False),
    "curl -vi": lambda body: as_verbose(head() + body, included=True),
    "curl, chunked": lambda body: head("text/event-stream", "Transfer-Encoding: chunked") + body,
    "curl --compressed": lambda body: head("text/event-stream", "Content-Encoding: gzip", "Content-Length: 33") + body,
    "curl, gzip as it came": lambda body: head("text/event-stream", "Content-Encoding: gzip") + gzip.compress(body),
    "bare body": lambda body: body,
    "bare body after a comment": lambda body: b": ping\n\n" + body,
    "HAR": lambda body: har(entry(body, "text/event-stream", asked={**ASKED, "stream": True})),
    "HAR without postData": lambda body: har(entry(body, "text/event-stream")),
    "HAR, base64": lambda body: har(entry(body, "text/event-stream", encode=True)),
    "our own": lambda body: json.dumps(
        to_json(replace(read(comments(stream=True) + head() + body)[0], id="t1"))
    ).encode(),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_a_right_stream_is_right_in_any_form_and_a_wrong_one_wrong(kind: str) -> None:
    assert broken(WHOLE[kind](STREAM)) == set()
    assert broken(WHOLE[kind](NO_DONE)) == {"done.marker.exact"}
    shown = [r for r, status in statuses(*read(WHOLE[kind](STREAM))).items() if status is Status.PASS]
    assert len(shown) > 20


@pytest.mark.parametrize("kind", ["curl", "curl without", "bare", "HAR", "HAR, base64"])
def test_a_plain_answer_is_right_in_any_form(kind: str) -> None:
    data = {
        "curl": comments() + head("application/json", f"Content-Length: {len(PLAIN)}") + PLAIN,
        "curl without": head("application/json", f"Content-Length: {len(PLAIN)}") + PLAIN,
        "bare": PLAIN,
        "HAR": har(entry(PLAIN, "application/json", asked=ASKED)),
        "HAR, base64": har(entry(PLAIN, "application/json", encode=True)),
    }[kind]
    assert broken(data) == set()
    assert "choice.body.required-members" in {r for r, s in statuses(*read(data)).items() if s is Status.PASS}
    renamed = data.replace(b"chat.completion", b"chat.completiom") if kind != "HAR, base64" else None
    assert renamed is None or kind in ("curl without", "bare") or broken(renamed)


def test_several_responses_in_one_file() -> None:
    plain = head("application/json", f"Content-Length: {len(PLAIN)}") + PLAIN  # no line end after the body
    found = read(plain + head() + STREAM + plain)
    assert [t.request.path for t in found] == ["/v1/chat/completions"] * 3
    assert [t.scenario for t in found] == ["file.txt#0", "file.txt#1", "file.txt#2"]
    asked = read(comments() + plain + b"\n" + comments(stream=True, n=2) + head() + STREAM)
    assert [json.loads(t.request.body).get("n") for t in asked] == [None, 2]
    assert "choice.count.equals-n" in {r for r, s in statuses(*asked).items() if s is Status.FAIL}


def test_keys_in_recordings_are_masked() -> None:
    verbose = read(WHOLE["curl -v"](STREAM))[0]
    assert verbose.request.header("x-request-id") == "mine"
    assert verbose.request.header("authorization") == "Bearer ***"
    browser = read(WHOLE["HAR"](STREAM))[0]
    assert browser.request.header("authorization") == "Bearer ***"
    assert browser.request.url == "https://***@api.example/v1/chat/completions"
    assert browser.request.header(":path") is None


def test_other_endpoints_are_not_taken_for_chat() -> None:
    text = b'data: {"id":"c","object":"text_completion","choices":[{"index":0,"text":"hi","finish_reason":null}]}\n\n'
    answer = b'event: response.created\ndata: {"type":"response.created","response":{"id":"r"}}\n\n'
    listed = b'{"object":"list","data":[{"id":"m","object":"model"}]}'
    for body, path in ((text, "/v1/completions"), (answer, "/v1/responses"), (listed, "/v1/models")):
        media = "application/json" if body is listed else "text/event-stream"
        assert [t.request.path for t in read(head(media) + body)] == [path]
        assert broken(head(media) + body) == broken(body) == set()


def test_what_was_not_recorded_is_not_judged() -> None:
    """A chunk with usage, two choices, a call that may have been forced: right, if they were asked for."""
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    with_usage = event({}, "stop").replace(b'"choices"', f'"usage": {json.dumps(usage)}, "choices"'.encode())
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    first = event({"role": "assistant", "content": ""})
    for body in (
        first + with_usage + b"data: [DONE]\n\n",
        first + first.replace(b'"index": 0', b'"index": 1') + event({}, "stop") * 1 + b"data: [DONE]\n\n",
        event({"role": "assistant", "content": None, "tool_calls": [call]}) + event({}, "stop") + b"data: [DONE]\n\n",
    ):
        for data in (body, head() + body):
            failed = {r for r, s in statuses(*read(data)).items() if s is Status.FAIL}
            assert not failed & {r for r in failed if r.startswith(("usage.", "choice.count", "finish.tool"))}, failed


def test_recordings_of_different_servers_are_not_compared(tmp_path: Path) -> None:
    def one(name: str, text: str, **asked: Any) -> None:
        body = completion(text).encode()
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        if asked:
            said = event({"role": "assistant", "content": text}) + event({}, "stop") + b"data: [DONE]\n\n"
            path.write_bytes(comments(**asked) + head() + said)
        else:
            path.write_bytes(comments() + head("application/json", f"Content-Length: {len(body)}") + body)

    one("a/plain.txt", "yes")
    one("b/stream.txt", "no", stream=True)
    one("b/again.txt", "no")
    for given in ([tmp_path], [tmp_path / "a", tmp_path / "b"], sorted(tmp_path.glob("*/*.txt"))):
        found = statuses(*read_paths(given))
        assert found["choice.id.unique"] is Status.FAIL  # within b: that is one server
        assert found["chunk.parity.with-plain"] is Status.PASS
    one("a/stream.txt", "no", stream=True)
    assert statuses(*read_paths([tmp_path]))["chunk.parity.with-plain"] is Status.FAIL


# -- files that cannot be judged -------------------------------------------------------------


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = cli.main(["check", *map(str, words)])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b"\x00\x01\x02\xff" * 64, "is no transcript"),
        (b"\x89PNG\r\n\x1a\n", "is no transcript"),
        (b"hello", "is no transcript"),
        (b'{"name": "x"}', "is JSON, but no answer of the API"),
        (b"[1, 2]", "is JSON, but no answer of the API"),
        (b"{\x00\xff", "is cut off or broken JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/ev", "cut off inside the response headers"),
        (b"HTTP/1.1 200 O", "has no status line"),
        (b"# POST /v1/chat/completions\n# ---\nHTTP/", "has no status line"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "has no final response"),
        (WHOLE["HAR"](STREAM)[:200], "is cut off or broken JSON"),
        (WHOLE["our own"](STREAM)[:200], "is cut off or broken JSON"),
        (b'{"schema": "wireproof/transcript/1", "id": 3}', "not a wireproof transcript"),
        (b'{"log": {"entries": [1]}}', "entry 0 has no request"),
        (b'{"log": {"entries": []}}', "no entry with a response body"),
        (har(entry(b"x", "text/plain", encode=True)).replace(b'"eA=="', b'"!!"'), "has broken base64"),
        (b'{"kind":"run","schema":"wireproof/run/1"}\n', "breaks the schema"),
        (b'{"kind":"run","schema":"wireproof/run/7"}\n', "update wireproof"),
    ],
)
def test_a_file_is_refused_in_one_line(
    data: bytes, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(data)
    code, out, err = call(capsys, path)
    assert (code, out) == (2, ""), out + err
    assert err.startswith("wireproof: ")
    assert err.count("\n") == 1
    assert says in err
    assert str(path) in err


def test_paths_that_are_no_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path, says in (
        (tmp_path / "absent", "does not exist"),
        (tmp_path, "holds no transcript (files that end in .curl, "),
        (Path("/dev/null"), "is neither a file nor a folder"),
    ):
        code, _, err = call(capsys, path)
        assert code == 2
        assert says in err


def test_a_folder_leaves_out_what_is_no_transcript_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.joinpath("good.sse").write_bytes(STREAM)
    tmp_path.joinpath("notes.txt").write_text("remember the milk")
    tmp_path.joinpath("package.json").write_text('{"name": "x"}')
    tmp_path.joinpath("picture.png").write_bytes(b"\x89PNG")
    code, out, err = call(capsys, tmp_path)
    assert (code, err) == (0, ""), out
    assert f"Left out: {tmp_path}/notes.txt is no transcript" in out


def test_nothing_to_judge_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"object": "x"}')
    code, out, _ = call(capsys, path, "--suite", "done")
    assert code == 3
    assert "Nothing was judged" in out


def test_records_are_written_and_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.joinpath("bad.sse").write_bytes(NO_DONE)
    files = ("-o", tmp_path / "r.jsonl", "--html", tmp_path / "r.html", "--junit", tmp_path / "r.xml")
    code, out, _ = call(capsys, tmp_path / "bad.sse", *files, "--engine", "vllm==0.32.0", "--label", "mine")
    assert code == 1
    assert "FAIL  done.marker.exact" in out
    assert "the recording does not say what was asked" in out
    again, text, _ = call(capsys, tmp_path / "r.jsonl")
    assert again == 1
    assert "FAIL  done.marker.exact" in text
    header = json.loads(tmp_path.joinpath("r.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert header["engine"] == {"name": "vllm", "version": "0.32.0", "order": "pep440"}
    assert header["label"] == "mine"


@pytest.mark.parametrize("kind", WHOLE)
def test_no_damage_makes_us_fail(kind: str) -> None:
    """Cut at any place, or with bytes changed, a file is judged or refused: never an error of ours."""
    data, chance = WHOLE[kind](STREAM), random.Random(kind)
    damaged = [data[:at] for at in range(0, len(data), max(1, len(data) // 40))]
    for _ in range(40):
        noisy = bytearray(data)
        for _ in range(chance.randint(1, 8)):
            noisy[chance.randrange(len(noisy))] = chance.randrange(256)
        damaged.append(bytes(noisy))
    for sample in damaged:
        try:
            found = read(sample)
        except NotATranscript as refused:
            assert "\n" not in str(refused)
            continue
        assert Status.ERROR not in statuses(*found).values(), sample


def test_real_recordings_without_their_requests_raise_no_new_alarm() -> None:
    """What an engine breaks does not grow when its recordings lose the request, or all but the body."""
    files = sorted(ROOT.joinpath("fixtures", "transcripts").rglob("*.txt"))[::4]
    alarms: dict[str, list[str]] = {}
    for path in files:
        data = path.read_bytes()
        if b"/chat/completions\n" not in data or b'"stream": "yes"' in data:
            continue
        whole = data[data.index(b"HTTP/") :]
        for part in (whole, whole.partition(b"\r\n\r\n")[2]):
            try:
                more = broken(part) - broken(data)
            except NotATranscript:
                continue
            for rule in more:
                alarms.setdefault(rule, []).append(path.name)
    assert alarms == {}
    assert len(files) > 50
