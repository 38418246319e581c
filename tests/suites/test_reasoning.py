"""The rules for reasoning, on answers written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.verdict import Status

from .wire import broken, chunk, completion, envelope, explain, plain, stream, text, usage, verdict

AREAS = ("reasoning",)
THOUGHT = "One plus one is two."
SCHEMA = {
    "type": "object",
    "properties": {"sum": {"type": "string", "enum": ["two"]}},
    "required": ["sum"],
    "additionalProperties": False,
}
JSON_FORM = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": SCHEMA}},
}
TOOLS = {"tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]}
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
MARKUP = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'


def counted(tokens: Any = 6, completion_tokens: int = 8) -> dict[str, Any]:
    return {**usage(7, completion_tokens), "completion_tokens_details": {"reasoning_tokens": tokens}}


def thought(
    content: Any = "two",
    reasoning: Any = THOUGHT,
    finish: str = "stop",
    request: Mapping[str, Any] | None = None,
    tokens: Any = 6,
    spent: int = 8,
    name: str = "reasoning",
    message: Mapping[str, Any] | None = None,
    **more: Any,
) -> Exchange:
    """A plain answer that thinks first."""
    said = {"role": "assistant", "content": content, "refusal": None, name: reasoning, **(message or {})}
    return plain(completion(said, finish, usage=counted(tokens, spent)), request, **more)


def streamed(
    *deltas: Mapping[str, Any], finish: str = "stop", request: Mapping[str, Any] | None = None, **more: Any
) -> Exchange:
    """A stream of these deltas."""
    first = chunk({"role": "assistant", "content": ""})
    return stream(first, *(chunk(d) for d in deltas), chunk({}, finish=finish), request=request, **more)


def said(*pieces: str, name: str = "reasoning") -> list[dict[str, Any]]:
    return [{name: p} for p in pieces]


RIGHT = {
    "plain": thought(),
    "old name": thought(name="reasoning_content"),
    "both names": thought(message={"reasoning_content": THOUGHT}),
    "stream": streamed(*said("One plus", " one is two."), {"content": "two"}),
    "stream, old name": streamed(*said("One plus", " one is two.", name="reasoning_content"), {"content": "two"}),
    "nulls": streamed({"reasoning_content": None, "content": "two"}, {"reasoning": None, "content": None}),
    "blank lines first": streamed({"content": "\n\n"}, *said(THOUGHT), {"content": "two"}),
    "cut, null": thought(None, finish="length", spent=24, tokens=24),
    "cut, empty": thought("", finish="length", spent=24, tokens=24),
    "ended in thought": thought("", spent=9),
    "json": thought('{"sum": "two"}', request=JSON_FORM),
    "call": thought(None, finish="tool_calls", request=TOOLS, message={"tool_calls": [CALL]}),
    "no thoughts": plain(),
    "an error event": stream(chunk({"reasoning": "On"}), {"error": {"message": "out of memory"}}),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_break_nothing(name: str) -> None:
    assert broken(RIGHT[name], areas=AREAS) == set()


def test_a_model_that_does_not_think_is_never_green() -> None:
    """Protects the meaning of a pass: only thoughts show where they stand."""
    for rule in ("content.no-tags", "field.present", "cut.is-length", "usage.counted", "parity", "cut.sweep"):
        assert verdict(f"reasoning.{rule}", plain(), stream(*text("hello"))) is not Status.PASS, rule
    assert verdict("reasoning.content.no-tags", RIGHT["plain"]) is Status.PASS


@pytest.mark.parametrize("tag", ["<think>Hm.</think>two", "Hm.\n</think>\n\ntwo", "[THINK]Hm.[/THINK]two"])
def test_tags_in_the_content(tag: str) -> None:
    """B2-180: with the field or without it."""
    assert broken(plain(completion(tag)), areas=AREAS) == {"reasoning.content.no-tags"}
    assert broken(thought(tag), areas=AREAS) == {"reasoning.content.no-tags"}
    halves = streamed({"content": tag[:5]}, {"content": tag[5:]})
    assert broken(halves, areas=AREAS) == {"reasoning.content.no-tags"}


def test_tags_that_were_asked_for() -> None:
    asked = {"messages": [{"role": "user", "content": "Say: <think>Hm.</think>"}]}
    assert broken(plain(completion("<think>Hm.</think>"), asked), areas=AREAS) == set()
    kept = plain(completion("<think>Hm.</think>two"), {"separate_reasoning": False})
    assert broken(kept, areas=AREAS) == set()
    assert broken(plain(completion('<think>Hm.</think>{"sum": "two"}'), JSON_FORM), areas=AREAS) == set()


def test_counted_and_not_shown() -> None:
    assert broken(thought(reasoning=None), areas=AREAS) == {"reasoning.field.present"}
    assert broken(thought(reasoning=None, request={"include_reasoning": False}), areas=AREAS) == set()
    assert broken(thought(reasoning={"text": THOUGHT}), areas=AREAS) == {"reasoning.field.present"}
    assert broken(thought(reasoning=None, tokens=0), areas=AREAS) == set()
    # A cut may fall into the tag that begins a thought.
    assert broken(thought("", None, "length", tokens=4, spent=4), areas=AREAS) == set()


@pytest.mark.parametrize("tokens", [0, None, "6", True, -1])
def test_tokens_that_are_not_counted(tokens: Any) -> None:
    assert broken(thought(tokens=tokens), areas=AREAS) == {"reasoning.usage.counted"}
    vllm = plain(completion({"role": "assistant", "content": "two", "reasoning": THOUGHT}))
    assert broken(vllm, areas=AREAS) == {"reasoning.usage.counted"}


def test_order_in_a_stream() -> None:
    late = streamed(*said("One plus"), {"content": "two"}, *said(" one is two."))
    assert broken(late, areas=AREAS) == {"reasoning.stream.before-content"}
    both = streamed(*said("One plus"), {"reasoning": " one is two.", "content": "two"})
    assert broken(both, areas=AREAS) == {"reasoning.delta.not-both"}
    cut = streamed(*said("One plus"), finish="length")
    assert verdict("reasoning.stream.before-content", cut) is Status.INCONCLUSIVE


def test_a_cut_thought_is_length() -> None:
    for content in ("", None):
        assert broken(thought(content, spent=24, tokens=24), areas=AREAS) == {"reasoning.cut.is-length"}
    odd = thought("", finish="eos_token", spent=24, tokens=24)
    assert broken(odd, areas=AREAS) == set()


def test_names() -> None:
    """B2-182."""
    whole = (*said("One plus", " one is two."), {"content": "two"})
    assert broken(thought(), streamed(*whole), areas=AREAS) == set()
    old = streamed(*said(THOUGHT, name="reasoning_content"), {"content": "two"})
    assert broken(thought(), old, areas=AREAS) == {"reasoning.field.same-in-both-modes"}
    lost = streamed({"content": "two"})
    assert broken(thought(), lost, areas=AREAS) == {"reasoning.field.same-in-both-modes"}
    two = thought(message={"reasoning_content": "Another."})
    assert broken(two, streamed(*whole), areas=AREAS) == {"reasoning.field.same-in-both-modes"}
    assert broken(thought(reasoning=[THOUGHT]), streamed(*whole), areas=AREAS) == {"reasoning.field.present"}


def test_parity() -> None:
    """B2-184: what is lost at the end. Where the answers differ as well, the model did not repeat itself."""
    short = streamed(*said("One plus one"), {"content": "two"})
    assert broken(thought(), short, areas=AREAS) == {"reasoning.parity"}
    assert "One plus one" in explain("reasoning.parity", thought(), short)
    other = streamed(*said("I know it."), {"content": "2"})
    assert verdict("reasoning.parity", thought(), other) is Status.INCONCLUSIVE


def test_json_in_the_thought() -> None:
    whole = thought(None, 'Hm. {"sum": "two"}', request=JSON_FORM)
    assert broken(whole, areas=AREAS) == {"reasoning.schema.content-only"}
    deltas = streamed(*said('{"sum": ', '"two"}'), request=JSON_FORM)
    assert broken(deltas, areas=AREAS) == {"reasoning.schema.content-only"}
    ended = thought("", "Is it two", request=JSON_FORM)
    assert verdict("reasoning.schema.content-only", ended) is Status.INCONCLUSIVE
    wrong = thought('{"sum": "three"}', request=JSON_FORM)
    assert verdict("reasoning.schema.content-only", wrong) is Status.INCONCLUSIVE


def test_calls_and_thoughts() -> None:
    """B2-181."""
    twice = thought(None, f"Hm. {MARKUP}", "tool_calls", TOOLS, message={"tool_calls": [CALL]})
    assert broken(twice, areas=AREAS) == {"reasoning.calls.no-markup"}
    swallowed = thought("", f"Hm. {MARKUP}", request=TOOLS)
    assert broken(swallowed, areas=AREAS) == {"reasoning.call.not-swallowed"}
    bare = thought("", 'Hm.\n{"name": "look", "arguments": {}}', request=TOOLS)
    assert broken(bare, areas=AREAS) == {"reasoning.call.not-swallowed"}
    for free in (thought(request=TOOLS), thought("Say <tool_call>", "I could write <tool_call>.", request=TOOLS)):
        assert verdict("reasoning.call.not-swallowed", free) is Status.INCONCLUSIVE
    none = thought("", MARKUP, request={**TOOLS, "tool_choice": "none"})
    assert broken(none, areas=AREAS) == set()


@pytest.mark.parametrize(
    "switch", [{"chat_template_kwargs": {"enable_thinking": False}}, {"reasoning_effort": "none"}], ids=str
)
def test_an_answer_taken_for_a_thought(switch: dict[str, Any]) -> None:
    for content in (None, ""):
        x = thought(content, "two", request=switch)
        assert broken(x, areas=AREAS) == {"reasoning.plain-answers.complete"}
    assert verdict("reasoning.plain-answers.complete", plain(request=switch)) is Status.PASS
    cut = thought(None, "two", finish="length", request=switch)
    assert verdict("reasoning.plain-answers.complete", cut) is Status.INCONCLUSIVE


def test_history() -> None:
    history = {
        "messages": [
            {"role": "user", "content": "1 + 1?"},
            {"role": "assistant", "content": "2", "reasoning_content": "Hm."},
            {"role": "user", "content": "And now?"},
        ]
    }
    error = {"error": {"message": "unknown field", "type": "invalid_request_error", "param": None, "code": None}}
    rule = "reasoning.history.accepted"
    assert verdict(rule, plain(request=history, scenario="reasoning-history")) is Status.PASS
    assert broken(plain(error, history, status=400, scenario="reasoning-history"), areas=AREAS) == {rule}
    assert verdict(rule, plain(error, history, status=429, scenario="reasoning-history")) is Status.INCONCLUSIVE


def replay(usual: Any, under_reasoning: Any, under_content: Any, wrote: Any) -> tuple[Exchange, ...]:
    """prompt_tokens (from 400 on: the status) without a thought and under each name, and the server's own answer."""

    def one(value: Any, scenario: str, step: str = "") -> Exchange:
        status = value if isinstance(value, int) and value >= 400 else 200
        body = completion("x", usage=usage(value, 1) if isinstance(value, int) else value)
        return plain(body if status == 200 else {"error": {}}, status=status, scenario=scenario, step=step)

    return (
        one(usual, "role-tool"),
        one(under_reasoning, "reasoning-replay", "reasoning"),
        one(under_content, "reasoning-replay", "reasoning_content"),
        plain(completion(wrote), scenario="reasoning-plain"),
    )


