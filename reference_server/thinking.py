"""Thinking before the answer: when the model does it, and what it says to itself.

In: a ChatRequest. Out: the tokens of the thought. It thinks when the last question says "think first", or when the
switch of Qwen's template is on; each of the switches that engines know turns it off.
"""

import re
from typing import Any

from . import vocab
from .request import ChatRequest

_ASKED = re.compile(r"\bthink first\b", re.I)
# Plain ASCII: each token is whole characters, and can be sent at once.
_THOUGHT = "The question wants a moment. Let me look at what was asked, and at what may be said. Now it is clear."


def _switch(body: dict[str, Any]) -> Any:
    options = body.get("chat_template_kwargs")
    return options.get("enable_thinking") if isinstance(options, dict) else None


def thought(chat: ChatRequest) -> list[int]:
    """The tokens of what the model thinks before it answers; none when it does not think."""
    switch = _switch(chat.body)
    if switch is False or chat.body.get("reasoning_effort") == "none":
        return []
    question = next((m.content or "" for m in reversed(chat.messages) if m.role == "user"), "")
    return vocab.encode(_THOUGHT) if switch is True or _ASKED.search(question) else []


def hidden(chat: ChatRequest) -> bool:
    """Whether the thought is not to be shown."""
    return any(chat.body.get(name) is False for name in ("include_reasoning", "separate_reasoning"))
