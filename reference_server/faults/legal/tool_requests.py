"""Legal variations in requests about tools: what lenient and strict servers make of the same request."""

from dataclasses import replace
from typing import Any

from ...answer import HttpAnswer, HttpRequest, invalid
from ...request import ChatRequest
from .. import Context, Layer, fault
from ..edits import Body
from ..request_edits import asked, changed, functions, messages, replaced


@fault("legal.no-tools", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A server without tools refuses every request that has them."""
    if chat.tools or any(m.tool_calls or m.role == "tool" for m in chat.messages):
        raise invalid("This model does not support tools.", "tools", "unsupported_parameter")
    return chat


@fault("legal.no-auto-tools", layer=Layer.PARAMS, breaks=(), source="https://github.com/zai-org/GLM-4/issues/268")
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Without a parser for calls, tool_choice auto is refused; required and named are constrained and need none."""
    if chat.tool_choice.mode == "auto":
        raise invalid('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set.')
    return chat


@fault("legal.no-functions", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """The deprecated functions are refused."""
    if chat.legacy:
        raise invalid("'functions' is not supported; use 'tools'.", "functions", "unsupported_parameter")
    return chat


@fault("legal.no-allowed-tools", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """allowed_tools is refused."""
    if chat.tool_choice.allowed is not None:
        raise invalid("'tool_choice.type' supports: 'function'.", "tool_choice.type", "invalid_value")
    return chat


@fault("legal.parameters-empty-refused", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """parameters: {} is refused: an object schema must say so."""
    if any(f.get("parameters") == {} for f in functions(chat.body)):
        raise invalid("Invalid schema for function 'ping': schema must have type 'object'.", "tools")
    return chat


@fault(
    "legal.tools-empty-ignored",
    layer=Layer.REQUEST,
    breaks=(),
    source="https://github.com/vllm-project/vllm/issues/39780",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """An empty list of tools is no list of tools."""

    def ignored(body: Body) -> None:
        if body.get("tools") == []:
            del body["tools"]

    return changed(request, ignored)


@fault("legal.duplicate-tools", layer=Layer.REQUEST, breaks=())
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Of two functions with one name the first counts, and any word for strict means true."""

    def lenient(body: Body) -> None:
        seen: dict[Any, Any] = {}
        found = functions(body)
        for function in found:
            if isinstance(function.get("strict"), str):
                function["strict"] = True
            seen.setdefault(str(function.get("name")), function)
        if len(seen) < len(found):
            body["tools"] = [{"type": "function", "function": f} for f in seen.values()]

    return changed(request, lenient)


@fault(
    "legal.orphans-accepted",
    layer=Layer.REQUEST,
    breaks=(),
    cases=("B2-112",),
    source="https://github.com/raullenchai/Rapid-MLX/issues/731",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The server accepts a result that answers no call, and one that is null, absent, or an object."""

    def accepted(body: Body) -> None:
        for message in messages(body):
            if message.get("role") == "tool":
                message["role"] = "function"
                message["name"] = str(message.pop("tool_call_id", "") or "result")
                if not isinstance(message.get("content"), str | list):
                    message["content"] = str(message.get("content") or "")

    return changed(request, accepted)


@fault("legal.history-strict", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Every call must be answered before anything else is said, and its arguments must be JSON, as at OpenAI."""
    open_calls: set[str] = set()
    for message in chat.messages:
        if open_calls and message.role != "tool":
            raise invalid("An assistant message with 'tool_calls' must be followed by tool messages.", "messages")
        open_calls |= {call.id for call in message.tool_calls if call.id}
        open_calls.discard(message.tool_call_id or "")
        if any(not call.arguments.rstrip().endswith("}") for call in message.tool_calls):
            raise invalid("The arguments of a call in the history are not valid JSON.", "messages")
    return chat


@fault("legal.empty-calls-refused", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """tool_calls: [] in the history is refused, as at OpenAI."""
    if any(m.get("tool_calls") == [] for m in messages(chat.body)):
        raise invalid("Invalid 'messages[1].tool_calls': empty array.", "messages[1].tool_calls", "empty_array")
    return chat


@fault("legal.parts-joined-by-line", layer=Layer.REQUEST, breaks=())
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The parts of a tool result are joined by line breaks."""

    def joined(body: Body) -> None:
        for message in messages(body):
            content = message.get("content")
            if message.get("role") == "tool" and isinstance(content, list):
                message["content"] = "\n".join(str(p.get("text", "")) for p in content if isinstance(p, dict))

    return changed(request, joined)


@fault("legal.results-trimmed", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """The template trims each text, and writes names of functions beside results."""
    trimmed = (replace(m, content=m.content.strip() if m.content else m.content) for m in chat.messages)
    return replace(chat, messages=tuple(trimmed))


@fault("legal.custom-tools", layer=Layer.HTTP, breaks=())
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Custom tools are supported: a call of type custom has its input as a text."""
    body = asked(ctx.http)
    choice_asked = body.get("tool_choice")
    name = choice_asked.get("custom", {}).get("name") if isinstance(choice_asked, dict) else None
    if not name:
        return answer
    call = {"id": ctx.config.ids("call_"), "type": "custom", "custom": {"name": name, "input": "HELLO!"}}
    message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}
    made = {
        "id": ctx.config.ids("chatcmpl-"),
        "object": "chat.completion",
        "created": int(ctx.config.clock()),
        "model": body.get("model"),
        "choices": [choice],
        "usage": {"prompt_tokens": 40, "completion_tokens": 9, "total_tokens": 49},
    }
    return replaced(answer, 200, "OK", made)
