"""A plain body against OpenAI's schema, for everything that no other rule checks, and its time."""

from __future__ import annotations

from wireproof.judge.rules import MUST, SHOULD, openapi, rule
from wireproof.judge.subjects import ANSWERS, PLAIN
from wireproof.read import openai_schema
from wireproof.read.chat import Chat
from wireproof.verdict import NotApplicable, require
from wireproof.wire.strictjson import get, is_int

_DAY = 86_400

# These places have rules of their own, which say more precisely what is wrong.
_ELSEWHERE = (
    *("id", "object", "created", "model", "usage", "choices[].index", "choices[].finish_reason"),
    *("choices[].message.role", "choices[].message.content", "choices[].message.tool_calls"),
    *("choices[].logprobs.content[]", "choices[].logprobs.refusal[]"),
)
_EXACTLY_ELSEWHERE = frozenset({"", "choices", "choices[]", "choices[].message"})


def _has_own_rule(misfit: openai_schema.Misfit) -> bool:
    if misfit.where in _EXACTLY_ELSEWHERE or misfit.where.startswith(_ELSEWHERE):
        return True
    # Absent keys and nulls: choice.logprobs.key-present, choice.message.refusal-key, choice.null.only-where-allowed.
    return misfit.got in ("absent", "null")


@rule("choice.schema.openapi", SHOULD, on=PLAIN, source=openapi("CreateChatCompletionResponse"))
def test_schema_openapi(x: Chat) -> None:
    """A plain body fits OpenAI's schema, apart from members that the schema does not define.

    This catches what no other rule checks, such as a refusal that is a number or log probabilities that are a
    list: strictly typed clients (pydantic-ai, Go, Rust) refuse the whole answer.
    """
    for misfit in openai_schema.unexcused(openai_schema.COMPLETION, x.completion):
        if not _has_own_rule(misfit):
            require(False, f"{misfit.where or 'the body'} to fit the schema", got=misfit.detail)


@rule("choice.created.seconds", MUST, on=PLAIN, source=openapi("CreateChatCompletionResponse.created: Unix seconds"))
def test_created_seconds(x: Chat) -> None:
    """`created` of a plain body is a time in Unix seconds, not in milliseconds.

    Otherwise dashboards and caches that sort by it show a date in the year 57000.
    """
    created = get(x.completion, "created")
    if not is_int(created):
        raise NotApplicable("there is no integer created: choice.body.required-members says so")
    require(10**9 <= created < 10**10, "Unix seconds (ten digits) as created", got=created)


@rule("choice.created.near-date", SHOULD, on=ANSWERS, source=openapi("created: when the completion was created"))
def test_created_near_date(x: Chat) -> None:
    """`created`, streamed or not, lies within a day of the answer's Date header.

    A constant, or the time when the server started, puts every answer at the same place in logs.
    """
    if x.is_event_stream:
        created = next((value for c in x.chunks if is_int(value := get(c.value, "created"))), None)
    else:
        created = get(x.completion, "created")
    if x.dated is None or not is_int(created) or not 10**9 <= created < 10**10:
        raise NotApplicable("there is no Date header, or no created in Unix seconds")
    near = abs(created - x.dated) <= _DAY
    require(near, f"a time within a day of the Date header, {x.dated:.0f}", got=created)
