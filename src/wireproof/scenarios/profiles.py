"""Profiles: named choices of scenarios. `full` records all of them, `gate` the few that judge the most rules.

The scenarios of a profile stand in `fixtures/profiles/<name>.txt`, one a line; `python -m
wireproof.reference_server.gate` makes the gate's list from what the rules show on the clean reference server.
"""

from __future__ import annotations

import functools

from wireproof.resources import folder

FULL, GATE = "full", "gate"
NAMES = (FULL, GATE)


@functools.cache
def scenarios(profile: str) -> frozenset[str] | None:
    """The scenarios of a profile; None when nothing is left out."""
    if profile == FULL:
        return None
    text = folder("fixtures").joinpath("profiles", f"{profile}.txt").read_text(encoding="utf-8")
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return frozenset(line for line in lines if line)
