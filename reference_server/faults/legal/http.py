"""HTTP that looks odd and is right: nothing may fail here."""

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import replace

from ...answer import Emit, Frame, Framing, HttpAnswer, Step
from .. import Context, Layer, fault
from ..http import with_body


def _is_json(answer: HttpAnswer) -> bool:
    """Whether it is one JSON text (the metrics are none)."""
    return not answer.stream and ("content-type", "application/json") in answer.headers


def _accepts(ctx: Context, coding: str) -> bool:
    return coding in (ctx.http.header("accept-encoding") or "")


@fault("legal.gzip-accepted", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """JSON bodies are compressed for clients that take gzip."""
    if answer.stream or not _accepts(ctx, "gzip"):
        return answer
    return with_body(answer, lambda data: gzip.compress(data, mtime=0), content_encoding="gzip", vary="accept-encoding")


@fault("legal.deflate-accepted", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """JSON bodies are deflated for clients that take that."""
    if answer.stream or not _accepts(ctx, "deflate"):
        return answer
    return with_body(answer, zlib.compress, content_encoding="deflate")


@fault("legal.chunked-json", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Plain bodies are chunked as well, in pieces that cut characters."""
    if answer.stream:
        return answer
    data = b"".join(frame.data for frame in answer.body)
    pieces = [Frame(data[i : i + 7]) for i in range(0, len(data), 7)]
    headers = answer.with_headers(content_length=None, transfer_encoding="chunked")
    return replace(answer, headers=headers, body=iter(pieces), framing=Framing.CHUNKED)


@fault("legal.chunk-extensions", layer=Layer.SOCKET, breaks=())
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """Chunk sizes have extensions, and a trailer follows the last chunk."""
    head = True
    for step in steps:
        # (What is empty lets time pass: a stream that waits for a place.)
        if not ctx.stream or not isinstance(step, Emit) or head or not step.data:
            head = head and not isinstance(step, Emit)
            yield step
        elif step.data == b"0\r\n\r\n":
            yield replace(step, data=b"0;last\r\nx-tokens: 12\r\n\r\n")
        else:
            size, line_end, rest = step.data.partition(b"\r\n")
            yield replace(step, data=b"00" + size.upper() + b';name="value"' + line_end + rest)


@fault("legal.charset-and-case", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Media types are written in odd case and have a charset; so are the names of the headers."""
    if not (answer.stream or _is_json(answer)):
        return answer
    media = "Text/Event-Stream;charset=UTF-8" if answer.stream else "Application/JSON ; charset=utf-8"
    headers = answer.with_headers(content_type=media)
    return replace(answer, headers=tuple((name.upper(), value) for name, value in headers))


@fault("legal.extra-headers", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Answers carry headers of a gateway, some of them twice and one of them empty."""
    more = (("openai-processing-ms", "12"), ("via", "1.1 a"), ("via", "1.1 b"), ("x-empty", ""), ("set-cookie", "a=b"))
    return replace(answer, headers=(*answer.headers, *more))


@fault("legal.no-reason-phrase", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The status line has no reason phrase."""
    return replace(answer, reason="")


@fault("legal.interim-response", layer=Layer.SOCKET, breaks=())
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """A 103 with early hints goes ahead of the answer."""
    yield Emit(b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n")
    yield from steps


@fault("legal.json-whitespace", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Plain bodies are indented and end with a newline."""
    if not _is_json(answer):
        return answer
    return with_body(answer, lambda data: json.dumps(json.loads(data), indent=2, ensure_ascii=False).encode() + b"\n")


@fault("legal.ascii-escapes", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Plain bodies are ASCII, with escapes and whole surrogate pairs."""
    return with_body(answer, lambda data: json.dumps(json.loads(data)).encode()) if _is_json(answer) else answer


@fault("legal.one-byte-packets", layer=Layer.SOCKET, breaks=())
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """Every byte travels by itself, so that characters, lines and chunk sizes are cut everywhere."""
    for step in steps:
        if not isinstance(step, Emit) or not step.data:
            yield step
            continue
        for number in range(len(step.data)):
            yield Emit(step.data[number : number + 1], 0.0 if number else step.after)


@fault("legal.request-id-longer", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The client's request id comes back in X-Client-Request-Id, beside the server's own."""
    given = ctx.http.header("x-request-id")
    if given is None:
        return answer
    headers = answer.with_headers(x_request_id=ctx.config.ids("req_"), x_client_request_id=given)
    return replace(answer, headers=headers)
