"""The error object of an answer: what refusals and failed streams carry, in whatever shape it came."""

from __future__ import annotations

from typing import Any

from wireproof.read.chat import Chat, is_stream
from wireproof.read.exchange import Exchange
from wireproof.read.views import view
from wireproof.wire.strictjson import get

_BODILESS = ("HEAD", "OPTIONS")


def is_error_answer(x: Exchange) -> bool:
    """A 4xx or 5xx that has to say why. (HEAD has no body, OPTIONS belongs to CORS.)"""
    return x.status is not None and x.status >= 400 and x.request.method not in _BODILESS


def is_json_error(x: Exchange) -> bool:
    """An error answer that is declared as JSON, or looks like it."""
    if not is_error_answer(x) or x.response is None:
        return False
    media = x.response.media_type
    return media.endswith("json") or (not x.knows_headers and x.is_json)


@view
def error_of(x: Exchange) -> dict[str, Any] | None:
    """The object under `error` of an error answer; None when there is none."""
    found = get(x.parsed.value, "error") if is_error_answer(x) and x.parsed.ok else None
    return found if isinstance(found, dict) else None


@view
def stream_error_of(x: Exchange) -> dict[str, Any] | None:
    """The object under `error` of the first error event of a stream; None when there is none.

    (An error inside a chunk is another matter: chunk.error.absent.)
    """
    if not is_stream(x):
        return None
    event = next((e for e in x.errors if get(e.value, "choices") is None), None)
    found = get(event.value, "error") if event is not None else None
    return found if isinstance(found, dict) else None


def any_error_of(x: Exchange) -> dict[str, Any] | None:
    """The error object of an answer, whether its status or an event of its stream says that it failed."""
    return error_of(x) if is_error_answer(x) else stream_error_of(x)


def told_error(x: Chat) -> Any:
    """What an answer with status 200 says instead of an answer: its error; None when it is no error."""
    if not x.ok:
        return None
    if x.is_event_stream:
        first = x.payloads[0] if x.payloads else None
        return first.value if first is not None and first.parsed.ok and first.is_error else None
    value = x.parsed.value
    if not isinstance(value, dict) or "choices" in value:
        return None
    return value if value.get("error") or value.get("object") == "error" else None


def members_problem(error: dict[str, Any]) -> str:
    """What is wrong with the members of an error object; empty when all is well. (An integer code is SHOULD.)"""
    missing = [name for name in ("message", "type", "param", "code") if name not in error]
    if missing:
        return f"no {' and no '.join(missing)}"
    if not isinstance(error["message"], str) or not error["message"].strip():
        return f"message {error['message']!r}"
    if not isinstance(error["type"], str):
        return f"type {error['type']!r}"
    if not (error["param"] is None or isinstance(error["param"], str)):
        return f"param {error['param']!r}"
    if isinstance(error["code"], (dict, list, bool)):
        return f"code {error['code']!r}"
    return ""
