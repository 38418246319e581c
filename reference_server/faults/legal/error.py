"""Errors that look odd and are right, and requests that one server refuses and another answers."""

from dataclasses import replace
from typing import Any

from ...answer import HttpAnswer, HttpRequest
from .. import Context, Layer, fault
from ..request_edits import changed

Body = dict[str, Any]


def _is_error(body: Body, ctx: Context) -> bool:
    return ctx.status >= 400 and isinstance(body.get("error"), dict)


@fault("legal.error-more-members", layer=Layer.MESSAGE, breaks=())
def _(body: Body, ctx: Context) -> Body:
    """Errors carry members of the engine's own, inside and beside the error object."""
    if not _is_error(body, ctx):
        return body
    return {"error": {**body["error"], "n_ctx": 2048, "innererror": {"code": "X"}}, "request_id": "req_1"}


@fault("legal.error-text-charset", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The media type of an error names its charset."""
    if answer.status < 400:
        return answer
    return replace(answer, headers=answer.with_headers(content_type="application/json; charset=utf-8"))


@fault(
    "legal.error-vllm",
    layer=Layer.MESSAGE,
    breaks={"error.code.string-or-null", "error.type.vocabulary", "error.context.code"},
)
def _(body: Body, ctx: Context) -> Body:
    """Errors as vLLM writes them: a class as type, and the status as code."""
    if not _is_error(body, ctx):
        return body
    return {"error": {**body["error"], "type": "BadRequestError", "code": ctx.status}}


@fault("legal.error-closes", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A server ends the connection after an error, and says so."""
    return replace(answer, headers=answer.with_headers(connection="close")) if answer.status >= 400 else answer


@fault("legal.model-defaulted", layer=Layer.REQUEST, breaks=())
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A server with one model answers requests that name no model."""
    if request.path != "/v1/chat/completions":
        return request
    return changed(request, lambda body: body.setdefault("model", ctx.config.model) and None)


@fault("legal.one-model-for-all", layer=Layer.REQUEST, breaks={"error.model.unknown-exactly-404"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A server with one model answers to every name, and says which model it was."""

    def named(body: Body) -> None:
        if body.get("model") == "wireproof/no-such-model":
            body["model"] = ctx.config.model

    return changed(request, named)


@fault("legal.context-too-large", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A prompt that is too long is refused by its bytes, with 413."""
    if answer.status != 400 or not 500_000 < len(ctx.http.body) < 2_000_000:
        return answer
    return replace(answer, status=413, reason="Content Too Large")


@fault("legal.auth-scheme-realm", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The challenge names a realm and an error."""
    if answer.status != 401:
        return answer
    return replace(answer, headers=answer.with_headers(www_authenticate='Bearer realm="api", error="invalid_token"'))
