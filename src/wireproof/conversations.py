"""Scenarios that need more than one request. Each is a small async function over a `Session`."""

from __future__ import annotations

from dataclasses import replace

from . import conversations_cancel, conversations_load, conversations_param, conversations_schema, conversations_tools
from . import conversations_errors as _errors
from . import conversations_reasoning as _reasoning
from . import conversations_roles as _roles
from . import conversations_tokenize as _tokenize
from .scenario import Scenario, Session, conversation

# Each registers its own.
assert _errors
assert _reasoning and _roles and _tokenize
assert conversations_cancel and conversations_load and conversations_param
assert conversations_schema and conversations_tools

_SHORT = Scenario(
    name="short",
    what="A short answer.",
    body={"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8, "temperature": 0},
)
_SHORT_STREAM = replace(_SHORT, body={**(_SHORT.body or {}), "stream": True})


@conversation("connection-reuse", "A plain request, a stream, and a plain request over one connection.", exclusive=True)
async def _(session: Session) -> None:
    await session.send("plain", _SHORT)
    await session.send("stream", _SHORT_STREAM, reuse=True)
    await session.send("after-stream", _SHORT, reuse=True)
