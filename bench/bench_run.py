"""How much longer a full live run takes than its requests need.

    python bench/bench_run.py

The requests need what those that run alone take, one after the other, plus the makespan of the concurrent ones at
the run's concurrency. The run is everything: preflight, connections, recording, judging all rules.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable

from wireproof.judge import rules
from wireproof.record.target import parse_target
from wireproof.reference_server import faults, player
from wireproof.reference_server.config import Config
from wireproof.run.run import Options, Run
from wireproof.scenarios.catalog import load

ROUNDS = 5


def makespan(seconds: Iterable[float], lanes: int) -> float:
    """When the last of the jobs ends, taken in order by the lane that is free first (seconds)."""
    free = [0.0] * lanes
    for duration in seconds:
        heapq.heappush(free, heapq.heappop(free) + duration)
    return max(free)


def one_run(url: str) -> tuple[float, float, float]:
    """Seconds of the run, of its requests alone, and of its concurrent makespan."""
    chosen = list(rules.load().values())
    options = Options(parse_target(url))
    proofs = faults.by_rule()
    started = time.perf_counter()
    run = Run(options, chosen, proofs)
    run.record()
    for rule in chosen:
        run.outcome(rule)
    total = time.perf_counter() - started
    alone, together = 0.0, []
    for t in run.transcripts.values():
        scenario = load()[t.scenario]
        if scenario.exclusive or scenario.health or not scenario.valid:
            alone += t.ended_at
        else:
            together.append(t.ended_at)
    return total, alone, makespan(together, options.concurrency)


def main() -> None:
    """Print the ratio of each round and their best."""
    ratios = []
    with player.serve_in_thread(Config()) as url:
        for _ in range(ROUNDS):
            total, alone, spread = one_run(url)
            ratios.append(total / (alone + spread))
            print(f"run {total:.2f} s; alone {alone:.2f} s + makespan {spread:.2f} s; ratio {ratios[-1]:.2f}")
    print(f"median ratio {sorted(ratios)[len(ratios) // 2]:.2f}, best {min(ratios):.2f} (wanted: at most 1.3)")


if __name__ == "__main__":
    main()
