"""Stored transcripts of any kind, read into `Transcript`s: our own format, run records, curl, bare SSE, HAR.

What a recording does not have is not judged: without times, framing or the request, the rules
that need them are not applicable.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from wireproof.read import guessed_request
from wireproof.stored import curl, har, pack, run_record
from wireproof.stored.har import NotATranscript as NotATranscript
from wireproof.wire.http import parse_response
from wireproof.wire.strictjson import NESTING_LIMIT, depth_exceeds, get
from wireproof.wire.transcript import Capture, Ending, Read, Request, Tags, Transcript, from_json

# A file longer than this is not read (bytes).
FILE_LIMIT = 256 * 1024 * 1024
# A JSON file without any of these members is something else.
_ANSWERS = frozenset({"choices", "error", "object", "detail"})
_SUFFIXES = frozenset({".txt", ".json", ".jsonl", ".har", ".sse", ".http", ".curl"})


def read_paths(paths: Iterable[Path], on_skip: Callable[[str], None] | None = None) -> list[Transcript]:
    """Read files and folders (all files with a known suffix inside, recursively).

    A file in a folder that is no transcript is left out, and told to `on_skip`. Raises
    NotATranscript for a path that does not exist, holds nothing, or cannot be understood.
    """
    places: list[tuple[str, Transcript]] = []
    for path in dict.fromkeys(paths):
        if path.is_dir():
            found = sorted(p for p in path.rglob("*") if p.is_file() and pack.suffix(p) in _SUFFIXES)
            if not found:
                known = ", ".join(sorted(_SUFFIXES))
                raise NotATranscript(f"{path} holds no transcript (files that end in {known})")
            for file in found:
                try:
                    read = read_file(file, name=file.relative_to(path).as_posix())
                except NotATranscript as error:
                    if on_skip:
                        on_skip(str(error))
                    continue
                places += [(str(file.parent), t) for t in read]
        elif path.is_file():
            read = read_file(path, name=path.name)
            record = len(read) > 1 and pack.suffix(path) == ".jsonl"
            places += [(str(path if record else path.parent), t) for t in read]
        elif path.exists():
            raise NotATranscript(f"{path} is neither a file nor a folder: give a transcript file or a folder of them")
        else:
            raise NotATranscript(f"{path} does not exist: give a transcript file or a folder of them")
    several = len({place for place, _ in places}) > 1
    return [
        replace(t, id=f"t{number}", tags=replace(t.tags, place=t.tags.place or place) if several else t.tags)
        for number, (place, t) in enumerate(places, 1)
    ]


def read_file(path: Path, *, name: str) -> list[Transcript]:
    """The transcripts in one file. Raises NotATranscript."""
    try:
        if path.stat().st_size > FILE_LIMIT:
            raise NotATranscript(f"{path} is larger than {FILE_LIMIT} bytes")
        data = pack.read(path)
    except OSError as error:
        raise NotATranscript(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise NotATranscript(str(error)) from error
    return list(parse(data, name, path))


def parse(data: bytes, name: str, path: Path) -> Iterator[Transcript]:
    """The transcripts in the bytes of a file, by looking at them and not at the suffix."""
    start = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start:
        raise NotATranscript(f"{path} is empty: record it again")
    if curl.looks_like(data):
        try:
            yield from curl.transcripts(data, name)
        except curl.NotCurl as error:
            raise NotATranscript(f"{path} {error}") from error
    elif start[:1] in (b"{", b"["):
        yield from _json(data, name, path)
    elif guessed_request.looks_like_stream(data) or start.startswith(b":"):
        yield _bare(data, name)
    else:
        raise NotATranscript(
            f"{path} is no transcript: it is neither `curl -isN` output, an SSE body, a HAR file,"
            f" a wireproof transcript nor a run record (it starts with {start[:24]!r})"
        )


def _bare(data: bytes, name: str) -> Transcript:
    """A body alone: no request, no status, no headers, no times."""
    alone = Transcript(
        id="",
        scenario=name,
        request=Request("POST", "/"),
        reads=(Read(0.0, data),),
        ending=Ending.UNKNOWN,
        capture=Capture.BODY,
        timed=False,
        tags=Tags(guessed=True),
    )
    method, path = guessed_request.endpoint(parse_response(alone))
    return replace(alone, request=Request(method, path))


def _json(data: bytes, name: str, path: Path) -> Iterator[Transcript]:
    text = data.decode("utf-8-sig", errors="replace")
    begin = text.lstrip()[:400]
    if '"wireproof/run/' in begin.split("\n", 1)[0]:
        try:
            record = run_record.parse(data.decode("utf-8").split("\n"), str(path))
        except (run_record.RecordError, UnicodeDecodeError) as error:
            raise NotATranscript(f"{path} is broken: {error}") from error
        torn = Tags(torn=record.crashed)
        yield from (replace(t, tags=t.tags | torn) for t in record.transcripts.values())
        return
    if depth_exceeds(text, NESTING_LIMIT * 5):
        raise NotATranscript(f"{path} is nested too deeply to be read")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        ours = "wireproof/transcript/" in begin or '"log"' in begin
        if ours or not any(f'"{member}"' in text for member in _ANSWERS):
            raise NotATranscript(f"{path} is cut off or broken JSON: {error}") from error
        yield _bare(data, name)
        return
    if get(value, "schema") == "wireproof/transcript/1":
        try:
            yield from_json(value)
        except ValueError as error:
            raise NotATranscript(f"{path}: {error}") from error
    elif isinstance(get(value, "log", "entries"), list):
        yield from har.transcripts(value["log"]["entries"], name, path)
    elif isinstance(value, dict) and _ANSWERS & value.keys():
        yield _bare(data, name)
    else:
        raise NotATranscript(
            f"{path} is JSON, but no answer of the API (it has none of: {', '.join(sorted(_ANSWERS))})"
        )
