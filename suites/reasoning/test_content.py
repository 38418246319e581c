"""What the content may hold if the model thinks first, and how such an answer ends."""

from __future__ import annotations

from wireproof.json_schema.violations import violated
from wireproof.judge.rules import SHOULD, Each, contract, engine, observed, of, rule
from wireproof.read.chat import Chat, is_answer
from wireproof.read.exchange import Exchange
from wireproof.read.json_answer import asks_json
from wireproof.read.reasoning import kept_in, only, switched_off, tag, thinks, thoughts, without_tags
from wireproof.read.recording import Take
from wireproof.read.refusal import is_refused
from wireproof.read.request import response_format
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get, is_int, parse

# How many places in a thought are tried as the beginning of a JSON text.
_TRIES = 20

_THINKING = Each(
    "every chat answer that has reasoning, or reasoning tags",
    lambda x: thinks(x) or tag(x) is not None,
    ("reasoning-plain", "reasoning-stream", "reasoning-call"),
)
_JSON = Each(
    "every chat answer in JSON with reasoning beside it",
    lambda x: thinks(x) and asks_json(x),
    ("reasoning-schema", "reasoning-schema-stream"),
)
_OFF = Each(
    "every chat answer with thinking switched off",
    lambda x: is_answer(x) and switched_off(x),
    ("reasoning-off", "reasoning-off-stream", "reasoning-effort-none"),
)
_THOUGHTS = Each("every chat answer that has reasoning", thinks, ("reasoning-plain", "reasoning-sweep"))


@rule(
    "reasoning.content.no-tags",
    SHOULD,
    on=_THINKING,
    book="REASONING-001",
    source=engine("vllm", "--reasoning-parser"),
)
def test_no_tags(x: Exchange) -> None:
    """If the model thinks first, the content holds no thoughts: neither <think> or </think>, nor the text between.

    User interfaces show the chain of thought as the answer, and agents act on what the model only considered.
    """
    if kept_in(x):
        raise NotApplicable("the request asks for no thoughts, or to keep them in the content")
    if response_format(x).form != "text":
        raise NotApplicable("the answer is JSON: the rules for schemas judge the text around it")
    found = tag(x)
    require(found is None, "an answer without reasoning tags", got=found)


@rule(
    "reasoning.cut.is-length",
    SHOULD,
    on=_THOUGHTS,
    book="REASONING-004",
    source=observed("reasoning guide: the limit counts thoughts, too"),
)
def test_cut_is_length(x: Chat) -> None:
    """If the token limit cuts the answer off while the model still thinks, it ends with "length" and empty content.

    With "stop", callers take the empty content for the answer, and never ask again with a higher limit.
    """
    spent, limit = get(x.usage, "completion_tokens"), x.token_limit
    if x.asked_n > 1 or limit is None or not is_int(spent):
        raise NotApplicable("it is unknown whether the limit was reached")
    found = only(x)
    if x.is_event_stream and any(len(c.finishes) > 1 for c in x.finished_stream.choices):
        raise inconclusive("a choice has several values of finish_reason")
    if found.content.strip() or found.calls or spent < limit:
        raise NotApplicable("the answer was not cut off in its thoughts")
    require(found.finish not in ("stop", "tool_calls"), f"length after {spent} tokens of thought", got=found.finish)


@rule(
    "reasoning.cut.sweep",
    SHOULD,
    on=of("reasoning-plain", "reasoning-sweep"),
    source=contract("thoughts are no content, wherever the limit falls"),
)
def test_sweep(x: Chat, take: Take) -> None:
    """Wherever the token limit cuts a thought off, the server answers with empty content, plain and streamed.

    A parser that waits for the end tag takes the cut thought for the answer: users see it, in one mode only.
    """
    whole = only(x).text.strip() if thinks(x) else ""
    if not whole:
        raise inconclusive("the model did not think: no reasoning in `reasoning` or `reasoning_content`")
    shown = False
    for step in take.chats():
        require(not is_refused(step), "an answer, even an empty one", got=step.refusal(), owner=step)
        if not step.ok or tag(step) or (step.is_event_stream and step.errors):
            continue  # other rules judge that
        found = only(step)
        so_far, said = found.text.strip(), without_tags(found.content)
        if not whole.startswith(so_far) or so_far == whole:
            continue  # the model thought something else, or to the end
        shown = True
        leaked = bool(said) and (bool(so_far) or whole.startswith(said[:20]))
        require(not leaked, "no content while the model still thinks", got=said, owner=step)
    if not shown:
        raise inconclusive("no limit cut off the same thought")


@rule(
    "reasoning.schema.content-only",
    SHOULD,
    on=_JSON,
    book="REASONING-006",
    source=contract("json.loads(content)"),
)
def test_schema_content_only(x: Chat) -> None:
    """With response_format, the JSON is in the content; thoughts may come beside it, in their own member.

    If the constraint binds the thought instead, content stays empty: json.loads(content) fails, or .parse() returns
    None, although the answer is there.
    """
    schema = response_format(x).schema
    for found in thoughts(x):
        if found.finish != "stop" or found.calls:
            raise inconclusive("the answer was cut off, or is a call")
        if found.content.strip():
            if not _fits(found.content, schema):
                raise inconclusive("the content does not keep to its format: the rules for schemas judge that")
            continue
        at = [i for i, c in enumerate(found.text) if c == "{"][:_TRIES]
        inside = any(_fits(found.text[i:], schema) for i in at)
        require(not inside, "the JSON in `content`", got=f"in the reasoning: {found.text[-80:]}")
        raise inconclusive("the model stopped in its thoughts")


def _fits(text: str, schema: object) -> bool:
    parsed = parse(text)
    if not parsed.ok or not isinstance(parsed.value, dict):
        return False
    return not isinstance(schema, dict) or not violated(schema, parsed.value)


@rule(
    "reasoning.plain-answers.complete",
    SHOULD,
    on=_OFF,
    book="REASONING-011",
    source=engine("vllm", "parsers that expect an end tag"),
)
def test_plain_answers_complete(x: Chat) -> None:
    """An answer without thoughts is complete in its content: a reasoning parser does not take it for a thought.

    A parser that waits for an end tag puts the whole answer into the reasoning, with content null: clients that
    read `content` show nothing, or crash on None.
    """
    for found in thoughts(x):
        if found.calls or found.finish != "stop":
            raise inconclusive("the answer was cut off, or is a call")
        require(found.content.strip() or not found.text, "the answer in `content`", got=f"reasoning {found.text}")
        if not found.content.strip():
            raise inconclusive("the model said nothing")


@rule(
    "reasoning.answer.not-swallowed",
    SHOULD,
    on=of("reasoning-plain", "reasoning-off"),
    source=engine("vllm", "parsers that take all for a thought until an end tag"),
)
def test_answer_not_swallowed(x: Chat, off: Chat) -> None:
    """The answer that the model gives with thinking off does not come only as reasoning with thinking on.

    If a model that does not think runs behind a reasoning parser, all its answers land in the reasoning: content is
    always empty, and clients show nothing.
    """
    first, second = only(x), only(off)
    answer = second.content.strip()
    if not answer or second.finish != "stop":
        raise inconclusive("with thinking off there was no whole answer")
    if not first.text:
        raise inconclusive("the model did not think: no reasoning in `reasoning` or `reasoning_content`")
    swallowed = first.finish == "stop" and not first.content.strip() and first.text.strip() == answer
    require(not swallowed, "the answer in `content`", got=f"all of it in the reasoning: {first.text}", owner=x)
