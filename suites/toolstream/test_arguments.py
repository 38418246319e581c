"""What the fragments of a call add up to: one JSON text, sent as it is generated, the same as without streaming."""

from __future__ import annotations

from typing import Any

from wireproof.judge.rules import MUST, SHOULD, Each, Twins, client, contract, each_of, engine, rule
from wireproof.read.chat import Chat, is_answer, is_stream
from wireproof.read.exchange import Exchange
from wireproof.read.request import tool_choice, tools
from wireproof.read.tool_calls import (
    Call,
    Fragment,
    calls,
    fragments,
    joinable,
    made_calls,
    maybe_cut,
    needs_nothing,
    streamed_calls,
    torn,
)
from wireproof.verdict import inconclusive, require
from wireproof.wire import strictjson
from wireproof.wire.strictjson import get, is_int

# Arguments of this many characters can come in several fragments.
_LONG, _FRAGMENTS = 100, 3


CALLS = Each(
    "every chat stream with tool calls that have an index",
    lambda x: is_stream(x) and bool(streamed_calls(x)),
    ("tools-required-stream", "tools-named-stream", "tool-stream-long", "parallel-stream"),
)
TWINS = Twins(
    "the same tool call at temperature 0, plain and streamed",
    is_answer,
    (
        *("tools-required", "tools-required-stream", "tools-named", "tools-named-stream"),
        *("tool-schema-strict", "tool-schema-strict-stream", "parallel-plain", "parallel-stream"),
    ),
)


def _said(call: list[Fragment], name: str) -> list[str]:
    """A member of the function, from each fragment that has some of it."""
    found = (get(f.value, "function", name) for f in call)
    return [text for text in found if isinstance(text, str) and text]


def _cumulative(pieces: list[str]) -> bool:
    """Whether a fragment begins with all the text before it."""
    so_far = ""
    for piece in pieces:
        if len(so_far) > 1 and piece.startswith(so_far):
            return True
        so_far += piece
    return False


def _twice(text: str) -> bool:
    """Whether a text is several JSON objects in a row."""
    first = text.find("}{")
    return first > 0 and strictjson.parse(text[: first + 1]).ok


def _held(x: Exchange, name: str) -> bool:
    """Whether the server, and not only the model, ensures that the arguments are JSON."""
    tool = tools(x).get(name)
    return tool_choice(x).forced or (tool is not None and tool.strict)


def _ended(x: Chat, call: list[Fragment]) -> bool:
    choice = next((c for c in x.assembled.choices if c.index == call[0].part.index), None)
    return choice is not None and choice.finish_reason in ("tool_calls", "stop", "function_call")


def _misjoined(x: Chat, call: list[Fragment]) -> str | None:
    """What is wrong with the joined arguments of a complete call; None if nothing."""
    pieces = _said(call, "arguments")
    text = "".join(pieces)
    if not joinable(call) or not _ended(x, call) or strictjson.parse(text).ok:
        return None
    cut = maybe_cut(x)
    name = next(iter(_said(call, "name")), "")
    if not text:  # several calls, and functions without parameters, have rules of their own
        alone = len(streamed_calls(x)) == 1 and not _needs_nothing(x, name)
        return "no arguments at all" if alone and name in tools(x) and tool_choice(x).forced and not cut else None
    if _cumulative(pieces):
        return f"fragments that repeat what came before: {text}"
    if _twice(text):
        return f"the arguments twice: {text}"
    # A free model may write anything; a call that the limit may have cut off is not complete.
    return text if _held(x, name) and not cut else None


@rule(
    "toolstream.arguments.one-json",
    MUST,
    on=CALLS,
    book="TOOLSTREAM-009",
    source=contract("arguments fragments are joined by index"),
    evidence=("tool_cumulative_args",),
)
def test_one_json(x: Chat) -> None:
    """The arguments of a call, joined in order, are one JSON text: nothing is repeated, nothing is missing.

    Every client joins them. If fragments repeat the text so far, the tool call fails with a JSON error. (What a model
    writes without a constraint to JSON is not the stream's fault.)
    """
    _ = x.finished_stream
    for call in streamed_calls(x):
        wrong = _misjoined(x, call)
        require(wrong is None, "arguments that join into one JSON text", got=wrong, at=call[-1].part)


# A free model may write half a JSON text, so this is not a MUST; but a parser that takes it for a call has usually
# lost the other half itself.
@rule(
    "toolstream.arguments.whole-in-auto",
    SHOULD,
    on=Each(CALLS.what, CALLS.match, ("tools-auto-stream", "tool-two-calls-stream")),
    source=engine("vllm", "issue 48702", "https://github.com/vllm-project/vllm/issues/48702"),
)
def test_whole_in_auto(x: Chat) -> None:
    """The arguments of a call that the model chose to make join into one JSON text if the choice ends by itself.

    Parsers that work on partial JSON lose closing brackets, or values: the call fails in json.loads.
    """
    _ = x.finished_stream
    for call in streamed_calls(x):
        text = "".join(_said(call, "arguments"))
        fine = not text or strictjson.parse(text).ok or not joinable(call) or not _ended(x, call) or maybe_cut(x)
        if not fine and _misjoined(x, call) is None:
            require(False, "arguments that join into one JSON text", got=text, at=call[-1].part)


