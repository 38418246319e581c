"""A lossless decoder for server-sent events (WHATWG HTML 9.2.5 and 9.2.6).

Lenient where the standard is, and where clients are not: it accepts bytes in any
pieces, and what is odd becomes an `Anomaly` with its byte span instead of being
repaired or dropped. The rules decide what an anomaly means.

    decoder = SSEDecoder()
    items = decoder.receive(b"data: {}\\n\\n") + decoder.close()
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]

# More blank lines that end nothing than this are not listed: a body may be made of them.
BLANK_LIMIT = 1000

_BOM = b"\xef\xbb\xbf"
_FIELDS = frozenset({b"data", b"event", b"id", b"retry"})


class AnomalyKind(StrEnum):
    """What is odd about a stretch of the stream; some of these are legal."""

    BOM = "bom"
    INVALID_UTF8 = "invalid-utf8"
    UNKNOWN_FIELD = "unknown-field"  # ignored by a parser, so its content is lost
    NO_DATA = "no-data"  # a block with fields but without a data line
    EXTRA_BLANK = "extra-blank"  # a blank line that ends nothing
    UNTERMINATED = "unterminated"  # the last event has no blank line after it
    BARE_CR = "bare-cr"
    CRLF = "crlf"
    MIXED_ENDINGS = "mixed-endings"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an event: its bytes without the line end, and where they lie."""

    span: Span
    raw: bytes
    name: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Event:
    """A block with at least one data line. `data` is the joined value of its data lines."""

    span: Span  # with the blank line that ends it
    data: str
    lines: tuple[Line, ...]
    event: str | None = None
    id: str | None = None
    retry: str | None = None
    terminated: bool = True
    valid_utf8: bool = True

    @property
    def data_lines(self) -> int:
        """How many data lines the event has."""
        return sum(1 for line in self.lines if line.name == b"data")


