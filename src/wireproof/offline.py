"""Stored transcripts of any kind, read into `Transcript`s: our own format, run records, curl, bare SSE, HAR.

A curl recording is what `curl -isN` printed. In front of it there may be comment lines
that say what was asked, so that rules about the request can be judged too:

    # POST /v1/chat/completions
    # headers: [["X-Request-Id", "abc"]]
    # body: {"model": "m", "messages": [...], "stream": true}
    # ---
    HTTP/1.1 200 OK
"""

from __future__ import annotations

import ast
import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import runrecord
from .exchange import CHAT_PATH
from .record import redact
from .wire.strictjson import NESTING_LIMIT, depth_exceeds, get
from .wire.transcript import Capture, Ending, Read, Request, Transcript, from_json

# A file longer than this is not read (bytes).
FILE_LIMIT = 256 * 1024 * 1024
_SUFFIXES = frozenset({".txt", ".json", ".jsonl", ".har", ".sse", ".http", ".curl"})
_SSE_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:data|event|id|retry)?:")
_COMMENT = re.compile(rb"# ?(.*?)\r?\n")


class NotATranscript(ValueError):
    """A file that cannot be judged; the message names it and says why."""


def read_paths(paths: Iterable[Path]) -> list[Transcript]:
    """Read files and folders (all files with a known suffix inside, recursively).

    Raises NotATranscript for a path that does not exist, holds nothing, or cannot be understood.
    """
    out: list[Transcript] = []
    for path in paths:
        if path.is_dir():
            found = sorted(p for p in path.rglob("*") if p.is_file() and p.suffix.lower() in _SUFFIXES)
            if not found:
                known = ", ".join(sorted(_SUFFIXES))
                raise NotATranscript(f"{path} holds no transcript (files that end in {known})")
            for file in found:
                out += read_file(file, name=file.relative_to(path).as_posix(), lenient=True)
        elif path.is_file():
            out += read_file(path, name=path.name)
        else:
            raise NotATranscript(f"{path} does not exist: give a transcript file or a folder of them")
    return [replace(t, id=f"t{number}") for number, t in enumerate(out, 1)]


def read_file(path: Path, *, name: str, lenient: bool = False) -> list[Transcript]:
    """The transcripts in one file. In a folder (`lenient`) a file that is none is skipped."""
    try:
        if path.stat().st_size > FILE_LIMIT:
            raise NotATranscript(f"{path} is larger than {FILE_LIMIT} bytes")
        data = path.read_bytes()
    except OSError as error:
        raise NotATranscript(f"cannot read {path}: {error.strerror}") from error
    try:
        return list(parse(data, name, path))
    except NotATranscript:
        if lenient:
            return []
        raise


def parse(data: bytes, name: str, path: Path) -> Iterator[Transcript]:
    """The transcripts in the bytes of a file, by looking at them and not at the suffix."""
    start = data.lstrip(b" \t\r\n")
    if not start:
        raise NotATranscript(f"{path} is empty")
    if start.startswith(b"HTTP/") or (start.startswith(b"#") and b"HTTP/" in data):
        yield _curl(data, name, path)
    elif start[:1] in b"{[":
        yield from _json(data, name, path)
    elif _SSE_START.match(data):
        yield _bare(data, name, media="text/event-stream")
    else:
        raise NotATranscript(
            f"{path} is no transcript: it is neither `curl -isN` output, an SSE body, a HAR file,"
            f" a wireproof transcript nor a run record (it starts with {start[:24]!r})"
        )


def _curl(data: bytes, name: str, path: Path) -> Transcript:
    """`curl -i` output, with our comment lines in front of it or without."""
    pos, method, target = 0, "", ""
    headers: list[tuple[str, str]] = []
    body = b""
    while line := _COMMENT.match(data, pos):
        pos, text = line.end(), line.group(1)
        if text == b"---":
            break
        if text.startswith(b"body:"):
            body = text[5:].strip()
        elif text.startswith(b"headers:"):
            headers = _pairs(text[8:])
        elif words := re.fullmatch(rb"([A-Z]+) (\S+)", text.strip()):
            method, target = words.group(1).decode(), words.group(2).decode("utf-8", errors="replace")
    rest = data[pos:].lstrip(b"\r\n")
    if not rest.startswith(b"HTTP/"):
        raise NotATranscript(f"{path} has no status line after its comments: record it with `curl -isN`")
    if b"\r\n\r\n" not in rest and b"\n\n" not in rest:
        raise NotATranscript(f"{path} is cut off inside the response headers: record it again")
    request = Request(method or "POST", target or _guess(rest), redact.headers(headers), body)
    return Transcript(
        id="",
        scenario=name,
        request=request,
        reads=(Read(0.0, rest),),
        ending=Ending.UNKNOWN,
        capture=Capture.DECODED,
        timed=False,
    )


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
        elif isinstance(item, list) and len(item) == 2:
            out.append((str(item[0]), str(item[1])))
    return out


