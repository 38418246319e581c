"""Keywords of JSON Schema that are passed over in silence, one kind at a time, and keywords that crash.

The schema loses them before anything looks at it, so that the answer is what the rest of it allows.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..answer import HttpAnswer, HttpRequest
from . import Context, Layer, fault

Schema = dict[str, Any]
Edit = Callable[[Schema], Schema]

_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs"})
_DATA = frozenset({"enum", "const", "default", "examples", "required", "dependentRequired", "type"})
# Other rules than those of the strict subset answer for what is within these.
_OTHERS = frozenset(
    {"allOf", "oneOf", "not", "if", "then", "else", "prefixItems", "contains", "patternProperties", "propertyNames"}
)
# The name of every schema of the keyword table. Only these are changed: the prompts of other requests with
# strict tools keep their length, and their answers their text.
_TABLE = "answer"
_MEMBERS = frozenset({"value", "left", "n"})


def _everywhere(schema: Any, edit: Edit, leave: frozenset[str] = frozenset()) -> Any:
    """`edit` done to every schema within a schema, from the outside in; what stands under `leave` stays."""
    if isinstance(schema, list):
        return [_everywhere(part, edit, leave) for part in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {}
    for keyword, value in edit(schema).items():
        if keyword in _BY_NAME and keyword not in leave and isinstance(value, dict):
            changed[keyword] = {name: _everywhere(part, edit, leave) for name, part in value.items()}
        else:
            changed[keyword] = value if keyword in _DATA | leave else _everywhere(value, edit, leave)
    return changed


def _without(*keywords: str) -> Edit:
    return lambda schema: {k: v for k, v in schema.items() if k not in keywords}


def _table_parts(body: Any) -> list[tuple[Schema, str]]:
    """Where the schemas of the table stand in a request: (parent, key)."""
    if not isinstance(body, dict):
        return []
    found: list[Any] = []
    form = body.get("response_format")
    if isinstance(form, dict) and isinstance(form.get("json_schema"), dict):
        found.append((form["json_schema"], "schema"))
    for tool in body["tools"] if isinstance(body.get("tools"), list) else []:
        if isinstance(tool, dict) and isinstance(tool.get("function"), dict):
            found.append((tool["function"], "parameters"))
    return [(at, key) for at, key in found if at.get("name") == _TABLE and _is_ours(at.get(key))]


def _is_ours(schema: Any) -> bool:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return isinstance(properties, dict) and bool(_MEMBERS & properties.keys())


def _edited(request: HttpRequest, edit: Callable[[Schema], Schema]) -> HttpRequest:
    """A request with its schemas of the table changed; any other request as it is."""
    if b'"strict"' not in request.body:
        return request
    try:
        body = json.loads(request.body)
    except (ValueError, RecursionError):
        return request
    changed = False
    for at, key in _table_parts(body):
        new = edit(at[key])
        changed = changed or new != at[key]
        at[key] = new
    return replace(request, body=json.dumps(body, ensure_ascii=False).encode()) if changed else request


def _ignores(
    name: str, summary: str, breaks: set[str], edit: Edit, leave: frozenset[str] = frozenset(), **more: Any
) -> None:
    """A fault that does `edit` to every schema within those of the table."""

    def apply(request: HttpRequest, ctx: Context) -> HttpRequest:
        return _edited(request, lambda schema: _everywhere(schema, edit, leave))

    apply.__doc__ = summary
    fault(name, layer=Layer.REQUEST, breaks=breaks, **more)(apply)


_TYPES, _NULLS, _REFS = "schema.type.supported", "schema.null.unions", "schema.ref.supported"
_STRING, _NUMBER, _ARRAY = "schema.keyword.string", "schema.keyword.number", "schema.keyword.array"
_TOOL, _PLAIN, _STREAM = "tool.strict.valid", "schema.strict.valid", "schema.stream.same-guarantee"
_KEYS, _OBJECT, _COMPOSED = "schema.keys.exact", "schema.keyword.object", "schema.keyword.composition"


# -- the strict subset ---------------------------------------------------------------


def _untyped(schema: Schema) -> Schema:
    """Without the type of a value that is neither an object nor an array."""
    return schema if schema.get("type") in ("object", "array") else _without("type")(schema)


def _loose_unions(schema: Schema) -> Schema:
    """Without a type that is a list, and without an anyOf that has a null branch."""
    if isinstance(schema.get("type"), list):
        return _without("type")(schema)
    branches = schema.get("anyOf")
    return _without("anyOf")(schema) if isinstance(branches, list) and {"type": "null"} in branches else schema


_ignores(
    "schema.ignores-type",
    "The type of a value is ignored.",
    {_TYPES, _NULLS, _PLAIN, _STREAM, _TOOL},
    _untyped,
    _OTHERS | {"anyOf", "$defs"},
)
_ignores(
    "schema.ignores-enum",
    "enum is ignored.",
    {_TYPES, _NULLS, _PLAIN, _STREAM, _TOOL, "schema.unicode.exact"},
    _without("enum"),
    _OTHERS | {"additionalProperties", "$defs"},
)
_ignores("schema.ignores-const", "const is ignored.", {_TYPES, _PLAIN, _TOOL}, _without("const"), _OTHERS)
_ignores("schema.ignores-any-of", "anyOf is ignored.", {_TYPES, _NULLS, _REFS, _PLAIN, _TOOL}, _without("anyOf"))
_ignores(
    "schema.ignores-items",
    "The schema of an array's items is ignored, with all its demands.",
    {_TYPES, _NULLS, _REFS, _STRING, _PLAIN, _STREAM, _TOOL},
    lambda schema: {k: v for k, v in schema.items() if k != "items" or not isinstance(v, dict)},
)
_ignores(
    "schema.ignores-null-unions",
    "A union with null lets everything through.",
    {_NULLS, _REFS, _PLAIN, _STREAM, _TOOL},
    _loose_unions,
)
_ignores(
    "schema.ignores-ref",
    "$ref is not followed: anything goes there.",
    {_REFS, _NULLS, _PLAIN, _STREAM, _TOOL},
    _without("$ref"),
    _OTHERS,
)

# -- keys ------------------------------------------------------------------------------


def _open(schema: Schema) -> Schema:
    return _without("additionalProperties")(schema) if schema.get("additionalProperties") is False else schema


_ignores("schema.ignores-required", "required is ignored.", {_KEYS, _TOOL}, _without("required"))
_ignores("schema.ignores-additional-false", "additionalProperties: false is ignored.", {_KEYS, _TOOL}, _open)


@fault("schema.root-keys-only", layer=Layer.REQUEST, breaks={_KEYS, _TOOL})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The schema binds the keys of the outermost object, not those of objects in it."""

    def free(schema: Schema) -> Schema:
        return _open(_without("required")(schema))

    def inner(schema: Schema) -> Schema:
        parts = schema.get("properties")
        parts = parts if isinstance(parts, dict) else {}
        return {**schema, "properties": {name: _everywhere(part, free) for name, part in parts.items()}}

    return _edited(request, inner)


