"""What an answer says where JSON was asked for, and what is wrong with it: one flaw for each choice, never two.

The rules of structured output share the flaws out among themselves, so that one defect breaks one rule.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import Any

import jsonschema

from wireproof.json_schema.patterns import compiled
from wireproof.json_schema.violations import Violated, violated
from wireproof.read.chat import Chat, ChoiceResult
from wireproof.read.exchange import Exchange
from wireproof.read.request import Form, Format, response_format
from wireproof.read.views import view
from wireproof.verdict import inconclusive
from wireproof.wire import strictjson
from wireproof.wire.strictjson import Parsed, ProblemKind, get

_STOPS = ("stop", "stop_token_ids", "stop_regex")
# At so many brackets, JSON is looked for in the middle of a text.
_TRIES = 32
# Deltas that repeat all before them: so many in a row, or one with as much text (characters).
_GROWING, _AGAIN = 3, 8
# Servers differ in the draft that they read. Formats of the metaschema (a pattern must be a regex) are not looked at.
_DRAFTS = (jsonschema.Draft202012Validator, jsonschema.Draft7Validator, jsonschema.Draft4Validator)
_DECODER = json.JSONDecoder()
# Blanks between tokens are legal; more than this in a row is a run that got away (characters).
BLANKS = 64
_LONG_BLANKS = re.compile(rf"[ \t\r\n]{{{BLANKS + 1},}}")
_STRING_OR_BLANKS = re.compile(rf'"(?:[^"\\]|\\.)*"|[ \t\r\n]{{{BLANKS + 1},}}', re.DOTALL)


class Flaw(Enum):
    """What is wrong with a text that should be JSON."""

    PROSE = auto()  # no JSON at all
    AROUND = auto()  # something before or behind the JSON: a fence, thoughts, a friendly word
    BROKEN = auto()  # it begins as JSON and is none
    CUT = auto()  # the same, where the limit on tokens was reached: what finish_reason says is another matter
    INVALID = auto()  # JSON that violates the core of the schema, or is no object where one was asked for
    LETTERS = auto()  # not the non-ASCII text that the schema pins


@dataclass(frozen=True)
class Text:
    """The text of one choice. `finish` is its finish_reason; `at_limit` whether usage shows that the limit was hit."""

    outcome: ChoiceResult
    content: str
    form: Format
    at_limit: bool

    @property
    def finish(self) -> Any:
        """The choice's finish_reason."""
        return self.outcome.finish_reason

    @property
    def whole(self) -> bool:
        """Whether the choice ended by itself."""
        return bool(self.finish == "stop")

    @property
    def of_object(self) -> bool:
        """Whether the value must be an object."""
        return self.form.form is Form.OBJECT or bool(get(self.form.schema, "type") == "object")

    @cached_property
    def parsed(self) -> Parsed:
        """The text as one JSON text."""
        return strictjson.parse(self.content)

    @property
    def is_json(self) -> bool:
        """Whether it is one whole JSON text (NaN and Infinity are none: RFC 8259 section 6)."""
        return self.parsed.ok and self.parsed.problem(ProblemKind.CONSTANT) is None

    @cached_property
    def misses(self) -> list[Violated]:
        """What of the schema's core the value violates; empty without a schema, or with one that cannot be used."""
        if self.form.schema is None or not self.is_json:
            return []
        try:
            return [v for v in violated(self.form.schema, self.parsed.value) if v.area == "core"]
        except ValueError:
            return []

    @cached_property
    def flaw(self) -> Flaw | None:
        """The one thing that is wrong, as far as the text goes: a cut text may be the beginning of anything right."""
        if not self.whole:
            return _beginning(self.content, "{" if self.of_object else '{["-0123456789tfn')
        if not self.is_json:
            return _not_json(self.content, self.at_limit)
        if self.form.form is Form.OBJECT:
            return None if isinstance(self.parsed.value, dict) else Flaw.INVALID
        if not self.misses:
            return None
        letters = all(v.keyword in ("enum", "const") for v in self.misses) and not_ascii(self.form.schema)
        return Flaw.LETTERS if letters else Flaw.INVALID

    @property
    def shown(self) -> str:
        """For messages: what is missed, and the text."""
        missed = f"{self.misses[0]}; " if self.misses else ""
        return f"{missed}{self.content[:100]!r}, finish_reason {str(self.finish)[:20]}"

    @cached_property
    def blanks(self) -> int:
        """The longest run of white space outside of strings; 0 when none is longer than the limit."""
        if not _LONG_BLANKS.search(self.content):
            return 0
        found = _STRING_OR_BLANKS.findall(self.content)
        return max((len(f) for f in found if not f.startswith('"')), default=0)


