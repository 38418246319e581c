"""The rules for finish_reason, on answers written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.verdict import Status

from .wire import broken, chunk, completion, envelope, explain, plain, stream, text, usage, usage_chunk, verdict

AREAS = ("finish",)
PINNED = '{"text": "alpha beta gamma delta epsilon"}'
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "required": ["a"]}}}]
NAMED = {"type": "function", "function": {"name": "f"}}


def called(arguments: str = '{"a": 1}') -> dict[str, Any]:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}


def tool(
    finish: Any, arguments: str = '{"a": 1}', choice: Any = "auto", tokens: int = 5, limit: int = 24, **more: Any
) -> Exchange:
    """A plain answer with one call."""
    asked = {"tools": TOOLS, "tool_choice": choice, "max_tokens": limit}
    return plain(completion(called(arguments), finish, usage=usage(7, tokens)), asked, **more)


def tool_stream(finish: Any, arguments: str = '{"a": 1}', choice: Any = "auto", limit: int = 24) -> Exchange:
    function = {"name": "f", "arguments": arguments}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    return stream(
        chunk({"role": "assistant", "content": None}),
        chunk({"tool_calls": [call]}),
        chunk({}, finish=finish),
        request={"tools": TOOLS, "tool_choice": choice, "max_tokens": limit},
    )


def test_right_answers_break_nothing() -> None:
    assert broken(plain(completion("hello")), stream(*text("hel", "lo")), areas=AREAS) == set()
    assert broken(tool("tool_calls"), tool_stream("tool_calls"), areas=AREAS) == set()


@pytest.mark.parametrize("reason", ["eos_token", "end_turn", "None", 7, {}, True])
def test_unknown(reason: Any) -> None:
    """B1-027, B1-174: words that are not in the list."""
    assert broken(plain(completion("hi", reason)), areas=AREAS) == {"finish.reason.known"}
    assert broken(stream(*text("hi", finish=reason)), areas=AREAS) == {"finish.reason.known"}


def test_abort_is_marked_apart() -> None:
    assert broken(plain(completion("hi", "abort")), areas=AREAS) == {"finish.reason.known", "finish.abort.is-error"}


def test_empty_text_until_the_end_is_judged_by_the_chunk_rules() -> None:
    """B1-024, B1-025, B1-026."""
    empty = [
        {**c, "choices": [{**c["choices"][0], "finish_reason": c["choices"][0]["finish_reason"] or ""}]}
        for c in text("he", "llo")
    ]
    assert broken(stream(*empty)) == {"chunk.finish-reason.key-present"}


def test_null_in_a_plain_answer() -> None:
    assert broken(plain(completion("hi", None)), areas=AREAS) == {"finish.plain.not-null"}  # type: ignore[arg-type]


def test_twice_and_never() -> None:
    """B1-032: every chunk, or two, have a reason. B1-028, B1-030: none has."""
    twice = stream(*text("hi"), chunk({}, finish="stop"))
    assert broken(twice, areas=AREAS) == {"finish.stream.once"}
    never = stream(*text("hi")[:-1])
    assert verdict("finish.stream.once", never) is Status.INCONCLUSIVE
    assert "done.choices.all-finished" in broken(never)
    camel = stream(
        *text("hi")[:-1], envelope([{"index": 0, "delta": {}, "finish_reason": None, "finishReason": "stop"}])
    )
    assert "done.choices.all-finished" in broken(camel)


def test_stop_in_the_reasoning() -> None:
    """B1-039."""
    role, *rest = text("hi")
    x = stream(role, chunk({"reasoning_content": "Hm."}, finish="stop"), *rest)
    assert broken(x, areas=AREAS) == {"finish.stream.once"}


def test_an_error_event_is_no_missing_finish() -> None:
    assert broken(stream(*text("hi")[:-1], {"error": {"message": "out of memory"}}), areas=AREAS) == set()


def test_after_the_finish() -> None:
    entries: dict[str, Any] = {
        "content": [{"token": "x", "logprob": -1.0, "bytes": None, "top_logprobs": []}],
        "refusal": None,
    }
    late = envelope([{"index": 0, "delta": {}, "logprobs": entries, "finish_reason": None}])
    assert broken(stream(*text("hi"), late), areas=AREAS) == {"finish.stream.last-of-choice"}
    role = stream(*text("hi"), chunk({"role": "assistant"}))
    assert broken(role, areas=AREAS) == {"finish.stream.last-of-choice"}
    more = stream(*text("hi"), chunk({"content": "!"}))
    assert broken(more, areas=AREAS) == set()
    assert "chunk.finish.nothing-after" in broken(more)
    vendor = stream(*text("hi"), chunk({}, timings={"ms": 3}), chunk({"content": ""}))
    assert broken(vendor, areas=AREAS) == set()


def test_rare_reasons() -> None:
    assert broken(tool("function_call"), areas=AREAS) == {"finish.function-call.legacy-only"}
    legacy = plain(completion("hi", "function_call"), {"functions": [{"name": "f"}]})
    assert broken(legacy, areas=AREAS) == set()
    assert broken(plain(completion("hi", "content_filter")), areas=AREAS) == {"finish.content-filter.only-filtered"}
    azure = completion("hi", "content_filter", content_filter_results={"hate": {"filtered": True}})
    assert broken(plain(azure), areas=AREAS) == set()


def test_calls_and_reason_go_together() -> None:
    assert broken(tool("stop"), areas=AREAS) == {"finish.tool-calls.when-called"}
    assert broken(tool_stream("stop"), areas=AREAS) == {"finish.tool-calls.when-called"}
    assert broken(plain(completion("hi", "tool_calls")), areas=AREAS) == {"finish.tool-calls.iff-called"}


@pytest.mark.parametrize("choice", [NAMED, "required"])
def test_forced_calls_may_end_with_either(choice: Any) -> None:
    rule = "finish.required.tool-calls-or-stop" if choice == "required" else "finish.named.stop-or-tool-calls"
    for reason in ("stop", "tool_calls"):
        assert broken(tool(reason, choice=choice), tool_stream(reason, choice=choice), areas=AREAS) == set()
    assert broken(tool("length", choice=choice), areas=AREAS) == {rule}
    assert broken(tool("length", '{"a', choice, tokens=24), areas=AREAS) == set()


def test_a_cut_call() -> None:
    """B1-035."""
    for reason in ("tool_calls", "stop"):
        x = tool(reason, '{"ci', NAMED, tokens=8, limit=8)
        assert broken(x, areas=AREAS) == {"finish.tool-calls.cut-is-length"}
    assert broken(tool_stream("tool_calls", '{"ci', "required", limit=12), areas=AREAS) == {
        "finish.tool-calls.cut-is-length"
    }
    # Whole at the limit by chance, malformed before the limit, and a limit that nobody tells us about.
    assert broken(tool("tool_calls", tokens=8, limit=8), areas=AREAS) == set()
    assert broken(tool("tool_calls", '{"ci', tokens=5), areas=AREAS) == set()
    assert broken(tool_stream("tool_calls", '{"ci', limit=200), areas=AREAS) == set()
    dropped = plain(completion("", "stop", usage=usage(7, 8)), {"tools": TOOLS, "tool_choice": NAMED, "max_tokens": 8})
    assert broken(dropped, areas=AREAS) == {"finish.tool-calls.cut-is-length"}


def test_cut_by_the_limit() -> None:
    """B1-037, B1-038: stop where the limit cut."""

    def cut(reason: str, tokens: int) -> Exchange:
        return plain(completion("1, 2, 3", reason, usage=usage(7, tokens)), {"max_tokens": 5}, scenario="plain-cut")

    assert broken(cut("stop", 5), areas=AREAS) == {"finish.length.when-cut"}
    assert broken(cut("length", 5), areas=AREAS) == set()
    assert verdict("finish.length.when-cut", cut("stop", 4)) is Status.INCONCLUSIVE
    x = stream(
        *text("1, 2"),
        usage_chunk(7, 5),
        request={"max_tokens": 5, "stream_options": {"include_usage": True}},
        scenario="stream-cut",
    )
    assert broken(x, areas=AREAS) == {"finish.length.when-cut"}


def test_stop_at_the_end() -> None:
    rule = "finish.stop.by-itself-or-stop"
    for reason, status in (("stop", Status.PASS), ("length", Status.FAIL)):
        assert verdict(rule, plain(completion(PINNED, reason), scenario="plain-pinned")) is status
        stopped = completion(PINNED.partition("ma delta ep")[0], reason)
        assert verdict(rule, plain(stopped, {"stop": ["ma delta ep"]}, scenario="plain-stop")) is status
    cut = plain(completion(PINNED[:9], "length"), scenario="plain-pinned")
    assert verdict(rule, cut) is Status.INCONCLUSIVE


def test_parity() -> None:
    """B1-206: the plain answer says stop, the stream tool_calls."""
    pair = tool("stop", choice="required"), tool_stream("tool_calls", choice="required")
    assert broken(*pair, areas=AREAS) == {"finish.parity.with-plain"}
    assert "stop as in the plain answer, got tool_calls" in explain("finish.parity.with-plain", *pair)
    named = tool("stop", choice=NAMED), tool_stream("tool_calls", choice=NAMED)
    assert broken(*named, areas=AREAS) == {"finish.parity.with-plain"}
    other = plain(completion("hello", "length")), stream(*text("hullo"))
    assert verdict("finish.parity.with-plain", *other) is Status.INCONCLUSIVE


@pytest.mark.parametrize("junk", [None, 7, "x", [], [None], [7], {"a": 1}, [{"index": {}, "finish_reason": {}}]])
def test_any_json_is_survived(junk: Any) -> None:
    asked = {"tools": TOOLS, "tool_choice": "required"}
    broken(plain(completion(choices=junk), asked), stream(envelope(junk), request=asked), areas=AREAS)
    broken(plain(completion({"tool_calls": junk}), {"tools": junk, "tool_choice": junk}), areas=AREAS)
    broken(stream(chunk({"tool_calls": junk}, finish="stop"), request=asked), areas=AREAS)
