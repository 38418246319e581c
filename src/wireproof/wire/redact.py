"""Secrets are removed here, before anything is stored or shown."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from urllib.parse import quote

from wireproof.wire.http import parse_response
from wireproof.wire.transcript import Capture, Read, Transcript

MASK = "***"
_USER = re.compile(r"//[^/?#]*@")
_SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "api-key", "x-api-key", "cookie", "set-cookie", "x-goog-api-key"}
)
# A cookie that the target sets (a short one is no secret, and would mark ordinary text), and names of query
# parameters that carry keys.
_SET_COOKIE = re.compile(rb"(?im)^set-cookie:[ \t]*[^=;\r\n]*=([^;\r\n]{16,})")
_QUERY = re.compile(r"(?i)([?&](?:api[-_]?key|access[-_]?token|key|token|sig|signature)=)[^&#]*")
# Cookies are looked for in so much of an answer (bytes).
HEAD_LIMIT = 64 * 1024
_CODINGS = frozenset({"content-encoding", "transfer-encoding", "content-length"})
# A key shorter than this is only searched for after "Bearer": it would mark ordinary text (characters).
_SHORTEST = 6


def secrets(*values: str | None) -> list[str]:
    """What must not be stored: each value, and the token of one that names a scheme first (Bearer TOKEN)."""
    found = [v for v in values if v]
    tokens = [v.split(None, 1)[1].strip() for v in found if len(v.split(None, 1)) == 2]
    return list(dict.fromkeys([*found, *tokens]))


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
    """A URL without user and password, and without the keys in its query."""
    return _QUERY.sub(rf"\g<1>{MASK}", _USER.sub(f"//{MASK}@", found, count=1))


def _spellings(secret: str) -> Iterator[bytes]:
    """The ways in which a server may echo a secret: as it is, in JSON, in a URL, after its scheme."""
    found = [f"Bearer {secret}"]
    if len(secret) >= _SHORTEST:
        in_json = json.dumps(secret)[1:-1]
        found += [secret, in_json, in_json.replace("/", "\\/"), quote(secret, safe=""), html.escape(secret)]
    for spelling in dict.fromkeys(found):
        yield spelling.encode("utf-8", errors="surrogateescape")


def text(found: bytes, secrets: Iterable[str]) -> bytes:
    """Bytes in which each secret is overwritten by asterisks of the same length."""
    for secret in sorted(secrets, key=len, reverse=True):  # one may be the start of another
        for raw in _spellings(secret):
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


def transcript(t: Transcript, secrets: Sequence[str]) -> Transcript:
    """The transcript with secrets overwritten in all that came back.

    A secret inside a compressed body, or cut by a chunk boundary, is only seen after decoding:
    then the decoded body is kept in place of the bytes of the wire.
    """
    secrets = [*secrets, *(m.group(1).decode("latin-1") for m in _SET_COOKIE.finditer(t.raw[:HEAD_LIMIT]))]
    if not secrets:
        return t
    t = replace(
        t,
        reads=reads(t.reads, secrets),
        detail=text(t.detail.encode("utf-8", errors="replace"), secrets).decode("utf-8", errors="replace"),
    )
    response = parse_response(t)
    if response is None or text(response.content, secrets) == response.content:
        return t
    ends = [0, *(end for end, _ in response.arrivals)]
    decoded = [
        Read(at, response.content[start:end])
        for (start, end), (_, at) in zip(pairwise(ends), response.arrivals, strict=True)
    ]
    return replace(
        t,
        reads=reads(decoded, secrets),
        capture=Capture.BODY,
        status=response.status,
        headers=tuple(h for h in response.headers if h[0].lower() not in _CODINGS),
    )
