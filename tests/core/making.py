"""Transcripts made by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from wireproof.wire.http import Response, parse_response
from wireproof.wire.transcript import Ending, Read, Request, Tags, Transcript

CHAT = Request("POST", "http://h/v1/chat/completions", (), b'{"stream":true}')


def transcript(*pieces: bytes, **more: Any) -> Transcript:
    """A transcript whose n-th piece came at n seconds; `more` replaces fields."""
    reads = tuple(Read(float(number), piece) for number, piece in enumerate(pieces))
    if isinstance(more.get("tags"), dict):
        more["tags"] = Tags.of(more["tags"])
    base = Transcript("t1", "s", CHAT, reads, Ending.COMPLETE, ended_at=float(len(pieces)))
    return replace(base, **more)


def response(*pieces: bytes, method: str = "POST", **more: Any) -> Response:
    """The response in these pieces; it must be one."""
    found = parse_response(transcript(*pieces, request=Request(method, "http://h/v1/chat/completions"), **more))
    assert found is not None
    return found


def stream_of(
    *values: Any, asked: Mapping[str, Any] | None = None, done: bool = True, head: Iterable[str] = (), **more: Any
) -> Transcript:
    """A chat stream of these JSON values, until the connection closes; `head` adds header lines."""
    body = b"".join(b"data: " + json.dumps(v).encode() + b"\n\n" for v in values)
    lines = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream", *head]
    start = "\r\n".join(lines).encode() + b"\r\n\r\n"
    request = replace(CHAT, body=json.dumps({"stream": True, **(asked or {})}).encode())
    return transcript(start, body + (b"data: [DONE]\n\n" if done else b""), **{"request": request, **more})


def plain_of(value: Any, *, status: int = 200, asked: Mapping[str, Any] | None = None, **more: Any) -> Transcript:
    """A plain JSON answer."""
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    request = replace(CHAT, body=json.dumps({**(asked or {})}).encode())
    return transcript(head, body, **{"request": request, **more})
