"""Strict JSON: the value that json.loads gives, and everything that a strict parser would refuse."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wireproof.wire import strictjson
from wireproof.wire.strictjson import NESTING_LIMIT, ProblemKind, get, is_int, parse

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(JSON, st.booleans(), st.sampled_from([None, 2]))
def test_valid_json_is_read_as_json_loads_reads_it(value: Any, ascii_only: bool, indent: int | None) -> None:
    """Protects against a value that differs from what clients see, and against false problems."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    found = parse(text)
    assert found.ok and found.problems == ()
    assert found.value == json.loads(text) and repr(found.value) == repr(json.loads(text))


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet='{}[]",:\\u0dD8nN1e+-. tfal', max_size=30) | st.text(max_size=30))
def test_any_text_never_raises(text: str) -> None:
    """Protects the run, and that what json.loads refuses is never ok."""
    found = parse(text)
    try:
        json.loads(text)
    except ValueError:
        assert not found.ok and found.problem(ProblemKind.NOT_JSON)
    else:
        assert found.ok


@pytest.mark.parametrize(
    "text", ["", " ", "{", "[1,]", "{'a': 1}", '{"a": 1} x', '"\n"', "01", ".5", "tru", "\ufeff{}"]
)
def test_what_is_not_json_says_where(text: str) -> None:
    """Protects the offset that the failure shows."""
    problem = parse(text).problem(ProblemKind.NOT_JSON)
    assert problem and problem.at is not None and not parse(text).ok


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_constants_are_problems_and_values(name: str) -> None:
    """Protects RFC 8259 section 6: Python takes these, JSON.parse does not."""
    found = parse(f'{{"a": [{name}]}}')
    problem = found.problem(ProblemKind.CONSTANT)
    assert found.ok and problem and (problem.what, problem.at) == (name, 7)
    assert math.isnan(found.value["a"][0]) or math.isinf(found.value["a"][0])


def test_a_constant_is_not_placed_where_its_name_is_text() -> None:
    """Protects the marked bytes: the word NaN in the content is not the defect."""
    problem = parse('{"content": "NaN", "logprob": NaN}').problem(ProblemKind.CONSTANT)
    assert problem and problem.at is None
    assert parse('{"content": "NaN"}').problems == ()


def test_duplicates() -> None:
    """Protects RFC 8259 section 4: parsers keep the first or the last, so clients see different answers."""
    found = parse('{"a": 1, "b": {"a": 1}, "a": 2, "a": 3}')
    assert found.value["a"] == 3
    assert [(p.kind, p.what) for p in found.problems] == [(ProblemKind.DUPLICATE, "a")] * 2
    assert [p.what for p in parse('[{"x": 0, "x": 0}, {"y": 0, "y": 0}]').problems] == ["x", "y"]
    assert parse('{"a": {"a": 1}}').problems == ()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (r'{"a": "\ud83d"}', "$.a"),
        (r'{"a": ["x", "\uDE00"]}', "$.a[1]"),
        (r'{"\ud800": 1}', "$."),
        (r'"\ude00\ud83d"', "$"),
    ],
)
def test_lone_surrogates(text: str, where: str) -> None:
    """Protects RFC 8259 section 8.2: half a character, which no client can encode again."""
    problem = parse(text).problem(ProblemKind.SURROGATE)
    assert problem and problem.what.startswith(where)
    problem.what.encode("utf-8")  # the message itself can be stored


@pytest.mark.parametrize("text", [r'"\ud83d\ude00"', '"\U0001f600"', r'"\\ud83d"', r'"\u00e9"'])
def test_pairs_are_no_problem(text: str) -> None:
    """Protects whole characters written as escapes, and escaped backslashes."""
    assert parse(text).problems == ()


# -- limits --------------------------------------------------------------------------


