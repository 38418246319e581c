"""What the plugin does when there is a target, or a file of rules: collection, the run, its reports. Glue only."""

from __future__ import annotations

import importlib
import math
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from wireproof.judge import rules
from wireproof.judge.summary import Exit, Outcome
from wireproof.record.preflight import PreflightError
from wireproof.record.target import BadTarget, Limits, parse_target
from wireproof.reference_server import faults
from wireproof.resources import folder
from wireproof.run import child, outputs, own, settings
from wireproof.run import options as opts
from wireproof.run.run import Options, Run
from wireproof.run.settings import Settings, SettingsError
from wireproof.show.text import safe
from wireproof.stored.run_record import RecordError, read
from wireproof.verdict import Status

_RUN = pytest.StashKey[Run]()
_OUTCOME = pytest.StashKey[Outcome]()
_ENDED = pytest.StashKey[tuple[str, Exit]]()  # why the run ended before or after its verdicts, and its exit code
_COLLECTED = pytest.StashKey[int]()  # how many rules are left after all filters
_OWN = pytest.StashKey[tuple[Path, ...]]()  # files of rules of the user's own
_SETTINGS = pytest.StashKey[Settings]()
_SCRATCH = pytest.StashKey[str]()  # where the record lies when only reports were asked for


def _settings(config: pytest.Config) -> Settings:
    """The settings of this run, read once."""
    if _SETTINGS not in config.stash:
        named = config.getoption(f"{opts.PLUGIN}{opts.SETTINGS.name}")
        try:
            config.stash[_SETTINGS] = settings.load(named, config.invocation_params.dir)
        except SettingsError as error:
            raise pytest.UsageError(str(error)) from error
    return config.stash[_SETTINGS]


def _get(config: pytest.Config, option: opts.Option) -> Any:
    """The value of an option: the command line's, the settings file's, or the default."""
    flag = f"{opts.PLUGIN}{option.name}"
    said = any(word == flag or word.startswith(f"{flag}=") for word in map(str, config.invocation_params.args))
    said = said or config.getoption(flag) != option.keywords()["default"]  # (in an ini's addopts)
    values = {} if said or os.environ.get(child.FINAL) else _settings(config).values
    return values.get(option.name, config.getoption(flag))


def _options(config: pytest.Config) -> Options:
    def get(option: opts.Option) -> Any:
        return _get(config, option)

    try:
        key, headers = opts.secrets(get(opts.API_KEY_ENV), get(opts.HEADER), opts.PLUGIN)
    except opts.OptionError as error:
        raise pytest.UsageError(str(error)) from error
    for option in opts.RUN:
        if option.kind and not option.low <= get(option) < math.inf:
            raise pytest.UsageError(f"{opts.PLUGIN}{option.name} must be {option.low} or more")
    try:
        target = parse_target(config.getoption("--target"), api_key=key, headers=headers, metrics=get(opts.METRICS))
    except BadTarget as error:
        raise pytest.UsageError(f"--target: {error}") from error
    return Options(
        target=target,
        model=get(opts.MODEL),
        engine=get(opts.ENGINE),
        label=get(opts.LABEL),
        suites=tuple(opts.suites(get(opts.SUITE))),
        level=get(opts.LEVEL),
        concurrency=get(opts.CONCURRENCY),
        samples=get(opts.SAMPLES),
        slow=get(opts.SLOW),
        gentle=get(opts.GENTLE),
        risky=get(opts.RISKY),
        profile=get(opts.PROFILE),
        settings=_settings(config),
        limits=Limits.patient(get(opts.TIMEOUT)),
        **{o.name: Path(p) if (p := get(o)) else None for o in (opts.RECORD, opts.HTML, opts.JUNIT)},
    )


def begin(config: pytest.Config) -> None:
    """With a target and no paths of the user's own, the bundled suites are what is collected."""
    if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):  # pytest-xdist
        raise pytest.UsageError("--target is recorded once and judged in one process: leave -n out, or add -n 0")
    _options(config)  # a mistake in the options is told before anything is collected
    _end_when_told(config)
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        # Files, not their folder: a user's python_files and norecursedirs don't apply to what is named.
        config.args[:] = [str(p) for p in sorted(folder("suites").glob("*/test_*.py"))]
    files = [f for name in _get(config, opts.RULES) for f in _load_own(config, name)]
    config.stash[_OWN] = tuple(dict.fromkeys(files))
    try:
        _settings(config).check_rules()
    except SettingsError as error:
        raise pytest.UsageError(str(error)) from error
    config.args += [str(f) for f in config.stash[_OWN] if str(f) not in config.args]


