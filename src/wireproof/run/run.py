"""One run against a live target: preflight, record, judge, write the record. The plugin drives it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wireproof import __version__
from wireproof.judge.judge import Judge
from wireproof.judge.rules import Rule, digest
from wireproof.judge.summary import Exit, Outcome, Summary, summarize
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Recording
from wireproof.record import preflight
from wireproof.record.live import LiveSender
from wireproof.record.recorder import ClientPlayer, Cost, Progress, Recorder
from wireproof.record.target import Limits, Target
from wireproof.run.settings import Settings
from wireproof.scenarios import profiles
from wireproof.scenarios.clients import AREA
from wireproof.scenarios.profiles import FULL
from wireproof.show.victims import reactions
from wireproof.stored.run_record import Writer
from wireproof.tables.all import tables
from wireproof.tables.table import Table
from wireproof.verdict import Verdict
from wireproof.wire.transcript import Transcript


@dataclass(frozen=True)
class Options:
    """What a run was asked to do."""

    target: Target
    model: str | None = None
    engine: str | None = None
    label: str = ""
    suites: tuple[str, ...] = ()
    level: str = "must"
    concurrency: int = 4
    samples: int = 1
    slow: bool = False
    gentle: bool = False
    risky: bool = False
    profile: str = FULL
    settings: Settings = field(default_factory=Settings)
    limits: Limits = field(default_factory=Limits)
    record: Path | None = None
    html: Path | None = None
    junit: Path | None = None


def host() -> dict[str, Any]:
    """The machine that judged, without its name."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "cpus": os.cpu_count() or 0,
    }


def header(
    rules: Sequence[Rule],
    *,
    mode: str,
    url: str,
    engine: preflight.Engine,
    model: str,
    level: str,
    suites: Sequence[str],
) -> dict[str, Any]:
    """The first line of a run record."""
    return {
        "tool": __version__,
        "rules": digest(rules),
        "started": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "target": {"url": url},
        "engine": {"name": engine.name, "version": engine.version, "order": engine.order},
        "model": {"id": model},
        "host": host(),
        "selection": {"mode": mode, "level": level, "suites": list(suites), "rules": len(rules)},
    }


