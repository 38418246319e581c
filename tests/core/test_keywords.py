"""The cases of the keyword table: right, narrow, small, and sent as they should be."""

from __future__ import annotations

import json
from collections import Counter

import jsonschema
import pytest

from wireproof.json_schema.violations import violated
from wireproof.scenarios import keywords
from wireproof.scenarios.keywords import KeywordCase
from wireproof.wire.transcript import Tags

CASES = list(keywords.load().values())
# What the first invalid instance violates, where that is not the keyword itself.
BESIDE = {
    **{keyword: {"enum"} for keyword in ("title", "description", "default", "examples")},
    "$ref": {"enum", "anyOf"},
    "items": {"enum", "const", "type", "items"},
    "properties": {"type"},
}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_instances(case: KeywordCase) -> None:
    jsonschema.Draft202012Validator.check_schema(case.schema)
    assert case.valid
    assert case.invalid
    for instance in case.valid:
        assert violated(case.schema, instance) == []
    for instance in case.invalid:
        assert violated(case.schema, instance)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_the_first_invalid_instance_violates_the_keyword_only(case: KeywordCase) -> None:
    found = {v.keyword.removesuffix(" with a schema") for v in violated(case.schema, case.invalid[0])}
    assert len(found) == 1
    assert found <= BESIDE.get(case.keyword, {case.keyword})


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_small(case: KeywordCase) -> None:
    for instance in (*case.valid, *case.invalid):
        assert len(json.dumps(instance, ensure_ascii=False)) <= case.max_tokens / 2


def test_counts() -> None:
    assert len(CASES) >= 130
    assert len(keywords.scenarios()) <= 175
    ways = Counter(how for case in CASES for how in case.also)
    assert ways["stream"] >= 15
    assert ways["tool"] >= 20
    assert {case.group for case in CASES if "tool" in case.also} >= {"type", "null", "ref", "string", "number", "array"}


def test_requests() -> None:
    made = {s.name: s for s in keywords.scenarios()}
    plain, stream, tool = (dict(made[f"keyword-string-pattern{how}"].body or {}) for how in ("", "-stream", "-tool"))
    assert plain["messages"] == [{"role": "user", "content": 'Say: {"value": "zzz"}'}]
    assert plain["response_format"]["json_schema"]["strict"] is True
    assert stream.pop("stream") is True
    assert stream == plain
    assert tool["tool_choice"] == {"type": "function", "function": {"name": "answer"}}
    assert tool["tools"][0]["function"]["parameters"] == plain["response_format"]["json_schema"]["schema"]
    assert made["keyword-string-pattern-tool"].tags == Tags(
        optional="the keyword pattern", table="keywords", row="string-pattern", column="tool"
    )


def test_definitions_move_to_the_root() -> None:
    schema = keywords.load()["ref-once"].schema
    assert schema["properties"]["value"] == {"$ref": "#/$defs/grade"}
    assert "grade" in schema["$defs"]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"id": "a"}, "missing ['invalid', 'keyword', 'schema', 'type', 'valid']"),
        (
            {"id": "a", "keyword": "k", "type": "t", "schema": {}, "valid": [1], "invalid": [], "what": 1},
            "unknown ['what']",
        ),
    ],
)
def test_a_wrong_case_is_named(case: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=r"mine\.json: case a: ") as error:
        keywords.parse(json.dumps({"group": "g", "cases": [case]}), "mine.json")
    assert message in str(error.value)
