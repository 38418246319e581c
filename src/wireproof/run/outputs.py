"""Everything that a run shows or writes besides its record."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from wireproof.judge.rules import Of, Rule, as_json
from wireproof.judge.summary import Outcome
from wireproof.record.recorder import Progress
from wireproof.reference_server import faults
from wireproof.reports import formats
from wireproof.show import failure, terminal
from wireproof.show.text import safe
from wireproof.show.victims import reactions
from wireproof.stored.run_record import RecordError, RunRecord
from wireproof.wire.transcript import Transcript

if TYPE_CHECKING:
    from wireproof.run.run import Run


def rule_line(rule: Rule) -> dict[str, object]:
    """A rule as the record has it, with what clients did."""
    return {**as_json(rule, ()), "clients": reactions(rule.evidence)}


def _console(width: int | None = None) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    colour = sys.stdout.isatty()
    return Console(file=out, force_terminal=colour, width=width or (None if colour else 120), highlight=False), out


def failure_text(rule: Rule, outcome: Outcome, transcripts: Mapping[str, Transcript]) -> str:
    """One broken rule, in full."""
    console, out = _console()
    # soft_wrap: a curl line that is broken by us could not be pasted
    console.print(failure.failure_text(rule_line(rule), outcome, transcripts, width=console.width), soft_wrap=True)
    return out.getvalue().rstrip("\n")


def summary_text(run: Run, *, verbose: bool, offline: bool = False) -> str:
    """What the run came to. A live run's gating failures are left out: pytest has printed them."""
    console, out = _console()
    lines = {r.id: rule_line(r) for r in run.rules}
    cost = {} if offline else run.costs()
    terminal.print_summary(
        console,
        run.summary,
        lines,
        run.transcripts,
        cost,
        verbose=verbose,
        failures=offline,
        tables=run.tables,
    )
    contract = run.options.settings
    for word, reasons in (("Raised to MUST", contract.raised), ("Dropped", contract.dropped)):
        for name, reason in reasons.items():
            console.print(f"{word}: {safe(name, 0)}: {safe(reason, 0)}", markup=False, soft_wrap=True)
    if run.too_thin:
        console.print(f"This is no success: {run.too_thin}.", markup=False, soft_wrap=True)
    if run.stopped:
        line = f"Recording ended early: {safe(run.stopped, 0)}. What came before was judged."
        console.print(line, markup=False, soft_wrap=True)
    return out.getvalue().rstrip("\n")


def explain_text(rule: Rule) -> str:
    """A rule as `wireproof explain` shows it."""
    proofs = faults.by_rule().get(rule.id, [])
    parts = [
        f"{rule.id}  ({rule.level.value}{', ' + ', '.join(rule.book) if rule.book else ''})",
        "",
        rule.requirement,
        "",
        f"Why: {rule.why}" if rule.why else "",
        f"Source: {rule.source}{' ' + rule.source.link if rule.source.link else ''}",
    ]
    if rule.check is None:
        parts.append(f"Not checked: {rule.reason}")
    elif rule.on is not None:
        what = "" if isinstance(rule.on, Of) else rule.on.what
        parts.append(f"Judged on: {what or ' with '.join(rule.needs)}")
        parts.append(f"Scenarios that show it: {', '.join(rule.needs)}")
    if hurt := reactions(rule.evidence):
        parts.append("Who breaks (measured):")
        parts += [f"  {r['client']}, wire case {r['case']}: {r['reaction']}" for r in hurt]
    if proofs:
        parts.append(f"Faults that break it: {', '.join(proofs)}")
        parts.append(f"See it fail: wireproof run --reference --fault {proofs[0]} --suite {rule.id}")
    return "\n".join(p for i, p in enumerate(parts) if p or i in (1, 3))


@contextlib.contextmanager
def progress_bar() -> Generator[Callable[[Progress], None], None, None]:
    """A bar on stderr with requests, tokens and time left; silent when stderr is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (
        TextColumn("recording"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[requests]} requests, {task.fields[tokens]} tokens"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("recording", total=None, requests=0, tokens=0)

        def show(progress: Progress) -> None:
            cost = progress.cost
            tokens = cost.prompt_tokens + cost.completion_tokens
            bar.update(task, completed=progress.done, total=progress.total, requests=cost.requests, tokens=tokens)

        yield show


def check_writable(paths: Sequence[Path]) -> None:
    """Raise RecordError for files that could not be written: better before a run than after it."""
    real = [path.resolve() for path in paths]
    if twice := next((path for path in real if real.count(path) > 1), None):
        raise RecordError(f"{twice} is named for two outputs: choose another file for one of them")
    for path in paths:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            there = path.exists()
            path.open("ab").close()
            if not there:
                path.unlink()
        except OSError as error:
            raise RecordError(f"cannot write {path}: {error.strerror}; choose another file") from error


def written(*, record: Path | None, **reports: Path | None) -> str:
    """Which files a run has written, for the last line of its output; reports by the names of their formats."""
    named = [("Run record", record), *((formats.load()[name].title, path) for name, path in reports.items())]
    return ", ".join(f"{name}: {_short(path)}" for name, path in named if path)


def _short(path: Path) -> str:
    """The path as seen from here, when it is below."""
    with contextlib.suppress(ValueError, OSError):
        return str(path.resolve().relative_to(Path.cwd()))
    return str(path)


def write(records: Sequence[RunRecord], *, level: str, **reports: Path | None) -> None:
    """Write reports from run records, each by the name of its format. Raises RecordError when one cannot be written."""
    for name, path in reports.items():
        if path is None:
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(formats.load()[name].render(records, level=level), encoding="utf-8")
        except OSError as error:
            raise RecordError(f"cannot write {path}: {error.strerror}; choose another file") from error
