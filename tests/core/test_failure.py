"""A failure as a person sees it: marked bytes with times, every odd byte visible, a curl line that is safe."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wireproof.show.excerpt import CONTEXT, MARKED, Excerpt, curl, excerpt, printable
from wireproof.show.victims import reactions
from wireproof.verdict import Span, Violation
from wireproof.wire.transcript import Request, Transcript

from .making import transcript

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
SH = "/bin/sh"  # POSIX: every system that wireproof supports has it


def shown(span: Span | None, *pieces: bytes, timed: bool = True) -> Excerpt:
    t = transcript(HEAD, *pieces, timed=timed)
    found = excerpt(Violation("x", "y", "t1", span), {"t1": t})
    assert found is not None
    return found


def marked(found: Excerpt) -> str:
    return "".join(p.text for p in found.pieces if p.marked)


def text(found: Excerpt) -> str:
    return "".join(p.text for p in found.pieces)


# -- excerpt -------------------------------------------------------------------------


def test_the_marked_bytes_are_the_span() -> None:
    """Protects the pointer to the defect."""
    found = shown((3, 6), b"abcdefghij")
    assert (marked(found), text(found), found.span, found.total) == ("def", "abcdefghij", (3, 6), 10)


def test_pieces_have_the_times_of_their_reads() -> None:
    """Protects relative times: a span over two reads is two pieces with two times."""
    found = shown((2, 6), b"abcd", b"efgh")
    assert [(p.text, p.marked, p.at) for p in found.pieces] == [
        ("ab", False, 1.0),
        ("cd", True, 1.0),
        ("ef", True, 2.0),
        ("gh", False, 2.0),
    ]
    assert {p.at for p in shown((2, 6), b"abcd", b"efgh", timed=False).pieces} == {None}


def test_long_bodies_are_cut_around_the_span() -> None:
    """Protects the terminal: context on both sides, and a long mark is cut."""
    body = b"a" * 1000 + b"X" * 1000 + b"b" * 1000
    found = shown((1000, 2000), body)
    assert text(found) == "a" * CONTEXT + "X" * (MARKED + CONTEXT) and marked(found) == "X" * MARKED
    assert found.span == (1000, 2000)


@pytest.mark.parametrize(
    ("span", "expected"),
    [((0, 3), "abc"), ((2, 99), "c"), ((3, 3), ""), ((99, 120), ""), ((2, 1), ""), (None, "")],
)
def test_odd_spans(span: Span | None, expected: str) -> None:
    """Protects the report from spans at the edge, past the end, or absent."""
    found = shown(span, b"abc")
    assert marked(found) == expected and text(found) == "abc"


def test_no_bytes_no_excerpt() -> None:
    """Protects failures about an answer without a body, or without a transcript."""
    assert excerpt(Violation("x", "y", "t1"), {"t1": transcript(HEAD)}) is None
    assert excerpt(Violation("x", "y", "t1"), {"t1": transcript()}) is None
    assert excerpt(Violation("x", "y", "t9"), {"t1": transcript(HEAD, b"x")}) is None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=8), min_size=1, max_size=5), st.integers(0, 50), st.integers(0, 50))
def test_an_excerpt_shows_every_byte_once(pieces: list[bytes], start: int, end: int) -> None:
    """Protects against bytes lost between pieces (a character cut by a read shows as its bytes)."""
    found = shown((start, max(start, end)), *pieces)
    shown_bytes = text(found).replace("\\n\n", "\\n")
    assert len(found.pieces) >= 1 and shown_bytes
    owner = [float(n) for n, piece in enumerate(pieces, 1) for _ in piece]
    assert [p.at for p in found.pieces] == sorted(p.at for p in found.pieces if p.at is not None)
    assert {p.at for p in found.pieces} == set(owner)


# -- printable -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\n\r\tb", "a\\n\n\\r\\tb"),
        (b"\x00\x1b[31m\x7f", "\\x00\\x1b[31m\\x7f"),
        (b"\xff\xc3", "\\xff\\xc3"),
        ("\u0085\u00ad".encode(), "\\x85\\xad"),
        ("\u202e\u2066\u200e\u061c".encode(), "\\u202e\\u2066\\u200e\\u061c"),
        ("\u200b\u200d\u2028\u2029\ufeff".encode(), "\\u200b\\u200d\\u2028\\u2029\\ufeff"),
        ("\U000e0041".encode(), "\\U000e0041"),
        ("Z\u00fcrich \U0001f600 \u4f60".encode(), "Z\u00fcrich \U0001f600 \u4f60"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
    ],
)
def test_every_odd_byte_can_be_seen(data: bytes, expected: str) -> None:
    """Protects the reader: no terminal escape, no text that runs backwards, nothing invisible."""
    assert printable(data) == expected


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=30).map(lambda t: t.encode("utf-8", errors="ignore")))
def test_printable_text_is_printable(data: bytes) -> None:
    """Protects the same for all bytes; and it can be written as UTF-8."""
    found = printable(data)
    found.encode("utf-8")
    assert not any((ord(c) < 0x20 and c != "\n") or 0x7F <= ord(c) < 0xA0 for c in found)


# -- curl ----------------------------------------------------------------------------

NASTY = "'\"$(touch pwned)`id`\\ ; rm -rf x & |\n#!%s é\U0001f600"


def repeated(line: str, folder: Path) -> tuple[list[str], bytes]:
    """The arguments and the standard input that a real shell gives to curl for this line."""
    fake = folder / "bin"
    fake.mkdir(exist_ok=True)
    script = fake / "curl"
    script.write_text('#!/bin/sh\nfor a in "$@"; do printf "%s\\0" "$a"; done >"$OUT.args"\ncat >"$OUT.in"\n')
    script.chmod(0o755)
    out = folder / "out"
    env = {"PATH": f"{fake}:/usr/bin:/bin", "OUT": str(out), "OPENAI_API_KEY": "sk-from-the-shell"}
    subprocess.run([SH, "-c", line], env=env, cwd=folder, check=True, stdin=subprocess.DEVNULL, timeout=60)
    arguments = (folder / "out.args").read_bytes().decode().split("\0")[:-1]
    assert not (folder / "pwned").exists(), "the line ran something"
    return arguments, (folder / "out.in").read_bytes()


def ask(**more: object) -> Request:
    base = Request("POST", "http://h/v1", (("Content-Type", "application/json"),), b"{}")
    return replace(base, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "request_",
    [
        ask(body=NASTY.encode()),
        ask(url=f"http://h/{NASTY}"),
        ask(headers=((NASTY.replace("\n", ""), NASTY),)),
        ask(method=NASTY),
        ask(body=b"@/etc/passwd"),
        ask(method="GET"),
        ask(method="DELETE", body=b""),
        ask(method="POST", body=b""),
        ask(method="GET", body=b""),
    ],
)
def test_a_shell_repeats_the_request_and_runs_nothing(request_: Request, tmp_path: Path) -> None:
    """Protects people who paste the line: recordings are untrusted, and so is each part of them."""
    arguments, _ = repeated(curl(request_), tmp_path)
    expected = ["-isN", request_.url]
    plain = "POST" if request_.body else "GET"
    expected += ["-X", request_.method] if request_.method != plain else []
    expected += [part for k, v in request_.headers for part in ("-H", f"{k}: {v}")]
    expected += ["--data-raw", request_.body.decode()] if request_.body else []
    assert arguments == expected


@pytest.mark.parametrize("body", [b"\xff\x00%d\\n'", b'{"a": "\xc3"}', bytes(range(256))])
def test_bytes_that_are_no_text_are_repeated_exactly(body: bytes, tmp_path: Path) -> None:
    """Protects scenarios whose point is a body that is no UTF-8."""
    arguments, given_ = repeated(curl(ask(body=body)), tmp_path)
    assert given_ == body and arguments[-2:] == ["--data-binary", "@-"]


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20))
def test_any_text_survives_the_quoting(body: str) -> None:
    """Protects the same for all text, as a POSIX shell splits it."""
    line = shlex.split(curl(ask(body=body.encode())))
    assert line[-1] == body if body else "--data-raw" not in line


def test_the_key_is_a_variable_and_never_shown(tmp_path: Path) -> None:
    """Protects the key: the record has it masked, the line has a variable in its place."""
    line = curl(ask(headers=(("Authorization", "Bearer sk-secret-123"), ("Host", "h"), ("Content-Length", "2"))))
    assert "sk-secret" not in line and '"Authorization: Bearer $OPENAI_API_KEY"' in line
    arguments, _ = repeated(line, tmp_path)
    assert arguments[2:4] == ["-H", "Authorization: Bearer sk-from-the-shell"]
    assert not any(a.lower().startswith(("host", "content-length")) for a in arguments)
    assert "$MY_KEY" in curl(ask(headers=(("authorization", "x"),)), key_variable="MY_KEY")


def test_a_body_that_was_not_kept_says_so() -> None:
    """Protects against a line that sends an empty body instead."""
    line = curl(ask(body=b"", omitted=300_000))
    assert "--data-binary @body.json" in line and "300000 bytes" in line and "-X" not in line


def test_a_body_too_long_for_a_command_is_named_by_its_length() -> None:
    """Protects terminals and reports from megabytes of padding."""
    line = curl(ask(body=b"x" * 700_000))
    assert "--data-binary @body.json" in line and "700000 bytes" in line and len(line) < 300


# -- reactions -----------------------------------------------------------------------


def test_reactions_are_the_measured_ones() -> None:
    """Protects "who breaks" from naming a case that was never measured."""
    (first, *_) = reactions(["done_lower"])
    assert first["case"] == "done_lower" and first["client"] and first["reaction"]
    with pytest.raises(KeyError):
        reactions(["no-such-case"])
    assert reactions([]) == []


def test_a_transcript_from_a_file_can_be_shown() -> None:
    """Protects `wireproof check`: an excerpt of a stored transcript is the same."""
    from wireproof.wire.transcript import from_json, to_json

    t: Transcript = transcript(HEAD, b"ab\xff", b"cd")
    again = from_json(json.loads(json.dumps(to_json(t))))
    v = Violation("x", "y", "t1", (1, 4))
    assert excerpt(v, {"t1": again}) == excerpt(v, {"t1": t})
