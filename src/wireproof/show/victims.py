"""Who is hurt when a rule is broken: what clients measurably did."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence

from wireproof.resources import folder


@functools.cache
def _hurt() -> Mapping[str, Mapping[str, str]]:
    """Wire case -> client -> what it did, from `fixtures/clients/wire_cases.json`."""
    text = folder("fixtures").joinpath("clients", "wire_cases.json").read_text(encoding="utf-8")
    return {name: case["hurt"] for name, case in json.loads(text)["cases"].items()}


def reactions(evidence: Sequence[str]) -> list[dict[str, str]]:
    """Which clients measurably broke on wires that break a rule, and how: {case, client, reaction}.

    Raises KeyError for a wire case that was never measured.
    """
    return [
        {"case": case, "client": name, "reaction": reaction}
        for case in evidence
        for name, reaction in _hurt()[case].items()
    ]