def _end_when_told(config: pytest.Config) -> None:
    """SIGTERM and SIGHUP end a run as Ctrl-C does: the record gets its footer, nothing is left in the temporary folder.

    A signal that somebody else handles, or ignores, is left to them.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    free = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]
    for number in free:
        signal.signal(number, _interrupt)

    def give_back() -> None:
        for number in free:
            signal.signal(number, signal.SIG_DFL)

    config.add_cleanup(give_back)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """As Ctrl-C, which asyncio takes in its own way while it runs."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a script's background job
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


# -- collection --------------------------------------------------------------


class RuleModule(pytest.File):
    """A module of checks; imported by its packaged name, so that no rule is defined twice."""

    def collect(self) -> Iterator[pytest.Item]:
        area = self.path.parent.name
        module = importlib.import_module(f"wireproof.suites.{area}.{self.path.stem}")
        found = [r for r in rules.load().values() if r.check is not None and r.check.__module__ == module.__name__]
        return self._items(found)

    def _items(self, found: Sequence[rules.Rule]) -> Iterator[pytest.Item]:
        # (Some rules stand beside those of another area, which share their recordings.)
        for marker in dict.fromkeys((*(r.area for r in found), *opts.LEVELS)):
            self.config.addinivalue_line("markers", f"{marker}: rules of this area or level (wireproof)")
        for rule in found:
            yield RuleItem.from_parent(self, name=rule.id, rule=rule)


