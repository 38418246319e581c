"""The rules of the keyword table, on answers written by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.scenarios import keywords
from wireproof.verdict import Status
from wireproof.wire.transcript import Tags

from .wire import broken, chunk, completion, explain, plain, stream, text, verdict

RULES = {
    "core": "schema.type.supported",
    "keys": "schema.keys.exact",
    "object": "schema.keyword.object",
    "string": "schema.keyword.string",
    "number": "schema.keyword.number",
    "array": "schema.keyword.array",
    "composition": "schema.keyword.composition",
}
GROUPS = {
    "type": "schema.type.supported",
    "annotation": "schema.type.supported",
    "null": "schema.null.unions",
    "ref": "schema.ref.supported",
    "format": "schema.keyword.string",
}
OURS = set(RULES.values()) | set(GROUPS.values())
MAY_REFUSE = {rule for rule in OURS if ".keyword." in rule}
ERROR = {"error": {"message": "Unimplemented keys", "type": "invalid_request_error", "param": None, "code": None}}


def request_of(case: str, how: str = "plain") -> tuple[str, dict[str, Any], Tags]:
    """Scenario name, body and tags of a case's request."""
    name = f"keyword-{case}" + ("" if how == "plain" else f"-{how}")
    found = next(s for s in keywords.scenarios() if s.name == name)
    return name, dict(found.body or {}), found.tags


def said(case: str, value: Any, finish: str = "stop") -> Exchange:
    """A plain answer to a case."""
    name, body, tags = request_of(case)
    content = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return plain(completion(content, finish), body, scenario=name, tags=tags)


def called(case: str, value: Any, finish: str = "stop") -> Exchange:
    """A plain answer that calls the case's function."""
    name, body, tags = request_of(case, "tool")
    function = {"name": "answer", "arguments": json.dumps(value)}
    message = {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }
    return plain(completion(message, finish), body, scenario=name, tags=tags)


def refused(case: str, status: int, body: Any = ERROR, tagged: bool = True) -> Exchange:
    name, asked, tags = request_of(case)
    return plain(body, asked, status=status, scenario=name, tags=tags if tagged else {})


def ours(*exchanges: Exchange) -> set[str]:
    return broken(*exchanges, areas=["schema"]) & OURS


def rule_of(case: keywords.KeywordCase) -> str:
    return GROUPS.get(case.group) or RULES[case.group]


@pytest.mark.parametrize("case", keywords.load().values(), ids=lambda c: c.id)
def test_every_case_has_its_rule(case: keywords.KeywordCase) -> None:
    rule = rule_of(case)
    for value in case.valid:
        assert verdict(rule, said(case.id, value)) is Status.PASS
        assert ours(said(case.id, value)) == set()
    first = ours(said(case.id, case.invalid[0]))
    if case.id == "enum-non-ascii":  # schema.unicode.exact judges letters
        assert first == set()
        return
    # a key of patternProperties that the schema bans is a banned key
    assert first == ({RULES["keys"]} if case.id == "pattern-properties-keys" else {rule})
    for value in case.invalid:
        assert ours(said(case.id, value))


@pytest.mark.parametrize(
    "case", ["type-string", "null-string", "ref-once", "required-one", "min-items", "range-narrow"]
)
def test_refusals(case: str) -> None:
    rule = rule_of(keywords.load()[case])
    honest = verdict(rule, refused(case, 400))
    assert honest is (Status.PASS if rule in MAY_REFUSE else Status.UNSUPPORTED)
    assert verdict(rule, refused(case, 400, {"detail": "no"})) is Status.INCONCLUSIVE
    assert verdict(rule, refused(case, 401)) is Status.INCONCLUSIVE
    assert verdict(rule, refused(case, 503)) is Status.INCONCLUSIVE
    assert ours(refused(case, 500)) == {rule}
    assert "a 4xx that names the keyword" in explain(rule, refused(case, 500))


def test_an_error_of_a_request_that_is_not_of_the_table_says_nothing_of_keywords() -> None:
    for status in (400, 422, 500):
        x = refused("min-items", status, tagged=False)
        assert verdict("schema.keyword.array", x) is Status.INCONCLUSIVE


