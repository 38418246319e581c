"""Two outcome tables: what became of each JSON Schema keyword, and of each `tool_choice`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wireproof.json_schema.violations import violated
from wireproof.read import request
from wireproof.read.chat import Chat
from wireproof.read.exchange import Exchange
from wireproof.read.request import ToolChoiceKind
from wireproof.read.tool_calls import calls, legacy_call
from wireproof.scenarios import keywords
from wireproof.tables.table import WORST_FIRST, Cell, Effect, Row, Table
from wireproof.verdict import Inconclusive, NotApplicable, Unsupported, show
from wireproof.wire import strictjson
from wireproof.wire.strictjson import get

# The exchanges of one row, by column: one for each sample.
Samples = dict[str, list[Chat]]


# -- keywords ---------------------------------------------------------------------

_KEYWORD_LEGEND = (
    "Each schema was sent with strict: true and a prompt that asks for an answer that violates it. held: the answer is "
    "valid; refused: a 4xx that says so; ignored: 200 with an invalid answer, the only finding; unclear: cut, or no "
    "answer."
)


def keyword_outcome(x: Chat) -> tuple[Effect, str]:
    """What became of the schema of one request (response_format, or the parameters of a forced strict function)."""
    refused = _refused(x)
    if refused is not None:
        return refused
    try:
        schema, text, finish = _constrained_text(x)
    except (Inconclusive, Unsupported, NotApplicable) as reason:
        return Effect.UNCLEAR, str(reason)[:120]
    if finish == "length":
        return Effect.UNCLEAR, f"cut by max_tokens: {show(text, 60)}"
    parsed = strictjson.parse(text)
    if not parsed.ok:
        return Effect.IGNORED, f"no JSON: {show(text, 60)}"
    try:
        found = violated(schema, parsed.value)
    except ValueError as error:
        return Effect.UNCLEAR, str(error)
    if found:
        return Effect.IGNORED, f"{show(text, 60)}: {found[0].keyword}"
    return Effect.HELD, show(text, 60)


def _constrained_text(x: Chat) -> tuple[Any, str, Any]:
    """Schema, text and finish_reason of the one choice that a keyword request has."""
    form = request.response_format(x)
    if form.schema is not None:
        outcome = x.outcomes[0]
        if not isinstance(outcome.content, str):
            raise Inconclusive(f"content is {show(outcome.content, 40)}")
        return form.schema, outcome.content, outcome.finish_reason
    made = calls(x)
    declared = request.tools(x)
    if not made:
        raise Inconclusive("no tool call")
    call = made[0]
    tool = declared.get(call.name) if isinstance(call.name, str) else None
    if tool is None or not isinstance(call.arguments, str):
        raise Inconclusive("the call has no arguments, or another name")
    return tool.parameters or {}, call.arguments, call.finish


def _refused(x: Exchange) -> tuple[Effect, str] | None:
    """A clean refusal, or an answer that is no success at all."""
    if x.ok:
        return None
    if x.response is None:
        return Effect.UNCLEAR, x.refusal()[:120]
    # (SGLang and old vLLM write the envelope flat; the rules for errors say what they think of that.)
    flat = get(x.parsed.value, "object") == "error"
    envelope = flat or isinstance(get(x.parsed.value, "error"), dict)
    if x.status is not None and 400 <= x.status < 500 and envelope:
        return Effect.REFUSED, x.refusal()[:120]
    return Effect.UNCLEAR, x.refusal()[:120]


def keyword_table(rows: dict[str, Samples]) -> Table:
    known = keywords.load()
    order = list(known)
    made = [
        Row(name, (known[name].keyword, known[name].type, name), _cells(rows[name], keyword_outcome))
        for name in sorted((n for n in rows if n in known), key=order.index)
    ]
    columns = ("plain", "stream", "tool")
    return Table(
        keywords.TABLE, "JSON Schema keywords", _KEYWORD_LEGEND, ("keyword", "type", "schema"), columns, tuple(made)
    )


# -- tool_choice --------------------------------------------------------------------

CHOICE_TABLE = "tool-choice"
_CHOICE_LEGEND = (
    "What each tool_choice came to. held: the answer keeps to it (with auto both a call and text do); refused: a 4xx; "
    "ignored: 200 that contradicts it; unclear: cut, or no answer."
)


def choice_outcome(x: Chat) -> tuple[Effect, str]:
    """Whether an answer keeps to the request's tool_choice."""
    refused = _refused(x)
    if refused is not None:
        return refused
    try:
        legacy = legacy_call(x) if request.is_legacy(x) else None
        made = [legacy] if legacy else calls(x)
        finish = x.outcomes[0].finish_reason
    except (Inconclusive, Unsupported, NotApplicable) as reason:
        return Effect.UNCLEAR, str(reason)[:120]
    names = [c.name if isinstance(c.name, str) else "?" for c in made]
    text = f"{', '.join(dict.fromkeys(names)) or 'text'} · {show(finish, 20)}"
    choice = _asked_choice(x)
    if not x.valid:
        return Effect.IGNORED, text
    if finish == "length" and not made:
        return Effect.UNCLEAR, text
    if choice.kind is ToolChoiceKind.NONE:
        return (Effect.IGNORED if made else Effect.HELD), text
    allowed = all(name in choice.names for name in names)
    missing = choice.forced and not made
    return (Effect.HELD if allowed and not missing else Effect.IGNORED), text


def _asked_choice(x: Exchange) -> request.ToolChoice:
    """tool_choice, or what the deprecated function_call says."""
    value = x.asked.get("function_call")
    name = get(value, "name")
    if not request.is_legacy(x) or value is None:
        return request.tool_choice(x)
    if isinstance(name, str):
        return request.ToolChoice(ToolChoiceKind.NAMED, frozenset({name}))
    return request.ToolChoice(
        ToolChoiceKind.NONE if value == "none" else ToolChoiceKind.AUTO, frozenset(request.tools(x))
    )


def choice_table(rows: dict[str, Samples]) -> Table:
    made = [Row(name, (name,), _cells(found, choice_outcome)) for name, found in rows.items()]
    return Table(CHOICE_TABLE, "tool_choice", _CHOICE_LEGEND, ("tool_choice",), ("plain", "stream"), tuple(made))


def _cells(found: Samples, judge: Callable[[Chat], tuple[Effect, str]]) -> dict[str, Cell]:
    out = {}
    for column, samples in found.items():
        judged = [(*judge(x), x) for x in samples]
        outcome, text, x = min(judged, key=lambda one: WORST_FIRST.index(one[0]))
        same = sum(other is outcome for other, _, _ in judged)
        some = f" ({same} of {len(judged)} samples)" if same < len(judged) else ""
        out[column] = Cell(outcome, text + some, x.transcript.id)
    return out
