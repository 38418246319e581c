"""Tokenizer endpoints: found, asked for texts and messages, turned around, and asked nonsense.

vLLM serves /tokenize, SGLang /v1/tokenize too; both take `prompt`, llama.cpp takes `content`. A server that knows
neither path has no such feature.
"""

from __future__ import annotations

from typing import Any

from wireproof.read.exchange import Exchange
from wireproof.scenarios.scenario import Scenario, Session, conversation
from wireproof.wire.endpoints import Endpoint
from wireproof.wire.strictjson import get, is_int

#: ASCII, CJK, an accent and emoji: nothing here is composed in two ways.
TEXT = "Hello, world! 你好,世界。 naïve 🙂🚀 x = 3.14"
SYSTEM = "You are a careful clerk."
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": SYSTEM},
    {"role": "user", "content": "How many apples are in two baskets of 7?"},
    {"role": "assistant", "content": "Fourteen. 🙂"},
    {"role": "user", "content": "Say hello."},
]
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "count_apples",
            "description": "Counts apples.",
            "parameters": {"type": "object", "properties": {"baskets": {"type": "integer"}}, "required": ["baskets"]},
        },
    }
]


def _scenario(path: str, body: dict[str, Any] | None, *, root: bool, valid: bool = True) -> Scenario:
    method = "GET" if body is None else "POST"
    return Scenario(
        name="tokenize", what="", body=body, method=method, path=path, root=root, valid=valid, optional="a tokenizer"
    )


def token_ids(x: Exchange) -> list[int]:
    """The token ids of an answer; none when it has none."""
    found = get(x.parsed.value, "tokens") if x.ok and x.response is not None else None
    return found if isinstance(found, list) and all(is_int(i) for i in found) else []


@conversation(
    "tokenize",
    "A text to tokens and back, messages to tokens and to chat, the model's card, and bodies to refuse.",
    endpoint=Endpoint.TOKENIZE,
    valid=False,
)
async def _(session: Session) -> None:
    text = {"prompt": TEXT, "content": TEXT, "add_special_tokens": False}
    root = False
    x = await session.send("text-v1", _scenario("/tokenize", text, root=root))
    if not token_ids(x):
        root = True
        x = await session.send("text-root", _scenario("/tokenize", text, root=root))
    tokens = token_ids(x)
    await session.send("info", _scenario("/tokenizer_info", None, root=True, valid=False))
    await session.send("models", _scenario("/models", None, root=False))
    if not tokens:
        return
    await session.send("back", _scenario("/detokenize", {"tokens": tokens}, root=root))
    await session.send("special", _scenario("/tokenize", {**text, "add_special_tokens": True}, root=root))
    for name, more in (("", {}), ("-tools", {"tools": TOOLS})):
        asked = {"messages": MESSAGES, **more}
        counted = {**asked, "add_generation_prompt": True}
        x = await session.send(f"messages{name}", _scenario("/tokenize", counted, root=root))
        if not token_ids(x):
            break
        chat = Scenario(name="chat", what="", body={**asked, "max_tokens": 1, "temperature": 0}, optional="tools")
        await session.send(f"chat{name}", chat)
    for name, bad in (("nothing", {}), ("number", {"prompt": {"not": "a text"}})):
        await session.send(f"bad-{name}", _scenario("/tokenize", bad, root=root, valid=False))
