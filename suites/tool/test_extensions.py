"""Forms newer or older than plain function tools: allowed_tools, custom tools, the deprecated functions."""

from __future__ import annotations

from typing import Any

from wireproof.judge.rules import MAY, Each, each_of, openapi, rule
from wireproof.read import request
from wireproof.read.chat import Chat, is_chat
from wireproof.read.exchange import Exchange
from wireproof.read.refusal import must_not_crash
from wireproof.read.tool_calls import calls, legacy_call
from wireproof.verdict import inconclusive, require
from wireproof.wire.strictjson import get

_ALLOWED = ("choice-allowed-auto", "choice-allowed-required")
_NOT_CUT = ("tool_calls", "stop", "function_call")


def _named(x: Exchange) -> Any:
    """The function that the deprecated function_call names."""
    return get(x.asked.get("function_call"), "name")


@rule(
    "tool.choice.allowed-tools",
    MAY,
    on=Each(
        "every answer to allowed_tools",
        lambda x: is_chat(x) and request.tool_choice(x).limited,
        (*_ALLOWED, *(f"{name}-stream" for name in _ALLOWED)),
    ),
    book="TOOL-030",
    source=openapi("ChatCompletionAllowedToolsChoice"),
)
def test_allowed_tools(x: Chat) -> None:
    """tool_choice allowed_tools limits the calls to the tools that it lists, or the server refuses it.

    A server that silently ignores it widens what the model may do: the caller took the other tools away for a reason.
    """
    if not x.ok:
        raise x.refused()
    names = sorted(request.tool_choice(x).names)
    for call in calls(x):
        if not call.name:
            continue  # other rules judge what a call must have
        require(call.name in names, f"a call to {' or '.join(names)}", got=call.name, at=call.part)


@rule(
    "tool.custom.supported-or-refused",
    MAY,
    on=each_of("tool-custom"),
    book="TOOL-031",
    source=openapi("CustomToolChatCompletions, ChatCompletionMessageCustomToolCall"),
)
def test_custom_tools(x: Chat) -> None:
    """When tool_choice names a custom tool, the answer calls it with its input as a string, or the server refuses it.

    If the server silently ignores the tool, the caller waits for a call and gets text; in a function call, the input is
    missing.
    """
    must_not_crash(x)
    for choice in x.plain_choices:
        if choice.get("finish_reason") not in _NOT_CUT:
            raise inconclusive("the answer was cut off")
        call = get(choice, "message", "tool_calls", 0)
        require(get(call, "type") == "custom", "a call of type custom", got=call)
        require(isinstance(get(call, "custom", "input"), str), "custom.input as a string", got=get(call, "custom"))


@rule(
    "tool.legacy.supported-or-refused",
    MAY,
    on=Each(
        "every answer to a named function_call",
        lambda x: is_chat(x) and request.is_legacy(x) and isinstance(_named(x), str),
        ("choice-legacy-named", "choice-legacy-named-stream"),
    ),
    book="TOOL-032",
    source=openapi("CreateChatCompletionRequest.functions, function_call (deprecated)"),
)
def test_legacy_functions(x: Chat) -> None:
    """When function_call names a deprecated function, the answer has a function_call, or the server refuses it.

    Old clients still send them; a server that silently strips them turns a forced call into chat.
    """
    for outcome in x.outcomes:
        if outcome.finish_reason not in _NOT_CUT:
            raise inconclusive("the answer was cut off")
    if not x.is_event_stream and not all(isinstance(c.get("message"), dict) for c in x.plain_choices):
        raise inconclusive("a choice has no message: choice.members.present judges that")
    found = legacy_call(x)
    require(found is not None, "a function_call", got="none")
    assert found is not None
    if x.is_event_stream and not found.name:
        raise inconclusive("the function_call has no name")
    require(found.name == _named(x), f"a function_call of {_named(x)}", got=found.name)
    require(isinstance(found.arguments, str), "arguments as a string", got=found.arguments)
