"""The fragments of each call in a stream: what the first one says, what the later ones must not repeat."""

from __future__ import annotations

from wireproof.judge.rules import MUST, SHOULD, Each, client, contract, rule
from wireproof.read.chat import Chat, is_stream
from wireproof.read.tool_calls import Fragment, shares_index, streamed_calls
from wireproof.verdict import require
from wireproof.wire.strictjson import get, is_int

CALLS = Each(
    "every chat stream with tool calls that have an index",
    lambda x: is_stream(x) and bool(streamed_calls(x)),
    ("tools-required-stream", "tools-named-stream", "tools-required-n2-stream", "tool-stream-long", "parallel-stream"),
)


_FINISHES = ("stop", "length", "tool_calls", "function_call", "content_filter")


def _id(f: Fragment) -> str:
    """The id of a fragment; "" if it has none."""
    found = get(f.value, "id")
    return found if isinstance(found, str) else ""


def _name(f: Fragment) -> str:
    found = get(f.value, "function", "name")
    return found if isinstance(found, str) else ""


def _tails(x: Chat) -> list[Fragment]:
    """First fragments with neither id nor name, after another call of the same choice: the rest of that call."""
    opened: set[object] = set()
    found = []
    for first in (call[0] for call in streamed_calls(x)):
        if first.part.index in opened and first.function is not None and not _id(first) and not _name(first):
            found.append(first)
        opened.add(first.part.index)
    return found


@rule(
    "toolstream.index.ascending",
    MUST,
    on=CALLS,
    book="TOOLSTREAM-002",
    source=client("openai-python", "lib/streaming/chat/_completions"),
    evidence=("tool_index_from_1",),
)
def test_index_ascending(x: Chat) -> None:
    """The indexes of a choice's calls begin at 0 and go up by 1 with each new call.

    A first index of 1 is an IndexError in openai-python's `.stream()`, a TypeError in openai-node's, and a phantom
    call with an empty name in Pipecat.
    """
    seen: dict[object, int] = {}
    for first in (call[0] for call in streamed_calls(x)):
        expected = seen.get(first.part.index, 0)
        require(first.index == expected, f"index {expected} for a new call", got=first.index, at=first.part)
        seen[first.part.index] = expected + 1


@rule(
    "toolstream.first.complete",
    MUST,
    on=CALLS,
    book="TOOLSTREAM-003",
    source=contract("tool fragments: id, type and name come first"),
    evidence=("tool_type_missing", "tool_id_missing", "tool_good"),
)
def test_first_complete(x: Chat) -> None:
    """The first fragment of a call has its id, its type and its name.

    Without the type, openai-node throws "tool call snapshot missing type"; without the id, the AI SDK throws, LiteLLM
    drops the call, and the client cannot send a result back; if the name comes late, the AI SDK throws.
    """
    tails = _tails(x)
    for first in (call[0] for call in streamed_calls(x)):
        if first.function is None or first in tails:
            continue  # a custom tool, or judged by other rules
        require(_id(first), "an id in the first fragment", got=get(first.value, "id", default="none"), at=first.part)
        kind = get(first.value, "type", default="none")
        require(kind == "function", 'type "function" in the first fragment', got=kind, at=first.part)
        got = first.function.get("name", "none")
        require(_name(first), "the name in the first fragment", got=got, at=first.part)


@rule(
    "toolstream.id.once",
    MUST,
    on=CALLS,
    book="TOOLSTREAM-005",
    source=client("openai-python", "lib/streaming/_deltas.accumulate_delta"),
    evidence=("tool_id_repeat",),
)
def test_id_once(x: Chat) -> None:
    """Only one fragment of a call has its id.

    openai-python's `.stream()` and LlamaIndex join every id they get: it becomes "call_acall_acall_a", which the server
    does not know when the result comes back.
    """
    for call in streamed_calls(x):
        given = [f for f in call if _id(f)]
        if len(given) > 1 and not shares_index(call):
            require(False, "the id once", got=f"{_id(given[1])}, {len(given)} times", at=given[1].part)


@rule(
    "toolstream.id.one-index",
    MUST,
    on=CALLS,
    source=client("Agno", "issue 8880"),
)
def test_id_one_index(x: Chat) -> None:
    """All fragments of a call have its index: no fragment opens a new index without an id or a name.

    Agno, and every other client that goes by the index, adds the arguments to no call, or to the one before; the server
    refuses the next request.
    """
    for tail in _tails(x):
        require(False, f"an id and a name with the new index {tail.index}", got="neither", at=tail.part)


