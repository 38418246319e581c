"""HTTP requests misunderstood, and ids and connections mistreated."""

import json
from collections.abc import Iterator
from dataclasses import replace

from ..answer import Close, Frame, Framing, How, HttpAnswer, HttpRequest, Step
from . import Context, Layer, fault
from .http import stream_was_asked, with_body


def _refuse(answer: HttpAnswer, status: int, reason: str, message: str) -> HttpAnswer:
    """A well-formed refusal in place of an answer."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    data = json.dumps({"error": error}).encode()
    headers = answer.with_headers(
        content_type="application/json",
        content_length=str(len(data)),
        transfer_encoding=None,
        cache_control=None,
        x_accel_buffering=None,
    )
    return HttpAnswer(status, reason, headers, iter([Frame(data)]), Framing.LENGTH)


def _not_streamed(request: HttpRequest) -> HttpRequest:
    try:
        asked = json.loads(request.body)
    except ValueError:
        return request
    if not isinstance(asked, dict) or asked.get("stream") is not True:
        return request
    asked = {k: v for k, v in asked.items() if k not in ("stream", "stream_options")}
    return replace(request, body=json.dumps(asked).encode())


def _wants_json(request: HttpRequest) -> bool:
    return (request.header("accept") or "").startswith("application/json")


@fault("http.accept-json-406", layer=Layer.HTTP, breaks={"http.accept.json-still-streams"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A stream for `Accept: application/json` is refused with 406."""
    refused = answer.stream and _wants_json(ctx.http)
    return _refuse(answer, 406, "Not Acceptable", "This answer is text/event-stream.") if refused else answer


