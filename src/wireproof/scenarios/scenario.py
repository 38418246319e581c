"""Scenarios: named requests as data, and small conversations as async functions.

The requests live in `fixtures/scenarios/*.toml`, one table each:

    [stream-usage]
    what = "A streamed answer whose usage is asked for."
    body = { messages = [...], stream = true, stream_options = { include_usage = true } }

A conversation is a function that sends several requests over one `Session`:

    @conversation("connection-reuse", "Two requests over one connection.")
    async def _(session: Session) -> None: ...
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from wireproof.read.exchange import Exchange
from wireproof.wire.endpoints import PATHS, Endpoint
from wireproof.wire.transcript import Tags


@dataclass(frozen=True)
class Scenario:
    """One named request, or one conversation, and how it is recorded.

    `endpoint` is what it is about. `path` is relative to the target's base URL (.../v1), or to its root when `root` is
    set; without one it is the endpoint's.
    `raw` is a body that is sent as it is, with `$MODEL` replaced, `raw_hex` one that is no text; else `body` is
    sent as JSON with the model filled in. `$KEY` in a header is the API key, or "none" when there is none.
    `valid` is false for a request that a server may refuse.
    `optional` names a feature: a well-formed 4xx then means unsupported. `leave_after_events`
    makes us close the connection after so many events. `read_size` limits each read (bytes).
    `pad_bytes` makes the body that long, by a prompt or by another field (`pad_field`) that costs no tokens.
    `health` marks the one request that shows, after those that must be refused, that the server still works.
    `client` names the set-up of a client library that plays it (clients.py).
    `load` marks what costs more than a request or two (floods, long generations, fuzzing): gentle runs leave it out.
    `risky` marks a request that has killed a real engine: it comes last of all, and only when it was asked for.
    `gauges` marks a look at the target's load: it goes to the engine's own /metrics when that was named (a gateway has
    none), and `gpu` has it tagged with what the GPUs of this machine are doing.
    `table`, `row` and `column` put its outcome into a table of the reports (tables.py).
    """

    name: str
    what: str
    body: Mapping[str, Any] | None = None
    raw: str | None = None
    raw_hex: str = ""
    method: str = "POST"
    endpoint: Endpoint = Endpoint.CHAT
    path: str = ""
    root: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    fill_model: bool = True
    authorize: bool = True
    valid: bool = True
    optional: str = ""
    exclusive: bool = False
    slow: bool = False
    health: bool = False
    load: bool = False
    risky: bool = False
    gauges: bool = False
    gpu: bool = False
    table: str = ""
    row: str = ""
    column: str = ""
    samples: int = 1
    pad_bytes: int = 0
    pad_field: str = "messages"
    leave_after_events: int | None = None
    read_size: int | None = None
    idle_seconds: float | None = None
    play: Callable[[Session], Awaitable[None]] | None = None
    client: str = ""

    @property
    def tame(self) -> bool:
        """Whether every server can be trusted to survive it."""
        return self.valid and not self.risky

    @property
    def tags(self) -> Tags:
        """What a check may know about the scenario."""
        return Tags(self.valid, self.optional, self.table, self.row, self.column)

    @property
    def address(self) -> str:
        """The path that is asked for."""
        return self.path or PATHS.get(self.endpoint, "/")

    def content(self, model: str) -> bytes:
        """The request body for a model (bytes). Made once: some bodies are megabytes long."""
        made: dict[str, bytes] = self.__dict__.setdefault("_content", {})
        if model not in made:
            made[model] = self._make_content(model)
        return made[model]

    def _make_content(self, model: str) -> bytes:
        if self.raw_hex:
            return bytes.fromhex(self.raw_hex)
        if self.raw is not None:
            return self.raw.replace("$MODEL", json.dumps(model, ensure_ascii=False)[1:-1]).encode("utf-8")
        if self.body is None:
            return b""
        body = dict(self.body)
        if self.fill_model and "model" not in body:
            body = {"model": model, **body}
        if self.pad_bytes:
            text = "wireproof pads this message. " * (self.pad_bytes // 29 + 1)
            padded = text[: self.pad_bytes]
            body[self.pad_field] = [{"role": "user", "content": padded}] if self.pad_field == "messages" else padded
        return json.dumps(body, ensure_ascii=False).encode("utf-8")


class Pending(Protocol):
    """A request on its way."""

    async def leave(self) -> Exchange:
        """Close the connection now (when the answer has not ended), and record what came so far."""
        ...

    async def wait(self) -> Exchange:
        """Wait for the end of the answer, and record it."""
        ...


class Session(Protocol):
    """What a conversation works with."""

    model: str

    async def send(self, step: str, scenario: Scenario, *, reuse: bool = False) -> Exchange:
        """Send one request and record it under a step name; `reuse` asks for the connection before."""
        ...

    async def start(self, step: str, scenario: Scenario) -> Pending:
        """Send a request over a connection of its own and go on while it is answered."""
        ...

    async def together(self, *requests: tuple[str, Scenario]) -> list[Exchange]:
        """Send requests at the same time, each over a connection of its own; the exchanges, in the given order."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait (virtually, in memory)."""
        ...


CONVERSATIONS: dict[str, Scenario] = {}


def conversation(
    name: str, what: str, **options: Any
) -> Callable[[Callable[[Session], Awaitable[None]]], Callable[[Session], Awaitable[None]]]:
    """Register an async function as the scenario `name`."""

    def register(play: Callable[[Session], Awaitable[None]]) -> Callable[[Session], Awaitable[None]]:
        if name in CONVERSATIONS:
            raise ValueError(f"conversation {name} is defined twice")
        CONVERSATIONS[name] = Scenario(name=name, what=what, play=play, **options)
        return play

    return register
