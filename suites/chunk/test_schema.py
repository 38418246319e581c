"""Chunks against OpenAI's schema, for what no other rule asks."""

from __future__ import annotations

from wireproof import shapes
from wireproof.evidence import STREAMS
from wireproof.exchange import Exchange
from wireproof.rules import SHOULD, openapi, rule
from wireproof.verdict import require

# These places have rules of their own, which say more precisely what is wrong.
_ELSEWHERE = (
    *("id", "object", "created", "model", "choices[].index", "choices[].finish_reason", "obfuscation"),
    *("choices[].delta.role", "choices[].delta.content", "choices[].delta.tool_calls"),
    *("choices[].logprobs.content[]", "choices[].logprobs.refusal[]"),
    *("usage.prompt_tokens_details", "usage.completion_tokens_details"),
)
_EXACTLY_ELSEWHERE = frozenset({"", "choices", "choices[]", "choices[].delta"})


def _has_own_rule(misfit: shapes.Misfit) -> bool:
    where = misfit.where
    if where in _EXACTLY_ELSEWHERE or where.startswith(_ELSEWHERE):
        return True
    # chunk.null.only-where-allowed has the null; another wrong type is for this rule.
    return where == "choices[].delta.function_call" and misfit.got == "null"


@rule(
    "chunk.schema.openapi",
    SHOULD,
    on=STREAMS,
    book="CHUNK-021",
    source=openapi("CreateChatCompletionStreamResponse"),
)
def test_schema_openapi(x: Exchange) -> None:
    """A chunk fits OpenAI's schema, apart from members that the schema does not know.

    It catches what no rule of its own asks for: a system_fingerprint that is a number, log probabilities in the
    shape of the old completions (the AI SDK refuses these), a token count that is a string.
    """
    for chunk in x.answer_chunks:
        for misfit in shapes.unexcused(shapes.CHUNK, chunk.value):
            if not _has_own_rule(misfit):
                place = misfit.where or "the chunk"
                require(False, f"{place} to fit the schema", got=misfit.detail, at=chunk)
