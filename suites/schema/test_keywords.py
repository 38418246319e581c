"""The keyword table: the server enforces or refuses each keyword of a strict schema, and ignores none.

A violated keyword counts against the rule of its group, in every strict answer that ended by itself, whichever
scenario asked for it. Other rules judge whether an answer is JSON at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wireproof.json_schema.violations import Violated, areas_in, violated
from wireproof.judge.rules import MUST, SHOULD, Each, observed, rule
from wireproof.read import request
from wireproof.read.chat import Chat, is_chat
from wireproof.read.exchange import Exchange
from wireproof.read.json_answer import not_ascii
from wireproof.read.tool_calls import calls
from wireproof.read.views import view
from wireproof.scenarios import keywords
from wireproof.verdict import Inconclusive, NotApplicable, Unsupported, inconclusive, require
from wireproof.wire import strictjson

_SUPPORTED = "https://platform.openai.com/docs/guides/structured-outputs#supported-schemas"
# The area of a group of fixtures/schemas, if its name is not that of the area.
_AREAS = {"type": "core", "annotation": "core", "null": "core", "ref": "core", "format": "string"}
# Overload: that says nothing about the schema.
_BUSY = (503, 529)


def _case(x: Exchange) -> keywords.KeywordCase | None:
    """The case of the table that an exchange was recorded for."""
    tags = x.transcript.tags
    return keywords.load().get(tags.row) if tags.table == keywords.TABLE else None


def _own_area(x: Exchange) -> str:
    case = _case(x)
    return _AREAS.get(case.group, case.group) if case else ""


def _of_groups(*groups: str) -> tuple[str, ...]:
    return tuple(name for case in keywords.load().values() if case.group in groups for name in case.scenarios)


@view
def _schemas(x: Exchange) -> list[Mapping[str, Any]]:
    """The strict schemas that a request asks for: of the answer, or of the arguments of its functions."""
    form = request.response_format(x)
    wanted = [form.schema] if form.strict and form.schema is not None else []
    return wanted + [t.parameters for t in request.tools(x).values() if t.strict and t.parameters is not None]


@view
def _areas(x: Exchange) -> frozenset[str]:
    if not (is_chat(x) and x.valid and x.response is not None):
        return frozenset()
    return frozenset().union(*(areas_in(schema) for schema in _schemas(x)))


def _texts(x: Chat) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Every text that must keep to a schema, with that schema; answers and calls that were cut off are left out."""
    form = request.response_format(x)
    if form.strict and form.schema is not None:
        for o in x.outcomes:
            if isinstance(o.content, str) and o.finish_reason == "stop" and not o.calls and not o.refusal:
                yield form.schema, o.content
    declared = request.tools(x)
    for call in calls(x) if declared else []:
        tool = declared.get(call.name) if isinstance(call.name, str) else None
        if tool and tool.strict and tool.parameters is not None and call.complete and isinstance(call.arguments, str):
            yield tool.parameters, call.arguments


@view
def _found(x: Chat) -> tuple[Violated, ...]:
    """Everything that the answer violates; inconclusive if it shows nothing."""
    found: list[Violated] = []
    shown = False
    for schema, text in _texts(x):
        parsed = strictjson.parse(text)
        if parsed.ok:
            shown = True
            try:
                found += violated(schema, parsed.value)
            except ValueError as error:
                raise inconclusive(str(error)) from error
    if not shown:
        raise inconclusive("no constrained JSON is complete (cut off by max_tokens, or no such answer)")
    return tuple(found)


def _judge(x: Chat, area: str, *, may_refuse: bool) -> None:
    """Pass a keyword that is enforced, or (if allowed) refused with a 4xx; fail one that is silently ignored."""
    if not x.ok:
        refused: Inconclusive | Unsupported = x.refused()
        if _own_area(x) != area:
            raise refused
        crashed = x.status is not None and x.status >= 500 and x.status not in _BUSY
        require(not crashed, "200, or a 4xx that names the keyword", got=x.refusal())
        if may_refuse and isinstance(refused, Unsupported):
            return
        raise refused
    if area in ("core", "keys") and request.response_format(x).schema is None:
        raise NotApplicable("for the arguments of strict functions, tool.strict.valid judges this")
    letters = area == "core" and not_ascii(request.response_format(x).schema)  # schema.unicode.exact judges those
    for v in _found(x):
        if letters and v.keyword in ("enum", "const"):
            continue
        require(v.area != area, f"an answer that keeps to {v.keyword} of its strict schema", got=str(v))


def _using(area: str, *groups: str) -> Each:
    return Each(
        f"every answer to a strict schema with {area} keywords", lambda x: area in _areas(x), _of_groups(*groups)
    )


