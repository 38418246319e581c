"""Which keywords of a JSON Schema an instance violates, with the place of each violation.

The schema is ours, or from a recorded request; the instance is the target's and may be anything.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema
from jsonschema.exceptions import SchemaError, ValidationError

# More violations of one instance than this are not listed.
_LIMIT = 50


@dataclass(frozen=True, slots=True)
class Violated:
    """One violated keyword: where in the instance, and the validator's own words."""

    keyword: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.keyword} at {self.path}: {self.message[:120]}"


@functools.lru_cache(maxsize=512)
def _validator(text: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(
        json.loads(text), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )


def is_schema(schema: Any) -> bool:
    """Whether a value is a schema by the metaschema of draft 2020-12."""
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except (SchemaError, RecursionError):
        return False
    return True


def violated(schema: Mapping[str, Any] | bool, instance: Any) -> list[Violated]:
    """Every keyword that the instance violates; empty when it is valid.

    anyOf and oneOf are reported as such, not as what their branches miss.
    Raises ValueError when the schema itself cannot be used (an unresolved $ref, endless recursion).
    """
    try:
        errors = _validator(json.dumps(schema)).iter_errors(instance)
        return [_named(e) for _, e in zip(range(_LIMIT), errors, strict=False)]
    except (RecursionError, SchemaError) as error:
        raise ValueError(f"the schema cannot be used: {type(error).__name__}") from error
    except Exception as error:  # jsonschema raises what its referencing library raises
        raise ValueError(f"the schema cannot be used: {error}"[:200]) from error


def _named(error: ValidationError) -> Violated:
    path = "$" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path)
    return Violated(str(error.validator), path[:160], error.message[:200])
