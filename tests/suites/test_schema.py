"""The rules for structured output, on answers written by hand: what JSON is, and what is in the way of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.verdict import Status

from .wire import broken, chunk, completion, explain, plain, stream, text, usage, usage_chunk, verdict

AREAS = ("schema",)
LEVEL: dict[str, Any] = {
    "type": "object",
    "properties": {"level": {"type": "string", "enum": ["low", "high"]}},
    "required": ["level"],
    "additionalProperties": False,
}
GOOD = '{"level": "low"}'


def asked(schema: Any = LEVEL, strict: Any = True, **more: Any) -> dict[str, Any]:
    """Members of a request with a schema."""
    named = {"name": "level", "strict": strict, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": named}, **more}


def said(content: Any, finish: str = "stop", tokens: int = 5, **more: Any) -> Exchange:
    """A plain answer under the schema."""
    request = asked(more.pop("schema", LEVEL), more.pop("strict", True), **more)
    message = {"role": "assistant", "content": content, "refusal": None}
    return plain(completion(message, finish, usage=usage(7, tokens)), request)


def streamed(*pieces: str, finish: str = "stop", tokens: int = 5, **more: Any) -> Exchange:
    """The same, streamed, with usage."""
    request = asked(**more) | {"stream_options": {"include_usage": True}}
    return stream(*text(*pieces, finish=finish), usage_chunk(7, tokens), request=request)


def in_object(content: Any, finish: str = "stop", streams: bool = False) -> Exchange:
    """An answer under json_object."""
    request = {"response_format": {"type": "json_object"}}
    if streams:
        return stream(*text(content, finish=finish), request=request)
    return plain(completion(content, finish), request)


RIGHT = [
    GOOD,
    '{"level":"low"}',
    '{\n  "level": "high"\n}\n',
    '\t {"level"\r\n:"low" } ',
    '{"level": "\\u006c\\u006f\\u0077"}',
    '{"level":' + " " * 64 + '"low"}',
]


@pytest.mark.parametrize("content", RIGHT)
def test_right_answers_break_nothing(content: str) -> None:
    """Protects every legal layout: white space, escapes, and any split."""
    pieces = [content[i : i + 3] for i in range(0, len(content), 3)]
    assert broken(said(content), streamed(*pieces), areas=AREAS) == set()
    assert broken(in_object(content), in_object(content, streams=True), areas=AREAS) == set()
    for rule in ("schema.strict.valid", "schema.strict.not-silently-ignored", "schema.content.json-only"):
        assert verdict(rule, said(content)) is Status.PASS
    assert verdict("schema.stream.same-guarantee", streamed(*pieces)) is Status.PASS
    assert verdict("schema.object.is-object", in_object(content)) is Status.PASS


AROUND = [
    f"```json\n{GOOD}\n```",
    f"```\n{GOOD}",
    f"<think>Hm.</think>{GOOD}",
    f"{GOOD}\n\nI hope this helps!",
    f"Here it is: {GOOD}",
    f"analysis We need a level.assistantfinal{GOOD}",
    f"{GOOD}{GOOD}",
]


@pytest.mark.parametrize("content", AROUND)
def test_text_around_the_json(content: str) -> None:
    """B2-176, and fences."""
    assert broken(said(content), areas=AREAS) == {"schema.content.json-only"}
    assert broken(streamed(content), areas=AREAS) == {"schema.stream.same-guarantee"}
    assert broken(in_object(content), areas=AREAS) == {"schema.content.json-only"}


@pytest.mark.parametrize(
    "content", ["Why did the cat cross the road?", "low", "{} is what I would say", "[see below]: x"]
)
def test_prose(content: str) -> None:
    """B2-150, B2-151, B2-162: the format is ignored."""
    wanted = {"schema.strict.valid"} if content.startswith("[") else {"schema.strict.not-silently-ignored"}
    wanted = {"schema.content.json-only"} if content.startswith("{}") else wanted
    assert broken(said(content), areas=AREAS) == wanted
    assert broken(streamed(content), areas=AREAS) == {"schema.stream.same-guarantee"}


@pytest.mark.parametrize("content", ["Why did the cat", "the cat", "12 cats", "[see"])
def test_prose_that_is_cut(content: str) -> None:
    """Protects from models that never come to an end."""
    assert broken(said(content, "length", 24), areas=AREAS) == {"schema.strict.not-silently-ignored"}
    assert broken(in_object(content, "length"), areas=AREAS) == {"schema.object.is-object"}


@pytest.mark.parametrize("content", ["```", "<think>\nOk"])
def test_a_fence_that_is_cut(content: str) -> None:
    """Seen in llama.cpp b11434: the fence is taken off whole answers only."""
    assert broken(said(content, "length", 24), areas=AREAS) == {"schema.content.json-only"}


@pytest.mark.parametrize(
    "content", ['{"level": "low"', '{"level": "l\now"}', '{"level": NaN}', "{'level': 'low'}", "{level: low}"]
)
def test_broken_json(content: str) -> None:
    """B2-167, B2-171, and raw control characters (vLLM 0.8.5)."""
    assert broken(said(content), areas=AREAS) == {"schema.strict.valid"}
    assert broken(streamed(content), areas=AREAS) == {"schema.stream.same-guarantee"}
    assert broken(in_object(content), areas=AREAS) == {"schema.object.is-object"}


@pytest.mark.parametrize("content", ['{"level": "medium"}', '{"level": 1}', "[]", '"low"', "null"])
def test_other_values(content: str) -> None:
    assert broken(said(content), areas=AREAS) == {"schema.strict.valid"}
    assert broken(streamed(content), areas=AREAS) == {"schema.stream.same-guarantee"}
    assert "enum" in explain("schema.strict.valid", said('{"level": "medium"}'))


@pytest.mark.parametrize("content", ["[]", '"low"', "3", "null"])
def test_object_that_is_none(content: str) -> None:
    assert broken(in_object(content), areas=AREAS) == {"schema.object.is-object"}
    assert broken(in_object('{"any": [1]}'), areas=AREAS) == set()


def test_keys_are_another_rules_matter() -> None:
    assert broken(said('{"severity": "low"}'), areas=AREAS) == {"schema.keys.exact"}


@pytest.mark.parametrize("strict", [False, None, "yes"])
def test_what_is_not_strict_is_best_effort(strict: Any) -> None:
    """Ambiguous 42."""
    wrong = said("Low, I would say.", strict=strict)
    assert broken(wrong, areas=AREAS) <= {"schema.spec.invalid-refused"}  # strict that is text


def test_cut() -> None:
    assert broken(said('{"lev', "length", 24), streamed('{"le', finish="length"), areas=AREAS) == set()
    for content in ('{"lev', '{"level": "low"', ""):
        at_limit = said(content, "stop", 24)
        assert broken(at_limit, areas=AREAS) == {"schema.cut.is-length"}
        assert broken(streamed(content or '{"', tokens=24), areas=AREAS) == {"schema.cut.is-length"}
    assert broken(said('{"level": "l"}', "length", 24), areas=AREAS) == {"schema.cut.is-length"}
    assert broken(said(GOOD, "length", 24), areas=AREAS) == set()  # whole by chance
    assert verdict("schema.cut.is-length", said(GOOD)) is Status.INCONCLUSIVE


def test_a_stop_string_may_cut_anywhere() -> None:
    assert broken(said('{"lev', stop=["el"]), areas=AREAS) == set()
    begun = [{"role": "user", "content": "A level?"}, {"role": "assistant", "content": '{"level": '}]
    assert broken(said('"low"}', messages=begun), areas=AREAS) == set()


def test_calls_refusals_and_thoughts_are_no_text() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": "I will look.", "refusal": None, "tool_calls": [call]}
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert broken(plain(completion(message, "tool_calls"), asked(tools=tools)), areas=AREAS) == set()
    refused = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
    x = plain(completion(refused), asked())
    assert broken(x, areas=AREAS) == set() and verdict("schema.refusal.content-null", x) is Status.PASS
    both = plain(completion({**refused, "content": "I cannot help with that."}), asked())
    assert broken(both, areas=AREAS) == {"schema.refusal.content-null"}
    thought = {"role": "assistant", "content": "", "refusal": None, "reasoning_content": "Hm."}
    assert broken(plain(completion(thought), asked()), areas=AREAS) == set()


def test_refusal_in_a_stream() -> None:
    for content in (None, GOOD):
        parts = [chunk({"role": "assistant", "content": content}), chunk({"refusal": "No."}), chunk({}, finish="stop")]
        wanted = {"schema.refusal.content-null"} if content else set()
        assert broken(stream(*parts, request=asked()), areas=AREAS) == wanted


def choices(*contents: Any) -> dict[str, Any]:
    body = completion(GOOD)
    body["choices"] = [
        {**body["choices"][0], "index": i, "message": {"role": "assistant", "content": c}}
        for i, c in enumerate(contents)
    ]
    return body


def test_every_choice() -> None:
    good = plain(choices(GOOD, GOOD, GOOD), asked(n=3))
    assert broken(good, areas=AREAS) == set() and verdict("schema.n.every-choice", good) is Status.PASS
    for wrong in ("The cat.", '{"level": "x"}', f"```{GOOD}```", '{"level"'):
        assert broken(plain(choices(GOOD, wrong, GOOD), asked(n=3)), areas=AREAS) == {"schema.n.every-choice"}


UMLAUT = {**LEVEL, "properties": {"level": {"type": "string", "enum": ["Sjöfart 😀"]}}}


@pytest.mark.parametrize("value", ["Sjofart 😀", "Sj\\uf6fart 😀", "SjÃ¶fart 😀", "Sjöfart ??"])
def test_letters(value: str) -> None:
    """B2-168."""
    content = json.dumps({"level": value}, ensure_ascii=False)
    assert broken(said(content, schema=UMLAUT), areas=AREAS) == {"schema.unicode.exact"}
    assert broken(streamed(content, schema=UMLAUT), areas=AREAS) == {"schema.unicode.exact"}


@pytest.mark.parametrize("ascii_only", [True, False])
def test_right_letters(ascii_only: bool) -> None:
    content = json.dumps({"level": "Sjöfart 😀"}, ensure_ascii=ascii_only)
    x = said(content, schema=UMLAUT)
    assert broken(x, areas=AREAS) == set() and verdict("schema.unicode.exact", x) is Status.PASS


ORDER = {
    "type": "object",
    "properties": {
        "why": {"type": "array", "items": {**LEVEL, "properties": {"z": {}, "a": {}}, "required": ["z", "a"]}},
        "level": {"type": "string"},
    },
    "required": ["why", "level"],
    "additionalProperties": False,
}


def test_order() -> None:
    """B2-169."""
    rule = "schema.keys.in-order"
    good = '{"why": [{"z": 1, "a": 2}], "level": "low"}'
    assert verdict(rule, said(good, schema=ORDER)) is Status.PASS
    for wrong in ('{"level": "low", "why": []}', '{"why": [{"a": 1, "z": 2}], "level": "low"}'):
        assert broken(said(wrong, schema=ORDER), areas=AREAS) == {rule}
    assert "why, level" in explain(rule, said('{"level": "low", "why": []}', schema=ORDER))


def test_blanks_and_no_end() -> None:
    """B2-166."""
    blanks = said("{" + "\n \n" * 30, "length", 400, max_tokens=400)
    assert broken(blanks, areas=AREAS) == {"schema.whitespace.bounded"}
    endless = said('{"level": "' + "low" * 100, "length", 400, max_tokens=400)
    assert broken(endless, areas=AREAS) == {"schema.output.terminates"}
    assert broken(said('{"level": "' + "low" * 100, "length", 24), areas=AREAS) == set()
    free = {**LEVEL, "properties": {"level": {"type": "string"}}}
    long = said('{"level": "' + "low " * 100, "length", 400, schema=free, max_tokens=400)
    assert broken(long, areas=AREAS) == set()
    inside = said(json.dumps({"level": " " * 300}), schema=free)
    assert broken(inside, areas=AREAS) == set()


ODD = [None, 7, True, [], {}, [None], {"a": 1}, "", "{", '"', "\\", "nul", 1.5]


@pytest.mark.parametrize("value", ODD)
def test_odd_values_break_no_check(value: Any) -> None:
    """Protects the checks: whatever type stands anywhere, none of them raises."""
    for member in ("content", "refusal", "tool_calls"):
        message = {"role": "assistant", "content": GOOD, "refusal": None, member: value}
        broken(plain(completion(message), asked()), stream(chunk(message), chunk({}, finish="stop"), request=asked()))
    for form in (value, {"type": value}, {"type": "json_schema", "json_schema": value}):
        broken(plain(completion(GOOD), {"response_format": form}))
    for inner in ({"schema": value}, {"name": value, "strict": True, "schema": value}, {"strict": value}):
        form = {"type": "json_schema", "json_schema": inner}
        broken(
            plain(completion(GOOD), {"response_format": form}), stream(*text(GOOD), request={"response_format": form})
        )
    schema = {**LEVEL, "properties": value, "required": value, "$defs": value, "enum": value}
    broken(said(GOOD, schema=schema), streamed(GOOD, schema=schema))
    broken(plain(completion(GOOD, usage=value), asked(max_tokens=value, n=value, stop=value)))