def _beginning(text: str, opening: str) -> Flaw | None:
    start = text.lstrip()
    if not start or start[0] in opening:
        return Flaw.AROUND if _after_json(start) else None
    return Flaw.AROUND if start.startswith(("`", "<")) else Flaw.PROSE


def _after_json(start: str) -> bool:
    """Whether a whole object is there, and then something else than blanks."""
    if not start.startswith("{"):
        return False
    try:
        _, end = _DECODER.raw_decode(start)
    except (ValueError, RecursionError):
        return False
    return bool(start[end:].strip())


def _not_json(text: str, at_limit: bool) -> Flaw:
    start = text.strip()
    if start.startswith(("`", "<")):
        return Flaw.AROUND
    if start.startswith(("{", "[")):
        if _after_json(start):
            return Flaw.AROUND
        return Flaw.CUT if at_limit else Flaw.BROKEN
    if not start:
        return Flaw.CUT if at_limit else Flaw.BROKEN
    at = start.find("{")
    for _ in range(_TRIES):
        if at < 0:
            break
        try:
            value, _end = _DECODER.raw_decode(start, at)
        except (ValueError, RecursionError):
            at = start.find("{", at + 1)
            continue
        return Flaw.AROUND if value else Flaw.PROSE
    return Flaw.PROSE


def not_ascii(schema: Any) -> bool:
    """Whether a schema pins a text, or names a key, that is not ASCII."""
    return any(not text.isascii() for text in _pinned_texts(json.dumps(schema)))


@functools.lru_cache(maxsize=256)
def _pinned_texts(schema: str) -> tuple[str, ...]:
    out: list[str] = []
    for node in _objects(json.loads(schema)):
        values = [*(node["enum"] if isinstance(node.get("enum"), list) else []), node.get("const")]
        out += [v for v in values if isinstance(v, str)]
        if isinstance(node.get("properties"), dict):
            out += node["properties"]
    return tuple(out)


