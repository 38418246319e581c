"""Each entry of a delta's `tool_calls` by itself: its index, its members, its text."""

from __future__ import annotations

from typing import Any

from wireproof.judge.rules import MUST, SHOULD, Each, client, contract, openapi, rfc, rule
from wireproof.read.chat import Chat, is_stream
from wireproof.read.exchange import Exchange
from wireproof.read.tool_calls import Fragment, fragments
from wireproof.verdict import require
from wireproof.wire.strictjson import has_lone_surrogate, is_int

_CALL = "ChatCompletionMessageToolCallChunk"
_LOST = "\ufffd"
_FORCED = ("tools-required-stream", "tools-named-stream", "tools-required-n2-stream")


def _mentions_calls(x: Exchange) -> bool:
    """Whether any delta has tool_calls other than null, of whatever type."""
    return is_stream(x) and any(part.delta.get("tool_calls") is not None for part in x.assembled.parts)


LISTS = Each("every chat stream with tool_calls", _mentions_calls, _FORCED)
FRAGMENTS = Each(
    "every chat stream with tool calls",
    lambda x: is_stream(x) and bool(fragments(x)),
    (*_FORCED, "tool-stream-long", "tool-unicode-stream"),
)


def _objects(x: Chat) -> list[Fragment]:
    """The fragments that are objects; an entry of another type has no members to judge."""
    return [f for f in fragments(x) if isinstance(f.value, dict)]


def _functions(x: Chat) -> list[tuple[Fragment, dict[str, Any]]]:
    """The fragments that have a function object, with it."""
    return [(f, f.function) for f in fragments(x) if f.function is not None]


@rule(
    "toolstream.fragment.index-integer",
    MUST,
    on=LISTS,
    book="TOOLSTREAM-001",
    source=openapi(f"{_CALL} required: index"),
    evidence=("tool_index_missing", "tool_index_null"),
)
def test_index_integer(x: Chat) -> None:
    """delta.tool_calls is an array whose entries have an integer index, 0 or more.

    openai-python's `.stream()` raises "list indices must be integers"; openai-node's helper and LangChain lose the
    call without an error.
    """
    for part in x.assembled.parts:
        found = part.delta.get("tool_calls")
        require(found is None or isinstance(found, list), "an array as tool_calls", got=found, at=part)
    for f in fragments(x):
        require(isinstance(f.value, dict), "an object in tool_calls", got=f.value, at=f.part)
        got = f.value.get("index", "no index")
        require(is_int(got) and got >= 0, "an integer index", got=got, at=f.part)


@rule(
    "toolstream.list.not-empty",
    SHOULD,
    on=LISTS,
    source=client("LangChain.js", "additional_kwargs[tool_calls] already exists"),
    evidence=("tool_empty_list_content",),
)
def test_list_not_empty(x: Chat) -> None:
    """A delta without a call has no tool_calls, not an empty array.

    LangChain.js raised "additional_kwargs[tool_calls] already exists" on ordinary text.
    """
    for part in x.assembled.parts:
        require(part.delta.get("tool_calls") != [], "no tool_calls in a delta without a call", got="[]", at=part)


@rule(
    "toolstream.fragment.function-object",
    MUST,
    on=FRAGMENTS,
    book="TOOLSTREAM-008",
    source=client("langchain-openai", "_convert_delta_to_message_chunk"),
    evidence=("tool_fn_missing_later", "tool_fn_null_later"),
)
def test_function_object(x: Chat) -> None:
    """Every entry of tool_calls has a function object, even in the later fragments of a call.

    LangChain raises "'NoneType' object has no attribute 'get'", openai-python's `.stream()` and LlamaIndex an
    AssertionError.
    """
    for f in _objects(x):
        got = f.value.get("function", "no function")
        ok = isinstance(got, dict) or f.value.get("type") == "custom" or "custom" in f.value
        require(ok, "an object as function", got=got, at=f.part)


