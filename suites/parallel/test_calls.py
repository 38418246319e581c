"""Several calls in one answer, and parallel_tool_calls."""

from __future__ import annotations

from collections import Counter
from typing import Any

from wireproof.judge.rules import MUST, SHOULD, Each, Twins, contract, of, openapi, rule
from wireproof.read import call_markers
from wireproof.read.chat import Chat, is_answer, is_chat
from wireproof.read.exchange import Exchange
from wireproof.read.refusal import must_be_judged
from wireproof.read.request import tools
from wireproof.read.tool_calls import Call, calls, joinable, made_calls, shares_index, streamed_calls, torn
from wireproof.verdict import Inconclusive, Unsupported, inconclusive, require
from wireproof.wire.strictjson import get, is_int

_TWO = ("parallel-plain", "parallel-stream")
_SAME = ("tool-two-calls", "tool-two-calls-stream")


def _by_choice(x: Chat) -> dict[Any, list[Call]]:
    out: dict[Any, list[Call]] = {}
    for call in calls(x):
        out.setdefault(call.choice if is_int(call.choice) else None, []).append(call)
    return out


def _several(x: Exchange) -> bool:
    """Whether a choice has two calls or more."""
    try:
        return is_answer(x) and any(len(found) > 1 for found in _by_choice(x).values())
    except (Inconclusive, Unsupported):
        return False


def _left_in_text(x: Chat, called: list[Call]) -> str | None:
    """The text of an answer, if it holds another call besides the one that was parsed."""
    other = [name for name in tools(x) if name not in [c.name for c in called]]
    for outcome in x.outcomes:
        text = outcome.content if isinstance(outcome.content, str) else ""
        if call_markers.found(text) or any(name in text and ("{" in text or "(" in text) for name in other):
            return text
    return None


@rule(
    "parallel.calls.possible",
    MUST,
    on=Each(
        "every answer that has several calls, or was asked for them", lambda x: x.scenario in _TWO or _several(x), _TWO
    ),
    book="PARALLEL-001",
    source=openapi("ParallelToolCalls: default true"),
)
def test_calls_possible(x: Chat) -> None:
    """An answer can have several tool calls: the server leaves none that the model writes in the text.

    Agents that fan out lose the second action, and users see its markup.
    """
    called = made_calls(x)
    if len(called) == 1:
        left = _left_in_text(x, called)
        require(left is None, "two tool calls", got=f"one, and the text {left!r}", at=called[0].part)
        raise inconclusive("the model made only one call")


@rule(
    "parallel.false.at-most-one",
    MUST,
    on=Each(
        "every answer to a request with parallel_tool_calls false",
        lambda x: is_answer(x) and x.asked.get("parallel_tool_calls") is False,
        ("parallel-false", "parallel-false-stream", "parallel-false-auto"),
    ),
    book="PARALLEL-002",
    source=openapi("ParallelToolCalls"),
)
def test_false_at_most_one(x: Chat) -> None:
    """With parallel_tool_calls false, an answer has at most one tool call.

    LangChain's with_structured_output and LlamaIndex send it and read only the first call; agents that work step by
    step run calls that they did not want.
    """
    found = _by_choice(x)
    for called in found.values():
        require(len(called) < 2, "at most one tool call", got=f"{len(called)} calls", at=called[-1].part)
    if not found:
        raise inconclusive("the answer has no tool call")


@rule(
    "parallel.flag.no-5xx",
    MUST,
    on=Each(
        "every chat request with parallel_tool_calls true or false",
        lambda x: is_chat(x) and isinstance(x.asked.get("parallel_tool_calls"), bool) and x.response is not None,
        ("parallel-flag-true-no-tools", "parallel-flag-false-no-tools", "parallel-false", "parallel-plain"),
    ),
    book="PARALLEL-003",
    source=openapi("ParallelToolCalls"),
)
def test_flag_no_5xx(x: Exchange) -> None:
    """The server accepts parallel_tool_calls, with or without tools, or refuses it with a 4xx; it never sends a 5xx.

    Clients attach it to every request, and retry twice after a 5xx.
    """
    must_be_judged(x)
    require((x.answered.status or 200) < 500, "200 or a 4xx", got=x.refusal())


@rule(
    "parallel.call.complete",
    MUST,
    on=Each("every answer with several tool calls", _several, (*_TWO, *_SAME)),
    book="PARALLEL-007",
    source=openapi("ChatCompletionMessageToolCall"),
    evidence=("par_same_id",),
)
def test_call_complete(x: Chat) -> None:
    """Each of several calls has its own arguments: they are not empty if the function requires some.

    A parser that keeps one buffer for all calls gives the arguments to one of them. (tool.id.unique-in-answer judges
    whether ids differ.)
    """
    if not all(joinable(call) for call in (streamed_calls(x) if x.is_event_stream else ())):
        raise inconclusive("the fragments of a call cannot be joined")
    for called in _by_choice(x).values():
        for call in called if len(called) > 1 else ():
            tool = tools(x).get(call.name) if isinstance(call.name, str) else None
            if tool is not None and get(tool.parameters, "required") and call.complete:
                require(call.arguments != "", f"arguments for {call.name}", got='""', at=call.part)


@rule(
    "parallel.history.any-order",
    MUST,
    on=of("parallel-history", "parallel-history-swapped"),
    book="PARALLEL-008",
    source=openapi("ChatCompletionRequestToolMessage"),
)
def test_history_any_order(in_order: Exchange, swapped: Exchange) -> None:
    """The server accepts the results of several calls in any order.

    Tools that run at the same time finish in any order, and agents send the results as they arrive.
    """
    if not in_order.ok:
        raise in_order.refused()
    must_be_judged(swapped)
    require(swapped.ok, "200, as for results in the order of the calls", got=swapped.refusal(), owner=swapped)


def _repeated(called: list[Call]) -> Counter[Any]:
    """How often each function is called with different arguments, if more than once."""
    counts = Counter(name for name, _ in {(str(c.name), str(c.arguments)) for c in called})
    return Counter({name: count for name, count in counts.items() if count > 1})


@rule(
    "parallel.same-function.twice",
    SHOULD,
    on=Twins("the same question for several calls, plain and streamed", is_answer, _SAME),
    book="PARALLEL-009",
    source=contract("parallel tool calls"),
)
def test_same_function_twice(plain: Chat, stream: Chat) -> None:
    """An answer can call the same function twice: the server drops neither call as a duplicate, streamed or plain.

    Otherwise the weather of the second city never arrives.
    """
    there, here = _by_choice(plain), _by_choice(stream)
    if torn(stream) or any(shares_index(call) for call in streamed_calls(stream)):
        raise inconclusive("the calls of the stream cannot be told apart: other rules judge that")
    if not all(call.complete for found in (*there.values(), *here.values()) for call in found):
        raise inconclusive("an answer was cut off")
    judged = False
    for index in there.keys() & here.keys():
        for name in _repeated(there[index]) | _repeated(here[index]):
            judged = True
            for called, other, x in ((there[index], here[index], plain), (here[index], there[index], stream)):
                mine, theirs = (sum(1 for c in found if c.name == name) for found in (called, other))
                dropped = mine == 1 and theirs > 1
                require(not dropped, f"{theirs} calls to {name}, as in the other mode", got="one", owner=x)
    if not judged:
        raise inconclusive("no function was called twice with different arguments")
