"""What a full run costs, and how many judgements each recorded exchange gives.

    python bench/bench_cost.py

The whole plan is recorded from the bundled server in memory (the same requests as over sockets, without the
preflight's). An area's line is what that suite alone would cost; areas share exchanges, so the last line is less than
their sum. A judgement is one rule judged on one exchange that takes part in it; not-applicable ones don't count.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import Any

from wireproof.judge import rules
from wireproof.judge.judge import Judge
from wireproof.judge.rules import Rule
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Recording
from wireproof.record.recorder import Cost
from wireproof.reference_server import memory
from wireproof.scenarios.catalog import load
from wireproof.verdict import Status

WANTED = 3.0


class Counting(Judge):
    """A judge that counts, for each area, the exchanges that its rules were judged on."""

    def __init__(self, recorded: Recording) -> None:
        super().__init__(recorded)
        self.judgements: Counter[str] = Counter()

    def _run(self, r: Rule, arguments: Sequence[Any], exchanges: Sequence[Exchange]) -> Any:
        result = super()._run(r, arguments, exchanges)
        if result.status is not Status.NOT_APPLICABLE:
            self.judgements[r.area] += len(exchanges)
        return result


def cost(recorded: Recording, scenarios: set[str]) -> Cost:
    """What the exchanges of some scenarios cost."""
    total = Cost()
    for take in recorded.takes:
        if take.scenario in scenarios:
            for x in take.exchanges:
                total = total.plus(x)
    return total


def line(name: str, *numbers: int) -> str:
    """A line of the table."""
    return f"| {name} | {' | '.join(f'{n:,}' for n in numbers)} |"


def main() -> None:
    """Record, judge, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--slow", action="store_true", help="with the scenarios that wait for tens of seconds")
    options = parser.parse_args()
    known = load()
    every = list(rules.load().values())
    plan = dict.fromkeys(n for r in every for n in r.needs if options.slow or not known[n].slow)
    recorded = memory.record(scenarios=list(plan))
    judge = Counting(recorded)
    for r in every:
        judge.judge(r)
    needs = {area: {n for r in every if r.area == area for n in r.needs} for area in sorted({r.area for r in every})}
    print("| area | rules | requests | of no other area | prompt tokens | completion tokens | judgements |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for area, names in needs.items():
        count = sum(r.area == area for r in every)
        alone = names - {n for other, found in needs.items() if other != area for n in found}
        spent, own = cost(recorded, names), cost(recorded, alone)
        tokens = (spent.prompt_tokens, spent.completion_tokens)
        print(line(area, count, spent.requests, own.requests, *tokens, judge.judgements[area]))
    whole, judged = cost(recorded, set(plan)), judge.judgements.total()
    tokens = (whole.prompt_tokens, whole.completion_tokens)
    print(line("all, shared", len(every), whole.requests, whole.requests, *tokens, judged))
    exchanges = len(recorded.exchanges)
    print(f"{exchanges} exchanges; {judged / exchanges:.1f} judgements for each (wanted: at least {WANTED:g})")


if __name__ == "__main__":
    main()
