"""What the deltas add up to."""

from __future__ import annotations

import functools
import json
from typing import Any

from wireproof.judge.rules import MUST, SHOULD, Twins, contract, rule
from wireproof.judge.subjects import STREAMS, TWINS
from wireproof.read.chat import Chat, ChoiceResult, is_answer
from wireproof.read.exchange import Exchange
from wireproof.verdict import inconclusive, require
from wireproof.wire import strictjson
from wireproof.wire.chat import Choice, Part
from wireproof.wire.strictjson import get, is_int

# _RUN deltas in a row, each longer than _LONG characters, must repeat all the text before them. A model that
# loops, in chunks of several tokens, does not make them grow every time.
_RUN, _LONG = 3, 8


def _growing(choice: Choice) -> Part | None:
    """The part that makes a run of ever-growing repetitions certain, or None."""
    so_far, run = "", 0
    for part in choice.parts:
        text = part.delta.get("content")
        if not isinstance(text, str) or not text:
            continue
        if len(so_far) < len(text) > _LONG and so_far and text.startswith(so_far):
            so_far, run = text, run + 1
            if run == _RUN:
                return part
        else:
            # Short beginnings are not counted, but they are still a prefix of what follows.
            so_far, run = (text, run) if so_far and text.startswith(so_far) else (so_far + text, 0)
    return None


def _skip_condemned(stream: Chat) -> None:
    """Skip deltas that join wrongly for a reason that another rule judges."""
    for part in stream.assembled.parts:
        if not isinstance(part.delta.get("content"), str | None):
            raise inconclusive("a delta's content is not a string")
    if any(_growing(choice) for choice in stream.assembled.choices):
        raise inconclusive("the deltas are cumulative")


@rule("chunk.content.not-cumulative", MUST, on=STREAMS, source=contract("stream invariant 2"))
def test_not_cumulative(x: Chat) -> None:
    """A delta contains only the new text, not all the text so far.

    Every client appends deltas: users would read "the the city the city of".
    """
    for choice in x.assembled.choices:
        part = _growing(choice)
        if part is not None:
            got = f"{_RUN} deltas in a row that begin with all of it, last {part.delta['content'][:60]!r}"
            require(False, "deltas that add to the text before them", got=got, at=part)
    if not x.answer_parts:
        raise inconclusive("the stream has no choices")


def _schema(x: Exchange) -> Any:
    """The JSON Schema that the request asked for, when it is strict."""
    wanted = get(x.asked, "response_format", "json_schema")
    return get(wanted, "schema") if get(wanted, "strict") is True else None


@functools.lru_cache(maxsize=64)
def _pinned(schema: str) -> Any:
    """The only value that a schema of one enum member allows, or None."""
    properties = get(json.loads(schema), "properties")
    if not isinstance(properties, dict):
        return None
    enums = {name: get(value, "enum") for name, value in properties.items()}
    if all(isinstance(e, list) and len(e) == 1 for e in enums.values()):
        return {name: e[0] for name, e in enums.items()}
    return None


_PINNED = Twins(
    "a streamed answer that strict JSON Schema constrains, and its plain twin",
    lambda x: is_answer(x) and isinstance(_schema(x), dict),
    ("plain-pinned", "stream-pinned", "plain-enum-unicode", "stream-enum-unicode"),
)


def _only(x: Chat) -> ChoiceResult:
    found = x.outcomes
    if len(found) != 1 or found[0].finish_reason != "stop" or not isinstance(found[0].content, str):
        raise inconclusive("the answer was cut off, or is not one text")
    return found[0]


@rule("chunk.content.increments", MUST, on=_PINNED, book="CHUNK-012", source=contract("stream invariant 2"))
def test_increments(plain: Chat, stream: Chat) -> None:
    """The deltas of a choice, joined in order, are its whole content: nothing repeated, nothing lost.

    The check uses an answer that JSON Schema pins. Every client appends what arrives: it would show text twice,
    or text with gaps.
    """
    _skip_condemned(stream)
    wanted = strictjson.parse(_only(plain).content)
    if not wanted.ok:
        raise inconclusive("the plain answer does not follow the schema either")
    text = _only(stream).content
    got = strictjson.parse(text)
    require(got.ok, "deltas that join to the JSON text", got=text)
    only = _pinned(json.dumps(_schema(stream)))
    if only is not None and wanted.value == only:
        require(got.value == only, f"deltas that join to {json.dumps(only, ensure_ascii=False)}", got=text)


_SUCCESS = ("stop", "length", "tool_calls", "function_call", "content_filter")


def _comparable(content: Any) -> str:
    """The text of an answer, with null as "" and without a character that the token limit cut in half."""
    return content.rstrip("\ufffd") if isinstance(content, str) else ""


@rule("chunk.parity.with-plain", SHOULD, on=TWINS, book="CHUNK-020", source=contract("stream and plain agree"))
def test_parity(plain: Chat, stream: Chat) -> None:
    """The same request at temperature 0 gives the same text, and calls or no calls, whether streamed or plain.

    Servers keep two code paths, which drift apart: switching streaming on loses a call or changes a text. Other
    rules compare finish_reason, usage and the contents of the calls.
    """
    _skip_condemned(stream)
    wanted = {o.index: o for o in plain.outcomes if is_int(o.index)}
    if len(wanted) != len(stream.outcomes):
        raise inconclusive("the answers do not have the same number of choices")
    for got in stream.outcomes:
        twin = wanted.get(got.index)
        if twin is None or got.finish_reason not in _SUCCESS:
            continue
        for name in ("content", "refusal"):
            want, have = _comparable(getattr(twin, name)), _comparable(getattr(got, name))
            require(have == want, f"{name} {want!r} of choice {got.index} as without stream", got=repr(have))
        want, have = (f"{len(o.calls)} calls" for o in (twin, got))
        require(bool(got.calls) == bool(twin.calls), f"{want} in choice {got.index} as without stream", got=have)
