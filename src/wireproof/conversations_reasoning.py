"""The question of `reasoning-plain`, cut earlier and later: most limits lie within the thoughts."""

from __future__ import annotations

from dataclasses import replace

from .scenario import Session, conversation, load

# Real models think for hundreds of tokens about anything; the bundled server's thought has some forty.
LIMITS = (1, 4, 12, 40)


@conversation("reasoning-sweep", "A question that asks to think first, cut at four limits, plain and streamed.")
async def _(session: Session) -> None:
    asked = load()["reasoning-plain"]
    for limit in LIMITS:
        cut = {**(asked.body or {}), "max_tokens": limit}
        await session.send(f"plain-{limit}", replace(asked, body=cut))
        streamed = {**cut, "stream": True, "stream_options": {"include_usage": True}}
        await session.send(f"stream-{limit}", replace(asked, body=streamed))
