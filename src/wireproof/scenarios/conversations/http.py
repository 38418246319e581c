"""One connection for several requests."""

from __future__ import annotations

from dataclasses import replace

from wireproof.scenarios.scenario import Scenario, Session, conversation

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
