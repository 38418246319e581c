"""The text around the calls of a stream: it has no markup, even if the call is cut off, or is in the history."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wireproof.judge.rules import MUST, SHOULD, Each, Twins, contract, each_of, engine, of, rule
from wireproof.read.call_markers import call_json, every, found, is_meant, partial_start
from wireproof.read.chat import Chat, is_answer, is_stream
from wireproof.read.exchange import Exchange
from wireproof.read.request import ToolChoiceKind as Asked
from wireproof.read.request import tool_choice, tools
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.chat import Choice

# A stream that is cut off inside a marker is compared with its plain twin.
_CUT_TWINS = ("tool-plain-cut-2", "tool-stream-cut-2")
_CUTS = ("tool-stream-cut-1", "tool-stream-cut-2", "tool-stream-cut-20", "tools-cut-stream")


def _texts(choice: Choice) -> list[str]:
    return [text for text in (choice.content, choice.refusal) if text]


def _half(text: str) -> str | None:
    """The beginning of a marker at the end of a text."""
    return None if found(text) else partial_start(text.rstrip())


@rule(
    "toolstream.content.no-markup",
    MUST,
    on=Each(
        "every chat stream of a request with tools",
        lambda x: is_stream(x) and bool(tools(x)),
        ("tools-auto-stream", "tools-required-stream", "tools-named-stream", *_CUTS),
    ),
    book="TOOLSTREAM-014",
    source=contract("markup is for the parser"),
)
def test_content_no_markup(x: Chat) -> None:
    """The server streams no tool-call markup as text, not even its beginning beside a call, nor a call as bare JSON.

    A parser that does not hold back half a marker shows "<tool_c" to users; without a parser, every client gets the
    call as text, and the agent ends there. (toolstream.content.no-markup-when-cut judges a choice that was cut off.)
    """
    _no_markup(x, [c for c in x.assembled.choices if c.finish_reason != "length"])


@rule(
    "toolstream.content.no-markup-when-cut",
    SHOULD,
    on=Each(
        "every chat stream of a request with tools",
        lambda x: is_stream(x) and bool(tools(x)),
        ("tools-auto-stream", "tools-required-stream", "tools-named-stream", *_CUTS),
    ),
    source=contract("a call cut by the limit on tokens is kept as a call, or dropped"),
)
def test_content_no_markup_when_cut(x: Chat) -> None:
    """The server does not stream a tool call that max_tokens cuts off as raw markup.

    A chat app shows its user "<tool_call>" and half a JSON text.
    """
    cut = [c for c in x.assembled.choices if c.finish_reason == "length"]
    if not cut:
        raise NotApplicable("nothing was cut off")
    _no_markup(x, cut)


def _no_markup(x: Exchange, choices: Sequence[Choice]) -> None:
    choice = tool_choice(x)
    if choice.kind in (Asked.NONE, Asked.UNKNOWN):
        raise NotApplicable("text that looks like a call is allowed here, or it is unknown what was asked")
    given = every(x.request.body.decode("utf-8", "replace"))
    for c in choices:
        for text in _texts(c):
            marker = found(text)
            called = bool(c.calls)  # then the parser left a marker, or half of one, behind
            meant = marker and (called or is_meant(text, marker, tools(x)))
            leak = marker if meant and every(text) - given else _half(text) if called else None
            require(leak is None, "no call markup in the text", got=text, at=c.parts[-1])
            bare = call_json(text, tools(x))
            spoken = bare and text.strip() in str(x.asked.get("messages"))
            require(not bare or spoken, f"a call to {bare} in tool_calls", got=f"as text: {text}", at=c.parts[-1])


@rule(
    "toolstream.marker.split",
    MUST,
    on=Twins(
        "the same question for a tool, plain and streamed",
        is_answer,
        ("tools-auto", "tools-auto-stream", *_CUT_TWINS),
    ),
    source=engine("vllm", "issue 57490", "https://github.com/vllm-project/vllm/issues/57490"),
)
def test_marker_split(plain: Chat, stream: Chat) -> None:
    """The stream does not lose a call of the plain answer because its marker comes in two pieces, one of them as text.

    The agent ends with "<|action" as its answer. (toolstream.content.no-markup judges a whole marker as text.)
    """
    before = {o.index: o for o in plain.outcomes if isinstance(o.index, int)}
    judged = False
    for choice in stream.finished_stream.choices:
        twin = before.get(choice.index)
        if twin is not None and twin.calls:
            judged = True
            half = next((text for text in _texts(choice) if _half(text)), None)
            require(choice.calls or half is None, "the call of the plain answer", got=f"text {half!r}", owner=stream)
    if not judged:
        raise inconclusive("the plain answer has no tool call")


@rule(
    "toolstream.cut.well-formed",
    MUST,
    on=of("tool-stream-long", *_CUTS),
    source=engine("vllm", "issue 37937", "https://github.com/vllm-project/vllm/issues/37937"),
)
def test_cut_well_formed(whole: Chat, *cut: Chat) -> None:
    """A stream that the token limit cuts off inside a tool call ends normally, without an error event.

    If the parser stumbles over half a call, agents see an APIError and send the same request again. (The stream's
    finish_reason and [DONE], and a 5xx, have rules of their own.)
    """
    _ = whole.finished_stream  # if even this stream fails, the cut is not the cause
    for x in cut:
        if x.is_event_stream and x.errors:
            require(False, "a stream that ends with length", got=x.errors[0].event.data, at=x.errors[0], owner=x)
    for x in cut:
        _ = x.finished_stream


# How servers that render the calls of the history as text write them: the model copies that.
_RENDERED = re.compile(r"\bread_gauge\s*\(|\"name\"\s*:\s*\"read_gauge\"|call_gauge_1")


@rule(
    "toolstream.history.no-leak",
    MUST,
    on=each_of("tool-stream-history"),
    source=engine("Rapid-MLX", "issue 1592", "https://github.com/raullenchai/Rapid-MLX/issues/1592"),
)
def test_history_no_leak(x: Chat) -> None:
    """After a tool result, the streamed text has no call in it, neither as markup nor as the history shows it.

    Users see `read_gauge({...})` in the chat, from the second turn on, and only when streaming.
    """
    for choice in x.finished_stream.choices:
        for text in _texts(choice):
            rendered = _RENDERED.search(text)
            leaked = found(text) or (rendered.group() if rendered else None)
            require(leaked is None, "an answer without call text", got=text, at=choice.parts[-1])
