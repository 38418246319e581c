# mypy: ignore-errors
"""What all drivers share: the loop of jobs, the words of the tasks, and how errors are told.

A driver runs inside a client's environment and knows nothing of wireproof. It reads one job for each line of its
input and writes one outcome for each, both JSON. It reports what its library gave to its user, and judges nothing.
"""

import asyncio
import importlib.metadata
import json
import os
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

USER = "Say hello in one sentence."
CALL = 'Call get_lead with {"lead_id": "L-42"}.'
BOTH = "Call both get_lead for the lead L-42 and get_weather for the city Bern, in parallel."
LEAD = "Give the lead as JSON with the name Ada and the value 7."
# What a strict schema does not let through: it leaves one possible value, whatever the model would like to say.
OTHER = "Give the lead as JSON with the name Grace and the value 9."
# Long enough for what is forced, short for what is not (tokens).
SHORT, ENOUGH = 24, 200
ROUNDS = 4  # so often an agent may ask: a model that goes on calling ends as well
WORDS = [f"quartz-{n:02}-{(n + 3) * 7919 % 9973:04}" for n in range(24)]
STREAMS = 16  # so many of the words are asked for as streams, the others (the first ones) plainly


class answer(BaseModel):  # the class gives the schema its name on the wire
    """A lead of the CRM."""

    model_config = ConfigDict(extra="forbid")
    name: Literal["Ada"]
    value: Literal[7]


Lead = answer


class GetLead(BaseModel):
    """Looks up a lead of the CRM."""

    model_config = ConfigDict(extra="forbid")
    lead_id: Literal["L-42"]


def tool(name, what, member, value):
    """A strict function with one possible argument."""
    parameters = {
        "type": "object",
        "properties": {member: {"type": "string", "enum": [value]}},
        "required": [member],
        "additionalProperties": False,
    }
    function = {"name": name, "description": what, "strict": True, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = [
    tool("get_lead", "Looks up a lead of the CRM.", "lead_id", "L-42"),
    tool("get_weather", "The weather of a city.", "city", "Bern"),
]


def user(text):
    """A conversation of one message."""
    return [{"role": "user", "content": text}]


async def cancelled(begin):
    """Read a stream in a task of its own, and cancel that after two chunks; how many were read.

    `begin()` is awaited for something to iterate over.
    """
    two, count = asyncio.Event(), 0

    async def read():
        nonlocal count
        async for _ in await begin():
            count += 1
            if count >= 2:
                two.set()
                await asyncio.sleep(0)

    reading, waiting = asyncio.ensure_future(read()), asyncio.ensure_future(two.wait())
    await asyncio.wait({reading, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if reading.done():
        reading.result()  # it ended before it could be left: of itself, or with an error, which is raised here
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    return count


def plain(value):
    """Any object of a library's as JSON."""
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def told(error):
    """An exception as JSON."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    found = {
        "type": type(error).__name__,
        "bases": [c.__name__ for c in type(error).__mro__[:-1]],
        "message": str(error)[:2000],
        "where": f"{Path(last.filename).name}, {last.name}" if last else "",
    }
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        found["status"] = status
    for theirs, ours in (("type", "kind"), ("code", "code"), ("param", "param"), ("body", "body")):
        if hasattr(error, theirs):
            found[ours] = plain(getattr(error, theirs))
    return found


class Odd:
    """Collects where a library hands out None though its users expect a string."""

    def __init__(self):
        self.found = []

    def look(self, where, value):
        """Note the place of a None."""
        if value is None:
            self.found.append(where)
        return value


def serve(tasks, packages):
    """Do jobs until the input ends. What libraries print goes to stderr: stdout is ours."""
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)

    def say(line):
        out.write(json.dumps(line) + "\n")
        out.flush()

    say({"versions": {name: importlib.metadata.version(name) for name in packages}, "tasks": list(tasks)})
    for text in sys.stdin:
        job = json.loads(text)
        started = time.perf_counter()
        outcome = {"task": job["task"], "ok": True}
        try:
            outcome["result"] = plain(tasks[job["task"]](job))
        except Exception as error:
            outcome |= {"ok": False, "error": told(error)}
        outcome["seconds"] = round(time.perf_counter() - started, 3)
        say(outcome)
