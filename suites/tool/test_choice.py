"""The server obeys tool_choice: none, auto, required, and the one function that it names."""

from __future__ import annotations

from wireproof.judge.rules import MUST, Each, contract, each_of, of, openapi, rule
from wireproof.read.chat import Chat, ChoiceResult, is_answer
from wireproof.read.exchange import Exchange
from wireproof.read.request import ToolChoiceKind, tool_choice, tools
from wireproof.read.tool_calls import Call, calls, made_calls, maybe_cut
from wireproof.verdict import inconclusive, require
from wireproof.wire.strictjson import get, is_int

_ENDS = ("stop", "tool_calls", "function_call")
# An answer of this many tokens has some text (the markers of a call, its name and its arguments).
_SURELY_TEXT = 10


def _asked(x: Exchange, kind: ToolChoiceKind) -> bool:
    return is_answer(x) and x.knows_request and bool(tools(x)) and tool_choice(x).kind is kind


_NONE = Each(
    "every answer to tool_choice none",
    lambda x: _asked(x, ToolChoiceKind.NONE),
    ("tool-none", "tool-none-stream", "tool-none-markup"),
)
_REQUIRED = Each(
    "every answer to tool_choice required",
    lambda x: _asked(x, ToolChoiceKind.REQUIRED) and not tool_choice(x).limited,
    ("tool-required-against", "tool-required-against-stream", "tools-required", "tools-required-stream"),
)
_NAMED = Each(
    "every answer to a named tool choice",
    lambda x: _asked(x, ToolChoiceKind.NAMED) and tool_choice(x).names <= set(tools(x)),
    ("tool-named-other", "tool-named-other-stream", "tools-named", "tools-named-stream"),
)
_DECLARED = Each(
    "every answer whose request is known",
    lambda x: is_answer(x) and x.knows_request and isinstance(x.asked.get("tools", []), list),
    ("tools-auto", "tool-required-against", "tool-named-other", "tool-two-calls"),
)


def _ended(x: Chat) -> list[ChoiceResult]:
    """The choices that ended by themselves; inconclusive if there are none, or if part of the answer is lost."""
    if x.is_event_stream:
        if len(x.outcomes) > x.asked_n or not all(c.parsed.ok for c in x.payloads):
            raise inconclusive("the chunks do not join into an answer: the rules for chunks judge that")
    elif not all(isinstance(c.get("message"), dict) for c in x.plain_choices):
        raise inconclusive("a choice has no message: choice.members.present judges that")
    found = [] if maybe_cut(x) else [o for o in x.outcomes if o.finish_reason in _ENDS]
    if not found:
        raise inconclusive("no choice ended by itself")
    return found


def _has_text(x: Chat) -> bool:
    """Whether there is content or a refusal, of whatever type."""
    said = (
        [p.delta for p in x.assembled.parts]
        if x.is_event_stream
        else [get(c, "message", default={}) for c in x.plain_choices]
    )
    return any(get(m, name) for m in said for name in ("content", "refusal"))


def _thought(x: Chat) -> bool:
    """Whether the answer has reasoning, which may have used up all the tokens."""
    if x.is_event_stream:
        return any(c.reasoning for c in x.assembled.choices)
    return any(get(c, "message", name) for c in x.plain_choices for name in ("reasoning", "reasoning_content"))


def _named(found: list[Call]) -> list[Call]:
    return [c for c in found if isinstance(c.name, str) and c.name]


@rule(
    "tool.none.no-call",
    MUST,
    on=_NONE,
    book="TOOL-003",
    source=openapi("tool_choice: none means the model will not call any tool"),
)
def test_none(x: Chat) -> None:
    """With tool_choice none, the answer has no tool call.

    The caller ended the loop on purpose and reads only the content: nobody runs the call, and the text is null.
    """
    found = calls(x)
    require(not found, "no tool call", got=f"a call to {found[0].name}" if found else "", at=found and found[0].part)