class Run:
    """Owns everything that one run produces. Verdicts come from `outcome`, rule by rule."""

    def __init__(self, options: Options, rules: Sequence[Rule], faults: Mapping[str, Sequence[str]]) -> None:
        self.options, self.rules = options, list(rules)
        self._faults = faults
        self._started = time.perf_counter()
        self.cost = Cost()
        self.stopped, self._gone = "", False
        self.model = ""
        self.engine = preflight.Engine()
        self.transcripts: dict[str, Transcript] = {}
        self.outcomes: dict[str, Outcome] = {}
        self._writer: Writer | None = None
        self._judge: Judge | None = None
        self._offline = False

    @property
    def seconds(self) -> float:
        """How long the run has taken (seconds)."""
        return time.perf_counter() - self._started

    def record(self, on_progress: Callable[[Progress], None] | None = None) -> None:
        """Preflight, then record every scenario that the rules need.

        Raises PreflightError when the target cannot be judged, RecordError when the record
        cannot be written.
        """
        asyncio.run(self._record(on_progress))

    async def _record(self, on_progress: Callable[[Progress], None] | None) -> None:
        options = self.options
        try:
            found = await preflight.run(
                options.target, model=options.model, engine=options.engine, limits=options.limits
            )
        except preflight.PreflightError:
            if options.record is not None:  # an old record must not pass for this run's
                self._open(options.record)
            raise
        self.model, self.engine = found.model, found.engine
        if options.record is not None:
            self._open(options.record)
        async with self._clients() as clients:
            recorder = Recorder(
                LiveSender(options.target, found.model, options.limits),
                concurrency=options.concurrency,
                samples=options.samples,
                gentle=options.gentle,
                risky=options.risky,
                thorough=options.profile == FULL,
                only=profiles.scenarios(options.profile),
                on_exchange=self._keep,
                on_progress=on_progress,
                clients=clients,
            )
            names = list(dict.fromkeys(name for r in self.rules for name in r.needs))
            try:
                recorded = await recorder.record(names, slow=options.slow)
            finally:
                self.cost, self.stopped, self._gone = recorder.cost, recorder.stopped, recorder.gone
        self._judge = Judge(recorded)

    @contextlib.asynccontextmanager
    async def _clients(self) -> AsyncIterator[ClientPlayer | None]:
        """What plays client libraries, when their suite was asked for: they are installed for it."""
        if not self.options.suites or not any(r.area == AREA for r in self.rules):
            yield None
            return
        from wireproof.runners.clients.play import Clients

        async with Clients(self.options.target, self.model, self.options.limits) as clients:
            yield clients

    def use(self, recorded: Recording) -> None:
        """Judge a recording that exists already (offline)."""
        self._judge, self._offline = Judge(recorded), True
        for x in recorded.exchanges:
            self._keep(x)
            self.cost = self.cost.plus(x)

    def open(self, path: Path, first: Mapping[str, Any]) -> None:
        """Begin the record with a header."""
        self._writer = Writer(path, first)
        for r in self.rules:
            self._writer.rule(r, self._faults.get(r.id, ()), reactions(r.evidence))

    def _open(self, path: Path) -> None:
        first = header(
            self.rules,
            mode="live",
            url=self.options.target.shown,
            engine=self.engine,
            model=self.model,
            level=self.options.level,
            suites=self.options.suites,
        )
        first["selection"].update(self.options.settings.selection())
        if self.options.label:
            first["label"] = self.options.label
        self.open(path, first)

    def _keep(self, x: Exchange) -> None:
        self.transcripts[x.transcript.id] = x.transcript
        if self._writer is not None:
            self._writer.transcript(x.transcript)

    def outcome(self, r: Rule) -> Outcome:
        """Judge one rule, once."""
        if r.id not in self.outcomes:
            assert self._judge is not None, "record() comes first"
            verdicts = self._judge.judge(r)
            self.outcomes[r.id] = summarize(verdicts, {r.id: r.level.value}, level=self.options.level).outcomes[0]
            if self._writer is not None:
                for verdict in verdicts:
                    self._writer.verdict(verdict, r.level.value)
        return self.outcomes[r.id]

    @property
    def summary(self) -> Summary:
        """What the run has come to so far."""
        return Summary(tuple(self.outcomes.values()), self.options.level)

    @property
    def verdicts(self) -> list[Verdict]:
        """Every verdict so far."""
        return [v for o in self.outcomes.values() for v in o.verdicts]

    @property
    def tables(self) -> list[Table]:
        """The outcome tables of what was recorded; of each record by itself when several are judged together."""
        places: dict[str, list[Exchange]] = {}
        for x in self._judge.exchanges if self._judge is not None else ():
            places.setdefault(x.place, []).append(x)
        found = {place: made for place, exchanges in places.items() if (made := tables(exchanges))}
        if len(found) < 2:
            return [table for made in found.values() for table in made]
        return [
            replace(table, id=f"{table.id} {place}", title=f"{table.title}, {place or 'others'}")
            for place, made in found.items()
            for table in made
        ]

    @property
    def too_thin(self) -> str:
        """Why a live run shows too little to be a success; empty when it shows enough."""
        unclear, judged = self.summary.counts["inconclusive"], self.summary.judged
        if self._offline or unclear <= judged:
            return ""
        return f"{unclear} rules were inconclusive and {judged} judged: too little was shown"

    def costs(self) -> dict[str, float]:
        """The cost as the record has it."""
        return {
            "requests": self.cost.requests,
            "prompt_tokens": self.cost.prompt_tokens,
            "completion_tokens": self.cost.completion_tokens,
            "seconds": round(self.seconds, 3),
        }

    def finish(self, exit_code: int | None = None, error: str = "") -> Exit:
        """Write the footer; returns the exit code.

        A recording that ended early is no verdict on the target, unless a rule says why it ended.
        """
        code = Exit(exit_code) if exit_code is not None else self.summary.exit
        error = error or self.stopped or self.too_thin
        if self.too_thin and code is Exit.OK:
            code = Exit.TARGET
        if self.stopped and (self._gone or code is Exit.OK):
            code = Exit.TARGET
        if self._writer is not None:
            for table in self.tables:
                self._writer.table(table)
            more = {"error": error} if error else {}
            self._writer.end(self.summary.counts, self.costs(), int(code), **more)
            self._writer = None
        return code
