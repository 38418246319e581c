"""What a server says of its own load: Prometheus text of /metrics, or llama.cpp's /slots. Lenient, and bounded."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True)
class GaugeNames:
    """What an engine calls its gauges and counters; the first name that is there counts."""

    name: str
    running: str
    waiting: str
    generated: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()  # counters by finished_reason, aborts among them


ENGINES = (
    GaugeNames(
        "vLLM",
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        ("vllm:generation_tokens_total",),
        ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        ended=("vllm:request_success_total",),
    ),
    GaugeNames(
        "SGLang",
        "sglang:num_running_reqs",
        "sglang:num_queue_reqs",
        ("sglang:generation_tokens_total",),
        ("sglang:token_usage",),
        ("sglang:num_aborted_requests_total",),
    ),
    GaugeNames(
        "llama.cpp",
        "llamacpp:requests_processing",
        "llamacpp:requests_deferred",
        ("llamacpp:tokens_predicted_total",),
        ("llamacpp:kv_cache_usage_ratio",),
    ),
    GaugeNames("TGI", "tgi_batch_current_size", "tgi_queue_size"),
    GaugeNames("LMDeploy", "lmdeploy:num_requests_running", "lmdeploy:num_requests_waiting"),
)
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
        reasons = [s for s in samples if s.name in engine.ended]
        aborts = [s for s in reasons if s.labels.get("finished_reason") == "abort"]
        counted = _sum(aborts, engine.ended) if aborts else _sum(samples, engine.aborted)
        return Reading(
            engine.name,
            running,
            _sum(samples, (engine.waiting,)),
            _sum(samples, engine.generated),
            _sum(samples, engine.held),
            counted,
            _sum([s for s in reasons if s not in aborts], engine.ended),
        )
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
    if _last_segment(x) == "slots":
        slots = x.parsed.value
        states = [s.get("is_processing") for s in slots if isinstance(s, dict)] if isinstance(slots, list) else []
        known = [s for s in states if isinstance(s, bool)]
        return Reading("llama.cpp", float(sum(known))) if known else None
    return of_metrics(x.text)