@pytest.mark.parametrize("opened", ["[", '{"a":', '[{"a":'])
def test_nesting_is_limited(opened: str) -> None:
    """Protects our stack, and that the limit is where it says."""
    per = opened.count("[") + opened.count("{")
    closed = opened.replace('"a":', "").translate(str.maketrans("[{", "]}"))[::-1]
    times = NESTING_LIMIT // per
    assert parse(opened * times + "1" + closed * times).ok
    deep = parse(opened * (times + 1) + "1" + closed * (times + 1))
    assert not deep.ok and deep.problem(ProblemKind.NESTING)


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000])
def test_a_hundred_thousand_brackets_are_refused_early(text: str) -> None:
    """Protects against a RecursionError and against parsing at all: the scan stops at the limit."""

    class Text(str):
        seen = 0

        def __iter__(self):  # type: ignore[no-untyped-def]
            for char in str(self):
                Text.seen += 1
                yield char

    found = parse(Text(text))
    assert not found.ok and found.problem(ProblemKind.NESTING)
    assert Text.seen <= 6 * (NESTING_LIMIT + 1)


def test_brackets_in_strings_do_not_count() -> None:
    """Protects content that is itself deep JSON or code."""
    assert parse(json.dumps({"content": '\\"[' * 1000})).ok
    assert parse("[" + ",".join(["[]"] * 1000) + "]").ok


def test_huge_numbers() -> None:
    """Protects exact integers, and from the ValueError of an integer of thousands of digits."""
    assert parse(str(2**64)).value == 2**64
    assert parse("9" * 4000).value == int("9" * 4000)
    huge = parse('{"created": ' + "9" * 5000 + "}")
    assert not huge.ok and "digits" in huge.problems[0].what
    assert parse("1e999").value == math.inf and parse("1e-999").value == 0


# -- helpers -------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(JSON, st.lists(st.text(max_size=3) | st.integers(-5, 5), max_size=4))
def test_get_never_raises(value: Any, path: list[str | int]) -> None:
    """Protects every rule that walks into an untrusted value."""
    missing = object()
    found = get(value, *path, default=missing)
    if found is not missing:
        for step in path:
            value = value[step]
        assert found is value


def test_get() -> None:
    """Protects null as a value (no default), and that a string is not walked by index."""
    value = {"a": [{"b": None}], "s": "xyz", "0": 1}
    assert get(value, "a", 0, "b", default=1) is None
    assert get(value, "a", -1) == {"b": None}
    assert get(value, "a", 1, default=1) == 1 and get(value, "a", -2) is None
    assert get(value, "s", 0) is None and get(value, 0) is None and get(value, "a", "b") is None
    assert get(value) is value


def test_is_int() -> None:
    """Protects `index: true` and `index: 1.0` from passing as integers."""
    assert is_int(0) and is_int(-(2**70))
    assert not any(is_int(v) for v in (True, False, 1.0, "1", None))


def test_strings_names_every_string() -> None:
    """Protects the rules about characters: keys count too."""
    assert sorted((where(), text) for where, text in strictjson.strings({"k": ["v", {"x": "y"}], "n": 1})) == [
        ("$.k", "k"),
        ("$.k[0]", "v"),
        ("$.k[1].x", "x"),
        ("$.k[1].x", "y"),
        ("$.n", "n"),
    ]


def test_a_body_of_constants_costs_no_more_than_its_length() -> None:
    """Protects the run from a target that answers with a hundred thousand NaN: this was quadratic, for minutes."""
    found = strictjson.parse("[" + "NaN," * 100_000 + "1]")
    assert [p.what for p in found.problems] == ["NaN"]


def test_a_path_is_written_only_for_what_is_shown() -> None:
    """Protects the memory: a path for each of these would take gigabytes."""
    found = strictjson.parse('{"' + "k" * 20_000 + '":[' + "1," * 200_000 + '"\\ud800"]}')
    problem = found.problem(strictjson.ProblemKind.SURROGATE)
    assert problem is not None
    assert len(problem.what) <= 200
