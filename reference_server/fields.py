"""Typed reading of a JSON request: each reader returns a value or refuses with a 400 that names the parameter.

`null` always means "not given".
"""

import json
import math
from collections.abc import Sequence
from typing import Any

from .answer import ApiError, invalid

#: JSON nested deeper than this is refused; it only occurs in attacks.
MAX_DEPTH = 200


def _kind(value: Any) -> str:
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "an array"}
    return "null" if value is None else names.get(type(value), "an object")


def wrong_type(param: str, wanted: str, value: Any) -> ApiError:
    return invalid(
        f"Invalid type for '{param}': expected {wanted}, but got {_kind(value)} instead.", param, "invalid_type"
    )


def integer(body: dict[str, Any], name: str, low: int, high: int) -> int | None:
    """A whole number in a range (1.0 counts, as JSON does not tell it from 1)."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(name, "an integer", value)
    if not low <= value <= high:
        raise invalid(f"Invalid '{name}': {value} is not between {low} and {high}.", name, "integer_out_of_range")
    return value


def number(body: dict[str, Any], name: str, low: float, high: float) -> float | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(name, "a number", value)
    if not low <= value <= high:
        raise invalid(f"Invalid '{name}': {value} is not between {low} and {high}.", name, "decimal_out_of_range")
    return float(value)


def boolean(body: dict[str, Any], name: str, path: str | None = None) -> bool | None:
    value = body.get(name)
    if value is None or isinstance(value, bool):
        return value
    raise wrong_type(path or name, "a boolean", value)


def string(body: dict[str, Any], name: str, path: str | None = None) -> str | None:
    value = body.get(name)
    if value is None or isinstance(value, str):
        return value
    raise wrong_type(path or name, "a string", value)


def needed(body: dict[str, Any], name: str, path: str) -> str:
    """A string that must be there and not be empty."""
    value = string(body, name, path)
    if not value:
        raise invalid(f"Missing required parameter: '{path}'.", path, "missing_required_parameter")
    return value


def mapping(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong_type(path, "an object", value)
    return value


def array(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise wrong_type(path, "an array", value)
    return value


def one_of(body: dict[str, Any], name: str, allowed: Sequence[str], path: str | None = None) -> str | None:
    value = string(body, name, path)
    if value is not None and value not in allowed:
        shown = ", ".join(f"'{a}'" for a in allowed)
        where = path or name
        raise invalid(f"Invalid value: '{value[:60]}'. '{where}' supports: {shown}.", where, "invalid_value")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is out of range")
    return value


def _too_deep(data: bytes) -> bool:
    """Whether brackets outside strings nest deeper than MAX_DEPTH. Only asked when there are that many."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    depth, in_string, escaped = 0, False, False
    for byte in data:
        if in_string:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = False
        elif byte == 0x22:
            in_string = True
        elif byte in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif byte in b"]}":
            depth -= 1
    return False


def parse_json(data: bytes) -> dict[str, Any]:
    """A request body to its JSON object; strict: UTF-8 without BOM, no NaN, no lone surrogates."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise invalid("The request body is not valid UTF-8.") from None
    if not text.strip():
        raise invalid("The request body is empty; send a JSON object.")
    if _too_deep(data):
        raise invalid(f"The request body nests deeper than {MAX_DEPTH} levels.")
    try:
        body = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        if "\\u" in text:
            json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise invalid("The request body has an unpaired surrogate escape in a string.") from None
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise invalid(f"We could not parse the JSON body of your request: {reason}.") from None
    if not isinstance(body, dict):
        raise invalid("The request body must be a JSON object.")
    return body
