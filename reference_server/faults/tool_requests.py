"""Definitions of tools that a server should take, and refuses, loses or dies of; and those that it should refuse."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..answer import ApiError, Close, How, HttpAnswer, HttpRequest, Step, invalid
from ..request import ChatRequest
from . import Context, Layer, fault
from .edits import Body, each_choice, each_message
from .request_edits import asked, changed, crash_when, functions, messages

_NO_5XX = {"tool.choice.no-5xx"}


def _functions(ctx: Context) -> list[Body]:
    return functions(asked(ctx.http))


@fault(
    "tool.parameters-required",
    layer=Layer.PARAMS,
    breaks={"tool.definition.accepted", "tool.list.128-accepted"},
    cases=("B2-096",),
    source="https://github.com/theroyallab/tabbyAPI/issues/485",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A function without parameters gets a 422."""
    if any(tool.parameters is None for tool in chat.tools):
        raise ApiError(422, "tools.0.function.parameters: field required", param="tools")
    return chat


@fault(
    "tool.no-parameters-kills",
    layer=Layer.SOCKET,
    breaks={"http.body.framed-exactly"},
    cases=("B2-099",),
    source="https://github.com/microsoft/BitNet/issues/538",
)
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """A function without parameters resets the connection: an exception that nobody catches."""
    if any("parameters" not in function for function in _functions(ctx)):
        return iter([Close(How.RESET)])
    return steps


