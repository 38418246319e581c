"""The tool calls of a message: their shape, their ids, and the content beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wireproof.judge.rules import MUST, SHOULD, Across, Each, client, contract, observed, openapi, rule
from wireproof.read.call_markers import call_json, every, found, is_meant
from wireproof.read.chat import Chat, is_answer, is_plain
from wireproof.read.exchange import Exchange
from wireproof.read.request import ToolChoiceKind, tool_choice, tools
from wireproof.read.tool_calls import Call, calls, made_calls
from wireproof.verdict import Inconclusive, NotApplicable, Unsupported, inconclusive, require
from wireproof.wire.strictjson import get

_CALLED = ("tools-required", "tools-named", "tool-required-against", "tool-named-other", "tool-two-calls")
_PLAIN = Each(
    "every plain answer to a request with tools",
    lambda x: is_plain(x) and bool(tools(x)),
    (*_CALLED, "tools-auto", "tools-cut", "tool-none-markup"),
)
_ANY = Each(
    "every plain answer with tool calls",
    lambda x: is_plain(x) and b'"tool_calls"' in x.answered.content,
    _CALLED,
)
_SEVERAL = Each(
    "every answer with tool calls",
    lambda x: is_answer(x) and b'"tool_calls"' in x.answered.content,
    ("tool-two-calls", "tool-two-calls-stream"),
)
_ACROSS = Across(
    "all answers with tool calls", _SEVERAL.match, (*_CALLED, "tool-named-other-stream", "tool-two-calls-stream")
)


def _entries(x: Chat) -> list[Any]:
    """Every entry of every message's `tool_calls`, of any type; a value that is not a list counts as an entry."""
    values = [get(choice, "message", "tool_calls") for choice in x.plain_choices]
    out = [e for v in values if v is not None for e in (v if isinstance(v, list) else [v])]
    if not out:
        raise inconclusive("the answer has no tool call")
    return out


def _text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


@rule(
    "tool.call.shape",
    MUST,
    on=_ANY,
    book="TOOL-007",
    source=openapi("ChatCompletionMessageToolCall.required"),
    evidence=("ns_tool_no_id", "ns_tool_no_type", "ns_tool_good"),
)
def test_shape(x: Chat) -> None:
    """Each entry of tool_calls has a non-empty id, type "function" and a function with a name.

    Without an id, the client cannot send the result back (LangChain's create_agent and openai-agents raise, Crush CLI
    got stuck); without a type, openai-node skips the call.
    """
    for entry in _entries(x):
        if get(entry, "type") == "custom":
            continue
        require(isinstance(entry, dict), "an object in `tool_calls`", got=entry)
        require(_text(entry.get("id")), "a string in `id`", got=repr(entry.get("id", "absent")))
        require(entry.get("type") == "function", "function as `type`", got=repr(entry.get("type", "absent")))
        name = get(entry, "function", "name")
        require(_text(name), "a string in `function.name`", got=repr(entry.get("function", "absent")))


def _ids(found: Sequence[Call]) -> list[str]:
    return [c.id for c in found if _text(c.id)]


@rule(
    "tool.id.unique-in-answer",
    MUST,
    on=_SEVERAL,
    book="TOOL-015",
    source=openapi("tool_calls[].id: the id of the tool call"),
    evidence=("par_same_id",),
)
def test_unique_in_answer(x: Chat) -> None:
    """The tool calls of one message have different ids.

    Clients match results by id: both calls get the result of one of them.
    """
    made = made_calls(x)
    if len(made) < 2:
        raise inconclusive("the model made only one call")
    by_choice: dict[Any, set[str]] = {}
    for call in made:
        seen = by_choice.setdefault(repr(call.choice), set())
        if _text(call.id):
            require(call.id not in seen, "another id for each call", got=f"{call.id} twice", at=call.part)
            seen.add(call.id)


# No source promises this: once a call is answered, a careful client can tell apart a later call with the same id.
@rule(
    "tool.id.unique-across-answers",
    SHOULD,
    on=_ACROSS,
    book="TOOL-016",
    source=observed("ids are random; some clients need them unique over a conversation"),
)
def test_unique_across_answers(answers: Sequence[Chat]) -> None:
    """No tool call reuses the id of a call in another answer.

    Hermes agent dropped 196 of 374 results because ids started over each turn; Qwen Code blocked every later call.
    """
    owners: dict[str, Exchange] = {}
    answered = 0
    for x in answers:
        try:
            ids = set(_ids(calls(x)))
        except (Inconclusive, Unsupported, NotApplicable):
            continue
        answered += bool(ids)
        for call_id in ids:
            first = owners.setdefault(call_id, x)
            same = f"{call_id} again, as in {first.scenario}"
            require(first is x, "an id that no other answer used", got=same, owner=x)
    if answered < 2:
        raise inconclusive("fewer than two answers have tool calls")


@rule(
    "tool.content.no-markup",
    MUST,
    on=_PLAIN,
    book="TOOL-014",
    source=client("all", "calls that stay text are seen by none"),
)
def test_no_markup(x: Chat) -> None:
    """The content has no raw tool-call markup, nor a call as bare JSON.

    With a wrong or missing tool parser, every client sees text and finish_reason "stop": the agent ends with
    <tool_call> as its answer. (tool.content.no-markup-when-cut judges a choice that was cut off.)
    """
    _no_markup(x, [c for c in x.plain_choices if c.get("finish_reason") != "length"])


# A server may keep or drop a call that was cut off: "length" tells the agent that the answer is incomplete.
@rule(
    "tool.content.no-markup-when-cut",
    SHOULD,
    on=_PLAIN,
    source=contract("a call cut by the limit on tokens is kept as a call, or dropped"),
)
def test_no_markup_when_cut(x: Chat) -> None:
    """A tool call that max_tokens cuts off does not appear as raw markup in the content.

    A chat app shows its user "<tool_call>" and half a JSON text; the streamed answer usually has neither.
    """
    cut = [c for c in x.plain_choices if c.get("finish_reason") == "length"]
    if not cut:
        raise NotApplicable("nothing was cut off")
    _no_markup(x, cut)


def _no_markup(x: Exchange, choices: Sequence[dict[str, Any]]) -> None:
    choice = tool_choice(x)
    if choice.kind in (ToolChoiceKind.NONE, ToolChoiceKind.UNKNOWN):
        raise NotApplicable("text that looks like a call is allowed here, or it is unknown what was asked")
    declared = tools(x)
    for c in choices:
        text = get(c, "message", "content")
        if not isinstance(text, str):
            continue
        marker = found(text)
        if marker and every(text) - every(x.request.body.decode("utf-8", "replace")):
            called = bool(get(c, "message", "tool_calls"))  # then the parser left the marker behind
            meant = called or is_meant(text, marker, declared)
            require(not meant, "no call markup in `content`", got=text[max(0, text.find(marker) - 20) :])
        bare = call_json(text, declared)
        if bare and text.strip() not in str(x.asked.get("messages")):
            require(False, f"a call to {bare} in `tool_calls`", got=f"as text in `content`: {text}")
