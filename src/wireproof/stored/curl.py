"""What `curl -isN` printed, read into transcripts: several responses in one file, and the noise of -v, too.

In front of a response there may be comment lines that say what was asked, so that rules
about the request can be judged:

    # POST /v1/chat/completions
    # headers: [["X-Request-Id", "abc"]]
    # body: {"model": "m", "messages": [...], "stream": true}
    # ---
    HTTP/1.1 200 OK
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass, field, replace
from itertools import pairwise

from wireproof.read import guessed_request
from wireproof.wire import redact
from wireproof.wire.http import parse_response
from wireproof.wire.transcript import Capture, Ending, Read, Request, Tags, Transcript

_COMMENT = re.compile(rb"# ?(.*?)\r?\n")
_ASKED = re.compile(rb"^# ?[A-Z]+ /\S*[ \t]*\r?$", re.MULTILINE)
# A status line with a header line or the end of the head after it: JSON and SSE bodies cannot hold that.
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})( [^\r\n]{0,80})?\r?\n(?=[\w!#$%&'*+.^`|~-]+:|\r?\n)")
_STARTS = (b"HTTP/", b"# ", b"#\n", b"* ", b"> ", b"< ", b"Note: ")
_NOISE = re.compile(rb"(\* |[{}] \[\d+ bytes data\]|Note: |  % Total |  +Dload |\r? *\d+ +\d+ +\d+ )")
_LAST_NOISE = re.compile(rb"\* (?:Connection #\d+ to host [^\r\n]* left intact|[Cc]losing connection[^\r\n]*)\r?\n?")
_VERBOSE = re.compile(rb"^(?:\* |> )", re.MULTILINE)


class NotCurl(ValueError):
    """Bytes that are no curl output after all; the message says what is missing."""


@dataclass
class _Asked:
    """What is known of a request."""

    method: str = ""
    target: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes | None = None


def looks_like(data: bytes) -> bool:
    """Whether a file begins as curl's output does."""
    start = data.lstrip(b" \t\r\n")
    return start.startswith(b"HTTP/") or (start.startswith(_STARTS) and b"HTTP/" in data)


def transcripts(data: bytes, name: str) -> list[Transcript]:
    """The exchanges in a file, in order.

    Raises NotCurl when there is no whole response head in it.
    """
    if _VERBOSE.search(data[:400]):
        data = _without_noise(data)
    begins = [m.start() for m in _ASKED.finditer(data)] or [0]
    if data[: begins[0]].strip():
        begins.insert(0, 0)
    blocks = [data[begin:end] for begin, end in pairwise([*begins, len(data)])]
    found = [one for block in blocks for one in _block(block)]
    many = len(found) > 1
    return [_transcript(asked, raw, f"{name}#{n}" if many else name) for n, (asked, raw) in enumerate(found)]


def _block(data: bytes) -> list[tuple[_Asked, bytes]]:
    """One request's comments, and the responses after them: only the first of these answers that request."""
    asked, rest = _comments(data)
    heads = list(_STATUS.finditer(rest))
    if not heads or rest[: heads[0].start()].strip():
        raise NotCurl("has no status line where it should begin: record it with `curl -isN`")
    parts: list[bytes] = []
    pending = b""
    for head, end in zip(heads, [*(h.start() for h in heads[1:]), len(rest)], strict=True):
        raw = pending + rest[head.start() : end]
        interim = head.group(1).startswith(b"1") and head.group(1) != b"101"
        tunnel = b"connection established" in (head.group(2) or b"").lower()
        pending = raw if interim else b""
        if not interim and not tunnel:
            parts.append(raw)
    if not parts:
        raise NotCurl("has no final response: record it again")
    if b"\r\n\r\n" not in parts[-1] and b"\n\n" not in parts[-1]:
        raise NotCurl("is cut off inside the response headers: record it again")
    return [(asked if n == 0 else _Asked(), raw) for n, raw in enumerate(parts)]