@fault(
    "tool.parameters-empty-500",
    layer=Layer.HTTP,
    breaks=_NO_5XX,
    cases=("B2-097",),
    source="https://github.com/ogx-ai/ogx/issues/6017",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """parameters: {} gets a 500."""
    return crash_when(lambda body: any(f.get("parameters") == {} for f in functions(body)), answer, ctx)


@fault("tool.schema-500", layer=Layer.HTTP, breaks=_NO_5XX, source="https://github.com/noonghunna/club-3090/issues/45")
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A keyword that the grammar compiler does not know gets a 500."""
    return crash_when(lambda body: "dependentRequired" in str(functions(body)), answer, ctx)


@fault(
    "tool.schema-refused",
    layer=Layer.PARAMS,
    breaks={"tool.definition.any-schema-accepted"},
    cases=("B2-103",),
    source="https://github.com/ggml-org/llama.cpp/issues/25923",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A schema for which there is no grammar gets a 400, whether the tool is strict or not."""
    if any(re.search(r"'pattern': '\[|100000", str(tool.parameters)) for tool in chat.tools):
        raise invalid("JSON schema conversion failed: Pattern must start with '^' and end with '$'", "tools")
    return chat


@fault("tool.strict-false-refused", layer=Layer.PARAMS, breaks={"tool.strict.false-or-null-accepted"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """strict must be true where it is present."""
    if any(f.get("strict", True) is not True for f in _functions(ctx)):
        raise invalid("Invalid value for 'strict': only true is supported.", "tools[0].function.strict")
    return chat


@fault("tool.list-limited", layer=Layer.PARAMS, breaks={"tool.list.128-accepted"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """More than twenty tools get a 400."""
    if len(chat.tools) > 20:
        raise invalid("Invalid 'tools': at most 20 functions are supported.", "tools", "array_above_max_length")
    return chat


@fault("tool.result-limited", layer=Layer.PARAMS, breaks={"tool.result.long-accepted"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A message of more than 4,000 characters gets a 413."""
    if any(m.role == "tool" and len(m.content or "") > 4000 for m in chat.messages):
        raise ApiError(413, "A tool result has at most 4000 characters.", param="messages")
    return chat


@fault("tool.result-cut", layer=Layer.PARAMS, breaks={"tool.result.long-accepted"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Only the first 500 characters of a long tool result are read, and nothing says so."""
    kept = (replace(m, content=m.content[:500]) if m.role == "tool" and m.content else m for m in chat.messages)
    return replace(chat, messages=tuple(kept))


# -- names -----------------------------------------------------------------------------

_ODD = re.compile(r"^_|-")


@fault("tool.name-dash-refused", layer=Layer.PARAMS, breaks={"tool.name.legal-accepted"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A name must be an identifier: one with a dash, or a digit in front, gets a 400."""
    for tool in chat.tools:
        if not tool.name.isidentifier():
            raise invalid(f"Invalid function name '{tool.name}'.", "tools[0].function.name", "invalid_value")
    return chat


@fault(
    "tool.name-dash-lost",
    layer=Layer.MESSAGE,
    breaks={"tool.name.legal-accepted", "tool.named.only-it", "tool.content.no-markup", "chunk.parity.with-plain"},
    cases=("B2-029",),
    source="https://github.com/vllm-project/vllm/issues/57950",
)
def _(body: Body, ctx: Context) -> Body:
    """A call whose name has a dash, or begins with an underscore, stays in the text of a plain answer."""

    def unparsed(choice: Body) -> None:
        message = choice["message"]
        call = (message.get("tool_calls") or [{}])[0].get("function", {})
        if _ODD.search(call.get("name", "")):
            del message["tool_calls"]
            message["content"] = (
                f'<tool_call>{{"name": "{call["name"]}", "arguments": {call["arguments"]}}}</tool_call>'
            )
            choice["finish_reason"] = "stop"

    return each_choice(body, unparsed)


@fault(
    "tool.name-normalised",
    layer=Layer.MESSAGE,
    breaks={"tool.name.legal-accepted", "tool.name.declared", "toolstream.parity.with-plain"},
)
def _(body: Body, ctx: Context) -> Body:
    """Names come back as identifiers: each dash is an underscore."""

    def renamed(message: Body) -> None:
        for call in message.get("tool_calls") or []:
            call["function"]["name"] = call["function"]["name"].replace("-", "_")

    return each_message(body, renamed)


@fault("tool.name-cleaned", layer=Layer.REQUEST, breaks={"tool.name.illegal-refused"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A gateway makes any name fit: other characters become underscores, and what is too long is cut."""

    def cleaned(body: Body) -> None:
        for function in functions(body):
            if isinstance(function.get("name"), str):
                function["name"] = re.sub(r"[^a-zA-Z0-9_-]", "_", function["name"])[:64]

    return changed(request, cleaned)


# -- what should be refused ------------------------------------------------------------


def _usable(tool: Any) -> bool:
    function = tool.get("function") if isinstance(tool, dict) else None
    return (
        isinstance(function, dict)
        and tool.get("type") in ("function", "custom")
        and isinstance(function.get("name"), str)
        and isinstance(function.get("parameters", {}), dict)
    )


@fault("tool.bad-definition-dropped", layer=Layer.REQUEST, breaks={"tool.definition.bad-refused"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A tool that cannot be used is silently left out."""

    def dropped(body: Body) -> None:
        tools = body.get("tools")
        if not isinstance(tools, list) or not tools or all(_usable(t) for t in tools if "custom" not in t):
            return
        del body["tools"]

    return changed(request, dropped)


@fault("tool.bad-definition-500", layer=Layer.HTTP, breaks={"tool.definition.bad-refused"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A tool without a name causes a KeyError, and a 500."""
    return crash_when(lambda body: any("name" not in f for f in functions(body)), answer, ctx)


@fault("tool.list-empty-500", layer=Layer.HTTP, breaks={"tool.list.empty-no-5xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """An empty list of tools gets a 500: list index out of range."""
    return crash_when(lambda body: body.get("tools") == [] and "tool_choice" not in body, answer, ctx)


@fault(
    "tool.roles-refused",
    layer=Layer.PARAMS,
    breaks={"tool.history.null-content-accepted", "tool.history.own-message-accepted", "role.basic.accepted"},
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """The chat template has no role tool: a history with a result gets a 400."""
    if any(m.get("role") == "tool" for m in messages(asked(ctx.http))):
        raise invalid("Conversation roles must alternate user/assistant/user/assistant/...", "messages")
    return chat
