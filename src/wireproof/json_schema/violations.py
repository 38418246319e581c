"""Which keywords of a JSON Schema an instance violates, with the place of each violation.

The schema is ours, or from a recorded request; the instance is the target's and may be anything.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jsonschema
import referencing
from jsonschema.exceptions import SchemaError, ValidationError

from wireproof.json_schema import formats
from wireproof.json_schema.patterns import compiled, reach

# More violations of one instance than this are not listed.
_LIMIT = 50
# Arrays longer than this are not searched for equal items: that takes the square of their length.
_UNIQUE_LIMIT = 2_000

# `additionalProperties` with a schema: a map of typed values, not a ban on more keys.
_TYPED_REST = "additionalProperties with a schema"
# Which rule a violated keyword belongs to; what is not listed is composition.
_AREAS = {
    "core": ("type", "enum", "const", "anyOf", "$ref", "$dynamicRef", "properties"),
    "keys": ("required", "additionalProperties"),
    "object": (
        *("patternProperties", "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties"),
        _TYPED_REST,
    ),
    "string": ("pattern", "format", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": (
        *("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
        *("contains", "minContains", "maxContains", "unevaluatedItems"),
    ),
}
# Anything else that restricts an instance is composition.
_COMPOSING = frozenset({"allOf", "oneOf", "not", "if", "dependentRequired", "dependentSchemas"})
_AREA_OF = {keyword: area for area, keywords in _AREAS.items() for keyword in keywords}
_COMPOSITION = "composition"

# What applies its parts to something else than the strict subset does: the violation is the applicator's.
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "allOf", "prefixItems"})
_OWNERS = {
    "allOf": "allOf",
    "then": "if",
    "else": "if",
    "dependentSchemas": "dependentSchemas",
    "patternProperties": "patternProperties",
    "propertyNames": "propertyNames",
    "additionalProperties": _TYPED_REST,
    "prefixItems": "prefixItems",
}


def area_of(keyword: str) -> str:
    """The group of a violated keyword: core, keys, object, string, number, array, or composition.

    core is what the strict subset of OpenAI promises for every type (type, enum, const, anyOf and what $ref
    points to); keys are `required` and `additionalProperties`.
    """
    return _AREA_OF.get(keyword, _COMPOSITION)


@dataclass(frozen=True, slots=True)
class Violated:
    """One violated keyword: where in the instance, and the validator's own words.

    What is missed inside of allOf, then, patternProperties and the like counts as a violation of those.
    """

    keyword: str
    path: str
    message: str

    @property
    def area(self) -> str:
        """The group of the keyword."""
        return area_of(self.keyword)

    def __str__(self) -> str:
        return f"{self.keyword} at {self.path}: {self.message[:120]}"


# Members whose values are schemas by name, and members that are no schemas.
_SCHEMAS_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
_DATA = frozenset({"enum", "const", "default", "examples", "required", "dependentRequired"})


def areas_in(schema: Mapping[str, Any]) -> frozenset[str]:
    """The groups of every keyword that a schema uses and that restricts an instance."""
    return frozenset(
        area_of(keyword) for keyword in keywords_in(schema) if keyword in _AREA_OF or keyword in _COMPOSING
    )


def keywords_in(schema: Mapping[str, Any]) -> frozenset[str]:
    """Every keyword that a schema uses, anywhere in it."""
    found: set[str] = set()
    stack: list[Any] = [schema]
    while stack:
        part = stack.pop()
        if isinstance(part, list):
            stack += part
        elif isinstance(part, dict):
            for keyword, value in part.items():
                found.add(_TYPED_REST if keyword == "additionalProperties" and isinstance(value, dict) else keyword)
                if keyword in _SCHEMAS_BY_NAME and isinstance(value, dict):
                    stack += value.values()
                elif keyword not in _DATA:
                    stack.append(value)
    return frozenset(found)


# -- keywords that we check ourselves --------------------------------------------------


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not compiled(pattern).search(instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _format(validator: Any, name: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and isinstance(name, str) and not formats.is_of(name, instance):
        yield ValidationError(f"{instance!r} is not a {name!r}")


def _multiple_of(validator: Any, step: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Exact in decimals, as it is written: 0.3 is a multiple of 0.1."""
    if isinstance(instance, bool) or not isinstance(instance, int | float):
        return
    if (isinstance(instance, float) and not math.isfinite(instance)) or _exact(instance) % _exact(step):
        yield ValidationError(f"{instance!r} is not a multiple of {step!r}")


