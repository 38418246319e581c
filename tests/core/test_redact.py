"""Secrets are gone before anything is stored."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wireproof.wire import redact
from wireproof.wire.transcript import Read

KEY = "sk-proj-1234567890"


@pytest.mark.parametrize(
    "name", ["Authorization", "authorization", "Proxy-Authorization", "api-key", "X-API-Key", "Cookie", "Set-Cookie"]
)
def test_secret_headers(name: str) -> None:
    """Protects every header that carries a key by habit, in any case."""
    ((_, value),) = redact.headers([(name, KEY)])
    assert value == redact.MASK


def test_the_scheme_and_other_headers_stay() -> None:
    """Protects what a reader needs: that a bearer token was sent at all; and no ordinary header is hidden."""
    found = redact.headers([("Authorization", f"Bearer {KEY}"), ("X-Mine", KEY), ("Accept", "*/*")], ["x-mine"])
    assert found == (("Authorization", "Bearer ***"), ("X-Mine", "***"), ("Accept", "*/*"))


def test_a_body_that_echoes_the_key() -> None:
    """Protects error messages that quote the key; lengths stay, so that spans and framing stay right."""
    body = f'{{"error": "bad key {KEY}", "again": "{KEY}"}}'.encode()
    found = redact.text(body, [KEY])
    assert KEY.encode() not in found and len(found) == len(body)
    assert found == body.replace(KEY.encode(), b"*" * len(KEY))


def test_a_key_that_is_the_start_of_another() -> None:
    """Protects the tail of the longer one."""
    for secrets in (["sk-abc", "sk-abcdef"], ["sk-abcdef", "sk-abc"]):
        assert redact.text(b"sk-abcdef sk-abc", secrets) == b"********* ******"


def test_short_and_empty_secrets_mark_nothing() -> None:
    """Protects ordinary text from a key such as "x" or "EMPTY"."""
    assert redact.text(b"an EMPTY x", ["", "x", "EMPTY"]) == b"an EMPTY x"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=20), st.binary(max_size=20), st.lists(st.integers(0, 60), max_size=8))
def test_a_key_split_over_reads(before: bytes, after: bytes, places: list[int]) -> None:
    """Protects against an echo that no single read holds; every read keeps its time and length."""
    raw = before + KEY.encode() + after
    bounds = [0, *sorted(min(p, len(raw)) for p in places), len(raw)]
    reads = [Read(float(n), raw[a:b]) for n, (a, b) in enumerate(itertools.pairwise(bounds))]
    found = redact.reads(reads, [KEY])
    assert [(r.at, len(r.data)) for r in found] == [(r.at, len(r.data)) for r in reads]
    assert b"".join(r.data for r in found) == before + b"*" * len(KEY) + after


def test_reads_without_a_key_stay_as_they_are() -> None:
    """Protects the bytes of everyone else, empty reads among them."""
    reads = (Read(0.0, b"a"), Read(1.0, b""), Read(2.0, b"\xff"))
    assert redact.reads(reads, [KEY]) == reads and redact.reads((), [KEY]) == ()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ("http://user:pw@h:1/v1?a=b#c", "http://***@h:1/v1?a=b#c"),
        ("https://token@h/v1", "https://***@h/v1"),
        ("http://u:p@ss@h/", "http://***@h/"),
        ("http://h/v1/@x", "http://h/v1/@x"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("/v1/chat", "/v1/chat"),
    ],
)
def test_urls(found: str, expected: str) -> None:
    """Protects user and password in a target's URL."""
    assert redact.url(found) == expected


def test_the_token_of_a_header_value_is_a_secret_of_its_own() -> None:
    """A server that echoes the bare key has not been sent "Bearer KEY" as one word."""
    assert redact.secrets("Bearer sk-verysecret123", None, "plain") == [
        "Bearer sk-verysecret123",
        "plain",
        "sk-verysecret123",
    ]
