"""Files that may be compressed: `run.jsonl.xz` and `run.jsonl.gz` are read as `run.jsonl` is.

A record repeats itself and shrinks to a twentieth. What comes out is bounded: a file may be made to burst.
"""

from __future__ import annotations

import gzip
import lzma
import zlib
from pathlib import Path

SUFFIXES = (".xz", ".gz")
# No file unpacks to more than this (bytes).
LIMIT = 256 * 1024 * 1024


def suffix(path: Path) -> str:
    """The suffix of what is inside: `.jsonl` for `run.jsonl.xz`."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() in SUFFIXES else path.suffix.lower()


def read(path: Path) -> bytes:
    """The bytes of a file, unpacked.

    Raises OSError when it cannot be read, ValueError (saying why) when it is no archive or holds too much.
    """
    packed = path.suffix.lower()
    if packed not in SUFFIXES:
        data = path.read_bytes()
    else:
        opener = lzma.open if packed == ".xz" else gzip.open
        try:
            with opener(path, "rb") as file:
                data = file.read(LIMIT + 1)
        except (lzma.LZMAError, gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise ValueError(f"{path} is no whole {packed} file: {error}") from error
    if len(data) > LIMIT:
        raise ValueError(f"{path} holds more than {LIMIT} bytes")
    return data