def _comments(data: bytes) -> tuple[_Asked, bytes]:
    asked, pos = _Asked(), len(data) - len(data.lstrip(b" \t\r\n"))
    while line := _COMMENT.match(data, pos):
        pos, text = line.end(), line.group(1)
        if text == b"---":
            break
        if text.startswith(b"body:"):
            asked.body = text[5:].strip()
        elif text.startswith(b"headers:"):
            asked.headers = _pairs(text[8:])
        elif words := re.fullmatch(rb"([A-Z]+) (\S+)", text.strip()):
            asked.method, asked.target = words.group(1).decode(), words.group(2).decode("utf-8", errors="replace")
    return asked, data[pos:].lstrip(b"\r\n")


def _without_noise(data: bytes) -> bytes:
    """The output of `curl -v` as comments and plain responses."""
    plain_heads = re.search(rb"^HTTP/\d", data, re.MULTILINE) is not None
    out: list[bytes] = []
    sent: list[tuple[str, str]] = []
    in_request = False
    for line in _LAST_NOISE.sub(b"", data).splitlines(keepends=True):
        text = line.rstrip(b"\r\n")
        if text.startswith(b"> ") or text == b">":
            words = re.fullmatch(rb"> ([A-Z]+) (\S+) HTTP/[\d.]+", text.rstrip())
            if words:
                out.append(b"# " + words.group(1) + b" " + words.group(2) + b"\n")
                sent, in_request = [], True
            elif b":" in text:
                key, _, value = text[2:].decode("utf-8", errors="replace").partition(":")
                sent.append((key.strip(), value.strip()))
            elif in_request:
                out.append(b"# headers: " + json.dumps(sent).encode() + b"\n# ---\n")
                in_request = False
        elif text.startswith(b"<") and (text == b"<" or text.startswith(b"< ")):
            if not plain_heads:
                out.append(text[2:].rstrip() + b"\r\n")
        elif not _NOISE.match(line):
            out.append(line)
    return b"".join(out)


def _pairs(text: bytes) -> list[tuple[str, str]]:
    """Headers from a list of pairs, of "Name: value" strings, or an object; in JSON, or as Python prints it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        try:
            value = ast.literal_eval(text.strip().decode("utf-8", errors="replace"))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return []
    if isinstance(value, dict):
        return [(str(k), str(v)) for k, v in value.items()]
    out = []
    for item in value if isinstance(value, list) else []:
        if isinstance(item, str) and ":" in item:
            key, _, rest = item.partition(":")
            out.append((key.strip(), rest.strip()))
        elif isinstance(item, list | tuple) and len(item) == 2:
            out.append((str(item[0]), str(item[1])))
    return out


def _transcript(asked: _Asked, raw: bytes, name: str) -> Transcript:
    bare = Transcript(
        id="",
        scenario=name,
        request=Request("POST", "/"),
        reads=(Read(0.0, raw),),
        ending=Ending.UNKNOWN,
        capture=Capture.DECODED,
        timed=False,
    )
    bare = _uncompressed(bare)
    method, path = (asked.method, asked.target) if asked.target else guessed_request.endpoint(parse_response(bare))
    guessed = asked.body is None and method == "POST"
    request = Request(method, path, redact.headers(asked.headers), asked.body or b"")
    return replace(bare, request=request, tags=Tags(guessed=guessed))


def _uncompressed(t: Transcript) -> Transcript:
    """With --compressed the head tells of a coding and a length that the body no longer has."""
    raw = t.raw
    response = parse_response(t)
    coding = response.header("content-encoding") if response else None
    split = re.search(rb"\r?\n\r?\n", raw)
    if response is None or split is None or (coding or "identity").strip().lower() == "identity":
        return t
    body = raw[split.end() :]
    if not body or body.startswith((b"\x1f\x8b", b"\x78", b"\x28\xb5\x2f\xfd")) or not body[:1].isascii():
        return t
    kept = [h for h in response.headers if h[0].lower() not in ("content-encoding", "content-length")]
    return replace(t, reads=(Read(0.0, body),), capture=Capture.BODY, status=response.status, headers=tuple(kept))
