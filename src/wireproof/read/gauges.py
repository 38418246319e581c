"""What a server says of its own load: Prometheus text of /metrics, or the list of /slots. Lenient, and bounded."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from wireproof.read import engine_facts
from wireproof.read.exchange import Exchange
from wireproof.read.views import view

# More than any engine sends; what lies beyond is not read (characters, and characters of one line).
_TEXT_LIMIT, _LINE_LIMIT = 2 * 1024 * 1024, 4096
_LINE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*$")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Sample:
    """One line of Prometheus text."""

    name: str
    labels: Mapping[str, str]
    value: float


#: What engines call their gauges (runners/engines/).
ENGINES = engine_facts.gauges()
_PREFIXES = tuple({n.split("_")[0].split(":")[0] for e in ENGINES for n in (e.running, e.waiting)})


@dataclass(frozen=True)
class Reading:
    """One look at the gauges; None for what the server does not show. `held` is the share of the KV cache in use."""

    engine: str
    running: float
    waiting: float | None = None
    generated: float | None = None
    held: float | None = None
    aborted: float | None = None
    ended: float | None = None  # answers that were counted as finished, aborts left out

    @property
    def load(self) -> float:
        """Requests that are running or wait for their turn."""
        return self.running + (self.waiting or 0.0)


def parse(text: str, prefixes: tuple[str, ...] = ()) -> list[Sample]:
    """The samples of a Prometheus text (those whose name begins with a prefix); what is no sample is passed over."""
    out = []
    for line in text[:_TEXT_LIMIT].splitlines():
        if line.startswith("#") or len(line) > _LINE_LIMIT or (prefixes and not line.startswith(prefixes)):
            continue
        found = _LINE.match(line)
        if found is None:
            continue
        try:
            value = float(found.group(3))
        except ValueError:
            continue
        out.append(Sample(found.group(1), dict(_LABEL.findall(found.group(2) or "")), value))
    return out


def _sum(samples: Iterable[Sample], names: tuple[str, ...]) -> float | None:
    """The sum over all series of the first name that is there: a server may have one for each of its engines."""
    by_name: dict[str, list[float]] = {}
    for s in samples:
        by_name.setdefault(s.name, []).append(s.value)
    found = next((by_name[name] for name in names if name in by_name), None)
    total = sum(found) if found else None
    return total if total is not None and math.isfinite(total) else None


def of_metrics(text: str) -> Reading | None:
    """The reading of a Prometheus text; None when no engine that we know shows there what it runs."""
    samples = parse(text, _PREFIXES)
    for engine in ENGINES:
        running = _sum(samples, (engine.running,))
        if running is None:
            continue
        ended = engine.ended
        reasons = [s for s in samples if s.name in ended.names]
        aborts = [s for s in reasons if s.labels.get(ended.label) == ended.aborted]
        counted = _sum(aborts, ended.names) if aborts else _sum(samples, engine.aborted)
        return Reading(
            engine.name,
            running,
            _sum(samples, (engine.waiting,)),
            _sum(samples, engine.generated),
            _sum(samples, engine.held),
            counted,
            _sum([s for s in reasons if s not in aborts], ended.names),
        )
    return None


def of_slots(value: Any) -> Reading | None:
    """The reading of a list of slots; None when no engine that we know says so whether a slot is busy."""
    slots = [s for s in value if isinstance(s, dict)] if isinstance(value, list) else []
    for engine in ENGINES:
        states = [s.get(engine.slots) for s in slots] if engine.slots else []
        known = [s for s in states if isinstance(s, bool)]
        if known:
            return Reading(engine.name, float(sum(known)))
    return None


def _last_segment(x: Exchange) -> str:
    return x.request.path.split("?", 1)[0].rstrip("/").rsplit("/", 1)[-1]


def is_probe(x: Exchange) -> bool:
    """Whether it asks for the server's state: no call of the API."""
    return x.request.method == "GET" and _last_segment(x) in ("metrics", "slots", "health")


@view
def used(x: Exchange) -> tuple[float, ...] | None:
    """Percent of time in which each GPU of this machine was in use at a look; None when none could be asked."""
    words = x.transcript.tags.gpu.split()
    try:
        return tuple(float(word) for word in words) or None
    except ValueError:
        return None


@view
def reading(x: Exchange) -> Reading | None:
    """What a GET of /metrics or /slots shows; None when it shows no load."""
    if not x.ok or not is_probe(x):
        return None
    return of_slots(x.parsed.value) if _last_segment(x) == "slots" else of_metrics(x.text)
