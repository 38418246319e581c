"""Tool definitions that a server must accept, and names that it must return unchanged."""

from __future__ import annotations

from typing import Any

from wireproof.judge.rules import MUST, SHOULD, Each, contract, observed, of, openapi, rule
from wireproof.read.chat import Chat, is_chat
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Take
from wireproof.read.refusal import must_accept, must_not_crash
from wireproof.read.tool_calls import Call, calls
from wireproof.verdict import Unsupported, inconclusive, require
from wireproof.wire.strictjson import get

# The most ordinary request with tools: if the server refuses it, no special form can be judged.
_USUAL = "tools-auto-none-needed"


def _messages(x: Exchange) -> list[Any]:
    found = x.asked.get("messages")
    return found if isinstance(found, list) else []


def _has_tools(x: Exchange) -> bool:
    """Whether a request that was not sent to be refused has tools, or their calls and results."""
    if not is_chat(x) or not x.valid:
        return False
    if any(x.asked.get(name) for name in ("tools", "tool_choice", "functions")):
        return True
    return any(get(m, "role") == "tool" or get(m, "tool_calls") for m in _messages(x))


@rule(
    "tool.definition.accepted",
    MUST,
    on=of(_USUAL, "tool-minimal", "tool-documented"),
    book="TOOL-001",
    source=openapi("ChatCompletionTool, FunctionObject.required: name"),
)
def test_definition_accepted(usual: Exchange, minimal: Exchange, documented: Exchange) -> None:
    """The server accepts a function declared by its name alone, or with description, parameters and strict.

    Frameworks leave out what is optional: if one tool without parameters makes the whole request fail (a 422), every
    turn of the agent fails.
    """
    must_accept(minimal, "a function without parameters or description", usual)
    must_accept(documented, "a function with description, parameters and strict", usual)


_FORCED = ("tools-required", "tools-named")


@rule(
    "tool.choice.accepted",
    MUST,
    on=of("tools-auto", "tool-none", *_FORCED),
    book="TOOL-002",
    source=openapi("ChatCompletionToolChoiceOption"),
)
def test_choice_accepted(auto: Exchange, none: Exchange, *forced: Exchange) -> None:
    """The server accepts tool_choice "auto", "none", "required" and the object that names a function.

    LangChain turns `any` into "required" and a name into the object, LlamaIndex sends "auto" and "required": if the
    server refuses one of them, structured output through tools ends with an exception.
    """
    values = (auto, none, *forced)
    if not any(x.ok for x in values):
        raise auto.refused()
    for x in (none, *forced):
        must_accept(x, f"tool_choice {x.asked.get('tool_choice')}")
    if not auto.ok:  # some engines need a setting for auto only
        raise auto.refused()


@rule(
    "tool.choice.no-5xx",
    MUST,
    on=Each("every chat request with tools", _has_tools, (_USUAL, *_FORCED, "tool-parameters-empty")),
    source=contract("an error of the request is a 4xx, and the model's words are no error"),
)
def test_no_5xx(x: Exchange) -> None:
    """The server never sends a 5xx in answer to a request with tools.

    SDKs retry after a 5xx, up to twelve times (LlamaIndex), and each retry fails the same way. What the model writes
    after a forced call may not parse; the answer then ends with "length", or is a text, not an exception.
    """
    must_not_crash(x)


@rule(
    "tool.strict.false-or-null-accepted",
    MUST,
    on=of(_USUAL, "tool-strict-false", "tool-strict-null"),
    book="TOOL-013",
    source=openapi("FunctionObject.strict: boolean or null"),
)
def test_strict_false_or_null(usual: Exchange, *odd: Exchange) -> None:
    """The server accepts strict: false and strict: null.

    LlamaIndex sends strict: false with every tool.
    """
    for x, value in zip(odd, ("false", "null"), strict=True):
        must_accept(x, f"strict: {value}", usual)


