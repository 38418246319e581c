"""Which keywords an instance violates, the formats, and what hostile instances may cost."""

from __future__ import annotations

from typing import Any

import pytest

from wireproof.json_schema.formats import CHECKS, is_of
from wireproof.json_schema.patterns import compiled, reach
from wireproof.json_schema.violations import area_of, areas_in, keywords_in, violated

NULL = {"type": "null"}


def found(schema: Any, instance: Any) -> set[tuple[str, str]]:
    return {(v.keyword, v.area) for v in violated(schema, instance)}


@pytest.mark.parametrize(
    ("schema", "instance", "keyword", "area"),
    [
        ({"type": "string"}, 1, "type", "core"),
        ({"enum": ["1", True]}, 1, "enum", "core"),
        ({"properties": {"then": {"type": "string"}}}, {"then": 1}, "type", "core"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"const": 5}}}, 6, "const", "core"),
        ({"items": {"type": "null"}}, [1], "type", "core"),
        ({"required": ["a"]}, {}, "required", "keys"),
        ({"additionalProperties": False}, {"a": 1}, "additionalProperties", "keys"),
        ({"additionalProperties": NULL}, {"a": 1}, "additionalProperties with a schema", "object"),
        ({"patternProperties": {"^a": False}}, {"ab": 1}, "patternProperties", "object"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "propertyNames", "object"),
        ({"unevaluatedProperties": False}, {"a": 1}, "unevaluatedProperties", "object"),
        ({"minLength": 2}, "é", "minLength", "string"),
        ({"format": "ipv4"}, "::1", "format", "string"),
        ({"multipleOf": 0.1}, 0.25, "multipleOf", "number"),
        ({"prefixItems": [NULL]}, [1], "prefixItems", "array"),
        ({"prefixItems": [NULL], "items": False}, [None, 1], "items", "array"),
        ({"contains": NULL, "maxContains": 1}, [None, None], "maxContains", "array"),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 1}], "uniqueItems", "array"),
        ({"allOf": [{"type": "string"}]}, 1, "allOf", "composition"),
        ({"oneOf": [{"type": "string"}, {"minLength": 1}]}, "a", "oneOf", "composition"),
        ({"if": True, "then": {"const": 1}}, 2, "if", "composition"),
        ({"not": {}}, 2, "not", "composition"),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, "dependentSchemas", "composition"),
        # anyOf is of the core, unless a branch misses something else only
        ({"anyOf": [{"type": "string"}, NULL]}, 1, "anyOf", "core"),
        ({"anyOf": [{"type": "string", "pattern": "^a$"}, NULL]}, "b", "pattern", "string"),
        ({"anyOf": [{"type": "array", "minItems": 2}, NULL]}, [1], "minItems", "array"),
    ],
)
def test_keyword_and_area(schema: Any, instance: Any, keyword: str, area: str) -> None:
    assert found(schema, instance) == {(keyword, area)}


def test_areas() -> None:
    assert area_of("something-else") == "composition"
    schema = {
        "title": "t",
        "properties": {"pattern": {"type": "integer", "minimum": 1}, "x": {"enum": [{"minItems": 1}]}},
        "required": ["minLength"],
    }
    assert keywords_in(schema) == {"title", "properties", "required", "type", "minimum", "enum"}
    assert areas_in(schema) == {"core", "keys", "number"}
    assert areas_in({"additionalProperties": {"type": "string"}}) == {"core", "object"}
    assert areas_in({"description": "d"}) == set()


@pytest.mark.parametrize(
    ("step", "good", "bad"),
    [(0.1, (0.3, 0.7, 1, 1e22), (0.25,)), (0.01, (19.99, 0.07), (0.005,)), (7, (14, 0, -7, 7.0), (15, 0.5))],
)
def test_multiples_are_exact_as_written(step: Any, good: tuple[Any, ...], bad: tuple[Any, ...]) -> None:
    assert all(not violated({"multipleOf": step}, n) for n in good)
    assert all(violated({"multipleOf": step}, n) for n in (*bad, float("inf"), float("nan")))
    assert not violated({"multipleOf": step}, True)


