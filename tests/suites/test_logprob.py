"""The rules for log probabilities of plain answers, on answers written by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.verdict import Status

from .wire import broken, completion, explain, plain, usage, verdict

AREAS = ("logprob",)
ASKED = {"logprobs": True, "top_logprobs": 2}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}}


def alternative(token: str, logprob: Any = -0.5, **more: Any) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode()), **more}


def entry(token: str, logprob: Any = -0.5, others: Any = None, **more: Any) -> dict[str, Any]:
    """An entry whose own token is the first of its two alternatives."""
    top = [alternative(token, logprob), alternative("~", -2.0)] if others is None else others
    return {**alternative(token, logprob), "top_logprobs": top, **more}


def scores(*found: Any) -> dict[str, Any]:
    return {"content": list(found), "refusal": None}


def answer(
    text: Any,
    logprobs: Any,
    asked: dict[str, Any] | None = None,
    finish: str = "stop",
    tokens: int | None = None,
    **more: Any,
) -> Exchange:
    found = logprobs.get("content") if isinstance(logprobs, dict) else None
    count = len(found) if isinstance(found, list) and found else 2
    body = completion(text, finish, usage=usage(7, count if tokens is None else tokens))
    body["choices"][0]["logprobs"] = logprobs
    return plain(body, {**ASKED, **(asked or {})}, **more)


def choices(*found: tuple[str, Any], **asked: Any) -> Exchange:
    """An answer with several choices, sampled."""
    made = [
        {
            "index": i,
            "message": {"role": "assistant", "content": t, "refusal": None},
            "logprobs": p,
            "finish_reason": "stop",
        }
        for i, (t, p) in enumerate(found)
    ]
    return plain(completion(choices=made), {**ASKED, "n": len(made), "temperature": 1, **asked})


def bare(token: str, logprob: Any = -0.5, **more: Any) -> dict[str, Any]:
    return entry(token, logprob, [], **more)


HELLO = scores(entry("hel"), entry("lo"))


def test_right_answers_break_nothing() -> None:
    assert broken(answer("hello", HELLO), areas=AREAS) == set()
    assert broken(plain(completion("hello")), areas=AREAS) == set()
    assert broken(answer("hello", scores(bare("hel"), bare("lo")), {"top_logprobs": 0}), areas=AREAS) == set()


def test_absent() -> None:
    """B2-131: null, whatever was asked."""
    nothing: Any
    for nothing in (None, {"content": None, "refusal": None}, {"content": [], "refusal": None}, {"tokens": ["hel"]}):
        assert broken(answer("hello", nothing), areas=AREAS) == {"logprob.content.present"}
        zero = answer("hello", nothing, {"top_logprobs": 0})
        assert broken(zero, areas=AREAS) == {"logprob.top.zero-is-empty"}
        null = answer("hello", nothing, {"top_logprobs": None}, scenario="plain-logprobs-null")
        with_entries = answer("hello", HELLO, scenario="plain-logprobs-alone")
        assert broken(with_entries, null, areas=AREAS) == {"logprob.top.null-is-absent"}
    assert verdict("logprob.content.present", answer("", None)) is Status.INCONCLUSIVE


def test_unasked() -> None:
    for asked in ({"logprobs": False}, {"logprobs": None}, {}):
        body = completion("hello")
        body["choices"][0]["logprobs"] = HELLO
        assert broken(plain(body, asked), areas=AREAS) == {"logprob.absent.when-not-asked"}
        body["choices"][0]["logprobs"] = {"content": None, "refusal": None}
        assert broken(plain(body, asked), areas=AREAS) == set()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"token": None}, "logprob.entry.shape"),
        ({"logprob": "-0.5"}, "logprob.entry.shape"),
        ({"logprob": None}, "logprob.entry.shape"),
        ({"logprob": True}, "logprob.entry.shape"),
        ({"bytes": "hel"}, "logprob.entry.shape"),
        ({"bytes": [256]}, "logprob.entry.shape"),
        ({"top_logprobs": None}, "logprob.entry.shape"),
        ({"top_logprobs": {"hel": -0.5}}, "logprob.entry.shape"),
        ({"top_logprobs": ["hel"]}, "logprob.alternative.shape"),
        ({"top_logprobs": [{"token": "hel"}]}, "logprob.alternative.shape"),
        ({"top_logprobs": [alternative("hel", "x"), alternative("~")]}, "logprob.alternative.shape"),
    ],
)
def test_shapes(change: dict[str, Any], rule: str) -> None:
    found = broken(answer("hello", scores({**entry("hel"), **change}, entry("lo"))), areas=AREAS)
    assert found == {rule}
    x = answer("hello", scores({k: v for k, v in entry("hel").items() if k != "bytes"}, entry("lo")))
    assert broken(x, areas=AREAS) == {"logprob.bytes.key-present"}


def test_how_many_alternatives() -> None:
    """Ambiguous 30: the chosen token may be one more."""
    three = [alternative("a", -0.1), alternative("b", -3.0), alternative("hel", -4.0)]
    sampled = {"temperature": 1}
    assert broken(answer("hel", scores(entry("hel", -4.0, three)), sampled), areas=AREAS) == set()
    other = [alternative("a", -0.1), alternative("b", -3.0), alternative("c", -4.0)]
    found = broken(answer("hel", scores(entry("hel", -4.0, other)), sampled), areas=AREAS)
    assert found == {"logprob.alternatives.at-most-k"}
    few = scores(*(entry(t, -0.5, [alternative(t)]) for t in ("hel", "lo")))
    assert broken(answer("hello", few), areas=AREAS) == {"logprob.alternatives.all-k"}
    assert broken(answer("hello", few, {"response_format": SCHEMA}), areas=AREAS) == set()
    for top in (0, None):
        assert broken(answer("hello", HELLO, {"top_logprobs": top}), areas=AREAS) == {"logprob.top.zero-is-empty"}


def test_values() -> None:
    k0 = {"top_logprobs": 0}
    assert broken(answer("hel", scores(bare("hel", 0.3)), k0), areas=AREAS) == {"logprob.value.finite-not-positive"}
    for fine in (0, -0.0, 1e-9, -9999.0, -100):
        assert broken(answer("hel", scores(bare("hel", fine)), k0), areas=AREAS) == set()
    assert broken(answer("hel", scores(bare("hel", -3.4e38)), k0), areas=AREAS) == {"logprob.value.sane-floor"}
    for constant in (math.nan, -math.inf):  # http.json.no-nan judges these
        assert broken(answer("hel", scores(entry("hel", constant))), areas=AREAS) == set()
        assert "http.json.no-nan" in broken(answer("hel", scores(entry("hel", constant))))


def test_order_and_labels() -> None:
    """B2-145: all labels are those of the chosen token. B2-126: alternatives of another token."""
    rule = "logprob.alternatives.sorted-distinct"
    wrong = [alternative("~", -2.0), alternative("hel")]
    assert broken(answer("hel", scores(entry("hel", -0.5, wrong))), areas=AREAS) == {rule}
    same = [alternative("hel"), alternative("hel", -2.0)]
    assert broken(answer("hel", scores(entry("hel", -0.5, same))), areas=AREAS) == {rule}
    partial = [alternative("hel"), *(alternative("\ufffd", v, bytes=[b]) for v, b in ((-2.0, 240), (-3.0, 159)))]
    assert broken(answer("hel", scores(entry("hel", -0.5, partial)), {"top_logprobs": 3}), areas=AREAS) == set()
    elsewhere = scores(entry("hel", -0.5, [alternative("a"), alternative("b", -3.0)]))
    assert broken(answer("hel", elsewhere), areas=AREAS) == {"logprob.chosen.is-first-when-greedy"}
    for asked in ({"temperature": 0.7}, {"response_format": SCHEMA}, {"frequency_penalty": 1}):
        assert broken(answer("hel", elsewhere, asked), areas=AREAS) == set()
    tie = scores(entry("hel", -0.9, [alternative("a", -0.9), alternative("hel", -0.9)]))
    assert broken(answer("hel", tie), areas=AREAS) == set()


def test_consistency() -> None:
    two = scores(entry("hel", -0.5, [alternative("hel", -1.5), alternative("b", -3.0)]))
    assert broken(answer("hel", two), areas=AREAS) == {"logprob.values.consistent"}
    much = scores(entry("hel", -0.5, [alternative("hel", -0.5), alternative("b", -0.6)]))
    assert broken(answer("hel", much), areas=AREAS) == {"logprob.values.consistent"}
    zeros = scores(entry("hel", 0.0, [alternative("hel", 0.0), alternative("b", -9999.0)]))
    assert broken(answer("hel", zeros), areas=AREAS) == set()


def test_count() -> None:
    rule = "logprob.count.equals-tokens"
    for finish, tokens, status in (("length", 2, Status.PASS), ("stop", 3, Status.PASS), ("stop", 5, Status.FAIL)):
        x = answer("hello", HELLO, {"max_tokens": 2 if finish == "length" else 24}, finish, tokens)
        assert verdict(rule, x) is status
    three = answer("hello", scores(entry("he"), entry("l"), entry("lo")), {"max_tokens": 2}, "length", 2)
    assert broken(three, areas=AREAS) == {rule}
    other = answer("hello", HELLO, {"max_tokens": 9}, "length", 7)  # usage itself is wrong
    assert verdict(rule, other) is Status.INCONCLUSIVE


def test_text() -> None:
    """B2-122: bytes of U+FFFD. B2-128: tokens that the content does not have."""
    emoji = "\U0001f642".encode()
    parts = [bare(f"bytes:\\x{b:02x}", bytes=[b]) for b in emoji]
    k0 = {"top_logprobs": 0}
    assert broken(answer("\U0001f642", scores(*parts), k0), areas=AREAS) == set()
    wrong = [bare("\ufffd", bytes=[239, 191, 189]) for _ in emoji]
    assert broken(answer("\U0001f642", scores(*wrong), k0), areas=AREAS) == {"logprob.bytes.join-to-content"}
    cut = answer("a", scores(bare("a"), *parts[:2]), {**k0, "max_tokens": 3}, "length")
    assert broken(cut, areas=AREAS) == set()
    thought = scores(bare("<think>"), bare("hel"), bare("lo"))
    assert broken(answer("hello", thought, k0), areas=AREAS) == {"logprob.bytes.join-to-content"}
    shown = {"role": "assistant", "content": "hello", "refusal": None, "reasoning_content": "<think>"}
    assert broken(answer(shown, thought, k0), areas=AREAS) == set()
    null = scores(bare("hel", bytes=None), bare("lo", bytes=None))
    assert broken(answer("hello", null, k0), areas=AREAS) == set()
    stripped = scores(bare("a"), bare("b", bytes=None))
    assert broken(answer("a b", stripped, k0), areas=AREAS) == {"logprob.token.exact-text"}
    spelled = scores(bare("a"), bare("\u0120b", bytes=[32, 98]))
    assert broken(answer("a b", spelled, k0), areas=AREAS) == {"logprob.bytes.fit-token", "logprob.token.exact-text"}


def test_empty_and_extra() -> None:
    """B2-123: a token without anything. B2-125: an entry for the end token."""
    k0 = {"top_logprobs": 0}
    vllm = scores(bare(""), bare("\u00e9"), bare("x"))
    assert broken(answer("\u00e9x", vllm, k0), areas=AREAS) == {"logprob.token.not-empty"}
    for end in (bare("", -9999.0), bare("<|im_end|>", 0.0), bare("", bytes=None)):
        x = answer("hello", scores(bare("hel"), bare("lo"), end), k0)
        assert broken(x, areas=AREAS) == {"logprob.finish.no-extra-entry"}


def test_stop() -> None:
    """B2-147: text is cut, entries are not. One partial token is fine."""
    stop = {"stop": ["\n"], "top_logprobs": 0}
    hidden = answer("a", scores(bare("a"), bare("\n"), bare("b"), bare("c")), stop)
    assert broken(hidden, areas=AREAS) == {"logprob.stop.cut-with-text"}
    for fine in (scores(bare("a")), scores(bare("a\n")), scores(bare("a"), bare("\n"))):
        assert broken(answer("a", fine, stop), areas=AREAS) == set()


def test_keys() -> None:
    assert broken(answer("hello", {"content": HELLO["content"]}), areas=AREAS) == {"logprob.keys.refusal"}


def refused(status: int, top: Any, logprobs: Any = True, scenario: str = "s") -> Exchange:
    error = {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}}
    asked = {"logprobs": logprobs, "top_logprobs": top}
    return plain(error if status != 200 else None, asked, status=status, scenario=scenario, tags={"valid": "no"})


@pytest.mark.parametrize("top", [-1, 21, "x", 1.5, [], {}])
def test_out_of_range(top: Any) -> None:
    rule = "logprob.top.out-of-range-refused"
    assert broken(refused(400, top), areas=AREAS) == set()
    assert broken(refused(500, top), areas=AREAS) == {rule}
    number = isinstance(top, int)
    body = completion("hello")
    body["choices"][0]["logprobs"] = HELLO
    x = plain(body, {"logprobs": True, "top_logprobs": top}, tags={"valid": "no"})
    assert broken(x, areas=AREAS) == {"logprob.top.limit-kept" if number else rule}


def test_top_alone() -> None:
    for logprobs in (False, None):
        assert broken(refused(400, 2, logprobs), areas=AREAS) == set()
        assert broken(refused(500, 2, logprobs), areas=AREAS) == {"logprob.top.without-logprobs"}
        assert broken(refused(200, 2, logprobs), areas=AREAS) == {"logprob.top.needs-logprobs"}


def test_not_needed() -> None:
    """B2-117, B2-118: logprobs alone, or with 0, is an error."""
    five = answer("hello", HELLO, scenario="plain-logprobs")
    alone = answer("hello", scores(bare("hel"), bare("lo")), {"top_logprobs": None}, scenario="plain-logprobs-alone")
    zero = plain({"error": {"message": "index"}}, {**ASKED, "top_logprobs": 0}, status=500, scenario="plain-logprobs-0")
    assert broken(five, alone, zero, areas=AREAS) == {"logprob.top.not-needed"}
    none = plain(
        {"error": {"message": "no"}}, ASKED, status=400, scenario="plain-logprobs", tags={"optional": "logprobs"}
    )
    assert verdict("logprob.top.not-needed", none, alone, zero) is Status.UNSUPPORTED


def test_combined() -> None:
    """B2-116: -inf of masked tokens ends in a 500."""
    for asked in ({"response_format": SCHEMA}, {"stop": ["\n"]}):
        x = plain({"error": {"message": "inf"}}, {**ASKED, **asked}, status=500)
        assert broken(x, areas=AREAS) == {"logprob.combined.no-5xx"}
    assert broken(plain({"error": {"message": "inf"}}, ASKED, status=500), areas=AREAS) == set()


def test_several_choices() -> None:
    """B2-143: zeros where the choices differ."""
    mine, other = scores(entry("a")), scores(entry("b"))
    assert broken(choices(("a", mine), ("b", other)), areas=AREAS) == set()
    assert broken(choices(("a", mine), ("b", mine)), areas=AREAS) == {"logprob.n.own-values"}
    assert broken(choices(("a", mine), ("b", None)), areas=AREAS) == {"logprob.n.own-values"}
    assert broken(choices(("a", mine), ("a", mine)), areas=AREAS) == set()
    zeros = [scores(bare(t, 0.0)) for t in "ab"]
    x = choices(("a", zeros[0]), ("b", zeros[1]), top_logprobs=0)
    assert broken(x, areas=AREAS) == {"logprob.sampled.plausible"}
    assert "0, got 2 times 0" in explain("logprob.sampled.plausible", x)
    sure = choices(("a", zeros[0]), ("a", zeros[0]), top_logprobs=0)
    assert verdict("logprob.sampled.plausible", sure) is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    "junk", [None, 7, "x", True, [], [None], [7], [[]], {"a": 1}, [{"token": {}, "logprob": 10**400, "bytes": [True]}]]
)
def test_any_json_is_survived(junk: Any) -> None:
    odd = {**entry("hel", junk, junk), "bytes": junk, "token": junk}
    for found in (junk, scores(junk), scores(odd), scores(entry("hel", -1, [odd])), {"content": junk, "refusal": junk}):
        broken(answer("hello", found), choices(("a", found), ("b", found)), areas=AREAS)
        broken(answer({"content": junk, "tool_calls": junk}, found, {"stop": junk, "n": junk}), areas=AREAS)
    broken(
        plain(completion(choices=junk), ASKED),
        plain(completion(), {"logprobs": junk, "top_logprobs": junk}),
        areas=AREAS,
    )
