"""The rules for the arguments of tool calls, on answers written by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wireproof.read.call_markers import MARKERS, call_json, every, found, partial_start
from wireproof.scenarios.catalog import load
from wireproof.verdict import Status

from .test_tool_calls import AREAS, PARIS, REQUIRED, asked, call, named, said, streamed, tool
from .wire import broken, completion, explain, plain, usage, verdict

FORCED = asked(**REQUIRED)
STRICT = asked(tool(strict=True), **REQUIRED)
PING = asked(tool("ping", None), **named("ping"))


@pytest.mark.parametrize("arguments", [{"city": "Paris"}, None, 7, ["Paris"]])
def test_no_string(arguments: Any) -> None:
    """B2-001, B2-002, B2-052."""
    assert broken(said(call(arguments=arguments)), areas=AREAS) == {"tool.arguments.string"}
    absent = {"id": "call_1", "type": "function", "function": {"name": "get_weather"}}
    assert broken(said(absent), areas=AREAS) == {"tool.arguments.string"}


@pytest.mark.parametrize(
    "arguments", ["null", '"Paris"', "[]", "", "{'city': 'Paris'}", PARIS[:-1], '{"city": "a\nb"}']
)
def test_forced_arguments_are_an_object(arguments: str) -> None:
    for request in (FORCED, STRICT, asked(**named("get_weather"))):
        assert broken(said(call(arguments=arguments), request=request), areas=AREAS) == {
            "tool.arguments.object-when-forced"
        }
    assert broken(said(call(arguments=arguments)), areas=AREAS) == {"tool.arguments.valid-in-auto"}


def test_a_cut_call_is_judged_by_nothing() -> None:
    half = call(arguments=PARIS[:-3])
    for request in (FORCED, STRICT, asked()):
        assert broken(said(half, request=request, finish="length", tokens=24), areas=AREAS) == set()
        # Nor when it says stop, which is another rule's matter.
        cut = said(half, request=request, finish="stop", tokens=24)
        assert not {r for r in broken(cut, areas=AREAS) if r.startswith("tool.")}


def test_streams_that_join_to_no_json_are_left_to_the_stream_rules() -> None:
    assert broken(streamed(call(arguments=PARIS[:-1]), request=FORCED), areas=AREAS) == set()
    assert broken(streamed(call(arguments="null"), request=FORCED), areas=AREAS) == {
        "tool.arguments.object-when-forced"
    }


def test_no_parameters() -> None:
    rule = "tool.arguments.empty-object"
    nothing = {"type": "object", "properties": {}}
    for parameters in (None, {}, nothing, {**nothing, "required": []}):
        request = asked(tool("ping", parameters), **named("ping"))
        assert verdict(rule, said(call("ping", "{}"), request=request)) is Status.PASS
        for wrong in ("null", "[]", '""', "{"):
            assert broken(said(call("ping", wrong), request=request), areas=AREAS) == {rule}
        assert broken(said(call("ping", ""), request=request), areas=AREAS) == {"tool.arguments.not-blank"}
        assert verdict(rule, said(call("ping", '{"a": 1}'), request=request)) is Status.INCONCLUSIVE
    free = asked(tool("ping", None))
    assert broken(said(call("ping", "{"), request=free), areas=AREAS) == {"tool.arguments.valid-in-auto"}
    assert broken(said(call("ping", "null"), request=free), areas=AREAS) == {rule}
    # {"type": "object"} alone takes anything.
    anything = asked(tool("ping", {"type": "object"}), **named("ping"))
    assert broken(said(call("ping", '{"a": 1}'), request=anything), areas=AREAS) == set()


def test_strict() -> None:
    for wrong in ('{"city": "Rome"}', "{}", '{"city": "Paris", "unit": "K"}'):
        for make in (said, streamed):
            assert broken(make(call(arguments=wrong), request=STRICT), areas=AREAS) == {"tool.strict.valid"}
            loose = make(call(arguments=wrong), request=FORCED)
            assert broken(loose, areas=AREAS) == {"tool.arguments.schema-respected"}
            free = make(call(arguments=wrong), request=asked(tool(strict=True)))
            assert broken(free, areas=AREAS) == {"tool.auto.strict-constrains"}
            # What a free model makes of a loose schema is its own.
            model = make(call(arguments=wrong), request=asked())
            assert broken(model, areas=AREAS) == set()
            assert verdict("tool.arguments.valid-in-auto", model) is Status.INCONCLUSIVE


def test_a_schema_that_nobody_can_use() -> None:
    for bad in ({"type": "banana"}, {"$ref": "#/nowhere"}, {"$ref": "https://example.com/x"}):
        request = asked(tool(parameters=bad, strict=True), **REQUIRED)
        assert broken(said(call(), request=request), areas=AREAS) == set()


def test_types() -> None:
    """B2-024: what stands behind anyOf and null keeps its type."""
    rule = "tool.arguments.typed"
    count = {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}
    schema = {
        "type": "object",
        "properties": {"count": count, "room": {"type": "string"}},
        "$defs": {"n": {"type": "integer"}},
    }
    request = asked(tool(parameters=schema), **REQUIRED)
    for right in ('{"count": 5}', '{"count": null, "room": "42"}', "{}"):
        assert verdict(rule, said(call(arguments=right), request=request)) is Status.PASS
    for wrong in ('{"count": "5"}', '{"count": "null"}', '{"room": 42}', '{"room": {"a": 1}}'):
        assert broken(said(call(arguments=wrong), request=request), areas=AREAS) == {rule}
    other = said(call(arguments='{"count": "many"}'), request=request)
    assert broken(other, areas=AREAS) == {"tool.arguments.schema-respected"}


def test_strict_costs_nothing() -> None:
    """B2-101."""
    rule = "tool.strict.costs-nothing"

    def pair(loose: Any, strict: Any) -> Status:
        bodies = [completion(usage={**usage(), "prompt_tokens": n}) for n in (loose, strict)]
        names = ("tool-schema", "tool-schema-strict")
        return verdict(rule, *(plain(b, asked(), scenario=n) for b, n in zip(bodies, names, strict=True)))

    assert pair(411, 411) is Status.PASS
    assert pair(411, 416) is Status.FAIL
    assert pair(None, "x") is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("rule", "scenario"),
    [
        ("tool.arguments.unicode-exact", "tool-unicode"),
        ("tool.argument.markers-survive", "tool-markers"),
        ("tool.argument.long", "tool-long"),
    ],
)
def test_exact(rule: str, scenario: str) -> None:
    request = dict(load()[scenario].body or {})
    wanted = request["tools"][0]["function"]["parameters"]["properties"]["text"]["enum"][0]

    def judge(text: Any, *, ascii_only: bool = False) -> set[str]:
        arguments = json.dumps({"text": text}, ensure_ascii=ascii_only)
        return broken(said(call("save_note", arguments), request=request, scenario=scenario), areas=AREAS)

    assert judge(wanted) == judge(wanted, ascii_only=True) == set()
    for wrong in (wanted[:-1], wanted.replace(" ", "", 1), json.dumps(wanted)[1:-1] + "x", 7, None):
        assert judge(wrong) == {rule}
    assert verdict(rule, said(call("save_note", "{"), request=request, scenario=scenario)) is Status.INCONCLUSIVE


def test_exact_says_where() -> None:
    request = dict(load()["tool-long"].body or {})
    wanted = request["tools"][0]["function"]["parameters"]["properties"]["text"]["enum"][0]
    cut = said(call("save_note", json.dumps({"text": wanted[:500]})), request=request, scenario="tool-long")
    assert "near character 500" in explain("tool.argument.long", cut)
    lone = said(call("save_note", '{"text": "\\ud83c"}'), request=request, scenario="tool-long")
    assert verdict("tool.argument.long", lone) is Status.FAIL


@pytest.mark.parametrize("text", [p + m + s for m in MARKERS for p, s in (("", ""), ("Well. ", " so"))])
def test_markers_are_found(text: str) -> None:
    assert found(text) in MARKERS
    assert every(text)


@pytest.mark.parametrize("marker", MARKERS)
def test_torn_markers_are_found(marker: str) -> None:
    for size in range(4, len(marker)):
        assert partial_start(f"Well. {marker[:size]}") is not None
    assert partial_start(f"{marker} and more") is None


def test_honest_text_has_no_markers() -> None:
    for text in ("", "a < b", "<p>Hi</p>", "[1] see", "see [A", "functions[0]", "<|", "f(x) = <function> of x", "<to"):
        assert found(text) is None and partial_start(text) is None, text


def test_bare_calls() -> None:
    assert call_json('{"name": "f", "arguments": {}}', ["f"]) == "f"
    assert call_json('```json\n[{"name": "f", "parameters": {"a": 1}}]\n```', ["f"]) == "f"
    assert call_json('{"type": "function", "function": {"name": "f", "arguments": "{}"}}', {"f": 1}) == "f"
    for text in (
        '{"name": "g", "arguments": {}}',
        '{"name": "f"}',
        '{"name": ["f"], "arguments": {}}',
        "f()",
        "[]",
        "",
    ):
        assert call_json(text, ["f"]) is None, text
