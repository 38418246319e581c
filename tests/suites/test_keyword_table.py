"""The keyword table over exchanges written by hand, and through a run record."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wireproof.read.chat import Chat
from wireproof.read.endpoints import exchange_of
from wireproof.read.exchange import Exchange
from wireproof.scenarios import keywords
from wireproof.stored.run_record import Writer, read
from wireproof.tables.all import tables
from wireproof.tables.keywords_and_choice import keyword_outcome
from wireproof.tables.table import Effect, as_json, from_json

from .wire import chat, completion, plain, stream, text

HEADER: dict[str, Any] = {
    "tool": "0.1.0",
    "rules": "sha256:" + "0" * 64,
    "started": "2026-11-29T12:00:00Z",
    "target": {"url": "http://127.0.0.1:8000/v1"},
    "engine": {"name": "vllm", "version": "0.12.0"},
    "model": {"id": "m"},
    "selection": {"mode": "live", "level": "must", "suites": []},
}
ERROR = {"error": {"message": "no minItems here", "type": "invalid_request_error", "param": None, "code": None}}


def asked(case: str, how: str = "plain") -> dict[str, Any]:
    """Request, scenario and tags of a case, as arguments of a wire."""
    name = f"keyword-{case}" + ("" if how == "plain" else f"-{how}")
    found = next(s for s in keywords.scenarios() if s.name == name)
    return {"request": dict(found.body or {}), "scenario": name, "tags": found.tags}


def said(case: str, value: Any, finish: str = "stop") -> Chat:
    content = value if isinstance(value, str) else json.dumps(value)
    return chat(plain(completion(content, finish), **asked(case)))


def called(case: str, arguments: Any, name: str = "answer", finish: str = "stop") -> Exchange:
    calls = [{"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return plain(completion(message, finish), **asked(case, "tool"))


FOUR = [True] * 4


@pytest.mark.parametrize(
    ("x", "outcome", "words"),
    [
        (said("min-items", {"value": FOUR}), Effect.HELD, "true, true"),
        (said("min-items", {"value": [True]}), Effect.IGNORED, "minItems"),
        (said("min-items", {"value": FOUR, "more": 1}), Effect.IGNORED, "additionalProperties"),
        (said("min-items", "[true]"), Effect.IGNORED, "type"),
        (said("min-items", "four of them"), Effect.IGNORED, "no JSON"),
        (said("min-items", ""), Effect.IGNORED, "no JSON"),
        (said("min-items", '{"value": [tr', "length"), Effect.UNCLEAR, "cut by max_tokens"),
        (plain(ERROR, status=400, **asked("min-items")), Effect.REFUSED, "no minItems here"),
        (plain(ERROR, status=422, **asked("min-items")), Effect.REFUSED, "422"),
        (plain({"detail": "no"}, status=400, **asked("min-items")), Effect.UNCLEAR, "400"),
        (plain(ERROR, status=500, **asked("min-items")), Effect.UNCLEAR, "500"),
        (plain(ERROR, **asked("min-items")), Effect.UNCLEAR, "not a completion"),
        (plain(b"[]", **asked("min-items")), Effect.UNCLEAR, "not a JSON object"),
        (plain(completion({"content": None}), **asked("min-items")), Effect.UNCLEAR, "content is None"),
        (called("min-items", json.dumps({"value": FOUR})), Effect.HELD, "true"),
        (called("min-items", json.dumps({"value": []})), Effect.IGNORED, "minItems"),
        (called("min-items", "{"), Effect.IGNORED, "no JSON"),
        (called("min-items", {"value": FOUR}), Effect.UNCLEAR, "no arguments"),
        (called("min-items", "{}", name="other"), Effect.UNCLEAR, "another name"),
        (called("min-items", "{}", name=["answer"]), Effect.UNCLEAR, "another name"),  # type: ignore[arg-type]
        (called("min-items", '{"va', finish="length"), Effect.UNCLEAR, "cut"),
        (plain(completion("I will not."), **asked("min-items", "tool")), Effect.UNCLEAR, "no tool call"),
        (stream(*text('{"value": [true', "]}"), **asked("min-items", "stream")), Effect.IGNORED, "minItems"),
        (stream(*text(json.dumps({"value": FOUR})), **asked("min-items", "stream")), Effect.HELD, "true"),
        (stream(*text("{")[:-1], ERROR, **asked("min-items", "stream")), Effect.UNCLEAR, "error event"),
        (stream(raw=b"", **asked("min-items", "stream")), Effect.UNCLEAR, ""),
    ],
)
def test_outcomes(x: Exchange, outcome: Effect, words: str) -> None:
    got, why = keyword_outcome(chat(x))
    assert (got, words in why) == (outcome, True), why


def test_every_instance_of_the_fixtures() -> None:
    for case in keywords.load().values():
        for value in case.valid:
            assert keyword_outcome(said(case.id, value))[0] is Effect.HELD
        for value in case.invalid:
            assert keyword_outcome(said(case.id, value))[0] is Effect.IGNORED


def _exchanges() -> list[Exchange]:
    return [
        said("min-items", {"value": [True]}),
        stream(*text(json.dumps({"value": FOUR})), **asked("min-items", "stream")),
        called("min-items", json.dumps({"value": FOUR})),
        said("type-integer", {"value": 7}),
        said("min-items", {"value": FOUR}),  # a second sample: the first one counts
        plain(ERROR, status=400, **asked("not-const")),
        plain(),  # not of the table
        plain(scenario="keyword-gone", tags={"table": "keywords", "row": "gone"}),  # a case of another version
    ]


def test_table() -> None:
    (table,) = tables(_exchanges())
    assert [row.name for row in table.rows] == [
        name for name in keywords.load() if name in ("min-items", "type-integer", "not-const")
    ]
    row = next(r for r in table.rows if r.name == "min-items")
    assert row.labels == ("minItems", "array", "min-items")
    assert {how: cell.outcome.value for how, cell in row.cells.items()} == {
        "plain": "ignored",
        "stream": "held",
        "tool": "held",
    }
    assert row.cells["plain"].transcript == "t-keyword-min-items"
    assert table.counts() == {"held": 3, "refused": 1, "ignored": 1, "unclear": 0}
    assert tables([plain()]) == []


def test_of_several_samples_the_worst_one_is_shown() -> None:
    """Protects --samples: a keyword that is ignored now and then is ignored."""
    made = [said("min-items", value) for value in ({"value": FOUR}, {"value": [True]}, {"value": FOUR})]
    samples = [exchange_of(replace(x.transcript, sample=n, id=f"t{n}")) for n, x in enumerate(made)]
    (found,) = tables(samples)
    (cell,) = found.rows[0].cells.values()
    assert (cell.outcome, cell.transcript) == (Effect.IGNORED, "t1")
    assert cell.text.endswith("(1 of 3 samples)")


def test_through_the_run_record(tmp_path: Path) -> None:
    (table,) = tables(_exchanges())
    assert from_json(json.loads(json.dumps(as_json(table)))) == table
    with Writer(tmp_path / "run.jsonl", HEADER) as writer:
        writer.table(table)
        writer.end({"pass": 1}, {"requests": 1, "prompt_tokens": 2, "completion_tokens": 3, "seconds": 0.5}, 0)
    assert read(tmp_path / "run.jsonl").tables == (table,)
