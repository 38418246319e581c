"""The reasoning of an answer, plain or streamed, under any of its names. Its sense is nobody's business here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wireproof.read import engine_facts
from wireproof.read.chat import Chat, is_answer
from wireproof.read.exchange import Exchange
from wireproof.read.views import view
from wireproof.verdict import inconclusive
from wireproof.wire.strictjson import get

#: As engines call the member that brings it (runners/engines/). OpenAI's chat API has none of them.
NAMES = engine_facts.reasoning_members()

#: With these, chat templates mark thoughts; between them is what a reasoning parser takes out.
TAGS: tuple[str, ...] = (
    "<think>",
    "</think>",
    "<thinking>",
    "</thinking>",
    "<thought>",
    "</thought>",
    "<reasoning>",
    "</reasoning>",
    "<seed:think>",
    "</seed:think>",
    "[THINK]",
    "[/THINK]",
    "◁think▷",
    "◁/think▷",
    "<|START_THINKING|>",
    "<|END_THINKING|>",
    "<|channel|>analysis",
)
_ANY_TAG = re.compile("|".join(re.escape(tag) for tag in TAGS))


@dataclass(frozen=True)
class Thought:
    """One choice. `texts` has the non-empty reasoning by member name, `content` is "" when there is none.

    `calls` says whether it has a tool call of either kind.
    """

    texts: Mapping[str, str]
    content: str
    calls: bool
    finish: Any

    @property
    def text(self) -> str:
        """The reasoning, under the first of its names."""
        return next(iter(self.texts.values()), "")

    @property
    def names(self) -> frozenset[str]:
        """The members that brought it."""
        return frozenset(self.texts)


def members(x: Chat) -> list[dict[str, Any]]:
    """The message objects of a plain answer, or the deltas of a stream."""
    if x.is_event_stream:
        return [p.delta for p in x.assembled.parts]
    found = get(x.parsed.value, "choices") if x.response is not None else None
    choices = found if isinstance(found, list) else []
    return [m for c in choices if isinstance(m := get(c, "message"), dict)]


@view
def thinks(x: Exchange) -> bool:
    """Whether this is a chat answer with some reasoning in a member of its own."""
    return is_answer(x) and any(isinstance(v := m.get(n), str) and v for m in members(x) for n in NAMES)


@view
def thoughts(x: Chat) -> list[Thought]:
    """What each choice thought and said; inconclusive when there is no whole answer."""
    if not x.is_event_stream:
        return [
            _thought([m], c.get("finish_reason")) for c in x.plain_choices if isinstance(m := c.get("message"), dict)
        ]
    return [_thought([p.delta for p in c.parts], c.finish_reason) for c in x.finished_stream.choices]


def only(x: Chat) -> Thought:
    """The thought of the first choice; inconclusive when no choice has a message."""
    found = thoughts(x)
    if not found:
        raise inconclusive("no choice has a message")
    return found[0]


def _thought(said: list[dict[str, Any]], finish: Any) -> Thought:
    texts = {name: "".join(v for m in said if isinstance(v := m.get(name), str)) for name in NAMES}
    content = "".join(v for m in said if isinstance(v := m.get("content"), str))
    calls = any(m.get("tool_calls") or m.get("function_call") for m in said)
    return Thought({name: text for name, text in texts.items() if text}, content, calls, finish)


@view
def tag(x: Exchange) -> str | None:
    """The first tag of thoughts in the content that the request does not have itself; None without one."""
    if not is_answer(x):
        return None
    asked = ""
    for text in _contents(x):
        for found in _ANY_TAG.findall(text):
            asked = asked or x.request.body.decode("utf-8", "replace")
            if found not in asked:
                return str(found)
    return None


def _contents(x: Chat) -> list[str]:
    if x.is_event_stream:
        return [c.content for c in x.assembled.choices if c.content]
    return [v for m in members(x) if isinstance(v := m.get("content"), str)]


def without_tags(text: str) -> str:
    """A text without tags, and without the torn one that a cut may leave at its end."""
    return re.sub(r"[<\[◁][^<\[◁]{0,20}$", "", _ANY_TAG.sub("", text)).strip()


def switched_off(x: Exchange) -> bool:
    """Whether the request switches thinking off."""
    options = x.asked.get("chat_template_kwargs")
    by_template = any(get(options, name) is False for name in ("enable_thinking", "thinking"))
    return by_template or x.asked.get("reasoning_effort") == "none"


def kept_in(x: Exchange) -> bool:
    """Whether the request asks to leave thoughts out, or in the content."""
    return any(x.asked.get(name) is False for name in ("include_reasoning", "separate_reasoning"))
