"""Conversations that need several requests at a time, or the same request several times."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import Any

from wireproof.scenarios.scenario import Scenario, Session, conversation


def _request(say: str, tokens: int, **more: Any) -> Scenario:
    body = {"messages": [{"role": "user", "content": say}], "max_tokens": tokens, "temperature": 0, **more}
    return Scenario(name="request", what=say, body=body)


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


OWN, SHARED = 16, 8


def nonce(number: int) -> str:
    """A word that no model says by itself, for each of the parallel requests."""
    return f"quartz-{number:02}-{(number + 3) * 7919 % 9973:04}"


def _nonce_request(number: int, request_id: str = "") -> Scenario:
    word = nonce(number)
    schema = _object(nonce={"type": "string", "enum": [word]})
    # Every other one is a stream: mixing up the pieces of answers is another fault than mixing up answers.
    stream = {"stream": True} if number % 2 else {}
    made = _request(f'Say: {{"nonce": "{word}"}}', 90, response_format=_strict(schema), **stream)
    return replace(made, headers={"X-Request-Id": request_id}) if request_id else made


@conversation(
    "parallel-nonces",
    "Sixteen requests at a time, half of them streams, each with a word of its own; eight more share an X-Request-Id.",
    exclusive=True,
    load=True,
    optional="strict json_schema",
)
async def _(session: Session) -> None:
    await session.together(*[(f"own-{n:02}", _nonce_request(n)) for n in range(OWN)])
    shared = [(f"shared-{n:02}", _nonce_request(n, "wireproof-shared-1")) for n in range(OWN, OWN + SHARED)]
    await session.together(*shared)


STREAMS = 8


@conversation("parallel-streams", "Eight streams at once.", exclusive=True, load=True)
async def _(session: Session) -> None:
    made = [_request(f"Count from {n} to 100, separated by commas.", 64, stream=True) for n in range(1, STREAMS + 1)]
    await session.together(*[(f"stream-{n}", scenario) for n, scenario in enumerate(made)])


_VALUES = [f"stall-{n:05}-{n * 7919 % 99991:05}" for n in range(2000)]


@conversation("schema-stall", "A stream, and a large schema beside it.", exclusive=True, load=True)
async def _(session: Session) -> None:
    await session.send("alone", _request("Count from 1 to 1000, separated by commas.", 100, stream=True))
    stream = await session.start("stream", _request("Count from 1 to 1000, separated by commas.", 400, stream=True))
    await session.sleep(0.2)
    schema = _object(item={"type": "string", "enum": _VALUES})
    say = f'Say: {{"item": "{_VALUES[1000]}"}}'
    beside = replace(_request(say, 60, response_format=_strict(schema)), optional="strict json_schema")
    await session.send("schema", beside)
    await stream.wait()


@conversation(
    "logprobs-cost",
    "The same request with and without logprobs, in turns.",
    exclusive=True,
    load=True,
    optional="logprobs",
)
async def _(session: Session) -> None:
    plain = _request("Count from 1 to 1000, separated by commas.", 64)
    scored = replace(plain, body={**(plain.body or {}), "logprobs": True, "top_logprobs": 5})
    for _ in range(4):
        await session.send("without", plain)
        await session.send("with", scored)


@conversation("repeat-plain", "The same plain request five times.")
async def _(session: Session) -> None:
    for _ in range(5):
        await session.send("again", _request("Say hello in one short sentence.", 8))


IDLE = 15.0


@conversation("keep-alive-idle", "A request over a connection that was idle for 15 s.", exclusive=True, slow=True)
async def _(session: Session) -> None:
    await session.send("first", _request("Say hello.", 4))
    await session.sleep(IDLE)
    await session.send("second", _request("Say hello.", 4), reuse=True)


@conversation("request-gzip", "A request whose body is compressed with gzip.", valid=False)
async def _(session: Session) -> None:
    body = {**(_request("Say hello.", 4).body or {}), "model": session.model}
    packed = gzip.compress(json.dumps(body).encode(), mtime=0).hex()
    headers = {"Content-Encoding": "gzip"}
    await session.send("gzip", Scenario(name="gzip", what="gzip", raw_hex=packed, headers=headers, valid=False))
