"""`tools`, `tool_choice`, the deprecated `functions`, and `response_format` of a request.

In: the JSON body. Out: frozen values, or a 400 that names the member. Whether a schema can be enforced is
decided by constrain.py.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from .answer import ApiError, invalid
from .fields import array, boolean, mapping, needed, string, wrong_type

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True)
class Tool:
    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    strict: bool = False


@dataclass(frozen=True)
class ToolChoice:
    """`mode` is none, auto or required; `name` is the one function to call; `allowed` limits auto and required."""

    mode: str = "none"
    name: str | None = None
    allowed: tuple[str, ...] | None = None

    @property
    def forced(self) -> bool:
        return self.mode == "required"


@dataclass(frozen=True)
class ResponseFormat:
    """`kind`: text, json_object, json_schema, or the extensions regex, choice, grammar."""

    kind: str = "text"
    name: str = ""
    schema: dict[str, Any] | bool = field(default_factory=lambda: {"type": "object"})
    strict: bool = False
    pattern: str = ""
    choices: tuple[str, ...] = ()

    @property
    def constrained(self) -> bool:
        return self.kind != "text"


def _checked_name(body: dict[str, Any], path: str) -> str:
    name = needed(body, "name", path)
    if not _NAME.fullmatch(name):
        raise invalid(f"Invalid '{path}': use 1 to 64 of the characters a-z, A-Z, 0-9, _ and -.", path, "invalid_value")
    return name


def _function(value: Any, path: str) -> Tool:
    function = mapping(value, path)
    name = _checked_name(function, f"{path}.name")
    description = string(function, "description", f"{path}.description") or ""
    strict = boolean(function, "strict", f"{path}.strict") or False
    parameters = function.get("parameters")
    if parameters is not None:
        parameters = mapping(parameters, f"{path}.parameters")
        if parameters.get("type", "object") != "object":
            where = f"{path}.parameters"
            raise invalid(
                f"Invalid schema for function '{name}': '{where}.type' must be 'object'.",
                where,
                "invalid_function_parameters",
            )
    return Tool(name, description, parameters, strict)


def parse_tools(body: dict[str, Any]) -> tuple[Tool, ...]:
    value = body.get("tools")
    if value is None:
        return ()
    items = array(value, "tools")
    if not items:
        raise invalid("Invalid 'tools': empty array. Leave it out or declare a tool.", "tools", "empty_array")
    tools = []
    for i, item in enumerate(items):
        path = f"tools[{i}]"
        tool = mapping(item, path)
        kind = needed(tool, "type", f"{path}.type")
        if kind != "function":
            raise invalid(
                f"Invalid value: '{kind[:40]}'. Supported tool types: 'function'.", f"{path}.type", "invalid_value"
            )
        tools.append(_function(tool.get("function"), f"{path}.function"))
    _check_unique(tools, "tools", ".function")
    return tuple(tools)


def parse_functions(body: dict[str, Any]) -> tuple[Tool, ...]:
    """The deprecated `functions`."""
    value = body.get("functions")
    if value is None:
        return ()
    items = array(value, "functions")
    if not items:
        raise invalid("Invalid 'functions': empty array.", "functions", "empty_array")
    if body.get("tools") is not None:
        raise invalid("'functions' and 'tools' cannot be used together.", "functions")
    functions = [_function(item, f"functions[{i}]") for i, item in enumerate(items)]
    _check_unique(functions, "functions", "")
    return tuple(functions)


def _check_unique(tools: list[Tool], path: str, inner: str) -> None:
    seen: set[str] = set()
    for i, tool in enumerate(tools):
        if tool.name in seen:
            where = f"{path}[{i}]{inner}.name"
            raise invalid(f"Invalid '{where}': the name '{tool.name}' is declared twice.", where, "invalid_value")
        seen.add(tool.name)


def _undeclared(name: str, param: str) -> ApiError:
    return invalid(f"Invalid value for '{param}': the function '{name[:64]}' is not declared.", param, "invalid_value")


def parse_tool_choice(body: dict[str, Any], tools: tuple[Tool, ...]) -> ToolChoice:
    value = body.get("tool_choice")
    if value is None:
        return ToolChoice("auto" if tools else "none")
    names = {tool.name for tool in tools}
    if isinstance(value, str):
        if value not in ("none", "auto", "required"):
            raise invalid(
                f"Invalid value: '{value[:40]}'. 'tool_choice' supports: 'none', 'auto', 'required'.",
                "tool_choice",
                "invalid_value",
            )
        if value != "none" and not tools:
            raise invalid("'tool_choice' is only allowed when 'tools' are given.", "tool_choice")
        return ToolChoice(value)
    choice = mapping(value, "tool_choice") if isinstance(value, dict) else None
    if choice is None:
        raise wrong_type("tool_choice", "a string or an object", value)
    kind = needed(choice, "type", "tool_choice.type")
    if not tools:
        raise invalid("'tool_choice' is only allowed when 'tools' are given.", "tool_choice")
    if kind == "function":
        function = mapping(choice.get("function"), "tool_choice.function")
        name = needed(function, "name", "tool_choice.function.name")
        if name not in names:
            raise _undeclared(name, "tool_choice")
        return ToolChoice("required", name)
    if kind == "allowed_tools":
        return _allowed(choice, names)
    raise invalid(
        f"Invalid value: '{kind[:40]}'. 'tool_choice.type' supports: 'function', 'allowed_tools'.",
        "tool_choice.type",
        "invalid_value",
    )


def _allowed(choice: dict[str, Any], names: set[str]) -> ToolChoice:
    path = "tool_choice.allowed_tools"
    # The documented form nests; some clients send the members at top level.
    inner = mapping(choice["allowed_tools"], path) if "allowed_tools" in choice else choice
    mode = needed(inner, "mode", f"{path}.mode")
    if mode not in ("auto", "required"):
        raise invalid(f"Invalid value: '{mode[:40]}'. '{path}.mode' is 'auto' or 'required'.", f"{path}.mode")
    allowed = []
    for i, item in enumerate(array(inner.get("tools"), f"{path}.tools")):
        where = f"{path}.tools[{i}]"
        tool = mapping(item, where)
        function = mapping(tool.get("function", tool), where)
        name = needed(function, "name", f"{where}.function.name")
        if name not in names:
            raise _undeclared(name, where)
        allowed.append(name)
    if not allowed:
        raise invalid(f"Invalid '{path}.tools': empty array.", f"{path}.tools", "empty_array")
    return ToolChoice(mode, None, tuple(allowed))


def parse_function_call(body: dict[str, Any], functions: tuple[Tool, ...]) -> ToolChoice:
    """The deprecated `function_call`."""
    value = body.get("function_call")
    if value is None:
        return ToolChoice("auto" if functions else "none")
    if not functions:
        raise invalid("'function_call' is only allowed when 'functions' are given.", "function_call")
    if isinstance(value, str):
        if value not in ("none", "auto"):
            raise invalid("'function_call' is 'none', 'auto' or an object with a name.", "function_call")
        return ToolChoice(value)
    name = needed(mapping(value, "function_call"), "name", "function_call.name")
    if name not in {function.name for function in functions}:
        raise _undeclared(name, "function_call")
    return ToolChoice("required", name)


def parse_response_format(body: dict[str, Any]) -> ResponseFormat:
    value = body.get("response_format")
    if value is None:
        return ResponseFormat()
    form = mapping(value, "response_format")
    kind = needed(form, "type", "response_format.type")
    if kind in ("text", "json_object"):
        return ResponseFormat(kind)
    if kind != "json_schema":
        raise invalid(
            f"Invalid value: '{kind[:40]}'. 'response_format.type' supports: 'text', 'json_object', 'json_schema'.",
            "response_format.type",
            "invalid_value",
        )
    path = "response_format.json_schema"
    if form.get("json_schema") is None:
        raise invalid(f"Missing required parameter: '{path}'.", path, "missing_required_parameter")
    inner = mapping(form["json_schema"], path)
    name = _checked_name(inner, f"{path}.name")
    string(inner, "description", f"{path}.description")
    schema = mapping(inner["schema"], f"{path}.schema") if inner.get("schema") is not None else {"type": "object"}
    return ResponseFormat(kind, name, schema, boolean(inner, "strict", f"{path}.strict") or False)


def parse_structured_outputs(body: dict[str, Any]) -> ResponseFormat | None:
    """The extension `structured_outputs`, as vLLM spells it, or SGLang's top-level `regex`."""
    if isinstance(body.get("regex"), str):
        return ResponseFormat("regex", pattern=body["regex"])
    value = body.get("structured_outputs")
    if value is None:
        return None
    form = mapping(value, "structured_outputs")
    if form.get("json") is not None:
        return ResponseFormat("json_schema", schema=mapping(form["json"], "structured_outputs.json"), strict=True)
    if form.get("choice") is not None:
        choices = array(form["choice"], "structured_outputs.choice")
        if not choices or not all(isinstance(c, str) and c for c in choices):
            raise wrong_type("structured_outputs.choice", "an array of strings", choices)
        return ResponseFormat("choice", choices=tuple(choices))
    for kind in ("regex", "grammar"):
        pattern = string(form, kind, f"structured_outputs.{kind}")
        if pattern is not None:
            return ResponseFormat(kind, pattern=pattern)
    raise invalid("'structured_outputs' needs one of: json, regex, choice, grammar.", "structured_outputs")
