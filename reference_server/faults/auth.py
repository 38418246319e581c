"""Doors that are open, locked for those with a key, or locked in the wrong way; and what 401s say."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..answer import Framing, HttpAnswer, HttpRequest
from . import Context, Layer, fault
from .http import stream_was_asked
from .request_edits import crashed, replaced

Body = dict[str, Any]


def _given(request: HttpRequest) -> str:
    return request.header("authorization") or ""


def _with_key(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The request with the right key."""
    kept = tuple((k, v) for k, v in request.headers if k.lower() != "authorization")
    return replace(request, headers=(*kept, ("Authorization", f"Bearer {ctx.config.api_key}")))


def _wrong(request: HttpRequest, ctx: Context) -> bool:
    return _given(request).startswith("Bearer sk-") and _given(request) != f"Bearer {ctx.config.api_key}"


def _refused(answer: HttpAnswer, status: int = 401, reason: str = "Unauthorized") -> HttpAnswer:
    error = {"message": "Incorrect API key provided.", "type": "authentication_error", "param": None}
    made = replaced(answer, status, reason, {"error": {**error, "code": "invalid_api_key"}})
    return replace(made, headers=made.with_headers(www_authenticate="Bearer"))


@fault("auth.right-key-refused", layer=Layer.HTTP, breaks={"auth.bearer.accepted"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The right key is refused for some prompts, as by a gateway whose cache of keys is stale."""
    right = _given(ctx.http) == f"Bearer {ctx.config.api_key}"
    return _refused(answer) if right and b"Say hello in one short sentence." in ctx.http.body else answer


@fault("auth.open-without-key", layer=Layer.REQUEST, breaks={"auth.missing.401"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Requests without a key are let in."""
    return request if _given(request) else _with_key(request, ctx)


@fault("auth.missing-403", layer=Layer.HTTP, breaks={"auth.missing.401"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A request without a key gets a 403."""
    return replace(answer, status=403, reason="Forbidden") if answer.status == 401 and not _given(ctx.http) else answer


@fault("auth.any-key", layer=Layer.REQUEST, breaks={"auth.wrong.401"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Any key will do."""
    return _with_key(request, ctx) if _wrong(request, ctx) else request


@fault("auth.wrong-403", layer=Layer.HTTP, breaks={"auth.wrong.401"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A wrong key gets a 403."""
    return replace(answer, status=403, reason="Forbidden") if _wrong(ctx.http, ctx) else answer


@fault("auth.wrong-500", layer=Layer.HTTP, breaks={"auth.wrong.401"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A wrong key gets a 500: the database of keys is down."""
    return crashed(answer) if _wrong(ctx.http, ctx) else answer


@fault(
    "auth.string",
    layer=Layer.MESSAGE,
    breaks={"auth.body.envelope"},
    cases=("B1-117",),
    source="https://github.com/microsoft/autogen/pull/757",
)
def _(body: Body, ctx: Context) -> Body:
    """The error of a 401 is a string, as in vLLM and SGLang."""
    return {"error": "Unauthorized"} if ctx.status == 401 else body


@fault("auth.code-null", layer=Layer.MESSAGE, breaks={"auth.code.invalid-api-key"})
def _(body: Body, ctx: Context) -> Body:
    """The 401 has no code."""
    return {"error": {**body["error"], "code": None}} if ctx.status == 401 else body


@fault("auth.no-challenge", layer=Layer.HTTP, breaks={"auth.challenge.present"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A 401 does not name the scheme."""
    return replace(answer, headers=answer.with_headers(www_authenticate=None)) if answer.status == 401 else answer


@fault("auth.case-sensitive", layer=Layer.HTTP, breaks={"auth.scheme.case-insensitive"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Only `Bearer` will do, not `bearer`."""
    return _refused(answer) if _given(ctx.http).startswith("bearer") else answer


@fault("auth.stream-open", layer=Layer.REQUEST, breaks={"auth.stream.plain-401"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The streaming path does not check the key."""
    streamed = stream_was_asked(replace(ctx, http=request))
    return _with_key(request, ctx) if streamed and _wrong(request, ctx) else request


@fault("auth.body-first", layer=Layer.HTTP, breaks={"auth.before-body"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The server parses the body before it checks the key."""
    try:
        json.loads(ctx.http.body or b"{}")
    except ValueError:
        error = {"message": "The body is no JSON.", "type": "invalid_request_error", "param": None, "code": None}
        return replaced(answer, 400, "Bad Request", {"error": error}) if answer.status == 401 else answer
    return answer


@fault(
    "auth.side-door",
    layer=Layer.REQUEST,
    breaks={"auth.routes.alike"},
    cases=("B1-151",),
    source="https://github.com/waybarrios/vllm-mlx/issues/317",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A route beside the chat asks for no key."""
    return _with_key(request, ctx) if request.path == "/v1/tokenize" else request


@fault("auth.root-open", layer=Layer.REQUEST, breaks={"auth.routes.alike"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Only routes below /v1 ask for a key, and /tokenize is also at the root, as in vLLM."""
    return request if request.path.startswith("/v1/") else _with_key(request, ctx)


@fault("auth.models-open", layer=Layer.REQUEST, breaks={"auth.models.alike"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The list of models is open to everybody, as in llama.cpp."""
    return _with_key(request, ctx) if request.path == "/v1/models" else request


@fault("auth.malformed-500", layer=Layer.HTTP, breaks={"auth.malformed.no-5xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """An Authorization header without a token gets a 500: an index out of range."""
    return crashed(answer) if _given(ctx.http) == "Bearer" else answer


@fault("auth.scheme-ignored", layer=Layer.REQUEST, breaks={"auth.malformed.no-5xx"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Credentials of another scheme are let in unread."""
    return _with_key(request, ctx) if _given(request).startswith("Basic ") else request


@fault("auth.key-shown", layer=Layer.MESSAGE, breaks={"auth.message.no-key"})
def _(body: Body, ctx: Context) -> Body:
    """The 401 repeats the key that was sent."""
    if ctx.status != 401 or not _wrong(ctx.http, ctx):
        return body
    return {"error": {**body["error"], "message": f"Incorrect API key provided: {_given(ctx.http)[7:]}"}}


@fault("auth.dummy-refused", layer=Layer.REQUEST, breaks={"auth.dummy.ignored"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A server without keys refuses one that does not look like a key."""
    odd = _given(request) == "Bearer dummy"
    return request if odd else _with_key(request, ctx)


_BOTH = "Authorization, Content-Type"


def _offering(answer: HttpAnswer, ctx: Context, preflight: Callable[[], HttpAnswer], site: str = "*") -> HttpAnswer:
    """CORS on every answer, and an answer to OPTIONS."""
    if ctx.http.method == "OPTIONS":
        return preflight()
    return replace(answer, headers=answer.with_headers(access_control_allow_origin=site))


def _allowing(answer: HttpAnswer, names: str, site: str = "*") -> HttpAnswer:
    headers = answer.with_headers(
        content_type=None,
        content_length=None,
        www_authenticate=None,
        access_control_allow_origin=site,
        access_control_allow_methods="GET, POST, OPTIONS",
        access_control_allow_headers=names,
    )
    return HttpAnswer(204, "No Content", headers, iter(()), Framing.LENGTH)


@fault(
    "auth.preflight-401",
    layer=Layer.HTTP,
    breaks={"auth.cors.preflight"},
    cases=("B1-148",),
    source="https://github.com/ggml-org/llama.cpp/issues/6544",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """CORS is offered, but the preflight needs a key, which browsers never send."""
    return _offering(answer, ctx, lambda: answer)


@fault(
    "auth.preflight-405",
    layer=Layer.HTTP,
    breaks={"auth.cors.preflight"},
    cases=("B1-149",),
    source="https://github.com/lm-sys/RouteLLM/issues/43",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """CORS is offered, but OPTIONS is not supported."""
    return _offering(answer, ctx, lambda: _refused(answer, 405, "Method Not Allowed"))


@fault("auth.preflight-no-key", layer=Layer.HTTP, breaks={"auth.cors.preflight"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The preflight does not allow the authorization header."""
    return _offering(answer, ctx, lambda: _allowing(answer, "content-type"))


@fault("auth.preflight-star", layer=Layer.HTTP, breaks={"auth.cors.preflight"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The preflight allows every header with a star, which does not stand for Authorization."""
    return _offering(answer, ctx, lambda: _allowing(answer, "*"))


@fault("auth.preflight-another-key", layer=Layer.HTTP, breaks={"auth.cors.preflight"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The preflight allows X-Authorization, but not Authorization."""
    return _offering(answer, ctx, lambda: _allowing(answer, "X-Authorization, Content-Type"))


@fault("auth.preflight-another-site", layer=Layer.HTTP, breaks={"auth.cors.preflight"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Answers allow every site, the preflight only one that was configured once."""
    return _offering(answer, ctx, lambda: _allowing(answer, _BOTH, "https://chat.example.org"))


@fault("legal.cors-for-one-site", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """CORS is offered to one site only, and it is not the one that asks."""
    allowed = "https://chat.example.org"
    return _offering(answer, ctx, lambda: _allowing(answer, _BOTH, allowed), allowed)


@fault("legal.cors-star", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The preflight allows Authorization by name, and the others with a star."""
    return _offering(answer, ctx, lambda: _allowing(answer, "authorization, *"))


@fault("legal.cors", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """CORS is offered, even to requests without a key."""
    return _offering(answer, ctx, lambda: _allowing(answer, _BOTH))


@fault("legal.no-key-needed", layer=Layer.REQUEST, breaks=())
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A server without keys ignores whatever Authorization says."""
    return _with_key(request, ctx)
