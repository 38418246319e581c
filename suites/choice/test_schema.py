"""A plain body against OpenAI's schema, for what no other rule asks, and its time."""

from __future__ import annotations

from wireproof import shapes
from wireproof.evidence import PLAIN
from wireproof.exchange import Exchange
from wireproof.rules import MUST, SHOULD, openapi, rule
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


def _has_own_rule(misfit: shapes.Misfit) -> bool:
    if misfit.where in _EXACTLY_ELSEWHERE or misfit.where.startswith(_ELSEWHERE):
        return True
    # Absent keys and nulls: choice.logprobs.key-present, choice.message.refusal-key, choice.null.only-where-allowed.
    return misfit.got in ("absent", "null")


@rule("choice.schema.openapi", SHOULD, on=PLAIN, source=openapi("CreateChatCompletionResponse"))
def test_schema_openapi(x: Exchange) -> None:
    """A plain body fits OpenAI's schema, apart from members that the schema does not know.

    It catches what no rule of its own asks for, such as a refusal that is a number or log probabilities that are a
    list: strictly typed clients (pydantic-ai, Go, Rust) refuse the whole answer.
    """
    for misfit in shapes.unexcused(shapes.COMPLETION, x.completion):
        if not _has_own_rule(misfit):
            require(False, f"{misfit.where or 'the body'} to fit the schema", got=misfit.detail)


@rule("choice.created.seconds", MUST, on=PLAIN, source=openapi("CreateChatCompletionResponse.created: Unix seconds"))
def test_created_seconds(x: Exchange) -> None:
    """`created` of a plain body is the time of the answer in Unix seconds, not in milliseconds.

    It is judged against the Date header within a day; without one, by its size.
    """
    created = get(x.completion, "created")
    if not is_int(created):
        raise NotApplicable("there is no integer created: choice.body.required-members says so")
    require(10**9 <= created < 10**10, "Unix seconds (ten digits) as created", got=created)
    near = x.dated is None or abs(created - x.dated) <= _DAY
    require(near, "a created within a day of the Date header", got=f"{created} at {x.dated or 0:.0f}")
