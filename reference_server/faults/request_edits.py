"""Helpers for faults about requests: read the body, change it, answer with something else. No fault here."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..answer import Frame, Framing, HttpAnswer, HttpRequest
from . import Context

Body = dict[str, Any]


def asked(request: HttpRequest) -> Body:
    """The JSON object of a request; empty when it has none."""
    try:
        body = json.loads(request.body)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def changed(request: HttpRequest, change: Callable[[Body], None]) -> HttpRequest:
    """The request with `change` done to its JSON object; one without, or unchanged, as it is."""
    body = asked(request)
    if not body:
        return request
    before = json.dumps(body)
    change(body)
    after = json.dumps(body, ensure_ascii=False)
    return request if before == json.dumps(body) else replace(request, body=after.encode())


def functions(body: Body) -> list[Body]:
    """The function objects of `tools`, where they are objects."""
    tools = body.get("tools")
    found = [t.get("function") for t in tools if isinstance(t, dict)] if isinstance(tools, list) else []
    return [f for f in found if isinstance(f, dict)]


def messages(body: Body) -> list[Body]:
    """The messages that are objects."""
    found = body.get("messages")
    return [m for m in found if isinstance(m, dict)] if isinstance(found, list) else []


def in_messages(request: HttpRequest, change: Callable[[Body], None]) -> HttpRequest:
    """The request with `change` done to each of its messages."""

    def in_body(body: Body) -> None:
        for message in messages(body):
            change(message)

    return changed(request, in_body)


def kind(part: Any) -> Any:
    """The type of a part of a message."""
    return part.get("type") if isinstance(part, dict) else None


def joined_text(message: Body) -> str | None:
    """The text of a message, its text parts joined; None when it has something else."""
    content = message.get("content")
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    texts = [p.get("text") for p in content if kind(p) == "text"]
    return "".join(texts) if len(texts) == len(content) and all(isinstance(t, str) for t in texts) else None


def without_parts(request: HttpRequest, dropped: Callable[[Any], bool]) -> HttpRequest:
    """The request without some parts of its messages."""

    def fewer(message: Body) -> None:
        if isinstance(message.get("content"), list):
            message["content"] = [p for p in message["content"] if not dropped(p)]

    return in_messages(request, fewer)


def replaced(answer: HttpAnswer, status: int, reason: str, body: Any) -> HttpAnswer:
    """Another JSON answer in the place of this one."""
    data = json.dumps(body).encode()
    headers = answer.with_headers(
        content_type="application/json",
        content_length=str(len(data)),
        transfer_encoding=None,
        cache_control=None,
        x_accel_buffering=None,
    )
    return HttpAnswer(status, reason, headers, iter([Frame(data)]), Framing.LENGTH)


def crashed(answer: HttpAnswer, message: str = "Internal error.") -> HttpAnswer:
    """A 500 in the place of the answer."""
    error = {"message": message, "type": "server_error", "param": None, "code": None}
    return replaced(answer, 500, "Internal Server Error", {"error": error})


def crash_when(test: Callable[[Body], bool], answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A 500 when the request passes a test."""
    return crashed(answer) if test(asked(ctx.http)) else answer
