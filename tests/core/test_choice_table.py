"""The tool-choice table: what an answer came to, beside what its request asked for."""

from __future__ import annotations

from typing import Any

import pytest

from wireproof.read.chat import Chat
from wireproof.scenarios import catalog
from wireproof.tables.all import tables
from wireproof.tables.keywords_and_choice import CHOICE_TABLE, choice_outcome
from wireproof.tables.table import Effect, as_json, from_json

from .making import plain_of, stream_of

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("get_weather", "get_time")]
NAMED = {"type": "function", "function": {"name": "get_time"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}
ALLOWED_REQUIRED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}


def answer(*names: str, choice: Any = None, finish: Any = "tool_calls", **more: Any) -> Chat:
    """A plain answer with calls of these names, or with text."""
    calls = [
        {"id": f"c{i}", "type": "function", "function": {"name": n, "arguments": "{}"}} for i, n in enumerate(names)
    ]
    message = {"role": "assistant", "content": None if names else "Hello."} | ({"tool_calls": calls} if names else {})
    body = {
        "choices": [{"index": 0, "message": message, "finish_reason": finish if names else more.pop("end", "stop")}]
    }
    asked = {"tools": TOOLS, "messages": []} | ({} if choice is None else {"tool_choice": choice})
    return Chat(plain_of(body, asked=asked, **more))


@pytest.mark.parametrize(
    ("choice", "names", "outcome"),
    [
        (None, ("get_weather",), Effect.HELD),
        (None, (), Effect.HELD),
        ("auto", ("get_time",), Effect.HELD),
        ("auto", ("no_such",), Effect.IGNORED),
        ("none", (), Effect.HELD),
        ("none", ("get_time",), Effect.IGNORED),
        ("required", ("get_time",), Effect.HELD),
        ("required", (), Effect.IGNORED),
        (NAMED, ("get_time",), Effect.HELD),
        (NAMED, ("get_weather",), Effect.IGNORED),
        (NAMED, ("get_time", "get_weather"), Effect.IGNORED),
        (NAMED, (), Effect.IGNORED),
        (ALLOWED, ("get_time",), Effect.HELD),
        (ALLOWED, ("get_weather",), Effect.IGNORED),
        (ALLOWED, (), Effect.HELD),
        (ALLOWED_REQUIRED, (), Effect.IGNORED),
    ],
)
def test_what_an_answer_came_to(choice: Any, names: tuple[str, ...], outcome: Effect) -> None:
    assert choice_outcome(answer(*names, choice=choice))[0] is outcome


def test_cut_before_a_call_is_unclear_and_a_call_is_none_the_less() -> None:
    assert choice_outcome(answer(choice="required", end="length"))[0] is Effect.UNCLEAR
    assert choice_outcome(answer("get_time", choice="required", finish="length"))[0] is Effect.HELD


def test_refusals() -> None:
    """A flat envelope says no as well; a 500 and a bare text say nothing."""
    for body in ({"error": {"message": "no"}}, {"object": "error", "message": "no"}):
        assert choice_outcome(Chat(plain_of(body, status=400)))[0] is Effect.REFUSED
    assert choice_outcome(Chat(plain_of({"error": {"message": "no"}}, status=500)))[0] is Effect.UNCLEAR
    assert choice_outcome(Chat(plain_of("no", status=400)))[0] is Effect.UNCLEAR


def test_what_cannot_be_met_is_ignored_when_it_is_answered() -> None:
    x = answer(choice={"type": "function", "function": {"name": "no_such"}}, tags={"valid": "no"})
    assert choice_outcome(x)[0] is Effect.IGNORED


@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, [7], {"function": 7}, [{"function": {"name": []}}]])
def test_junk_is_no_exception(junk: Any) -> None:
    choice = {
        "index": 0,
        "message": {"content": junk, "tool_calls": junk, "function_call": junk},
        "finish_reason": junk,
    }
    for asked in ({"tools": TOOLS, "tool_choice": junk}, {"functions": [{"name": "f"}], "function_call": junk}):
        assert choice_outcome(Chat(plain_of({"choices": [choice]}, asked=asked)))[0] in Effect
        chunk = {"choices": [{"index": 0, "delta": {"tool_calls": junk, "function_call": junk}, "finish_reason": junk}]}
        assert choice_outcome(Chat(stream_of(chunk, asked=asked)))[0] in Effect


FUNCTIONS: dict[str, Any] = {"functions": [{"name": "f"}], "function_call": {"name": "f"}}


def test_deprecated_functions() -> None:
    def plain(message: dict[str, Any], asked: dict[str, Any]) -> tuple[Effect, str]:
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return choice_outcome(Chat(plain_of({"choices": [choice]}, asked=asked)))

    call = {"content": None, "function_call": {"name": "f", "arguments": "{}"}}
    assert plain(call, FUNCTIONS) == (Effect.HELD, "f · stop")
    assert plain({"content": "Hello."}, FUNCTIONS)[0] is Effect.IGNORED
    assert plain(call, FUNCTIONS | {"function_call": "none"})[0] is Effect.IGNORED
    assert plain(call, FUNCTIONS | {"function_call": "auto"})[0] is Effect.HELD
    parts = [{"name": "f", "arguments": ""}, {"arguments": "{"}, {"arguments": "}"}]
    chunks = [{"choices": [{"index": 0, "delta": {"function_call": p}, "finish_reason": None}]} for p in parts]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    assert choice_outcome(Chat(stream_of(*chunks, end, asked=FUNCTIONS)))[0] is Effect.HELD


def test_the_table_of_a_recording() -> None:
    """Rows keep the order of the recording; plain and stream stand side by side; counts add up."""
    tags = {"table": CHOICE_TABLE, "row": "required"}
    held = answer("get_time", choice="required", tags={**tags, "column": "plain"}, id="t1")
    lost = answer(choice="required", tags={**tags, "column": "stream"}, id="t2")
    other = answer("get_time", choice="none", tags={**tags, "row": "none", "column": "plain"}, id="t3")
    (table,) = tables([held, lost, other, answer("get_time")])
    assert [row.name for row in table.rows] == ["required", "none"]
    assert table.rows[0].cells["plain"].outcome is Effect.HELD
    assert (table.rows[0].cells["stream"].outcome, table.rows[0].cells["stream"].transcript) == (Effect.IGNORED, "t2")
    assert table.counts() == {"held": 1, "refused": 0, "ignored": 2, "unclear": 0}
    assert from_json(as_json(table)) == table


def test_the_rows_of_our_scenarios() -> None:
    """Each row has a plain column; what is asked for differs from row to row."""
    rows: dict[str, set[str]] = {}
    for s in catalog.load().values():
        if s.table == CHOICE_TABLE:
            assert s.column in ("plain", "stream") and s.row
            assert s.column not in rows.get(s.row, set()), f"{s.name}: this cell is taken"
            rows.setdefault(s.row, set()).add(s.column)
    assert len(rows) >= 12
    assert all("plain" in columns for columns in rows.values())
