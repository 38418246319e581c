"""The rules for limits, ranges and hints, on answers written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.scenarios.catalog import load
from wireproof.verdict import Status
from wireproof.wire.transcript import Ending

from .wire import broken, completion, explain, plain, stream, text, usage, usage_chunk, verdict

AREAS = ("param",)
OLD, NEW = "param.max-tokens.limits", "param.max-completion-tokens.limits"
BOTH, BOUNDS = "param.both-limits.one-wins", "param.max-tokens.bounds"
ACCEPTED, OUTSIDE = "param.range.accepted", "param.range.outside-refused"
UNKNOWN = "param.unknown.uniform"


def refusal(message: str = "No.", param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": None}}


def asked(name: str) -> dict[str, Any]:
    """The request of a scenario of ours, without what the helper fills in."""
    body = dict(load()[name].body or {})
    return body | {n: None for n in ("max_tokens", "temperature") if n not in body}


def sent(name: str, status: int = 200, body: Any = None, **more: Any) -> Exchange:
    """An answer to a scenario: a completion, or a refusal."""
    value = body if body is not None else completion() if status == 200 else refusal()
    tags = {} if load()[name].valid else {"valid": "no"}
    request = {k: v for k, v in asked(name).items() if v is not None}
    if request.get("stream") and status == 200:
        return stream(*text("hello"), request=request, scenario=name, tags=tags)
    return plain(value, request, status, scenario=name, tags=tags, **more)


# -- limits ---------------------------------------------------------------------------------


def cut(content: str, tokens: int, finish: str, request: dict[str, Any]) -> Exchange:
    return plain(completion(content, finish, usage=usage(7, tokens)), request)


def new(limit: int) -> bytes:
    return b'{"model":"m","messages":[],"temperature":0,"max_completion_tokens":%d}' % limit


def test_limits_that_hold() -> None:
    assert verdict(OLD, cut("1, 2", 5, "length", {"max_tokens": 5})) is Status.PASS
    assert verdict(OLD, cut("hello", 2, "stop", {"max_tokens": 5})) is Status.PASS
    assert verdict(NEW, plain(completion("1, 2", "length", usage=usage(7, 5)), new(5))) is Status.PASS
    streamed = stream(*text("1,", finish="length"), usage_chunk(7, 2), request={"max_tokens": 2})
    assert verdict(OLD, streamed) is Status.PASS


def test_a_limit_that_is_ignored() -> None:
    """B1-166: 900 tokens for a limit of 5."""
    assert broken(cut("1, 2, 3", 900, "stop", {"max_tokens": 5}), areas=AREAS) == {OLD}
    assert broken(cut("1, 2, 3" * 200, 5, "stop", {"max_tokens": 5}), areas=AREAS) == {OLD}
    assert broken(plain(completion("1, 2", usage=usage(7, 900)), new(5)), areas=AREAS) == {NEW}
    assert "at most 5 tokens (max_completion_tokens)" in explain(NEW, plain(completion(usage=usage(7, 900)), new(5)))


def test_a_wrong_count_is_left_to_the_rules_for_usage() -> None:
    assert verdict(OLD, cut("1, 2", 9, "length", {"max_tokens": 5})) is Status.PASS


def test_a_limit_under_the_new_name_that_is_refused() -> None:
    """B1-168: an extra field."""
    for body in (refusal("Extra inputs are not permitted"), refusal("no", "max_completion_tokens"), {"detail": "no"}):
        assert verdict(NEW, plain(body, new(5), 422)) is Status.FAIL
    assert verdict(NEW, plain(refusal("no", "temperature"), new(5), 422)) is Status.INCONCLUSIVE


@pytest.mark.parametrize(("tokens", "finish"), [(5, "length"), (9, "length"), (3, "stop")])
def test_both_limits_right(tokens: int, finish: str) -> None:
    assert verdict(BOTH, sent("both-limits", body=completion("1", finish, usage=usage(7, tokens)))) is Status.PASS


def test_both_limits() -> None:
    assert verdict(BOTH, sent("both-limits", 400)) is Status.PASS
    for tokens, finish in ((14, "length"), (7, "length"), (14, "stop")):
        x = sent("both-limits", body=completion("1", finish, usage=usage(7, tokens)))
        assert verdict(BOTH, x) is Status.FAIL, (tokens, finish)
    assert verdict(BOTH, sent("both-limits", 503)) is Status.INCONCLUSIVE


@pytest.mark.parametrize("name", ["max-tokens-zero", "max-tokens-negative", "max-tokens-huge"])
def test_bounds(name: str) -> None:
    for status in (200, 400, 422):
        assert verdict(BOUNDS, sent(name, status)) is Status.PASS
    assert verdict(BOUNDS, sent(name, 500)) is Status.FAIL
    assert verdict(BOUNDS, sent(name, ending=Ending.TOTAL_TIMEOUT)) is Status.FAIL


def test_a_limit_that_is_none_is_no_bound_for_usage() -> None:
    """llama.cpp takes -1 for "as much as there is"."""
    for limit in (-1, 0):
        assert broken(plain(completion(usage=usage(7, 9)), {"max_tokens": limit}), areas=("usage", "param")) == set()


# -- ranges ---------------------------------------------------------------------------------


def test_range_accepted() -> None:
    """B1-170: temperature 0 is a 422."""
    assert verdict(ACCEPTED, plain()) is Status.PASS
    assert verdict(ACCEPTED, plain(refusal("`temperature` must be positive"), status=422)) is Status.FAIL
    assert verdict(ACCEPTED, plain(refusal("busy"), status=429)) is Status.INCONCLUSIVE
    assert verdict(ACCEPTED, plain(refusal("bad role"), status=400)) is Status.INCONCLUSIVE
    assert verdict(ACCEPTED, sent("range-lowest", 400, refusal("no", "frequency_penalty"))) is Status.FAIL


@pytest.mark.parametrize("request_", [{"temperature": 2.1}, {"top_p": 0}, {"temperature": "hot"}, {"tools": []}])
def test_other_requests_are_not_judged_by_it(request_: dict[str, Any]) -> None:
    assert verdict(ACCEPTED, plain(refusal("temperature", "temperature"), request_, 400)) is Status.NOT_APPLICABLE


@pytest.mark.parametrize("name", ["temperature-negative", "top-p-above", "frequency-above", "presence-below"])
def test_range_outside(name: str) -> None:
    assert broken(sent(name, 400), areas=AREAS) == set()
    assert broken(sent(name), areas=AREAS) == {OUTSIDE}


@pytest.mark.parametrize("name", ["temperature-above", "top-p-zero", "seed-negative"])
def test_odd_values_are_served_or_refused(name: str) -> None:
    for status in (200, 400, 422):
        assert broken(sent(name, status), areas=AREAS) == set()
    assert broken(sent(name, 500), areas=AREAS) == {"param.odd.no-5xx"}


def test_logit_bias_bounds() -> None:
    for name in ("logit-bias-above", "logit-bias-word"):
        assert broken(sent(name, 422), areas=AREAS) == set()
        assert broken(sent(name), areas=AREAS) == {"param.logit-bias.bounds"}


def test_metadata() -> None:
    rule = "param.metadata.limits"
    for status, wanted in ((400, Status.PASS), (200, Status.PASS), (500, Status.FAIL)):
        assert verdict(rule, sent("metadata-many", status)) is wanted
    shown = completion(metadata=asked("metadata-many")["metadata"])
    assert verdict(rule, sent("metadata-many", body=shown)) is Status.FAIL
    own = completion(metadata={"weight_version": "default"})
    assert verdict(rule, sent("metadata-many", body=own)) is Status.PASS


# -- accepted -------------------------------------------------------------------------------

HINTED = ("hints-store", "hints-cache", "hints-prediction")
ACCEPT = {
    "param.service-tier.accepted": ("plain-greedy", "service-tier-auto", "service-tier-default"),
    "param.user.accepted": ("plain-greedy", "param-user"),
    "param.hints.accepted": ("plain-greedy", *HINTED),
    "param.modalities.text": ("plain-greedy", "modalities-text"),
    "param.stream-options.empty": ("stream-greedy", "stream-options-empty", "stream-usage-false"),
    "param.obfuscation.accepted": ("stream-usage", "stream-obfuscation-false"),
    "param.seed.accepted": ("plain-greedy", "seed-zero", "seed-large"),
}


@pytest.mark.parametrize("rule", sorted(ACCEPT))
def test_accepted(rule: str) -> None:
    names = ACCEPT[rule]
    right = [sent(name) for name in names]
    assert broken(*right, areas=AREAS) == set()
    assert verdict(rule, *right) is Status.PASS
    for i in range(1, len(names)):
        wrong = [sent(name, 400 if at == i else 200) for at, name in enumerate(names)]
        assert broken(*wrong, areas=AREAS) == {rule}
    assert verdict(rule, sent(names[0], 400), *right[1:]) is Status.INCONCLUSIVE
    assert verdict(rule, right[0], *(sent(name, 500) for name in names[1:])) is Status.INCONCLUSIVE


def test_hints_refused_by_name() -> None:
    named = sent("hints-cache", 400, refusal("Unrecognized request argument supplied: prompt_cache_key"))
    rest = [sent(name) for name in ("plain-greedy", "hints-store", "hints-prediction")]
    assert broken(*rest, named, areas=AREAS) == set()
    assert verdict("param.hints.accepted", *rest, named) is Status.PASS


def unknown(*statuses: int, body: Any = None) -> list[Exchange]:
    names = ("unknown-field", "unknown-field-object", "unknown-field-stream")
    return [sent(n, s, body if s != 200 else None) for n, s in zip(names, statuses, strict=True)]


def test_unknown() -> None:
    by_name = refusal("Unrecognized request argument supplied: zzz_unknown")
    assert verdict(UNKNOWN, *unknown(200, 200, 200)) is Status.PASS
    assert verdict(UNKNOWN, *unknown(400, 400, 422, body=by_name)) is Status.PASS
    assert verdict(UNKNOWN, *unknown(200, 200, 400, body=by_name)) is Status.FAIL
    assert verdict(UNKNOWN, *unknown(400, 400, 400)) is Status.FAIL
    assert verdict(UNKNOWN, *unknown(200, 500, 200)) is Status.FAIL
    assert verdict(UNKNOWN, *unknown(200, 429, 200)) is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("rule", "name"),
    [("param.vendor.accepted", "vendor-parameters"), ("param.repetition-penalty.accepted", "repetition-penalty")],
)
def test_vendor(rule: str, name: str) -> None:
    assert verdict(rule, sent(name)) is Status.PASS
    refused = plain(refusal(), status=400, scenario=name, tags={"optional": "it"})
    assert verdict(rule, refused) is Status.UNSUPPORTED
    assert broken(sent(name, 500), areas=AREAS) == {rule}


def test_effort() -> None:
    for name in ("effort-low", "effort-minimal", "effort-xhigh", "effort-max", "effort-unknown"):
        for status, wanted in ((200, set()), (400, set()), (500, {"param.effort.accepted"})):
            assert broken(sent(name, status), areas=AREAS) == wanted


def test_no_5xx() -> None:
    for name in ("params-null", "param-user", "range-highest", "stream-options-empty"):
        x = plain(refusal(), {"seed": 1}, 500, scenario=name)
        assert broken(x, areas=AREAS) == {"param.request.no-5xx"}
        assert verdict("param.request.no-5xx", plain(scenario=name)) is Status.PASS


@pytest.mark.parametrize("junk", [None, 7, "x", [None], {"a": 1}, [{"index": {}}], [{"message": {"content": ["x"]}}]])
def test_any_json_is_survived(junk: Any) -> None:
    for name in sorted({n for names in ACCEPT.values() for n in names} | {"both-limits", "metadata-many"}):
        for body in (completion(choices=junk), completion(usage=junk), {"error": junk}, junk):
            broken(sent(name, body=body) if body is not None else plain([], scenario=name), areas=AREAS)
    broken(plain(completion(usage={"completion_tokens": junk}), {"max_tokens": 3}), areas=AREAS)
    broken(plain({"error": {"message": junk, "param": junk}}, new(3), 400), areas=AREAS)
    for member in ("temperature", "max_tokens", "seed", "top_p", "max_completion_tokens", "stream_options"):
        broken(plain(request={member: junk}), stream(*text("hi"), request={member: junk}), areas=AREAS)
