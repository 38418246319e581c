"""Servers that a bad request hurts. The only faults with a memory: what they show is a state."""

import json
from dataclasses import dataclass

from ..answer import Frame, Framing, HttpAnswer
from . import Context, Layer, fault


@dataclass
class _Memory:
    """Whether the engine is dying."""

    dying: bool = False


# The request that finds it dead has no other member: what is odd and served is judged by rules of its own.
_PLAIN = frozenset(("model", "messages", "max_tokens", "temperature"))


@fault("http.dies-of-a-bad-request", layer=Layer.HTTP, breaks={"http.refusal.server-survives"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The good request that follows a refused one finds the engine dead."""
    memory = ctx.state.memory(_Memory)
    if answer.status >= 400 and b'"strict"' not in ctx.http.body:  # a schema that cannot be enforced hurts nobody
        memory.dying = True
        return answer
    if ctx.chat is None or not _PLAIN.issuperset(ctx.chat.body) or not memory.dying:
        return answer
    memory.dying = False
    body = {"error": {"message": "generation thread died", "type": "server_error", "param": None, "code": None}}
    data = json.dumps(body).encode()
    headers = answer.with_headers(
        content_type="application/json",
        content_length=str(len(data)),
        transfer_encoding=None,
        cache_control=None,
        x_accel_buffering=None,
    )
    return HttpAnswer(500, "Internal Server Error", headers, iter([Frame(data)]), Framing.LENGTH)
