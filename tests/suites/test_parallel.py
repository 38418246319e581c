"""The rules for several tool calls, on answers written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.verdict import Status

from .test_toolstream import ARGUMENTS, AUTO, FORCED, calling, first, later
from .wire import broken, completion, explain, plain, stream, verdict

AREAS = ("parallel", "toolstream")
ROME = '{"city": "Rome"}'
FALSE = {**AUTO, "parallel_tool_calls": False}
TWO = (first(), later(ARGUMENTS), first(call_id="call_2", index=1), later(ROME, 1))


def made(name: str = "get_weather", arguments: str = ARGUMENTS, call_id: str = "call_1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def called(*calls: Any, content: Any = None, request: Any = AUTO, **more: Any) -> Exchange:
    message = {"role": "assistant", "content": content, "refusal": None, "tool_calls": list(calls)}
    return plain(completion(message, "tool_calls"), request, **more)


def test_right_answers_break_nothing() -> None:
    assert broken(calling(*TWO), areas=AREAS) == set()
    assert broken(called(made(), made(arguments=ROME, call_id="call_2")), calling(*TWO), areas=AREAS) == set()


def test_one_index_for_two_calls() -> None:
    """B2-031: the fragments cannot be told apart, and no other rule says so again."""
    fragments = [{**f, "index": 0} for f in TWO]
    for request in (AUTO, FORCED):
        assert broken(calling(*fragments, request=request), areas=AREAS) == {"parallel.index.distinct"}
    assert explain("parallel.index.distinct", calling(*fragments)) == "expected an index other than 0, got id call_2"


def test_the_head_of_a_call_under_another_index() -> None:
    """B2-036."""
    fragments = TWO[0], TWO[1], {**TWO[2], "index": 0}, TWO[3]
    assert broken(calling(*fragments), areas=AREAS) == {"parallel.index.distinct", "toolstream.id.one-index"}


def test_a_torn_stream_and_choices_that_nobody_asked_for_are_not_judged() -> None:
    assert broken(calling(*TWO[1:], after=[b"data: {\n\n"]), areas=AREAS) == set()
    x = calling(*(f for f in TWO if f["index"] == 1))
    stray = x.text.replace('"index": 0, "delta"', '"index": 1, "delta"').encode()
    assert broken(stream(raw=stray, request=AUTO), areas=AREAS) == set()


def test_calls_take_turns_or_share_a_chunk() -> None:
    """Legal, and LlamaIndex loses calls."""
    mixed = TWO[0], TWO[2], TWO[1], TWO[3]
    assert broken(calling(*mixed), areas=AREAS) == {"parallel.calls.sequential"}
    whole = [first(arguments=ARGUMENTS), first(arguments=ROME, call_id="call_2", index=1)]
    assert broken(calling(whole), areas=AREAS) == {"parallel.chunk.one-entry"}
    one_first = first(arguments=ROME, index=1, call_id="call_2"), first(arguments=ARGUMENTS)
    assert broken(calling(*one_first), areas=AREAS) == {"toolstream.index.ascending"}


def test_calls_are_possible() -> None:
    """B2-094: the second call stays in the text."""
    rule = "parallel.calls.possible"
    for text in ('<tool_call>{"name": "ping"}', 'ping({"now": true})', '{"name": "ping", "arguments": {}}'):
        assert verdict(rule, called(made(), content=text, scenario="parallel-plain")) is Status.FAIL, text
    assert verdict(rule, called(made(), content="Let me ping.", scenario="parallel-plain")) is Status.INCONCLUSIVE
    assert verdict(rule, called(made(), made("ping", "{}", "call_2"))) is Status.PASS
    assert verdict(rule, plain(completion("hello"), AUTO, scenario="parallel-plain")) is Status.INCONCLUSIVE


def test_switched_off() -> None:
    """B2-092."""
    rule = "parallel.false.at-most-one"
    second = made("ping", "{}", "call_2")
    assert broken(called(made(), second, request=FALSE), areas=AREAS) == {rule}
    assert broken(calling(*TWO, request=FALSE), areas=AREAS) == {rule}
    assert verdict(rule, called(made(), request=FALSE)) is Status.PASS
    assert verdict(rule, plain(completion("hello"), FALSE)) is Status.INCONCLUSIVE
    assert verdict(rule, called(made(), second)) is Status.NOT_APPLICABLE


@pytest.mark.parametrize(("status", "outcome"), [(200, Status.PASS), (400, Status.PASS), (500, Status.FAIL)])
def test_the_flag_is_no_server_error(status: int, outcome: Status) -> None:
    body = completion() if status == 200 else {"error": {"message": "no", "type": "x"}}
    for flag in (True, False):
        x = plain(body, {"parallel_tool_calls": flag}, status)
        assert verdict("parallel.flag.no-5xx", x) is outcome


def test_each_call_is_complete() -> None:
    rule = "parallel.call.complete"
    assert rule in broken(called(made(), made(arguments="", call_id="call_2")), areas=AREAS)
    assert broken(calling(*TWO[:3]), areas=AREAS) == {rule}
    assert verdict(rule, calling(*TWO[:3], finish="length")) is Status.PASS  # cut
    assert verdict(rule, called(made(), made("ping", "", "call_2"))) is Status.PASS  # needs none


def test_history_in_any_order() -> None:
    rule = "parallel.history.any-order"
    refused = {"error": {"message": "results must follow the calls", "type": "invalid_request_error"}}

    def pair(in_order: int, swapped: int) -> list[Exchange]:
        names = ("parallel-history", in_order), ("parallel-history-swapped", swapped)
        tags = {"optional": "tools"}
        return [plain(completion() if s == 200 else refused, AUTO, s, scenario=n, tags=tags) for n, s in names]

    assert verdict(rule, *pair(200, 200)) is Status.PASS
    assert verdict(rule, *pair(200, 400)) is Status.FAIL
    assert verdict(rule, *pair(400, 400)) is Status.UNSUPPORTED


def test_one_function_twice() -> None:
    rule = "parallel.same-function.twice"
    both = called(made(), made(arguments=ROME, call_id="call_2"))
    once = calling(first(), later(ARGUMENTS))
    assert verdict(rule, both, calling(*TWO)) is Status.PASS
    assert broken(both, once, areas=AREAS) == {rule}
    assert broken(called(made()), calling(*TWO), areas=AREAS) == {rule}
    assert verdict(rule, called(made()), once) is Status.INCONCLUSIVE
    assert verdict(rule, both, calling(first(), later(ARGUMENTS), finish="length")) is Status.INCONCLUSIVE
