"""Transcripts stored and read back, and the digest that stands for what a check can see."""

from __future__ import annotations

import json
import random
from dataclasses import fields, replace
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wireproof.stored.run_record import validate
from wireproof.wire.transcript import (
    STORED_BODY_LIMIT,
    Capture,
    Ending,
    Read,
    Request,
    Tags,
    Transcript,
    from_json,
    to_json,
)

from .making import transcript

HEADERS = st.lists(st.tuples(st.text(max_size=6), st.text(max_size=6)), max_size=3).map(tuple)
BYTES = st.binary(max_size=40) | st.text(max_size=20).map(lambda t: t.encode("utf-8", errors="ignore"))
TIMES = st.integers(0, 10**10).map(lambda n: n / 10**6)
TRANSCRIPTS = st.builds(
    Transcript,
    id=st.text(max_size=5),
    scenario=st.text(max_size=5),
    request=st.builds(Request, method=st.text(max_size=5), url=st.text(max_size=9), headers=HEADERS, body=BYTES),
    reads=st.lists(st.builds(Read, TIMES, BYTES), max_size=4).map(tuple),
    ending=st.sampled_from(Ending),
    capture=st.just(Capture.BODY),  # the others store neither status nor headers
    timed=st.booleans(),
    ended_at=TIMES,
    detail=st.text(max_size=5),
    step=st.text(max_size=5),
    sample=st.integers(0, 9),
    connection=st.integers(0, 9),
    status=st.none() | st.integers(100, 599),
    headers=HEADERS,
    tags=st.builds(
        Tags, **{f.name: st.booleans() if isinstance(f.default, bool) else st.text(max_size=4) for f in fields(Tags)}
    ),
)


@settings(max_examples=200, deadline=None)
@given(TRANSCRIPTS)
def test_stored_and_read_back_is_the_same(t: Transcript) -> None:
    """Protects offline judging: any bytes and times survive JSON, and the file fits its schema."""
    stored = json.loads(json.dumps(to_json(t)))
    validate({"kind": "transcript", **stored})
    assert from_json(stored) == t
    assert from_json(stored).digest() == t.digest()


def test_bytes_are_readable_where_that_loses_nothing() -> None:
    """Protects recordings that people read, and bytes that are no text."""
    stored = to_json(transcript("h\u00e9".encode(), b"\xff\x00"))
    assert [data for _, data in stored["reads"]] == ["h\u00e9", {"base64": "/wA="}]


def test_a_long_request_body_is_kept_small() -> None:
    """Protects records from megabytes of padding, and rules from judging them again without what was asked."""
    big = Request("POST", "/", (), b"x" * (STORED_BODY_LIMIT + 1))
    packed = to_json(transcript(request=big))
    validate({"kind": "transcript", **packed})
    assert len(json.dumps(packed)) < 2000
    assert from_json(packed).request == big
    assert from_json(packed).digest() == transcript(request=big).digest()


def test_a_long_request_body_that_cannot_be_made_small_is_left_out_with_its_length() -> None:
    """Protects records from megabytes of noise; the length stays for the curl line."""
    big = Request("POST", "/", (), random.Random(0).randbytes(STORED_BODY_LIMIT + 1))
    stored = from_json(to_json(transcript(request=big)))
    assert (stored.request.body, stored.request.omitted) == (b"", STORED_BODY_LIMIT + 1)
    assert from_json(to_json(stored)) == stored


@pytest.mark.parametrize(
    "change",
    [
        {"id": None},
        {"request": None},
        {"request": {"method": "GET"}},
        {"request": {"method": "POST", "url": "/", "omitted": 5, "deflated": "eJxLTEpOSQUAB6kB0A=="}},
        {"request": {"method": "POST", "url": "/", "omitted": 5, "deflated": "AAAA"}},
        {"reads": [[0.0]]},
        {"reads": [[0.0, {"base64": "?"}]]},
        {"reads": [[0.0, 5]]},
        {"reads": [["soon", ""]]},
        {"ending": "weird"},
        {"capture": "photo"},
        {"headers": [["a"]]},
        {"tags": ["a"]},
    ],
)
def test_what_is_no_transcript_is_refused_with_one_sentence(change: dict[str, Any]) -> None:
    """Protects the reader from a traceback."""
    stored = {**to_json(transcript(b"x")), **change}
    stored = {k: v for k, v in stored.items() if v is not None}
    with pytest.raises(ValueError, match="not a wireproof transcript"):
        from_json(stored)


