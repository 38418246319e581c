"""Contents of messages: strings and parts, empty ones, and what stands beside them, refused or changed on the way."""

import json
from typing import Any

from ..answer import ApiError, HttpAnswer, HttpRequest, invalid
from ..request import ChatRequest
from . import Context, Layer, fault
from .edits import Body
from .request_edits import changed, crash_when, in_messages, kind, messages


def texts(message: Body) -> list[str]:
    """The texts of a message of the user whose parts are all texts; none for any other content."""
    content = message.get("content")
    parts = content if message.get("role") == "user" and isinstance(content, list) else []
    found = [p.get("text") for p in parts if kind(p) == "text"]
    return found if len(found) == len(parts) else []


@fault(
    "role.parts-crash",
    layer=Layer.HTTP,
    breaks={"role.parts.equal-string"},
    cases=("B2-114",),
    source="https://github.com/OpenGVLab/InternVL/issues/726",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Parts reach a template that joins strings, and get a 500: can only concatenate str (not "list") to str."""
    return crash_when(lambda body: any(texts(m) for m in messages(body)), answer, ctx)


@fault(
    "role.parts-refused",
    layer=Layer.PARAMS,
    breaks={"role.parts.equal-string"},
    cases=("B2-114",),
    source="https://github.com/OpenGVLab/InternVL/issues/726",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Parts of every kind get a 400."""
    if any(isinstance(m.get("content"), list) and m.get("role") != "tool" for m in messages(chat.body)):
        raise invalid("messages.0.content: expected a string.", "messages")
    return chat


@fault("role.parts-written-out", layer=Layer.REQUEST, breaks={"role.parts.equal-string"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The template writes the array out as Python does: [{'type': 'text', 'text': ...}]."""

    def written(message: Body) -> None:
        if texts(message):
            message["content"] = str(message["content"])

    return in_messages(request, written)


@fault("role.system-parts-empty", layer=Layer.REQUEST, breaks={"role.parts.equal-string"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A system message in parts counts as an empty one."""

    def emptied(message: Body) -> None:
        if message.get("role") == "system" and isinstance(message.get("content"), list):
            message["content"] = ""

    return in_messages(request, emptied)


@fault("role.parts-first-only", layer=Layer.REQUEST, breaks={"role.parts.all-used"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Of several text parts only the first is used."""

    def first(message: Body) -> None:
        if texts(message):
            message["content"] = message["content"][:1]

    return in_messages(request, first)


@fault("role.parts-last-first", layer=Layer.REQUEST, breaks={"role.parts.all-used"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Text parts reach the model in another order."""

    def turned(message: Body) -> None:
        found = texts(message)
        if len(found) > 1 and found[0].startswith("Say: "):
            message["content"] = "Say:" + " ".join([*found[1:], found[0].removeprefix("Say: ")])

    return in_messages(request, turned)


# -- forms of a history ------------------------------------------------------------------------


@fault("role.empty-user-refused", layer=Layer.PARAMS, breaks={"role.empty-content-and-name.accepted"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """An empty user message gets a 400."""
    if any(m.role == "user" and m.content == "" for m in chat.messages):
        raise invalid("messages: text content must not be empty.", "messages")
    return chat


@fault("role.name-crashes", layer=Layer.HTTP, breaks={"role.empty-content-and-name.accepted"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A name in a user message gets a 500."""
    return crash_when(lambda body: any(m.get("role") == "user" and m.get("name") for m in messages(body)), answer, ctx)


@fault(
    "role.empty-assistant-refused",
    layer=Layer.PARAMS,
    breaks={"role.assistant.empty-accepted"},
    cases=("B1-163",),
    source="https://github.com/vllm-project/vllm/issues/21089",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """An assistant message with neither a text nor calls is refused: Invalid assistant message."""
    if any(m.role == "assistant" and not m.content and not m.tool_calls for m in chat.messages):
        raise invalid("Invalid assistant message: content or tool calls must be there.", "messages")
    return chat


@fault("role.null-written-out", layer=Layer.REQUEST, breaks={"role.null-empty-absent.equal"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The assistant's null content is written into the prompt as None."""

    def written(message: Body) -> None:
        calls = message.get("tool_calls") or message.get("function_call")
        if message.get("role") == "assistant" and message.get("content") is None and not calls:
            message["content"] = "None"

    return in_messages(request, written)


@fault(
    "role.null-assistant-dropped",
    layer=Layer.REQUEST,
    breaks={
        "tool.history.null-content-accepted",
        "tool.history.own-message-accepted",
        "role.null-empty-absent.equal",
    },
    cases=("B1-162",),
    source="https://github.com/cubist38/mlx-openai-server/issues/205",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Assistant messages without a text are dropped, calls and all: then the tool's message has nothing before it."""

    def fewer(body: Body) -> None:
        found = body.get("messages")
        if isinstance(found, list):
            body["messages"] = [m for m in found if not _is_null(m)] or found

    return changed(request, fewer)


def _is_null(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "assistant" and message.get("content", "") is None


@fault(
    "role.reasoning-refused",
    layer=Layer.PARAMS,
    breaks={"role.history.extension-fields-accepted", "reasoning.history.accepted"},
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """reasoning_content in the history gets a 422: extra inputs are not permitted."""
    if any("reasoning_content" in m for m in messages(chat.body)):
        raise ApiError(422, "messages.1.reasoning_content: extra inputs are not permitted", param="messages")
    return chat


_MEMBERS = frozenset(
    {
        *("role", "content", "name", "tool_calls", "tool_call_id", "refusal", "function_call", "audio", "annotations"),
        *("reasoning", "reasoning_content"),
    }
)


@fault(
    "role.extra-forbidden",
    layer=Layer.PARAMS,
    breaks={"role.unknown-member.tolerated"},
    cases=("B1-164",),
    source="https://github.com/vllm-project/vllm/pull/10463",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """An unknown member in a message gets a 400: extra_forbidden."""
    if any(set(m) - _MEMBERS for m in messages(chat.body)):
        raise invalid("[{'type': 'extra_forbidden', 'loc': ('body', 'messages', 0, 'id')}]", "messages")
    return chat


@fault(
    "role.errors-of-every-union",
    layer=Layer.PARAMS,
    breaks={"role.unknown-member.tolerated", "error.message.bounded"},
    cases=("B1-165",),
    source="https://github.com/mozilla-ai/otari/issues/362",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """An unknown member gets a 400 with hundreds of errors: those of every type that the message could have had."""
    if any(set(m) - _MEMBERS for m in messages(chat.body)):
        one = {"type": "extra_forbidden", "msg": "Extra inputs are not permitted", "input": "7"}
        errors = [{**one, "loc": ["messages", 0, f"Message{i}", "id"]} for i in range(509)]
        raise invalid(f"{len(errors)} validation errors: {json.dumps(errors)}", "messages")
    return chat
