"""Invalid formats and schemas: the server refuses them before generation, and survives them."""

from __future__ import annotations

import re
from typing import Any

from wireproof.judge.rules import MUST, SHOULD, Each, client, contract, observed, openapi, rule
from wireproof.read.chat import Chat, is_chat
from wireproof.read.exchange import Exchange
from wireproof.read.json_answer import Flaw, bad_schema, texts
from wireproof.read.refusal import BUSY_OR_LOCKED
from wireproof.read.request import response_format
from wireproof.verdict import inconclusive, require
from wireproof.wire.strictjson import get
from wireproof.wire.transcript import Ending

# Types that no server knows; others may be an extension (structural_tag, regex).
_UNKNOWN = ("format-unknown", "format-untyped")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _is_bad(x: Exchange) -> bool:
    """A plain request with an invalid schema, as the schema itself or the scenario shows."""
    if not is_chat(x) or x.asked_stream or not x.knows_request:
        return False
    if x.scenario == "schema-bad":
        return x.transcript.step.startswith("bad-")
    schema = response_format(x).schema
    return schema is not None and bool(bad_schema(schema))


def _is_odd(x: Exchange) -> bool:
    return x.scenario == "schema-odd" and x.transcript.step.startswith("odd-")


BAD = Each("every plain request with a bad schema", _is_bad, ("schema-bad",))
BAD_OR_ODD = Each(
    "every plain request with a bad or odd schema", lambda x: _is_bad(x) or _is_odd(x), ("schema-bad", "schema-odd")
)


def _judged(x: Exchange) -> Exchange:
    """The exchange; inconclusive if the server was busy or wanted a key."""
    if x.status in BUSY_OR_LOCKED:
        raise x.refused()
    return x


def _served(x: Exchange) -> bool:
    """Whether the server sent a success; another rule judges which."""
    return x.status is not None and 200 <= x.status < 300


def _refused(x: Exchange, expected: str) -> None:
    _judged(x)
    if x.response is None and x.transcript.ending is Ending.UNKNOWN:
        raise inconclusive("the recording has no answer")
    got = x.refusal() if x.response else f"no answer ({x.transcript.ending.value})"
    require(x.status is not None and 400 <= x.status < 500, expected, got=got)


@rule(
    "schema.bad.refused-and-survives",
    MUST,
    on=BAD_OR_ODD,
    book="SCHEMA-011",
    source=observed("'Invalid schema for response_format'", "https://github.com/sgl-project/sglang/issues/4574"),
)
def test_bad_refused(x: Exchange) -> None:
    """The server refuses an invalid schema with a 4xx before generation: no server error, no silence, no answer.

    A schema that the server ignores gives free text despite the promise; schemas that no check caught have taken down
    whole engines (vLLM, SGLang and TGI), with everybody else's requests. The server may also serve an odd schema.
    """
    if _served(x) and _is_odd(x):
        return
    _refused(x, "a 4xx that says what is wrong with the schema")


@rule(
    "schema.bad.envelope",
    SHOULD,
    on=BAD,
    source=client("langchain-openai", "matches 'Invalid schema for response_format'"),
)
def test_bad_envelope(x: Exchange) -> None:
    """The server refuses a schema with an error object that has a message.

    The author of the schema sees only this; for any other shape, openai-python shows just "Error code: 400".
    """
    _judged(x)
    if x.status is None or not 400 <= x.status < 500:
        raise inconclusive("the schema was not refused")
    message = get(x.parsed.value, "error", "message")
    require(isinstance(message, str) and message.strip(), '{"error": {"message": ...}}', got=x.text[:120])


