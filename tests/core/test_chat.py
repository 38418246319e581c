"""Chunks put together to a message, and tool calls to their arguments, whatever shape they come in."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wireproof.exchange import Exchange
from wireproof.wire.chat import Assembled
from wireproof.wire.tools import AssembledCall, Oddity, ToolCallAssembler

from .making import plain_of, stream_of
from .test_strictjson import JSON


def chunk(*choices: Any, **more: Any) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", "id": "c", "choices": list(choices), **more}


def part(delta: Any, index: Any = 0, finish: Any = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": finish}


def put_together(*values: Any) -> Assembled:
    return Exchange(stream_of(*values)).assembled


def calls(*deltas: Any) -> tuple[AssembledCall, ...]:
    assembler = ToolCallAssembler()
    for number, fragments in enumerate(deltas):
        assembler.feed(fragments, number)
    return assembler.calls()


def oddities(*deltas: Any) -> list[tuple[Oddity, int]]:
    return [o for call in calls(*deltas) for o in call.oddities]


# -- chunks --------------------------------------------------------------------------


def test_choices_are_put_together_by_index() -> None:
    """Protects n=2, interleaved, with the second choice first and both in one chunk."""
    found = put_together(
        chunk(part({"role": "assistant", "content": "b1"}, 1)),
        chunk(part({"role": "assistant", "content": "a1"})),
        chunk(part({"content": "a2"}), part({"content": "b2"}, 1)),
        chunk(part({}, 1, "length")),
        chunk(part({}, 0, "stop")),
    )
    assert [(c.index, c.content, c.finish_reason, c.roles) for c in found.choices] == [
        (1, "b1b2", "length", ("assistant",)),
        (0, "a1a2", "stop", ("assistant",)),
    ]
    first = found.choice(0)
    assert first and first.content == "a1a2" and found.choice(7) is None
    assert [p.position for p in found.parts] == [0, 1, 2, 3, 4, 5]


def test_no_content_is_not_empty_content() -> None:
    """Protects null from being called "": the comparison with the plain answer needs both."""
    none, empty = put_together(chunk(part({"content": None}))), put_together(chunk(part({"content": ""})))
    assert (none.choices[0].content, empty.choices[0].content) == (None, "")


def test_every_finish_is_kept_and_the_first_counts() -> None:
    """Protects the rule that there is one."""
    (choice,) = put_together(chunk(part({}, 0, "stop")), chunk(part({}, 0, "length"))).choices
    assert (len(choice.finishes), choice.finish_reason) == (2, "stop")


def test_usages_are_kept_with_their_chunks() -> None:
    """Protects usage on every chunk from being collapsed; null is none."""
    found = put_together(chunk(part({}), usage=None), chunk(usage={"a": 1}), chunk(usage=[]))
    assert [u for _, u in found.usages] == [{"a": 1}, []]
    assert Exchange(stream_of(chunk(usage={"a": 1}), chunk(usage=[]))).usage == {"a": 1}


@pytest.mark.parametrize("index", [None, "0", True, 1.0, [], {"a": 1}])
def test_an_index_of_the_wrong_type_never_joins_a_right_one(index: Any) -> None:
    """Protects choice 0 and 1 from strays: true and 1.0 are equal to 1 in Python."""
    found = put_together(chunk(part({"content": "a"}, 1)), chunk(part({"content": "b"}, index)))
    assert [c.content for c in found.choices] == ["a", "b"]


def test_a_missing_index_is_one_choice() -> None:
    """Protects the text of a server that never sends one."""
    found = put_together(chunk({"delta": {"content": "a"}}), chunk({"delta": {"content": "b"}}))
    assert [c.content for c in found.choices] == ["ab"]


def test_reasoning_under_two_names_is_counted_once() -> None:
    """Protects engines that send one text as `reasoning` and as `reasoning_content`."""
    both = put_together(
        chunk(part({"reasoning": "a", "reasoning_content": "a"})), chunk(part({"reasoning_content": "b"}))
    )
    assert both.choices[0].reasoning == "ab"


def test_what_a_payload_is() -> None:
    """Protects the sorting into chunks, errors and asides, on which most rules rest."""
    x = Exchange(
        stream_of(
            chunk(part({"content": "a"})),
            {"error": {"message": "no"}},
            {"object": "error", "message": "no"},
            {"detail": "no"},
            {"error": None, "choices": []},
            {"type": "ping"},
            {"choices": [], "prompt_filter_results": []},
            [1],
            "[DONE]",
        )
    )
    assert [c.position for c in x.errors] == [1, 2, 3]
    assert [c.position for c in x.chunks] == [0, 4]
    assert [c.position for c in x.answer_chunks] == [0, 4]
    assert len(x.payloads) == 9 and len(x.done) == 1


@settings(max_examples=250, deadline=None)
@given(st.lists(JSON, max_size=3), st.lists(JSON, max_size=4))
def test_no_json_makes_it_raise(whole: list[Any], inner: list[Any]) -> None:
    """Protects the run from any JSON at any place of a chunk."""
    members = ["content", "role", "refusal", "tool_calls", "reasoning"]
    values = [*whole, *(chunk(v) for v in inner), *(chunk(part(v, v, v), usage=v) for v in inner)]
    values += [chunk(part({name: v})) for name, v in itertools.product(members, inner)]
    values += [chunk(part({"tool_calls": [v, {"index": v, "id": v, "type": v, "function": v}]})) for v in inner]
    values += [chunk(part({"tool_calls": [{"index": 0, "function": {"name": v, "arguments": v}}]})) for v in inner]
    x = Exchange(stream_of(*values))
    found = x.assembled
    assert sum(len(c.parts) for c in found.choices) == len(found.parts)
    assert len([p.carries for p in found.parts]) == len(found.parts)
    assert x.usage is None or isinstance(x.usage, dict)


@settings(max_examples=150, deadline=None)
@given(JSON, JSON)
def test_no_plain_json_makes_it_raise(value: Any, inner: Any) -> None:
    """Protects the same of plain answers: `Inconclusive` is the only way out."""
    from wireproof.verdict import Inconclusive

    message = {"content": inner, "refusal": inner, "tool_calls": inner}
    for body in (value, {"choices": inner}, {"choices": [inner]}, {"choices": [{"message": message}], "usage": inner}):
        x = Exchange(plain_of(body))
        assert x.usage is None or isinstance(x.usage, dict)
        try:
            assert len(x.outcomes) >= 1
        except Inconclusive as reason:
            assert "completion" in str(reason) or "choices" in str(reason) or "JSON object" in str(reason)


# -- tool calls ----------------------------------------------------------------------


def fragment(index: Any = 0, arguments: Any = None, name: Any = None, **more: Any) -> dict[str, Any]:
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    return {"index": index, "function": function, **more}


ARGUMENTS = json.dumps({"city": "Z\u00fcrich \U0001f600", "n": [1, {"a": '"'}]}, ensure_ascii=False)


def test_arguments_cut_anywhere_are_the_same_call() -> None:
    """Protects the joining: no repair, no trimming, no JSON parsing of pieces."""
    first = fragment(0, "", "f", id="call_1", type="function")
    whole = calls([{**first, "function": {"name": "f", "arguments": ARGUMENTS}}])[0]
    for a, b in itertools.combinations(range(len(ARGUMENTS) + 1), 2):
        (found,) = calls([first], *([fragment(0, p)] for p in (ARGUMENTS[:a], ARGUMENTS[a:b], ARGUMENTS[b:])))
        assert (found.id, found.type, found.name, found.arguments) == ("call_1", "function", "f", whole.arguments)
        assert found.oddities == () and found.fragments == 4


def test_parallel_calls_in_any_order() -> None:
    """Protects calls told apart by index: sequential, interleaved, and in one delta."""
    start = [fragment(i, "", f"f{i}", id=f"c{i}") for i in range(2)]
    rest = [[fragment(i, p) for p in pieces] for i, pieces in enumerate((["a", "b"], ["x", "y"]))]
    orders = (
        [[start[0]], [rest[0][0]], [rest[0][1]], [start[1]], [rest[1][0]], [rest[1][1]]],
        [[start[0]], [start[1]], [rest[0][0]], [rest[1][0]], [rest[0][1]], [rest[1][1]]],
        [[start[0], start[1]], [rest[0][0], rest[1][0]], [rest[1][1], rest[0][1]]],
    )
    for deltas in orders:
        assert [(c.index, c.id, c.name, c.arguments, c.oddities) for c in calls(*deltas)] == [
            (0, "c0", "f0", "ab", ()),
            (1, "c1", "f1", "xy", ()),
        ]


@pytest.mark.parametrize("index", [None, "0", True, 0.0])
def test_a_missing_index_is_remembered_and_the_call_kept(index: Any) -> None:
    """Protects what a patient client reads: a new id starts a call, no id goes on with the last."""
    deltas = ([fragment(index, "{", "f", id="a")], [fragment(index, "}")], [fragment(index, "[]", "g", id="b")])
    assert [(c.index, c.id, c.name, c.arguments) for c in calls(*deltas)] == [
        (None, "a", "f", "{}"),
        (None, "b", "g", "[]"),
    ]
    assert oddities(*deltas) == [(Oddity.NO_INDEX, n) for n in (0, 1, 2)]


def test_one_index_for_two_calls_shows_as_a_changed_id() -> None:
    """Protects the finding: clients glue the arguments of both together."""
    (call,) = calls([fragment(0, "{}", "f", id="a")], [fragment(0, "{}", "g", id="b")])
    assert (call.name, call.arguments) == ("fg", "{}{}")
    assert call.oddities == ((Oddity.ID_CHANGED, 1), (Oddity.NAME_REPEATED, 1))


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        (([fragment(0, "", "f", id="a")], [fragment(0, "{}", id="a")]), [(Oddity.ID_REPEATED, 1)]),
        (([fragment(0, "", "f", id="a")], [fragment(0, "{}", "f")]), [(Oddity.NAME_REPEATED, 1)]),
        (([fragment(0, "", "f", id="a")], [fragment(0, "{}", "", id="")]), []),
        (([fragment(1, "{}", "f", id="a")],), [(Oddity.INDEX_GAP, 0)]),
        (([fragment(0, {"a": 1}, "f", id="a")],), [(Oddity.ARGUMENTS_TYPE, 0)]),
        (([{"index": 0, "id": "a"}],), [(Oddity.NO_FUNCTION, 0)]),
        (([{"index": 0, "id": "a", "function": None}],), [(Oddity.NO_FUNCTION, 0)]),
        ((None, []), []),
    ],
)
def test_what_is_odd_is_remembered_with_its_part(deltas: tuple[Any, ...], expected: list[tuple[Oddity, int]]) -> None:
    """Protects the rules about fragments: each oddity by its name and at its place."""
    assert oddities(*deltas) == expected


def test_what_is_no_fragment_is_remembered_on_the_assembler() -> None:
    """Protects oddities that belong to no call."""
    assembler = ToolCallAssembler()
    assembler.feed({"index": 0}, 3)
    assembler.feed(["x"], 4)
    assert assembler.oddities == [(Oddity.NOT_A_LIST, 3), (Oddity.NOT_AN_OBJECT, 4)] and assembler.calls() == ()


def test_a_repeated_name_is_not_doubled() -> None:
    """Protects the name of a call from servers that send it in each fragment."""
    assert calls([fragment(0, "", "f", id="a")], [fragment(0, "", "f")])[0].name == "f"
