"""Conversations about JSON Schema: bad schemas with a control request after each, and large ones sent twice."""

from __future__ import annotations

from typing import Any

from wireproof.scenarios.scenario import Scenario, Session, conversation


def _request(what: str, say: str, schema: Any, *, valid: bool = True, **more: Any) -> Scenario:
    named = {"name": "answer", "strict": True, "schema": schema}
    body = {
        "messages": [{"role": "user", "content": say}],
        "max_tokens": 60,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": named},
        **more,
    }
    return Scenario(name="schema", what=what, body=body, valid=valid)


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


# No server can do what these say.
_BAD: dict[str, Any] = {
    "type": _object(level={"type": "banana"}),
    "ref": _object(level={"$ref": "#/$defs/nope"}),
    "pattern": _object(level={"type": "string", "pattern": "([a-z"}),
    "subschema": {**_object(level={"type": "string"}), "properties": {"level": "low"}},
}
# These a server may know or refuse, but they took some servers down (vLLM 0.20.2 dies of `tuple`).
_ODD: dict[str, Any] = {
    "tuple": _object(pair={"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}),
    "repeats": _object(level={"type": "string", "pattern": "^([a-z]{1,300}){1,300}$"}),
}
CONTROL = "Say: I am still here"
_CONTROL = Scenario(
    name="control",
    what="A plain request.",
    body={"messages": [{"role": "user", "content": CONTROL}], "max_tokens": 12, "temperature": 0},
)


@conversation("schema-bad", "Invalid schemas, with a plain request after each.", valid=False)
async def _(session: Session) -> None:
    for name, schema in _BAD.items():
        await session.send(f"bad-{name}", _request(name, "Say hello.", schema, valid=False, max_tokens=12))
        await session.send(f"control-{name}", _CONTROL)


@conversation("schema-odd", "Odd schemas, with a plain request after each.", valid=False, risky=True)
async def _(session: Session) -> None:
    for name, schema in _ODD.items():
        await session.send(f"odd-{name}", _request(name, "Say hello.", schema, valid=False, max_tokens=12))
        await session.send(f"control-{name}", _CONTROL)


_LEVELS = 10
_VALUES = [f"item-{n:04}-{n * 7919 % 9973:04}" for n in range(1000)]
_STREAM = {"stream": True}


def _deep() -> dict[str, Any]:
    made: dict[str, Any] = {"type": "string", "enum": ["end"]}
    for _ in range(_LEVELS):
        made = _object(in_=made)
    return made


def _nested() -> str:
    return '{"in_": ' * _LEVELS + '"end"' + "}" * _LEVELS


@conversation(
    "schema-large", "A small schema, one with 1000 enum values twice, and one 10 levels deep.", exclusive=True
)
async def _(session: Session) -> None:
    small = _request("small", 'Say: {"level": "low"}', _object(level={"type": "string", "enum": ["low"]}), **_STREAM)
    say = f'Say: {{"item": "{_VALUES[500]}"}}'
    large = _request("large", say, _object(item={"type": "string", "enum": _VALUES}), **_STREAM)
    await session.send("small", small)
    await session.send("first", large)
    await session.send("again", large)
    await session.send("deep", _request("deep", f"Say: {_nested()}", _deep(), max_tokens=300))
