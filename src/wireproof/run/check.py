"""Judge stored transcripts: the `check` command. The same rules, without a target."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from wireproof.judge.rules import Rule
from wireproof.judge.summary import Exit
from wireproof.read.recording import Recording, recording
from wireproof.record.preflight import Engine, PreflightError, parse_engine
from wireproof.record.target import parse_target
from wireproof.reference_server import faults
from wireproof.run import outputs
from wireproof.run.run import Options, Run, header
from wireproof.run.settings import Settings
from wireproof.show.text import safe
from wireproof.stored.files import NotATranscript, read_paths
from wireproof.stored.run_record import RecordError, read
from wireproof.wire.endpoints import TITLES


class CheckError(Exception):
    """Files or options that cannot be used; the message says what to do."""


def check(
    paths: Sequence[Path],
    rules: Sequence[Rule],
    *,
    suites: Sequence[str] = (),
    settings: Settings | None = None,
    level: str = "must",
    engine: str | None = None,
    label: str = "",
    record: Path | None = None,
    html: Path | None = None,
    junit: Path | None = None,
    verbose: bool = False,
) -> Exit:
    """Judge the transcripts at `paths`, print what they show, write what was asked for.

    Raises CheckError for files that are no transcripts and outputs that cannot be written.
    """
    try:
        skipped: list[str] = []
        transcripts = read_paths(paths, skipped.append)
        known = parse_engine(engine) if engine else Engine()
    except (NotATranscript, PreflightError) as error:
        raise CheckError(str(error)) from error
    if not transcripts:
        raise CheckError("none of these files is a transcript: record one with `wireproof run URL -o run.jsonl`")
    recorded = recording(transcripts)
    if skipped:
        rest = f" and {len(skipped) - 1} more" if len(skipped) > 1 else ""
        print(f"Left out: {safe(skipped[0], 0)}{rest}")
    settings = settings or Settings()
    rules, absent = _about(recorded, settings.apply(rules))
    if absent:
        print(f"Left out: {absent}, which no exchange here is about")
    target = parse_target("http://offline.invalid/v1")
    options = Options(target, suites=tuple(suites), level=level, label=label, settings=settings)
    run = Run(options, rules, faults.by_rule())
    scratch = None
    if record is None and (html or junit):
        scratch = record = Path(tempfile.mkdtemp(prefix="wireproof-")) / "run.jsonl"
    try:
        outputs.check_writable([p for p in (record, html, junit) if p])
        if record is not None:
            shown = ", ".join(str(p) for p in paths)
            first = header(
                rules, mode="offline", url=shown, engine=known, model=_model(recorded), level=level, suites=suites
            )
            first["selection"].update(settings.selection())
            run.open(record, {**first, "label": label} if label else first)
        run.use(recorded)
        for rule in rules:
            run.outcome(rule)
        code = run.finish()
        if any(t.tags.torn for t in transcripts):
            print("A run record here has no footer: its run crashed, or the file is cut off. What is there was judged.")
            code = Exit.TARGET if code is Exit.OK else code
        print(outputs.summary_text(run, verbose=verbose, offline=True))
        if record is not None and (html or junit):
            outputs.write([read(record)], level=level, html=html, junit=junit)
        if shown := outputs.written(record=None if scratch else record, html=html, junit=junit):
            print(shown)
    except RecordError as error:
        raise CheckError(str(error)) from error
    finally:
        if scratch is not None:
            scratch.unlink(missing_ok=True)
            scratch.parent.rmdir()
    sys.stdout.flush()
    return code


def _about(recorded: Recording, rules: Sequence[Rule]) -> tuple[list[Rule], str]:
    """The rules whose endpoint was recorded, or that are about any; and in words how many of which others there are."""
    there = {None, *(x.endpoint for x in recorded.exchanges)}
    counts = Counter(TITLES[r.endpoint] for r in rules if r.endpoint and r.endpoint not in there)
    told = ", ".join(f"{count} {'rule' if count == 1 else 'rules'} on {title}" for title, count in counts.items())
    return [r for r in rules if r.endpoint in there], told


def _model(recorded: Recording) -> str:
    """The model that most of the recorded requests ask for."""
    names = Counter(str(x.asked["model"]) for x in recorded.exchanges if x.asked.get("model"))
    return names.most_common(1)[0][0] if names else "unknown"