class RuleItem(pytest.Item):
    """One rule: passes, fails, warns, or says why it could not be judged."""

    def __init__(self, *, rule: rules.Rule, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rule = rule
        self.add_marker(rule.area)
        self.add_marker(rule.level.value.lower())
        # (pytest's own --junitxml writes these.)
        self.user_properties += [("rule", rule.id), ("level", rule.level.value), ("source", str(rule.source))]

    def raise_to_must(self) -> None:
        """As a settings file demands."""
        self.rule = replace(self.rule, level=rules.MUST)
        self.add_marker("must")
        self.user_properties = [(k, "MUST" if k == "level" else v) for k, v in self.user_properties]

    def runtest(self) -> None:
        run = self.config.stash.get(_RUN, None)
        if run is None:
            pytest.skip("give the server to judge with --target=URL")
        outcome = run.outcome(self.rule)
        self.stash[_OUTCOME] = outcome
        self.user_properties.append(("status", outcome.status.value))
        if outcome.gates(run.options.level) or (outcome.status is Status.ERROR and not run.stopped):
            raise RuleBroken(outcome)
        if outcome.status not in (Status.PASS, Status.FAIL):
            pytest.skip(f"{outcome.status.value}: {safe(outcome.reason)}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, RuleBroken):
            run = self.config.stash[_RUN]
            return outputs.failure_text(self.rule, excinfo.value.outcome, run.transcripts)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        check = self.rule.check
        assert check is not None
        return self.path, check.__code__.co_firstlineno - 1, f"{self.rule.level.value} {self.rule.id}"


class RuleBroken(Exception):
    """The target broke a rule that gates, or we could not judge it for an error."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.rule)
        self.outcome = outcome


def is_own(config: pytest.Config, path: Path) -> bool:
    """Whether a file holds rules of a user's own."""
    return path in config.stash.get(_OWN, ()) or (path.name.startswith("test_") and own.is_rule_file(path))


class OwnModule(RuleModule):
    """A file of rules of a user's own."""

    def collect(self) -> Iterator[pytest.Item]:
        _load_own(self.config, str(self.path.parent))
        found = [r for r in rules.load().values() if r.check is not None and own.rule_file(r) == self.path.resolve()]
        return self._items(found)


def _load_own(config: pytest.Config, name: str) -> tuple[Path, ...]:
    try:
        return own.load(name)
    except own.OwnRulesError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[_COLLECTED] = sum(isinstance(i, RuleItem) for i in session.items)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--target"):
        return
    options = _options(config)
    try:
        chosen = {r.id for r in rules.select(rules.load().values(), options.suites)}
    except ValueError as error:
        raise pytest.UsageError(f"--wireproof-suite: {error}") from error
    for item in items:
        if isinstance(item, RuleItem) and item.rule.id in options.settings.raised:
            item.raise_to_must()
    chosen -= set(options.settings.dropped)
    dropped = [i for i in items if isinstance(i, RuleItem) and i.rule.id not in chosen]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [i for i in items if i not in set(dropped)]


# -- the run -------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Record the plan before the first check judges; a target that cannot be judged ends the run here."""
    config = session.config
    ours = [item for item in session.items if isinstance(item, RuleItem)]
    found = [item.rule for item in ours]
    if not config.getoption("--target") or not found or config.option.collectonly or session.testsfailed:
        return None
    options = _options(config)
    if options.record is None and (options.html or options.junit):
        scratch = Path(config.stash.setdefault(_SCRATCH, tempfile.mkdtemp(prefix="wireproof-"))) / "run.jsonl"
        options = replace(options, record=scratch)
    narrowed = config.option.keyword or config.option.markexpr or all(isinstance(i.parent, OwnModule) for i in ours)
    run = Run(options, [*found, *([] if narrowed else _unobservable(options))], faults.by_rule())
    config.stash[_RUN] = run
    try:
        outputs.check_writable([p for p in (options.record, options.html, options.junit) if p])
        with outputs.progress_bar() as on_progress:
            run.record(on_progress)
    except PreflightError as error:
        return _give_up(config, run, str(error), Exit.USAGE if error.usage else Exit.TARGET)
    except RecordError as error:
        return _give_up(config, run, str(error), Exit.USAGE)
    return None


def _unobservable(options: Options) -> list[rules.Rule]:
    """Rules without a check belong into the record too, with their reason."""
    return [r for r in rules.select(rules.load().values(), options.suites) if r.check is None]


def _give_up(config: pytest.Config, run: Run, message: str, code: Exit) -> bool:
    """End without judging: one message, no red checks. True tells pytest that the loop is over."""
    run.finish(int(code), message)
    config.stash[_ENDED] = (message, code)
    del config.stash[_RUN]
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    outcome = item.stash.get(_OUTCOME, None)
    if outcome is not None and call.when == "call":
        report.wireproof = outcome  # type: ignore[attr-defined]
    return report


def pytest_report_teststatus(report: Any) -> tuple[str, str, tuple[str, dict[str, bool]] | str] | None:
    outcome: Outcome | None = getattr(report, "wireproof", None)
    if outcome is None or report.failed:
        return None
    if outcome.status is Status.FAIL:
        return "warned", "w", ("WARNING", {"yellow": True})
    if outcome.status is Status.PASS:
        return None
    return outcome.status.value, outcome.status.value[0], (outcome.status.value.upper(), {"yellow": True})


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the footer and the reports; the session's exit status becomes the run's."""
    config = session.config
    if (ended := config.stash.get(_ENDED, None)) is not None:
        session.exitstatus = int(ended[1])
    run = config.stash.get(_RUN, None)
    if run is None:
        return
    complete = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    for rule in run.rules:
        if complete and rule.check is None:
            run.outcome(rule)
    code = run.finish(None if complete else int(Exit.TARGET), "" if complete else "interrupted")
    others_failed = any(not isinstance(i, RuleItem) for i in session.items) and exitstatus == 1
    if not (complete and others_failed and code is Exit.OK):
        session.exitstatus = int(code)
    options = run.options
    try:
        if options.record is not None and (options.html or options.junit):
            outputs.write([read(options.record)], level=options.level, html=options.html, junit=options.junit)
    except RecordError as error:
        config.stash[_ENDED] = (str(error), Exit.USAGE)
        session.exitstatus = int(Exit.USAGE)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    run = config.stash.get(_RUN, None)
    if run is not None and run.outcomes:
        terminalreporter.write_line(outputs.summary_text(run, verbose=config.get_verbosity() > 0))
        shown = outputs.written(
            record=None if _SCRATCH in config.stash else run.options.record,
            html=run.options.html,
            junit=run.options.junit,
        )
        if shown:
            terminalreporter.write_line(shown)
    elif (ours := config.stash.get(_COLLECTED, None)) is not None and not config.option.collectonly:
        if ours and not config.getoption("--target"):
            terminalreporter.write_line(f"wireproof: {ours} rules skipped: give the server to judge with --target=URL")
        elif not ours and config.getoption("--target"):
            terminalreporter.write_line("wireproof: nothing was judged: none of the paths or filters leaves a rule")
    if (ended := config.stash.get(_ENDED, None)) is not None:
        terminalreporter.write_line(f"wireproof: {safe(ended[0], 0)}")


def pytest_unconfigure(config: pytest.Config) -> None:
    if (scratch := config.stash.get(_SCRATCH, None)) is not None:
        shutil.rmtree(scratch, ignore_errors=True)
