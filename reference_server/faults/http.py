"""HTTP around an answer gone wrong: media types, bodies, framing, encodings."""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..answer import Close, Emit, Frame, Framing, How, HttpAnswer, HttpRequest, Step
from . import Context, Layer, fault

_NODE = "https://github.com/openai/openai-node"


def stream_was_asked(ctx: Context) -> bool:
    """Whether the request wanted a stream, refused or not."""
    try:
        asked = json.loads(ctx.http.body)
    except ValueError:
        return False
    return isinstance(asked, dict) and asked.get("stream") is True


def with_body(answer: HttpAnswer, change: Callable[[bytes], bytes], **headers: str | None) -> HttpAnswer:
    """A plain answer whose body is changed, and whose Content-Length fits the new one."""
    data = change(b"".join(frame.data for frame in answer.body))
    length = None if answer.framing is Framing.CHUNKED else str(len(data))
    changed = answer.with_headers(**{"content_length": length, **headers})
    return replace(answer, headers=changed, body=iter([Frame(data)]))


def is_plain(answer: HttpAnswer, ctx: Context) -> bool:
    """Whether it is the plain answer to a chat request."""
    return answer.status == 200 and ctx.chat is not None and not answer.stream


@fault("http.plain-as-text", layer=Layer.HTTP, breaks={"http.plain.json-media-type"}, source=_NODE)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A plain completion is declared as text/plain."""
    return replace(answer, headers=answer.with_headers(content_type="text/plain")) if is_plain(answer, ctx) else answer


@fault("http.plain-without-type", layer=Layer.HTTP, breaks={"http.plain.json-media-type"}, source=_NODE)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A plain completion has no Content-Type."""
    return replace(answer, headers=answer.with_headers(content_type=None)) if is_plain(answer, ctx) else answer