@rule(
    "toolstream.arguments.incremental",
    SHOULD,
    on=each_of("tool-stream-long"),
    book="TOOLSTREAM-011",
    source=contract("arguments are streamed as they are generated"),
)
def test_incremental(x: Chat) -> None:
    """Long arguments come in several fragments.

    In one piece at the end, they mean a long silence: interfaces that show a file as it is written show nothing.
    """
    found = [f for f in fragments(x) if isinstance(text := get(f.value, "function", "arguments"), str) and text]
    if sum(len(get(f.value, "function", "arguments")) for f in found) < _LONG:
        raise inconclusive("the answer has no long arguments")
    require(len(found) >= _FRAGMENTS, f"{_FRAGMENTS} fragments or more", got=len(found), at=found[-1].part)


def _needs_nothing(x: Exchange, name: Any) -> bool:
    tool = tools(x).get(name) if isinstance(name, str) else None
    return tool is not None and needs_nothing(tool)


def _calls_without_parameters(x: Exchange) -> bool:
    return is_stream(x) and any(_needs_nothing(x, c.name) for choice in x.assembled.choices for c in choice.calls)


_WITHOUT_PARAMETERS = Each(
    "every streamed call to a function without parameters", _calls_without_parameters, ("tool-no-parameters-stream",)
)


@rule(
    "toolstream.arguments.empty-object",
    SHOULD,
    on=Each(
        "every streamed call to a function without parameters",
        _calls_without_parameters,
        ("tool-no-parameters-stream",),
    ),
    book="TOOLSTREAM-016",
    source=client("LlamaIndex", "json.loads of the arguments"),
    evidence=("tool_no_args_at_all",),
)
def test_empty_object(x: Chat) -> None:
    """The arguments of a call to a function that needs none are "{}", not "".

    `json.loads("")` raises in aichat, Open WebUI and LlamaIndex; others drop the call.
    """
    joined = all(joinable(call) for call in streamed_calls(x))
    for call in made_calls(x):
        if call.complete and _needs_nothing(x, call.name) and joined:
            require(call.arguments != "", "{} as arguments", got='""', at=call.part)


def _comparable(x: Exchange, call: Call) -> Any:
    """What a call's arguments mean: the value if they are JSON, else the text."""
    if not isinstance(call.arguments, str):
        raise inconclusive("a call's arguments are not a string: other rules judge that")
    if "\ufffd" in call.arguments or strictjson.has_lone_surrogate(call.arguments):
        raise inconclusive("the arguments have broken characters: other rules judge that")
    if not call.arguments and _needs_nothing(x, call.name):
        return {}
    return call.parsed.value if call.parsed.ok else call.arguments


def _skip_condemned(stream: Chat) -> None:
    """Do not compare a stream whose calls cannot be joined correctly for a reason that another rule judges."""
    if torn(stream):
        raise inconclusive("an event is not JSON")
    for choice in stream.finished_stream.choices:
        if any(call.index is None for call in choice.calls):
            raise inconclusive("a call has no index")
    for call in streamed_calls(stream):
        if not joinable(call) or len(_said(call, "name")) != 1:
            raise inconclusive("the fragments of a call cannot be joined")
        if _misjoined(stream, call):
            raise inconclusive("the arguments do not join into JSON")


def _by_choice(x: Chat) -> dict[int, list[Call]]:
    out: dict[int, list[Call]] = {}
    for call in calls(x):
        if is_int(call.choice):
            out.setdefault(call.choice, []).append(call)
    return out


@rule(
    "toolstream.parity.with-plain",
    SHOULD,
    on=TWINS,
    book="TOOLSTREAM-018",
    source=contract("stream and plain agree"),
)
def test_parity_with_plain(plain: Chat, stream: Chat) -> None:
    """The same request at temperature 0 gives the same tool calls, streamed and plain: number, names, arguments.

    Two parsers drift apart: in one mode only, the agent calls the tool without its input. (chunk.parity.with-plain
    judges calls in one mode and none in the other.)
    """
    _skip_condemned(stream)
    there, here = _by_choice(plain), _by_choice(stream)
    compared = 0
    for index in there.keys() & here.keys():
        pair = there[index], here[index]
        if not all(call.complete for found in pair for call in found):
            continue
        names, got = ([c.name for c in found] for found in pair)
        if len(set(got)) == 1 and set(names) == set(got) and 1 in (len(names), len(got)) and len(names) != len(got):
            raise inconclusive("one call to a function stands for several: parallel.same-function.twice judges that")
        require(got == names, f"calls to {names} as without streaming", got=got, owner=stream)
        for want, have in zip(*pair, strict=True):
            if len(names) > 1 and have.arguments == "":
                raise inconclusive("a call has no arguments: parallel.call.complete judges that")
            same = _comparable(stream, have) == _comparable(plain, want)
            require(same, f"{want.arguments} as without streaming", got=have.arguments, at=have.part, owner=stream)
            compared += 1
    if not compared:
        raise inconclusive("no choice has complete tool calls in both modes")