def test_a_cut_answer_shows_nothing() -> None:
    assert verdict("schema.keyword.string", said("min-length", {"value": "short"}, "length")) is Status.INCONCLUSIVE
    assert verdict("schema.keyword.string", said("min-length", '{"value": "sh', "length")) is Status.INCONCLUSIVE


def test_what_is_no_json_is_judged_elsewhere() -> None:
    for content in ("zzz", "```json\n{}\n```", ""):
        assert verdict("schema.keyword.string", said("string-pattern", content)) is Status.INCONCLUSIVE


def test_streams() -> None:
    name, body, tags = request_of("string-pattern", "stream")
    good = stream(*text('{"value": "ab', 'cd-12"}'), request=body, scenario=name, tags=tags)
    bad = stream(*text('{"value": ', '"zzz"}'), request=body, scenario=name, tags=tags)
    assert ours(good) == set()
    assert verdict("schema.keyword.string", good) is Status.PASS
    assert ours(bad) == {"schema.keyword.string"}
    error = stream(
        *text('{"value": "zzz"}')[:-1], {"error": {"message": "gone"}}, request=body, scenario=name, tags=tags
    )
    assert ours(error) == set()
    left = stream(chunk({"role": "assistant"}), request=body, scenario=name, tags=tags)
    assert ours(left) == set()


def test_strict_functions() -> None:
    assert ours(called("min-items", {"value": [True]})) == {"schema.keyword.array"}
    assert ours(called("min-items", {"value": [True]}, "tool_calls")) == {"schema.keyword.array"}
    assert ours(called("min-items", {"value": [True]}, "length")) == set()
    assert ours(called("min-items", {"value": [True] * 4})) == set()
    # what strict promises for calls has a rule of the tools
    assert ours(called("required-one", {"value": {}})) == set()
    assert ours(called("enum-strings", {"value": "qx8"})) == set()


def test_other_requests_with_a_strict_schema_are_judged_too() -> None:
    """Recordings of somebody's own schema: each keyword is charged to its rule."""
    schema = {
        "type": "object",
        "properties": {
            "code": {"anyOf": [{"type": "string", "pattern": "^[A-Z]{3}$"}, {"type": "null"}]},
            "count": {"type": "integer", "maximum": 5},
        },
        "required": ["code", "count"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "mine", "strict": True, "schema": schema}}

    def answer(content: Any, **form_changes: Any) -> Exchange:
        inner = {**form["json_schema"], **form_changes}  # type: ignore[dict-item]
        asked = {"response_format": {**form, "json_schema": inner}}
        return plain(completion(json.dumps(content)), asked, scenario="mine/1.json")

    assert ours(answer({"code": "ABC", "count": 5})) == set()
    assert ours(answer({"code": "abc", "count": 5})) == {"schema.keyword.string"}
    assert ours(answer({"code": None, "count": 6})) == {"schema.keyword.number"}
    assert ours(answer({"code": None})) == {"schema.keys.exact"}
    assert ours(answer({"code": None, "count": 1, "more": 1})) == {"schema.keys.exact"}
    assert ours(answer({"code": "abc", "count": 6}, strict=False)) == set()
    assert ours(answer({"code": "abc", "count": 6}, strict=None)) == set()


@pytest.mark.parametrize("odd", [None, True, 7, "x", [], {}, [[]], {"error": None}, {"choices": [None, 5, {}]}])
def test_odd_bodies_crash_nothing(odd: Any) -> None:
    name, body, tags = request_of("string-pattern")
    ours(plain(json.dumps(odd).encode(), body, scenario=name, tags=tags))
    ours(plain(completion({"role": odd, "content": odd, "refusal": odd, "tool_calls": odd}), body, tags=tags))
    for asked in ({"response_format": odd}, {"response_format": {"type": "json_schema", "json_schema": odd}}):
        ours(plain(completion("{}"), asked))
    strict = {"name": "a", "strict": True, "schema": {"properties": odd, "items": odd, "anyOf": odd, "pattern": odd}}
    ours(plain(completion("{}"), {"response_format": {"type": "json_schema", "json_schema": strict}}))
    tool = {"type": "function", "function": {"name": "answer", "strict": True, "parameters": odd}}
    ours(plain(completion("{}"), {"tools": [tool, odd]}))
