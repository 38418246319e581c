"""An exchange of one endpoint is judged by no rule of another, and no check of ours trips over it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wireproof.judge import rules
from wireproof.judge.judge import Judge
from wireproof.read.endpoints import exchange_of
from wireproof.read.recording import Recording
from wireproof.reference_server.memory import record
from wireproof.verdict import Status

NAMES = (
    "plain-cut",
    "plain-pinned",
    "stream-stop",
    "parallel-plain",
    "tool-custom",
    "stream-pinned-n2",
    "keyword-ref-once",
)


@pytest.mark.parametrize("method, path", [("POST", "/v1/responses"), ("PUT", "/v1/chat/completions")])
def test_no_check_trips_over_an_exchange_of_another_endpoint(method: str, path: str) -> None:
    judge = Judge(Recording(()))
    for x in record(scenarios=NAMES).exchanges:
        t = x.transcript
        other = exchange_of(replace(t, request=replace(t.request, method=method, url=f"http://reference{path}")))
        for rule in rules.load().values():
            verdict = judge.single(rule, other)
            assert verdict is None or verdict.status is not Status.ERROR, (rule.id, verdict)
