"""Values against OpenAI's own schemas, less what sound servers and OpenAI's examples do differently.

The schemas are stricter than practice: `fixtures/schemas/openai/errata.json` lists what is tolerated, and why.
A result depends on the shape of a value only, so that a stream of a thousand chunks is validated a few times.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wireproof.resources import folder

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

CHUNK, COMPLETION, USAGE, ERROR = (
    f"{name}.json" for name in ("ChatCompletionChunk", "ChatCompletion", "CompletionUsage", "ErrorResponse")
)

# Strings of these members are compared with a list of words; of all others the type alone matters.
_WORDS = frozenset({"object", "finish_reason", "service_tier", "role", "type"})


@dataclass(frozen=True)
class Misfit:
    """One place where a value does not fit: `where` has [] for every array index.

    `got` is the JSON type of what stands there, or "absent".
    """

    where: str
    got: str
    detail: str


@dataclass(frozen=True)
class Erratum:
    """A misfit that is tolerated, why, and a value that has it and no other."""

    schema: str
    where: str
    got: str
    why: str
    example: Any


@functools.cache
def errata() -> tuple[Erratum, ...]:
    """Everything that is tolerated."""
    text = folder("fixtures").joinpath("schemas", "openai", "errata.json").read_text(encoding="utf-8")
    return tuple(Erratum(**entry) for entry in json.loads(text))


@functools.cache
def _validator(schema: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    text = folder("fixtures").joinpath("schemas", "openai", schema).read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text))


def _leaves(error: ValidationError) -> Iterator[ValidationError]:
    """The errors that matter inside an anyOf: those of the branch that the value comes closest to."""
    if not error.context:
        yield error
        return
    branches: dict[Any, list[ValidationError]] = {}
    for inner in error.context:
        branches.setdefault(inner.relative_schema_path[0], []).append(inner)
    wrong_type = [b for b in branches.values() if any(not e.relative_path and e.validator == "type" for e in b)]
    close = [b for b in branches.values() if b not in wrong_type] or wrong_type
    for inner in min(close, key=len):
        yield from _leaves(inner)


def misfits(schema: str, value: Any) -> tuple[Misfit, ...]:
    """Every misfit of a value, errata included."""
    found = []
    for error in _validator(schema).iter_errors(value):
        for leaf in _leaves(error):
            steps, got = list(leaf.absolute_path), _type(leaf.instance)
            if leaf.validator == "required":
                steps.append(leaf.message.split("'")[1])
                got = "absent"
            where = "".join("[]" if isinstance(s, int) else f".{s}" for s in steps).lstrip(".")
            found.append(Misfit(where, got, leaf.message[:120]))
    return tuple(found)


def _type(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return "null" if value is None else names.get(type(value), "unknown")


def _shape(value: Any, name: str = "") -> Any:
    """A hashable value that is equal for values which fit or do not fit alike."""
    if isinstance(value, str):
        return value if name in _WORDS else str
    if isinstance(value, dict):
        return tuple((k, _shape(v, k)) for k, v in value.items())
    if isinstance(value, list):
        return list, tuple(dict.fromkeys(_shape(v) for v in value))
    if isinstance(value, float):  # 1.0 is an integer for a schema
        return float, value.is_integer()
    return type(value)


class _Cache:
    """Misfits by schema and shape. It forgets everything when a target sends too many shapes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[Any, tuple[Misfit, ...]] = {}

    def get(self, schema: str, value: Any) -> tuple[Misfit, ...]:
        key = (schema, _shape(value))
        found = self._known.get(key)
        if found is None:
            tolerated = {(e.where, e.got) for e in errata() if e.schema == schema}
            found = tuple(m for m in misfits(schema, value) if (m.where, m.got) not in tolerated)
            if len(self._known) >= self._limit:
                self._known.clear()
            self._known[key] = found
        return found


_CACHE = _Cache(limit=4096)


def unexcused(schema: str, value: Any) -> tuple[Misfit, ...]:
    """The misfits of a value that no erratum tolerates."""
    return _CACHE.get(schema, value)
