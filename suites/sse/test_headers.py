"""The headers of a streamed answer, and requests that never become a stream."""

from __future__ import annotations

from wireproof.judge.rules import MUST, SHOULD, Each, client, contract, rfc, rule
from wireproof.judge.subjects import STREAM_SCENARIOS
from wireproof.read.chat import Chat, is_chat, is_stream
from wireproof.read.exchange import Exchange
from wireproof.verdict import NotApplicable, require
from wireproof.wire.strictjson import get, is_int

HEADS = Each(
    "every chat stream with its headers",
    lambda x: is_stream(x) and x.asked_stream and x.knows_headers,
    STREAM_SCENARIOS,
)


@rule("sse.header.no-proxy-buffering", SHOULD, on=HEADS, book="SSE-019", source=contract("proxy buffering"))
def test_header_no_proxy_buffering(x: Exchange) -> None:
    """A stream carries `X-Accel-Buffering: no`.

    Without it, nginx in its default configuration holds the whole stream back until it ends.
    """
    value = x.answered.header("x-accel-buffering")
    require((value or "").lower() == "no", "X-Accel-Buffering: no", got=value or "no such header")


@rule("sse.header.no-cache", SHOULD, on=HEADS, book="SSE-020", source=rfc(9111, "5.2.2"))
def test_header_no_cache(x: Exchange) -> None:
    """A stream carries `Cache-Control: no-cache` or `no-store`.

    Otherwise caches and CDNs may hold a stream back, or replay it to somebody else.
    """
    value = ", ".join(x.answered.all("cache-control")).lower()
    require("no-cache" in value or "no-store" in value, "Cache-Control: no-cache", got=value or "no such header")


@rule("sse.header.no-length-or-encoding", SHOULD, on=HEADS, book="SSE-021", source=rfc(9112, "6"))
def test_header_no_length_or_encoding(x: Exchange) -> None:
    """A stream has neither a Content-Length nor a Content-Encoding.

    Either one means that something collects, or will collect, the whole body before it passes on the first event.
    """
    length, coding = x.answered.header("content-length"), x.answered.header("content-encoding")
    require(length is None, "no Content-Length", got=f"Content-Length: {length}")
    require(coding in (None, "identity"), "no Content-Encoding", got=f"Content-Encoding: {coding}")


def _error(x: Chat) -> object:
    """The error that the server sent instead of the requested stream, or None."""
    if not x.is_event_stream:
        return x.parsed.value if get(x.parsed.value, "error") else None
    first = x.payloads[0] if x.payloads else None
    return first.value if first is not None and first.parsed.ok and first.is_error else None


def _was_refused(x: Exchange) -> bool:
    if not (is_chat(x) and x.asked_stream and x.response is not None and x.status is not None):
        return False
    return x.status >= 400 or (x.ok and _error(x) is not None)


REFUSED = Each(
    "every streamed chat request that was refused",
    _was_refused,
    ("stream-invalid-parameter", "stream-invalid-messages", "stream-unknown-model"),
)
_CLIENT_FAULTS = ("invalid", "badrequest", "bad_request", "notfound", "not_found", "authentication", "validation")


@rule(
    "sse.error.before-stream-is-4xx",
    MUST,
    on=REFUSED,
    book="SSE-023",
    source=client("openai-python", "_make_status_error"),
    evidence=("json_error_200_for_stream",),
)
def test_error_before_stream_is_4xx(x: Chat) -> None:
    """A request refused before generation gets a 4xx or 5xx, not an event stream, even with `stream: true`.

    Clients choose the exception by the status: an error inside a 200 stream becomes a generic APIError, and
    for one sent as JSON with status 200 raw openai, LlamaIndex and litellm return an empty answer without an
    error.
    """
    if x.status != 200:
        media = x.answered.media_type
        require(media != "text/event-stream", "an error as JSON", got=f"{x.status} with Content-Type: {media}")
        return
    error = get(_error(x), "error", default=_error(x))
    code, kind = get(error, "code"), str(get(error, "type")).lower()
    theirs = (is_int(code) and 400 <= code < 500) or any(word in kind for word in _CLIENT_FAULTS)
    if x.valid and x.is_event_stream and not theirs:
        raise NotApplicable("the server failed after it had begun to stream")
    at = x.errors[0] if x.is_event_stream else None
    require(False, "a 4xx or 5xx status", got=f"200 and {x.errors[0].event.data if at else x.text}"[:200], at=at)
