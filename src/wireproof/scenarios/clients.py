"""Client libraries as data: the set-ups of `runners/clients/*.toml`, the tasks that they do, and their scenarios.

A set-up is one environment with one version of one client library. Its scenario `client-NAME` is a conversation with
one step for each task; the outcomes travel as tags of the exchanges (client_outcomes.py reads them).
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wireproof.resources import folder
from wireproof.scenarios.scenario import Scenario

PREFIX = "client-"
AREA = "client"
WHEN_ASKED = "client libraries are installed and run only when asked for: add --suite clients"


@dataclass(frozen=True)
class Task:
    """Something that a client is made to do. `optional` names the feature that a server may honestly refuse.

    `valid` is false when the server is meant to refuse the request.
    """

    name: str
    what: str
    optional: str = ""
    valid: bool = True


def _tasks(*tasks: Task) -> dict[str, Task]:
    return {t.name: t for t in tasks}


_TOOLS, _SCHEMA = "tool calls", "response_format json_schema"

TASKS: Mapping[str, Task] = _tasks(
    Task("plain", "A plain answer."),
    Task("plain-async", "A plain answer, with the asynchronous client."),
    Task("stream", "A stream with usage."),
    Task("stream-async", "A stream with usage, with the asynchronous client."),
    Task("helper", "The stream helper: a text with usage."),
    Task("helper-parse", "The stream helper: a parsed answer, response_format from a Pydantic model.", _SCHEMA),
    Task("helper-tools", "The stream helper: a forced tool call.", _TOOLS),
    Task("helper-logprobs", "The stream helper: logprobs.", "logprobs"),
    Task("helper-choices", "The stream helper: two choices.", "n > 1"),
    Task("logprobs", "Logprobs, plain and streamed.", "logprobs"),
    Task("parse", "A parsed answer: response_format from a Pydantic model.", _SCHEMA),
    Task("parse-tool", "Parsed arguments: a strict tool from a Pydantic model.", _TOOLS),
    Task("tools", "A named tool, plain and streamed.", _TOOLS),
    Task("tools-required", "tool_choice required (LangChain's any), plain and streamed.", _TOOLS),
    Task("tools-auto", "tool_choice auto, plain and streamed.", _TOOLS),
    Task("tools-none", "tool_choice none, plain and streamed.", _TOOLS),
    Task("parallel", "Two calls in one answer, plain and streamed.", _TOOLS),
    Task("round-trip", "A call, its result, and the answer to it.", _TOOLS),
    Task("agent", "The library's own agent loop, or that of OpenAI's guide; plain and streamed.", _TOOLS),
    Task("structured-schema", "Structured output by json_schema.", _SCHEMA),
    Task("structured-stream", "Structured output by json_schema, streamed.", _SCHEMA),
    Task("structured-function", "Structured output by a named function.", _TOOLS),
    Task("structured-json", "Structured output by JSON mode.", "response_format json_object"),
    Task("error-value", "A parameter of a wrong type.", valid=False),
    Task("error-model", "A model that is not there.", valid=False),
    Task("error-key", "A wrong API key.", valid=False),
    Task("error-stream", "A parameter of a wrong type, with a stream.", valid=False),
    Task("leave", "Streams that are left after two chunks, then a plain answer."),
    Task("leave-async", "The same with the asynchronous client, in a task that is cancelled."),
    Task("unmixed", "Sixteen streams and eight plain answers at a time, each with a word of its own.", _SCHEMA),
)


@dataclass(frozen=True)
class Setup:
    """One environment of one client library. `packages` are all pinned; `seconds` is how long one task may take."""

    name: str
    what: str
    client: str
    python: str
    packages: tuple[str, ...]
    driver: str
    tasks: tuple[str, ...]
    seconds: float = 60.0

    @property
    def scenario(self) -> str:
        """The name of its scenario."""
        return PREFIX + self.name

    @property
    def digest(self) -> str:
        """Changes whenever an environment that was made earlier is no longer the one that is asked for."""
        return hashlib.sha256(json.dumps([self.python, self.packages]).encode()).hexdigest()


_PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[a-z,]+\])?==[A-Za-z0-9.!+]+")
_TEXTS = ("what", "client", "python", "driver")


def parse(text: str, name: str) -> Setup:
    """A set-up from the text of its file. Raises ValueError, naming what is wrong."""
    found: dict[str, Any] = tomllib.loads(text)
    missing = {*_TEXTS, "packages", "tasks"} - set(found)
    unknown = set(found) - {*_TEXTS, "packages", "tasks", "seconds"}
    if missing or unknown:
        raise ValueError(f"client {name}: missing {sorted(missing)}, unknown {sorted(unknown)}")
    loose = [p for p in found["packages"] if not _PINNED.fullmatch(p)]
    if loose:
        raise ValueError(f"client {name}: {loose[0]!r} is not pinned: write it as NAME==VERSION")
    strange = [t for t in found["tasks"] if t not in TASKS]
    if strange:
        raise ValueError(f"client {name}: there is no task {strange[0]!r}; tasks are {', '.join(TASKS)}")
    return Setup(
        name=name,
        packages=tuple(found["packages"]),
        tasks=tuple(found["tasks"]),
        seconds=float(found.get("seconds", 60.0)),
        **{key: str(found[key]) for key in _TEXTS},
    )


def where() -> Path:
    """The folder of the set-ups and drivers."""
    return folder("runners") / "clients"


@functools.cache
def load() -> Mapping[str, Setup]:
    """Every set-up by name."""
    files = sorted(where().glob("*.toml"))
    return {path.stem: parse(path.read_text(encoding="utf-8"), path.stem) for path in files}


def steps(client: str, *tasks: str) -> tuple[tuple[str, str], ...]:
    """(scenario, task) for all versions of a client ("" for every client) and those of the tasks that they do.

    Without tasks: all of them.
    """
    chosen = [s for s in load().values() if client in ("", s.client)]
    return tuple((s.scenario, t) for s in chosen for t in s.tasks if not tasks or t in tasks)


def scenarios() -> list[Scenario]:
    """One scenario for each set-up. They have neither a request nor a play: a driver does their tasks."""
    return [Scenario(name=s.scenario, what=s.what, client=s.name) for s in load().values()]
