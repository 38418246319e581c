"""OpenAI's schemas and the errata."""

from __future__ import annotations

import pytest

from wireproof.read import openai_schema

from .wire import chunk, completion, usage


@pytest.mark.parametrize("erratum", openai_schema.errata(), ids=lambda e: f"{e.schema.removesuffix('.json')}-{e.where}")
def test_an_erratum_that_no_longer_applies_fails(erratum: openai_schema.Erratum) -> None:
    found = [(m.where, m.got) for m in openai_schema.misfits(erratum.schema, erratum.example)]
    assert found == [(erratum.where, erratum.got)], "the schema changed: drop this erratum, or its example"
    assert openai_schema.unexcused(erratum.schema, erratum.example) == ()


def test_right_values_fit() -> None:
    assert openai_schema.misfits(openai_schema.CHUNK, chunk({"role": "assistant", "content": ""})) == ()
    assert openai_schema.misfits(openai_schema.COMPLETION, completion()) == ()
    assert openai_schema.misfits(openai_schema.USAGE, usage()) == ()
    error = {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}}
    assert openai_schema.misfits(openai_schema.ERROR, error) == ()


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (chunk({}, usage={"prompt_tokens": "7", "completion_tokens": 1, "total_tokens": 8}), "usage.prompt_tokens"),
        (chunk({}, service_tier="gold"), "service_tier"),
        (chunk({"refusal": 3}), "choices[].delta.refusal"),
        ({"id": "c"}, "choices"),
    ],
)
def test_a_misfit_says_where(value: dict[str, object], where: str) -> None:
    assert where in {m.where for m in openai_schema.unexcused(openai_schema.CHUNK, value)}


def test_the_shape_decides_and_not_the_text() -> None:
    assert openai_schema._shape(chunk({"content": "a"})) == openai_schema._shape(chunk({"content": "something else"}))
    assert openai_schema._shape(chunk({}, finish="stop")) != openai_schema._shape(chunk({}, finish="eos"))
    assert openai_schema._shape(1.0) != openai_schema._shape(1.5)


def test_an_erratum_tolerates_what_it_names_only() -> None:
    assert openai_schema.unexcused(openai_schema.CHUNK, chunk({}, system_fingerprint=None)) == ()
    assert [m.where for m in openai_schema.unexcused(openai_schema.CHUNK, chunk({}, system_fingerprint=7))] == [
        "system_fingerprint"
    ]
