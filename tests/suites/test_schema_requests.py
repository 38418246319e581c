"""The rules for formats and schemas that are accepted, refused, and survived, on answers written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from wireproof.read.endpoints import exchange_of
from wireproof.read.exchange import Exchange
from wireproof.read.json_answer import bad_schema
from wireproof.read.recording import Take
from wireproof.scenarios.conversations.schema import CONTROL
from wireproof.verdict import Status
from wireproof.wire.transcript import Ending

from .test_schema import AREAS, GOOD, LEVEL, asked
from .wire import broken, completion, explain, plain, stream, text, verdict

ERROR = {"error": {"message": "Invalid schema for response_format 'x'.", "type": "invalid_request_error"}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "lookup_tide", "arguments": "{}"}}
TOOLS = [{"type": "function", "function": {"name": "lookup_tide"}}]


def ok(scenario: str, content: Any = GOOD, request: Any = None, **more: Any) -> Exchange:
    return plain(completion(content), request or asked(), scenario=scenario, **more)


def no(scenario: str, status: int = 400, body: Any = None, request: Any = None, **more: Any) -> Exchange:
    return plain(ERROR if body is None else body, request or asked(), status=status, scenario=scenario, **more)


ACCEPTED = {
    "schema.format.accepted": ("plain-pinned", "schema-sdk", "schema-sdk-stream"),
    "schema.strict.false-or-null-accepted": ("plain-pinned", "schema-loose", "schema-null", "schema-absent"),
    "schema.recursive.supported": ("plain-pinned", "schema-recursive"),
    "schema.logprobs.together": ("plain-pinned", "plain-logprobs", "schema-logprobs"),
}


@pytest.mark.parametrize("rule", ACCEPTED)
def test_accepted(rule: str) -> None:
    first, *others = ACCEPTED[rule]
    assert verdict(rule, ok(first), *(ok(name) for name in others)) is Status.PASS
    for status in (400, 422, 500):
        right = [ok(name) for name in others[:-1]]
        assert verdict(rule, ok(first), *right, no(others[-1], status)) is Status.FAIL
    assert verdict(rule, ok(first), *right, no(others[-1], 429)) is Status.INCONCLUSIVE
    optional = {"optional": "response_format json_schema"}
    none = [no(name) for name in others]
    assert verdict(rule, no(first, tags=optional), *none) in (Status.UNSUPPORTED, Status.INCONCLUSIVE)


def test_text_and_null() -> None:
    """B2-154."""
    rule = "schema.text.same-as-absent"
    absent, null = ok("plain-greedy", "Hello."), ok("format-null", "Hello.")
    assert verdict(rule, absent, ok("format-text", "Good day."), null) is Status.PASS
    assert verdict(rule, absent, no("format-text"), null) is Status.FAIL
    assert verdict(rule, absent, ok("format-text", '{"a": 1}'), null) is Status.FAIL


@pytest.mark.parametrize("scenario", ["schema-root-array", "format-object-unasked"])
def test_200_or_4xx(scenario: str) -> None:
    request = {"response_format": {"type": "json_object"}} if "object" in scenario else None
    assert broken(ok(scenario, request=request), areas=AREAS) == set()
    assert broken(no(scenario, request=request), areas=AREAS) == set()
    assert len(broken(no(scenario, 500, request=request), areas=AREAS)) == 1


BAD_SCHEMAS: list[Any] = [
    {"type": "banana"},
    {**LEVEL, "properties": {"level": "low"}},
    {**LEVEL, "properties": {"level": {"$ref": "#/$defs/nope"}}},
    {**LEVEL, "required": "level"},
    {"type": "object", "properties": 5},
]


@pytest.mark.parametrize("schema", BAD_SCHEMAS)
def test_bad_schemas(schema: Any) -> None:
    """B2-155. Judged wherever such a request was recorded, not in our scenario alone."""
    rule = "schema.bad.refused-and-survives"
    assert bad_schema(schema)
    request = asked(schema)
    assert broken(no("any", request=request), areas=AREAS) == set()
    assert broken(no("any", 500, request=request), areas=AREAS) == {rule}
    assert broken(ok("any", "hello", request), areas=AREAS) == {rule}
    dead = no("any", request=request)
    dead = exchange_of(replace(dead.transcript, reads=(), ending=Ending.RESET))
    assert verdict(rule, dead) is Status.FAIL and "reset" in explain(rule, dead)


TUPLE = {"type": "array", "items": [{"type": "string"}, {"type": "number", "minimum": 0, "exclusiveMinimum": 0}]}


@pytest.mark.parametrize(
    "schema", [LEVEL, {}, {"$ref": "#"}, {"type": "string", "pattern": r"\p{L}+"}, {"x": {"$ref": "a"}}, TUPLE]
)
def test_unusual_schemas_are_not_bad(schema: Any) -> None:
    assert not bad_schema(schema)


def test_odd_schemas_may_be_served() -> None:
    for status, wanted in ((400, set()), (500, {"schema.bad.refused-and-survives"})):
        x = no("schema-odd", status, step="odd-tuple", tags={"valid": "no"})
        assert broken(x, areas=AREAS) == wanted
    assert broken(ok("schema-odd", step="odd-tuple", tags={"valid": "no"}), areas=AREAS) == set()


@pytest.mark.parametrize(
    "body", [{"detail": "no"}, {"object": "error", "message": "no"}, {"error": "no"}, {"error": {"message": ""}}, [1]]
)
def test_envelope(body: Any) -> None:
    x = no("any", body=body, request=asked({"type": "banana"}))
    assert broken(x, areas=AREAS) == {"schema.bad.envelope"}


def test_control() -> None:
    request = {"messages": [{"role": "user", "content": CONTROL}]}
    good = ok("schema-bad", "I am still here", request, step="control-type")
    assert broken(good, areas=AREAS) == set() and verdict("schema.control.survives", good) is Status.PASS
    assert broken(no("schema-bad", 500, request=request, step="control-ref"), areas=AREAS) == {
        "schema.control.survives"
    }


FORM = {"type": "json_schema"}
REFUSED: list[tuple[str, str, Any]] = [
    ("schema.format.unknown-refused", "format-unknown", {"type": "json"}),
    ("schema.format.unknown-refused", "any", FORM),
    ("schema.format.unknown-refused", "any", {**FORM, "json_schema": None}),
    ("schema.name.checked", "any", {**FORM, "json_schema": {"schema": LEVEL}}),
    ("schema.name.checked", "any", {**FORM, "json_schema": {"name": "a b", "schema": LEVEL}}),
    ("schema.name.checked", "any", {**FORM, "json_schema": {"name": "a" * 65, "schema": LEVEL}}),
    ("schema.name.checked", "any", {**FORM, "json_schema": {"name": "", "schema": LEVEL}}),
    ("schema.spec.invalid-refused", "any", {**FORM, "json_schema": {"name": "a", "strict": "yes", "schema": LEVEL}}),
    ("schema.spec.invalid-refused", "any", {**FORM, "json_schema": {"name": "a", "schema": ["a"]}}),
    ("schema.spec.invalid-refused", "any", {**FORM, "json_schema": "level"}),
]


@pytest.mark.parametrize(("rule", "scenario", "form"), REFUSED)
def test_refused(rule: str, scenario: str, form: Any) -> None:
    request = {"response_format": form}
    assert broken(no(scenario, request=request), areas=AREAS) == set()
    assert broken(no(scenario, 500, request=request), areas=AREAS) == {rule}
    assert broken(ok(scenario, GOOD, request), areas=AREAS) == {rule}


def test_no_schema_at_all() -> None:
    """vLLM 0.8.5 and 0.10.2 answer in free text."""
    request = {"response_format": {**FORM, "json_schema": {"name": "a", "strict": True}}}
    assert broken(no("any", request=request), ok("any", "{}", request), areas=AREAS) == set()
    assert broken(ok("any", "Hello there!", request), areas=AREAS) == {"schema.spec.invalid-refused"}
    best_effort = {"response_format": {**FORM, "json_schema": {"name": "a"}}}
    assert broken(ok("any", "Hello there!", best_effort), areas=AREAS) == set()


def test_names_at_the_border_are_fine() -> None:
    for name in ("a", "a" * 64, "A-b_9"):
        form = {**FORM, "json_schema": {"name": name, "strict": True, "schema": LEVEL}}
        assert broken(ok("any", GOOD, {"response_format": form}), areas=AREAS) == set()


def called(scenario: str, request: Any) -> Exchange:
    message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [CALL]}
    return plain(completion(message, "tool_calls"), request, scenario=scenario)


def test_tools() -> None:
    """B2-164, B2-165."""
    plain_tools, both = {"tools": TOOLS}, asked(tools=TOOLS)
    alone, final = called("schema-tools-alone", plain_tools), ok("schema-tools", request=both)
    pinned, call = ok("plain-pinned"), called("schema-tools-call", both)
    assert broken(pinned, alone, final, call, areas=AREAS) == set()
    lost = ok("schema-tools-call", request=both)
    assert broken(pinned, alone, final, lost, areas=AREAS) == {"schema.tools.calls-kept"}
    clear = {"error": {"message": "response_format is not supported with tools."}}
    refused = [no(name, 400, clear, both) for name in ("schema-tools", "schema-tools-call")]
    assert broken(pinned, alone, *refused, areas=AREAS) == set()
    for status, body in ((500, clear), (400, {"error": {"message": "parse error at line 3"}})):
        odd = [no(name, status, body, both) for name in ("schema-tools", "schema-tools-call")]
        assert broken(pinned, alone, *odd, areas=AREAS) == {"schema.tools.together"}
    silent = ok("schema-tools-alone", "Hello.", plain_tools)
    assert verdict("schema.tools.calls-kept", silent, lost) is Status.INCONCLUSIVE


def test_choice() -> None:
    rule = "schema.vendor.choice"
    request = {"structured_outputs": {"choice": ["zq7-left", "zq7-right"]}}
    good = ok("schema-choice", "zq7-left", request)

    def other(said: str) -> Exchange:
        return stream(*text(said), request=request, scenario="schema-choice-stream")

    assert verdict(rule, good, other("zq7-right")) is Status.PASS
    assert verdict(rule, good, other("On the left.")) is Status.FAIL
    assert verdict(rule, ok("schema-choice", "Left.", request), other("Left.")) is Status.NOT_APPLICABLE


def large(small: float, first: float, again: float) -> list[Exchange]:
    out = []
    for step, late in (("small", small), ("first", first), ("again", again)):
        out.append(stream(*text(GOOD), request=asked(), scenario="schema-large", step=step, times=[late]))
    return [*out, ok("schema-large", step="deep")]


@pytest.mark.parametrize(
    ("times", "status"),
    [
        ((0.1, 0.2, 0.1), Status.PASS),
        ((0.1, 9.0, 0.2), Status.PASS),
        ((0.1, 9.0, 1.0), Status.PASS),
        ((0.1, 9.0, 8.0), Status.FAIL),
        ((0.1, 9.0, 4.0), Status.PASS),  # noise of a busy server
        ((5.0, 5.5, 5.5), Status.PASS),  # a slow server
        ((0.1, 0.1, 3.0), Status.FAIL),
    ],
)
def test_compiled_once(times: tuple[float, float, float], status: Status) -> None:
    assert verdict("schema.repeated.compiled-once", *large(*times)) is status


def test_large_is_accepted() -> None:
    assert verdict("schema.large.accepted", *large(0.1, 0.1, 0.1)) is Status.PASS
    small, _, again, deep = large(0.1, 0.1, 0.1)
    refused = no("schema-large", step="first")
    assert verdict("schema.large.accepted", small, refused, again, deep) is Status.FAIL


def test_the_conversations_are_what_the_rules_expect() -> None:
    """Protects the steps' names, which the rules read."""
    from wireproof.reference_server.memory import record

    takes: list[Take] = [record(scenarios=[name]).takes[0] for name in ("schema-bad", "schema-odd")]
    names = [x.transcript.step for take in takes for x in take.exchanges]
    counts = [[len(take.steps(prefix)) for prefix in ("bad-", "odd-", "control-")] for take in takes]
    assert counts == [[4, 0, 4], [0, 2, 2]]
    assert all(a.split("-", 1)[1] == b.split("-", 1)[1] for a, b in zip(names[::2], names[1::2], strict=True))
