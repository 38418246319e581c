"""Chunks put together to a message, and tool calls to their arguments, whatever shape they come in."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wireproof.read.chat import Chat
from wireproof.wire.chat import Assembled
from wireproof.wire.tools import AssembledCall, ToolCallAssembler

from .making import plain_of, stream_of
from .test_strictjson import JSON


def chunk(*choices: Any, **more: Any) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", "id": "c", "choices": list(choices), **more}


def part(delta: Any, index: Any = 0, finish: Any = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": finish}


def put_together(*values: Any) -> Assembled:
    return Chat(stream_of(*values)).assembled


def calls(*deltas: Any) -> tuple[AssembledCall, ...]:
    assembler = ToolCallAssembler()
    for fragments in deltas:
        assembler.feed(fragments)
    return assembler.calls()


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
    assert Chat(stream_of(chunk(usage={"a": 1}), chunk(usage=[]))).usage == {"a": 1}


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
    x = Chat(
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
    x = Chat(stream_of(*values))
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
        x = Chat(plain_of(body))
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
        assert found.fragments == 4


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
        assert [(c.index, c.id, c.name, c.arguments) for c in calls(*deltas)] == [
            (0, "c0", "f0", "ab"),
            (1, "c1", "f1", "xy"),
        ]


@given(st.lists(st.text(max_size=12), min_size=1, max_size=4), st.lists(st.integers(1, 3)), st.lists(st.integers(1, 4)))
def test_no_grouping_of_the_stream_changes_a_call(texts: list[str], cuts: list[int], groups: list[int]) -> None:
    """Protects split invariance: the same calls, however their arguments and their deltas are cut."""
    whole = [fragment(i, text, f"f{i}", id=f"c{i}", type="function") for i, text in enumerate(texts)]
    small: list[dict[str, Any]] = []
    sizes = itertools.cycle(cuts or [1])
    for i, text in enumerate(texts):
        small.append(fragment(i, "", f"f{i}", id=f"c{i}", type="function"))
        while text:
            size = next(sizes)
            small.append(fragment(i, text[:size]))
            text = text[size:]
    deltas, counts = [], itertools.cycle(groups or [1])
    while small:
        count = next(counts)
        deltas.append(small[:count])
        small = small[count:]
    named = [(c.index, c.id, c.type, c.name, c.arguments) for c in calls(*deltas)]
    assert named == [(c.index, c.id, c.type, c.name, c.arguments) for c in calls(whole)]


@pytest.mark.parametrize("index", [None, "0", True, 0.0])
def test_the_call_is_kept_without_an_index(index: Any) -> None:
    """Protects what a patient client reads: a new id starts a call, no id goes on with the last."""
    deltas = ([fragment(index, "{", "f", id="a")], [fragment(index, "}")], [fragment(index, "[]", "g", id="b")])
    assert [(c.index, c.id, c.name, c.arguments) for c in calls(*deltas)] == [
        (None, "a", "f", "{}"),
        (None, "b", "g", "[]"),
    ]


def test_one_index_for_two_calls_is_one_call() -> None:
    """Protects what clients see of it: the arguments of both, glued together. The name is the first one's."""
    (call,) = calls([fragment(0, "{}", "f", id="a")], [fragment(0, "{}", "g", id="b")])
    assert (call.id, call.name, call.arguments) == ("a", "f", "{}{}")


def test_an_object_outside_a_list_is_a_fragment() -> None:
    """Protects the call of a server that forgot the array: one rule says so, the others see the call."""
    (call,) = calls(fragment(0, "{", "f", id="a"), fragment(0, "}"))
    assert (call.name, call.arguments) == ("f", "{}")


@pytest.mark.parametrize("junk", [None, 7, "x", ["x"], [None], [[]]])
def test_what_is_no_fragment_is_no_call(junk: Any) -> None:
    """Protects against calls made of nothing."""
    assert calls(junk) == ()


@pytest.mark.parametrize("function", [None, 7, [], {"name": 7, "arguments": {"a": 1}}])
def test_what_is_no_text_adds_nothing(function: Any) -> None:
    """Protects names and arguments from anything but strings."""
    (call,) = calls([{"index": 0, "id": "a", "function": function}], [fragment(0, "{}", "f")])
    assert (call.id, call.name, call.arguments, call.fragments) == ("a", "f", "{}", 2)


def test_a_repeated_name_is_not_doubled() -> None:
    """Protects the name of a call from servers that send it in each fragment."""
    assert calls([fragment(0, "", "f", id="a")], [fragment(0, "", "f")])[0].name == "f"
