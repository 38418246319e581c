"""A server that is busy for a moment, or lets somebody in no more, breaks no rule by it.

Every answer of the clean reference server is replaced in turn by such a refusal, well-formed in every way.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from wireproof.judge import rules
from wireproof.judge.judge import Judge
from wireproof.judge.rules import Each, Of, Rule
from wireproof.read.endpoints import exchange_of
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Recording, Take
from wireproof.reference_server.memory import record
from wireproof.verdict import Status
from wireproof.wire.transcript import Ending, Read

# Where being refused is what shows the defect: places that leaked away, and a probe that says no.
_ABOUT_BEING_SERVED = {"cancel.early.no-leak", "cancel.many.still-serves", "operations.health.ok"}
# A request whose answer was left has no headers of its own to copy, and a load that was not made is not counted.
_ARTEFACTS = {"http.request-id.present", "cancel.counted-as-aborted"}
# One of each conversation's long rows of equal steps will do.
_MANY = 12


@functools.cache
def _clean() -> Recording:
    return record()


def _busy(x: Exchange, status: int) -> Exchange:
    """The same exchange, refused: with the right envelope, and the headers that every answer has."""
    error = {"message": "Try again in 1 s.", "type": "rate_limit_error", "param": None, "code": "busy"}
    body = b"" if x.request.method == "HEAD" else json.dumps({"error": error}).encode()
    same = {k: v for k, v in (x.response.headers if x.response else ()) if k.lower() in ("date", "x-request-id")}
    headers = {**same, "Content-Type": "application/json", "Content-Length": str(len(body)), "Retry-After": "1"}
    head = f"HTTP/1.1 {status} Busy\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
    read = Read(0.001, head.encode() + body)
    return exchange_of(replace(x.transcript, reads=(read,), ending=Ending.COMPLETE, ended_at=0.001))


def _recordings(r: Rule, status: int) -> Iterator[Recording]:
    """What the rule needs, each time with another answer that is busy; and then with all of them busy."""
    assert isinstance(r.on, Of)
    takes = [_clean().of(name)[0] for name in r.on.scenarios if _clean().of(name)]
    for i, take in enumerate(takes):
        for j, x in enumerate(take.exchanges):
            if len(take.exchanges) <= _MANY or j in (0, 1, 7, len(take.exchanges) - 1):
                changed = (*take.exchanges[:j], _busy(x, status), *take.exchanges[j + 1 :])
                yield Recording((*takes[:i], replace(take, exchanges=changed), *takes[i + 1 :]))
    yield Recording(tuple(_all_busy(take, status) for take in takes))


def _all_busy(take: Take, status: int) -> Take:
    return replace(take, exchanges=tuple(_busy(x, status) for x in take.exchanges))


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_moment_breaks_nothing(status: int) -> None:
    known = [r for r in rules.load().values() if r.check and r.id not in _ABOUT_BEING_SERVED | _ARTEFACTS]
    judge = Judge(Recording(()))
    broken: set[str] = set()
    single = [r for r in known if isinstance(r.on, Each)]
    for x in _clean().exchanges:
        busy = _busy(x, status)
        for r in single:
            v = judge.single(r, busy)
            if v is not None and v.status in (Status.FAIL, Status.ERROR):
                broken.add(f"{r.id} on {x.scenario}")
    for r in known:
        if isinstance(r.on, Of):
            for recorded in _recordings(r, status):
                if any(v.status in (Status.FAIL, Status.ERROR) for v in Judge(recorded).judge(r)):
                    broken.add(r.id)
    assert broken == set()
