"""A few faults through real sockets: what the matrix shows in memory is what a live run shows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wireproof.judge import rules
from wireproof.record.target import parse_target
from wireproof.reference_server import faults, player
from wireproof.reference_server.config import Config
from wireproof.reference_server.state import ServerState
from wireproof.run.run import Options, Run
from wireproof.verdict import Status

# One of each layer at least, none that only time shows: the machine may be busy.
NAMES = [
    "http.stream-cut",
    "done.missing",
    "chunk.role-every-chunk",
    "chunk.choices-null",
    "sse.single-newlines",
    "sse.character-split-over-events",
    "usage.chunk-unasked",
    "finish.always-stop",
    "http.dies-of-a-bad-request",
    "chunk.role-every-chunk+done.missing",
]
# What a busy machine can spoil or show by chance.
_SLOW = ("sse.flush", "sse.header.sent-early", "done.body", "sse.gap", "cancel.", "operations.")
TIMED = frozenset(r for r in rules.load() if r.startswith(_SLOW))


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    # A fast model whose words are remembered: only the way to the wire differs here, and none of it is judged by time.
    with player.serve_in_thread(Config(token_seconds=0.0002), state=ServerState(recall={})) as url:
        yield url


def _broken(url: str) -> set[str]:
    chosen = [r for r in rules.load().values() if r.id not in TIMED]
    run = Run(Options(parse_target(url)), chosen, faults.by_rule())
    run.record()
    return {r.id for r in chosen if run.outcome(r).status is Status.FAIL}


def test_the_clean_server_breaks_nothing_live(base: str) -> None:
    assert _broken(base) == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_breaks_live_what_it_declares(base: str, name: str) -> None:
    declared = set().union(*(f.breaks for f in faults.parse(name))) - TIMED
    assert _broken(base.replace("/v1", f"/fault/{name}/v1")) == declared
