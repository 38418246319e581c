"""Tool calls and their results in the history: the second half of every agent's loop."""

from __future__ import annotations

from typing import Any

from wireproof.judge.rules import MUST, SHOULD, contract, each_of, observed, of, openapi, rule
from wireproof.read.chat import Chat
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Take
from wireproof.read.refusal import must_accept, must_not_crash
from wireproof.read.tool_calls import calls
from wireproof.scenarios.conversations.tools import CODE_WORD
from wireproof.verdict import inconclusive, require
from wireproof.wire.strictjson import get, is_int

_ASSISTANT = "ChatCompletionRequestAssistantMessage"
_TOOL = "ChatCompletionRequestToolMessage.content: a string, or an array of text parts"
_USUAL = "tools-auto-none-needed"
# A server may join parts with a line break, which can move the ends of tokens (tokens).
_JOINT = 2


def _prompt(x: Chat) -> int:
    """prompt_tokens; inconclusive if the answer does not have it."""
    found = get(x.usage, "prompt_tokens")
    if not is_int(found):
        raise inconclusive("usage does not say how long the prompt was")
    return int(found)


def _same(x: Chat, usual: Chat, what: str, within: int = 0) -> None:
    """The server accepts the form, and the model reads the same prompt."""
    must_accept(x, what, usual)
    wanted, found = _prompt(usual), _prompt(x)
    require(abs(found - wanted) <= within, f"prompt_tokens {wanted}, with {what}", got=found, owner=x)


@rule(
    "tool.history.null-content-accepted",
    MUST,
    on=of(_USUAL, "tool-history"),
    book="TOOL-020",
    source=openapi(f"{_ASSISTANT}.content: nullable"),
)
def test_null_content(usual: Exchange, histories: Take) -> None:
    """The server accepts an assistant message with content null and tool calls, and the result that follows it.

    LangChain and openai-python send exactly this in the second turn of every agent: a refusal ends the agent.
    """
    must_accept(histories.chat("null"), "content null with tool_calls", usual)


@rule(
    "tool.history.content-forms-equal",
    SHOULD,
    on=of("tool-history"),
    source=openapi(f"{_ASSISTANT}.content: not required with tool_calls"),
)
def test_content_forms(histories: Take) -> None:
    """Beside tool calls, the server accepts content null, "" and no content, and makes the same prompt of each.

    Clients differ in what they send. If "" makes another prompt, the model sees an example of a call with an empty
    text, and falls back to writing calls as text; if the server refuses "", the agent stops.
    """
    usual = histories.chat("null")
    _same(histories.chat("absent"), usual, "no content beside tool_calls")
    _same(histories.chat("empty"), usual, 'content "" beside tool_calls')


@rule(
    "tool.history.tool-message-counts",
    MUST,
    on=of("tool-history"),
    book="TOOL-021",
    source=openapi("ChatCompletionRequestToolMessage"),
)
def test_tool_message_counts(histories: Take) -> None:
    """A longer tool result makes a longer prompt.

    A result that does not reach the prompt is invisible: the model calls the tool again, or invents an answer.
    """
    usual, more = histories.chat("null"), histories.chat("more")
    must_accept(more, "a longer tool result", usual)
    require(_prompt(more) > _prompt(usual), f"more than {_prompt(usual)} prompt_tokens", got=_prompt(more), owner=more)


@rule(
    "tool.history.parts-equal",
    MUST,
    on=of("tool-history"),
    source=openapi(_TOOL),
)
def test_parts_equal(histories: Take) -> None:
    """The server accepts a tool result as an array of text parts, and makes the same prompt of it as of one string.

    MCP clients send parts. If the server refuses them, the agent stops; if it keeps only the first part, or none, the
    model reads half a result, or an empty one, and nothing says so.
    """
    _same(histories.chat("parts"), histories.chat("null"), "a result in text parts", _JOINT)


