"""Chooses the scenarios of the profile `gate`: few requests, few tokens, and as many rules judged as can be.

    python -m wireproof.reference_server.gate [--write]

Greedy, on the clean reference server: again and again the scenario (or the group of scenarios that a rule needs
together) that shows the most new rules for what it costs. What has killed a real engine is added to that: it is few
requests, which are sent with --risky only. Prints what the choice costs and which rules it leaves out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wireproof.judge.judge import Judge
from wireproof.judge.rules import Of, Rule, Twins
from wireproof.read.recording import Recording
from wireproof.record.recorder import Cost
from wireproof.scenarios.catalog import load
from wireproof.verdict import Status

from .fault_matrix import FaultMatrix

MOST_REQUESTS = 232
MOST_TOKENS = 24_000  # completion tokens; real models say more than ours
_TOKENS_A_REQUEST = 150  # so many completion tokens weigh as much as one more request
_FILE = Path(__file__).resolve().parents[1] / "fixtures" / "profiles" / "gate.txt"


@dataclass(frozen=True)
class Bundle:
    """Scenarios that show some rules together."""

    scenarios: frozenset[str]
    rules: frozenset[str]


def bundles(recorded: Recording, rules: Iterable[Rule]) -> list[Bundle]:
    """What each scenario shows by itself, and what takes several."""
    judge = Judge(recorded)
    alone: dict[str, set[str]] = {}
    out: list[Bundle] = []
    for r in rules:
        for v in judge.judge(r):
            if v.status is not Status.PASS:
                continue
            if isinstance(r.on, Of):
                out.append(Bundle(frozenset(r.needs), frozenset({r.id})))
            elif isinstance(r.on, Twins):
                plain, _, stream = v.case.partition(" ~ ")
                out.append(Bundle(frozenset({plain, stream}), frozenset({r.id})))
            elif v.case.partition("/")[0] in load():
                alone.setdefault(v.case.partition("/")[0], set()).add(r.id)
            else:
                out.append(Bundle(frozenset(r.needs[:3]), frozenset({r.id})))
    out += [Bundle(frozenset({name}), frozenset(shown)) for name, shown in alone.items()]
    merged: dict[frozenset[str], set[str]] = {}
    for bundle in out:
        merged.setdefault(bundle.scenarios, set()).update(bundle.rules)
    return [Bundle(names, frozenset(shown)) for names, shown in merged.items()]


def costs(recorded: Recording) -> Mapping[str, Cost]:
    """What each scenario costs (requests, tokens)."""
    out: dict[str, Cost] = {}
    for take in recorded.takes:
        for x in take.exchanges:
            out[take.scenario] = out.get(take.scenario, Cost()).plus(x)
    return out


def choose(found: Sequence[Bundle], cost: Mapping[str, Cost]) -> tuple[list[str], set[str]]:
    """The chosen scenarios in order of choice, and the rules that they show."""
    chosen: dict[str, None] = {}
    shown: set[str] = set()
    requests = tokens = 0
    while True:
        best, best_worth, best_price = None, 0.0, (0, 0)
        for b in found:
            new = b.scenarios - chosen.keys()
            have = chosen.keys() | new
            gained = {r for other in found if other.scenarios <= have for r in other.rules} if len(new) > 1 else b.rules
            gained = gained - shown
            price = (sum(cost[n].requests for n in new), sum(cost[n].completion_tokens for n in new))
            if not gained or requests + price[0] > MOST_REQUESTS or tokens + price[1] > MOST_TOKENS:
                continue
            worth = len(gained) / (0.01 + price[0] + price[1] / _TOKENS_A_REQUEST)
            if worth > best_worth:
                best, best_worth, best_price = b, worth, price
        if best is None:
            return list(chosen), shown
        chosen.update(dict.fromkeys(sorted(best.scenarios)))
        requests, tokens = requests + best_price[0], tokens + best_price[1]
        shown |= {r for b in found if b.scenarios <= chosen.keys() for r in b.rules}


def main(arguments: Sequence[str]) -> int:
    """Choose, print, and with --write keep the list."""
    matrix = FaultMatrix()
    recorded = matrix.recording()
    every = load()
    found = bundles(recorded, matrix.rules.values())
    quick = [b for b in found if not any(every[n].slow or every[n].risky for n in b.scenarios)]
    cost = costs(recorded)
    chosen, shown = choose(quick, cost)
    chosen += sorted(name for name in cost if every[name].risky and not every[name].slow)
    total = [sum(getattr(cost[n], what) for n in chosen) for what in ("requests", "prompt_tokens", "completion_tokens")]
    passable = set().union(*(b.rules for b in quick))
    print(f"{len(chosen)} scenarios, {total[0]} requests, {total[1]} prompt and {total[2]} completion tokens")
    print(f"{len(shown)} rules shown; left out: {', '.join(sorted(passable - shown)) or 'none'}")
    if "--write" in arguments:
        head = "# The scenarios of --profile gate; made by python -m wireproof.reference_server.gate --write\n"
        _FILE.parent.mkdir(parents=True, exist_ok=True)
        _FILE.write_text(head + "".join(f"{name}\n" for name in sorted(chosen)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
