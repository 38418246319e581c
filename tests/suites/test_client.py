"""What the rule of refusals makes of an outcome beside odd bytes. (Real libraries: tests/e2e/test_clients.py.)"""

from __future__ import annotations

import json
from typing import Any

import pytest

from wireproof.judge import rules
from wireproof.judge.judge import Judge
from wireproof.read.exchange import Exchange
from wireproof.scenarios import clients
from wireproof.verdict import Status, Verdict
from wireproof.wire.transcript import Ending

from .wire import plain, recorded

SCENARIO = "client-openai-3.57"
FAIL, PASS, INCONCLUSIVE = Status.FAIL, Status.PASS, Status.INCONCLUSIVE
SENT = {"message": "Too many requests.", "type": "rate_limit_error", "param": "n", "code": "slow"}
RAISED = {
    "type": "RateLimitError",
    "bases": ["RateLimitError", "APIStatusError", "APIError"],
    "message": "Error code: 429 - Too many requests.",
    "status": 429,
    "kind": "rate_limit_error",
    "code": "slow",
    "param": "n",
    "body": SENT,
}


def refused(body: Any, raised: Any = None, *, task: str = "plain", status: int = 429, **more: Any) -> Exchange:
    """The first exchange of a task whose client raised this; without it, one more exchange."""
    outcome = {"task": task, "ok": False, "error": raised}
    tags = {"outcome": json.dumps(outcome), "client": "openai-3.57"} if raised is not None else {}
    return plain(body, status=status, scenario=SCENARIO, step=task, tags={**tags, **more.pop("tags", {})}, **more)


def judged(*exchanges: Exchange) -> Verdict:
    """The verdict on the task of these exchanges."""
    found = Judge(recorded(*exchanges)).judge(rules.load()["client.errors.mapped"])
    [verdict] = [v for v in found if v.case == f"{SCENARIO}/{exchanges[0].transcript.step}"]
    return verdict


@pytest.mark.parametrize("body", [{"error": SENT}, {**SENT, "object": "error"}])
def test_a_refusal_that_arrived(body: Any) -> None:
    assert judged(refused(body, RAISED)).status is PASS


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"bases": ["APIStatusError"]}, "RateLimitError for 429"),
        ({"bases": None}, "RateLimitError for 429"),
        ({"message": "Error code: 429", "body": None}, "the message Too many requests."),
        ({"kind": None}, "a non-empty error type"),
        ({"kind": ["x"]}, "a non-empty error type"),
        ({"code": None}, "the code slow"),
        ({"param": {"n": 1}}, "the param n"),
    ],
)
def test_what_did_not_arrive(changes: dict[str, Any], says: str) -> None:
    found = judged(refused({"error": SENT}, {**RAISED, **changes}))
    assert found.status is FAIL and found.violations[0].expected == says


@pytest.mark.parametrize(
    "body", [[], [1], "x", 7, {"error": None}, {"error": "x"}, {"error": []}, {"error": {"message": 7}}, b"<html>", b""]
)
def test_a_body_of_another_form_fails_and_does_no_harm(body: Any) -> None:
    told = {**RAISED, "kind": None, "code": None, "param": None}
    found = judged(refused(body, told))
    assert found.status is FAIL and found.violations[0].expected == "an error with a message"


def test_no_exception_for_a_refusal() -> None:
    x = plain({"error": SENT}, status=429, scenario=SCENARIO, step="plain", tags={"outcome": '{"ok": true}'})
    found = judged(x)
    assert found.status is FAIL and found.violations[0].got == "no error"


def test_a_code_that_is_a_number_may_become_a_string() -> None:
    body = {"error": {**SENT, "code": 429, "param": None}}
    assert judged(refused(body, {**RAISED, "code": "429", "param": None})).status is PASS
    assert judged(refused(body, {**RAISED, "code": 429, "param": None})).status is PASS


@pytest.mark.parametrize(("status", "name"), [(503, "InternalServerError"), (418, "APIStatusError")])
def test_statuses_without_a_class_of_their_own(status: int, name: str) -> None:
    told = {**RAISED, "status": status, "bases": [name]}
    assert judged(refused({"error": SENT}, told, status=status)).status is PASS


@pytest.mark.parametrize("kind", ["DriverHang", "DriverCrash", "DriverNonsense"])
def test_a_client_that_broke_is_not_billed_to_the_target(kind: str) -> None:
    assert judged(refused({"error": SENT}, {"type": kind, "message": "m", "bases": [kind]})).status is INCONCLUSIVE


@pytest.mark.parametrize("ending", [Ending.RESET, Ending.IDLE_TIMEOUT, Ending.CLIENT_LEFT])
def test_half_a_refusal_is_not_judged(ending: Ending) -> None:
    assert judged(refused({"error": SENT}, {**RAISED, "bases": []}, ending=ending)).status is INCONCLUSIVE


def test_of_many_at_a_time_the_one_that_was_raised_for_is_judged() -> None:
    """The others were cancelled, or refused for another reason."""
    first = refused({"error": SENT}, RAISED, task="unmixed")
    other = refused({"error": {"message": "busy"}}, task="unmixed", status=503)
    left = refused(None, task="unmixed", status=200, ending=Ending.CLIENT_LEFT)
    assert judged(first, other, left).status is PASS


def test_nothing_was_refused() -> None:
    answered = refused(None, {"type": "JSONDecodeError"}, status=200)
    assert judged(answered).status is Status.NOT_APPLICABLE
    wanted = refused(None, {"type": "x"}, status=200, task="error-key", tags={"valid": "no"})
    assert judged(wanted).status is INCONCLUSIVE


def test_every_task_is_judged() -> None:
    rule = rules.load()["client.errors.mapped"]
    assert set(clients.steps("")) == {(v.case.split("/")[0], v.case.split("/")[1]) for v in _all_cases(rule)}


def _all_cases(rule: rules.Rule) -> list[Verdict]:
    first = [
        plain(None, scenario=s.scenario, step=s.tasks[0], tags={"outcome": '{"ok": true}'})
        for s in clients.load().values()
    ]
    return Judge(recorded(*first)).judge(rule)
