"""The JSON Schema keyword table: small schemas of our own, each about one keyword and one type.

They live in `fixtures/schemas/*.json`, one file a group:

    {"group": "string", "cases": [{"id": "string-pattern", "keyword": "pattern", "type": "string",
      "schema": {...}, "valid": [...], "invalid": [...]}]}

A case becomes a request with `strict: true` whose prompt asks for the first *invalid* instance: a server that passes
the keyword over is led to show it. The schema is the one of the member `value` of an object, so that its root is what
OpenAI's strict mode wants; with `"root": true` it is the whole schema.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wireproof.resources import folder
from wireproof.scenarios.scenario import Scenario

TABLE = "keywords"
PREFIX = "keyword-"


@dataclass(frozen=True)
class KeywordCase:
    """One schema of the table. `schema` is the whole schema as it is sent; instances are whole, too.

    `risky` marks a schema that has killed an engine. `also` lists further ways to send it: "stream", and "tool" (the
    schema as the parameters of a strict function).
    """

    id: str
    group: str
    keyword: str
    type: str
    schema: Mapping[str, Any]
    valid: tuple[Any, ...]
    invalid: tuple[Any, ...]
    also: tuple[str, ...] = ()
    max_tokens: int = 120
    risky: bool = False

    @property
    def scenario(self) -> str:
        """The name of its plain request."""
        return PREFIX + self.id

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The names of all its requests."""
        return (self.scenario, *(f"{self.scenario}-{how}" for how in self.also))


_KEYS = {"id", "keyword", "type", "schema", "valid", "invalid", "root", "also", "max_tokens", "risky"}


def parse(text: str, where: str) -> list[KeywordCase]:
    """The cases of one file. Raises ValueError, naming file and case, for a key that is missing or unknown."""
    data = json.loads(text)
    out = []
    for case in data["cases"]:
        missing = {"id", "keyword", "type", "schema", "valid", "invalid"} - set(case)
        unknown = set(case) - _KEYS
        if missing or unknown:
            raise ValueError(f"{where}: case {case.get('id')}: missing {sorted(missing)}, unknown {sorted(unknown)}")
        whole = bool(case.get("root"))
        out.append(
            KeywordCase(
                id=case["id"],
                group=data["group"],
                keyword=case["keyword"],
                type=case["type"],
                schema=case["schema"] if whole else _wrapped(case["schema"]),
                valid=tuple(v if whole else {"value": v} for v in case["valid"]),
                invalid=tuple(v if whole else {"value": v} for v in case["invalid"]),
                also=tuple(case.get("also", ())),
                max_tokens=case.get("max_tokens", 120),
                risky=bool(case.get("risky")),
            )
        )
    return out


def _wrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as that of an object's one member; its definitions move to the root, where $ref finds them."""
    inner = {k: v for k, v in schema.items() if k != "$defs"}
    out: dict[str, Any] = {
        "type": "object",
        "properties": {"value": inner},
        "required": ["value"],
        "additionalProperties": False,
    }
    if "$defs" in schema:
        out["$defs"] = schema["$defs"]
    return out


@functools.cache
def load() -> Mapping[str, KeywordCase]:
    """Every case by id, in file order."""
    out: dict[str, KeywordCase] = {}
    for path in sorted(folder("fixtures").joinpath("schemas").glob("*.json")):
        for case in parse(path.read_text(encoding="utf-8"), path.name):
            if case.id in out:
                raise ValueError(f"{path.name}: case {case.id} is defined twice")
            out[case.id] = case
    return out


def scenarios() -> list[Scenario]:
    """The requests of all cases."""
    return [_scenario(case, how) for case in load().values() for how in ("plain", *case.also)]


def _scenario(case: KeywordCase, how: str) -> Scenario:
    wanted = json.dumps(case.invalid[0], ensure_ascii=False)
    body: dict[str, Any] = {"max_tokens": case.max_tokens, "temperature": 0}
    if how == "tool":
        function = {"name": "answer", "description": "Gives the answer.", "strict": True, "parameters": case.schema}
        body["messages"] = [{"role": "user", "content": f"Call the tool answer with {wanted}"}]
        body["tools"] = [{"type": "function", "function": function}]
        body["tool_choice"] = {"type": "function", "function": {"name": "answer"}}
    else:
        body["messages"] = [{"role": "user", "content": f"Say: {wanted}"}]
        named = {"name": "answer", "strict": True, "schema": case.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    if how == "stream":
        body["stream"] = True
    return Scenario(
        name=case.scenario if how == "plain" else f"{case.scenario}-{how}",
        what=f"JSON Schema: {case.keyword} ({case.type}), and a prompt that asks to violate it ({how}).",
        body=body,
        optional=f"the keyword {case.keyword}",
        risky=case.risky,
        table=TABLE,
        row=case.id,
        column=how,
    )
