"""What is certainly wrong with a chat request, read from the request itself.

So rules about refusals judge every recording, whatever its scenario is called. Only what every server can see is a
defect here: the parameters of tools, schemas, logprobs, n and stop have rules of their own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from wireproof.read.chat import is_chat
from wireproof.read.exchange import Exchange
from wireproof.read.views import view
from wireproof.wire import strictjson
from wireproof.wire.strictjson import ProblemKind, get, is_int

# Longer bodies are sent to be long, and are wrong in no other way (bytes).
_LONG = 200_000
# Names that no model has.
_UNKNOWN_MODEL = re.compile(r"(?:^|[/\s])(?:no[-_ ]?such|nope|does[-_ ]not[-_ ]exist)", re.I)


class Kind(StrEnum):
    """What is wrong: the body, the messages, the model, or a parameter (its type, or its range)."""

    JSON = "json"
    BODY = "body"  # JSON, but no object
    MESSAGES = "messages"
    MODEL_MISSING = "model missing"
    MODEL_UNKNOWN = "model unknown"
    TYPE = "type"
    RANGE = "range"


@dataclass(frozen=True)
class Defect:
    """One defect: `param` is the top-level member at fault, empty when it is the whole body."""

    kind: Kind
    param: str
    what: str


def _number(low: float, high: float) -> Callable[[Any], Kind | None]:
    def check(value: Any) -> Kind | None:
        if isinstance(value, (list, dict)) or (isinstance(value, str) and not _numeric(value)):
            return Kind.TYPE
        real = isinstance(value, (int, float)) and not isinstance(value, bool)
        return Kind.RANGE if real and not low <= value <= high else None

    return check


def _integer(low: int, high: int) -> Callable[[Any], Kind | None]:
    def check(value: Any) -> Kind | None:
        if isinstance(value, float) and not value.is_integer():
            return Kind.TYPE
        return _number(low, high)(value)

    return check


def _logit_bias(value: Any) -> Kind | None:
    if not isinstance(value, dict):
        return Kind.TYPE
    if any(isinstance(v, (str, list, dict)) for v in value.values()):  # a key may be a word: llama.cpp documents that
        return Kind.TYPE
    far = any(isinstance(v, (int, float)) and not -100 <= v <= 100 for v in value.values())
    return Kind.RANGE if far else None


def _numeric(text: str) -> bool:
    """Whether a lenient server may read the text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


_PARAMETERS: Mapping[str, Callable[[Any], Kind | None]] = {
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "max_tokens": _integer(1, 2**31),
    "max_completion_tokens": _integer(1, 2**31),
    "presence_penalty": _number(-2, 2),
    "frequency_penalty": _number(-2, 2),
    "seed": _integer(-(2**63), 2**63 - 1),
    "logit_bias": _logit_bias,
}


@view
def defect(x: Exchange) -> Defect | None:
    """The first defect of a chat request; None when there is none, or when the recording does not tell."""
    if not (is_chat(x) and x.knows_request) or x.request.omitted or len(x.request.body) > _LONG:
        return None
    if x.request.header("content-encoding"):  # what it says is another matter
        return None
    try:
        text = x.request.body.decode("utf-8")
    except UnicodeDecodeError:
        return Defect(Kind.JSON, "", "a body that is no UTF-8")
    parsed = strictjson.parse(text)
    if not parsed.ok:
        known = parsed.problem(ProblemKind.NOT_JSON) is not None  # (what is nested deeply may be JSON all the same)
        return Defect(Kind.JSON, "", f"a body that is no JSON: {text[:40]!r}") if known else None
    if parsed.problems:
        return None
    body = parsed.value
    if not isinstance(body, dict):
        return Defect(Kind.BODY, "", f"a body that is no object: {text[:40]}")
    return _messages(body) or _model(body) or _parameter(body)


def _messages(body: dict[str, Any]) -> Defect | None:
    found = body.get("messages")
    if not isinstance(found, list):
        what = "no messages" if found is None else "messages that are no array"
        return Defect(Kind.MESSAGES, "messages", what)
    if not found:
        return Defect(Kind.MESSAGES, "messages", "messages: []")
    if any(not isinstance(m, dict) or not isinstance(get(m, "role"), str) for m in found):
        return Defect(Kind.MESSAGES, "messages", "a message without role")
    return None


def _model(body: dict[str, Any]) -> Defect | None:
    model = body.get("model")
    if model is None:
        return Defect(Kind.MODEL_MISSING, "model", "no model")
    if isinstance(model, str) and _UNKNOWN_MODEL.search(model):
        return Defect(Kind.MODEL_UNKNOWN, "model", f"the unknown model {model!r}")
    return None


def _endless(value: Any) -> bool:
    """A number that is too long for a double: some parsers refuse the whole body for it."""
    return (isinstance(value, float) and math.isinf(value)) or (is_int(value) and abs(value) >= 2**64)


def _parameter(body: dict[str, Any]) -> Defect | None:
    for name, check in _PARAMETERS.items():
        value = body.get(name)
        if value is None or _endless(value):
            continue
        kind = check(value)
        if kind is not None:
            return Defect(kind, name, f"{name}: {value!r:.60}")
    return None
