"""The arguments of tool calls: a string that holds a JSON object, which fits the function's schema."""

from __future__ import annotations

from typing import Any

from wireproof.json_schema.violations import Violated, violated
from wireproof.judge.rules import MUST, SHOULD, Each, contract, each_of, engine, observed, of, openapi, rfc, rule
from wireproof.read.chat import Chat, is_answer, is_plain
from wireproof.read.exchange import Exchange
from wireproof.read.request import Tool, ToolChoiceKind, tool_choice, tools
from wireproof.read.tool_calls import Call, argument_objects, mistyped, needs_nothing, takes_nothing, whole_calls
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get, is_int

# These have rules of their own, which look at characters, not at keywords.
_EXACT = ("tool-unicode", "tool-unicode-stream", "tool-markers", "tool-markers-stream", "tool-long")


def _has_calls(x: Exchange) -> bool:
    return is_answer(x) and bool(tools(x)) and b'"tool_calls"' in x.answered.content


def _forced(x: Exchange) -> bool:
    return _has_calls(x) and tool_choice(x).forced


def _free(x: Exchange) -> bool:
    return _has_calls(x) and tool_choice(x).kind is ToolChoiceKind.AUTO


_FORCED = Each(
    "every forced tool call",
    _forced,
    ("tool-required-against", "tool-named-other", "tool-schema", "tool-schema-strict", "tool-unicode", "tool-markers"),
)
_STRICT = Each(
    "every forced call to a strict function",
    lambda x: _forced(x) and x.scenario not in _EXACT and any(t.strict for t in tools(x).values()),
    ("tool-schema-strict", "tool-schema-strict-stream", "tool-no-properties"),
)
_LOOSE = Each(
    "every forced call to a function that is not strict",
    lambda x: _forced(x) and not all(t.strict for t in tools(x).values()),
    ("tool-schema", "tool-required-against", "tool-named-other", "tool-named-other-stream"),
)
_AUTO = Each("every call that the model chose to make", _free, ("tools-auto", "tools-auto-stream", "tool-two-calls"))
_AUTO_STRICT = Each(
    "every call to a strict function that the model chose to make",
    lambda x: _free(x) and any(t.strict for t in tools(x).values()),
    ("tool-auto-strict", "tool-auto-strict-stream"),
)
_NOTHING = Each(
    "every call to a function without parameters",
    lambda x: _has_calls(x) and any(takes_nothing(t) for t in tools(x).values()),
    ("tool-no-parameters", "tool-no-parameters-stream", "tool-no-properties"),
)
_PLAIN = Each(
    "every plain answer with tool calls",
    lambda x: is_plain(x) and b'"tool_calls"' in x.answered.content,
    ("tools-required", "tools-named", "tool-no-parameters", "tool-schema"),
)


def _is_object(call: Call) -> bool:
    return call.parsed.ok and isinstance(call.parsed.value, dict)


def _judged_here(x: Exchange, call: Call, tool: Tool) -> bool:
    """Whether the rules here judge the form of the arguments.

    tool.arguments.string judges arguments that are not a string, the rules for streams judge fragments that do not
    join into JSON, and tool.arguments.not-blank judges an empty text where the function needs no arguments.
    """
    if not isinstance(call.arguments, str) or (x.is_event_stream and not call.parsed.ok):
        return False
    return bool(call.arguments.strip()) or not needs_nothing(tool)


def _broken(tool: Tool, value: Any) -> list[Violated]:
    """Where the arguments violate the function's schema; inconclusive if the schema itself cannot be used."""
    if not tool.parameters:
        return []
    try:
        return violated(tool.parameters, value)
    except ValueError as error:
        raise inconclusive(str(error)) from error


def _require_valid(call: Call, tool: Tool, broken: list[Violated]) -> None:
    require(not broken, f"arguments that {tool.name}'s schema allows", got="; ".join(map(str, broken)), at=call.part)


def _mistyped(tool: Tool, value: dict[str, Any]) -> str:
    """The first member whose value is wrong only in its type (5 as "5"), or ""."""
    parameters = tool.parameters or {}
    members = parameters.get("properties")
    for name, schema in members.items() if isinstance(members, dict) else ():
        if name in value and isinstance(schema, dict):
            whole = {**schema, "$defs": parameters.get("$defs", {}), "definitions": parameters.get("definitions", {})}
            if mistyped(lambda v, s=whole: _fits(s, v), value[name]):  # type: ignore[misc]
                return f"{name}: {value[name]!r}"
    return ""


def _fits(schema: dict[str, Any], value: Any) -> bool:
    try:
        return not violated(schema, value)
    except ValueError:
        return True


