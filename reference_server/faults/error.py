"""Error bodies of other shapes, and what their messages give away. (Shapes of 401s stand in auth.py.)"""

from collections.abc import Callable
from typing import Any

from ..answer import HttpAnswer
from . import Context, Layer, fault
from .http import with_body

Body = dict[str, Any]


def _each_error(body: Body, ctx: Context, change: Callable[[Body], Any]) -> Body:
    """An error body (but that of a 401) with another error object."""
    if ctx.status < 400 or ctx.status == 401 or not isinstance(body.get("error"), dict):
        return body
    return {**body, "error": change(body["error"])}


def _changed(body: Body, ctx: Context, **members: Any) -> Body:
    return _each_error(body, ctx, lambda error: {**error, **members})


@fault(
    "error.flat",
    layer=Layer.MESSAGE,
    breaks={"error.envelope.object", "schema.bad.envelope"},
    cases=("B1-116",),
    source="https://github.com/InternLM/lmdeploy/pull/2333",
)
def _(body: Body, ctx: Context) -> Body:
    """The error lies flat in the body, as in SGLang and old vLLM."""
    changed = _each_error(body, ctx, lambda error: {"object": "error", **error, "code": ctx.status})
    return body if changed is body else changed["error"]


@fault("error.string", layer=Layer.MESSAGE, breaks={"error.envelope.object", "schema.bad.envelope"})
def _(body: Body, ctx: Context) -> Body:
    """`error` is the message itself."""
    return _each_error(body, ctx, lambda error: error["message"])


@fault("error.detail", layer=Layer.MESSAGE, breaks={"error.envelope.object"})
def _(body: Body, ctx: Context) -> Body:
    """An unknown path or method gets FastAPI's own answer, as in vLLM and LiteLLM."""
    return {"detail": "Not Found"} if ctx.status in (404, 405) and ctx.chat is None and _routed(body) else body


def _routed(body: Body) -> bool:
    code = body["error"]["code"] if isinstance(body.get("error"), dict) else None
    return code in ("unknown_url", "method_not_allowed")


@fault("error.no-body", layer=Layer.HTTP, breaks={"error.media.json"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """An unknown path gets a status and nothing else."""
    return with_body(answer, lambda data: b"", content_type=None) if answer.status == 404 else answer


@fault("error.no-param", layer=Layer.MESSAGE, breaks={"error.envelope.members"})
def _(body: Body, ctx: Context) -> Body:
    """The error has no param, as in llama.cpp."""
    return _each_error(body, ctx, lambda error: {k: v for k, v in error.items() if k != "param"})


@fault("error.type-null", layer=Layer.MESSAGE, breaks={"error.envelope.members"})
def _(body: Body, ctx: Context) -> Body:
    """The type is null, as in LiteLLM."""
    return _changed(body, ctx, type=None)


@fault("error.message-empty", layer=Layer.MESSAGE, breaks={"error.envelope.members", "schema.bad.envelope"})
def _(body: Body, ctx: Context) -> Body:
    """The message is empty, as in vLLM 0.8.5 for `messages: []`."""
    return _changed(body, ctx, message="") if ctx.status == 400 else body


@fault(
    "error.pydantic-members",
    layer=Layer.MESSAGE,
    breaks={"error.envelope.members", "error.type.vocabulary"},
    cases=("B1-115",),
    source="https://github.com/ray-project/ray/issues/64833",
)
def _(body: Body, ctx: Context) -> Body:
    """type is the validator's kind of error, and param the value that was sent."""
    return _changed(body, ctx, type="list_type", param={"role": "user"}) if ctx.status == 400 else body


@fault("error.code-status", layer=Layer.MESSAGE, breaks={"error.code.string-or-null"})
def _(body: Body, ctx: Context) -> Body:
    """The code is the status once more, as a number."""
    known = "context_length_exceeded"
    return _each_error(body, ctx, lambda error: error if error["code"] == known else {**error, "code": ctx.status})


@fault("error.null-spelled", layer=Layer.MESSAGE, breaks={"error.null.not-spelled"})
def _(body: Body, ctx: Context) -> Body:
    """Null members hold the word "None", as in LiteLLM."""
    return _each_error(body, ctx, lambda error: {k: "None" if v is None else v for k, v in error.items()})


@fault("error.html", layer=Layer.HTTP, breaks={"error.media.json"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A proxy in front replaces the body of a 404 with a page of its own."""
    page = b"<html><body><h1>404 Not Found</h1></body></html>"
    return with_body(answer, lambda data: page, content_type="text/html") if answer.status == 404 else answer


@fault(
    "error.param-null",
    layer=Layer.MESSAGE,
    breaks={"error.param.names-it"},
    cases=("B1-121",),
    source="https://github.com/vllm-project/vllm/issues/30134",
)
def _(body: Body, ctx: Context) -> Body:
    """param is null, whatever was wrong."""
    return _changed(body, ctx, param=None)


@fault("error.param-inner-name", layer=Layer.MESSAGE, breaks={"error.param.names-it"})
def _(body: Body, ctx: Context) -> Body:
    """param is the engine's own name of the member: sampling_temperature for temperature."""
    param = body["error"].get("param") if isinstance(body.get("error"), dict) else None
    return _changed(body, ctx, param=f"sampling_{param}") if isinstance(param, str) else body


@fault("error.type-class", layer=Layer.MESSAGE, breaks={"error.type.vocabulary"})
def _(body: Body, ctx: Context) -> Body:
    """The type is the name of a Python class."""
    return _changed(body, ctx, type="BadRequestError")


@fault("error.trace", layer=Layer.MESSAGE, breaks={"error.message.no-internals"})
def _(body: Body, ctx: Context) -> Body:
    """The message ends with the place in the source where it was raised, as in SGLang."""
    where = '\n\n  File "/opt/server/lib/python3.12/http_server.py", line 1870, in chat'
    return _each_error(body, ctx, lambda error: {**error, "message": error["message"] + where})


@fault("error.exception-text", layer=Layer.MESSAGE, breaks={"error.message.no-internals"})
def _(body: Body, ctx: Context) -> Body:
    """The message is that of an uncaught exception."""
    return _changed(body, ctx, message="'str' object has no attribute 'get'") if ctx.status == 400 else body


@fault("error.echo", layer=Layer.MESSAGE, breaks={"error.message.bounded"})
def _(body: Body, ctx: Context) -> Body:
    """The message repeats the request."""
    sent = ctx.http.body[:20_000].decode("utf-8", errors="replace")
    return _each_error(body, ctx, lambda error: {**error, "message": f"{error['message']} Input: {sent}"})
