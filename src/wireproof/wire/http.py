"""The HTTP response inside a transcript: head, body, framing, and when each byte came.

A lenient parser with a long memory: it reads what a strict client would refuse and
notes what was wrong (`Framing.problem`), so that the rules can say which byte broke.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from wireproof.wire.coding import decode_content
from wireproof.wire.transcript import Capture, Ending, Transcript

_STATUS_LINE = re.compile(rb"HTTP/(\d(?:\.\d)?) (\d{3})(?: ([^\r\n]*))?\r?\n")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(;[^\r\n]*)?\r?\n")
_LENGTH = re.compile(r"[0-9]{1,18}")
_HEAD_END = re.compile(rb"(\r?\n)\r?\n")
# A stored recording that does not say how it ended is taken for whole.
_OVER = frozenset({Ending.COMPLETE, Ending.CLOSED, Ending.UNKNOWN})
_NO_BODY = frozenset({204, 304})


class FramingKind(StrEnum):
    """How the end of the body is marked (RFC 9112 section 6.3)."""

    LENGTH = "content-length"
    CHUNKED = "chunked"
    CLOSE = "close"
    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Framing:
    """How the body was delimited, and what was wrong with that (empty when nothing)."""

    kind: FramingKind
    complete: bool
    problem: str = ""
    declared: int | None = None


@dataclass(frozen=True)
class Response:
    """One parsed response.

    `body` is the body after transfer decoding; `content` after content decoding too.
    Spans in violations are offsets into `content`.
    """

    status: int | None
    reason: str
    version: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    content: bytes
    framing: Framing
    head_at: float
    arrivals: tuple[tuple[int, float], ...]  # (bytes of content there after it, seconds)
    encoding_problem: str = ""

    def header(self, name: str) -> str | None:
        """The first value of a header, by name in any case."""
        wanted = name.lower()
        return next((v for k, v in self.headers if k.lower() == wanted), None)

    def all(self, name: str) -> list[str]:
        """Every value of a header, in order."""
        wanted = name.lower()
        return [v for k, v in self.headers if k.lower() == wanted]

    @property
    def media_type(self) -> str:
        """Content-Type without parameters, in lower case; empty when absent."""
        return (self.header("content-type") or "").split(";", 1)[0].strip().lower()

    def at(self, offset: int) -> float:
        """When the byte of `content` at this offset had arrived (seconds)."""
        if not self.arrivals:
            return self.head_at
        index = min(bisect_right(self._ends, offset), len(self._ends) - 1)
        return self.arrivals[index][1]

    @cached_property
    def _ends(self) -> list[int]:
        return [end for end, _ in self.arrivals]


@dataclass(frozen=True)
class _Timeline:
    """Maps offsets of the raw bytes to the time of the read that brought them."""

    ends: Sequence[int]
    times: Sequence[float]

    def at(self, offset: int) -> float:
        if not self.ends:
            return 0.0
        return self.times[min(bisect_right(self.ends, offset), len(self.ends) - 1)]


def _timeline(t: Transcript) -> _Timeline:
    ends: list[int] = []
    total = 0
    for read in t.reads:
        total += len(read.data)
        ends.append(total)
    return _Timeline(ends, [r.at for r in t.reads])


def parse_headers(block: bytes) -> tuple[tuple[str, str], ...]:
    """Header lines as (name, value); a line without a colon is kept with an empty value."""
    out: list[tuple[bytes, list[bytes]]] = []
    for line in block.split(b"\n"):
        line = line.rstrip(b"\r")
        if not line:
            continue
        if line[:1] in b" \t" and out:  # folded: it goes on with the header before
            out[-1][1].append(line.strip())
            continue
        key, _, rest = line.partition(b":")
        out.append((key, [rest.strip()]))
    return tuple((key.decode("latin-1"), b" ".join(parts).decode("latin-1")) for key, parts in out)


def _end_of_head(raw: bytes, start: int) -> tuple[int, int] | None:
    """Where the header block ends and where the body starts."""
    found = _HEAD_END.search(raw, start)
    return (found.end(1), found.end()) if found else None


def _chunked(raw: bytes, start: int) -> tuple[list[tuple[int, int]], bool, str, int]:
    """Segments of a chunked body, whether the last chunk came, the problem, the end offset."""
    segments: list[tuple[int, int]] = []
    pos = start
    while True:
        size_line = _CHUNK_SIZE.match(raw, pos)
        if size_line is None:
            rest = raw[pos : pos + 40]
            if not rest or (b"\n" not in rest and len(raw) - pos < 40):
                return segments, False, "the body ended before the zero-length chunk", len(raw)
            return segments, False, f"a chunk size line was expected, got {rest[:24]!r}", pos
        size = int(size_line.group(1), 16)
        pos = size_line.end()
        if size == 0:
            trailer = _end_of_head(raw, pos - 1)  # with the line end of the size line: there may be no trailer
            if trailer is not None:
                return segments, True, "", trailer[1]
            return segments, False, "the last chunk is not followed by an empty line", len(raw)
        if pos + size > len(raw):
            segments.append((pos, len(raw)))
            missing = pos + size - len(raw)
            return segments, False, f"the body ended {missing} bytes before the end of its chunk", len(raw)
        segments.append((pos, pos + size))
        pos += size
        if raw.startswith(b"\r\n", pos):
            pos += 2
        elif raw.startswith(b"\n", pos):
            pos += 1
        elif pos >= len(raw):
            return segments, False, "the body ended after a chunk, before its line end", len(raw)
        else:
            return segments, False, f"chunk data runs past its declared size: {raw[pos : pos + 24]!r}", pos


@dataclass(frozen=True)
class _Body:
    """Where the bytes of the body lie among the raw ones, and how it was delimited."""

    segments: list[tuple[int, int]]
    framing: Framing


def _frame(t: Transcript, raw: bytes, start: int, response_headers: tuple[tuple[str, str], ...], status: int) -> _Body:
    lowered = [(k.lower(), v) for k, v in response_headers]
    coding = ",".join(v for k, v in lowered if k == "transfer-encoding").lower()
    lengths = [v.strip() for k, v in lowered if k == "content-length"]
    over = t.ending in _OVER
    ours = t.ending in (Ending.CLIENT_LEFT, Ending.BYTE_LIMIT, Ending.UNKNOWN)
    whole = [(start, len(raw))] if len(raw) > start else []
    if t.request.method == "HEAD" or status in _NO_BODY:
        return _Body(whole, Framing(FramingKind.NONE, True))
    if "chunked" in coding and t.capture is Capture.WIRE:
        segments, complete, problem, end = _chunked(raw, start)
        if complete and lengths:
            problem = "both Content-Length and Transfer-Encoding: chunked were sent"
        if complete and end < len(raw):
            problem = f"{len(raw) - end} bytes follow the last chunk"
        if not complete and ours:
            problem = ""
        return _Body(segments, Framing(FramingKind.CHUNKED, complete, problem))
    if "chunked" in coding:
        return _Body(whole, Framing(FramingKind.UNKNOWN, over))
    if lengths:
        if len(set(lengths)) > 1 or not _LENGTH.fullmatch(lengths[0]):
            problem = f"Content-Length is not one number: {', '.join(lengths)[:60]}"
            return _Body(whole, Framing(FramingKind.LENGTH, False, problem))
        declared, got = int(lengths[0]), len(raw) - start
        if got < declared:
            problem = "" if ours and t.ending is not Ending.UNKNOWN else f"{got} of {declared} declared bytes came"
            return _Body(whole, Framing(FramingKind.LENGTH, False, problem, declared))
        problem = f"{got - declared} bytes follow the declared {declared}" if got > declared else ""
        end = min(len(raw), start + declared)
        return _Body([(start, end)] if end > start else [], Framing(FramingKind.LENGTH, True, problem, declared))
    problem = "" if over or ours else "the connection broke before the body ended"
    if t.ending in (Ending.IDLE_TIMEOUT, Ending.TOTAL_TIMEOUT):
        problem = "the body has neither a length nor chunks, and the connection stays open"
    return _Body(whole, Framing(FramingKind.CLOSE, over, problem))


def parse_response(t: Transcript) -> Response | None:
    """The response of a transcript, or None when no byte of one came (or it is no HTTP)."""
    raw, timeline = t.raw, _timeline(t)
    if t.capture is Capture.BODY:
        pieces = [(r.data, r.at) for r in t.reads]
        coding = next((v for k, v in t.headers if k.lower() == "content-encoding"), "").lower()
        content, arrivals, problem = decode_content(pieces, coding)
        framing = Framing(FramingKind.UNKNOWN, t.ending in _OVER)
        return Response(t.status, "", "", t.headers, raw, content, framing, 0.0, arrivals, problem)
    start = 0
    while True:
        line = _STATUS_LINE.match(raw, start)
        if line is None:
            return None
        # A head without headers ends with the status line, one that is cut off with the bytes.
        ends = _end_of_head(raw, line.end() - 1) or (len(raw), len(raw))
        status = int(line.group(2))
        if 100 <= status < 200 and status != 101:
            start = ends[1]
            continue
        break
    headers = parse_headers(raw[line.end() : ends[0]])
    body = _frame(t, raw, ends[1], headers, status)
    pieces = []
    for begin, end in body.segments:
        pos = begin
        while pos < end:  # cut at read boundaries: each piece has one arrival time
            index = min(bisect_right(timeline.ends, pos), len(timeline.ends) - 1)
            stop = min(end, timeline.ends[index])
            pieces.append((raw[pos:stop], timeline.times[index]))
            pos = stop
    coding = next((v for k, v in headers if k.lower() == "content-encoding"), "").strip().lower()
    content, arrivals, problem = decode_content(
        pieces, coding, on_wire=t.capture is Capture.WIRE, whole=body.framing.complete and len(pieces) > 0
    )
    return Response(
        status=status,
        reason=(line.group(3) or b"").decode("latin-1"),
        version=line.group(1).decode(),
        headers=headers,
        body=b"".join(data for data, _ in pieces),
        content=content,
        framing=body.framing,
        head_at=timeline.at(max(0, ends[1] - 1)),
        arrivals=arrivals,
        encoding_problem=problem,
    )
