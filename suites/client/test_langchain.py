"""LangChain's ChatOpenAI."""

from __future__ import annotations

from wireproof.judge.rules import MUST, EachStep, client, rule
from wireproof.read.client_outcomes import answers, called, cut, outcome, read, same
from wireproof.read.recording import Take
from wireproof.read.request import tools
from wireproof.scenarios.clients import steps
from wireproof.verdict import inconclusive, require
from wireproof.wire import strictjson

_CLIENT = "langchain"
_FORCED = frozenset({"tools", "tools-required", "round-trip"})


def _on(what: str, *tasks: str) -> EachStep:
    return EachStep(what, steps(_CLIENT, *tasks))


@rule(
    "client.langchain.invoke-and-stream",
    MUST,
    on=_on(
        "every text to ChatOpenAI's invoke and stream", "plain", "plain-async", "stream", "stream-async", "logprobs"
    ),
    book="CLIENT-005",
    source=client("langchain", "ChatOpenAI.invoke, .stream"),
    evidence=("finish_twice", "usage_every_chunk"),
)
def test_invoke_and_stream(take: Take) -> None:
    """ChatOpenAI's invoke and stream give the text that was sent, one finish_reason, the model's name and the usage.

    LangChain adds chunks up: usage in every chunk is counted several times, two finish_reasons become "stopstop".
    """
    for given, x in answers(take):
        same(given, x)
        chunk = next((c.value for c in x.chunks if c.choices), {}) if x.is_event_stream else x.completion
        require(given.get("model") == chunk.get("model"), "the model's name", got=given.get("model"), owner=x)


@rule(
    "client.langchain.structured-output",
    MUST,
    on=_on(
        "every structured output of ChatOpenAI",
        "structured-schema",
        "structured-stream",
        "structured-function",
        "structured-json",
    ),
    book="CLIENT-006",
    source=client("langchain", "ChatOpenAI.with_structured_output"),
)
def test_structured_output(take: Take) -> None:
    """ChatOpenAI's with_structured_output works with json_schema, function_calling and json_mode.

    They are three different requests. The first two allow only one value; JSON mode leaves the members to the model,
    so there the rule asks only for JSON.
    """
    for given, x in answers(take):
        step, result = x.transcript.step, outcome(take).result
        if cut(x) or read(x)[0].refusal:
            raise inconclusive("the model refused, or was cut off")
        if step == "structured-function":
            called(x)
        same(given, x)
        if step == "structured-json" and not result.get("right"):
            found = strictjson.parse(read(x)[0].content or "")
            require(found.ok, "JSON", got=read(x)[0].content, owner=x)
            return
        if step == "structured-function" and not result.get("right") and not any(t.strict for t in tools(x).values()):
            raise inconclusive("LangChain does not send strict here, and the model gave something else")
        got = result.get("problem") or result.get("parsed")
        require(result.get("right"), "an object of the requested type", got=got, owner=x)


@rule(
    "client.langchain.tools",
    MUST,
    on=_on(
        "every call to ChatOpenAI's tools",
        "tools",
        "tools-required",
        "tools-auto",
        "tools-none",
        "parallel",
        "round-trip",
        "agent",
    ),
    book="CLIENT-007",
    source=client("langchain", "ChatOpenAI.bind_tools, create_agent"),
    evidence=("tool_index_missing", "tool_args_object"),
)
def test_tools(take: Take) -> None:
    """ChatOpenAI's bind_tools gives the calls that were sent, with any tool_choice, streamed or not; agent loops work.

    A fragment without an index loses its arguments (invalid_tool_calls), and the agent crashes: ToolMessage
    tool_call_id ... None.
    """
    if take.chats()[0].transcript.step == "agent":
        _agent(take)
        return
    for number, (given, x) in enumerate(answers(take)):
        if x.transcript.step in _FORCED and not (x.transcript.step == "round-trip" and number):
            called(x)
        same(given, x)


def _agent(take: Take) -> None:
    """Two loops: each ends with the text of its last answer, after as many tool messages as there were calls."""
    if not outcome(take).ok:
        list(answers(take))
    agents = outcome(take).result.get("agents") or []
    last = [x for x in take.chats() if not read(x)[0].calls]
    if len(last) != len(agents) or any(cut(x) for x in take.chats()):
        raise inconclusive("an agent was cut off, or went on calling")
    for agent, x in zip(agents, last, strict=True):
        require(agent["text"] == (read(x)[0].content or ""), "the text of the last answer", got=agent["text"], owner=x)
    made = sum(len(read(x)[0].calls) for x in take.chats())
    done = sum(agent["kinds"].count("tool") for agent in agents)
    require(done == made, f"{made} calls done", got=done, owner=take.chats()[-1])
    if not made:
        raise inconclusive("the model made no tool call")
