"""HAR 1.2, as browsers and proxies write it: bodies are decoded already and carry no times."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wireproof.wire import redact
from wireproof.wire.strictjson import get
from wireproof.wire.transcript import Capture, Ending, Read, Request, Tags, Transcript

# A browser's file is full of pages and pictures: where there are requests of the API, only these count.
_API = re.compile(r"/(?:completions|models|responses|embeddings)\b")


class NotATranscript(ValueError):
    """A file that cannot be judged; the message names it and says why."""


def transcripts(entries: list[Any], name: str, path: Path) -> Iterator[Transcript]:
    """The exchanges with an API in a HAR file's entries. Raises NotATranscript."""
    numbered = list(enumerate(entries))
    ours = [(n, e) for n, e in numbered if _API.search(str(get(e, "request", "url", default="")))]
    found = [t for n, e in ours or numbered if (t := _transcript(e, n, name, path)) is not None]
    if not found:
        raise NotATranscript(f"{path} has no entry with a response body: export it with content")
    yield from found


def _transcript(entry: Any, number: int, name: str, path: Path) -> Transcript | None:
    request, response = get(entry, "request"), get(entry, "response")
    if not isinstance(request, dict) or not isinstance(response, dict):
        raise NotATranscript(f"{path}: entry {number} has no request or no response")
    text, size = get(response, "content", "text"), get(response, "content", "size")
    if text is None and isinstance(size, int) and size > 0:
        return None  # exported without content
    raw = str(text or "").encode("utf-8", errors="surrogatepass")
    if get(response, "content", "encoding") == "base64":
        try:
            raw = base64.b64decode(str(text or ""), validate=True)
        except ValueError as error:
            raise NotATranscript(f"{path}: entry {number} has broken base64") from error
    method, sent = str(request.get("method", "GET")), get(request, "postData", "text")
    status = response.get("status")
    return Transcript(
        id="",
        scenario=f"{name}#{number}",
        request=Request(
            method,
            redact.url(str(request.get("url", "/"))),
            _headers(request),
            str(sent or "").encode("utf-8", errors="surrogatepass"),
        ),
        reads=(Read(0.0, raw),) if raw else (),
        ending=Ending.UNKNOWN,
        capture=Capture.BODY,
        timed=False,
        status=status if isinstance(status, int) and status else None,
        headers=tuple(h for h in _headers(response) if h[0].lower() != "content-encoding"),
        tags=Tags(guessed=sent is None and method == "POST"),
    )


def _headers(message: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    found = message.get("headers")
    pairs = [
        (str(get(h, "name", default="")), str(get(h, "value", default="")))
        for h in (found if isinstance(found, list) else [])
    ]
    return redact.headers(p for p in pairs if p[0] and not p[0].startswith(":"))  # HTTP/2 pseudo headers
