"""The rules for choices, on answers written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from wireproof.verdict import Status

from .wire import broken, chunk, completion, envelope, explain, plain, stream, text, usage, verdict

AREAS = ("choice",)
PINNED = '{"text": "alpha beta gamma delta epsilon"}'


def choice(index: int = 0, content: Any = "hello", finish: Any = "stop", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "refusal": None}
    return {"index": index, "message": message, "logprobs": None, "finish_reason": finish, **more}


def message(**members: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "hello", "refusal": None, **members}


def without(value: dict[str, Any], name: str) -> dict[str, Any]:
    return {k: v for k, v in value.items() if k != name}


def test_right_answers_break_nothing() -> None:
    x = plain()
    y = stream(*text("he", "llo"))
    assert broken(x, y, areas=AREAS) == set()


@pytest.mark.parametrize(
    "body",
    [
        without(completion(), "model"),
        without(completion(), "choices"),
        completion(choices=None),
        completion(id=""),
        completion(id=7),
        completion(created=1.5),
        completion(object="text_completion"),
    ],
)
def test_required_members(body: dict[str, Any]) -> None:
    assert broken(plain(body), areas=AREAS) == {"choice.body.required-members"}


@pytest.mark.parametrize(
    "one",
    [
        without(choice(), "index"),
        without(choice(), "message"),
        without(choice(), "finish_reason"),
        choice(message=None),
    ],
)
def test_members_present(one: dict[str, Any]) -> None:
    assert broken(plain(completion(choices=[one])), areas=AREAS) == {"choice.members.present"}


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (without(message(), "role"), "choice.message.role-assistant"),
        (message(role="model"), "choice.message.role-assistant"),
        (message(content=[{"type": "text", "text": "hi"}]), "choice.message.content-string-or-null"),
        (without(message(), "content"), "choice.message.content-string-or-null"),
        (message(content=None), "choice.message.content-not-null"),
        (without(message(), "refusal"), "choice.message.refusal-key"),
        (message(tool_calls=[]), "choice.message.no-empty-tool-calls"),
        (message(tool_calls=None), "choice.message.no-empty-tool-calls"),
        (message(annotations=None), "choice.null.only-where-allowed"),
        (message(function_call=None), "choice.null.only-where-allowed"),
    ],
)
def test_message(wrong: dict[str, Any], rule: str) -> None:
    assert broken(plain(completion(wrong)), areas=AREAS) == {rule}


@pytest.mark.parametrize(
    "right",
    [
        message(content=""),
        message(content=None, refusal="No."),
        message(content=None, reasoning_content="Hm."),
        message(
            content=None, tool_calls=[{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
        ),
        message(audio=None, annotations=[], vendor={"x": 1}),
    ],
)
def test_right_messages(right: dict[str, Any]) -> None:
    assert broken(plain(completion(right)), areas=AREAS) == set()


def test_a_cut_call_may_be_dropped() -> None:
    x = plain(completion(message(content=None), finish="length"), {"tools": [{"type": "function"}]})
    assert broken(x, areas=AREAS) == set()


def test_logprobs_key() -> None:
    x = plain(completion(choices=[without(choice(), "logprobs")]))
    assert broken(x, areas=AREAS) == {"choice.logprobs.key-present"}


@pytest.mark.parametrize("choices", [[], [choice()], [choice(), choice()], [choice(1), choice(2)]])
def test_count_plain(choices: list[dict[str, Any]]) -> None:
    """B1-172: n > 1 is accepted, and one choice comes."""
    assert broken(plain(completion(choices=choices), {"n": 2}), areas=AREAS) == {"choice.count.equals-n"}


def test_count_stream() -> None:
    assert broken(stream(*text("hi"), request={"n": 2}), areas=AREAS) == {"choice.count.equals-n"}
    both = [*text("hi"), *text("ho", index=1)]
    assert broken(stream(*both, request={"n": 2}), areas=AREAS) == set()
    assert verdict("choice.count.equals-n", stream(*both)) is Status.FAIL


def test_a_refused_n_is_unsupported() -> None:
    body = {"error": {"message": "n must be 1", "type": "invalid_request_error", "param": "n", "code": None}}
    x = plain(body, {"n": 2, "stream": True}, 400, scenario="stream-n2", tags={"optional": "n > 1"})
    assert verdict("choice.stream.index-ascending", x) is Status.UNSUPPORTED
    assert broken(x, areas=AREAS) == set()


def test_ids() -> None:
    same = [plain(), plain(scenario="plain-cut")]
    assert verdict("choice.id.unique", *same) is Status.FAIL
    other = plain(completion(id="chatcmpl-other"), scenario="plain-cut")
    assert verdict("choice.id.unique", same[0], other) is Status.PASS
    ours = [plain(sent={"X-Request-Id": "r"}, scenario=s) for s in ("plain-greedy", "plain-cut")]
    assert verdict("choice.id.unique", *ours) is Status.INCONCLUSIVE


def test_index_order_in_a_stream() -> None:
    late = [*text("hi", index=1), *text("ho", index=0)]
    assert broken(stream(*late, request={"n": 2}), areas=AREAS) == {"choice.stream.index-ascending"}


def test_one_choice_in_a_chunk() -> None:
    parts = [chunk({"content": "x"}, i)["choices"][0] for i in (0, 1)]
    x = stream(*text("hi"), *text("ho", index=1)[:-1], envelope(parts), request={"n": 2})
    assert "choice.stream.one-per-chunk" in broken(x, areas=AREAS)
    assert verdict("choice.stream.index-ascending", x) is Status.PASS


def test_independent_choices() -> None:
    half = [PINNED[:20], PINNED[20:]]
    more: dict[str, Any] = {"request": {"n": 2}, "scenario": "stream-pinned-n2"}
    right = stream(*text(*half), *text(*half, index=1), **more)
    assert broken(right, areas=AREAS) == set()
    mixed = stream(*text(half[0], half[1], half[1]), *text(half[0], index=1), **more)
    assert broken(mixed, areas=AREAS) == {"choice.stream.independent"}
    assert "pinned text" in explain("choice.stream.independent", mixed)


def test_n_bounds() -> None:
    def answer(n: Any, count: int, status: int = 200) -> Any:
        body = completion(choices=[choice(i) for i in range(count)]) if status == 200 else {"error": {"message": "n"}}
        return plain(body, {"n": n}, status, scenario="n-zero", tags={"valid": "no"})

    assert verdict("choice.n.bounds", answer(0, 1)) is Status.FAIL
    assert verdict("choice.n.bounds", answer(1.5, 1)) is Status.FAIL
    assert verdict("choice.n.bounds", answer(129, 128)) is Status.FAIL
    assert verdict("choice.n.bounds", answer(0, 0, 500)) is Status.FAIL
    assert verdict("choice.n.bounds", answer(129, 129)) is Status.PASS
    assert verdict("choice.n.bounds", answer(0, 0, 400)) is Status.PASS
    assert verdict("choice.n.bounds", answer(-1, 0, 422)) is Status.PASS
    assert broken(answer(129, 128), areas=AREAS) == {"choice.n.bounds"}


def test_copies_are_told_from_a_sure_model() -> None:
    def answer(texts: list[str], logprob: float | None) -> Any:
        entries = {"content": [{"token": "x", "logprob": logprob}] * 12} if logprob is not None else None
        choices = [choice(i, t, "length", logprobs=entries) for i, t in enumerate(texts)]
        return plain(completion(choices=choices), {"n": len(texts)}, scenario="plain-n4-logprobs")

    rule = "choice.n.sampled-independently"
    assert verdict(rule, answer(["a", "b", "a", "a"], -2.0)) is Status.PASS
    assert verdict(rule, answer(["a"] * 4, -2.0)) is Status.FAIL
    assert verdict(rule, answer(["a"] * 4, -0.001)) is Status.INCONCLUSIVE
    assert verdict(rule, answer(["a"] * 4, None)) is Status.INCONCLUSIVE


@pytest.mark.parametrize("junk", [None, 7, "x", [], [None], [7], [[]], {"a": 1}, [{"index": {}}]])
def test_any_json_is_survived(junk: Any) -> None:
    broken(plain(completion(choices=junk)), stream(envelope(junk), request={"n": 2}), plain([junk]), areas=AREAS)
    broken(plain(completion(junk, usage=usage())), areas=AREAS)
