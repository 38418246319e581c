"""Refusals that no request provokes from outside: a rate limit, a validator's 422, a crash, a server that is down.

What is right in itself happens to client libraries only, whose SDK names itself in every request: the fault matrix
has other requests, and other faults for them. What is wrong with a refusal is put on top: legal.client-429+error.flat.
"""

from typing import Any

from ..answer import ApiError, HttpAnswer
from ..request import ChatRequest
from . import Context, Layer, fault
from .http import with_body
from .request_edits import asked, messages, replaced

Body = dict[str, Any]
# What the SDK of OpenAI, and all that is built on it, sends; the scenario with its headers has it not.
_SDK = "x-stainless-runtime"


def _refused(chat: ChatRequest, ctx: Context, error: ApiError) -> ChatRequest:
    """The request as it is, unless a client library sent it."""
    if ctx.http.header(_SDK):
        raise error
    return chat


def _after(seconds: int) -> tuple[tuple[str, str], ...]:
    return (("retry-after", str(seconds)),)


@fault("legal.client-422", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A client's request fails validation: a 422 as FastAPI sends it, in the envelope of OpenAI."""
    said = "Input should be less than or equal to 8"
    return _refused(chat, ctx, ApiError(422, said, param="max_tokens", code="less_than_equal"))


@fault("legal.client-429", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A client sends too many requests: 429 with Retry-After."""
    said, code = "Rate limit reached for requests: 60 a minute.", "rate_limit_exceeded"
    return _refused(chat, ctx, ApiError(429, said, kind="rate_limit_error", code=code, headers=_after(7)))


@fault("legal.client-500", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A client's request fails inside the server, which says so."""
    said = "The engine has stopped while it worked on this request."
    return _refused(chat, ctx, ApiError(500, said, kind="server_error", code="engine_dead"))


@fault("legal.client-503", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A client's request arrives while the model is still loading: 503 with Retry-After."""
    said = "The model is being loaded."
    return _refused(chat, ctx, ApiError(503, said, kind="server_error", code="model_loading", headers=_after(5)))


# -- what is wrong with a refusal ------------------------------------------------------------


def _page(answer: HttpAnswer) -> HttpAnswer:
    text = f"<html><body><h1>{answer.status} {answer.reason}</h1><hr>nginx</body></html>"
    return with_body(answer, lambda data: text.encode(), content_type="text/html")


@fault("error.page", layer=Layer.HTTP, breaks={"error.media.json", "error.overload.retry-after"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A proxy has a page of its own for 429 and 5xx, and answers half of a flood with it."""
    said = " ".join(str(m.get("content")) for m in messages(asked(ctx.http)))
    if said.endswith(tuple(f"number {n}" for n in range(16, 32))):
        answer = replaced(answer, 503, "Service Unavailable", {})
    return _page(answer) if answer.status == 429 or answer.status >= 500 else answer


@fault("error.message-missing", layer=Layer.MESSAGE, breaks={"error.envelope.members", "schema.bad.envelope"})
def _(body: Body, ctx: Context) -> Body:
    """The error has no message, only a type and a code."""
    error = body.get("error")
    if ctx.status < 400 or ctx.status == 401 or not isinstance(error, dict):
        return body
    return {**body, "error": {k: v for k, v in error.items() if k != "message"}}


@fault(
    "error.detail-422",
    layer=Layer.HTTP,
    breaks={"error.envelope.object", "error.invalid.exactly-400", "schema.bad.envelope"},
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A request that fails validation gets FastAPI's own answer, as in a server that did not replace it."""
    if answer.status not in (400, 422) or ctx.http.path != "/v1/chat/completions":
        return answer
    detail = [{"type": "missing", "loc": ["body", "messages"], "msg": "Field required", "input": {}}]
    return replaced(answer, 422, "Unprocessable Entity", {"detail": detail})


@fault(
    "error.members-beside",
    layer=Layer.MESSAGE,
    breaks={"error.envelope.members", "error.model.code", "error.context.code"},
)
def _(body: Body, ctx: Context) -> Body:
    """Code and param stand beside the error, where no client looks for them."""
    error = body.get("error")
    if ctx.status < 400 or ctx.status == 401 or not isinstance(error, dict):
        return body
    return {
        "error": {"message": error["message"], "type": error["type"]},
        "code": error["code"],
        "param": error["param"],
    }