FORMATS: dict[str, tuple[list[str], list[str]]] = {
    "date-time": (
        ["2024-02-29T12:30:00Z", "2024-02-29t12:30:00.123456789+01:00", "1998-12-31T23:59:60Z"],
        ["2024-02-29", "2023-02-29T12:30:00Z", "2024-02-29T12:30:00", "2024-02-29T24:00:00Z", "2024-02-29T12:30Z", ""],
    ),
    "date": (["2024-02-29", "0000-02-29"], ["2024-2-9", "2024-13-01", "2024-02-30", "٢٠٢٤-٠٢-٢٩", "2024-02-29\n"]),
    "time": (
        ["12:30:00Z", "00:29:60+00:30", "12:30:00.5-23:59"],
        ["12:30:00", "12:30Z", "12:30:60Z", "12:30:00+24:00", "12:60:00Z"],
    ),
    "duration": (["P1D", "PT1M", "P1Y2M3DT4H5M6S", "P4W", "P1YT1S"], ["P", "PT", "P1DT", "1D", "P1Y1W", "P1H", "P-1D"]),
    "email": (
        ["a@b.example", "a.b+c@host", '"a b"@host', "a@[192.0.2.1]", "a@[IPv6:::1]"],
        ["a", "@b", "a@", "a b@c", ".a@b", "a..b@c", "a@-b.c"],
    ),
    "hostname": (["a", "a-1.b", "1.example", "a" * 63], ["", ".a", "a.", "-a", "a-", "a_b", "a" * 64, "ä.example"]),
    "ipv4": (["0.0.0.0", "255.255.255.255"], ["256.0.0.1", "1.2.3", "01.2.3.4", "١.2.3.4", "1.2.3.4/8"]),
    "ipv6": (["::", "::1", "2001:db8::ffff:192.0.2.1"], ["1.2.3.4", ":::", "fe80::1%eth0", "12345::", ""]),
    "uuid": (
        ["123e4567-E89B-12d3-a456-426614174000", "00000000-0000-0000-0000-000000000000"],
        [
            "123e4567e89b12d3a456426614174000",
            "{123e4567-e89b-12d3-a456-426614174000}",
            "g23e4567-e89b-12d3-a456-4266141740",
        ],
    ),
    "uri": (
        ["https://e.example/a?b#c", "urn:isbn:1", "mailto:a@b", "http://[::1]/"],
        ["/a", "a b:c", "http://a/ä", ":a"],
    ),
    "uri-reference": (["", "/a", "#f", "a:b", "%41"], ["a b", "%4", "a#b#c", "\\"]),
    "json-pointer": (["", "/a~0~1/0"], ["a", "/~", "/~2"]),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name: str) -> None:
    good, bad = FORMATS[name]
    assert [text for text in good if not is_of(name, text)] == []
    assert [text for text in bad if is_of(name, text)] == []
    assert violated({"format": name}, 5) == []


def test_every_format_is_tested_and_others_ask_for_nothing() -> None:
    assert set(FORMATS) == set(CHECKS)
    assert is_of("colour", "anything")
    assert violated({"format": "colour"}, "anything") == []


@pytest.mark.parametrize("name", CHECKS)
def test_hostile_texts_of_a_format(name: str) -> None:
    for text in ("a" * 100_000, "a." * 40_000, "0" * 9_999, "P" + "1D" * 4_000, "a@" * 5_000, "::" * 4_000, "\ud800"):
        is_of(name, text)


def test_patterns_end_where_ecma_ends() -> None:
    assert violated({"pattern": "^a$"}, "a\n")
    assert not violated({"pattern": "[$]\\$"}, "$$")
    assert compiled("(?<year>[0-9]{4})$").search("in 2024")


@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        ("^[0-9]{2,3}-x$", 10_000),
        ("(a+)+$", 24),
        ("^(a|b)*$", 24),
        ("(?:a?){9,}", 24),
        ("^a*a*a*b", 464),
        ("[*+]$", 10_000),
    ],
)
def test_reach(pattern: str, most: int) -> None:
    assert reach(pattern) == most


@pytest.mark.parametrize(
    ("schema", "instance"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 40 + "!"),
        ({"items": {"pattern": "^a*a*a*a*b"}}, ["a" * 5_000]),
        ({"patternProperties": {"^(a|a)*$": True}}, {"a" * 50 + "!": 1}),
        ({"uniqueItems": True}, [{"a": i} for i in range(5_000)]),
        ({"$ref": "#/$defs/none"}, 1),
        ({"$ref": "http://127.0.0.1:9/schema"}, 1),
        ({"$ref": "#"}, 1),
        ({"pattern": "\\p{L}"}, "a"),
        ({"type": 5}, "a"),
    ],
)
def test_what_cannot_be_used_is_a_value_error(schema: Any, instance: Any) -> None:
    with pytest.raises(ValueError, match="the schema cannot be used: "):
        violated(schema, instance)


@pytest.mark.parametrize("instance", [None, True, 1, 1e308, "\ud800", [], {}, [[[]]], {"a": [{"b": None}]}, 10**400])
def test_any_json_type(instance: Any) -> None:
    schema = {
        "multipleOf": 0.5,
        "pattern": "^a",
        "format": "date",
        "uniqueItems": True,
        "patternProperties": {"^a": {"type": "string"}},
        "minimum": 1.5,
    }
    violated(schema, instance)
