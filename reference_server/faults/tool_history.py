"""Histories of tool calls: refused where they are right, lost on the way to the prompt, or fatal."""

import json
import re
from collections.abc import Callable
from dataclasses import replace

from ..answer import ApiError, HttpAnswer, HttpRequest, invalid
from ..request import ChatRequest, Message
from . import Context, Layer, fault
from .edits import Body
from .request_edits import changed, crash_when, messages


def _each_message(request: HttpRequest, change: Callable[[Body], None]) -> HttpRequest:
    def each(body: Body) -> None:
        for message in messages(body):
            change(message)

    return changed(request, each)


def _rewritten(chat: ChatRequest, change: Callable[[Message], Message]) -> ChatRequest:
    return replace(chat, messages=tuple(change(m) for m in chat.messages))


@fault(
    "tool.null-content-refused",
    layer=Layer.PARAMS,
    breaks={"tool.history.null-content-accepted", "tool.history.own-message-accepted"},
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """An assistant message must have a text, with tool calls or without."""
    if any(m.role == "assistant" and m.content is None for m in chat.messages):
        raise invalid("Invalid value for 'messages[3].content': expected a string, got null.", "messages[3].content")
    return chat


@fault(
    "tool.empty-content-refused",
    layer=Layer.PARAMS,
    breaks={"tool.history.content-forms-equal", "role.assistant.empty-accepted"},
    cases=("B2-106",),
    source="https://github.com/ogx-ai/ogx/issues/1751",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """An assistant message whose content is "" gets a 400; null would do."""
    if any(m.role == "assistant" and m.content == "" for m in chat.messages):
        raise invalid("Invalid 'messages[3].content': an empty string.", "messages[3].content")
    return chat


@fault(
    "tool.empty-content-rendered",
    layer=Layer.PARAMS,
    breaks={"tool.history.content-forms-equal"},
    cases=("B2-107",),
    source="https://github.com/vercel/ai/issues/12390",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Content "" beside tool calls is written into the prompt, with its line breaks; null is not."""
    return _rewritten(chat, lambda m: replace(m, content="\n\n") if m.tool_calls and m.content == "" else m)


@fault("tool.absent-content-refused", layer=Layer.PARAMS, breaks={"tool.history.content-forms-equal"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """content may be null beside tool calls, but not absent: a 422."""
    for message in messages(chat.body):
        if message.get("role") == "assistant" and "content" not in message:
            raise ApiError(422, "body.messages.3.content: field required", param="messages")
    return chat


_NINE = re.compile(r"[a-zA-Z0-9]{9}")


@fault(
    "tool.own-id-refused",
    layer=Layer.PARAMS,
    breaks={"tool.history.own-message-accepted"},
    cases=("B2-015",),
    source="https://github.com/vllm-project/vllm/issues/9019",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """The template wants ids of nine letters and digits; the server's own are longer."""
    for message in chat.messages:
        if any(not _NINE.fullmatch(call.id) for call in message.tool_calls if call.id):
            raise ApiError(404, "Tool call IDs should be alphanumeric strings with length 9!", kind="not_found_error")
    return chat


@fault(
    "tool.own-members-refused",
    layer=Layer.PARAMS,
    breaks={"tool.history.own-message-accepted", "role.own-answer.accepted"},
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """The server writes refusal: null into each message, and refuses it in the history as an extra member."""
    for message in messages(chat.body):
        if "refusal" in message and "audio" not in message:
            raise ApiError(422, "body.messages.1.refusal: extra inputs are not permitted", param="messages")
    return chat


def _nulls(body: Body) -> bool:
    return any(m.get(name, "") is None for m in messages(body) for name in ("name", "tool_calls", "tool_call_id"))


@fault(
    "tool.nulls-crash",
    layer=Layer.HTTP,
    breaks={"tool.choice.no-5xx"},
    cases=("B2-110",),
    source="https://github.com/sigoden/aichat/issues/1296",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """tool_calls: null in a message gets a 500: type must be array, but is null."""
    return crash_when(_nulls, answer, ctx)


@fault("tool.nulls-rendered", layer=Layer.PARAMS, breaks={"tool.history.nulls-as-absent"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A name that is null is written into the prompt as None."""
    raw = messages(chat.body)
    made = [
        replace(m, name="None") if r.get("name", "") is None else m for m, r in zip(chat.messages, raw, strict=True)
    ]
    return replace(chat, messages=tuple(made))


def _parts(message: Body) -> list[Body]:
    content = message.get("content")
    return content if message.get("role") == "tool" and isinstance(content, list) else []


@fault(
    "tool.parts-refused",
    layer=Layer.PARAMS,
    breaks={"tool.history.parts-equal"},
    cases=("B2-111",),
    source="https://github.com/Neroued/ninfer/issues/56",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A tool result in parts gets a 400."""
    if any(_parts(m) for m in messages(chat.body)):
        raise invalid("Invalid type for 'messages[4].content': expected a string.", "messages[4].content")
    return chat


@fault(
    "tool.parts-first-only",
    layer=Layer.REQUEST,
    breaks={"tool.history.parts-equal"},
    cases=("B2-111",),
    source="https://github.com/vllm-project/vllm/issues/25593",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Of a tool result in parts only the first is read."""

    def first(message: Body) -> None:
        if _parts(message):
            message["content"] = _parts(message)[:1]

    return _each_message(request, first)


@fault(
    "tool.parts-dropped",
    layer=Layer.REQUEST,
    breaks={"tool.history.parts-equal"},
    cases=("B2-111",),
    source="https://github.com/raullenchai/Rapid-MLX/issues/731",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A tool result in parts counts as an empty one."""

    def dropped(message: Body) -> None:
        if _parts(message):
            message["content"] = ""

    return _each_message(request, dropped)


@fault(
    "tool.results-dropped",
    layer=Layer.PARAMS,
    breaks={"tool.history.tool-message-counts", "tool.history.result-used", "tool.result.long-accepted"},
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """The template has no place for tool messages: the model never sees a result."""
    return _rewritten(chat, lambda m: replace(m, content="") if m.role == "tool" else m)


@fault("tool.results-garbled", layer=Layer.PARAMS, breaks={"tool.history.result-used"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A tool result reaches the model backwards."""
    return _rewritten(chat, lambda m: replace(m, content=(m.content or "")[::-1]) if m.role == "tool" else m)


def _orphan(body: Body) -> bool:
    roles = [m.get("role") for m in messages(body)]
    return "tool" in roles and "assistant" not in roles


@fault("tool.orphan-crashes", layer=Layer.HTTP, breaks={"tool.history.orphan-no-5xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A result without a call causes a KeyError in the template, and a 500."""
    return crash_when(_orphan, answer, ctx)


def _bad_arguments(body: Body) -> bool:
    for message in messages(body):
        for call in message.get("tool_calls") or []:
            try:
                json.loads(call["function"]["arguments"])
            except ValueError:
                return True
    return False


@fault("tool.history-arguments-crash", layer=Layer.HTTP, breaks={"tool.history.edge-no-5xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Arguments in the history are parsed, and those that do not parse get a 500."""
    return crash_when(_bad_arguments, answer, ctx)


@fault("tool.result-object-crashes", layer=Layer.HTTP, breaks={"tool.history.edge-no-5xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A result that is an object gets a 500: can only concatenate str."""
    return crash_when(lambda body: any(isinstance(m.get("content"), dict) for m in messages(body)), answer, ctx)


def _empty_calls(message: Body) -> bool:
    return message.get("tool_calls") == []


@fault(
    "tool.empty-calls-crash",
    layer=Layer.HTTP,
    breaks={"tool.choice.no-5xx"},
    cases=("B2-113",),
    source="https://github.com/vllm-project/vllm/issues/12937",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """tool_calls: [] in the history gets a 500: the template takes the first of none."""
    return crash_when(lambda body: any(_empty_calls(m) for m in messages(body)), answer, ctx)


@fault(
    "tool.empty-calls-hide-text",
    layer=Layer.REQUEST,
    breaks={"tool.history.empty-calls-keep-text"},
    cases=("B2-113",),
    source="https://github.com/vllm-project/vllm/issues/30648",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """tool_calls: [] makes the template ignore the text of the message."""

    def hidden(message: Body) -> None:
        if _empty_calls(message):
            message["content"] = ""

    return _each_message(request, hidden)
