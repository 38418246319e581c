"""Starts an engine after what stands behind it, has it judged, and stops all of them, the engine first."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2

from wireproof.read import engine_facts
from wireproof.wire import strictjson

from . import neutral, process, provision
from .process import Group
from .provision import Home
from .recipes import Catalogue, EngineError, Pick, Template

# How often we look whether what stands behind the engine still runs while it is judged (seconds).
_LOOK = 0.5
# A list of models that takes longer than this never comes (seconds).
_ASKING = 30.0


@dataclass(frozen=True)
class Standing:
    """An engine that is started and ready, and what stands behind it."""

    pick: Pick
    group: Group
    port: int
    behind: Standing | None = None

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}{self.pick.path}"

    @property
    def gauges(self) -> list[str]:
        """The option that names the gauges of what stands behind it; none when that shows none."""
        last = self.chain[-1]
        shown = last is not self and last.pick.engine.metrics
        return [f"--metrics=http://127.0.0.1:{last.port}{shown}"] if shown else []

    @property
    def chain(self) -> tuple[Standing, ...]:
        """It, and what stands behind it."""
        return (self, *(self.behind.chain if self.behind else ()))


def provide(pick: Pick, catalogue: Catalogue, home: Home) -> None:
    """Install all that an engine needs, so that nothing that is started has to wait for it. Raises EngineError."""
    for one in pick.chain:
        if one.engine.program:  # what we cannot install is looked for before minutes are spent
            provision.find_program(one.engine)
    for one in pick.chain:
        home.provision(one.engine.id, one.engine.environment)
        if one.model:
            home.model(one.engine, one.model, catalogue)


@contextlib.contextmanager
def started(pick: Pick, catalogue: Catalogue, home: Home, front: str = "") -> Iterator[Standing]:
    """Start what stands behind an engine, then the engine: ready within, stopped after. Raises EngineError."""
    with contextlib.ExitStack() as stack:
        behind = None
        if pick.behind:
            behind = stack.enter_context(started(pick.behind, catalogue, home, front or pick.name))
        what = f"{pick.name} (behind {front})" if front else pick.name
        port = process.free_port()
        command, environment = _command(pick, catalogue, home, port, behind)
        log = home.logs / f"{pick.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")
        home.say(f"{what}: starting; log {log}")
        group = Group(command, env=environment, cwd=home.cache, log=log)
        try:
            took = process.wait_ready(group, port, pick.engine.ready, pick.engine.timeout, what)
            standing = Standing(pick, group, port, behind)
            home.say(f"{what}: ready after {took:.1f} s on http://127.0.0.1:{port}")
            yield standing
        finally:
            alone = group.ended
            gentle = group.stop()
            how = f", but had ended {alone} before; log {log}" if alone else ""
            home.say(f"{what}: stopped{how}" + ("" if gentle else " by SIGKILL: it did not end on SIGTERM"))


def _command(
    pick: Pick, catalogue: Catalogue, home: Home, port: int, behind: Standing | None
) -> tuple[list[str], dict[str, str]]:
    """The command that starts an engine, and its environment; its file of settings is written."""
    engine = pick.engine
    values = provision.template_values(
        home,
        python=home.provision(engine.id, engine.environment),
        model=home.model(engine, pick.model, catalogue) if pick.model else None,
        port=port,
    )
    if engine.program:
        values["program"] = str(provision.find_program(engine))
    if behind:
        values |= {"upstream": behind.url, "served": served(behind)}
    if engine.config:
        values["config"] = str(_settings(engine.config, home.path / "configs", pick.name, values))
    return [word.filled(**values) for word in engine.start], provision.environment_of(engine, home, values)


def _settings(config: Template, folder: Path, name: str, values: dict[str, str]) -> Path:
    """Write a file of settings from its template; it stays, for whoever wants to know what was judged."""
    template = Path(config.filled())
    target = folder / f"{name}{template.suffix}"
    target.parent.mkdir(parents=True, exist_ok=True)
    inside = Template(template.read_text(encoding="utf-8"), config.here)
    target.write_text(inside.filled(**values), encoding="utf-8")
    return target


def served(behind: Standing) -> str:
    """The first model that it lists. Raises EngineError.

    Asked for where the API is without a fault, since a fault may be in the list itself.
    """
    url = f"http://127.0.0.1:{behind.port}/v1/models"
    try:
        found = httpx2.get(url, timeout=_ASKING, trust_env=False).json()
    except (httpx2.HTTPError, ValueError, RecursionError):
        found = None
    name = strictjson.get(found, "data", 0, "id")
    if not isinstance(name, str) or not name:
        raise EngineError(f"{behind.pick.name} lists no model on {url}, so that nobody in front of it can be told one")
    return name


@dataclass(frozen=True)
class Judging:
    """How engines are judged, and where the records go."""

    catalogue: Catalogue
    home: Home
    out: Path
    html: bool = False
    extra: Sequence[str] = ()

    def run(self, pick: Pick) -> int:
        """Install, start, judge and stop one engine; returns the exit code of `wireproof run`. Raises EngineError."""
        provide(pick, self.catalogue, self.home)
        with started(pick, self.catalogue, self.home) as standing:
            return self._judge(standing)

    def _judge(self, standing: Standing) -> int:
        pick = standing.pick
        raw = self.home.path / "runs" / f"{pick.name}.jsonl"
        raw.parent.mkdir(parents=True, exist_ok=True)
        raw.unlink(missing_ok=True)
        options = ["run", standing.url, "--settings", "none", "-o", str(raw), "--label", pick.label]
        if pick.engine.label:
            options += ["--engine", pick.engine.label]
        options += ["--risky", *standing.gauges]  # (nobody else needs it)
        # A group of its own: a Ctrl-C reaches it through us, once, and it writes the footer of its record.
        own = {engine_facts.VARIABLE: str(self.catalogue.own)} if self.catalogue.own else {}
        words = [sys.executable, "-m", "wireproof.cli", *options, *self.extra]
        judge = Group(words, env={**os.environ, **own})
        try:
            return _wait(judge, standing)
        finally:
            judge.stop()
            if raw.exists():
                self._keep(raw, pick)

    def _keep(self, raw: Path, pick: Pick) -> None:
        record = self.out / f"{pick.name}.jsonl"
        try:
            neutral.clean_record(raw, record, neutral.machine_paths(self.home.path))
        except OSError as error:
            raise EngineError(
                f"cannot write {record} ({error.strerror}): choose another folder with --out", code=2
            ) from error
        self.home.say(f"{pick.name}: record without this machine's paths: {record}")
        if self.html:
            page = record.with_suffix(".html")
            words = [sys.executable, "-m", "wireproof.cli", "report", str(record), "--html", str(page)]
            if Group(words).wait(120) == 0:
                self.home.say(f"{pick.name}: report {page}")


def _wait(judge: Group, standing: Standing) -> int:
    """The judge's exit code. Raises EngineError when something behind the engine has ended by then.

    The end of the engine itself is a finding, which the judge makes; but a gateway must not be billed for an engine
    that is gone.
    """
    while True:
        code = None
        with contextlib.suppress(TimeoutError):
            code = judge.wait(_LOOK)
        for other in standing.chain[1:]:
            if other.group.ended:
                log = other.group.log
                assert log is not None, "started() gives each its log"
                raise EngineError(
                    f"{other.pick.name} ended {other.group.ended} while {standing.pick.name} was judged: what was"
                    f" recorded then says nothing of what stands in front; its log is {log}\n{process.tail(log)}"
                )
        if code is not None:
            return code