def test_replayed_thoughts() -> None:
    own, both = "reasoning.history.own-name-read", "reasoning.history.both-names-read"
    wrote: dict[str, Any] = {"role": "assistant", "content": "x", "reasoning": None}
    other = {"role": "assistant", "content": "x", "reasoning_content": None}
    for said_ in (wrote, other, {**wrote, **other}):
        assert verdict(own, *replay(100, 140, 140, said_)) is Status.PASS
        assert verdict(both, *replay(100, 140, 141, said_)) is Status.PASS
        # Dropped on purpose: most templates do so.
        for rule in (own, both):
            assert verdict(rule, *replay(100, 100, 100, said_)) is Status.INCONCLUSIVE
            assert verdict(rule, *replay(100, 104, 104, said_)) is Status.INCONCLUSIVE, "empty tags"
    assert broken(*replay(100, 100, 140, wrote), areas=AREAS) == {own}
    assert broken(*replay(100, 104, 140, wrote), areas=AREAS) == {own}
    assert broken(*replay(100, 140, 100, other), areas=AREAS) == {own}
    assert broken(*replay(100, 140, 100, wrote), areas=AREAS) == {both}
    assert broken(*replay(100, 100, 140, {**wrote, **other}), areas=AREAS) == {both}
    nameless = {"role": "assistant", "content": "x"}
    odd: list[Any] = [400, 422, 429, 500, 503, None, "x", [], {"prompt_tokens": "7"}]
    for rule in (own, both):
        assert verdict(rule, *replay(100, 100, 140, nameless)) is Status.INCONCLUSIVE
        for value in odd:
            assert verdict(rule, *replay(value, 100, 140, wrote)) is Status.INCONCLUSIVE
            assert verdict(rule, *replay(100, value, 140, wrote)) is Status.INCONCLUSIVE
            assert verdict(rule, *replay(100, 140, value, wrote)) is Status.INCONCLUSIVE
        message: Any
        for message in (None, 7, "x", [], {}, {"reasoning": {}}):
            assert verdict(rule, *replay(100, 140, 140, message)) in (Status.INCONCLUSIVE, Status.PASS)


