"""The `messages` of a request: validated, with text parts joined.

In: the JSON array. Out: a tuple of Message, or a 400 that names the member.
"""

from dataclasses import dataclass
from typing import Any

from .answer import invalid
from .fields import array, mapping, needed, string, wrong_type

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_MEDIA = {"image_url": "image", "input_audio": "audio", "file": "file", "video_url": "video"}


@dataclass(frozen=True)
class CallMade:
    """A tool call in an assistant message of the history."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Message:
    """`content` is None where null was sent; several text parts are joined in order."""

    role: str
    content: str | None
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: tuple[CallMade, ...] = ()


def parse_messages(value: Any) -> tuple[Message, ...]:
    if value is None:
        raise invalid("Missing required parameter: 'messages'.", "messages", "missing_required_parameter")
    items = array(value, "messages")
    if not items:
        raise invalid("Invalid 'messages': empty array. Send at least one message.", "messages", "empty_array")
    messages = tuple(_message(item, f"messages[{i}]") for i, item in enumerate(items))
    _check_tool_messages(messages)
    return messages


def _message(value: Any, path: str) -> Message:
    item = mapping(value, path)
    role = needed(item, "role", f"{path}.role")
    if role not in ROLES:
        shown = ", ".join(f"'{r}'" for r in ROLES)
        raise invalid(f"Invalid value: '{role[:40]}'. Supported roles: {shown}.", f"{path}.role", "invalid_value")
    calls = _tool_calls(item, path) if role == "assistant" else ()
    content = _content(item, role, path, optional=bool(calls))
    name = string(item, "name", f"{path}.name")
    if role == "function" and not name:
        raise invalid(f"Missing required parameter: '{path}.name'.", f"{path}.name", "missing_required_parameter")
    call_id = string(item, "tool_call_id", f"{path}.tool_call_id")
    if role == "tool":
        call_id = needed(item, "tool_call_id", f"{path}.tool_call_id")
    return Message(role, content, name, call_id, calls)


def _content(item: dict[str, Any], role: str, path: str, *, optional: bool) -> str | None:
    value, where = item.get("content"), f"{path}.content"
    if value is None:
        if optional or role == "function" or (role == "assistant" and item.get("refusal") is not None):
            return None
        raise invalid(
            f"Invalid value for '{where}': expected a string or an array of parts, got null.", where, "invalid_type"
        )
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise wrong_type(where, "a string or an array of parts", value)
    if not value:
        raise invalid(f"Invalid '{where}': empty array of parts.", where, "empty_array")
    return "".join(_part(part, role, f"{where}[{i}]") for i, part in enumerate(value))


def _part(value: Any, role: str, path: str) -> str:
    part = mapping(value, path)
    kind = needed(part, "type", f"{path}.type")
    if kind == "text" or (kind == "refusal" and role == "assistant"):
        text = part.get(kind)
        if not isinstance(text, str):
            raise wrong_type(f"{path}.{kind}", "a string", text)
        return text
    if kind in _MEDIA:
        raise invalid(f"This model reads text only: {_MEDIA[kind]} input is not supported.", path, "invalid_value")
    raise invalid(f"Invalid value: '{kind[:40]}'. Supported part types: 'text'.", f"{path}.type", "invalid_value")


def _tool_calls(item: dict[str, Any], path: str) -> tuple[CallMade, ...]:
    calls = []
    if item.get("tool_calls") is not None:
        where = f"{path}.tool_calls"
        for i, value in enumerate(array(item["tool_calls"], where)):
            at = f"{where}[{i}]"
            call = mapping(value, at)
            function = mapping(call.get("function"), f"{at}.function")
            arguments = string(function, "arguments", f"{at}.function.arguments") or ""
            name = needed(function, "name", f"{at}.function.name")
            calls.append(CallMade(needed(call, "id", f"{at}.id"), name, arguments))
    if item.get("function_call") is not None:
        at = f"{path}.function_call"
        function = mapping(item["function_call"], at)
        arguments = string(function, "arguments", f"{at}.arguments") or ""
        calls.append(CallMade("", needed(function, "name", f"{at}.name"), arguments))
    return tuple(calls)


def _check_tool_messages(messages: tuple[Message, ...]) -> None:
    """A tool message answers a call of an earlier assistant message."""
    known: set[str] = set()
    for i, message in enumerate(messages):
        known |= {call.id for call in message.tool_calls}
        if message.role == "tool" and message.tool_call_id not in known:
            path = f"messages[{i}].tool_call_id"
            raise invalid(
                f"Invalid '{path}': no earlier assistant message has a tool call with this id.", path, "invalid_value"
            )
