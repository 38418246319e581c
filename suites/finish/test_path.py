"""Which finish_reason belongs to which end: by itself, at the limit, with calls."""

from __future__ import annotations

import json
from typing import Any

from wireproof.judge.rules import MUST, SHOULD, Each, contract, each_of, observed, openapi, rule
from wireproof.judge.subjects import ANSWERS
from wireproof.read.chat import Chat, ChoiceResult, is_answer
from wireproof.read.exchange import Exchange
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get, is_int, parse

# The answer of the pinned scenarios, and where their stop strings cut it.
_PINNED = "alpha beta gamma delta epsilon"
# A forced call of our scenarios cannot be complete within this many tokens.
_SURELY_CUT = 16

_FORCED_NOTE = "https://community.openai.com/t/731488/13"


def _choice(x: Exchange) -> Any:
    return x.asked.get("tool_choice")


def _is_named(x: Exchange) -> bool:
    return get(_choice(x), "type") == "function" and bool(x.asked.get("tools"))


_NAMED = Each(
    "every answer to a named tool choice",
    lambda x: is_answer(x) and _is_named(x),
    ("tools-named", "tools-named-stream"),
)
_REQUIRED = Each(
    "every answer to tool_choice required",
    lambda x: is_answer(x) and _choice(x) == "required" and bool(x.asked.get("tools")),
    ("tools-required", "tools-required-stream", "tools-required-n2-stream"),
)
_WITH_TOOLS = Each(
    "every answer to a request with tools and a token limit",
    lambda x: is_answer(x) and bool(x.asked.get("tools")) and x.token_limit is not None,
    ("tools-cut", "tools-cut-stream", "tools-required"),
)
_FREE_AND_FORCED = Each(
    ANSWERS.what,
    ANSWERS.match,
    (
        *("tools-auto-none-needed", "tools-auto-none-needed-stream", "tools-auto", "tools-auto-stream"),
        *("tools-required", "tools-named", "plain-pinned", "stream-pinned"),
    ),
)
_CUT = (
    *("plain-cut", "stream-cut", "plain-cut-one", "stream-cut-one", "plain-n3-cut", "stream-n3-cut"),
    *("plain-cut-completion-tokens", "stream-cut-completion-tokens"),
)
_ENDS = {
    "plain-pinned": _PINNED,
    "stream-pinned": _PINNED,
    "plain-stop": "alpha beta gam",
    "stream-stop": "alpha beta gam",
    "plain-stop-one-string": "alpha beta ",
    "stream-stop-one-string": "alpha beta ",
}


def _tokens(x: Chat) -> int | None:
    """completion_tokens of the answer, if given (usage that a stream sends unasked does not count)."""
    if x.is_event_stream and not x.asked_usage:
        return None
    found = (x.usage or {}).get("completion_tokens")
    return found if is_int(found) else None


def _once(x: Chat) -> list[ChoiceResult]:
    """The outcomes of an answer whose choices finished once; finish.stream.once judges the others."""
    if x.is_event_stream and any(len(c.finishes) > 1 for c in x.finished_stream.choices):
        raise inconclusive("a choice has several values of finish_reason")
    return x.outcomes


def _is_json(arguments: Any, *, needed: bool) -> bool:
    """Whether arguments are a whole JSON text; an empty string will do where no argument is needed."""
    if not isinstance(arguments, str):
        return True  # the type is judged by the rules for tool calls
    try:
        json.loads(arguments if arguments or needed else "{}")
    except (ValueError, RecursionError):
        return False
    return True


@rule(
    "finish.stop.by-itself-or-stop",
    MUST,
    on=each_of(*_ENDS),
    book="FINISH-005",
    source=openapi("finish_reason: stop"),
)
def test_stop(x: Chat) -> None:
    """finish_reason is "stop" when the answer ends by itself or at a stop string.

    Callers take "length" for a cut, and ask for a continuation that does not exist.
    """
    for o in _once(x):
        text = o.content if isinstance(o.content, str) else ""
        whole = text.endswith(_ENDS[x.scenario]) if x.asked.get("stop") else get(parse(text).value, "text") == _PINNED
        if not whole:
            raise inconclusive(f"the answer did not end where it should: {text[-40:]!r}")
        # tool_calls without a call, function_call, content_filter and null are judged by rules of their own.
        require(o.finish_reason != "length", "stop", got=o.finish_reason)


@rule(
    "finish.length.when-cut",
    MUST,
    on=each_of(*_CUT),
    book="FINISH-006",
    source=openapi("finish_reason: length"),
)
def test_length_when_cut(x: Chat) -> None:
    """finish_reason is "length" when the token limit cuts the answer off.

    Nothing else shows the cut: openai-python's .parse() raises LengthFinishReasonError only on "length",
    and without it continuation logic never starts.
    """
    tokens, limit = _tokens(x), x.token_limit
    if tokens is None or limit is None:
        raise inconclusive("no usage says whether the limit was reached")
    if tokens < limit * x.asked_n:
        raise inconclusive(f"the model ended by itself after {tokens} tokens")
    for o in _once(x):
        require(o.finish_reason not in ("stop", "tool_calls"), f"length after {tokens} tokens", got=o.finish_reason)