@rule(
    "tool.arguments.string",
    MUST,
    on=_PLAIN,
    book="TOOL-008",
    source=openapi("ChatCompletionMessageToolCall.function.arguments: string"),
    evidence=("ns_tool_args_object", "ns_tool_args_null"),
)
def test_string(x: Chat) -> None:
    """function.arguments is a string that holds JSON, neither an object nor null.

    Agent loops call json.loads on it: anything else is a TypeError. LangChain, openai-agents, pydantic-ai and the
    AI SDK reject the whole answer; LlamaIndex workflows stop at null.
    """
    for choice in x.plain_choices:
        entries = get(choice, "message", "tool_calls")
        for entry in entries if isinstance(entries, list) else []:
            function = get(entry, "function")
            if isinstance(function, dict):  # tool.call.shape demands one
                given = function.get("arguments", "absent")
                ok = "arguments" in function and isinstance(given, str)
                require(ok, "a string in `function.arguments`", got=f"{given!r}")


@rule(
    "tool.arguments.object-when-forced",
    MUST,
    on=_FORCED,
    book="TOOL-009",
    source=contract("engines constrain forced calls; agents call json.loads"),
    evidence=("ns_tool_args_malformed",),
)
def test_object_when_forced(x: Chat) -> None:
    """The arguments of a forced call are a JSON object, unless the call was cut off.

    LangChain files anything else under invalid_tool_calls; most loops crash in json.loads or at **arguments.
    """
    for call, tool in whole_calls(x):
        if _judged_here(x, call, tool) and not takes_nothing(tool):
            require(_is_object(call), "a JSON object as arguments", got=repr(call.arguments), at=call.part)


@rule(
    "tool.arguments.valid-in-auto",
    SHOULD,
    on=_AUTO,
    book="TOOL-010",
    source=openapi("function.arguments: the model does not always generate valid JSON"),
)
def test_valid_in_auto(x: Chat) -> None:
    """When the model chooses to call a function, the arguments are a JSON object that fits the declared parameters.

    Each miss costs a retry, or ends up in invalid_tool_calls and is forgotten.
    """
    misfit = ""
    for call, tool in whole_calls(x):
        if not _judged_here(x, call, tool) or (takes_nothing(tool) and call.parsed.ok):
            continue
        require(_is_object(call), "a JSON object as arguments", got=repr(call.arguments), at=call.part)
        if not tool.strict and not _mistyped(tool, call.parsed.value):
            misfit = next((str(v) for v in _broken(tool, call.parsed.value)), misfit)
    if misfit:
        raise inconclusive(f"the model's arguments do not fit the schema: {misfit}")


@rule(
    "tool.arguments.empty-object",
    MUST,
    on=_NOTHING,
    book="TOOL-019",
    source=openapi("FunctionParameters: omitting parameters defines a function with an empty parameter list"),
    evidence=("ns_tool_args_empty", "tool_no_args_at_all"),
)
def test_empty_object(x: Chat) -> None:
    """A call to a function without parameters passes an empty JSON object.

    json.loads turns "null" into None, and func(**None) raises a TypeError.
    """
    invented = ""
    for call, tool in whole_calls(x):
        if not takes_nothing(tool) or not _judged_here(x, call, tool):
            continue
        if not call.parsed.ok and _free(x):
            continue  # the model itself may have written that: tool.arguments.valid-in-auto
        require(_is_object(call), "{} as arguments", got=repr(call.arguments), at=call.part)
        invented = call.arguments if call.parsed.value and not tool.strict else invented
    if invented:
        raise inconclusive(f"the model passed arguments that the function does not declare: {invented[:60]}")


# gpt-4o itself has been seen sending "".
@rule(
    "tool.arguments.not-blank",
    SHOULD,
    on=Each(
        "every plain call to a function that needs no arguments",
        lambda x: is_plain(x) and _has_calls(x) and any(needs_nothing(t) for t in tools(x).values()),
        _NOTHING.needs,
    ),
    source=observed('{} for a call without arguments; "" was seen now and then'),
    evidence=("ns_tool_args_empty",),
)
def test_not_blank(x: Chat) -> None:
    """A call without arguments sends "{}", not an empty string.

    json.loads("") raises in user code; only LangChain reads it as {}.
    """
    for call, tool in whole_calls(x):
        if needs_nothing(tool) and isinstance(call.arguments, str):
            require(call.arguments.strip(), "{} as arguments", got=repr(call.arguments), at=call.part)


@rule(
    "tool.strict.valid",
    MUST,
    on=_STRICT,
    book="TOOL-012",
    source=openapi("FunctionObject.strict: the model will follow the exact schema"),
)
def test_strict_valid(x: Chat) -> None:
    """The arguments of a forced call to a strict function are valid against its schema.

    Clients skip their own validation because they asked for strict: true.
    """
    for call, tool, value in argument_objects(x):
        if tool.strict:  # schema.keyword.* judge the other keywords, which a server may refuse
            _require_valid(call, tool, [v for v in _broken(tool, value) if v.area in ("core", "keys")])