@rule(
    "schema.control.survives",
    MUST,
    on=Each(
        "every plain request right after a bad schema",
        lambda x: x.scenario in ("schema-bad", "schema-odd") and x.transcript.step.startswith("control-"),
        ("schema-bad", "schema-odd"),
    ),
    source=contract("a request of one client never takes the server from the others"),
)
def test_control_survives(x: Exchange) -> None:
    """The server answers a plain request right after a bad schema.

    One client's typing error must not end the service, or the running requests, of all the others.
    """
    if x.status in BUSY_OR_LOCKED:
        raise x.refused()
    got = x.refusal() if x.response else f"no answer ({x.transcript.ending.value})"
    require(_served(x), f"200 after {x.transcript.step.removeprefix('control-')}", got=got)


def _form(x: Exchange) -> dict[str, Any]:
    """The response_format of a request for json_schema; empty for any other."""
    form = x.asked.get("response_format") if is_chat(x) and x.knows_request else None
    return form if isinstance(form, dict) and form.get("type") == "json_schema" else {}


def _json_schema(x: Exchange) -> Any:
    """Its member json_schema; an empty object if there is none."""
    found = _form(x).get("json_schema")
    return {} if found is None else found


def _lacks_object(x: Exchange) -> bool:
    form = _form(x)
    return bool(form) and form.get("json_schema") is None


def _misnamed(inner: Any) -> bool:
    if not isinstance(inner, dict) or not inner:
        return False
    name = inner.get("name")
    return name is None or (isinstance(name, str) and not _NAME.fullmatch(name))


def _mistyped(inner: Any) -> bool:
    if not isinstance(inner, dict):
        return True
    schema, strict = inner.get("schema"), inner.get("strict")
    return not isinstance(schema, dict | None) or not isinstance(strict, bool | None)


def _lacks_schema(x: Exchange) -> bool:
    """Whether the request asks for strict without a schema."""
    inner = _json_schema(x)
    return isinstance(inner, dict) and inner.get("strict") is True and inner.get("schema") is None


@rule(
    "schema.format.unknown-refused",
    MUST,
    on=Each(
        "every request with an unknown format, or json_schema without its object",
        lambda x: x.scenario in _UNKNOWN or _lacks_object(x),
        (*_UNKNOWN, "format-without-schema"),
    ),
    book="SCHEMA-009",
    source=observed("'Supported values are: json_object, json_schema, and text'"),
)
def test_format_unknown_refused(x: Exchange) -> None:
    """The server sends a 4xx for an unknown type of response_format, for none, and for json_schema without its object.

    A format that the server ignores gives prose, and the error appears far away, in the client's parser.
    """
    _refused(x, "a 4xx that names response_format")


@rule(
    "schema.name.checked",
    SHOULD,
    on=Each(
        "every request whose schema has no name, or a bad one",
        lambda x: _misnamed(_json_schema(x)),
        ("schema-name-missing", "schema-name-odd", "schema-name-long"),
    ),
    book="SCHEMA-010",
    source=openapi("ResponseFormatJsonSchema.json_schema.name"),
)
def test_name_checked(x: Exchange) -> None:
    """The server refuses a schema with no name, or a name that is not 1 to 64 of a-z, A-Z, 0-9, _ and -, with a 4xx.

    A client developed against a lax server fails with OpenAI.
    """
    _refused(x, "a 4xx that names json_schema.name")


@rule(
    "schema.spec.invalid-refused",
    SHOULD,
    on=Each(
        "every request whose json_schema has members of the wrong type, or no schema",
        lambda x: _mistyped(_json_schema(x)) or _lacks_schema(x),
        ("schema-strict-text", "schema-is-list", "schema-is-text", "schema-is-missing"),
    ),
    source=openapi("ResponseFormatJsonSchema: types of strict and schema"),
)
def test_spec_invalid_refused(x: Chat) -> None:
    """The server refuses json_schema members of the wrong type with a 4xx; without a schema, it sends at least JSON.

    Nobody knows what a server makes of them: usually no constraint at all.
    """
    if _lacks_schema(x) and _served(x):
        for text in texts(x):
            json = text.flaw not in (Flaw.PROSE, Flaw.AROUND, Flaw.BROKEN)
            require(json, "a 4xx, or JSON", got=text.shown)
        return
    _refused(x, "a 4xx that names the member")
