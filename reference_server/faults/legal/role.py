"""Legal variations of messages and models: what templates make of roles, models with eyes, longer lists."""

import binascii
from base64 import b64decode
from dataclasses import replace
from typing import Any

from ...answer import HttpRequest, invalid
from ...request import ChatRequest, Message
from .. import Context, Layer, fault
from ..edits import Body
from ..request_edits import changed, in_messages, joined_text, messages
from ..role_content import texts
from ..role_media import see


def _is_picture(url: str) -> bool:
    head, comma, data = url.partition(";base64,")
    if not (comma and head.startswith("data:image/")):
        return False
    try:
        return bool(b64decode(data, validate=True))
    except binascii.Error:
        return False


@fault("legal.vision", layer=Layer.REQUEST, breaks=())
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The model reads pictures: each is 85 words or so of the prompt; one whose base64 is wrong gets a 400."""
    return see(request, _is_picture)


@fault("legal.vision-lenient", layer=Layer.REQUEST, breaks=())
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The model reads pictures in any form: the bare base64, and one without padding."""
    return see(request, lambda url: "@" not in url)


@fault("legal.system-merged", layer=Layer.REQUEST, breaks=())
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The template has no system role: its text is put beside the user's first words, as for Gemma."""

    def merged(body: Body) -> None:
        found = messages(body)
        system = [m for m in found if m.get("role") in ("system", "developer") and joined_text(m) is not None]
        rest = [m for m in found if not any(m is s for s in system)]
        first = next((m for m in rest if m.get("role") == "user" and isinstance(m.get("content"), str)), None)
        if system and first is not None:
            first["content"] = "\n\n".join([first["content"], *(str(joined_text(m)) for m in system)])
            body["messages"] = rest

    return changed(request, merged)


@fault("legal.systems-joined", layer=Layer.REQUEST, breaks=())
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The template has one place for the system: all of its messages are joined there, from wherever they stand."""

    def joined(body: Body) -> None:
        found = messages(body)
        system = [m for m in found if m.get("role") == "system" and joined_text(m) is not None]
        if system:
            text = "\n".join(str(joined_text(m)) for m in system)
            rest = [m for m in found if not any(m is s for s in system)]
            body["messages"] = [{**system[0], "content": text}, *rest]

    return changed(request, joined)


@fault("legal.system-by-default", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Without a system message the template writes one of its own, as for Qwen (developer does not count as one)."""
    if chat.messages[0].role == "system":
        return chat
    default = Message("system", "You are Tiny, made for tests. You are a helpful assistant.")
    return replace(chat, messages=(default, *chat.messages))


@fault(
    "legal.roles-alternate",
    layer=Layer.PARAMS,
    breaks=(),
    source="https://huggingface.co/docs/transformers/chat_templating",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """User and assistant must take turns, beginning with the user, and only the first message may be the system's."""
    rest = list(chat.messages)
    if rest[0].role in ("system", "developer"):
        del rest[0]
    spoken = [m.role for m in rest if not m.tool_calls and m.role not in ("tool", "function")]
    plain = not any(m.tool_calls or m.role in ("tool", "function") for m in chat.messages)
    if plain and any(role != ("user", "assistant")[i % 2] for i, role in enumerate(spoken)):
        raise invalid("Conversation roles must alternate user/assistant/user/assistant/...", "messages")
    return chat


@fault("legal.no-function-role", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """The deprecated role function is refused."""
    if any(m.role == "function" for m in chat.messages):
        raise invalid("Invalid value: 'function'. Use role 'tool'.", "messages", "invalid_value")
    return chat


@fault("legal.last-is-users", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A history that ends with the assistant is refused."""
    last = chat.messages[-1]
    if last.role == "assistant" and not last.tool_calls:
        raise invalid("Expected the last message to be of role user or tool, but got assistant.", "messages")
    return chat


@fault("legal.assistant-without-text", layer=Layer.REQUEST, breaks=())
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """An assistant message with null or no content counts as an empty text."""

    def filled(message: Body) -> None:
        calls = message.get("tool_calls") or message.get("function_call")
        if message.get("role") == "assistant" and message.get("content") is None and not calls:
            message["content"] = ""

    return in_messages(request, filled)


@fault("legal.user-parts-by-line", layer=Layer.REQUEST, breaks=())
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The text parts of a user's message are joined by line breaks."""

    def joined(message: Body) -> None:
        if texts(message):
            message["content"] = "\n".join(texts(message))

    return in_messages(request, joined)


@fault("legal.names-unread", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Names of users are not written into the prompt."""
    return replace(chat, messages=tuple(replace(m, name=None) if m.role == "user" else m for m in chat.messages))


def _entries(body: Body, *, more: dict[str, Any]) -> Body:
    if body.get("object") != "list":
        return body
    return {**body, "data": [{**entry, **more} for entry in body["data"]]}


@fault("legal.models-as-vllm", layer=Layer.MESSAGE, breaks=())
def _(body: Body, ctx: Context) -> Body:
    """Models have root, parent and a permission with an id of its own in each answer, as vLLM writes them."""
    permission = {"id": ctx.config.ids("modelperm-"), "object": "model_permission", "allow_sampling": True}
    return _entries(body, more={"root": "models/tiny", "parent": None, "permission": [permission]})


@fault("legal.models-as-llama-cpp", layer=Layer.MESSAGE, breaks=())
def _(body: Body, ctx: Context) -> Body:
    """Beside data there is another list, `models`, and entries have aliases and meta, as llama.cpp writes them."""
    if body.get("object") != "list":
        return body
    meta = {"n_ctx": 2048, "n_vocab": 1024}
    modalities = {"input_modalities": ["text"], "output_modalities": ["text"]}
    made = _entries(body, more={"aliases": ["tiny"], "tags": [], "architecture": modalities, "meta": meta})
    return {"models": [{"name": e["id"], "capabilities": ["completion"]} for e in body["data"]], **made}


@fault("legal.model-snapshot-echoed", layer=Layer.MESSAGE, breaks=())
def _(body: Body, ctx: Context) -> Body:
    """Plain answers name the version that an alias stands for; the list has both."""
    if body.get("object") == "list":
        return {**body, "data": [*body["data"], {**body["data"][0], "id": f"{ctx.config.model}-2024-02-29"}]}
    return {**body, "model": f"{body['model']}-2024-02-29"} if "choices" in body else body
