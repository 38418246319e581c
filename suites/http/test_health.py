"""A server survives the requests that it has to refuse."""

from __future__ import annotations

from wireproof.judge.rules import MUST, contract, each_of, rule
from wireproof.read.exchange import Exchange
from wireproof.read.refusal import BUSY_OR_LOCKED
from wireproof.verdict import require


@rule(
    "http.refusal.server-survives",
    MUST,
    on=each_of("health-after-refusals"),
    source=contract("a request of one client never takes the server from the others"),
)
def test_server_survives(x: Exchange) -> None:
    """After a request that it had to refuse, the server still answers a plain one.

    Otherwise one client's malformed request takes the server down for everyone: mlx-lm 0.32.2 loses its
    generation thread to `"stop": 7` and answers every later request with 404.
    """
    if x.status in BUSY_OR_LOCKED:
        raise x.refused()
    before = f" after {x.transcript.step}" if x.transcript.step else ""
    got = x.refusal() if x.response else f"no answer ({x.transcript.ending.value})"
    alive = x.status is not None and 200 <= x.status < 300
    require(alive, "200 for a plain request" + before, got=got)
