"""What operators do to a server, or a server says of itself, and is right."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...answer import HttpAnswer, Piece
from .. import Context, Layer, fault
from ..cancel import deaf_for
from ..http import is_plain, with_body
from ..operations import nginx, refused
from ..operations_encoding import accepts, packed


@fault("legal.behind-nginx", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A proxy writes its name into the head, and passes each event on at once."""
    return nginx(answer, via="1.1 gateway")


@fault("legal.deprecation-announced", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A deprecation is announced, with its date and the day of its end."""
    if not is_plain(answer, ctx):
        return answer
    headers = answer.with_headers(deprecation="@1780272000", sunset="Thu, 31 Dec 2026 23:59:59 GMT")
    return replace(answer, headers=headers)


@fault("legal.no-metrics", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """/metrics and /health do not exist, as at api.openai.com."""
    if ctx.http.path not in ("/metrics", "/health"):
        return answer
    return refused(answer, 404, "Not Found", f"Unknown request URL: GET {ctx.http.path}.", "unknown_url")


def _rewritten(answer: HttpAnswer, ctx: Context, pairs: dict[bytes, bytes]) -> HttpAnswer:
    if ctx.http.path != "/metrics" or answer.status != 200:
        return answer

    def change(text: bytes) -> bytes:
        for old, new in pairs.items():
            text = text.replace(old, new)
        return text

    return with_body(answer, change)


@fault("legal.metrics-of-sglang", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The gauges have SGLang's names, and no counter says how an answer ended."""
    names = {
        b"vllm:num_requests_running": b"sglang:num_running_reqs",
        b"vllm:num_requests_waiting": b"sglang:num_queue_reqs",
        b"vllm:kv_cache_usage_perc": b"sglang:token_usage",
        b"vllm:generation_tokens_total": b"sglang:generation_tokens_total",
        b"vllm:request_success_total": b"sglang:num_requests_by_reason",
    }
    return _rewritten(answer, ctx, names)


@fault("legal.metrics-of-llama-cpp", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The gauges have llama.cpp's names, without labels."""
    if ctx.http.path != "/metrics" or answer.status != 200:
        return answer
    names = {
        b"vllm:num_requests_running": b"llamacpp:requests_processing",
        b"vllm:num_requests_waiting": b"llamacpp:requests_deferred",
        b"vllm:generation_tokens_total": b"llamacpp:tokens_predicted_total",
    }
    answer = _rewritten(answer, ctx, names)
    return with_body(answer, lambda text: re.sub(rb"^(llamacpp:\w+)\{[^}]*\}", rb"\1", text, flags=re.M))


@fault("legal.gauge-of-many-engines", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Each of two engines behind the server has its series; other metrics, NaN and old lines stand between them."""
    more = (
        b'vllm:num_requests_running{engine="1",model_name="a \\"b\\" }c"} 0.0\n'
        b'vllm:num_requests_waiting{engine="1"} 0 1700000000000\n'
        b"vllm:time_to_first_token_seconds_sum NaN\nno sample at all\n# HELP x\n"
    )
    is_metrics = ctx.http.path == "/metrics" and answer.status == 200
    return with_body(answer, lambda text: text + more) if is_metrics else answer


@fault("legal.aborts-after-1s", layer=Layer.MODEL, breaks=())
def _(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
    """The server notices only at its next check, a second later, that a client has left."""
    return deaf_for(pieces, ctx, 1.0)


@fault("legal.gzip-415", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A compressed request body is refused with 415."""
    packed = ctx.http.header("content-encoding") is not None
    return refused(answer, 415, "Unsupported Media Type", "Send the body as it is.") if packed else answer


@fault("legal.same-id-refused", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Of requests that share an X-Request-Id one is answered, the others are refused."""
    twice = ctx.http.header("x-request-id") == "wireproof-shared-1" and b"quartz-16" not in ctx.http.body
    return refused(answer, 409, "Conflict", "A request with this id is running.") if twice else answer


@fault("legal.cached-tokens-now-and-then", layer=Layer.MESSAGE, breaks={"usage.details.integers"})
def _(body: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """prompt_tokens_details is null unless part of the prompt was in the cache, as in vLLM."""
    usage = body.get("usage")
    if not isinstance(usage, dict) or str(body.get("id"))[-1:] in "13579bdf":
        return body
    return {**body, "usage": {**usage, "prompt_tokens_details": None}}


@fault("legal.cached-details-when-cached", layer=Layer.MESSAGE, breaks=())
def _(body: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """prompt_tokens_details is present only when part of the prompt was in the cache: from a second answer on."""
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return body
    details = usage.get("prompt_tokens_details")
    if isinstance(details, dict) and details.get("cached_tokens"):
        return body
    return {**body, "usage": {k: v for k, v in usage.items() if k != "prompt_tokens_details"}}


@fault("legal.version-headers", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Every answer has OpenAI's version header; in chat answers it is the version that their query asks for."""
    asked = re.search(r"[?&]api-version=([^&]+)", ctx.http.target)
    named = {"api_version": asked.group(1)} if asked else {}
    return replace(answer, headers=answer.with_headers(openai_version="2020-10-01", **named))


@fault("legal.br-flushed", layer=Layer.HTTP, breaks={"sse.header.no-length-or-encoding"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A stream is compressed with br for a client that takes it, and flushed after each event: legal, and risky."""
    return packed(answer, "br", bool) if answer.stream and accepts(ctx, "br") else answer


@fault("legal.gzip-flushed-now-and-then", layer=Layer.HTTP, breaks={"sse.header.no-length-or-encoding"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A stream is compressed with gzip and flushed after every few events, as by a server that sends what it has."""
    return packed(answer, "gzip", lambda held: held > 700) if answer.stream and accepts(ctx, "gzip") else answer
