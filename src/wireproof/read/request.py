"""What a chat request asks for in tools, logprobs and form, read from its body.

A member of an impossible type counts as not asked: the request is then one that a server may refuse,
and what it must answer is a matter of the rule that sends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from wireproof.read.exchange import Exchange
from wireproof.read.views import view
from wireproof.wire.strictjson import get, is_int


@dataclass(frozen=True)
class Tool:
    """One declared function. `parameters` is None when it was left out."""

    name: str
    parameters: Mapping[str, Any] | None
    strict: bool


class ToolChoiceKind(StrEnum):
    """What `tool_choice` says; UNKNOWN when the recording does not tell."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"
    NAMED = "named"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ToolChoice:
    """`names` are the functions that may be called (all declared ones unless the choice limits them)."""

    kind: ToolChoiceKind
    names: frozenset[str]
    limited: bool = False  # by allowed_tools

    @property
    def forced(self) -> bool:
        """Whether a call must come."""
        return self.kind in (ToolChoiceKind.REQUIRED, ToolChoiceKind.NAMED)


class Form(StrEnum):
    """What `response_format` says."""

    TEXT = "text"
    OBJECT = "json_object"
    SCHEMA = "json_schema"
    OTHER = "other"


@dataclass(frozen=True)
class Format:
    """The answer's form. `schema` is None unless `form` is SCHEMA and it is an object."""

    form: Form
    schema: Mapping[str, Any] | None = None
    strict: bool = False


def _functions(x: Exchange) -> list[Any]:
    found = x.asked.get("tools")
    if isinstance(found, list):
        return [t["function"] for t in found if isinstance(t, dict) and isinstance(t.get("function"), dict)]
    legacy = x.asked.get("functions")
    return legacy if isinstance(legacy, list) else []


@view
def tools(x: Exchange) -> dict[str, Tool]:
    """The declared functions by name (the deprecated `functions` too)."""
    out: dict[str, Tool] = {}
    for function in _functions(x):
        name = get(function, "name")
        if isinstance(name, str):
            parameters = function.get("parameters")
            given = parameters if isinstance(parameters, dict) else None
            out[name] = Tool(name, given, function.get("strict") is True)
    return out


@view
def tool_choice(x: Exchange) -> ToolChoice:
    """What may be called. Without the request at hand, UNKNOWN."""
    declared = frozenset(tools(x))
    value = x.asked.get("tool_choice")
    if not x.knows_request or value == "unknown":
        return ToolChoice(ToolChoiceKind.UNKNOWN, declared)
    if value is None:
        return ToolChoice(ToolChoiceKind.AUTO if declared else ToolChoiceKind.NONE, declared)
    if isinstance(value, str):
        known = value in (ToolChoiceKind.NONE, ToolChoiceKind.AUTO, ToolChoiceKind.REQUIRED)
        return ToolChoice(ToolChoiceKind(value) if known else ToolChoiceKind.UNKNOWN, declared)
    name = get(value, "function", "name")
    if isinstance(name, str):
        return ToolChoice(ToolChoiceKind.NAMED, frozenset({name}))
    if get(value, "type") == "allowed_tools":
        inner = get(value, "allowed_tools", default=value)
        listed = get(inner, "tools")
        entries = listed if isinstance(listed, list) else []
        names = frozenset(n for t in entries if isinstance(n := get(t, "function", "name"), str))
        required = get(inner, "mode") == "required"
        return ToolChoice(ToolChoiceKind.REQUIRED if required else ToolChoiceKind.AUTO, names, limited=True)
    return ToolChoice(ToolChoiceKind.UNKNOWN, declared)


@view
def is_legacy(x: Exchange) -> bool:
    """Whether the deprecated `functions` were used."""
    return isinstance(x.asked.get("functions"), list) and "tools" not in x.asked


@view
def response_format(x: Exchange) -> Format:
    """The form that was asked for."""
    value = x.asked.get("response_format")
    kind = get(value, "type")
    if value is None or kind == Form.TEXT:
        return Format(Form.TEXT)
    if kind == Form.OBJECT:
        return Format(Form.OBJECT)
    schema = get(value, "json_schema", "schema")
    if kind == Form.SCHEMA and isinstance(schema, dict):
        return Format(Form.SCHEMA, schema, get(value, "json_schema", "strict") is True)
    return Format(Form.OTHER)


@view
def wants_logprobs(x: Exchange) -> bool:
    """Whether `logprobs: true` was sent."""
    return x.asked.get("logprobs") is True


@view
def top_logprobs(x: Exchange) -> int:
    """How many alternatives were asked for; 0 when none, or when the value is no integer."""
    k = x.asked.get("top_logprobs")
    return k if is_int(k) and k >= 0 else 0