@rule(
    "tool.auto.strict-constrains",
    SHOULD,
    on=_AUTO_STRICT,
    source=openapi("FunctionObject.strict: the model will follow the exact schema"),
)
def test_auto_strict(x: Chat) -> None:
    """The arguments of a call to a strict function are valid even if the model chose to make the call.

    Engines that constrain only forced calls let through whatever invalid value the prompt begs for.
    """
    for call, tool, value in argument_objects(x):
        if tool.strict:
            _require_valid(call, tool, _broken(tool, value))


@rule(
    "tool.arguments.schema-respected",
    SHOULD,
    on=_LOOSE,
    book="TOOL-028",
    source=contract("pydantic schemas use $ref, anyOf, enums and nesting"),
)
def test_schema_respected(x: Chat) -> None:
    """The arguments of a forced call fit the function's schema even if the request does not ask for strict.

    Schemas that pydantic makes are full of $ref, anyOf with null, enums and nested objects.
    """
    for call, tool, value in argument_objects(x):
        if tool.strict or _mistyped(tool, value):
            continue  # judged by tool.strict.valid, and by tool.arguments.typed
        _require_valid(call, tool, _broken(tool, value))


@rule(
    "tool.arguments.typed",
    SHOULD,
    on=_LOOSE,
    source=engine("vllm", "typed coercion of tool parsers", "https://github.com/vllm-project/vllm/issues/37831"),
)
def test_typed(x: Chat) -> None:
    """The arguments of a forced call keep the declared types: 5 is not sent as "5", nor "42" as 42.

    Parsers for XML-like templates guess types from text, and miss those behind anyOf and null.
    """
    for call, tool, value in argument_objects(x):
        if not tool.strict:
            wrong = _mistyped(tool, value)
            require(not wrong, "values of the declared types", got=wrong, at=call.part)


@rule(
    "tool.strict.costs-nothing",
    SHOULD,
    on=of("tool-schema", "tool-schema-strict"),
    source=engine("vllm", "strict in the prompt", "https://github.com/vllm-project/vllm/issues/52741"),
)
def test_strict_costs_nothing(loose: Chat, strict: Chat) -> None:
    """strict: true does not change the prompt: prompt_tokens is the same with and without it.

    If the server renders strict into the prompt, it costs tokens on every request, and the model no longer calls tools
    the way it was trained to.
    """
    counts = [get(x.usage, "prompt_tokens") for x in (loose, strict) if x.completion]
    if not all(is_int(c) for c in counts):
        raise inconclusive("usage does not say how long the prompt was")
    require(counts[0] == counts[1], f"{counts[0]} prompt tokens, as without strict", got=counts[1], owner=strict)


def _check_exact(x: Chat) -> None:
    """The only string that the schema allows comes back, character for character."""
    for call, tool, value in argument_objects(x):
        wanted = get(tool.parameters, "properties", "text", "enum", 0)
        if not isinstance(wanted, str):
            raise NotApplicable("the schema does not fix the text")
        got = value.get("text")
        at = next((i for i, (a, b) in enumerate(zip(wanted, str(got), strict=False)) if a != b), len(str(got)))
        near = f"{str(got)[max(0, at - 8) : at + 24]!r} near character {at}"
        require(got == wanted, f"{wanted[max(0, at - 8) : at + 24]!r}", got=near, at=call.part)


@rule(
    "tool.arguments.unicode-exact",
    MUST,
    on=each_of("tool-unicode", "tool-unicode-stream"),
    book="TOOL-029",
    source=rfc(8259, "7"),
)
def test_unicode_exact(x: Chat) -> None:
    """CJK, emoji, quotes, backslashes and line breaks in arguments are unchanged after one JSON decoding.

    Characters that are escaped twice, or cut in half, end up in the names and addresses that the tool stores.
    """
    _check_exact(x)


@rule(
    "tool.argument.markers-survive",
    MUST,
    on=each_of("tool-markers", "tool-markers-stream"),
    source=contract("an argument is data, whatever it looks like"),
)
def test_markers_survive(x: Chat) -> None:
    """An argument that contains a marker such as </tool_call> or [TOOL_CALLS] comes back whole.

    Parsers that search the text for markers cut the call there: an agent cannot edit its own prompt files.
    """
    _check_exact(x)


@rule("tool.argument.long", MUST, on=each_of("tool-long"), source=contract("a long argument is an argument"))
def test_long(x: Chat) -> None:
    """An argument of a thousand characters comes back whole.

    Tools that write files get no shorter arguments.
    """
    _check_exact(x)