def _objects(value: Any) -> list[dict[str, Any]]:
    """Every object in a JSON value."""
    found, stack = [], [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            found.append(item)
            stack += item.values()
        elif isinstance(item, list):
            stack += item
    return found


def asks_json(x: Exchange) -> bool:
    """Whether the request asks for an object, or for a strict schema; what is not strict is best effort."""
    return response_format(x).form is Form.OBJECT or asks_strict(x)


@view
def asks_strict(x: Exchange) -> bool:
    """Whether the request asks for a strict schema that is one: an answer to another cannot be judged by it."""
    form = response_format(x)
    return form.strict and form.schema is not None and _usable(json.dumps(form.schema))


@view
def texts(x: Chat) -> list[Text]:
    """The texts of the choices that answer in text; inconclusive when there is none.

    A choice with calls or a refusal is none of them, nor is one that a stop string may have cut, or one that ended
    in its thoughts.
    """
    if any(x.asked.get(name) for name in _STOPS):
        raise inconclusive("a stop string may cut the answer anywhere")
    if _continues(x):
        raise inconclusive("the answer continues a text that the request began")
    if x.is_event_stream:
        _skip_condemned(x)
    form, limit = response_format(x), x.token_limit
    spent = get(x.usage, "completion_tokens")
    at_limit = limit is not None and x.asked_n == 1 and isinstance(spent, int) and spent >= limit
    found = [
        Text(o, o.content, form, at_limit)
        for o in x.outcomes
        if isinstance(o.content, str) and not o.calls and not o.refusal and isinstance(o.finish_reason, str)
    ]
    found = [t for t in found if t.content.strip() or not _thought(x)]
    if not found:
        raise inconclusive("the answer has no text")
    return found


def _continues(x: Exchange) -> bool:
    """Whether the last message is the assistant's own beginning, which engines go on with."""
    messages = x.asked.get("messages")
    return isinstance(messages, list) and bool(messages) and bool(get(messages[-1], "role") == "assistant")


def _skip_condemned(x: Chat) -> None:
    """Inconclusive for a stream that joins wrongly, or ends wrongly, for a reason that has a rule of its own."""
    if not all(payload.parsed.ok for payload in x.payloads):
        raise inconclusive("an event is no JSON")
    for choice in x.finished_stream.choices:
        said: list[str] = []
        size, before, growing = 0, "", 0
        for part in choice.parts:
            text = part.delta.get("content")
            if text is not None and not isinstance(text, str):
                raise inconclusive("a delta's content is no string")
            if not text:
                continue
            growing = growing + 1 if before and len(text) > len(before) and text.startswith(before) else 0
            again = _AGAIN <= size <= len(text) and text.startswith("".join(said))
            if again or growing == _GROWING:
                raise inconclusive("the deltas repeat the text so far")
            said.append(text)
            size, before = size + len(text), text
        if len(choice.finishes) != 1:
            raise inconclusive("a choice has no finish_reason, or several")


def whole_texts(x: Chat) -> list[Text]:
    """The texts that ended by themselves; inconclusive when there is none."""
    found = [t for t in texts(x) if t.whole]
    if not found:
        raise inconclusive("the answer was cut")
    return found


def _thought(x: Chat) -> bool:
    """Whether the answer has reasoning beside its content."""
    if x.is_event_stream:
        said = [p.delta for p in x.assembled.parts]
    else:
        said = [m for c in x.plain_choices if isinstance(m := c.get("message"), dict)]
    return any(m.get("reasoning_content") or m.get("reasoning") for m in said)


# -- schemas that are none --------------------------------------------------------------


def bad_schema(schema: Any) -> str:
    """Why a schema is none, or ""; what is merely unusual is fine."""
    try:
        return _bad_schema(json.dumps(schema))
    except RecursionError:
        return ""


@functools.lru_cache(maxsize=256)
def _bad_schema(text: str) -> str:
    schema = json.loads(text)
    if not any(draft(draft.META_SCHEMA).is_valid(schema) for draft in _DRAFTS):
        return "it is no JSON Schema of any draft"
    for node in _objects(schema):
        ref = node.get("$ref")
        if isinstance(ref, str) and ref.startswith("#/") and not _resolves(schema, ref):
            return f"{ref[:60]} points nowhere"
    return ""


@functools.lru_cache(maxsize=256)
def _usable(text: str) -> bool:
    if _bad_schema(text):
        return False
    patterns = [p for node in _objects(json.loads(text)) if isinstance(p := node.get("pattern"), str)]
    try:
        for pattern in patterns:
            compiled(pattern)
    except (re.error, ValueError, OverflowError, RecursionError):
        return False
    return True


def _resolves(schema: Mapping[str, Any], ref: str) -> bool:
    here: Any = schema
    for part in ref.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~").replace("%25", "%")
        if isinstance(here, list):
            here = get(here, int(name)) if name.isdigit() else None
        else:
            here = here.get(name) if isinstance(here, dict) else None
        if here is None:
            return False
    return True
