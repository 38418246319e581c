"""Roles of messages: refused, lost or fatal."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ..answer import HttpAnswer, HttpRequest, invalid
from ..request import ChatRequest, Message
from . import Context, Layer, fault
from .edits import Body
from .request_edits import changed, crash_when, in_messages, joined_text, kind, messages, without_parts

_CHAT = "/v1/chat/completions"
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def _rewritten(chat: ChatRequest, change: Callable[[Message], Message]) -> ChatRequest:
    return replace(chat, messages=tuple(change(m) for m in chat.messages))


def _of(found: list[Body]) -> list[Any]:
    return [m.get("role") for m in found]


def _roles(body: Body) -> list[Any]:
    return _of(messages(body))


@fault(
    "role.system-crashes",
    layer=Layer.HTTP,
    breaks={"role.basic.accepted", "role.sequences.no-5xx", "tool.choice.no-5xx"},
    cases=("B1-160",),
    source="https://github.com/sgl-project/sglang/issues/892",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The template has no system role, and its exception becomes a 500."""
    return crash_when(lambda body: "system" in _roles(body), answer, ctx) if ctx.http.path == _CHAT else answer


@fault("role.system-refused", layer=Layer.PARAMS, breaks={"role.system.always-works"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """The template has no system role, and its exception becomes a 400."""
    if any(m.role == "system" for m in chat.messages):
        raise invalid("System role not supported", "messages")
    return chat


@fault("role.system-dropped", layer=Layer.REQUEST, breaks={"role.system.reaches-model", "role.system.obeyed"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The template ignores system messages: the model never sees one."""

    def dropped(body: Body) -> None:
        if "system" in _roles(body):
            body["messages"] = [m for m in messages(body) if m.get("role") != "system"]

    return changed(request, dropped)


def _system_texts(request: HttpRequest, change: Callable[[str], str]) -> HttpRequest:
    def each(message: Body) -> None:
        text = joined_text(message)
        if message.get("role") == "system" and text is not None:
            message["content"] = change(text)

    return in_messages(request, each)


@fault("role.system-cut", layer=Layer.REQUEST, breaks={"role.system.reaches-model", "role.system.obeyed"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Only the first twenty characters of a system message reach the model."""
    return _system_texts(request, lambda text: text[:20])


@fault("role.system-as-noise", layer=Layer.REQUEST, breaks={"role.system.obeyed"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A system message reaches the model as nonsense: its words come in another order."""
    return _system_texts(request, lambda text: " ".join(reversed(text.split(" "))))


@fault(
    "role.developer-refused",
    layer=Layer.PARAMS,
    breaks={"role.developer.accepted"},
    cases=("B1-159",),
    source="https://github.com/peonist-ai/halogen-server/issues/3",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """The template refuses developer like an unknown role."""
    if any(m.role == "developer" for m in chat.messages):
        raise invalid("Unexpected message role.", "messages")
    return chat


@fault(
    "role.developer-only-refused",
    layer=Layer.REQUEST,
    breaks={"role.developer.accepted", "role.developer.as-system", "role.unknown.refused"},
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Any word passes for a role, only developer is refused."""

    def renamed(message: Body) -> None:
        role = message.get("role")
        if role == "developer":
            message["role"] = "developer (not supported)"
        elif isinstance(role, str) and role not in _ROLES:
            message["role"] = "user"

    return in_messages(request, renamed)


def _fewer(request: HttpRequest, dropped: Callable[[list[Body], int], bool]) -> HttpRequest:
    """The request without the messages for which `dropped` says so, by their place; one is always left."""

    def change(body: Body) -> None:
        found = messages(body)
        left = [m for i, m in enumerate(found) if not dropped(found, i)]
        if left and len(left) < len(found):
            body["messages"] = left

    return changed(request, change)


@fault(
    "role.later-systems-dropped",
    layer=Layer.REQUEST,
    breaks={"role.sequences.counted"},
    source="https://github.com/Arthur-Ficial/apfel/issues/390",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Every system message after the first one is ignored."""
    return _fewer(request, lambda all_, i: "system" in _of(all_[:i]) and all_[i].get("role") == "system")


@fault(
    "role.middle-system-dropped",
    layer=Layer.REQUEST,
    breaks={"role.sequences.counted"},
    source="https://github.com/raullenchai/Rapid-MLX/issues/1765",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A system message after other messages is ignored: the template has a place for it only at the beginning."""
    return _fewer(request, lambda all_, i: i > 0 and all_[i].get("role") == "system" != all_[i - 1].get("role"))


@fault("role.last-system-wins", layer=Layer.REQUEST, breaks={"role.sequences.counted"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The template keeps system messages in one variable: the last one overwrites those before it."""
    return _fewer(request, lambda all_, i: all_[i].get("role") == "system" and "system" in _of(all_[i + 1 :]))


@fault("role.greeting-dropped", layer=Layer.REQUEST, breaks={"role.sequences.counted"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The template ignores what the assistant says before the user's first words."""
    return _fewer(request, lambda all_, i: all_[i].get("role") == "assistant" and "user" not in _of(all_[:i]))


@fault("role.first-of-two-dropped", layer=Layer.REQUEST, breaks={"role.sequences.counted"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Of two messages in a row, both the user's or both the assistant's, only the second one is read."""

    def repeated(all_: list[Body], i: int) -> bool:
        return _of(all_[i : i + 2]) in (["user"] * 2, ["assistant"] * 2) and not all_[i].get("tool_calls")

    return _fewer(request, repeated)


@fault("role.function-dropped", layer=Layer.REQUEST, breaks={"role.function.counted"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The template does not know the role function, and ignores such a message."""
    return _fewer(request, lambda all_, i: all_[i].get("role") == "function")


@fault("role.developer-dropped", layer=Layer.PARAMS, breaks={"role.developer.as-system"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """The template ignores developer messages."""
    return replace(chat, messages=tuple(m for m in chat.messages if m.role != "developer"))


@fault("role.function-crashes", layer=Layer.HTTP, breaks={"role.function.accepted-or-refused"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The deprecated role function gets a 500."""
    return crash_when(lambda body: "function" in _roles(body), answer, ctx)


@fault("role.unknown-accepted", layer=Layer.REQUEST, breaks={"role.unknown.refused"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A role that does not exist is read as the user's."""

    def known(message: Body) -> None:
        if isinstance(message.get("role"), str) and message["role"] not in _ROLES:
            message["role"] = "user"

    return in_messages(request, known)


@fault("role.unknown-part-dropped", layer=Layer.REQUEST, breaks={"role.unknown.refused"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A part of a type that does not exist is silently left out."""
    return without_parts(request, lambda part: kind(part) == "no-such-part")


@fault(
    "role.second-turn-refused",
    layer=Layer.PARAMS,
    breaks={"role.basic.accepted", "role.own-answer.accepted", "reasoning.history.accepted"},
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Words of the assistant in the history are refused: every chat ends with the first answer."""
    talk = [m for m in chat.messages if m.role == "assistant" and m.content and not m.tool_calls]
    if talk and chat.messages[-1].role == "user" and not chat.tools:
        raise invalid("Conversation roles must be 'user'.", "messages")
    return chat


def _two_in_a_row(body: Body) -> bool:
    roles = _roles(body)
    return ("user", "user") in pairwise(roles)


@fault("role.two-users-crash", layer=Layer.HTTP, breaks={"role.sequences.no-5xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Two user messages in a row get a 500: "Conversation roles must alternate"."""
    return crash_when(_two_in_a_row, answer, ctx)


@fault("role.late-system-crashes", layer=Layer.HTTP, breaks={"role.sequences.no-5xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A system message that is not the first gets a 500."""
    return crash_when(lambda body: "system" in _roles(body)[1:], answer, ctx)


@fault("role.prefill-continued", layer=Layer.PARAMS, breaks={"role.prefill.only-by-option"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A last message of the assistant is continued, though nobody asked for it."""
    *before, last = chat.messages
    if last.role != "assistant" or not last.content or not before:
        return chat
    rest = (before[-1].content or "").replace(f"{last.content} ", "")
    return replace(chat, messages=(*before[:-1], replace(before[-1], content=rest)))
