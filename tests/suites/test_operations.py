"""Rules about what operators rely on: right wires pass, wrong ones fail one rule, and the neighbours stay green."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from wireproof.read.endpoints import exchange_of
from wireproof.read.exchange import Exchange
from wireproof.scenarios.conversations.load import nonce
from wireproof.verdict import Status
from wireproof.wire.transcript import Ending

from .leaving import VLLM, metrics, no_answer, words
from .wire import CREATED, broken, chunk, completion, explain, plain, stream, text, verdict

AREAS = ("operations", "cancel")
ERROR = {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}}


def took(x: Exchange, seconds: float, **changes: Any) -> Exchange:
    """The same exchange, with times."""
    return exchange_of(replace(x.transcript, ended_at=seconds, timed=True, **changes))


def refusal(status: int, scenario: str, message: str = "no", **more: Any) -> Exchange:
    error = {"error": {**ERROR["error"], "message": message}}
    return plain(error, status=status, scenario=scenario, **more)


# -- endpoints ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "message", "found"),
    [
        (404, "Unknown request URL", Status.FAIL),
        (405, "Method not allowed", Status.FAIL),
        (404, "The model `m` does not exist", Status.INCONCLUSIVE),
        (429, "slow down", Status.PASS),
        (500, "oh", Status.PASS),
    ],
)
def test_the_path_below_v1(status: int, message: str, found: Status) -> None:
    assert verdict("operations.prefix.v1", refusal(status, "plain-greedy", message)) is found
    assert verdict("operations.prefix.v1", plain(), stream(*text("hi"))) is Status.PASS


@pytest.mark.parametrize(
    ("rule", "scenario", "answers"),
    [
        (
            "operations.upgrade.h2c-ignored",
            "upgrade-h2c",
            {200: "pass", 400: "fail", 422: "fail", 429: "not-applicable"},
        ),
        (
            "operations.body.256k-accepted",
            "body-256k",
            {200: "pass", 413: "fail", 500: "fail", **dict.fromkeys((400, 401, 408, 429, 503), "not-applicable")},
        ),
        (
            "operations.health.ok",
            "health-probe",
            {200: "pass", 503: "fail", **dict.fromkeys((401, 404, 408, 429), "not-applicable")},
        ),
    ],
)
def test_statuses(rule: str, scenario: str, answers: dict[int, str]) -> None:
    probe: dict[str, Any] = {"method": "GET", "path": "/health"} if scenario == "health-probe" else {}
    for status, expected in answers.items():
        x = plain(scenario=scenario, **probe) if status == 200 else refusal(status, scenario, **probe)
        assert verdict(rule, x).value == expected, status
        assert broken(x, areas=AREAS) == ({rule} if expected == "fail" else set())
    assert verdict(rule, no_answer(scenario, "", Ending.RESET)) is Status.FAIL


def test_a_compressed_request() -> None:
    for status, expected in ((200, Status.PASS), (415, Status.PASS), (400, Status.PASS), (500, Status.FAIL)):
        x = refusal(status, "request-gzip", step="gzip")
        assert verdict("operations.encoding.request-gzip", x) is expected
    for status in (401, 403, 408, 429, 503):
        x = refusal(status, "request-gzip", step="gzip")
        assert verdict("operations.encoding.request-gzip", x) is Status.INCONCLUSIVE


def _idle(second: int, **headers: str) -> list[Exchange]:
    first = plain(scenario="keep-alive-idle", step="first", headers=headers)
    again = plain(scenario="keep-alive-idle", step="second")
    return [exchange_of(replace(x.transcript, connection=n)) for x, n in ((first, 1), (again, second))]


def test_an_idle_connection() -> None:
    rule = "operations.keep-alive.idle"
    assert verdict(rule, *_idle(1)) is Status.PASS
    assert broken(*_idle(2), areas=AREAS) == {rule}
    assert verdict(rule, *_idle(2, Connection="close")) is Status.NOT_APPLICABLE
    assert verdict(rule, *_idle(2, **{"Keep-Alive": "timeout=5"})) is Status.NOT_APPLICABLE
    assert verdict(rule, *_idle(2, **{"Keep-Alive": "timeout=60"})) is Status.FAIL


@pytest.mark.parametrize(
    ("deprecation", "sunset", "status"),
    [
        (None, None, Status.NOT_APPLICABLE),
        ("@1688169599", None, Status.PASS),
        ("@1688169599", "Sun, 31 Dec 2023 23:59:59 GMT", Status.PASS),
        (None, "Sun, 31 Dec 2023 23:59:59 GMT", Status.PASS),
        ("true", None, Status.FAIL),
        ("Fri, 30 Jun 2023 23:59:59 GMT", None, Status.FAIL),
        ("@1688169599", "Mon, 10 Jul 2023 23:59:59 GMT", Status.FAIL),
        ("@1688169599", "soon", Status.FAIL),
        ("@99999999999999999999", None, Status.FAIL),
    ],
)
def test_deprecation(deprecation: str | None, sunset: str | None, status: Status) -> None:
    x = plain(headers={"Deprecation": deprecation, "Sunset": sunset})
    assert verdict("operations.deprecation.header", x) is status


def _versions(*headers: dict[str, str], **more: Any) -> list[Exchange]:
    return [plain(headers=h, **more) for h in headers]


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (_versions({}, {}), Status.NOT_APPLICABLE),
        (_versions({"openai-version": "2020-10-01"}, {}, {"OpenAI-Version": "2020-10-01"}), Status.PASS),
        (_versions({"openai-version": "2020-10-01"}, {"openai-version": "2020-11-07"}), Status.FAIL),
        (_versions({"openai-version": "v1"}), Status.FAIL),
        (_versions({"openai-version": ""}), Status.FAIL),
        (_versions({"x-api-version": "v1"}, {"api-version": "2024-10-21"}), Status.PASS),
        (_versions({"x-api-version": "1.4"}, {"x-api-version": "1.5"}), Status.FAIL),
        (_versions({"x-request-id": "a"}, {"x-ratelimit-limit-requests": "1"}), Status.NOT_APPLICABLE),
    ],
)
def test_version_headers(found: list[Exchange], status: Status) -> None:
    rule = "operations.version.constant"
    assert verdict(rule, *found) is status
    assert broken(*found, areas=AREAS) == ({rule} if status is Status.FAIL else set())


def test_a_version_that_was_asked_for() -> None:
    rule, usual = "operations.version.constant", _versions({"api-version": "2023-05-15"})
    path = "/v1/chat/completions?api-version=2024-10-21"
    echoed = _versions({"api-version": "2024-10-21"}, scenario="plain-query", path=path)
    named = _versions({"api-version": "2024-10-21"}, scenario="other", sent={"api-version": "2024-10-21"})
    assert verdict(rule, *usual, *echoed, *named) is Status.PASS
    busy = [refusal(429, "plain-cut", headers={"api-version": "2023-05-15"}), refusal(503, "plain-n2")]
    assert verdict(rule, *usual, *busy) is Status.PASS


def test_metrics() -> None:
    rule = "operations.metrics.gauges"
    assert verdict(rule, metrics("", 0, "metrics")) is Status.PASS
    assert verdict(rule, metrics("", 0, "metrics", waiting=-1)) is Status.FAIL
    alone = VLLM.replace("num_requests_waiting", "num_requests_late")
    assert verdict(rule, metrics("", 0, "metrics", text=alone)) is Status.FAIL
    assert verdict(rule, metrics("", 0, "metrics", text="<html>")) is Status.UNSUPPORTED
    assert (
        verdict(rule, plain(ERROR, status=404, scenario="metrics", method="GET", path="/metrics")) is Status.UNSUPPORTED
    )


# -- at a time --------------------------------------------------------------------------------------

MIXING, SHARED = "operations.nonce.no-mixing", "operations.request-id.shared"


def _nonces(changed: dict[int, Any] | None = None) -> list[Exchange]:
    out = []
    for n in range(24):
        said = (changed or {}).get(n, nonce(n))
        step = f"{'own' if n < 16 else 'shared'}-{n:02}"
        if isinstance(said, Ending):
            out.append(no_answer("parallel-nonces", step, said, 60.0))
        elif isinstance(said, str) and n % 2:  # as it comes: in pieces
            pieces = text('{"nonce": "', said[:9], said[9:], '"}')
            out.append(stream(*pieces, scenario="parallel-nonces", step=step))
        elif isinstance(said, str):
            out.append(plain(completion(f'{{"nonce": "{said}"}}'), scenario="parallel-nonces", step=step))
        else:
            out.append(refusal(said, "parallel-nonces", step=step))
    return out


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, set()),
        ({8: nonce(6)}, {MIXING}),
        ({5: nonce(7), 7: nonce(5)}, {MIXING}),  # streams with each other's text
        ({19: nonce(17)}, {MIXING}),
        ({17: nonce(16)}, {MIXING}),
        ({17: f"{nonce(17)} {nonce(3)}"}, {MIXING}),
        ({7: "something else"}, set()),  # the schema was not enforced: another rule's matter
        ({17: 409, 18: 400}, set()),
        ({17: Ending.IDLE_TIMEOUT}, {SHARED}),
        ({17: 500}, {SHARED}),
        ({17: 503, 18: 429, 19: 401}, set()),
        ({3: Ending.IDLE_TIMEOUT}, set()),
        ({3: Ending.IDLE_TIMEOUT, 17: Ending.IDLE_TIMEOUT}, set()),  # not because of the id
    ],
)
def test_words_of_others(changed: dict[int, Any], found: set[str]) -> None:
    assert broken(*_nonces(changed), areas=AREAS) == found


def test_nothing_is_shown_by_refusals() -> None:
    found = _nonces(dict.fromkeys(range(24), 400))
    assert verdict(MIXING, *found) is Status.INCONCLUSIVE
    assert verdict(SHARED, *found) is Status.PASS
    for status in (401, 429, 503):
        assert verdict(SHARED, *_nonces(dict.fromkeys(range(24), status))) is Status.INCONCLUSIVE


def _streams(begin: float, count: int = 8) -> list[Exchange]:
    """Streams of a second; each later one begins `begin` seconds after the one before."""
    name = "parallel-streams"
    chunks = text(*["a "] * 10)
    out = []
    for n in range(count):
        times = [begin * n + 0.1 * k for k in range(len(chunks) + 2)]
        out.append(took(stream(*chunks, times=times, scenario=name, step=f"stream-{n}"), times[-1]))
    return out


def test_streams_at_a_time() -> None:
    assert broken(*_streams(0.0), areas=AREAS) == set()
    assert verdict("operations.streams.parallel", *_streams(0.0)) is Status.PASS
    assert broken(*_streams(2.0), areas=AREAS) == {"operations.streams.parallel"}
    hung = [*_streams(0.0)[:7], no_answer("parallel-streams", "stream-7", Ending.IDLE_TIMEOUT, 60.0)]
    assert broken(*hung, areas=AREAS) == {"operations.streams.all-end"}
    busy = [*_streams(0.0)[:7], refusal(429, "parallel-streams", step="stream-7")]
    assert verdict("operations.streams.all-end", *busy) is Status.INCONCLUSIVE


def _stall(gap: float, status: int = 200) -> list[Exchange]:
    times = [0.02 * n + (gap if n > 25 else 0.0) for n in range(51)]
    x = stream(*[chunk({"content": "a "})] * 50, times=times, done=False, scenario="schema-stall", step="stream")
    beside = plain(scenario="schema-stall", step="schema")
    if status != 200:
        beside = refusal(status, "schema-stall", step="schema", tags={"optional": "strict json_schema"})
    alone = stream(*[chunk({"content": "a "})] * 20, times=times, done=False, scenario="schema-stall", step="alone")
    return [alone, x, beside]


def test_a_stream_beside_a_large_schema() -> None:
    rule = "operations.schema.no-stall"
    assert verdict(rule, *_stall(1.5)) is Status.PASS
    assert broken(*_stall(4.0), areas=AREAS) == {rule}
    assert verdict(rule, *_stall(4.0, status=400)) is Status.UNSUPPORTED


def _costs(without: float, scored: float) -> list[Exchange]:
    steps = {"without": without, "with": scored}
    return [took(plain(scenario="logprobs-cost", step=s), t) for _ in range(4) for s, t in steps.items()]


def test_the_cost_of_logprobs() -> None:
    rule = "operations.logprobs.opt-in-cost"
    assert verdict(rule, *_costs(1.0, 1.4)) is Status.PASS
    assert verdict(rule, *_costs(1.2, 1.0)) is Status.PASS
    assert broken(*_costs(2.0, 1.0), areas=AREAS) == {rule}
    assert verdict(rule, *_costs(0.04, 0.01)) is Status.PASS  # too little to be blamed for


# -- a contract that stands still -----------------------------------------------------------------------


def _again(*bodies: Any) -> list[Exchange]:
    return [plain(body, scenario="repeat-plain", step="again") for body in bodies]


def test_members_that_come_and_go() -> None:
    rule = "operations.members.repeat"
    good = completion()
    usage = {**good["usage"], "prompt_tokens_details": {"cached_tokens": 3}}
    null = {**good["usage"], "prompt_tokens_details": None}
    assert verdict(rule, *_again(good, good, good)) is Status.PASS
    assert verdict(rule, *_again({**good, "usage": usage}, {**good, "usage": null})) is Status.PASS
    assert verdict(rule, *_again(good, {**good, "usage": usage}, {**good, "usage": usage})) is Status.PASS  # cached
    empty = {**good["usage"], "prompt_tokens_details": {}}
    assert verdict(rule, *_again({**good, "usage": empty}, {**good, "usage": usage})) is Status.PASS
    more = {**good["usage"], "completion_tokens_details": {"reasoning_tokens": 0}}
    assert verdict(rule, *_again(good, {**good, "usage": more})) is Status.FAIL
    other = {**good["usage"], "prompt_tokens_details": [3]}
    assert verdict(rule, *_again({**good, "usage": usage}, {**good, "usage": other})) is Status.FAIL
    assert broken(*_again(good, {**good, "timings": {"ms": 1}}), areas=AREAS) == {rule}
    assert broken(*_again({**good, "x": 1}, {**good, "x": "1"}), areas=AREAS) == {rule}
    assert "['x'] of another type" in explain(rule, *_again({**good, "x": 1}, {**good, "x": "1"}))
    assert verdict(rule, *_again({**good, "x": 1}, {**good, "x": 1.5})) is Status.PASS
    assert verdict(rule, *_again(good, {**good, "x": [1]}, good)) is Status.FAIL
    deep: Any = 1
    for _ in range(30):
        deep = {"a": deep}
    assert verdict(rule, *_again({**good, "x": deep}, {**good, "x": deep})) is Status.PASS


def test_clocks() -> None:
    rule = "operations.clock.sane"
    assert verdict(rule, plain()) is Status.PASS
    assert verdict(rule, stream(*text("hi"))) is Status.PASS
    assert broken(plain({**completion(), "created": CREATED + 3600}), areas=AREAS) == {rule}
    late = stream(*(c | {"created": CREATED - 3600} for c in text("hi")))
    assert broken(late, areas=AREAS) == {rule}
    slow = took(plain({**completion(), "created": CREATED - 90}), 95.0)  # it took that long to make
    assert verdict(rule, slow) is Status.PASS
    value: Any
    for value in (None, "now", True, 0, CREATED * 1000, [], 1e300):
        assert verdict(rule, plain({**completion(), "created": value})) is Status.NOT_APPLICABLE
    assert verdict(rule, plain(headers={"Date": None})) is Status.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("headers", "block", "status"),
    [
        ({}, 50, Status.NOT_APPLICABLE),
        ({"Server": "nginx/1.22.1"}, 1, Status.PASS),
        ({"Server": "nginx/1.22.1"}, 50, Status.FAIL),
        ({"Via": "1.1 gateway"}, 20, Status.FAIL),
        ({"Via": "1.1 gateway"}, 4, Status.PASS),
    ],
)
def test_blocks_behind_a_proxy(headers: dict[str, str], block: int, status: Status) -> None:
    times = [0.01 * (n // block * block + block) for n in range(102)]
    x = stream(*[chunk({"content": "a "})] * 100, times=times, headers=headers, scenario="stream-long")
    assert verdict("operations.proxy.incremental", x) is status


# -- whatever comes ------------------------------------------------------------------------------------------

SCENARIOS = (
    *("plain-query", "upgrade-h2c", "body-256k", "health-probe", "metrics", "parallel-nonces", "parallel-streams"),
    *("schema-stall", "logprobs-cost", "repeat-plain", "keep-alive-idle", "request-gzip", "stream-long"),
)
STEPS = (
    "",
    "own-01",
    "shared-16",
    "stream-0",
    "stream",
    "schema",
    "with",
    "without",
    "again",
    "first",
    "second",
    "gzip",
)


@pytest.mark.parametrize(
    "junk", [None, 7, "x", [], {}, {"choices": [7], "created": [], "usage": 7}, {"choices": {}, "created": {}}]
)
def test_odd_answers_are_no_exception(junk: Any) -> None:
    """`broken` raises when a check does."""
    for name in SCENARIOS:
        broken(*(plain(junk, scenario=name, step=step) for step in STEPS), areas=AREAS)
        broken(
            *(stream(junk, b"data: 7\n\n", scenario=name, step=step) for step in STEPS if isinstance(junk, dict)),
            areas=AREAS,
        )
        broken(*(no_answer(name, step, Ending.CLOSED) for step in STEPS), areas=AREAS)
    broken(words(3, 0.1, "stream-long", "", Ending.CLIENT_LEFT), areas=AREAS)
