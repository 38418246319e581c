"""Secrets are removed here, before anything is stored or shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..wire.transcript import Read

MASK = "***"
_USER = re.compile(r"//[^/?#]*@")
_SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "api-key", "x-api-key", "cookie", "set-cookie", "x-goog-api-key"}
)
# A key shorter than this is not searched for in bodies: it would mark ordinary text (bytes).
_SHORTEST = 6


def headers(found: Iterable[tuple[str, str]], secret_names: Iterable[str] = ()) -> tuple[tuple[str, str], ...]:
    """Headers with the values of secret ones masked; `secret_names` adds to the known ones."""
    hidden = _SECRET_HEADERS | {n.lower() for n in secret_names}
    out = []
    for name, value in found:
        if name.lower() in hidden:
            scheme = "Bearer " if value.lower().startswith("bearer ") else ""
            value = scheme + MASK
        out.append((name, value))
    return tuple(out)


def url(found: str) -> str:
    """A URL without user and password."""
    return _USER.sub(f"//{MASK}@", found, count=1)


def text(found: bytes, secrets: Iterable[str]) -> bytes:
    """Bytes in which each secret is overwritten by asterisks of the same length."""
    for secret in sorted(secrets, key=len, reverse=True):  # one may be the start of another
        raw = secret.encode("utf-8", errors="surrogateescape")
        if len(raw) >= _SHORTEST:
            found = found.replace(raw, b"*" * len(raw))
    return found


def reads(found: Sequence[Read], secrets: Iterable[str]) -> tuple[Read, ...]:
    """The reads with secrets overwritten, also one that is split over several reads. Offsets stay."""
    raw = b"".join(r.data for r in found)
    clean = text(raw, secrets)
    if clean == raw:
        return tuple(found)
    out, pos = [], 0
    for read in found:
        out.append(Read(read.at, clean[pos : pos + len(read.data)]))
        pos += len(read.data)
    return tuple(out)