def _guess(response: bytes) -> str:
    """The path of a request that nobody wrote down: a chat completion, when the answer looks like one."""
    chat = b'"chat.completion' in response or b"data:" in response
    return "/v1" + CHAT_PATH if chat else "/"


def _guess_request(body: bytes) -> Request:
    """A request that explains a bare body: only what the body itself proves."""
    stream = _SSE_START.match(body) is not None
    asked: dict[str, Any] = {"stream": True} if stream else {}
    return Request("POST", "/v1" + CHAT_PATH, (), json.dumps(asked).encode() if asked else b"")


def _bare(data: bytes, name: str, *, media: str) -> Transcript:
    """A body alone: no status, no headers, no times."""
    return Transcript(
        id="",
        scenario=name,
        request=_guess_request(data),
        reads=(Read(0.0, data),),
        ending=Ending.UNKNOWN,
        capture=Capture.BODY,
        timed=False,
        tags={"request": "guessed"},
    )


def _json(data: bytes, name: str, path: Path) -> Iterator[Transcript]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotATranscript(f"{path} is not UTF-8 (byte {error.start})") from error
    first = text.lstrip().split("\n", 1)[0]
    if '"wireproof/run/' in first:
        try:
            yield from runrecord.parse(text.splitlines(), str(path)).transcripts.values()
        except runrecord.RecordError as error:
            raise NotATranscript(str(error)) from error
        return
    if depth_exceeds(text, NESTING_LIMIT * 5):
        raise NotATranscript(f"{path} is nested too deeply to be read")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        if "wireproof/transcript/" in text[:400] or '"log"' in text[:400]:
            raise NotATranscript(f"{path} is cut off or broken JSON: {error}") from error
        yield _bare(data, name, media="application/json")
        return
    if get(value, "schema") == "wireproof/transcript/1":
        try:
            yield from_json(value)
        except ValueError as error:
            raise NotATranscript(f"{path}: {error}") from error
    elif isinstance(get(value, "log", "entries"), list):
        yield from _har(value["log"]["entries"], name, path)
    else:
        yield _bare(data, name, media="application/json")


def _har(entries: list[Any], name: str, path: Path) -> Iterator[Transcript]:
    """HAR 1.2: bodies are decoded already and carry no times."""
    for number, entry in enumerate(entries):
        request, response = get(entry, "request"), get(entry, "response")
        if not isinstance(request, dict) or not isinstance(response, dict):
            raise NotATranscript(f"{path}: entry {number} has no request or no response")
        content = get(response, "content", "text", default="")
        raw = str(content).encode("utf-8", errors="surrogatepass")
        if get(response, "content", "encoding") == "base64":
            try:
                raw = base64.b64decode(str(content), validate=True)
            except ValueError as error:
                raise NotATranscript(f"{path}: entry {number} has broken base64") from error
        headers = [h for h in _har_headers(response) if h[0].lower() != "content-encoding"]
        status = response.get("status")
        yield Transcript(
            id="",
            scenario=f"{name}#{number}",
            request=Request(
                str(request.get("method", "GET")),
                str(request.get("url", "/")),
                _har_headers(request),
                str(get(request, "postData", "text", default="")).encode("utf-8", errors="surrogatepass"),
            ),
            reads=(Read(0.0, raw),) if raw else (),
            ending=Ending.UNKNOWN,
            capture=Capture.BODY,
            timed=False,
            status=status if isinstance(status, int) and status else None,
            headers=tuple(headers),
        )


def _har_headers(message: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    found = message.get("headers")
    pairs = [(str(get(h, "name", default="")), str(get(h, "value", default=""))) for h in found or []]
    return redact.headers(pairs)
