"""The bytes around a violation with their times, and a curl line that repeats the request."""

from __future__ import annotations

import itertools
import shlex
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from wireproof.read.exchange import Exchange
from wireproof.verdict import Span, Violation
from wireproof.wire.transcript import Request, Transcript

# How much of the body is shown before and after the marked bytes (bytes).
CONTEXT = 240
MARKED = 400


# Control and format characters (text direction overrides among them), line and paragraph separators.
_UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp"})


@dataclass(frozen=True)
class Piece:
    """A stretch of the body: its text, whether it is the marked part, seconds when it arrived (None: unknown)."""

    text: str
    marked: bool
    at: float | None


@dataclass(frozen=True)
class Excerpt:
    """The bytes around a violation: pieces in order, and the span within the body."""

    pieces: tuple[Piece, ...]
    span: Span
    total: int


def printable(data: bytes) -> str:
    """Bytes as text in which every odd byte can be seen: control characters and invalid UTF-8 as \\xNN."""
    out = []
    for char in data.decode("utf-8", errors="surrogateescape"):
        code = ord(char)
        if 0xDC80 <= code <= 0xDCFF:
            out.append(f"\\x{code - 0xDC00:02x}")
        elif char == "\n":
            out.append("\\n\n")
        elif char == "\r":
            out.append("\\r")
        elif char == "\t":
            out.append("\\t")
        elif unicodedata.category(char) in _UNSEEN:
            out.append(f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
        else:
            out.append(char)
    return "".join(out)


def excerpt(violation: Violation, transcripts: Mapping[str, Transcript]) -> Excerpt | None:
    """The bytes around a violation, cut in pieces by arrival; None when it has no bytes."""
    transcript = transcripts.get(violation.transcript)
    response = Exchange(transcript).response if transcript else None
    if transcript is None or response is None or not response.content:
        return None
    total = len(response.content)
    start, end = violation.span or (0, min(total, MARKED))
    start, end = min(start, total), min(max(end, start), total)
    shown_end = min(end, start + MARKED)
    first, last = max(0, start - CONTEXT), min(total, shown_end + CONTEXT)
    cuts = {first, start, shown_end, last}
    if transcript.timed:
        cuts |= {offset for offset, _ in response.arrivals if first < offset < last}
    ordered = sorted(cuts)
    pieces = []
    for a, b in itertools.pairwise(ordered):
        marked = violation.span is not None and start <= a < shown_end
        at = response.at(a) if transcript.timed else None
        pieces.append(Piece(printable(response.content[a:b]), marked, at))
    return Excerpt(tuple(pieces), (start, end), total)


# What Linux takes as one argument of a command is little more (bytes).
_ARGUMENT_LIMIT = 120_000


def curl(request: Request, *, key_variable: str = "OPENAI_API_KEY") -> str:
    """A shell line that repeats the request; the API key stands as a variable."""
    parts = ["curl", "-isN", shlex.quote(request.url)]
    if request.method != ("POST" if request.body or request.omitted else "GET"):
        parts.append(f"-X {shlex.quote(request.method)}")
    for name, value in request.headers:
        lowered = name.lower()
        if lowered in ("host", "content-length", "connection", "accept-encoding", "transfer-encoding"):
            continue
        if lowered == "authorization":
            parts.append(f'-H "Authorization: Bearer ${key_variable}"')
        else:
            parts.append(f"-H {shlex.quote(f'{name}: {value}')}")
    if request.omitted:
        parts.append(f"--data-binary @body.json  # the body of {request.omitted} bytes was not kept")
    elif len(request.body) > _ARGUMENT_LIMIT:
        parts.append(f"--data-binary @body.json  # a body of {len(request.body)} bytes")
    elif request.body:
        try:
            text = request.body.decode("utf-8")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:  # no shell can pass these bytes as an argument
            return f"printf {shlex.quote(_octal(request.body))} | {' '.join(parts)} --data-binary @-"
        parts.append(f"--data-raw {shlex.quote(text)}")  # unlike --data-binary it takes a leading @ as it is
    return " ".join(parts)


def _octal(data: bytes) -> str:
    """A format for printf(1) that prints these bytes."""
    return "".join(chr(b) if 0x20 <= b < 0x7F and b not in b"%\\" else f"\\{b:03o}" for b in data)