def test_the_schema_refuses_a_transcript_without_reads() -> None:
    """Protects the schema itself: it must be able to refuse."""
    stored = to_json(transcript(b"x"))
    del stored["reads"]
    with pytest.raises((ValueError, jsonschema.ValidationError), match="reads"):
        validate({"kind": "transcript", **stored})


# -- digest --------------------------------------------------------------------------

BASE = transcript(b"ab", b"cd", headers=(("a", "b"),), status=200, step="s1")
CHANGES: dict[str, dict[str, Any]] = {
    "scenario": {"scenario": "other"},
    "request": {"request": replace(BASE.request, body=b"{}")},
    "reads": {"reads": (Read(0.0, b"ab"), Read(1.0, b"cX"))},
    "ending": {"ending": Ending.RESET},
    "capture": {"capture": Capture.BODY},
    "timed": {"timed": False},
    "ended_at": {"ended_at": 9.0},
    "detail": {"detail": "broken pipe"},
    "step": {"step": "s2"},
    "sample": {"sample": 1},
    "connection": {"connection": 1},
    "status": {"status": 404},
    "headers": {"headers": (("a", "c"),)},
    "tags": {"tags": Tags(valid=False)},
}


def test_the_digest_does_not_change_with_the_id() -> None:
    """Protects the memo: the same bytes in another run are judged once."""
    assert replace(BASE, id="t99").digest() == BASE.digest()


@pytest.mark.parametrize("name", [f.name for f in fields(Tags)])
def test_the_digest_changes_with_each_tag(name: str) -> None:
    """Protects the memo: a check may read any of them."""
    default = getattr(Tags(), name)
    other: dict[str, Any] = {name: not default if isinstance(default, bool) else "x"}
    tags = replace(Tags(), **other)
    assert replace(BASE, tags=tags).digest() != BASE.digest()


def test_tags_of_another_version_are_passed_over() -> None:
    stored = {**to_json(transcript(b"x")), "tags": {"valid": "no", "of-tomorrow": "yes"}}
    assert from_json(stored).tags == Tags(valid=False)


@pytest.mark.parametrize("name", sorted({f.name for f in fields(Transcript)} - {"id"}))
def test_the_digest_changes_with_each_field(name: str) -> None:
    """Protects the memo from a wrong answer. A new field fails here until it has a case."""
    assert replace(BASE, **CHANGES[name]).digest() != BASE.digest()


@pytest.mark.parametrize(
    "request_",
    [
        replace(BASE.request, method="GET"),
        replace(BASE.request, url="/x"),
        replace(BASE.request, headers=(("x", "y"),)),
        replace(BASE.request, body=BASE.request.body + b" "),
        replace(BASE.request, omitted=5),
    ],
)
def test_the_digest_changes_with_each_part_of_the_request(request_: Request) -> None:
    """Protects rules that compare an answer with what was asked."""
    assert replace(BASE, request=request_).digest() != BASE.digest()


def test_the_digest_changes_with_the_cuts_and_times_of_reads() -> None:
    """Protects timing rules, also from data that looks like the mark between two reads."""
    variants = [
        (Read(0.0, b"ab"), Read(1.0, b"cd")),
        (Read(0.0, b"abc"), Read(1.0, b"d")),
        (Read(0.0, b"abcd"),),
        (Read(0.0, b"ab"), Read(1.5, b"cd")),
        (Read(0.0, b"ab|1.000000 2|cd"),),
        (Read(0.0, b"ab|1.000000|cd"),),
    ]
    assert len({replace(BASE, reads=reads).digest() for reads in variants}) == len(variants)


def test_lone_surrogates_have_a_digest() -> None:
    """Protects recordings whose JSON held half a character in a name or URL."""
    assert replace(BASE, scenario="\ud800").digest() != BASE.digest()


def test_request_paths() -> None:
    """Protects `path`, from which rules tell a chat request."""
    urls = {"http://h:1/v1/x?y=1": "/v1/x?y=1", "http://h": "/", "/v1/x": "/v1/x", "": "/"}
    assert {u: Request("GET", u).path for u in urls} == urls