@rule(
    "tool.none.text-kept",
    MUST,
    on=each_of("tool-none-markup", "tool-none-markup-stream"),
    source=contract("text that looks like a call is text when calls are forbidden"),
)
def test_none_keeps_text(x: Chat) -> None:
    """With tool_choice none, text that looks like a call stays in the content.

    A tool parser that runs anyway swallows the answer: the user paid for tokens and sees nothing.
    """
    if calls(x):
        raise inconclusive("there is a call: tool.none.no-call judges that")
    tokens = get(x.usage, "completion_tokens")
    if not _ended(x) or not is_int(tokens):
        raise inconclusive("usage does not say whether the model said anything")
    if tokens < _SURELY_TEXT or _thought(x):
        raise inconclusive(f"the answer is too short to tell, or has reasoning ({tokens} tokens)")
    require(_has_text(x), f"text, as the answer has {tokens} tokens", got="none")


@rule(
    "tool.required.calls",
    MUST,
    on=_REQUIRED,
    book="TOOL-004",
    source=openapi("tool_choice: required means the model must call one or more tools"),
)
def test_required(x: Chat) -> None:
    """With tool_choice required, every answer has a tool call, whatever the prompt says, unless it was cut off.

    Extraction pipelines (LangChain's tool_choice "any") read tool_calls[0] and crash with an IndexError.
    """
    for o in _ended(x):
        require(o.calls, "a tool call", got=f"none, finish_reason {o.finish_reason}, content {o.content!r}")


@rule(
    "tool.named.only-it",
    MUST,
    on=_NAMED,
    book="TOOL-005",
    source=openapi("ChatCompletionNamedToolChoice: forces the model to call that tool"),
)
def test_named(x: Chat) -> None:
    """With a named tool_choice, the answer has a tool call, and every call is to that function.

    Otherwise with_structured_output(method="function_calling") parses another function's arguments, or finds none.
    """
    wanted = next(iter(tool_choice(x).names))
    for call in _named(calls(x)):
        if call.name in tools(x):
            require(call.name == wanted, f"a call to {wanted}", got=f"a call to {call.name}", at=call.part)
    for o in _ended(x):
        require(o.calls, f"a call to {wanted}", got=f"no call, content {o.content!r}")


@rule(
    "tool.auto.default",
    MUST,
    on=of("tool-default", "tools-auto", "tools-auto-none-needed", "tool-auto-none-needed"),
    book="TOOL-006",
    source=openapi("tool_choice: auto is the default if tools are present"),
)
def test_default(absent: Chat, auto: Chat, absent_idle: Chat, auto_idle: Chat) -> None:
    """Without tool_choice, the server offers tools as with auto: the model may call one, and may answer in text.

    Most clients leave tool_choice out: with none as the default, no agent would ever act; with required, none would
    ever answer.
    """
    for bare, said in ((absent, auto), (absent_idle, auto_idle)):
        wanted, got = ("a call" if calls(x) else "text" for x in (said, bare))
        require(wanted == got, f"{wanted}, as with tool_choice auto", got=got, owner=bare)
    if not calls(auto):
        raise inconclusive("the model made no tool call")
    if calls(auto_idle):
        raise inconclusive("the model calls a tool even when told not to")


@rule(
    "tool.name.declared",
    MUST,
    on=_DECLARED,
    book="TOOL-011",
    source=contract("the dispatcher knows the declared names only"),
)
def test_declared(x: Chat) -> None:
    """Every call names a declared function, to the letter.

    Dispatchers look the name up: "functions.get_weather" or "get_weather<|channel|>" ends in a KeyError.
    """
    declared, free = tools(x), tool_choice(x).kind in (ToolChoiceKind.AUTO, ToolChoiceKind.UNKNOWN)
    invented = ""
    for call in _named(made_calls(x)):
        known = call.name in declared
        # A free model may invent a function; a declared name with something around it is the parser's doing.
        if free and declared and not known and not any(name in call.name for name in declared):
            invented = call.name
            continue
        require(known, f"one of {', '.join(sorted(declared)) or 'no functions'}", got=repr(call.name), at=call.part)
    if invented:
        raise inconclusive(f"the model invented a function: {invented[:60]}")
