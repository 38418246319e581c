"""The rules for tool calls and tool_choice, on answers written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.verdict import Status

from .wire import broken, chunk, completion, envelope, explain, plain, stream, usage, usage_chunk, verdict

AREAS = ("tool", "finish", "choice")
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Paris"]}},
    "required": ["city"],
    "additionalProperties": False,
}
PARIS = '{"city": "Paris"}'
NONE: dict[str, Any] = {"tool_choice": "none"}
REQUIRED: dict[str, Any] = {"tool_choice": "required"}


def tool(name: str = "get_weather", parameters: Any = CITY, **more: Any) -> dict[str, Any]:
    """A declaration; parameters of None are left out."""
    function = {"name": name, **({} if parameters is None else {"parameters": parameters}), **more}
    return {"type": "function", "function": function}


def named(name: str) -> dict[str, Any]:
    return {"tool_choice": {"type": "function", "function": {"name": name}}}


def call(name: str = "get_weather", arguments: Any = PARIS, call_id: str = "call_1", **more: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def asked(*tools: dict[str, Any], **request: Any) -> dict[str, Any]:
    return {"tools": list(tools) or [tool()], **request}


def said(*found: Any, request: dict[str, Any] | None = None, text: Any = None, **more: Any) -> Exchange:
    """A plain answer with these calls, or with text alone."""
    message = {"role": "assistant", "content": text, "refusal": None}
    finish = more.pop("finish", "tool_calls" if found else "stop")
    if found:
        message["tool_calls"] = list(found)
    tokens = more.pop("tokens", 5)
    return plain(completion(message, finish, usage=usage(7, tokens)), asked() if request is None else request, **more)


def streamed(*found: dict[str, Any], request: dict[str, Any] | None = None, text: str = "", **more: Any) -> Exchange:
    """The same as a stream: each call whole in one chunk."""
    parts = [chunk({"tool_calls": [{"index": i, **c}]}) for i, c in enumerate(found)]
    said = [chunk({"content": text})] if text else []
    end = chunk({}, finish=more.pop("finish", "tool_calls" if found else "stop"))
    wanted = {**(asked() if request is None else request), "stream_options": {"include_usage": True}}
    role = chunk({"role": "assistant", "content": None if found else ""})
    return stream(role, *said, *parts, end, usage_chunk(7, more.pop("tokens", 5)), request=wanted, **more)


def test_right_answers_break_nothing() -> None:
    for request in (asked(), asked(**REQUIRED), asked(**named("get_weather"))):
        pair = said(call(), request=request), streamed(call(call_id="call_2"), request=request)
        assert broken(*pair, areas=(*AREAS, "toolstream", "parallel", "chunk")) == set()
    assert broken(said(text="Hello."), streamed(text="Hello."), areas=AREAS) == set()
    assert broken(said(text="Hello.", request=asked(**NONE)), areas=AREAS) == set()


# -- tool_choice ------------------------------------------------------------------


def test_none() -> None:
    for x in (said(call(), request=asked(**NONE)), streamed(call(), request=asked(**NONE))):
        assert broken(x, areas=AREAS) == {"tool.none.no-call"}
    assert verdict("tool.none.no-call", said(text="It rains.", request=asked(**NONE))) is Status.PASS
    # Without tools nobody could have been called.
    assert verdict("tool.none.no-call", plain()) is Status.NOT_APPLICABLE


def test_none_keeps_text() -> None:
    rule, request = "tool.none.text-kept", asked(**NONE)
    there: dict[str, Any] = {"scenario": "tool-none-markup", "request": request, "tokens": 20}
    assert verdict(rule, said(text="<tool_call>{}</tool_call>", **there)) is Status.PASS
    assert broken(said(text="", **there), areas=AREAS) == {rule}
    lost = streamed(request=request, scenario="tool-none-markup-stream", tokens=20)
    assert broken(lost, areas=AREAS) == {rule}
    assert "as the answer has 20 tokens" in explain(rule, lost)
    assert verdict(rule, said(text="", **{**there, "tokens": 2})) is Status.INCONCLUSIVE
    assert verdict(rule, said(text="", **{**there, "tokens": 24})) is Status.INCONCLUSIVE  # at the limit
    thinking = completion({"role": "assistant", "content": "", "reasoning_content": "Hm."}, usage=usage(7, 20))
    assert verdict(rule, plain(thinking, request, scenario="tool-none-markup")) is Status.INCONCLUSIVE


def test_required() -> None:
    rule, request = "tool.required.calls", asked(**REQUIRED)
    for x in (said(text="Hello.", request=request), streamed(text="Hello.", request=request)):
        assert broken(x, areas=AREAS) == {rule}
    # Cut before the call, by its finish_reason or by the count of tokens.
    assert verdict(rule, said(text="Well", request=request, finish="length")) is Status.INCONCLUSIVE
    assert verdict(rule, said(text="Well", request=request, tokens=24)) is Status.INCONCLUSIVE
    error = stream(chunk({"role": "assistant"}), {"error": {"message": "no"}}, request=request)
    assert verdict(rule, error) is Status.INCONCLUSIVE


def test_an_empty_list_under_required() -> None:
    """B2-006."""
    message: dict[str, Any] = {"role": "assistant", "content": "Hello!", "refusal": None, "tool_calls": []}
    x = plain(completion(message, "tool_calls"), asked(**REQUIRED))
    wanted = {"tool.required.calls", "finish.tool-calls.iff-called", "choice.message.no-empty-tool-calls"}
    assert broken(x, areas=AREAS) == wanted


def test_named() -> None:
    rule, two = "tool.named.only-it", (tool(), tool("get_time", None))
    request = asked(*two, **named("get_time"))
    assert verdict(rule, said(call("get_time", "{}"), request=request)) is Status.PASS
    for make in (said, streamed):
        assert broken(make(call(), request=request), areas=AREAS) == {rule}
        assert broken(make(text="Hello.", request=request), areas=AREAS) == {rule}
    assert verdict(rule, said(text="He", request=request, finish="length")) is Status.INCONCLUSIVE
    # A name that nobody declared is one finding, not two.
    strange = said(call("functions.get_time", "{}"), request=request)
    assert broken(strange, areas=AREAS) == {"tool.name.declared"}
    # A choice that names no declared function is for the rule about such requests.
    assert verdict(rule, said(call(), request=asked(**named("nobody")))) is Status.NOT_APPLICABLE


def test_default() -> None:
    names = ("tool-default", "tools-auto", "tools-auto-none-needed", "tool-auto-none-needed")

    def judge(*calling: bool) -> Status:
        made = [said(*([call()] if c else []), text="Hi.", scenario=n) for c, n in zip(calling, names, strict=True)]
        return verdict("tool.auto.default", *made)

    assert judge(True, True, False, False) is Status.PASS
    assert judge(False, True, False, False) is Status.FAIL
    assert judge(True, True, True, False) is Status.FAIL
    assert judge(False, False, False, False) is Status.INCONCLUSIVE
    assert judge(True, True, True, True) is Status.INCONCLUSIVE


def test_names() -> None:
    rule = "tool.name.declared"
    for name in ("functions.get_weather", "get_weather<|channel|>commentary", "get_weather "):
        for make in (said, streamed):
            assert broken(make(call(name)), areas=AREAS) == {rule}
    assert verdict(rule, said(call("get_news"))) is Status.INCONCLUSIVE
    assert verdict(rule, said(call("get_news"), request=asked(**REQUIRED))) is Status.FAIL
    assert verdict(rule, said(call(), request={})) is Status.FAIL


# -- shape, ids, content -----------------------------------------------------------


@pytest.mark.parametrize(
    "entry",
    [
        {"id": "", "type": "function"},
        {"id": None, "type": "function", "function": {"name": "get_weather", "arguments": PARIS}},
        {"type": "function", "function": {"name": "get_weather", "arguments": PARIS}},
        {"id": "call_1", "function": {"name": "get_weather", "arguments": PARIS}},
        {"id": "call_1", "type": "function", "function": {"name": "", "arguments": PARIS}},
        {"id": 1, "type": "function", "function": {"name": "get_weather", "arguments": PARIS}},
        {"id": "call_1", "type": "function", "function": None},
    ],
)
def test_shape(entry: dict[str, Any]) -> None:
    """B2-004 is the first."""
    assert broken(said(entry), areas=("tool", "finish")) == {"tool.call.shape"}


def test_more_than_the_shape_is_no_failure() -> None:
    assert broken(said(call(index=0, extra_content={"x": 1})), areas=AREAS) == set()
    custom = {"id": "call_1", "type": "custom", "custom": {"name": "x", "input": "y"}}
    assert verdict("tool.call.shape", said(custom)) is Status.PASS
    assert verdict("tool.call.shape", said("get_weather")) is Status.FAIL


def test_ids_in_one_answer() -> None:
    rule = "tool.id.unique-in-answer"
    for make in (said, streamed):
        assert verdict(rule, make(call(), call(call_id="call_2"))) is Status.PASS
        assert broken(make(call(), call()), areas=AREAS) == {rule}
        assert verdict(rule, make(call())) is Status.INCONCLUSIVE
    # Ids that are missing are one finding, of tool.call.shape.
    assert verdict(rule, said(call(call_id=""), call(call_id=""))) is Status.PASS


def test_ids_over_answers() -> None:
    """B2-013, B2-014."""
    rule = "tool.id.unique-across-answers"
    first, again = said(call()), said(call(), scenario="tools-required")
    assert broken(first, again, areas=("tool",)) == {rule}
    assert verdict(rule, first, streamed(call(call_id="call_2"))) is Status.PASS
    failed = stream(chunk({"tool_calls": [call()]}), {"error": {"message": "no"}}, request=asked())
    assert verdict(rule, first, failed) is Status.INCONCLUSIVE


MARKUP = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def test_markup() -> None:
    rule = "tool.content.no-markup"
    assert broken(said(text=MARKUP), areas=AREAS) == {rule}
    assert broken(said(call(), text=MARKUP), areas=AREAS) == {rule}
    bare = '{"name": "get_weather", "parameters": {"city": "Paris"}}'
    assert broken(said(text=bare), areas=AREAS) == {rule}
    assert "a call to get_weather in `tool_calls`" in explain(rule, said(text=bare))
    # B2-019: cut, and handed out as it is.
    cut = said(text='<tool_call>\n{"na', request=asked(**REQUIRED), finish="length", tokens=24)
    assert broken(cut, areas=AREAS) == {f"{rule}-when-cut"}


def test_text_that_is_no_markup() -> None:
    rule = "tool.content.no-markup"
    assert verdict(rule, said(call(), text="I look it up: <b>Paris</b> [1].")) is Status.PASS
    # What a free model babbles is no call without the name of a function.
    assert verdict(rule, said(text="word <tool_call> salad")) is Status.PASS
    quoted = asked(messages=[{"role": "user", "content": f"Say: {MARKUP.splitlines()[0]}"}])
    assert verdict(rule, said(text="<tool_call> get_weather", request=quoted)) is Status.PASS
    assert verdict(rule, said(text=MARKUP, request=asked(**NONE))) is Status.NOT_APPLICABLE
    assert verdict(rule, said(text='{"name": "Ann", "parameters": 3}')) is Status.PASS


@pytest.mark.parametrize("junk", [None, 7, "x", [], [None], [7], {"a": 1}, [{"function": 3}], [{"id": {}}], True])
def test_any_json_is_survived(junk: Any) -> None:
    for more in ({}, NONE, REQUIRED, named("get_weather"), {"tool_choice": junk}):
        request = asked(**more)
        for message in ({"tool_calls": junk}, {"content": junk, "tool_calls": [call(arguments=junk)]}, junk):
            broken(plain(completion(choices=[{"index": 0, "message": message, "finish_reason": "stop"}]), request))
        broken(stream(chunk({"tool_calls": junk}), chunk({}, finish="stop"), request=request), areas=AREAS)
        broken(stream(envelope(junk), request=request), plain(completion(choices=junk), request), areas=AREAS)
    broken(said(call(), request={"tools": junk, "tool_choice": "required"}), areas=AREAS)
    broken(said(call(), request=asked(tool(parameters=junk), **REQUIRED)), areas=AREAS)
