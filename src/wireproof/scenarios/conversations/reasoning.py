"""The question of `reasoning-plain`, cut earlier and later, and a thought that is sent back under either name."""

from __future__ import annotations

from dataclasses import replace

from wireproof.read.reasoning import NAMES
from wireproof.scenarios.catalog import load
from wireproof.scenarios.scenario import Session, conversation

# Most limits lie within the thoughts: real models think for hundreds of tokens about anything; the bundled server's
# thought has some forty.
LIMITS = (1, 4, 12, 40)


@conversation("reasoning-sweep", "A question that asks to think first, cut at four limits, plain and streamed.")
async def _(session: Session) -> None:
    asked = load()["reasoning-plain"]
    for limit in LIMITS:
        cut = {**(asked.body or {}), "max_tokens": limit}
        await session.send(f"plain-{limit}", replace(asked, body=cut))
        streamed = {**cut, "stream": True, "stream_options": {"include_usage": True}}
        await session.send(f"stream-{limit}", replace(asked, body=streamed))


# Thirty words: what a template writes for a thought that it does not have is little beside it.
_THOUGHT = (
    "The guest wants to know the weather in Paris, and I cannot know it myself. There is a tool for it, so I call it "
    "with the name of the city first, and answer afterwards."
)


@conversation(
    "reasoning-replay",
    "The history of role-tool, its call with a thought under one name, then the other.",
    optional="tools",
)
async def _(session: Session) -> None:
    # Templates drop the thoughts of turns that are over, and keep those between a call and its result.
    asked = load()["role-tool"]
    user, call, *rest = (asked.body or {})["messages"]
    for name in NAMES:
        messages = [user, {**call, name: _THOUGHT}, *rest]
        await session.send(name, replace(asked, body={**(asked.body or {}), "messages": messages}))