SWITCHES = ("reasoning-off", "reasoning-effort-none", "reasoning-hidden", "reasoning-unseparated")


def test_switches() -> None:
    """Any one that works will do; OpenAI refuses all but one, and engines pass over those of others."""
    rule = "reasoning.switches.accepted"
    base = thought(scenario="reasoning-plain")
    ignored = [thought("", finish="length", scenario=s) for s in SWITCHES]
    error = {"error": {"message": "unknown", "type": "invalid_request_error", "param": None, "code": None}}
    refused = [plain(error, status=400, scenario=s, tags={"optional": "a switch"}) for s in SWITCHES]
    assert verdict(rule, base, *ignored) is Status.FAIL
    assert verdict(rule, base, *ignored[:3], plain(scenario=SWITCHES[3])) is Status.PASS
    assert verdict(rule, base, *refused) is Status.UNSUPPORTED
    assert verdict(rule, base, *refused[:3], ignored[3]) is Status.FAIL
    crashed = plain(error, status=500, scenario=SWITCHES[0])
    assert verdict(rule, base, crashed, *refused[1:]) is Status.FAIL
    assert verdict(rule, plain(scenario="reasoning-plain"), *ignored) is Status.INCONCLUSIVE


def sweep(*answers: tuple[Any, Any], base: Exchange | None = None) -> tuple[Exchange, ...]:
    """The whole answer, and cut ones as (content, reasoning)."""
    cut = [
        thought(content, reasoning, "length", scenario="reasoning-sweep", step=f"plain-{n}", spent=24, tokens=24)
        for n, (content, reasoning) in enumerate(answers)
    ]
    return (base or thought(scenario="reasoning-plain"), *cut)