@rule(
    "toolstream.name.once",
    MUST,
    on=CALLS,
    book="TOOLSTREAM-006",
    source=client("langchain-core", "merge of tool_call_chunks"),
    evidence=("tool_name_repeat",),
)
def test_name_once(x: Chat) -> None:
    """Only one fragment of a call has its name.

    openai-python, LangChain, LlamaIndex, pydantic-ai and Haystack join every name they get, and look for a tool called
    "fff".
    """
    for call in streamed_calls(x):
        given = [f for f in call if _name(f)]
        again = next((f for f in given[1:] if _name(f) == _name(given[0])), None)
        if again is not None and not shares_index(call):
            require(False, "the name once", got=f"{_name(again)}, {len(given)} times", at=again.part)


# One of OpenAI's maintainers says that a name may come in pieces, and most clients join them. openai-node's helper
# measurably does not: it keeps the last piece, and the tool is not found.
@rule(
    "toolstream.name.whole",
    MUST,
    on=CALLS,
    book="TOOLSTREAM-007",
    source=client("openai-node", "ChatCompletionStream accumulates by assignment"),
    evidence=("tool_name_fragmented",),
)
def test_name_whole(x: Chat) -> None:
    """The name of a function comes whole, in one fragment.

    openai-node's `.stream()` keeps only the last piece: it calls "weather" instead of "get_weather".
    """
    for call in streamed_calls(x):
        given = [f for f in call if _name(f)]
        piece = next((f for f in given[1:] if _name(f) != _name(given[0])), None)
        if piece is not None and not shares_index(call):
            require(False, f"no more of the name than {_name(given[0])!r}", got=_name(piece), at=piece.part)


@rule(
    "toolstream.role.before",
    MUST,
    on=CALLS,
    book="TOOLSTREAM-012",
    source=contract("stream invariant 1"),
)
def test_role_before(x: Chat) -> None:
    """The role of a choice comes before its first tool call, or with it.

    Interfaces open the message at the role: a call before it belongs to no message. (chunk.role.first judges a role
    that never comes.)
    """
    for choice in x.assembled.choices:
        said = next((p.position for p in choice.parts if p.delta.get("role")), None)
        called = next((p for p in choice.parts if isinstance(p.delta.get("tool_calls"), list)), None)
        if said is not None and called is not None:
            require(said <= called.position, "the role before the first tool call", got="the role after it", at=called)


@rule(
    "toolstream.finish.after",
    MUST,
    on=CALLS,
    book="TOOLSTREAM-013",
    source=contract("stream invariant 3"),
    evidence=("finish_only_done_no_finish_tool",),
)
def test_finish_after(x: Chat) -> None:
    """No fragment of a tool call comes after the finish_reason of its choice.

    Agents run the tool at finish_reason: the tail of the arguments is lost. (done.choices.all-finished judges a choice
    that never finishes.)
    """
    for choice in x.assembled.choices:
        ends = [p.position for p in choice.parts if p.finish_reason in _FINISHES]
        if len(ends) != 1:
            continue  # finish.stream.once judges several
        late = next((p for p in choice.parts if p.position > ends[0] and p.delta.get("tool_calls")), None)
        require(late is None, f"all calls of choice {choice.index} before its finish", got="a fragment", at=late)


@rule(
    "toolstream.content.before-calls",
    SHOULD,
    on=CALLS,
    book="TOOLSTREAM-017",
    source=client("openai-python", "ChoiceEventState.get_done_events"),
)
def test_content_before_calls(x: Chat) -> None:
    """The text of a choice comes before its tool calls.

    openai-python fires content.done at the first fragment of a call: that event lacks any text after it.
    """
    for choice in x.assembled.choices:
        if not is_int(choice.index):
            continue
        called = next((p.position for p in choice.parts if p.delta.get("tool_calls")), None)
        for part in choice.parts if called is not None else ():
            text = part.delta.get("content")
            # Nobody sees white space between two calls.
            late = isinstance(text, str) and bool(text.strip()) and called is not None and part.position > called
            require(not late, "no text after the first tool call", got=text, at=part)
