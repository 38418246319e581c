"""Formats and schemas that are passed over, refused without need, or not survived."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..answer import ApiError, Close, How, HttpAnswer, HttpRequest, Step, invalid
from ..request import ChatRequest, ResponseFormat
from . import Context, Layer, fault
from .schema import is_level

Body = dict[str, Any]


def _body(http: HttpRequest) -> Body:
    """The request's JSON object; empty when it is none."""
    try:
        value = json.loads(http.body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _rewritten(http: HttpRequest, change: Callable[[Body], Body | None]) -> HttpRequest:
    """The request with another response_format, or (None) without one; those without one as they are."""
    body = _body(http)
    form = body.get("response_format")
    if not isinstance(form, dict):
        return http
    wanted = change(form)
    if wanted is form:
        return http
    changed = {k: v for k, v in body.items() if k != "response_format"}
    if wanted is not None:
        changed["response_format"] = wanted
    return replace(http, body=json.dumps(changed).encode())


def _schema_of(http: HttpRequest) -> str:
    """The schema of the request as text; "" when there is none."""
    form = _body(http).get("response_format")
    inner = form.get("json_schema") if isinstance(form, dict) else None
    return json.dumps(inner.get("schema")) if isinstance(inner, dict) else ""


def _free(chat: ChatRequest) -> ChatRequest:
    return replace(chat, response_format=ResponseFormat())


def _prose_wanted(chat: ChatRequest) -> bool:
    return any("No JSON" in (m.content or "") for m in chat.messages)


# -- passed over -------------------------------------------------------------------------


@fault(
    "schema.ignored",
    layer=Layer.PARAMS,
    breaks={"schema.strict.not-silently-ignored"},
    cases=("B2-150", "B2-151"),
    source="https://github.com/ROCm/FastFlowLM/issues/554",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A strict schema is accepted and has no effect on a plain answer whose prompt wants prose."""
    return _free(chat) if is_level(ctx) else chat


@fault(
    "schema.ignored-in-stream",
    layer=Layer.PARAMS,
    breaks={"schema.stream.same-guarantee", "chunk.content.increments", "chunk.parity.with-plain"},
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A strict schema is accepted and has no effect on a stream."""
    return _free(chat) if _prose_wanted(chat) and chat.stream else chat


@fault("schema.type-forced", layer=Layer.PARAMS, breaks={"schema.text.same-as-absent"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Any response_format turns JSON mode on, "text" too."""
    form = chat.body.get("response_format")
    text = isinstance(form, dict) and form.get("type") == "text"
    return replace(chat, response_format=ResponseFormat("json_object")) if text else chat


@fault("schema.unknown-type-ignored", layer=Layer.REQUEST, breaks={"schema.format.unknown-refused"})
def _(http: HttpRequest, ctx: Context) -> HttpRequest:
    """An unknown response_format is ignored."""
    known = ("text", "json_object", "json_schema")
    return _rewritten(http, lambda form: form if form.get("type") in known else None)


@fault("schema.without-object-500", layer=Layer.HTTP, breaks={"schema.format.unknown-refused"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """json_schema without its object ends in a server error (vLLM 0.8.5 and 0.10.2)."""
    form = _body(ctx.http).get("response_format")
    if form == {"type": "json_schema"} and answer.status == 400:
        return replace(answer, status=500, reason="Internal Server Error")
    return answer


def _renamed(form: Body) -> Body:
    inner = form.get("json_schema")
    if not isinstance(inner, dict):
        return form
    name = inner.get("name")
    good = isinstance(name, str) and len(name) <= 64 and "." not in name
    return form if good else {**form, "json_schema": {**inner, "name": "answer"}}


@fault("schema.name-unchecked", layer=Layer.REQUEST, breaks={"schema.name.checked"})
def _(http: HttpRequest, ctx: Context) -> HttpRequest:
    """A schema may have any name, or none."""
    return _rewritten(http, _renamed)


def _lenient(form: Body) -> Body | None:
    inner = form.get("json_schema")
    if isinstance(inner, str):
        return None
    if isinstance(inner, dict) and isinstance(inner.get("schema"), list):
        return None
    if isinstance(inner, dict) and isinstance(inner.get("strict"), str):
        return {**form, "json_schema": {**inner, "strict": True}}
    return form


@fault("schema.types-unchecked", layer=Layer.REQUEST, breaks={"schema.spec.invalid-refused"})
def _(http: HttpRequest, ctx: Context) -> HttpRequest:
    """Members of json_schema with the wrong type are read somehow, or ignored."""
    return _rewritten(http, _lenient)


@fault("schema.missing-is-free", layer=Layer.PARAMS, breaks={"schema.spec.invalid-refused"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """json_schema without a schema gives free text (vLLM 0.8.5 and 0.10.2)."""
    form = chat.body.get("response_format")
    inner = form.get("json_schema") if isinstance(form, dict) else None
    return _free(chat) if isinstance(inner, dict) and "schema" not in inner else chat


_NONE = ("banana", "#/$defs/nope", '"pattern": "([a-z"', '"level": "low"}')


def _is_none(http: HttpRequest) -> bool:
    schema = _schema_of(http)
    return any(sign in schema for sign in _NONE)


@fault("schema.bad-ignored", layer=Layer.REQUEST, breaks={"schema.bad.refused-and-survives"})
def _(http: HttpRequest, ctx: Context) -> HttpRequest:
    """An invalid schema is ignored."""
    return _rewritten(http, lambda form: None) if _is_none(http) else http


# -- not survived ------------------------------------------------------------------------


@fault("schema.bad-500", layer=Layer.HTTP, breaks={"schema.bad.refused-and-survives"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """An invalid schema ends in a server error."""
    if _is_none(ctx.http) and answer.status == 400:
        return replace(answer, status=500, reason="Internal Server Error")
    return answer


@fault(
    "schema.bad-resets",
    layer=Layer.SOCKET,
    breaks={"schema.bad.refused-and-survives"},
    cases=("B2-155",),
    source="https://github.com/sgl-project/sglang/issues/4574",
)
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """An odd schema kills the worker: the connection breaks without an answer."""
    if '"items": [' in _schema_of(ctx.http):
        return iter([Close(How.RESET)])
    return steps


@fault(
    "schema.control-dies",
    layer=Layer.SOCKET,
    breaks={"schema.control.survives", "http.body.framed-exactly"},
    cases=("B2-155",),
    source="https://github.com/vllm-project/vllm/issues/17248",
)
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """After a bad schema the engine is gone: the next request gets no answer."""
    if b"I am still here" in ctx.http.body:
        return iter([Close(How.RESET)])
    return steps


@fault("schema.bad-detail", layer=Layer.MESSAGE, breaks={"schema.bad.envelope", "error.envelope.object"})
def _(body: Body, ctx: Context) -> Body:
    """The error about a schema stands in a `detail` of its own form."""
    return {"detail": body["error"]["message"]} if ctx.status == 400 and _is_none(ctx.http) else body


# -- refused without need ----------------------------------------------------------------


def _refusing(
    name: str,
    summary: str,
    breaks: set[str],
    when: Callable[[ChatRequest, Context], bool],
    error: ApiError,
    **more: Any,
) -> None:
    """A fault that answers some good requests with an error."""

    def apply(chat: ChatRequest, ctx: Context) -> ChatRequest:
        if when(chat, ctx):
            raise error
        return chat

    apply.__doc__ = summary
    fault(name, layer=Layer.PARAMS, breaks=breaks, **more)(apply)


def _form(chat: ChatRequest) -> Body:
    found = chat.body.get("response_format")
    return found if isinstance(found, dict) else {}


def _inner(chat: ChatRequest) -> Body:
    found = _form(chat).get("json_schema")
    return found if isinstance(found, dict) else {}


def _root(chat: ChatRequest) -> Body:
    schema = chat.response_format.schema
    return schema if isinstance(schema, dict) and kind_of(chat) == "json_schema" else {}


def kind_of(chat: ChatRequest) -> str:
    """What was asked for."""
    return chat.response_format.kind


_BAD = invalid("Invalid schema for response_format: unsupported.", "response_format", "invalid_schema")
_CRASH = ApiError(500, "Internal server error.", kind="server_error")

_refusing(
    "schema.description-refused",
    "A json_schema with a description is refused: extra members are forbidden.",
    {"schema.format.accepted"},
    lambda chat, ctx: "description" in _inner(chat),
    _BAD,
)
_refusing(
    "schema.strict-null-refused",
    "strict: null is refused: not a boolean.",
    {"schema.strict.false-or-null-accepted"},
    lambda chat, ctx: "strict" in _inner(chat) and _inner(chat)["strict"] is None,
    _BAD,
)
_refusing(
    "schema.text-refused",
    'response_format {"type": "text"} is refused.',
    {"schema.text.same-as-absent"},
    lambda chat, ctx: _form(chat).get("type") == "text",
    invalid("'response_format.type' must be 'json_schema'.", "response_format"),
    cases=("B2-154",),
    source="https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/189",
)
_refusing(
    "schema.recursion-refused",
    "A schema that refers to itself is refused.",
    {"schema.recursive.supported"},
    lambda chat, ctx: '"$ref": "#"' in json.dumps(_root(chat)),
    _BAD,
)
_refusing(
    "schema.large-refused",
    "An enum of more than 250 values is refused.",
    {"schema.large.accepted"},
    lambda chat, ctx: len(ctx.http.body) > 10_000 and kind_of(chat) == "json_schema",
    _BAD,
)
_refusing(
    "schema.root-crash",
    "A schema whose root is not an object ends in a server error.",
    {"schema.openai-subset.refused-or-enforced"},
    lambda chat, ctx: _root(chat).get("type") == "array",
    _CRASH,
)
_refusing(
    "schema.word-crash",
    "json_object without the word JSON in the messages ends in a server error.",
    {"schema.object.without-word-json"},
    lambda chat, ctx: kind_of(chat) == "json_object" and not any("JSON" in (m.content or "") for m in chat.messages),
    _CRASH,
)
_refusing(
    "schema.with-tools-crash",
    "A schema and tools together end in a server error.",
    {"schema.tools.together", "tool.choice.no-5xx"},
    lambda chat, ctx: kind_of(chat) == "json_schema" and bool(chat.tools),
    _CRASH,
    cases=("B2-165",),
    source="https://github.com/ggml-org/llama.cpp/issues/27114",
)
_refusing(
    "schema.with-tools-unclear",
    "A schema and tools together are refused with an error about a grammar that the user did not write.",
    {"schema.tools.together"},
    lambda chat, ctx: kind_of(chat) == "json_schema" and bool(chat.tools),
    invalid("Failed to parse grammar: unexpected end of input at rule 17"),
    cases=("B2-165",),
    source="https://github.com/ggml-org/llama.cpp/issues/27114",
)


_refusing(
    "schema.with-logprobs-crash",
    "A schema and log probabilities together end in a server error.",
    {"schema.logprobs.together", "logprob.combined.no-5xx"},
    lambda chat, ctx: kind_of(chat) == "json_schema" and chat.logprobs and chat.response_format.name == "level",
    _CRASH,
)


# -- together ----------------------------------------------------------------------------


@fault(
    "schema.calls-lost",
    layer=Layer.PARAMS,
    breaks={"schema.tools.calls-kept"},
    cases=("B2-164",),
    source="https://github.com/vllm-project/vllm/issues/39929",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """With a schema no tool can be called: the model makes up an answer."""
    return replace(chat, tools=()) if kind_of(chat) == "json_schema" and not chat.tool_choice.forced else chat


@fault(
    "schema.choice-ignored-in-stream",
    layer=Layer.PARAMS,
    breaks={"schema.vendor.choice", "chunk.parity.with-plain"},
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """structured_outputs works in plain answers only."""
    return _free(chat) if kind_of(chat) == "choice" and chat.stream else chat
