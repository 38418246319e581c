"""Constrained answers are valid for any schema, and tool calls have the documented shape."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from .serving import Reply, Server

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
NEXT = {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}
NODE: dict[str, Any] = {"type": "object", "properties": {"v": STRING, "next": NEXT}}
NODE |= {"required": ["v", "next"], "additionalProperties": False}


def closed(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


SCHEMAS: dict[str, dict[str, Any]] = {
    "flat": closed(a=INTEGER, b=STRING, c={"type": "boolean"}, d={"type": "number"}),
    "nested": closed(a=closed(b=closed(c=closed(d=STRING)))),
    "enum": closed(a={"enum": ["日本", 'x"y', "é😀"]}, b={"const": 5}),
    "nullable": closed(a={"type": ["string", "null"]}, b={"anyOf": [INTEGER, {"type": "null"}]}),
    "arrays": closed(a={"type": "array", "items": INTEGER, "minItems": 3, "maxItems": 4}),
    "empty-array": closed(a={"type": "array", "items": STRING, "maxItems": 0}),
    "pattern": closed(a={"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"}, b=STRING),
    "formats": closed(a={"type": "string", "format": "date-time"}, b={"type": "string", "format": "uuid"}),
    "lengths": closed(a={"type": "string", "minLength": 20, "maxLength": 25}),
    "ranges": closed(a={"type": "integer", "minimum": 10, "maximum": 12}, b={"type": "number", "exclusiveMinimum": 5}),
    "refs": {**closed(a={"$ref": "#/$defs/t"}, b={"$ref": "#/$defs/t"}), "$defs": {"t": closed(x=STRING)}},
    "recursive": {"$ref": "#/$defs/n", "$defs": {"n": NODE}},
    "optional": {"type": "object", "properties": {"a": STRING, "b": INTEGER}, "required": ["b"]},
    "any-object": {"type": "object"},
    "keys": closed(**{"naïve key": STRING, 'q"uote': INTEGER, "日本": STRING}),
    "root-array": {"type": "array", "items": INTEGER, "minItems": 1},
    "all-of": {"allOf": [{"type": "object", "properties": {"a": STRING}, "required": ["a"]}]},
}
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Weather of a city", "parameters": closed(city=STRING)},
}
NOW = {"type": "function", "function": {"name": "now", "description": "The time"}}
TOOLS = [WEATHER, NOW]


def form(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}


@pytest.mark.parametrize("temperature", [0, 1.0, 2.0])
@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_holds(server: Server, name: str, temperature: float) -> None:
    said = 'Paris, 42 and "quoted" things'
    reply = server.chat(said, response_format=form(SCHEMAS[name]), temperature=temperature, n=2, max_tokens=600)
    for choice in reply.json["choices"]:
        assert choice["finish_reason"] == "stop"
        jsonschema.validate(json.loads(choice["message"]["content"]), SCHEMAS[name])


def test_echoed_json_and_hostile_prompt(server: Server) -> None:
    said = 'Say: {"answer":  [1,2, {"x": "é"}]}'
    assert json.loads(server.chat(said, response_format={"type": "json_object"}).content)["answer"][2] == {"x": "é"}
    reply = server.stream("Say: not json", response_format=form(SCHEMAS["flat"]))
    jsonschema.validate(json.loads(reply.text()), SCHEMAS["flat"])


def test_cut_json_is_reported_as_length(server: Server) -> None:
    reply = server.chat("hi", response_format=form(SCHEMAS["flat"]), max_tokens=3)
    assert reply.finish == "length"
    with pytest.raises(ValueError):
        json.loads(reply.content)


@pytest.mark.parametrize(
    "schema",
    [{"type": "nope"}, {"type": "object", "properties": {"a": {"not": {}}}}, {"$ref": "#"}, {"$ref": "#/nowhere"}],
)
def test_unsupported_schema_is_refused(server: Server, schema: dict[str, Any]) -> None:
    reply = server.stream("hi", response_format=form(schema))
    assert (reply.status, reply.error["type"]) == (400, "invalid_request_error")


def test_keywords_beyond_the_grammar_are_passed_over_unless_strict(server: Server) -> None:
    odd = {"type": "object", "properties": {"a": {"type": "array", "items": STRING, "uniqueItems": True}}}
    tool: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": odd}}
    assert calls_of(server.chat("call f", tools=[tool]))[0][0] == "f"
    tool["function"]["strict"] = True
    assert server.chat("call f", tools=[tool]).error["param"] == "tools[0].function.parameters"
    loose = {"type": "json_schema", "json_schema": {"name": "x", "schema": odd}}
    assert "a" in json.loads(server.chat("hi", response_format=loose).content)


def test_extensions(server: Server) -> None:
    assert server.chat("no?", structured_outputs={"choice": ["yes", "no"]}).content == "no"
    assert server.chat("x", structured_outputs={"regex": "[ab]{4}c"}).content[-1] == "c"


def calls_of(reply: Reply) -> list[tuple[str, dict[str, Any]]]:
    return [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in reply.message["tool_calls"]]


def test_auto_calls_what_fits(server: Server) -> None:
    reply = server.chat("What is the weather in Paris?", tools=TOOLS)
    assert (reply.finish, reply.message["content"]) == ("tool_calls", None)
    assert calls_of(reply) == [("get_weather", {"city": "Paris"})]
    assert "tool_calls" not in server.chat("Hello", tools=TOOLS).message
    assert "tool_calls" not in server.chat("Weather in Paris? Don't use tools.", tools=TOOLS).message


def test_choice_is_obeyed(server: Server) -> None:
    assert "tool_calls" not in server.chat("call now", tools=TOOLS, tool_choice="none").message
    assert calls_of(server.chat("Hello", tools=TOOLS, tool_choice="required"))[0][0] == "get_weather"
    named = {"type": "function", "function": {"name": "now"}}
    reply = server.chat("weather in Paris", tools=TOOLS, tool_choice=named)
    assert calls_of(reply) == [("now", {})] and reply.finish == "stop"
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "now"}}]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    assert calls_of(server.chat("weather", tools=TOOLS, tool_choice=choice)) == [("now", {})]


def test_parallel_calls(server: Server) -> None:
    said = "Weather in Paris, Tokyo and Lima?"
    reply = server.chat(said, tools=TOOLS)
    assert [arguments["city"] for _, arguments in calls_of(reply)] == ["Paris", "Tokyo", "Lima"]
    assert len({call["id"] for call in reply.message["tool_calls"]}) == 3
    assert len(calls_of(server.chat(said, tools=TOOLS, parallel_tool_calls=False))) == 1
    assert [name for name, _ in calls_of(server.chat("Use get_weather and now", tools=TOOLS))] == ["get_weather", "now"]


def test_streamed_calls(server: Server) -> None:
    said = "Weather in Paris and 東京 “日本”?"
    plain, streamed = server.chat(said, tools=TOOLS, seed=1), server.stream(said, tools=TOOLS, seed=1)
    expected = [c["function"]["arguments"] for c in plain.message["tool_calls"]]
    assert list(streamed.arguments().values()) == expected
    fragments = [f for c in streamed.chunks for f in c["choices"][0]["delta"].get("tool_calls", ())]
    first = [f for f in fragments if "id" in f]
    assert [f["index"] for f in first] == list(range(len(expected)))
    assert all(f["type"] == "function" and f["function"]["arguments"] == "" for f in first)
    assert all(set(f) == {"index", "function"} for f in fragments if "id" not in f)
    assert len(fragments) > 3 * len(expected)


@pytest.mark.parametrize("limit", range(1, 14))
def test_cut_call_is_well_formed(server: Server, limit: int) -> None:
    reply = server.stream("call get_weather", tools=TOOLS, max_tokens=limit)
    assert reply.chunks[-1]["choices"][0]["finish_reason"] == "length"
    whole = '{"city": "harbour"}'
    assert all(whole.startswith(part) for part in reply.arguments().values())


@pytest.mark.parametrize("name", [n for n, s in SCHEMAS.items() if s.get("type") == "object"])
def test_arguments_satisfy_their_schema(server: Server, name: str) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": SCHEMAS[name], "strict": True}}
    reply = server.chat("call it", tools=[tool], tool_choice="required", temperature=1.5)
    jsonschema.validate(calls_of(reply)[0][1], SCHEMAS[name])


def test_round_trip_uses_the_result(server: Server) -> None:
    asked = server.chat("What is the weather in Paris?", tools=TOOLS)
    call = asked.message["tool_calls"][0]
    history = [
        {"role": "user", "content": "What is the weather in Paris?"},
        asked.message,
        {"role": "tool", "tool_call_id": call["id"], "content": [{"type": "text", "text": "plover-17"}]},
    ]
    reply = server.chat(history, tools=TOOLS)
    assert "plover-17" in reply.content and reply.finish == "stop"


def test_legacy_functions(server: Server) -> None:
    function = WEATHER["function"]
    reply = server.chat("weather in Paris", functions=[function])
    assert reply.finish == "function_call" and "tool_calls" not in reply.message
    assert json.loads(reply.message["function_call"]["arguments"]) == {"city": "Paris"}
    deltas = [c["choices"][0]["delta"] for c in server.stream("weather in Paris", functions=[function]).chunks]
    parts = [d["function_call"] for d in deltas if "function_call" in d]
    assert parts[0] == {"name": "get_weather", "arguments": ""}
    assert json.loads("".join(p["arguments"] for p in parts)) == {"city": "Paris"}
