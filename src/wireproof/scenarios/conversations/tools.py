"""Conversations about tools: histories that mean the same, the loop of an agent, and large requests."""

from __future__ import annotations

import copy
from typing import Any

from wireproof.read.exchange import Exchange
from wireproof.scenarios.scenario import Scenario, Session, conversation
from wireproof.wire.strictjson import get

Message = dict[str, Any]

_ASKED = "What is the weather in Paris? Use the tool get_weather."
_RESULT = "Light rain, 18 degrees."
# Words that no model says by itself.
CODE_WORD = "zebra tango 4417"


def _tool(name: str, description: str) -> dict[str, Any]:
    city = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris"]}}, "required": ["city"]}
    parameters = {**city, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


_WEATHER = _tool("get_weather", "The weather of a city.")


def _scenario(name: str, messages: list[Message], tools: list[Any], **more: Any) -> Scenario:
    body = {"messages": messages, "max_tokens": 8, "temperature": 0, "tools": tools, **more}
    return Scenario(name=name, what=name, body=body)


def _history(result: Any = _RESULT) -> list[Message]:
    """A finished call in a history that is complete: every member that has to be there, and no other."""
    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    call = {"id": "call7f3a9", "type": "function", "function": function}
    return [
        {"role": "user", "content": "Good morning."},
        {"role": "assistant", "content": "Good morning! How can I help you?"},
        {"role": "user", "content": _ASKED},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call7f3a9", "content": result},
    ]


def _changed(at: int, **members: Any) -> list[Message]:
    """The history with members of one message replaced or added."""
    messages = copy.deepcopy(_history())
    messages[at].update(members)
    return messages


def _histories() -> dict[str, list[Message]]:
    """The same history in the forms that clients send it in, and two that say more."""
    absent = _history()
    del absent[3]["content"]
    nulls = _changed(1, tool_calls=None, refusal=None, audio=None, function_call=None, name=None)
    nulls[2]["name"] = nulls[3]["refusal"] = nulls[3]["audio"] = nulls[4]["name"] = None
    halves = [{"type": "text", "text": _RESULT[:11]}, {"type": "text", "text": _RESULT[11:]}]
    return {
        "null": _history(),
        "absent": absent,
        "empty": _changed(3, content=""),
        "nulls": nulls,
        "no-calls": _changed(1, tool_calls=[]),
        "parts": _history(halves),
        "more": _history(_RESULT + " The wind comes from the west, and the evening will be dry and cold." * 3),
    }


@conversation("tool-history", "One history with a tool call, in the forms in which clients send it.", optional="tools")
async def _(session: Session) -> None:
    for step, messages in _histories().items():
        await session.send(step, _scenario(step, messages, [_WEATHER]))


@conversation("tool-code-word", "A code word in a tool's result, and before that in a user message.", optional="tools")
async def _(session: Session) -> None:
    said = f"The code word is {CODE_WORD}"
    tool = _tool("get_code", "The code word of a city.")
    asked = {
        "role": "user",
        "content": "What is the code word of Paris? Use the tool get_code, and tell me what it says.",
    }
    call = {"id": "call7f3a9", "type": "function", "function": {"name": "get_code", "arguments": '{"city": "Paris"}'}}
    told: list[Message] = [{"role": "user", "content": f"Say: {said}"}]
    found: list[Message] = [
        asked,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call7f3a9", "content": said},
    ]
    for step, messages in (("told", told), ("result", found)):
        await session.send(step, _scenario(step, messages, [tool], max_tokens=80))


# -- an agent's loop -----------------------------------------------------------------------


def _own_message(x: Exchange) -> Any:
    """The assistant message of a plain answer, as it came; None when there is none."""
    return get(x.parsed.value, "choices", 0, "message") if x.ok and not x.is_event_stream else None


def _results(message: Message) -> list[Message]:
    """A result for each call of a message."""
    found = message.get("tool_calls")
    calls = [c for c in found if isinstance(c, dict)] if isinstance(found, list) else []
    return [{"role": "tool", "tool_call_id": c.get("id"), "content": _RESULT} for c in calls]


@conversation("tool-loop", "Five turns of an agent that sends the server's own messages back.", optional="tools")
async def _(session: Session) -> None:
    messages: list[Message] = [{"role": "user", "content": _ASKED}]
    for turn in range(1, 6):
        call = turn % 2 == 1
        choice, limit = ("required", 120) if call else ("none", 24)
        x = await session.send(
            f"turn-{turn}", _scenario("turn", messages, [_WEATHER], tool_choice=choice, max_tokens=limit)
        )
        message = _own_message(x)
        if not isinstance(message, dict) or (call and not _results(message)):
            return
        messages = [*messages, message]
        if call:
            messages += _results(message)
        else:
            messages += [{"role": "user", "content": "Look again, please. Use the tool get_weather."}]


# -- large requests ------------------------------------------------------------------------

# So many functions OpenAI documents as the limit; an agent with a few MCP servers has thirty.
_MANY, _SOME = 128, 30


@conversation("tool-large", "Thirty tools, 128 tools, and a tool result of 6,000 characters.", optional="tools")
async def _(session: Session) -> None:
    hello = [{"role": "user", "content": "Say hello. Do not use any tool."}]
    some = [_tool(f"get_weather_{number}", "The weather.") for number in range(_SOME)]
    # As small as a tool can be: they shall fit into a context of 4,096 tokens.
    many = [{"type": "function", "function": {"name": f"t{number}"}} for number in range(_MANY)]
    long = ("The weather is dry and the wind is light. " * 150)[:6000]
    await session.send("tools-30", _scenario("tools-30", hello, some))
    await session.send("tools-128", _scenario("tools-128", hello, many))
    await session.send("result-6000", _scenario("result-6000", _history(long), [_WEATHER]))
