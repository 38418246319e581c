"""Takes the paths of this machine out of a run record, byte for byte.

A path stands in the bytes of transcripts (as a model's name, in an error's traceback), where Content-Length and the
spans of verdicts count them: so what replaces it has the same length. `/home/ann/x` becomes `/wire/wir/w`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wireproof.wire import transcript

_FILLER = b"wireproof"
# A path as short as this is in too many harmless places ("/srv").
_SHORTEST = 5


def machine_paths(*more: Path) -> list[Path]:
    """The folders whose names tell about this machine or its user."""
    return [*more, Path.home(), Path.cwd(), Path(sys.prefix), Path(sys.base_prefix)]


def neutral(path: bytes) -> bytes:
    """Another path of the same length and depth. `\\/`, as some write JSON, stays so."""
    out = bytearray()
    place = 0
    for number, byte in enumerate(path):
        if byte == ord("/") or path[number : number + 2] == b"\\/":
            out.append(byte)
            place = 0
        else:
            out.append(_FILLER[place % len(_FILLER)])
            place += 1
    return bytes(out)


class Neutraliser:
    """Replaces some folders' paths, however they are written."""

    def __init__(self, paths: Iterable[Path]) -> None:
        known = {str(form) for path in paths for form in (path, path.resolve())}
        spelled = {s for text in known for s in (text, text.replace("/", "\\/"), json.dumps(text)[1:-1])}
        forms = {s.encode("utf-8", "surrogateescape") for s in spelled if len(s) >= _SHORTEST}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        # "/root" must not be found in "/rooted".
        choice = b"|".join(re.escape(form) for form in longest_first)
        self._pattern = re.compile(b"(?:" + choice + b")(?![A-Za-z0-9_-])") if longest_first else None

    def data(self, data: bytes) -> bytes:
        """The bytes without the paths."""
        return self._pattern.sub(lambda m: neutral(m[0]), data) if self._pattern else data

    def value(self, value: Any) -> Any:
        """A JSON value without the paths, in its texts and in its keys."""
        if isinstance(value, str):
            return self.data(value.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.value(key): self.value(item) for key, item in value.items()}
        return value

    def reads(self, reads: Sequence[transcript.Read]) -> tuple[transcript.Read, ...]:
        """Reads without the paths, also of those that two reads share."""
        whole, at, out = self.data(b"".join(read.data for read in reads)), 0, []
        for read in reads:
            out.append(replace(read, data=whole[at : at + len(read.data)]))
            at += len(read.data)
        return tuple(out)

    def line(self, line: dict[str, Any]) -> dict[str, Any]:
        """One line of a run record without the paths."""
        if line.get("kind") == "transcript":
            t = transcript.from_json(line)
            clean = replace(t, reads=self.reads(t.reads), request=replace(t.request, body=self.data(t.request.body)))
            packed = transcript.to_json(clean)
            line = {**line, "reads": packed["reads"], "request": packed["request"]}
        return dict(self.value(line))


def clean_record(source: Path, target: Path, paths: Iterable[Path]) -> None:
    """Write a run record again without the paths. The torn last line of a run that crashed is left out."""
    clean = Neutraliser(paths)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    with source.open(encoding="utf-8") as lines, partial.open("w", encoding="utf-8") as out:
        for text in lines:
            try:
                line = json.loads(text)
            except ValueError:
                break
            out.write(json.dumps(clean.line(line), ensure_ascii=True, separators=(",", ":")) + "\n")
    partial.replace(target)