@rule(
    "finish.tool-calls.iff-called",
    MUST,
    on=_FREE_AND_FORCED,
    book="FINISH-007",
    source=contract("finish_reason tells the agent loop to run tools"),
)
def test_tool_calls_iff_called(x: Chat) -> None:
    """finish_reason is "tool_calls" only if the answer has a tool call.

    Agent loops branch on it: "tool_calls" without calls crashes them, or makes them ask again endlessly.
    """
    if x.is_event_stream is False and not all(isinstance(c.get("message"), dict) for c in x.plain_choices):
        raise inconclusive("a choice has no message: choice.members.present judges that")
    for o in _once(x):
        if o.finish_reason == "tool_calls":
            require(o.calls, "a tool call with finish_reason tool_calls", got="none")


# api.openai.com itself sometimes ended free calls with "stop": that breaks clients, but not the contract.
@rule(
    "finish.tool-calls.when-called",
    SHOULD,
    on=_FREE_AND_FORCED,
    source=observed("finish_reason tool_calls when the model called a tool; stop was seen now and then"),
)
def test_tool_calls_when_called(x: Chat) -> None:
    """When the model calls a tool without being forced to, finish_reason is "tool_calls".

    "stop" ends the agent loop before it makes the calls. A forced call may end with "stop", as OpenAI's do.
    """
    if _choice(x) not in (None, "auto"):
        raise NotApplicable("the call was forced, or forbidden")
    for o in _once(x):
        if o.calls:
            require(o.finish_reason != "stop", "tool_calls, as there are tool calls", got=o.finish_reason)


def _check_forced(x: Chat, preferred: str) -> None:
    """`length` is right for a forced call only when the limit was really reached."""
    tokens, limit = _tokens(x), x.token_limit
    for o in _once(x):
        if o.finish_reason != "length" or x.asked_n > 1:
            continue
        if tokens is None or limit is None:
            raise NotApplicable("no usage says whether the limit was reached")
        require(tokens >= limit, preferred, got=f"length after {tokens} of {limit} tokens")


@rule(
    "finish.named.stop-or-tool-calls",
    SHOULD,
    on=_NAMED,
    book="FINISH-008",
    source=observed("OpenAI staff: stop after a forced function", _FORCED_NOTE),
    evidence=("tool_finish_stop",),
)
def test_named(x: Chat) -> None:
    """With a named tool choice, finish_reason is "stop" (OpenAI's way) or "tool_calls", unless the answer was cut off.

    Both are in use, so clients must accept both; "length" makes them throw away a whole call.
    """
    _check_forced(x, "stop or tool_calls")


@rule(
    "finish.required.tool-calls-or-stop",
    SHOULD,
    on=_REQUIRED,
    book="FINISH-009",
    source=observed("tool_calls, at first stop", _FORCED_NOTE),
)
def test_required(x: Chat) -> None:
    """With tool_choice required, finish_reason is "tool_calls" or "stop", unless the answer was cut off.

    tool_calls is preferred: loops that wait for it never run a call that ends with anything else.
    """
    _check_forced(x, "tool_calls or stop")


@rule(
    "finish.tool-calls.cut-is-length",
    MUST,
    on=_WITH_TOOLS,
    book="FINISH-010",
    source=openapi("finish_reason: length"),
)
def test_cut_call_is_length(x: Chat) -> None:
    """A tool call that the token limit cuts off ends with "length", not "tool_calls" or "stop".

    The arguments are half a JSON text: an agent that trusts the reason runs a truncated call, or crashes.
    """
    tokens, limit = _tokens(x), x.token_limit or 0
    forced = _is_named(x) or _choice(x) == "required"
    if x.asked_n > 1:
        raise NotApplicable("usage does not tell which of several choices was cut")
    if tokens is None and not (forced and limit <= _SURELY_CUT):
        raise inconclusive("no usage says whether the limit was reached")
    if tokens is not None and tokens < limit:
        raise NotApplicable("the answer was not cut")
    for o in _once(x):
        if tokens is None and not o.calls:
            raise inconclusive("there is no call, and no usage says whether the limit was reached")
        if _cut_call(x, o, forced):
            require(o.finish_reason not in ("tool_calls", "stop"), "length for a call cut off", got=o.finish_reason)


def _cut_call(x: Exchange, o: ChoiceResult, forced: bool) -> bool:
    """Whether a call is incomplete, or a forced one missing (a server may drop what was cut off)."""
    tools = x.asked.get("tools")
    needed = isinstance(tools, list) and all(get(t, "function", "parameters", "required") for t in tools)
    return any(not _is_json(arguments, needed=needed) for _, arguments in o.calls) or (forced and not o.calls)