@rule(
    "toolstream.arguments.no-object",
    MUST,
    on=FRAGMENTS,
    book="TOOLSTREAM-010",
    source=openapi(f"{_CALL}.function.arguments"),
    evidence=("tool_args_object",),
)
def test_arguments_no_object(x: Chat) -> None:
    """Streamed arguments are text: never an object, an array or a number.

    LangChain raises a ValidationError, openai-python users a TypeError; openai-node calls the tool with
    "[object Object]".
    """
    for f, function in _functions(x):
        got = function.get("arguments")
        require(got is None or isinstance(got, str), "a string as arguments", got=got, at=f.part)


@rule(
    "toolstream.first.arguments-string",
    SHOULD,
    on=FRAGMENTS,
    book="TOOLSTREAM-004",
    source=contract("tool fragments"),
    evidence=("tool_args_null_first", "tool_args_missing_first"),
)
def test_first_arguments_string(x: Chat) -> None:
    """The first fragment of a call has arguments as a string, usually "".

    The clients measured cope; `args += delta.function.arguments` in a user's own loop does not.
    """
    for f, function in _functions(x):
        got = function.get("arguments", "no arguments")
        absent = "arguments" not in function or got is None  # another type has a rule of its own
        require(not (f.first and absent), 'arguments: "" in the first fragment', got=got, at=f.part)


@rule(
    "toolstream.fragment.known-members",
    SHOULD,
    on=FRAGMENTS,
    source=openapi(f"{_CALL}: index, id, type, function {{name, arguments}}"),
)
def test_known_members(x: Chat) -> None:
    """The members of a call are in their places: id and type in the call, name and arguments in its function.

    No client sees an id inside the function: the call has none, and the client cannot send its result back.
    """
    for f, function in _functions(x):
        wrong = [f"function.{name}" for name in ("id", "index") if name in function]
        wrong += [name for name in ("name", "arguments") if name in f.value]
        require(not wrong, "members in their places", got=", ".join(wrong), at=f.part)


# chunk.null.only-where-allowed judges id and type as null, and another rule judges arguments that are null in a first
# fragment. The clients measured accept all of these; opencode, and schemas in TypeScript, do not.
@rule(
    "toolstream.null.members",
    SHOULD,
    on=FRAGMENTS,
    source=client("opencode", "issue 40969: missing id or name"),
    evidence=("tool_id_null_later", "tool_id_empty_later"),
)
def test_null_members(x: Chat) -> None:
    """Later fragments of a call leave out what they do not add: no id or name is "", no member is null.

    Clients with `id ?? previous` keep the ""; typed clients drop the chunk, and the tool runs with half its arguments.
    """
    for f, function in _functions(x):
        if f.first is False:
            found = [f'{name}: ""' for name in ("id", "type") if f.value.get(name) == ""]
            found += ['function.name: ""'] if function.get("name") == "" else []
            found += [f"function.{name}: null" for name in ("name", "arguments") if function.get(name, 0) is None]
            require(not found, "nothing but what is new", got=", ".join(found), at=f.part)


@rule(
    "toolstream.fragment.unicode",
    MUST,
    on=FRAGMENTS,
    book="TOOLSTREAM-015",
    source=rfc(8259, "8.2"),
)
def test_fragment_unicode(x: Chat) -> None:
    """Each fragment of arguments holds only whole characters: no half of an emoji, no U+FFFD.

    openai-python users get a UnicodeEncodeError when they pass the fragment on; a character that became U+FFFD is lost
    for good. (A fragment may end inside a JSON escape.)
    """
    asked = x.request.body  # a request that has U+FFFD may get it back
    innocent = _LOST.encode() in asked or b"ufffd" in asked.lower()
    sent = x.answered.content
    lost = not innocent and (_LOST.encode() in sent or b"\\ufffd" in sent.lower())
    for f, function in _functions(x):
        text = function.get("arguments")
        if isinstance(text, str) and not text.isascii():
            require(not has_lone_surrogate(text), "whole characters in each fragment", got=ascii(text), at=f.part)
            require(not (lost and _LOST in text), "whole characters, no U+FFFD", got=text, at=f.part)
