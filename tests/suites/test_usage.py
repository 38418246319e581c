"""The rules for usage, on answers written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.verdict import Status

from .wire import broken, chunk, completion, envelope, explain, plain, stream, text, usage, usage_chunk, verdict

AREAS = ("usage",)
ASKED = {"stream_options": {"include_usage": True}}
CONTINUOUS = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}


def nulled(*chunks: dict[str, Any]) -> list[dict[str, Any]]:
    """Chunks as they are sent when usage was asked for."""
    return [{**c, "usage": c.get("usage")} for c in chunks]


def asked(*data: Any, **more: Any) -> Exchange:
    """A stream with include_usage."""
    return stream(*data, request={**ASKED, **more.pop("request", {})}, **more)


BODY = nulled(*text("hel", "lo"))


def counted(**members: Any) -> Exchange:
    """A plain answer with members of its usage replaced."""
    return plain(completion("hello", usage={**usage(), **members}))


def test_right_answers_break_nothing() -> None:
    assert broken(plain(completion("hello")), asked(*BODY, usage_chunk()), stream(*text("hello")), areas=AREAS) == set()


@pytest.mark.parametrize("value", [None, "absent", [], "7", {}, {**usage(), "prompt_tokens": None}])
def test_plain_present(value: Any) -> None:
    body = completion("hello", usage=value)
    if value == "absent":
        del body["usage"]
    assert broken(plain(body), areas=AREAS) == {"usage.plain.present"}


def test_plain_types() -> None:
    for wrong in ({"total_tokens": "9"}, {"prompt_tokens": True}, {"completion_tokens": 2.0}):
        assert broken(counted(**wrong), areas=AREAS) == {"usage.plain.present"}


def test_sum() -> None:
    assert broken(counted(total_tokens=2), areas=AREAS) == {"usage.total.sum"}
    x = asked(*BODY, usage_chunk() | {"usage": {**usage(), "total_tokens": 7}})
    assert broken(x, areas=AREAS) == {"usage.total.sum"}


def test_length_is_exact() -> None:
    def cut(tokens: int, limit: int = 5, **more: Any) -> Exchange:
        return plain(completion("1, 2", "length", usage=usage(7, tokens)), {"max_tokens": limit, **more})

    assert broken(cut(5), areas=AREAS) == set()
    assert broken(cut(4), areas=AREAS) == {"usage.length.exact"}
    assert broken(cut(6), areas=AREAS) == {"usage.completion.within-limit"}
    # The context may be full first; a wrong reason after a stop string is not a wrong count.
    assert broken(cut(900, 4000), areas=AREAS) == set()
    assert broken(cut(4, stop=["x"]), areas=AREAS) == set()


def test_end_token_may_count() -> None:
    for tokens in (2, 3):
        assert broken(plain(completion("hello", usage=usage(7, tokens))), areas=AREAS) == set()


def test_text_is_counted() -> None:
    """B1-077: an estimate of 0."""
    x = asked(*BODY, usage_chunk(7, 0))
    assert broken(x, areas=AREAS) == {"usage.completion.counted"}
    assert broken(plain(completion("", usage=usage(7, 0))), areas=AREAS) == set()


def test_within_limit() -> None:
    """B1-085: 19503 tokens of 197."""
    assert broken(asked(*BODY, usage_chunk(7, 19503)), areas=AREAS) == {"usage.completion.within-limit"}


def test_choices_are_summed() -> None:
    choices = [
        {"index": i, "message": {"role": "assistant", "content": "1"}, "logprobs": None, "finish_reason": "length"}
        for i in (0, 1)
    ]

    def answer(tokens: int) -> Exchange:
        return plain(completion(choices=choices, usage=usage(7, tokens)), {"n": 2, "max_tokens": 5})

    assert broken(answer(10), areas=AREAS) == set()
    assert broken(answer(5), areas=AREAS) == {"usage.n.completion-summed"}
    assert broken(answer(11), areas=AREAS) == {"usage.completion.within-limit"}


def test_asked_for_and_missing() -> None:
    """B1-069."""
    assert broken(asked(*BODY), areas=AREAS) == {"usage.stream.chunk-when-asked"}
    for wrong in ({"prompt_tokens": 7}, {k: str(v) for k, v in usage().items()}):
        x = asked(*BODY, usage_chunk() | {"usage": wrong})
        assert "usage.stream.chunk-when-asked" in broken(x, areas=AREAS)


def test_an_interrupted_stream_may_lack_usage() -> None:
    assert broken(asked(*BODY[:2], {"error": {"message": "failed"}}), areas=AREAS) == set()
    assert broken(asked(*BODY[:2], done=False), areas=AREAS) == set()


def test_usage_chunk_is_last_and_alone() -> None:
    """B1-072: usage on the finish chunk. B1-081 is the right order, and a client that does not know it."""
    assert broken(asked(*BODY, usage_chunk(), *nulled(envelope([]))), areas=AREAS) == {"usage.stream.chunk-last"}
    early = asked(*BODY[:-1], usage_chunk(), BODY[-1])
    assert broken(early, areas=AREAS) == {"usage.stream.chunk-last"}
    merged = asked(*BODY[:-1], BODY[-1] | {"usage": usage()})
    assert broken(merged, areas=AREAS) == {"usage.stream.choices-empty"}
    litellm = asked(*BODY, envelope([{"index": 0, "delta": {}}], usage=usage()))
    assert broken(litellm, areas=AREAS) == {"usage.stream.choices-empty"}
    null = asked(*BODY, envelope(None, usage=usage()))
    assert broken(null, areas=AREAS) == set()
    assert "chunk.choices.array" in broken(null)


def test_usage_on_every_chunk() -> None:
    """B1-074, B1-075, B1-076: adding up and reading the last one must come to the same."""
    running = [c | {"usage": usage(7, i)} for i, c in enumerate(BODY[:3])]
    x = asked(*running, BODY[-1], usage_chunk(7, 2))
    assert broken(x, areas=AREAS) == {"usage.stream.once"}
    assert "adding up to" in explain("usage.stream.once", x)
    falling = asked(BODY[0] | {"usage": usage(7, 1)}, *BODY[1:], usage_chunk(0, 1))
    assert broken(falling, areas=AREAS) == {"usage.stream.once", "usage.stream.never-decreases"}
    zero = asked(BODY[0] | {"usage": usage(0, 0)}, *BODY[1:], usage_chunk())
    assert broken(zero, areas=AREAS) == set()


def test_continuous_usage() -> None:
    running = [c | {"usage": usage(7, i)} for i, c in enumerate(BODY)]
    right = asked(*running, usage_chunk(7, 3), request=CONTINUOUS)
    assert broken(right, areas=AREAS) == set()
    assert verdict("usage.continuous.monotone", right) is Status.PASS
    back = asked(*running, usage_chunk(7, 2), request=CONTINUOUS)
    assert broken(back, areas=AREAS) == {"usage.continuous.monotone"}
    ignored = asked(*BODY, usage_chunk(), request=CONTINUOUS)
    assert verdict("usage.continuous.monotone", ignored) is Status.UNSUPPORTED


def test_the_key_elsewhere() -> None:
    assert broken(asked(*text("hello"), usage_chunk()), areas=AREAS) == {"usage.stream.null-elsewhere"}


def test_not_asked_for() -> None:
    """B1-082: naive clients index choices[0] of the usage chunk."""
    x = stream(*text("hello"), usage_chunk())
    assert broken(x, areas=AREAS) == {"usage.stream.no-chunk-unasked"}
    attached = stream(*text("hello")[:-1], chunk({}, finish="stop", usage=usage()))
    assert broken(attached, areas=AREAS) == {"usage.stream.unasked-on-choices"}
    heartbeat = stream(text("hello")[0], envelope([]), *text("hello")[1:])
    assert broken(heartbeat, areas=AREAS) == set()


def test_parity() -> None:
    """B1-084: other completion tokens. B1-087: other prompt tokens."""
    one = plain(completion("hello"))
    assert broken(one, asked(*BODY, usage_chunk(7, 3)), areas=AREAS) == {"usage.parity.with-plain"}
    both = {"usage.parity.with-plain", "usage.prompt.independent"}
    assert broken(one, asked(*BODY, usage_chunk(8, 2)), areas=AREAS) == both
    other = plain(completion("hullo", usage=usage(7, 3)))
    assert verdict("usage.parity.with-plain", other, asked(*BODY, usage_chunk())) is Status.INCONCLUSIVE


def test_prompt() -> None:
    def answer(prompt: int, **request: Any) -> Exchange:
        return plain(completion("hello", usage=usage(prompt, 2)), request, scenario=f"s{len(request)}-{prompt}")

    rule = "usage.prompt.independent"
    assert verdict(rule, answer(7), answer(7, n=1, temperature=1, max_tokens=30)) is Status.PASS
    assert broken(answer(7), answer(14, temperature=1), areas=AREAS) == {rule}
    assert verdict(rule, answer(7), answer(90, tools=[{"type": "function"}])) is Status.INCONCLUSIVE
    short = plain(completion("hello"), scenario="usage-short-prompt")
    for prompt, status in ((20, Status.PASS), (7, Status.FAIL)):
        longer = plain(completion("hello", usage=usage(prompt)), scenario="usage-more-messages")
        assert verdict("usage.prompt.grows", short, longer) is status


@pytest.mark.parametrize("details", [None, [], {"cached_tokens": None}, {"cached_tokens": "0"}, {"cached_tokens": -1}])
def test_details(details: Any) -> None:
    assert broken(counted(prompt_tokens_details=details), areas=AREAS) == {"usage.details.integers"}


def test_details_within_totals() -> None:
    rule = "usage.details.within-totals"
    assert broken(counted(prompt_tokens_details={"cached_tokens": 8}), areas=AREAS) == {rule}
    assert broken(counted(completion_tokens_details={"reasoning_tokens": 3}), areas=AREAS) == {rule}
    assert broken(counted(prompt_tokens_details={"cached_tokens": 7, "vendor": 900}), areas=AREAS) == set()


def test_reasoning_is_counted() -> None:
    thought = {"role": "assistant", "content": "Hi", "refusal": None, "reasoning_content": "think twice " * 30}
    assert broken(plain(completion(thought, usage=usage(7, 2))), areas=AREAS) == {"usage.reasoning.counted"}
    enough = plain(completion(thought, usage=usage(7, 62)), {"max_tokens": 100})
    assert verdict("usage.reasoning.counted", enough) is Status.PASS
    x = asked(*nulled(chunk({"reasoning": "think twice " * 30})), *BODY, usage_chunk())
    assert broken(x, areas=AREAS) == {"usage.reasoning.counted"}


def test_stream_options_need_a_stream() -> None:
    name, more = "stream-options-without-stream", {"stream_options": {"include_usage": True}}
    accepted = plain(completion("hello"), more, scenario=name, tags={"valid": "no"})
    assert broken(accepted, areas=AREAS) == {"usage.stream-options.needs-stream"}
    refused = plain({"error": {"message": "no"}}, more, 400, scenario=name, tags={"valid": "no"})
    assert verdict("usage.stream-options.needs-stream", refused) is Status.PASS


@pytest.mark.parametrize("junk", [None, 7, "x", [], [None], {"prompt_tokens": []}, {"prompt_tokens_details": [7]}])
def test_any_json_is_survived(junk: Any) -> None:
    broken(plain(completion("hi", usage=junk)), asked(*BODY, envelope([], usage=junk)), areas=AREAS)
    broken(stream(envelope(junk, usage=junk)), plain(completion(choices=junk)), areas=AREAS)
