"""tool_choice accepted and not kept to; tool_choice that cannot be met and is accepted; its newer and older forms."""

from dataclasses import replace
from typing import Any

from ..answer import HttpAnswer, HttpRequest, invalid
from ..request import ChatRequest
from ..tools import ToolChoice
from . import Context, Layer, fault
from .edits import Body, each_choice, each_message
from .request_edits import asked, changed, crash_when


def _is_required(ctx: Context) -> bool:
    body = asked(ctx.http)
    return body.get("tool_choice") == "required" and not body.get("logprobs")


def _names_one(body: Body) -> bool:
    choice = body.get("tool_choice")
    return isinstance(choice, dict) and choice.get("type") == "function"


@fault(
    "tool.choice-ignored",
    layer=Layer.PARAMS,
    breaks={"tool.required.calls", "tool.named.only-it"},
    cases=("B2-076",),
    source="https://github.com/sgl-project/sglang/issues/6550",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """required and named are accepted, and taken for auto."""
    choice = chat.tool_choice
    ignored = choice.forced and choice.allowed is None and not chat.legacy
    return replace(chat, tool_choice=ToolChoice("auto")) if ignored else chat


@fault(
    "tool.required-prose",
    layer=Layer.MESSAGE,
    breaks={"tool.required.calls", "finish.tool-calls.iff-called", "chunk.parity.with-plain"},
    cases=("B2-077",),
    source="https://github.com/vllm-project/vllm/issues/53363",
)
def _(body: Body, ctx: Context) -> Body:
    """With required the answer is prose, without calls, and finish_reason says tool_calls."""
    if not _is_required(ctx):
        return body

    def prose(message: Body) -> None:
        if message.pop("tool_calls", None):
            message["content"] = "The harbour lies quiet this evening."

    return each_message(body, prose)


@fault(
    "tool.required-as-markup",
    layer=Layer.MESSAGE,
    breaks={"tool.required.calls", "tool.content.no-markup", "chunk.parity.with-plain"},
    cases=("B2-078",),
    source="https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/2115",
)
def _(body: Body, ctx: Context) -> Body:
    """With required the call stays in the text, as the template writes it."""
    if not _is_required(ctx):
        return body

    def unparsed(choice: Body) -> None:
        made = choice["message"].pop("tool_calls", None)
        if made:
            function = made[0]["function"]
            text = f"<tool_call><function={function['name']}>{function['arguments']}</function></tool_call>"
            choice["message"]["content"], choice["finish_reason"] = text, "stop"

    return each_choice(body, unparsed)


@fault(
    "tool.named-crashes",
    layer=Layer.HTTP,
    breaks={"tool.choice.no-5xx"},
    cases=("B2-082",),
    source="https://github.com/vllm-project/vllm/issues/40148",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A named function gets a 500 without stream: an assertion about the model's output fails (not with strict)."""
    if answer.status != 200 or answer.stream:
        return answer
    return crash_when(lambda body: _names_one(body) and "strict" not in str(body["tools"]), answer, ctx)


@fault(
    "tool.required-stop-plain",
    layer=Layer.MESSAGE,
    breaks={"finish.parity.with-plain"},
    cases=("B2-083",),
    source="https://github.com/vllm-project/vllm/issues/25054",
)
def _(body: Body, ctx: Context) -> Body:
    """required ends with stop in a plain answer, and with tool_calls in a stream."""
    if not _is_required(ctx):
        return body

    def stopped(choice: Body) -> None:
        if choice["finish_reason"] == "tool_calls":
            choice["finish_reason"] = "stop"

    return each_choice(body, stopped)


@fault(
    "tool.named-stop-stream",
    layer=Layer.MESSAGE,
    breaks={"finish.parity.with-plain"},
    cases=("B2-091",),
    source="https://github.com/MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks/issues/177",
)
def _(body: Body, ctx: Context) -> Body:
    """A named function ends with stop in a stream, and with tool_calls in a plain answer."""
    if not _names_one(asked(ctx.http)):
        return body

    def called(choice: Body) -> None:
        if choice["finish_reason"] == "stop":
            choice["finish_reason"] = "tool_calls"

    return each_choice(body, called)


@fault(
    "tool.named-as-auto",
    layer=Layer.PARAMS,
    breaks={"tool.named.only-it"},
    cases=("B2-084",),
    source="https://github.com/ggml-org/llama.cpp/issues/26849",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """The object that names a function is read as a string of the wrong type, and replaced by auto."""
    return replace(chat, tool_choice=ToolChoice("auto")) if _names_one(chat.body) else chat


@fault("tool.required-refused", layer=Layer.PARAMS, breaks={"tool.choice.accepted"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """tool_choice "required" gets a 400."""
    if chat.body.get("tool_choice") == "required":
        raise invalid("Invalid value: 'required'. 'tool_choice' supports: 'none', 'auto'.", "tool_choice")
    return chat


# -- what cannot be met ------------------------------------------------------------------


def _declared(body: Body) -> list[Any]:
    tools = body.get("tools")
    return [t.get("function", {}).get("name") for t in tools if isinstance(t, dict)] if isinstance(tools, list) else []


@fault(
    "tool.undeclared-accepted",
    layer=Layer.REQUEST,
    breaks={"tool.choice.undeclared-refused"},
    cases=("B2-085",),
    source="https://github.com/kekzl/imp/issues/1265",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """tool_choice with the name of an undeclared function gives a call of some other one."""

    def forgiven(body: Body) -> None:
        if _names_one(body) and body["tool_choice"].get("function", {}).get("name") not in _declared(body):
            body["tool_choice"] = "required"

    return changed(request, forgiven)


@fault(
    "tool.required-without-tools",
    layer=Layer.REQUEST,
    breaks={"tool.choice.without-tools-refused"},
    cases=("B2-088",),
    source="https://github.com/raullenchai/Rapid-MLX/issues/744",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """required without tools, or with an empty list, is ordinary chat."""

    def forgiven(body: Body) -> None:
        if body.get("tool_choice") == "required" and not body.get("tools"):
            del body["tool_choice"]
            body.pop("tools", None)

    return changed(request, forgiven)


@fault("tool.choice-unknown-as-auto", layer=Layer.REQUEST, breaks={"tool.choice.bad-refused"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """An unknown tool_choice is taken for auto."""

    def forgiven(body: Body) -> None:
        choice = body.get("tool_choice")
        if choice not in (None, "auto", "none", "required") and not isinstance(choice, dict):
            del body["tool_choice"]

    return changed(request, forgiven)


@fault("tool.choice-unknown-500", layer=Layer.HTTP, breaks={"tool.choice.bad-refused"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """An unknown tool_choice gets a 500 (vLLM 0.8.5)."""
    return crash_when(lambda body: body.get("tool_choice") == "sometimes", answer, ctx)


# -- newer and older forms ---------------------------------------------------------------


@fault("tool.allowed-ignored", layer=Layer.PARAMS, breaks={"tool.choice.allowed-tools"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """The server reads the mode of allowed_tools, but not the list."""
    return replace(chat, tool_choice=replace(chat.tool_choice, allowed=None))


@fault("tool.custom-ignored", layer=Layer.REQUEST, breaks={"tool.custom.supported-or-refused"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Custom tools are silently left out, along with a tool_choice that names one."""

    def dropped(body: Body) -> None:
        tools = body.get("tools")
        if isinstance(tools, list) and any(isinstance(t, dict) and t.get("type") == "custom" for t in tools):
            del body["tools"]
            body.pop("tool_choice", None)

    return changed(request, dropped)


@fault(
    "tool.functions-dropped",
    layer=Layer.REQUEST,
    breaks={"tool.legacy.supported-or-refused"},
    cases=("B2-115",),
    source="https://github.com/Continuum-AI-Corp/OrcaRouter-Lite/issues/131",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The deprecated functions and function_call are silently dropped: chat comes back."""

    def dropped(body: Body) -> None:
        body.pop("functions", None)
        body.pop("function_call", None)

    return changed(request, dropped)