def _exact(number: int | float) -> Fraction:
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


_Validator: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator, {"pattern": _pattern, "format": _format, "multipleOf": _multiple_of}
)


@dataclass(frozen=True)
class _Ready:
    """A schema, ready for use, with what its patterns can bear."""

    validator: Any
    longest: int  # characters
    unique: bool


@functools.lru_cache(maxsize=512)
def _ready(text: str) -> _Ready:
    schema = json.loads(text)
    patterns, unique = [], False
    for part in _objects(schema):
        if isinstance(part.get("pattern"), str):
            patterns.append(part["pattern"])
        if isinstance(part.get("patternProperties"), dict):
            patterns += part["patternProperties"]
        unique = unique or "uniqueItems" in part
    # An empty registry: a $ref to some address must never be fetched.
    validator = _Validator(schema, registry=referencing.Registry())
    return _Ready(validator, min((reach(p) for p in patterns), default=1 << 62), unique)


def _objects(value: Any) -> Iterable[dict[str, Any]]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack += item.values()
        elif isinstance(item, list):
            stack += item


def _refuse_excess(ready: _Ready, instance: Any) -> None:
    """ValueError for an instance that the schema's patterns or uniqueItems would take too long for."""
    stack = [instance]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack += item.values()
            stack += item.keys()
        elif isinstance(item, list):
            if ready.unique and len(item) > _UNIQUE_LIMIT:
                raise ValueError(f"an array of {len(item)} items is not searched for equal ones")
            stack += item
        elif isinstance(item, str) and len(item) > ready.longest:
            raise ValueError(f"a string of {len(item)} characters is too long for the schema's patterns")


def violated(schema: Mapping[str, Any] | bool, instance: Any) -> list[Violated]:
    """Every keyword that the instance violates; empty when it is valid.

    anyOf and oneOf are reported as such, not as what their branches miss, unless a branch misses something outside
    of the core only: a null union with a pattern that does not hold is a matter of the pattern.
    Raises ValueError when the schema cannot be used (an unresolved $ref, endless recursion, a pattern that is not
    Python's, too), or not on this instance (too long for its patterns).
    """
    try:
        ready = _ready(json.dumps(schema))
        _refuse_excess(ready, instance)
        errors = ready.validator.iter_errors(instance)
        return [_named(e) for _, e in zip(range(_LIMIT), errors, strict=False)]
    except (RecursionError, SchemaError) as error:
        raise ValueError(f"the schema cannot be used: {type(error).__name__}") from error
    except Exception as error:  # jsonschema raises what its referencing library raises
        raise ValueError(f"the schema cannot be used: {error}"[:200]) from error


def _named(error: ValidationError) -> Violated:
    path = "$" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path)
    return Violated(_keyword(error), path[:160], error.message[:200])


def _keyword(error: ValidationError) -> str:
    """The keyword that an error is charged to."""
    path = [str(step) for step in error.relative_schema_path]
    at = 0
    while at < len(path):
        if path[at] in _OWNERS and at < len(path) - 1:
            return _OWNERS[path[at]]
        at += 2 if path[at] in _NAMED else 1  # after these comes a name or a number
    own = str(error.validator) if error.validator else (path[-1] if path else "false")
    return _softer(error) if own in ("anyOf", "oneOf") else own


def _softer(error: ValidationError) -> str:
    """What a branch misses that keeps to the core; the keyword itself when there is no such branch."""
    branches: dict[Any, list[str]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.relative_schema_path[0], []).append(_keyword_below(inner))
    soft = (found for found in branches.values() if all(area_of(keyword) != "core" for keyword in found))
    return next(soft, [str(error.validator)])[0]


def _keyword_below(error: ValidationError) -> str:
    """The keyword of an error of a branch, whose path begins with the branch's number."""
    path = error.relative_schema_path
    number = path.popleft()
    try:
        return _keyword(error)
    finally:
        path.appendleft(number)