def _group(what: str, *groups: str) -> Each:
    names = frozenset(_of_groups(*groups))
    return Each(what, lambda x: x.scenario in names, tuple(_of_groups(*groups)))


@rule(
    "schema.type.supported",
    MUST,
    on=_group("the schemas of each type", "type", "annotation"),
    book="SCHEMA-013",
    source=observed("structured outputs, supported schemas: types, enum, const, anyOf", _SUPPORTED),
)
def test_types(x: Chat) -> None:
    """string, number, integer, boolean, null, object, array, enum, const and anyOf work in a strict schema.

    Pydantic and Zod emit them for every model; a value that is not of the declared type fails in the caller's
    constructor, far from the request.
    """
    _judge(x, "core", may_refuse=False)


@rule(
    "schema.null.unions",
    MUST,
    on=_group("the schemas with null unions", "null"),
    book="SCHEMA-014",
    source=observed("structured outputs: all fields must be required; a union with null emulates optional", _SUPPORTED),
)
def test_null_unions(x: Chat) -> None:
    """A union with null (a list of types, or anyOf) works in a strict schema.

    It is the documented way to say that a field is optional: Pydantic emits anyOf for every Optional.
    """
    _judge(x, "core", may_refuse=False)


@rule(
    "schema.ref.supported",
    MUST,
    on=_group("the schemas with $ref", "ref"),
    book="SCHEMA-015",
    source=observed("structured outputs: definitions are supported, recursive schemas are supported", _SUPPORTED),
)
def test_refs(x: Chat) -> None:
    """$defs with $ref work in a strict schema, even if used twice, nested or recursive.

    Every nested Pydantic model has them: a server that does not follow them leaves the inner objects unconstrained.
    """
    _judge(x, "core", may_refuse=False)


@rule(
    "schema.keyword.string",
    SHOULD,
    on=_using("string", "string", "format"),
    book="SCHEMA-017",
    source=observed("structured outputs, supported properties of strings: pattern, format", _SUPPORTED),
)
def test_string_keywords(x: Chat) -> None:
    """The server enforces or refuses a strict schema's pattern, format, minLength and maxLength; it ignores none.

    A string that is not a date, or an id of the wrong shape, reaches the caller's database despite `strict: true`.
    """
    _judge(x, "string", may_refuse=True)


@rule(
    "schema.keyword.number",
    SHOULD,
    on=_using("number", "number"),
    book="SCHEMA-018",
    source=observed("structured outputs, supported properties of numbers", _SUPPORTED),
)
def test_number_keywords(x: Chat) -> None:
    """The server enforces or refuses minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf; it ignores none.

    A price below zero or a score of 11 out of 10 reaches the caller despite `strict: true`.
    """
    _judge(x, "number", may_refuse=True)


@rule(
    "schema.keyword.array",
    SHOULD,
    on=_using("array", "array"),
    book="SCHEMA-019",
    source=observed("structured outputs, supported properties of arrays: minItems, maxItems", _SUPPORTED),
)
def test_array_keywords(x: Chat) -> None:
    """The server enforces or refuses minItems, maxItems, prefixItems and the other array keywords; it ignores none.

    Callers index into the array (a pair, a triple, the first of at least one) and get an IndexError.
    """
    _judge(x, "array", may_refuse=True)


@rule(
    "schema.keys.exact",
    MUST,
    on=_using("keys", "keys"),
    book="SCHEMA-020",
    source=observed("structured outputs: additionalProperties false, all fields required", _SUPPORTED),
)
def test_keys(x: Chat) -> None:
    """An answer to a strict schema has every required key, and none that additionalProperties: false rules out.

    Typed decoding raises for both: a KeyError for a missing key, "extra fields not permitted" for an extra one.
    """
    _judge(x, "keys", may_refuse=False)


@rule(
    "schema.keyword.object",
    SHOULD,
    on=_using("object", "object"),
    source=observed("structured outputs: keywords that are not supported give an error", _SUPPORTED),
)
def test_object_keywords(x: Chat) -> None:
    """The server enforces or refuses patternProperties, propertyNames, minProperties and the like; it ignores none.

    Maps with typed keys (Pydantic's dict[Literal[...], int]) get keys that the caller has no case for.
    """
    _judge(x, "object", may_refuse=True)


@rule(
    "schema.keyword.composition",
    SHOULD,
    on=_using("composition", "composition"),
    book="SCHEMA-024",
    source=observed("structured outputs: allOf, not, if/then/else, dependent* are not supported", _SUPPORTED),
)
def test_composition_keywords(x: Chat) -> None:
    """The server enforces or refuses a strict schema's oneOf, allOf, not, if/then/else and dependent*; it ignores none.

    A discriminated union whose branches are mixed validates nowhere: the caller retries endlessly.
    """
    _judge(x, "composition", may_refuse=True)
