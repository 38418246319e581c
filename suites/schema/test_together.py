"""A format and tools in one request."""

from __future__ import annotations

import re

from wireproof.judge.rules import SHOULD, contract, observed, of, rule
from wireproof.read.chat import Chat
from wireproof.read.exchange import Exchange
from wireproof.read.refusal import BUSY_OR_LOCKED
from wireproof.read.tool_calls import calls
from wireproof.verdict import inconclusive, require
from wireproof.wire.strictjson import get

_TOOLS = re.compile(r"tool|function", re.I)
_FORMAT = re.compile(r"response_?\s?format|schema|json|grammar|structured|guided|constrain", re.I)


def _server_error(x: Exchange, expected: str) -> None:
    if x.status in BUSY_OR_LOCKED:
        raise x.refused()
    got = x.refusal() if x.response else f"no answer ({x.transcript.ending.value})"
    require(x.status is not None and x.status < 500, expected, got=got)


@rule(
    "schema.tools.together",
    SHOULD,
    on=of("plain-pinned", "schema-tools-alone", "schema-tools", "schema-tools-call"),
    book="SCHEMA-032",
    source=observed("structured outputs with tools", "https://platform.openai.com/docs/guides/structured-outputs"),
)
def test_tools_together(simple: Exchange, alone: Exchange, final: Exchange, call: Exchange) -> None:
    """The server accepts a schema and tools in one request, or refuses the combination with a 4xx that names both.

    Agents with a typed final answer send both. llama.cpp failed to compile a grammar that the user never wrote; Groq
    and Google refuse by design.
    """
    if not simple.ok or not alone.ok:
        raise (alone if simple.ok else simple).refused()
    for x in (final, call):
        _server_error(x, "200, or a 4xx that names the combination")
        if not x.ok:
            message = get(x.parsed.value, "error", "message")
            clear = isinstance(message, str) and _TOOLS.search(message) and _FORMAT.search(message)
            require(clear, "a message that names tools and the format", got=x.refusal(), owner=x)


@rule(
    "schema.tools.calls-kept",
    SHOULD,
    on=of("schema-tools-alone", "schema-tools-call"),
    source=contract("a schema is for the final text; calls stay possible"),
)
def test_tools_calls_kept(alone: Chat, both: Chat) -> None:
    """A question that leads to a tool call still does so with a schema for the final answer.

    A grammar that leaves no room for a call makes the model invent the answer: vLLM gave a made-up value for every
    question that needed a tool.
    """
    if not calls(alone):
        raise inconclusive("the model made no tool call even without the schema")
    if not both.ok:
        raise both.refused()
    require(calls(both), "a tool call, as without the schema", got=both.outcomes[0].content, owner=both)