@dataclass(frozen=True, slots=True)
class Comment:
    """A line that starts with a colon. `alone` when its block holds nothing else."""

    span: Span
    text: str
    alone: bool = True


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something odd, with its bytes."""

    span: Span
    kind: AnomalyKind
    detail: str = ""


Item: TypeAlias = Event | Comment | Anomaly


class SSEDecoder:
    """Feed bytes with `receive`, end with `close`; both return the items that became known."""

    def __init__(self) -> None:
        self._buffer = b""
        self._rest: list[bytes] = []  # pieces after the buffer without any line end, not joined yet
        self._offset = 0  # offset in the stream of the first byte in the buffer
        self._started = False
        self._lines: list[Line] = []
        self._comments: list[tuple[Span, str]] = []
        self._held: list[Item] = []  # anomalies of the block being read
        self._block_start: int | None = None
        self._endings: set[bytes] = set()
        self._blank_lines = 0

    def receive(self, data: bytes) -> list[Item]:
        """Take the next bytes, in pieces of any size; returns the items completed by them."""
        # A long line in small pieces is joined once, when its end is there: joining at each piece is quadratic.
        waiting = self._started and not self._buffer.endswith(b"\r")
        if waiting and b"\n" not in data and b"\r" not in data:
            self._rest.append(data)
            return []
        self._join(data)
        return self._drain(final=False)

    def close(self) -> list[Item]:
        """The stream is over: returns what was still open."""
        self._join()
        out = self._drain(final=True)
        if self._buffer:  # a last line without any line end
            line, start = self._buffer, self._offset
            self._offset += len(line)
            self._buffer = b""
            self._take(line, start, self._offset)
        if self._lines:
            start = self._block_start or 0
            self._held.append(Anomaly((start, self._offset), AnomalyKind.UNTERMINATED, "no blank line at the end"))
            out += self._finish(self._offset, terminated=False)
        else:
            out += [*(Comment(span, text) for span, text in self._comments), *self._held]
            self._comments, self._held = [], []
        if len(self._endings) > 1:
            seen = ", ".join(sorted(repr(e)[2:-1] for e in self._endings))
            out.append(Anomaly((0, self._offset), AnomalyKind.MIXED_ENDINGS, seen))
        return out

    def _join(self, *more: bytes) -> None:
        self._buffer = b"".join((self._buffer, *self._rest, *more))
        self._rest = []

    def _drain(self, *, final: bool) -> list[Item]:
        out: list[Item] = []
        if not self._started:
            if not final and len(self._buffer) < 3 and _BOM.startswith(self._buffer):
                return out
            self._started = True
            # 9.2.6: one leading U+FEFF is stripped. openai-python does not strip it.
            if self._buffer.startswith(_BOM):
                out.append(Anomaly((0, 3), AnomalyKind.BOM))
                self._buffer, self._offset = self._buffer[3:], 3
        buffer, pos, base = self._buffer, 0, self._offset
        size, lf = len(buffer), -2  # the next LF: -1 for none, -2 for not looked for
        while pos < size:
            if lf != -1 and lf < pos:
                lf = buffer.find(b"\n", pos)
            cr = buffer.find(b"\r", pos, lf if lf >= 0 else size)
            if cr >= 0:
                if cr + 1 == size and not final:
                    break  # CR or CRLF? the next byte tells
                ending = b"\r\n" if buffer[cr + 1 : cr + 2] == b"\n" else b"\r"
                end = cr
            elif lf >= 0:
                ending, end = b"\n", lf
            else:
                break
            if ending not in self._endings:
                self._endings.add(ending)
                if ending != b"\n":
                    kind = AnomalyKind.CRLF if ending == b"\r\n" else AnomalyKind.BARE_CR
                    out.append(Anomaly((base + end, base + end + len(ending)), kind))
            after = end + len(ending)
            if end > pos:
                self._take(buffer[pos:end], base + pos, base + end)
            else:
                out += self._blank(base + pos, base + after)
            pos = after
        self._buffer, self._offset = buffer[pos:], base + pos
        return out

    def _blank(self, start: int, end: int) -> list[Item]:
        if self._lines:
            return self._finish(end, terminated=True)
        if self._comments:
            out: list[Item] = [*(Comment(span, text) for span, text in self._comments), *self._held]
            self._comments, self._held, self._block_start = [], [], None
            return out
        self._block_start = None
        self._blank_lines += 1
        if self._blank_lines > BLANK_LIMIT:
            return []
        return [Anomaly((start, end), AnomalyKind.EXTRA_BLANK)]

    def _take(self, raw: bytes, start: int, end: int) -> None:
        """One non-blank line (9.2.6, "process the field")."""
        if self._block_start is None:
            self._block_start = start
        if raw[:1] == b":":
            self._comments.append(((start, end), self._text(raw[1:], start + 1)))
            return
        name, _, value = raw.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name not in _FIELDS:
            self._held.append(Anomaly((start, end), AnomalyKind.UNKNOWN_FIELD, repr(raw[:48])[2:-1]))
        self._lines.append(Line((start, end), raw, name, value))

    def _text(self, raw: bytes, start: int) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            where = (start + error.start, start + error.end)
            self._held.append(Anomaly(where, AnomalyKind.INVALID_UTF8, error.reason))
            return raw.decode("utf-8", errors="replace")

    def _finish(self, end: int, *, terminated: bool) -> list[Item]:
        """The block is over: dispatch it (9.2.6, "dispatch the event")."""
        lines = tuple(self._lines)
        start = self._block_start if self._block_start is not None else lines[0].span[0]
        data: list[str] = []
        other: dict[bytes, str] = {}
        before = len(self._held)
        for line in lines:
            if line.name == b"data":
                data.append(self._text(line.value, line.span[1] - len(line.value)))
            elif line.name in _FIELDS:
                text = self._text(line.value, line.span[1] - len(line.value))
                # 9.2.6: an id that contains U+0000 NULL is ignored.
                if not (line.name == b"id" and "\0" in text):
                    other[line.name] = text
            else:
                self._text(line.raw, line.span[0])
        valid = len(self._held) == before
        out: list[Item] = [Comment(span, text, alone=False) for span, text in self._comments]
        if data:
            out.append(
                Event(
                    (start, end),
                    "\n".join(data),
                    lines,
                    event=other.get(b"event"),
                    id=other.get(b"id"),
                    retry=other.get(b"retry"),
                    terminated=terminated,
                    valid_utf8=valid,
                )
            )
        elif any(line.name in _FIELDS for line in lines):
            names = ", ".join(dict.fromkeys(line.name.decode() for line in lines if line.name in _FIELDS))
            out.append(Anomaly((start, end), AnomalyKind.NO_DATA, f"only {names}"))
        out += self._held
        self._lines, self._comments, self._held, self._block_start = [], [], [], None
        return out


def decode(body: bytes) -> list[Item]:
    """Decode a whole body at once."""
    decoder = SSEDecoder()
    return decoder.receive(body) + decoder.close()
