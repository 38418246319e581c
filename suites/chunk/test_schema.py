"""Chunks against OpenAI's schema, for everything that no other rule checks."""

from __future__ import annotations

from wireproof.judge.rules import SHOULD, openapi, rule
from wireproof.judge.subjects import STREAMS
from wireproof.read import openai_schema
from wireproof.read.chat import Chat
from wireproof.verdict import require

# These places have rules of their own, which say more precisely what is wrong.
_ELSEWHERE = (
    *("id", "object", "created", "model", "choices[].index", "choices[].finish_reason", "obfuscation"),
    *("choices[].delta.role", "choices[].delta.content", "choices[].delta.tool_calls"),
    *("choices[].logprobs.content[]", "choices[].logprobs.refusal[]"),
    *("usage.prompt_tokens_details", "usage.completion_tokens_details"),
)
_EXACTLY_ELSEWHERE = frozenset({"", "choices", "choices[]", "choices[].delta"})


def _has_own_rule(misfit: openai_schema.Misfit) -> bool:
    where = misfit.where
    if where in _EXACTLY_ELSEWHERE or where.startswith(_ELSEWHERE):
        return True
    # chunk.null.only-where-allowed judges the null; this rule judges any other wrong type.
    return where == "choices[].delta.function_call" and misfit.got == "null"


@rule(
    "chunk.schema.openapi",
    SHOULD,
    on=STREAMS,
    book="CHUNK-021",
    source=openapi("CreateChatCompletionStreamResponse"),
)
def test_schema_openapi(x: Chat) -> None:
    """Every chunk fits OpenAI's schema, apart from members that the schema does not define.

    This catches what no other rule checks: a system_fingerprint that is a number, log probabilities in the
    format of the old completions (the AI SDK refuses these), a token count that is a string.
    """
    for chunk in x.answer_chunks:
        for misfit in openai_schema.unexcused(openai_schema.CHUNK, chunk.value):
            if not _has_own_rule(misfit):
                place = misfit.where or "the chunk"
                require(False, f"{place} to fit the schema", got=misfit.detail, at=chunk)