def test_sweep() -> None:
    """B2-180."""
    rule = "reasoning.cut.sweep"
    assert verdict(rule, *sweep(("", "One"), (None, "One plus one"))) is Status.PASS
    assert verdict(rule, *sweep(("", "One"), ("One plus one", None))) is Status.FAIL
    assert verdict(rule, *sweep(("plus one", "One"))) is Status.FAIL
    assert verdict(rule, *sweep(("tw", THOUGHT), ("", "One"))) is Status.PASS
    assert verdict(rule, *sweep(("tw", None))) is Status.PASS, "not the thought: the model may have had none here"
    assert verdict(rule, *sweep(("", "Another thought"))) is Status.INCONCLUSIVE
    tagged = sweep(("<think>One", None), ("", "One"))
    assert verdict(rule, *tagged) is Status.PASS and "reasoning.content.no-tags" in broken(*tagged, areas=AREAS)
    refused = plain({"error": {"message": "limit"}}, status=400, scenario="reasoning-sweep", step="plain-1")
    assert verdict(rule, *sweep(("", "One")), refused) is Status.FAIL
    broke = stream({"error": {"message": "limit"}}, scenario="reasoning-sweep", step="stream-1")
    assert verdict(rule, *sweep(("", "One")), broke) is Status.PASS, "an error event has rules of its own"
    assert verdict(rule, *sweep(("", "One"), base=plain(scenario="reasoning-plain"))) is Status.INCONCLUSIVE


ODD: list[Any] = [None, True, 7, 1.5, "x", [], ["x"], {}, {"reasoning": 1}, [None]]


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_odd_types_are_no_crash(value: Any) -> None:
    for name in ("reasoning", "reasoning_content", "content", "tool_calls"):
        message = {"role": "assistant", "content": "two", "reasoning": THOUGHT, name: value}
        for request in ({}, JSON_FORM, TOOLS, {"chat_template_kwargs": value}, {"reasoning_effort": value}):
            broken(plain(completion(message), request), stream(chunk({name: value}), request=request), areas=AREAS)
    for body in (completion(value), completion("x", usage=value), completion("x", choices=value), {"choices": [value]}):
        broken(plain(body, scenario="reasoning-plain"), areas=AREAS)
        broken(*sweep(("", "One")), plain(body, scenario="reasoning-sweep", step="plain-9"), areas=AREAS)
    details = {**usage(), "completion_tokens_details": value}
    broken(thought(message={}), plain(completion("x", usage=details)), areas=AREAS)
    broken(stream(chunk(value), envelope(value), envelope([value])), areas=AREAS)
    broken(plain(request={"messages": value}), plain(request={"messages": [value]}), areas=AREAS)


def test_an_answer_that_is_all_thought() -> None:
    """A model that does not think, behind a parser for one that does."""
    rule = "reasoning.answer.not-swallowed"
    off = plain(completion("two"), scenario="reasoning-off")
    assert verdict(rule, thought("", "two", scenario="reasoning-plain"), off) is Status.FAIL
    assert verdict(rule, thought(None, "Is it two", scenario="reasoning-plain"), off) is Status.PASS
    assert verdict(rule, thought(scenario="reasoning-plain"), off) is Status.PASS
    assert verdict(rule, plain(scenario="reasoning-plain"), off) is Status.INCONCLUSIVE
    cut = plain(completion("tw", "length"), scenario="reasoning-off")
    assert verdict(rule, thought("", "tw", scenario="reasoning-plain"), cut) is Status.INCONCLUSIVE