@rule(
    "tool.history.nulls-as-absent",
    SHOULD,
    on=of("tool-history"),
    source=contract("null means not given"),
)
def test_nulls_as_absent(histories: Take) -> None:
    """The server treats an optional member of a message that is null as if it were absent.

    Clients that serialise whole message objects send name: null, refusal: null and tool_calls: null with each.
    """
    _same(histories.chat("nulls"), histories.chat("null"), "nulls for optional members")


@rule(
    "tool.history.empty-calls-keep-text",
    SHOULD,
    on=of("tool-history"),
    source=contract("no calls are no reason to lose the text"),
)
def test_empty_calls_keep_text(histories: Take) -> None:
    """tool_calls: [] in an assistant message of the history, if accepted, does not change the prompt.

    A server that answers with an empty list gets it back from every client. A template that takes it for calls drops
    the text of the message.
    """
    x = histories.chat("no-calls")
    if not x.ok:  # OpenAI refuses it; tool.choice.no-5xx judges a 5xx
        raise x.refused()
    _same(x, histories.chat("null"), "tool_calls [] in the history")


@rule(
    "tool.history.own-message-accepted",
    MUST,
    on=of("tool-loop"),
    source=contract("a server accepts the messages that it wrote"),
)
def test_own_message(loop: Take) -> None:
    """The server accepts its own assistant message back, unchanged, with the results of its calls.

    Every agent sends it back. Ids that the server's own template refuses (Mistral wants nine letters), or members that
    the server writes but cannot read, end the second turn with an error.
    """
    first, *later = loop.chats("turn-")
    if not first.ok:
        raise first.refused()
    if not later:
        raise inconclusive("the model made no tool call")
    for x in later:
        must_accept(x, "the server's own message and its results")
    if len(later) < 4:
        raise inconclusive(f"the conversation ended after {1 + len(later)} turns: an answer had no call, or no message")


@rule(
    "tool.history.result-used",
    SHOULD,
    on=of("tool-code-word"),
    book="TOOL-022",
    source=contract("the answer after a tool result is about the result"),
)
def test_result_used(talk: Take) -> None:
    """After a tool result, the model answers with what the result says.

    If the result is lost on the way, the answer knows nothing of it. (Judged only if the model repeats the same words
    from a user message.)
    """
    if CODE_WORD not in _text(talk.chat("told")):
        raise inconclusive("the model does not repeat what it is told")
    x = talk.chat("result")
    text = _text(x)
    if calls(x) or any(o.finish_reason == "length" for o in x.outcomes):
        raise inconclusive("the model called a tool again, or its answer was cut off")
    require(CODE_WORD in text, f"{CODE_WORD!r} in the answer", got=text or "no text", owner=x)


def _text(x: Chat) -> str:
    found: list[Any] = [o.content for o in x.outcomes]
    return " ".join(c for c in found if isinstance(c, str))


@rule(
    "tool.history.orphan-no-5xx",
    SHOULD,
    on=each_of("history-orphan"),
    book="TOOL-023",
    source=observed("OpenAI: a tool message must respond to a preceding message with tool_calls"),
)
def test_orphan(x: Exchange) -> None:
    """The server tolerates a tool message that answers no call, or refuses it with a 4xx; it never sends a 5xx.

    Frameworks that trim a long history leave such messages behind.
    """
    must_not_crash(x)


_EDGES = (
    *("history-result-empty", "history-result-null", "history-result-missing", "history-result-object"),
    *("history-id-mismatch", "history-unanswered", "history-arguments-cut", "history-two-assistants"),
)


@rule(
    "tool.history.edge-no-5xx",
    MUST,
    on=each_of(*_EDGES),
    source=contract("an error of the request is a 4xx"),
)
def test_edges(x: Exchange) -> None:
    """The server tolerates a history whose calls and results do not match, or sends a 4xx; it never sends a 5xx.

    A model may have written arguments that are not JSON; an agent that sends them back gets a 500 on every turn from
    then on, and the SDK retries each one.
    """
    must_not_crash(x)
