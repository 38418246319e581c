"""The rules about chunks: right wires pass, each wrong wire fails its rule and no neighbour."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.verdict import Status

from .wire import broken, chunk, completion, envelope, explain, plain, stream, text, usage_chunk, verdict

CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
AZURE = {"choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": []}


def mine(*exchanges: Exchange) -> set[str]:
    return broken(*exchanges, areas=("chunk", "done"))


def edited(**changes: Any) -> Exchange:
    """A right stream whose second chunk has other members ("absent": it lacks them)."""
    pieces = text("hel", "lo")
    pieces[1].update(changes)
    pieces[1] = {k: v for k, v in pieces[1].items() if v != "absent"}
    return stream(*pieces)


def with_choice(position: int = 1, **changes: Any) -> Exchange:
    """A right stream, one of whose choices has other members."""
    pieces = text("hel", "lo")
    choice = pieces[position]["choices"][0]
    choice.update(changes)
    pieces[position]["choices"][0] = {k: v for k, v in choice.items() if v != "absent"}
    return stream(*pieces)


def with_delta(delta: Any, position: int = 1) -> Exchange:
    return with_choice(position, delta=delta)


def lacking(name: str, value: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in value.items() if k != name}


RIGHT = {
    "plain text": stream(*text("hel", "lo")),
    "usage asked": stream(*text("hi"), usage_chunk(), request={"stream_options": {"include_usage": True}}),
    "a call": stream(
        chunk({"role": "assistant", "content": None}), chunk({"tool_calls": [CALL]}), chunk({}, finish="tool_calls")
    ),
    "two choices": stream(*text("a"), *text("b", index=1), request={"n": 2}),
    "content null first": stream(chunk({"role": "assistant", "content": None}), *text("hi")[1:]),
    "unknown members": edited(vendor={"x": 1}, timings=None, error=None),
    "reasoning": stream(text("x")[0], *(chunk({"reasoning_content": t}) for t in ("a", "b")), *text("x")[1:]),
    "empty text": stream(*text("", "hello", "", "")),
    "a heartbeat without choices": stream(text("x")[0], envelope([]), *text("x")[1:]),
    "a ping": stream(text("x")[0], {"type": "ping"}, *text("x")[1:]),
    "role emptied later": with_delta({"role": "", "content": "hel"}),
    "created of the day": stream(*text("hi")),
    "obfuscation": edited(obfuscation="x3"),
    "null members": edited(system_fingerprint=None, service_tier=None, usage=None),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_streams_break_nothing(name: str) -> None:
    assert mine(RIGHT[name]) == set()


ERROR = {"message": "ok", "type": "none", "param": None, "code": None}
REFUSED = {"stream_options": {"include_obfuscation": False}}

WRONG: list[tuple[str, str, Exchange]] = [
    ("B1-017 plural", "chunk.object.literal", edited(object="chat.completions.chunk")),
    ("no object", "chunk.object.literal", edited(object="absent")),
    ("B1-019 another id", "chunk.id.constant", edited(id="chatcmpl-other")),
    ("B1-022 empty id", "chunk.id.constant", stream(*(c | {"id": ""} for c in text("hi")))),
    ("id a number", "chunk.id.constant", stream(*(c | {"id": 7} for c in text("hi")))),
    (
        "B1-021 created moves",
        "chunk.created.does-not-move",
        stream(*(c | {"created": 1764000000 + i} for i, c in enumerate(text("hi")))),
    ),
    ("created jumps", "chunk.created.constant", edited(created=1763990000)),
    ("created a float", "chunk.created.constant", stream(*(c | {"created": 1764000000.5} for c in text("hi")))),
    ("created true", "chunk.created.constant", stream(*(c | {"created": True} for c in text("hi")))),
    ("B1-050 milliseconds", "chunk.created.seconds", stream(*(c | {"created": 1764000000123} for c in text("hi")))),
    ("B1-019 model null", "chunk.model.constant", stream(*(c | {"model": None} for c in text("hi")))),
    ("model changes", "chunk.model.constant", edited(model="m-q4")),
    ("B1-050 usage without choices", "chunk.choices.array", stream(*text("hi"), lacking("choices", usage_chunk()))),
    ("choices null", "chunk.choices.array", stream(*text("hi"), envelope(None))),
    ("a choice that is none", "chunk.choices.array", stream(*text("hi"), envelope(["x"]))),
    ("B1-083 filter results first", "chunk.choices.first-not-empty", stream(AZURE, *text("hi"))),
    ("B1-023 no index", "chunk.index.integer", with_choice(index="absent")),
    ("index null", "chunk.index.integer", with_choice(index=None)),
    ("index true", "chunk.index.integer", with_choice(index=True)),
    ("index a string", "chunk.index.integer", with_choice(index="0")),
    ("B1-048 a message beside", "chunk.choice.no-message", with_choice(message={"content": "hel"})),
    ("error beside choices", "chunk.error.absent", edited(error=ERROR)),
    ("obfuscation refused", "chunk.obfuscation.optional", stream(chunk({}, obfuscation="x"), request=REFUSED)),
    ("obfuscation a number", "chunk.obfuscation.optional", edited(obfuscation=3)),
    ("B1-049 delta null", "chunk.delta.object", with_choice(3, delta=None)),
    ("no delta", "chunk.delta.object", with_choice(3, delta="absent")),
    ("delta a list", "chunk.delta.object", with_delta([])),
    ("B1-023 no finish_reason", "chunk.finish-reason.key-present", with_choice(finish_reason="absent")),
    ("finish_reason empty", "chunk.finish-reason.key-present", with_choice(finish_reason="")),
    ("no role", "chunk.role.first", stream(*text("hel", "lo")[1:])),
    ("role user", "chunk.role.first", with_delta({"role": "user", "content": ""}, 0)),
    ("role later", "chunk.role.first", stream(chunk({"content": ""}), *text("hi"))),
    ("B1-197 role again", "chunk.role.not-repeated", with_delta({"role": "assistant", "content": "hel"})),
    ("text beside the role", "chunk.role.own-event", with_delta({"role": "assistant", "content": "oh, "}, 0)),
    ("content parts", "chunk.content.string", with_delta({"content": [{"type": "text", "text": "hel"}]})),
    ("content a number", "chunk.content.string", with_delta({"content": 5})),
    ("text at the finish", "chunk.finish.empty-delta", with_delta({"content": "!"}, 3)),
    ("text after the finish", "chunk.finish.nothing-after", stream(*text("hi"), chunk({"content": "!"}))),
    ("null role", "chunk.null.only-where-allowed", with_delta({"role": None, "content": "hel"})),
    ("null calls", "chunk.null.only-where-allowed", with_delta({"tool_calls": None, "content": "hel"})),
    ("fingerprint a number", "chunk.schema.openapi", edited(system_fingerprint=4)),
    ("refusal a number", "chunk.schema.openapi", with_delta({"refusal": 4})),
    ("B1-053 logprobs of old", "chunk.schema.openapi", with_choice(logprobs={"tokens": None, "text_offset": None})),
    ("a count that is text", "chunk.schema.openapi", edited(usage={"prompt_tokens": "1"})),
    (
        "B1-045 cumulative",
        "chunk.content.not-cumulative",
        stream(*text("Rome is", "Rome is the", "Rome is the city", "Rome is the city of")),
    ),
]


@pytest.mark.parametrize(("name", "rule", "x"), WRONG, ids=[f"{rule}: {name}" for name, rule, _ in WRONG])
def test_a_wrong_stream_fails_its_rule_and_no_other(name: str, rule: str, x: Exchange) -> None:
    # `obfuscation refused` has one chunk only: it lacks a role and a finish, which is not the point.
    aside = {"chunk.role.first", "done.choices.all-finished"} if name == "obfuscation refused" else set()
    assert mine(x) - aside == {rule}


@pytest.mark.parametrize("entries", [[{"x": 1}], [{"index": "0"}], [{"index": None}]])
def test_a_repeated_list_of_objects_needs_an_index(entries: list[Any]) -> None:
    twice = stream(*text(), *(chunk({"annotations": entries}) for _ in range(2)))
    once = stream(text()[0], chunk({"annotations": entries}), *text()[1:])
    assert verdict("chunk.extension.accumulates", twice) is Status.FAIL
    assert verdict("chunk.extension.accumulates", once) is Status.PASS


@pytest.mark.parametrize(("value", "status"), [(1, "fail"), (True, "fail"), ("a", "pass"), ([1], "pass"), ({}, "pass")])
def test_repeated_extension_values(value: Any, status: str) -> None:
    x = stream(text()[0], *(chunk({"x_state": value, "content": "a"}) for _ in range(2)), text()[-1])
    assert verdict("chunk.extension.scalar-once", x) == status


def test_created_is_judged_against_the_date_only_where_there_is_one() -> None:
    stale = [c | {"created": 1763400000} for c in text("hi")]
    assert verdict("chunk.created.seconds", stream(*stale)) is Status.PASS
    assert verdict("choice.created.near-date", stream(*stale)) is Status.FAIL
    assert verdict("choice.created.near-date", stream(*text("hi"))) is Status.PASS
    for date in (None, "yesterday"):
        found = verdict("choice.created.near-date", stream(*stale, headers={"Date": date}))
        assert found is Status.NOT_APPLICABLE


def test_a_looping_model_is_not_taken_for_cumulative_deltas() -> None:
    assert mine(stream(*text(*["!!!!!!!!!!!!"] * 8))) == set()
    assert mine(stream(*text(*["ha "] * 40))) == set()


def pinned(content: str, *pieces: str, finish: str = "stop") -> tuple[Exchange, Exchange]:
    schema = {"type": "object", "properties": {"text": {"type": "string", "enum": ["alpha beta"]}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "p", "strict": True, "schema": schema}}
    request = {"response_format": wanted}
    return (
        plain(completion(content), request=request, scenario="plain-pinned"),
        stream(*text(*pieces, finish=finish), request=request, scenario="stream-pinned"),
    )


GOOD = json.dumps({"text": "alpha beta"})


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        (('{"text": "al', 'pha beta"}'), Status.PASS),
        (('{"text":"al', 'pha beta"}\n'), Status.PASS),  # whitespace between tokens is the server's own
        (('{"text": "al', ' beta"}'), Status.FAIL),
        (('{"text": "alpha ', "alpha ", 'beta"}'), Status.FAIL),
        (('{"text": "alpha beta"}', '{"text": "alpha beta"}'), Status.FAIL),
        (('{"text": "alpha be',), Status.FAIL),
    ],
)
def test_increments(pieces: tuple[str, ...], status: Status) -> None:
    assert verdict("chunk.content.increments", *pinned(GOOD, *pieces)) is status


def test_increments_are_not_judged_where_the_schema_is_not_kept_or_the_answer_was_cut() -> None:
    assert verdict("chunk.content.increments", *pinned("no JSON", "no JSON")) is Status.INCONCLUSIVE
    assert verdict("chunk.content.increments", *pinned(GOOD, '{"text"', finish="length")) is Status.INCONCLUSIVE


def test_parity() -> None:
    rule = "chunk.parity.with-plain"
    assert verdict(rule, plain(), stream(*text("hel", "lo"))) is Status.PASS
    assert verdict(rule, plain(), stream(*text("hel"))) is Status.FAIL
    torn = completion("caf\ufffd", finish="length")
    assert verdict(rule, plain(torn), stream(*text("caf", finish="length"))) is Status.PASS
    call = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    called = plain(completion(call, finish="tool_calls"))
    # B1-043: the streamed path keeps text only
    assert verdict(rule, called, stream(*text(finish="stop"))) is Status.FAIL
    right = stream(text()[0], chunk({"tool_calls": [CALL]}), chunk({}, finish="tool_calls"))
    assert verdict(rule, called, right) is Status.PASS
    assert verdict(rule, plain(), stream(*text("hel"), request={"temperature": 1})) is Status.INCONCLUSIVE


def test_an_error_event_is_no_chunk_with_an_error() -> None:
    broke = stream(*text("hel")[:2], {"error": ERROR})
    assert mine(broke) == set()
    gateway = stream(*text("hel")[:2], chunk({"content": ""}, finish="error", error=ERROR))
    assert verdict("chunk.error.absent", gateway) is Status.PASS
    assert verdict("chunk.error.absent", stream(*(c | {"error": ERROR} for c in text("hi")))) is Status.FAIL


ODD: list[Any] = [None, True, 0, -1, 1.5, "", "x", [], [None], [[]], {}, {"index": {}}]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_no_check_is_upset_by_any_type_anywhere(odd: Any) -> None:
    """`broken` raises when a check crashes."""
    names = ("id", "object", "created", "model", "choices", "usage", "error", "obfuscation", "system_fingerprint")
    for name in names:
        mine(edited(**{name: odd}), plain())
    for name in ("index", "delta", "finish_reason", "logprobs", "message"):
        mine(with_choice(**{name: odd}), plain())
    for name in ("role", "content", "refusal", "tool_calls", "function_call", "reasoning", "extra"):
        mine(with_delta({name: odd}), with_delta({name: odd}, 0), with_delta({name: odd}, 3), plain())
    mine(stream(json.dumps(odd), *text("hi"), json.dumps(odd)), plain({"choices": odd}))


def test_a_stream_of_nothing_is_not_a_pass() -> None:
    for x in (stream(), stream({"error": ERROR}), stream("no JSON")):
        assert verdict("chunk.id.constant", x) is Status.INCONCLUSIVE
        assert verdict("chunk.role.first", x) is Status.INCONCLUSIVE


def test_a_message_names_what_was_expected_and_what_came() -> None:
    assert explain("chunk.object.literal", edited(object="x")) == 'expected "chat.completion.chunk" as object, got x'
    assert (
        explain("chunk.index.integer", with_choice(index="absent")) == "expected an integer index, got no index member"
    )