# -- strings, numbers, arrays -------------------------------------------------------------

_ignores("schema.ignores-pattern", "pattern is ignored.", {_STRING}, _without("pattern"))
_ignores("schema.ignores-format", "format is ignored.", {_STRING}, _without("format"))
_ignores("schema.ignores-length", "minLength and maxLength are ignored.", {_STRING}, _without("minLength", "maxLength"))


def _in_bytes(schema: Schema) -> Schema:
    """Lengths of two bytes a character are asked for where so many characters were."""
    least = schema.get("minLength")
    return {**schema, "minLength": (least + 1) // 2} if isinstance(least, int) else schema


_ignores("schema.length-in-bytes", "minLength counts bytes, not characters.", {_STRING}, _in_bytes)
_ignores("schema.ignores-minimum", "minimum and maximum are ignored.", {_NUMBER}, _without("minimum", "maximum"))


def _inclusive(schema: Schema) -> Schema:
    names = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
    return {names.get(k, k): v for k, v in schema.items()}


_ignores("schema.inclusive-bounds", "Exclusive bounds let the bound itself through.", {_NUMBER}, _inclusive)
_ignores(
    "schema.ignores-multiple-of",
    "multipleOf is accepted and not enforced.",
    {_NUMBER},
    _without("multipleOf"),
    cases=("B2-157",),
    source="https://github.com/sgl-project/sglang/issues/40083",
)
_ignores(
    "schema.ignores-item-count",
    "minItems and maxItems are ignored.",
    {_ARRAY},
    _without("minItems", "maxItems"),
    cases=("B2-156",),
    source="https://github.com/vllm-project/vllm/issues/12201",
)
_ignores(
    "schema.ignores-unique-items",
    "uniqueItems is accepted and not enforced.",
    {_ARRAY},
    _without("uniqueItems"),
    cases=("B2-157",),
    source="https://github.com/sgl-project/sglang/issues/40083",
)
_ignores("schema.ignores-prefix-items", "prefixItems is ignored.", {_ARRAY}, _without("prefixItems"))
_ignores(
    "schema.ignores-contains",
    "contains, minContains and maxContains are ignored.",
    {_ARRAY},
    _without("contains", "minContains", "maxContains"),
)

# -- objects and composition ---------------------------------------------------------------

_ignores("schema.ignores-property-names", "propertyNames is ignored.", {_OBJECT}, _without("propertyNames"))
_ignores(
    "schema.ignores-property-count",
    "minProperties and maxProperties are ignored.",
    {_OBJECT},
    _without("minProperties", "maxProperties"),
)


def _free_patterns(schema: Schema) -> Schema:
    found = schema.get("patternProperties")
    return {**schema, "patternProperties": dict.fromkeys(found, True)} if isinstance(found, dict) else schema


_ignores(
    "schema.ignores-pattern-properties", "The schemas in patternProperties are ignored.", {_OBJECT}, _free_patterns
)
_ignores(
    "schema.ignores-unevaluated",
    "unevaluatedProperties and unevaluatedItems are ignored.",
    {_OBJECT, _ARRAY},
    _without("unevaluatedProperties", "unevaluatedItems"),
)
_ignores("schema.ignores-one-of", "oneOf is ignored.", {_COMPOSED}, _without("oneOf"))


def _any_of(schema: Schema) -> Schema:
    return {"anyOf" if k == "oneOf" else k: v for k, v in schema.items()}


_ignores("schema.one-of-is-any-of", "oneOf lets values through that fit two branches.", {_COMPOSED}, _any_of)
_ignores("schema.ignores-all-of", "allOf is ignored.", {_COMPOSED}, _without("allOf"))
_ignores("schema.ignores-not", "not is ignored.", {_COMPOSED}, _without("not"))
_ignores("schema.ignores-if", "if, then and else are ignored.", {_COMPOSED}, _without("if", "then", "else"))
_ignores(
    "schema.ignores-dependents",
    "dependentRequired and dependentSchemas are ignored.",
    {_COMPOSED},
    _without("dependentRequired", "dependentSchemas"),
)

# -- crashes ---------------------------------------------------------------------------------


@fault(
    "schema.keyword-is-500",
    layer=Layer.HTTP,
    breaks={_OBJECT, "tool.choice.no-5xx"},
    cases=("B2-160",),
    source="https://github.com/noonghunna/club-3090/issues/45",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """propertyNames, which cannot be enforced, gets a 500 and not a 400."""
    if answer.status != 400 or b'"propertyNames"' not in ctx.http.body:
        return answer
    return replace(answer, status=500, reason="Internal Server Error")
