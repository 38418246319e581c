"""Paths of this machine leave a record without moving a byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wireproof.reports.formats import html
from wireproof.runners.neutral import Neutraliser, clean_record, neutral
from wireproof.stored import run_record
from wireproof.wire.transcript import Ending, Read, Request, Transcript, from_json, to_json

HOME = Path("/home/ann/.cache/wp")


@pytest.mark.parametrize("path", [b"/home/ann", b"\\/home\\/ann", "/hôme/ann".encode(), b"/h\\u00f4me"])
def test_length_and_depth_stay(path: bytes) -> None:
    other = neutral(path)
    assert len(other) == len(path)
    assert other.count(b"/") == path.count(b"/")
    assert b"ann" not in other


def test_however_it_is_written() -> None:
    clean = Neutraliser([HOME, Path("/home/ann")])
    for text in (f'"{HOME}/models/copy"', '"\\/home\\/ann\\/.cache\\/wp\\/x"', "File /home/ann/.local/x.py, line 3"):
        data = clean.data(text.encode())
        assert len(data) == len(text)
        assert b"ann" not in data
    assert clean.data(b"/home/anna /home/ann-b home/ann") == b"/home/anna /home/ann-b home/ann"
    accented = Neutraliser([Path("/home/zoë")])
    for text in ("/home/zoë/x", json.dumps("/home/zoë/x")):
        data = accented.data(text.encode())
        assert len(data) == len(text.encode())
        assert data == accented.data(data) != text.encode()


def test_short_paths_and_none_are_left_alone() -> None:
    assert Neutraliser([Path("/"), Path("/srv")]).data(b"/srv/x") == b"/srv/x"
    assert Neutraliser([]).value(["/srv"]) == ["/srv"]


BODY = json.dumps({"id": "x", "model": f"{HOME}/models/copy", "text": "\U0001f389"}).encode() + b"\xff"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY)


def transcript(*cuts: int) -> Transcript:
    raw = HEAD + BODY
    ends = [*cuts, len(raw)]
    reads = tuple(Read(0.1 * n, raw[a:b]) for n, (a, b) in enumerate(zip([0, *cuts], ends, strict=True)))
    asked = json.dumps({"model": str(HOME)}).encode()
    return Transcript("t1", "plain", Request("POST", "http://127.0.0.1:1/v1", body=asked), reads, Ending.COMPLETE)


@pytest.mark.parametrize("cut", range(1, len(HEAD + BODY)))
def test_a_path_across_two_reads(cut: int) -> None:
    line = {"kind": "transcript", **to_json(transcript(cut))}
    after = Neutraliser([HOME]).line(line)
    clean = from_json(after)
    assert [len(r.data) for r in clean.reads] == [cut, len(HEAD + BODY) - cut]
    assert [r.at for r in clean.reads] == [0, 0.1]
    assert b"/home/ann" not in clean.raw and b"/home/ann" not in clean.request.body
    assert clean.raw.startswith(HEAD) and clean.raw.endswith(b"\xff")


def test_a_whole_record(tmp_path: Path) -> None:
    header = {
        "tool": "0", "rules": f"sha256:{0:064}", "started": "2026-01-01T00:00:00Z", "target": {"url": "http://127.0.0.1:1/v1"},
        "engine": {"name": "a", "version": "1", "order": "exact"}, "model": {"id": f"{HOME}/models/copy"}, "host": {},
        "selection": {"mode": "live", "level": "must", "suites": [], "rules": 0},
    }  # fmt: skip
    source, target = tmp_path / "raw.jsonl", tmp_path / "out" / "clean.jsonl"
    with run_record.Writer(source, header) as writer:
        writer.transcript(transcript(40, 70))
        writer.end({}, dict.fromkeys(("requests", "prompt_tokens", "completion_tokens", "seconds"), 0), 0)
    with source.open("a", encoding="utf-8") as file:
        file.write('{"kind": "verd')  # torn
    clean_record(source, target, [HOME])
    record = run_record.read(target)
    assert not record.crashed
    assert [p.name for p in target.parent.iterdir()] == ["clean.jsonl"]
    assert "/home/ann" not in target.read_text(encoding="utf-8")
    assert "/home/ann" not in html.render([record])
