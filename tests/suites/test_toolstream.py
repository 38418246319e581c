"""The rules for streamed tool calls, on streams written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.verdict import Status

from .wire import broken, chunk, completion, explain, plain, stream, usage_chunk, verdict

AREAS = ("toolstream", "parallel")
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": CITY}},
    {"type": "function", "function": {"name": "ping"}},
]
AUTO: dict[str, Any] = {"tools": TOOLS, "max_tokens": 200}
FORCED: dict[str, Any] = {**AUTO, "tool_choice": "required"}
ARGUMENTS = '{"city": "Paris"}'


def first(name: Any = "get_weather", arguments: Any = "", call_id: Any = "call_1", index: Any = 0, **more: Any) -> Any:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": call_id, "type": "function", "function": function, **more}


def later(arguments: Any, index: Any = 0, **more: Any) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": arguments}, **more}


def calling(
    *fragments: Any,
    request: Mapping[str, Any] = AUTO,
    finish: str = "tool_calls",
    before: Sequence[Any] = (),
    after: Sequence[Any] = (),
    **more: Any,
) -> Exchange:
    """A stream with these fragments, one in each chunk; a list is a whole `tool_calls`."""
    deltas = [chunk({"tool_calls": f if isinstance(f, list) else [f]}) for f in fragments]
    role = chunk({"role": "assistant", "content": None})
    return stream(role, *before, *deltas, *after, chunk({}, finish=finish), request=request, **more)


RIGHT = (first(), later('{"city": '), later('"Paris"}'))


def fails(*fragments: Any, **more: Any) -> set[str]:
    return broken(calling(*fragments, **more), areas=AREAS)


@pytest.mark.parametrize("request_", [AUTO, FORCED], ids=["auto", "forced"])
def test_right_streams_break_nothing(request_: dict[str, Any]) -> None:
    assert fails(*RIGHT, request=request_) == set()
    assert fails(first(arguments=ARGUMENTS), request=request_) == set()  # whole in one fragment
    assert fails(first(arguments="{"), *(later(c) for c in ARGUMENTS[1:]), request=request_) == set()
    assert fails(*RIGHT, later(""), request=request_) == set()
    assert fails(*RIGHT, before=[chunk({"content": "Let me see."})], request=request_) == set()


@pytest.mark.parametrize("index", ["absent", None, "0", 0.0, True, -1])
def test_index(index: Any) -> None:
    """B2-032, B2-033."""
    rule = "toolstream.fragment.index-integer"
    fragments = [{**f, "index": index} for f in RIGHT]
    if index == "absent":
        fragments = [{k: v for k, v in f.items() if k != "index"} for f in fragments]
    assert rule in fails(*fragments)
    assert fails(*fragments) <= {rule, "toolstream.index.ascending"}


@pytest.mark.parametrize("entries", [first(), [None], [7], ["x"], 7, "x"])
def test_no_list_of_objects(entries: Any) -> None:
    """B2-072."""
    x = stream(chunk({"role": "assistant"}), chunk({"tool_calls": entries}), chunk({}, finish="stop"), request=AUTO)
    assert broken(x, areas=AREAS) == {"toolstream.fragment.index-integer"}


def test_order_of_indexes() -> None:
    """B2-034, B2-035."""
    rule = "toolstream.index.ascending"
    assert fails(first(index=1), later(ARGUMENTS, 1)) == {rule}
    second = first(arguments=ARGUMENTS, call_id="call_2", index=2)
    assert fails(*RIGHT, second) == {rule}
    assert fails(*RIGHT, {**second, "index": 1}) == set()
    assert explain(rule, calling(first(index=1))) == "expected index 0 for a new call, got 1"


@pytest.mark.parametrize(
    "wrong",
    [
        {k: v for k, v in first().items() if k != "id"},
        first(call_id=""),
        first(call_id=7),
        {k: v for k, v in first().items() if k != "type"},
        first(type=""),
        {**first(), "function": {"arguments": ""}},
        first(name=""),
    ],
)
def test_first_fragment(wrong: Any) -> None:
    """B2-047: what a client needs to open a call."""
    assert fails(wrong, later(ARGUMENTS)) == {"toolstream.first.complete"}


def test_null_in_the_first_fragment() -> None:
    """B2-049; null as id is condemned as null, too."""
    x = calling(first(call_id=None, arguments=None), later(ARGUMENTS))
    assert broken(x, areas=AREAS) == {"toolstream.first.complete", "toolstream.first.arguments-string"}
    assert "chunk.null.only-where-allowed" in broken(x)


def test_arguments_of_the_first_fragment() -> None:
    rule = "toolstream.first.arguments-string"
    assert fails({**first(), "function": {"name": "get_weather"}}, later(ARGUMENTS)) == {rule}
    assert fails(first(arguments=None), later(ARGUMENTS)) == {rule}


def test_what_comes_again() -> None:
    """B2-041, B2-045: ids and names that clients join."""
    assert fails(first(), later(ARGUMENTS, id="call_1")) == {"toolstream.id.once"}
    again = {"index": 0, "function": {"name": "get_weather", "arguments": ARGUMENTS}}
    assert fails(first(), again) == {"toolstream.name.once"}
    pieces = {"index": 0, "function": {"name": "weather", "arguments": ARGUMENTS}}
    assert fails(first(name="get_"), pieces) == {"toolstream.name.whole"}


def test_members_that_add_nothing() -> None:
    """B2-038, B2-039."""
    rule = "toolstream.null.members"
    empty = {"index": 0, "id": "", "type": "function", "function": {"name": "", "arguments": ARGUMENTS}}
    assert fails(first(), empty) == {rule}
    assert fails(first(), {"index": 0, "function": {"name": None, "arguments": ARGUMENTS}}) == {rule}
    assert fails(first(), later(ARGUMENTS), later(None)) == {rule}
    assert fails(first(), later(ARGUMENTS, id=None)) == set()  # chunk.null.only-where-allowed has it


def test_members_in_their_places() -> None:
    """B2-045: an id inside the function."""
    inside = {"index": 0, "type": "function", "function": {"id": "call_1", "name": "get_weather", "arguments": "{}"}}
    assert fails(inside) == {"toolstream.first.complete", "toolstream.fragment.known-members"}
    assert fails(*RIGHT, later("", extra_content={"google": {}})) == set()


@pytest.mark.parametrize("function", ["absent", None, [], "x", 7])
def test_function_object(function: Any) -> None:
    fragment = {"index": 0} if function == "absent" else {"index": 0, "function": function}
    assert fails(*RIGHT, fragment) == {"toolstream.fragment.function-object"}
    assert fails({"index": 0, "id": "c", "type": "custom", "custom": {"name": "x", "input": ""}}) == set()


@pytest.mark.parametrize("arguments", [{"city": "Paris"}, [], 7, True])
def test_arguments_are_text(arguments: Any) -> None:
    assert fails(first(arguments=arguments), request=FORCED) == {"toolstream.arguments.no-object"}


def test_empty_list() -> None:
    """B2-066."""
    x = stream(*[chunk({"role": "assistant"}), chunk({"content": "hi", "tool_calls": []}), chunk({}, finish="stop")])
    assert broken(x, areas=AREAS) == {"toolstream.list.not-empty"}


def test_characters() -> None:
    """B2-028: half an emoji in each of two fragments, as escapes."""
    rule = "toolstream.fragment.unicode"
    assert fails(first(), later('{"city": "\ufffd"}')) == {rule}
    assert fails(first(), later('{"city": "\ufffd"}'), request={**AUTO, "user": "\ufffd"}) == set()
    assert fails(first(), later('{"city": "\\ud83d'), later('\\ude00"}')) == set()  # inside a JSON escape
    raw = (
        b'data: {"id":"a","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,'
        b'"id":"call_1","type":"function","function":{"name":"f","arguments":"\\ud83d"}}]},"finish_reason":null}]}\n\n'
    )
    assert rule in broken(stream(raw, request=AUTO), areas=AREAS)


def test_arguments_that_are_sent_again() -> None:
    rule = "toolstream.arguments.one-json"
    for request in (AUTO, FORCED):
        assert fails(first(), later('{"city": '), later(ARGUMENTS), request=request) == {rule}
        assert fails(first(), later(ARGUMENTS), later(ARGUMENTS), request=request) == {rule}
    assert "repeat what came before" in explain(rule, calling(first(), later('{"city": '), later(ARGUMENTS)))


def test_arguments_that_are_no_json() -> None:
    """B2-055: a free model may write half a text; a server that forces the call may not."""
    lost = first(), later('{"city": "Paris"')
    assert fails(*lost, request=FORCED) == {"toolstream.arguments.one-json"}
    assert fails(*lost) == {"toolstream.arguments.whole-in-auto"}
    assert fails(*lost, request=FORCED, finish="length") == set()
    assert fails(*lost, request={**FORCED, "max_tokens": 8}, finish="stop") == set()  # perhaps cut
    assert fails(first(), request=FORCED) == {"toolstream.arguments.one-json"}
    assert fails(first()) == set()


def test_a_function_without_parameters() -> None:
    """B2-050."""
    assert fails(first("ping")) == {"toolstream.arguments.empty-object"}
    assert fails(first("ping"), later("{}")) == set()
    assert fails(first("ping"), request=FORCED) == {"toolstream.arguments.empty-object"}


def test_long_arguments_come_in_pieces() -> None:
    rule = "toolstream.arguments.incremental"
    text = f'{{"city": "{"x" * 120}"}}'
    blob = calling(first(arguments=text), scenario="tool-stream-long")
    pieces = calling(first(), later(text[:40]), later(text[40:80]), later(text[80:]), scenario="tool-stream-long")
    short = calling(*RIGHT, scenario="tool-stream-long")
    found = [verdict(rule, x) for x in (blob, pieces, short)]
    assert found == [Status.FAIL, Status.PASS, Status.INCONCLUSIVE]


def test_what_stands_around_a_call() -> None:
    """The role before, the finish after, text before."""
    late = stream(chunk({"tool_calls": [first()]}), chunk({"role": "assistant"}), chunk({}, finish="stop"))
    assert broken(late, areas=AREAS) == {"toolstream.role.before"}
    assert fails(first(arguments="{}"), before=[], after=[chunk({"content": "\n"})]) == set()
    assert fails(first(arguments="{}"), after=[chunk({"content": "so"})]) == {"toolstream.content.before-calls"}
    role, done = chunk({"role": "assistant"}), chunk({}, finish="tool_calls")
    x = stream(role, chunk({"tool_calls": [first()]}), done, chunk({"tool_calls": [later(ARGUMENTS)]}), request=AUTO)
    assert broken(x, areas=AREAS) == {"toolstream.finish.after"}
    never = stream(chunk({"role": "assistant"}), *(chunk({"tool_calls": [f]}) for f in RIGHT), request=AUTO)
    assert broken(never, areas=AREAS) == set()  # done.choices.all-finished has it


def test_markup_in_the_text() -> None:
    """B2-012, B2-056, and beginnings of markers beside a call."""
    rule = "toolstream.content.no-markup"
    for text in ("<tool_c", "Sure. <|python_", "<tool_call>"):
        assert fails(*RIGHT, before=[chunk({"content": text})]) == {rule}, text
    assert fails(*RIGHT, before=[chunk({"content": "<b"})]) == set()

    def said(text: str, **request: Any) -> set[str]:
        role, body = chunk({"role": "assistant"}), chunk({"content": text})
        return broken(stream(role, body, chunk({}, finish="stop"), request={**AUTO, **request}), areas=AREAS)

    assert said('<tool_call>{"name": "get_weather"') == {rule}
    assert said('{"name": "get_weather", "arguments": {"city": "Paris"}}') == {rule}
    assert said("A tag is written <tool_call>.") == set()
    assert said("<tool_call>\n{", tool_choice="required") == {rule}
    assert said('<tool_call>{"name": "get_weather"', tool_choice="none") == set()


def test_a_marker_in_two_pieces() -> None:
    """B2-056: the plain answer has the call, the stream half a marker."""
    rule = "toolstream.marker.split"
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}}
    message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}
    there = plain(completion(message, "tool_calls"), AUTO)
    half = stream(chunk({"role": "assistant"}), chunk({"content": "<|action"}), chunk({}, finish="stop"), request=AUTO)
    assert broken(there, half, areas=AREAS) == {rule}
    assert verdict(rule, there, calling(*RIGHT)) is Status.PASS
    text = stream(chunk({"role": "assistant"}), chunk({"content": "hi"}), chunk({}, finish="stop"), request=AUTO)
    assert verdict(rule, plain(completion("hi"), AUTO), text) is Status.INCONCLUSIVE


def test_parity() -> None:
    """B2-054, B2-055."""
    rule = "toolstream.parity.with-plain"

    def there(arguments: str = ARGUMENTS, name: str = "get_weather") -> Exchange:
        call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
        return plain(completion({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"), AUTO)

    assert verdict(rule, there(), calling(*RIGHT)) is Status.PASS
    assert verdict(rule, there('{"city":"Paris"}'), calling(*RIGHT)) is Status.PASS
    assert broken(there(), calling(first(arguments="{}")), areas=AREAS) == {rule}
    assert broken(there(name="ping", arguments="{}"), calling(*RIGHT), areas=AREAS) == {rule}
    empty = there(name="ping", arguments="{}"), calling(first("ping"))
    assert broken(*empty, areas=AREAS) == {"toolstream.arguments.empty-object"}
    for condemned in ([first(), later('{"city": '), later(ARGUMENTS)], [first(index=None, arguments="{}")]):
        assert verdict(rule, there(), calling(*condemned)) is Status.INCONCLUSIVE
    assert verdict(rule, there(), calling(first(), finish="length")) is Status.INCONCLUSIVE


def _cuts(**wrong: Exchange) -> list[Exchange]:
    names = ("tool-stream-cut-1", "tool-stream-cut-2", "tool-stream-cut-20", "tools-cut-stream")
    role = chunk({"role": "assistant"})
    right = [stream(role, chunk({}, finish="length"), request=FORCED, scenario=name) for name in names]
    return [*(wrong.get(x.scenario.replace("-", "_"), x) for x in right)]


def test_a_cut_inside_a_call() -> None:
    """B2-062, B2-074: the server stumbles over half a call."""
    rule = "toolstream.cut.well-formed"
    whole = calling(*RIGHT, scenario="tool-stream-long")
    failed = {"error": {"message": "list index out of range", "type": "server_error", "code": 500}}
    bad = stream(chunk({"role": "assistant"}), failed, request=FORCED, scenario="tool-stream-cut-2")
    assert verdict(rule, whole, *_cuts()) is Status.PASS
    assert verdict(rule, whole, *_cuts(tool_stream_cut_2=bad)) is Status.FAIL
    always = stream(chunk({"role": "assistant"}), failed, request=FORCED, scenario="tool-stream-long")
    assert verdict(rule, always, *_cuts(tool_stream_cut_2=bad)) is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Gauge 4 says 17 bar.", Status.PASS),
        (': read_gauge({"gauge": 4})] 17 bar', Status.FAIL),
        ("<tool_call>17 bar", Status.FAIL),
    ],
)
def test_the_history_does_not_leak(text: str, status: Status) -> None:
    """B2-058."""
    deltas = chunk({"role": "assistant"}), chunk({"content": text}), chunk({}, finish="stop"), usage_chunk()
    x = stream(*deltas, request=AUTO, scenario="tool-stream-history")
    assert verdict("toolstream.history.no-leak", x) is status


@pytest.mark.parametrize("junk", [None, 7, "x", True, [], [None], [7], [[]], {"a": 1}, [{"index": {}}], [{"id": []}]])
def test_any_json_is_survived(junk: Any) -> None:
    role, end = chunk({"role": "assistant"}), chunk({}, finish="stop")
    for request in (AUTO, FORCED, {"tools": junk, "tool_choice": junk, "parallel_tool_calls": junk}):
        broken(stream(role, chunk({"tool_calls": junk}), end, request=request), areas=AREAS)
        for name in ("index", "id", "type", "function"):
            fragments = [chunk({"tool_calls": [{**f, name: junk}]}) for f in (*RIGHT, first(index=1))]
            broken(stream(role, *fragments, end, request=request), areas=AREAS)
        for name in ("name", "arguments"):
            function = {"name": "get_weather", "arguments": "{}", name: junk}
            wrong = chunk({"tool_calls": [{**first(), "function": function}]})
            message = {"role": "assistant", "tool_calls": [{"id": junk, "function": function}, junk]}
            x = stream(role, wrong, wrong, end, request=request)
            broken(x, plain(completion(message, "tool_calls"), request), areas=AREAS)
