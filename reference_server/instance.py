"""An example value for a JSON Schema: what the model would like to say where JSON is asked for.

In: a schema and a supply of words from the conversation. Out: a plausible instance. It need not be valid:
the grammar of constrain.py guarantees validity, this only makes the answer sensible.
"""

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any] | bool

_FORMATS = {
    "date-time": "2024-02-29T12:30:00Z",
    "date": "2024-02-29",
    "time": "12:30:00Z",
    "duration": "P1DT2H",
    "email": "reader@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "uri": "https://example.com/",
}
_DEEP = 6
_WORDS = ("harbour", "lantern", "garden", "river", "signal", "bridge", "window", "letter")


class Supply:
    """Words and numbers that the user mentioned, handed out in order; then words of our own."""

    def __init__(self, words: list[str], numbers: list[float] | None = None, said: str = "") -> None:
        self.said = said
        self._words: Iterator[str] = iter(words)
        self._numbers: Iterator[float] = iter(numbers or [])
        self._spare = 0

    def word(self) -> str:
        found = next(self._words, None)
        if found is None:
            found = _WORDS[self._spare % len(_WORDS)]
            self._spare += 1
        return found

    def number(self, otherwise: float) -> float:
        return next(self._numbers, otherwise)


def _resolve(ref: str, root: Schema) -> Schema:
    """The schema that a local `$ref` points to; anything goes if it points nowhere."""
    here: Any = root
    for part in ref.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(here, dict) or name not in here:
            return True
        here = here[name]
    return here if isinstance(here, dict | bool) else True


def _shortest(options: list[Schema], root: Schema, depth: int) -> Schema:
    """The first option, or, deep down, the one that ends soonest."""
    if depth < 3:
        return options[0]
    plain = [o for o in options if isinstance(o, dict) and not {"$ref", "properties", "items"} & o.keys()]
    return (plain or options)[0]


def build(schema: Schema, supply: Supply, root: Schema | None = None, depth: int = 0) -> Any:
    """An instance of `schema`."""
    root = schema if root is None else root
    if not isinstance(schema, dict) or depth > 40:
        return supply.word()
    if "const" in schema:
        return schema["const"]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return _mentioned(schema["enum"], supply)
    if isinstance(schema.get("$ref"), str):
        return build(_resolve(schema["$ref"], root), supply, root, depth + 1)
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return build(_shortest(schema[key], root, depth), supply, root, depth + 1)
    if isinstance(schema.get("allOf"), list) and schema["allOf"]:
        merged: dict[str, Any] = {k: v for k, v in schema.items() if k != "allOf"}
        for part in schema["allOf"]:
            if isinstance(part, dict):
                merged["properties"] = {**merged.get("properties", {}), **part.get("properties", {})}
                merged = {**part, **merged}
        return build(merged, supply, root, depth + 1)
    return _typed(schema, supply, root, depth)


def _mentioned(options: list[Any], supply: Supply) -> Any:
    """The option that the user named, or the first."""
    return next((o for o in options if isinstance(o, str) and o and o in supply.said), options[0])


def _typed(schema: dict[str, Any], supply: Supply, root: Schema, depth: int) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((k for k in kind if k != "null" and depth < _DEEP), "null")
    if kind is None:
        kind = "object" if "properties" in schema else "array" if "items" in schema else "string"
    if kind == "object":
        return _object(schema, supply, root, depth)
    if kind == "array":
        count = max(int(schema.get("minItems", 0)), min(2, int(schema.get("maxItems", 2))))
        count = int(schema.get("minItems", 0)) if depth > _DEEP else count
        first: list[Any] = list(schema.get("prefixItems") or ())
        rest = schema.get("items", True)
        return [build(first[i] if i < len(first) else rest, supply, root, depth + 1) for i in range(min(count, 64))]
    if kind in ("integer", "number"):
        return _number(schema, supply, kind == "integer")
    if kind == "boolean":
        return True
    if kind == "null":
        return None
    return _string(schema, supply)


def _object(schema: dict[str, Any], supply: Supply, root: Schema, depth: int) -> dict[str, Any]:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    names = [name for name in properties if depth < _DEEP or name in required]
    names += [name for name in required if name not in properties]
    return {name: build(properties.get(name, True), supply, root, depth + 1) for name in names}


def _string(schema: dict[str, Any], supply: Supply) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    text = supply.word()
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if isinstance(least, int) and len(text) < least <= 4096:
        text = (text + " ") * (least // (len(text) + 1) + 1)
        text = text[:least]
    return text[:most] if isinstance(most, int) else text


def _number(schema: dict[str, Any], supply: Supply, whole: bool) -> float | int:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    value = supply.number(7 if whole else 7.5)
    step = schema.get("multipleOf")
    if isinstance(step, int | float) and not isinstance(step, bool) and step > 0:
        value = step * max(1, round(value / step))
    if isinstance(low, int | float) and value <= low:
        value = low + (1 if whole or step is None else step)
    if isinstance(high, int | float) and value >= high:
        value = high - (1 if whole else 0.5) if "exclusiveMaximum" in schema else high
    return int(value) if whole or float(value).is_integer() else round(value, 4)