@fault("http.plain-created", layer=Layer.HTTP, breaks={"http.plain.json-media-type"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A plain completion comes with status 201."""
    return replace(answer, status=201, reason="Created") if is_plain(answer, ctx) else answer


@fault(
    "http.sse-for-plain",
    layer=Layer.REQUEST,
    breaks={"http.plain.json-media-type", "usage.stream-options.needs-stream"},
    cases=("B1-004",),
    source="https://github.com/BerriAI/litellm/issues/34095",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A plain request gets an event stream, because the server behind always streams."""
    try:
        asked = json.loads(request.body)
    except ValueError:
        return request
    if not isinstance(asked, dict) or asked.get("stream") not in (None, False):
        return request
    return replace(request, body=json.dumps({**asked, "stream": True}).encode())


@fault("http.json-bom", layer=Layer.HTTP, breaks={"http.json.utf8-no-bom"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """JSON bodies begin with a byte order mark."""
    return answer if answer.stream else with_body(answer, lambda data: b"\xef\xbb\xbf" + data)


@fault(
    "http.json-latin-1",
    layer=Layer.HTTP,
    breaks={"http.json.utf8-no-bom", "chunk.parity.with-plain", "tool.arguments.unicode-exact"},
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Accented letters of a JSON body are single bytes, as in Latin-1."""
    if answer.stream:
        return answer
    return with_body(answer, lambda data: data.replace(b"\xc3\xa9", b"\xe9").replace(b"\xc3\xbd", b"\xfd"))


@fault(
    "http.json-key-without-quote",
    layer=Layer.HTTP,
    breaks={"http.json.well-formed"},
    cases=("B1-200",),
    source="https://github.com/inferencerlabs/inferencer-feedback/issues/42",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A key of a plain completion lacks its first quote."""
    return with_body(answer, lambda data: data.replace(b'"model":', b'model":', 1)) if is_plain(answer, ctx) else answer


@fault("http.nan-in-plain", layer=Layer.MESSAGE, breaks={"http.json.no-nan"})
def _(message: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """A plain completion has a NaN among its timings (the time per token of no token)."""
    return {**message, "timings": {"per_token_ms": float("nan")}} if ctx.status == 200 else message


@fault("http.nan-in-stream", layer=Layer.CHUNK, breaks={"http.json.no-nan"})
def _(chunks: Iterator[dict[str, Any]], ctx: Context) -> Iterator[dict[str, Any]]:
    """Chunks have -Infinity among their timings."""
    for chunk in chunks:
        chunk["timings"] = {"best_logprob": float("-inf")}
        yield chunk


@fault("http.duplicate-names", layer=Layer.HTTP, breaks={"http.json.unique-names"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """JSON bodies name their first member twice."""
    if answer.stream:
        return answer
    return with_body(answer, lambda data: data.replace(b'{"id":', b'{"id":"duplicate","id":', 1))


@fault("http.duplicate-names-in-stream", layer=Layer.SSE, breaks={"http.json.unique-names"})
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Every chunk names its model twice."""
    for frame in frames:
        yield replace(frame, data=frame.data.replace(b'"model":', b'"model":"x","model":', 1))


def _cut(steps: Iterator[Step], after: int, how: How) -> Iterator[Step]:
    """The head, the first `after` pieces of the body and half of the next, then the end."""
    for number, step in enumerate(steps):
        if isinstance(step, Emit) and number <= after:
            yield step
        elif isinstance(step, Emit):
            yield replace(step, data=step.data[: len(step.data) // 2])
            break
    yield Close(how)


@fault(
    "http.body-cut",
    layer=Layer.SOCKET,
    breaks={"http.body.framed-exactly"},
)
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """A plain body ends in its middle: the worker behind the proxy died."""
    return steps if ctx.chat is None or ctx.stream else _cut(steps, 0, How.END)


@fault(
    "http.stream-cut",
    layer=Layer.SOCKET,
    breaks={
        "choice.count.equals-n",
        "http.body.framed-exactly",
        "stop.parity.with-plain",
        "stop.text.nothing-lost",
        "usage.stream.chunk-when-asked",
    },
    cases=("B1-041",),
    source="https://github.com/BerriAI/litellm/issues/39748",
)
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """A stream breaks off in its fourth event, with a reset."""
    return _cut(steps, 3, How.RESET) if ctx.stream else steps


@fault("http.no-last-chunk", layer=Layer.SOCKET, breaks={"http.body.framed-exactly"})
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """A complete stream ends without its zero-length chunk."""
    for step in steps:
        if not ctx.stream:
            yield step
        elif isinstance(step, Close):
            yield Close(How.END)
        elif step.data != b"0\r\n\r\n":
            yield step


@fault("http.length-too-long", layer=Layer.HTTP, breaks={"http.body.framed-exactly"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Content-Length promises ten bytes that never come."""
    length = dict(answer.headers).get("content-length")
    if length is None or not is_plain(answer, ctx):
        return answer
    # The connection closes at once, as it does when the promise is noticed; else a client would wait.
    return replace(answer, headers=answer.with_headers(content_length=str(int(length) + 10)), framing=Framing.CLOSE)


@fault("http.length-too-short", layer=Layer.HTTP, breaks={"http.body.framed-exactly"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Content-Length counts characters, or forgets the last byte."""
    length = dict(answer.headers).get("content-length")
    if length is None or not is_plain(answer, ctx):
        return answer
    return replace(answer, headers=answer.with_headers(content_length=str(int(length) - 1)))


@fault(
    "http.length-and-chunks",
    layer=Layer.HTTP,
    breaks={"http.body.framed-exactly", "sse.header.no-length-or-encoding"},
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A stream is chunked and has a Content-Length as well."""
    return replace(answer, headers=answer.with_headers(content_length="4096")) if answer.stream else answer


@fault("http.encoding-untrue", layer=Layer.HTTP, breaks={"http.body.framed-exactly"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A proxy unpacked the body and left Content-Encoding: gzip in the head."""
    asked = not answer.stream and "gzip" in (ctx.http.header("accept-encoding") or "")
    return replace(answer, headers=answer.with_headers(content_encoding="gzip")) if asked else answer


@fault("http.gzip-unasked", layer=Layer.HTTP, breaks={"http.encoding.identity-respected"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """JSON bodies are compressed for clients that did not ask for it."""
    if answer.stream:
        return answer
    return with_body(answer, lambda data: gzip.compress(data, mtime=0), content_encoding="gzip")


@fault(
    "http.no-request-id",
    layer=Layer.HTTP,
    breaks={"http.request-id.present"},
    cases=("B1-107",),
    source="https://github.com/vllm-project/vllm/issues/9593",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Answers carry no X-Request-Id header."""
    return replace(answer, headers=answer.with_headers(x_request_id=None))
