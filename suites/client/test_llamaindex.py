"""LlamaIndex's OpenAILike."""

from __future__ import annotations

from itertools import pairwise

from wireproof.judge.rules import MUST, EachStep, client, rule
from wireproof.read.chat import Chat
from wireproof.read.client_outcomes import answers, called, cut, outcome, read, same
from wireproof.read.recording import Take
from wireproof.read.tool_calls import fragments
from wireproof.scenarios.clients import steps
from wireproof.verdict import inconclusive, require


@rule(
    "client.llamaindex.calls",
    MUST,
    on=EachStep(
        "every call of OpenAILike",
        steps(
            "llamaindex",
            "plain",
            "plain-async",
            "stream",
            "stream-async",
            "logprobs",
            "structured-schema",
            "structured-function",
            "tools",
            "tools-required",
            "tools-auto",
            "tools-none",
            "parallel",
            "round-trip",
            "agent",
        ),
    ),
    book="CLIENT-008",
    source=client("llamaindex", "OpenAILike"),
    evidence=("usage_no_choices_key", "tool_id_repeat"),
)
def test_calls(take: Take) -> None:
    """LlamaIndex's chat, stream_chat, chat_with_tools, as_structured_llm and FunctionAgent give what was sent.

    A chunk without choices raises a TypeError (object of type 'NoneType' has no len()); a repeated call id grows with
    every fragment. LlamaIndex itself mixes up interleaved calls, which are legal: the target is not blamed for them.
    """
    step = take.chats()[0].transcript.step
    if any(x.is_event_stream and _interleaved(x) for x in take.chats()):
        raise inconclusive("the calls are interleaved, which is legal, and LlamaIndex itself mixes them up")
    if step == "agent":
        _agent(take)
        return
    if step in ("structured-schema", "structured-function"):
        _structured(take)
        return
    for number, (given, x) in enumerate(answers(take)):
        if step in ("tools", "tools-required") or (step == "round-trip" and not number):
            called(x)
        same(given, x)
        if "pieces" in given and not given["choices"][0]["calls"]:
            require(given["pieces"] == (read(x)[0].content or ""), "pieces that add up", got=given["pieces"], owner=x)


def _structured(take: Take) -> None:
    found, x = outcome(take), take.chats()[-1]
    if cut(x) or read(x)[0].refusal or (found.ok and not found.result.get("right")):
        raise inconclusive("the model was cut off, refused, or gave nothing")
    if not found.ok:
        if x.transcript.step == "structured-function":
            called(x)
        list(answers(take))


def _agent(take: Take) -> None:
    if not outcome(take).ok:
        list(answers(take))
    agents = outcome(take).result.get("agents") or []
    last = [x for x in take.chats() if not read(x)[0].calls]
    if len(last) != len(agents) or any(cut(x) for x in take.chats()):
        raise inconclusive("an agent was cut off, or went on calling")
    for agent, x in zip(agents, last, strict=True):
        require(agent["text"] == (read(x)[0].content or ""), "the text of the last answer", got=agent["text"], owner=x)
    made = sum(len(read(x)[0].calls) for x in take.chats())
    done = sum(len(agent["calls"]) for agent in agents)
    require(done == made, f"{made} calls done", got=done, owner=take.chats()[-1])
    if not made:
        raise inconclusive("the model made no tool call")


def _interleaved(x: Chat) -> bool:
    """Whether a call goes on after the next one has begun, or two are in one delta."""
    order = [f.index for f in fragments(x)]
    places = any(f.place for f in fragments(x))
    return places or any(i is not None and j is not None and j < i for i, j in pairwise(order))
