"""The server refuses requests about tools that it cannot fulfil."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from wireproof.judge.rules import SHOULD, Each, observed, openapi, rule
from wireproof.read.chat import Chat, is_chat
from wireproof.read.exchange import Exchange
from wireproof.read.refusal import must_not_crash, must_refuse
from wireproof.read.request import tools
from wireproof.wire.strictjson import get

_VLLM_CHECK = "https://github.com/vllm-project/vllm/blob/v0.10.2/vllm/entrypoints/openai/protocol.py"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _requests(what: str, test: Callable[[Exchange], object], *needs: str) -> Each:
    """Every answered chat request for which the test is true."""
    return Each(what, lambda x: is_chat(x) and x.knows_request and x.response is not None and bool(test(x)), needs)


def _list(x: Exchange) -> list[Any]:
    """The entries of `tools`."""
    found = x.asked.get("tools")
    return found if isinstance(found, list) else []


def _cannot_be_used(x: Exchange) -> bool:
    """Whether `tools` is not a list, or an entry has an unknown type, no name, or parameters that are not an object."""
    if x.asked.get("tools") is not None and not isinstance(x.asked["tools"], list):
        return True
    for tool in _list(x):
        kind = get(tool, "type")
        if kind not in ("function", "custom"):
            return True
        parameters = get(tool, "function", "parameters")
        if kind == "function" and (
            not isinstance(get(tool, "function", "name"), str) or not isinstance(parameters, dict | None)
        ):
            return True
    return False


def _is_odd(x: Exchange) -> bool:
    """Whether a name is declared twice, or a strict is not a boolean: a server may accept either."""
    names = [get(tool, "function", "name") for tool in _list(x)]
    strict = [get(tool, "function", "strict") for tool in _list(x)]
    named = [n for n in names if isinstance(n, str)]
    return len(set(named)) < len(named) or not all(isinstance(s, bool | None) for s in strict)


def _illegal_name(x: Exchange) -> bool:
    names = [get(tool, "function", "name") for tool in _list(x)]
    return any(isinstance(n, str) and not _NAME.fullmatch(n) for n in names)


def _named(x: Exchange) -> Any:
    return get(x.asked.get("tool_choice"), "function", "name")


def _undeclared(x: Exchange) -> bool:
    return bool(tools(x)) and isinstance(_named(x), str) and _named(x) not in tools(x)


def _without_tools(x: Exchange) -> bool:
    forced = x.asked.get("tool_choice") == "required" or isinstance(_named(x), str)
    return forced and not x.asked.get("tools") and not x.asked.get("functions")


def _unknown_choice(x: Exchange) -> bool:
    value = x.asked.get("tool_choice")
    return value is not None and value not in ("none", "auto", "required") and not isinstance(value, dict)


@rule(
    "tool.definition.bad-refused",
    SHOULD,
    on=_requests(
        "every request with a wrong definition of a tool",
        lambda x: _cannot_be_used(x) or _is_odd(x),
        *("tools-no-name", "tools-type-unknown", "tools-no-array", "tools-parameters-string"),
        *("tools-duplicate", "tools-strict-string"),
    ),
    source=openapi("ChatCompletionTool.required, FunctionObject.required"),
)
def test_definition_bad(x: Chat) -> None:
    """The server refuses an unusable definition of a tool with a 4xx.

    If the server accepts it, the model simply never calls the tool, and its author looks for the fault in the prompt.
    (A server may accept two tools with one name, and a strict that is not a boolean.)
    """
    if x.ok and not _cannot_be_used(x):
        return
    must_refuse(x, "this definition")


@rule(
    "tool.name.illegal-refused",
    SHOULD,
    on=_requests(
        "every request with an illegal name", _illegal_name, "tool-name-space", "tool-name-not-ascii", "tool-name-65"
    ),
    book="TOOL-018",
    source=observed("string does not match pattern ^[a-zA-Z0-9_-]+$"),
)
def test_name_illegal(x: Chat) -> None:
    """The server refuses a function name that is not 1 to 64 letters, digits, underscores and dashes, with a 4xx.

    OpenAI refuses it. Elsewhere the tool works until the day somebody switches servers, or the server returns another
    name.
    """
    must_refuse(x, "this name")


@rule(
    "tool.choice.undeclared-refused",
    SHOULD,
    on=_requests("every request that names an undeclared function", _undeclared, "choice-undeclared"),
    book="TOOL-024",
    source=observed("OpenAI, vLLM: 400", _VLLM_CHECK),
)
def test_choice_undeclared(x: Chat) -> None:
    """The server refuses a tool_choice that names an undeclared function with a 4xx.

    The model cannot fulfil it: it answers in text, or calls an invented function, which is a KeyError in the agent.
    """
    must_refuse(x, "an undeclared function")


@rule(
    "tool.choice.without-tools-refused",
    SHOULD,
    on=_requests(
        "every request that forces a call without tools",
        _without_tools,
        *("choice-required-without-tools", "choice-required-empty-tools"),
    ),
    book="TOOL-025",
    source=observed("OpenAI, vLLM: tool_choice is only allowed when tools are given", _VLLM_CHECK),
)
def test_choice_without_tools(x: Chat) -> None:
    """The server refuses tool_choice "required", or a name, with a 4xx if there are no tools or the list is empty.

    The model cannot fulfil it: code that indexes tool_calls[0] fails far from the cause.
    """
    must_refuse(x, "a forced call without tools")


@rule(
    "tool.choice.bad-refused",
    SHOULD,
    on=_requests("every request with an unknown tool_choice", _unknown_choice, "choice-unknown-word", "choice-number"),
    source=openapi("ChatCompletionToolChoiceOption: none, auto, required, or an object"),
)
def test_choice_bad(x: Chat) -> None:
    """The server refuses a tool_choice that is an unknown word or of a wrong type with a 4xx.

    If the server silently takes a misspelt "required" or "none" for auto, the model does what it must not do.
    """
    must_refuse(x, "this tool_choice")


@rule(
    "tool.list.empty-no-5xx",
    SHOULD,
    on=_requests(
        "every request with an empty list of tools",
        lambda x: x.asked.get("tools") == [] and not x.asked.get("tool_choice"),
        "tools-empty",
    ),
    book="TOOL-026",
    source=observed("OpenAI, vLLM: 400; others take it as no tools"),
)
def test_list_empty(x: Exchange) -> None:
    """The server takes an empty list of tools as no tools, or refuses it with a 4xx; it never sends a 5xx.

    Frameworks send it when an agent has lost its last tool.
    """
    must_not_crash(x)