@fault("http.accept-json-downgrades", layer=Layer.REQUEST, breaks={"http.accept.json-still-streams"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """`Accept: application/json` turns a stream into one JSON body."""
    return _not_streamed(request) if _wants_json(request) else request


@fault("http.stream-ignored", layer=Layer.REQUEST, breaks={"http.stream.honoured", "http.accept.json-still-streams"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """`stream: true` is ignored: one JSON body answers it."""
    return _not_streamed(request)


@fault("http.sdk-headers-refused", layer=Layer.HTTP, breaks={"http.headers.unknown-ignored"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A header that the server does not know gets a 400."""
    unknown = any(name.lower().startswith("x-stainless") for name, _ in ctx.http.headers)
    return _refuse(answer, 400, "Bad Request", "Unknown header X-Stainless-Lang.") if unknown else answer


@fault("http.charset-refused", layer=Layer.HTTP, breaks={"http.content-type.parameters-accepted"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """`application/json; charset=utf-8` gets a 415."""
    odd = (ctx.http.header("content-type") or "application/json") != "application/json"
    return _refuse(answer, 415, "Unsupported Media Type", "Send application/json.") if odd else answer


@fault(
    "http.prompt-mojibake",
    layer=Layer.REQUEST,
    breaks={
        "schema.unicode.exact",
        "schema.keys.exact",
        "schema.keyword.string",
        "tokenize.detokenize.inverts",
        "http.body.unicode-equal",
        "usage.prompt.independent",
        "tool.arguments.unicode-exact",
        "tool.argument.markers-survive",
        "tool.strict.valid",
    },
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The request body is read as Latin-1: every UTF-8 letter becomes two or more."""
    return replace(request, body=request.body.decode("latin-1").encode())


@fault("http.surrogate-pairs-refused", layer=Layer.HTTP, breaks={"http.body.unicode-equal"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A surrogate pair in the request gets a 400."""
    pair = b"\\ud83d" in ctx.http.body
    return _refuse(answer, 400, "Bad Request", "Invalid escape in the body.") if pair else answer


@fault("http.no-request-id-on-errors", layer=Layer.HTTP, breaks={"http.request-id.present"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Errors carry no X-Request-Id header."""
    return replace(answer, headers=answer.with_headers(x_request_id=None)) if answer.status >= 400 else answer


@fault("http.request-id-replaced", layer=Layer.HTTP, breaks={"http.request-id.propagated"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The client's X-Request-Id is replaced by a new one."""
    if ctx.http.header("x-request-id") is None:
        return answer
    return replace(answer, headers=answer.with_headers(x_request_id=ctx.config.ids("req_")))


@fault("http.request-id-constant", layer=Layer.HTTP, breaks={"http.request-id.unique"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Every answer has the same X-Request-Id."""
    if ctx.http.header("x-request-id") is not None:
        return answer
    return replace(answer, headers=answer.with_headers(x_request_id="req_00000000"))


@fault("http.get-chat-succeeds", layer=Layer.HTTP, breaks={"http.method.unsupported-refused"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """GET on the chat endpoint answers 200, as if all were well."""
    if answer.status != 405:
        return answer
    ok = replace(answer, status=200, reason="OK", headers=answer.with_headers(allow=None))
    return with_body(ok, lambda data: b'{"status":"ok"}')


@fault("http.method-crashes", layer=Layer.HTTP, breaks={"http.method.unsupported-refused"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """An unsupported method gets a 500."""
    if answer.status != 405:
        return answer
    return replace(answer, status=500, reason="Internal Server Error", headers=answer.with_headers(allow=None))


@fault("http.no-allow", layer=Layer.HTTP, breaks={"http.method.allow-named"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A 405 does not say which methods are allowed."""
    return replace(answer, headers=answer.with_headers(allow=None)) if answer.status == 405 else answer


@fault("http.close-announced", layer=Layer.HTTP, breaks={"http.connection.reusable"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Every stream ends its connection: legal, and slow for clients."""
    return replace(answer, headers=answer.with_headers(connection="close")) if answer.stream else answer


@fault("http.close-silent", layer=Layer.SOCKET, breaks={"http.connection.reusable"})
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """The connection closes after a stream without an announcement."""
    for step in steps:
        yield Close(How.END) if ctx.stream and isinstance(step, Close) else step


@fault("http.close-framing", layer=Layer.HTTP, breaks={"http.connection.reusable"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Streams have neither chunks nor a length: the end of the connection ends them, as in HTTP/1.0 (legal)."""
    if not answer.stream:
        return answer
    headers = answer.with_headers(transfer_encoding=None, connection="close")
    return replace(answer, headers=headers, framing=Framing.CLOSE)


@fault("http.too-large-reset", layer=Layer.SOCKET, breaks={"http.body.too-large-refused"})
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """A body that is too large resets the connection."""
    if ctx.status == 413:
        yield Close(How.RESET)
    else:
        yield from steps


@fault(
    "http.too-large-crashes",
    layer=Layer.HTTP,
    breaks={"http.body.too-large-refused"},
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A body that is too large gets a 500."""
    return replace(answer, status=500, reason="Internal Server Error") if answer.status == 413 else answer


_BEFORE = "https://github.com/openai/openai-python"


@fault("http.error-200-json", layer=Layer.HTTP, breaks={"sse.error.before-stream-is-4xx"}, source=_BEFORE)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A refused stream request gets the error as JSON with status 200."""
    refused = answer.status >= 400 and stream_was_asked(ctx)
    return replace(answer, status=200, reason="OK") if refused else answer


@fault(
    "http.error-200-stream",
    layer=Layer.HTTP,
    breaks={"sse.error.before-stream-is-4xx"},
    source="https://github.com/vllm-project/vllm",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A refused stream request gets a 200 stream whose first event is the error, as vLLM does for bad schemas."""
    if answer.status < 400 or not stream_was_asked(ctx):
        return answer
    ok = replace(answer, status=200, reason="OK", headers=answer.with_headers(cache_control="no-cache"))
    changed = with_body(
        ok,
        lambda data: b"data: %s\n\ndata: [DONE]\n\n" % data,
        content_type="text/event-stream",
        x_accel_buffering="no",
    )
    headers = changed.with_headers(content_length=None, transfer_encoding="chunked")
    return replace(changed, headers=headers, framing=Framing.CHUNKED, stream=True)


@fault("http.error-as-event-stream", layer=Layer.HTTP, breaks={"sse.error.before-stream-is-4xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A refused stream request gets its 4xx as an event stream."""
    if answer.status < 400 or not stream_was_asked(ctx):
        return answer
    return with_body(answer, lambda data: b"data: %s\n\n" % data, content_type="text/event-stream")