@rule(
    "tool.definition.any-schema-accepted",
    SHOULD,
    on=of(_USUAL, "tool-schema-pattern", "tool-schema-bounds", "tool-schema-keywords"),
    source=contract("without strict, a schema informs the model and binds nobody"),
)
def test_any_schema(usual: Exchange, *odd: Exchange) -> None:
    """The server accepts any valid JSON Schema as the parameters of a function that is not strict.

    Otherwise one tool whose schema has no grammar (a pattern without anchors, a large maxLength, propertyNames) makes
    every request with that list of tools fail: agents with MCP servers do not choose their schemas.
    """
    for x in odd:
        must_accept(x, "a schema that cannot be enforced, without strict", usual)


_NAMED = ("tool-name-one", "tool-name-64", "tool-name-digit", "tool-name-underscore")
_AUTO = ("tool-name-dash", "tool-name-dash-stream")
_UNCUT = ("tool_calls", "stop", "function_call")


@rule(
    "tool.name.legal-accepted",
    MUST,
    on=of("tools-named", "tools-auto", *_NAMED, *_AUTO),
    book="TOOL-017",
    source=openapi("FunctionObject.name: a-z, A-Z, 0-9, _ and -, at most 64"),
)
def test_name_legal(usual: Chat, usual_auto: Chat, *odd: Chat) -> None:
    """The server accepts a name of 1 to 64 letters, digits, underscores and dashes, and returns it unchanged.

    MCP servers and generated tools use the whole alphabet. An agent looks the name up in its table: a changed one is
    a KeyError, and a call that the parser does not recognise stays in the text as if it were the answer.
    """
    # If auto needs a setting that is off, the forced calls show the names.
    judged = odd if usual_auto.ok else odd[: len(_NAMED)]
    for x in judged:
        must_accept(x, "this name", usual)
    seen = [_name_came_back(x) for x in judged]
    if not any(seen):
        raise inconclusive("the model made no complete call")


def _name_came_back(x: Chat) -> bool:
    """Whether a call shows a name; fails if that is not declared, or if an answer that ended lacks the named call.

    (tool.named.only-it judges a call to another tool than the named one.)
    """
    try:
        made: list[Call] = calls(x)
        ended = all(o.finish_reason in _UNCUT for o in x.outcomes)
    except Unsupported as reason:
        raise inconclusive(str(reason)) from None
    tools = x.asked.get("tools")
    declared = [get(t, "function", "name") for t in tools] if isinstance(tools, list) else []
    named = get(x.asked, "tool_choice", "function", "name")
    for call in made:
        if isinstance(call.name, str) and call.name:  # other rules judge what a call must have
            require(call.name in declared, named or declared[0], got=call.name, at=call.part, owner=x)
    whole = x.is_event_stream or all(isinstance(c.get("message"), dict) for c in x.plain_choices)
    if named and ended and whole:
        require(made, f"a call to {named}", got="none", owner=x)
    return bool(made)


@rule(
    "tool.list.128-accepted",
    SHOULD,
    on=of(_USUAL, "tool-large"),
    book="TOOL-027",
    source=openapi("functions.maxItems: 128"),
)
def test_many_tools(usual: Exchange, large: Take) -> None:
    """The server accepts thirty tools, and 128 small ones, in one request if they fit into the context.

    A few MCP servers together have that many. OpenAI documents 128 as the limit.
    """
    for step in ("tools-30", "tools-128"):
        must_accept(large.chat(step), step.removeprefix("tools-") + " tools", usual)


@rule(
    "tool.result.long-accepted",
    SHOULD,
    on=of("tool-history", "tool-large"),
    source=observed("tool results may be as long as the context"),
)
def test_long_result(histories: Take, large: Take) -> None:
    """The server accepts a tool result of 6,000 characters, and counts it in prompt_tokens.

    Search results and files are that long; with a limit on each message, or a silent cut, the agent works on half.
    """
    short, long = histories.chat("null"), large.chat("result-6000")
    must_accept(long, "a long tool result", short)
    counted = [get(x.usage, "prompt_tokens") for x in (short, long)]
    if not all(isinstance(c, int) for c in counted):
        raise inconclusive("usage does not say how long the prompt was")
    # No tokenizer fits as many as twenty characters of English words into a token.
    require(counted[1] - counted[0] >= 250, "some 1,000 tokens more", got=counted[1] - counted[0], owner=long)
