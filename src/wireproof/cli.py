"""The command line: run, check, list, explain, report, serve.

Exit codes, for every command: 0 all selected rules are kept, 1 a rule is broken,
2 a mistake in the options or files, 3 the target cannot be judged, or an error of our own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from wireproof import __version__
from wireproof.judge import rules
from wireproof.judge.summary import Exit
from wireproof.reports import formats
from wireproof.run import options as opts
from wireproof.run import settings
from wireproof.run.settings import Settings, SettingsError

_REFERENCE_MODEL = "tiny-reference"


class UsageError(Exception):
    """A mistake of the user's; the message says what to do."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without repeating all options."""

    def error(self, message: str) -> NoReturn:
        self.exit(int(Exit.USAGE), f"wireproof: {message}; see `{self.prog} --help`\n")


def _parser(values: Mapping[str, Any] | None = None) -> argparse.ArgumentParser:
    """The parser; `values` are defaults of options of a run, from a settings file."""
    given = values or {}

    def preset(option: opts.Option) -> opts.Option:
        return replace(option, default=given[option.name]) if option.name in given else option

    parser = _Parser(
        prog="wireproof",
        description="Judges servers that speak the OpenAI API, byte by byte.",
        epilog="Exit codes: 0 kept, 1 a rule is broken, 2 usage, 3 target unreachable or our own error.",
    )
    parser.add_argument("--version", action="version", version=f"wireproof {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="judge a live server", description="Judge a live server.")
    run.add_argument("url", nargs="?", metavar="URL", help="base URL, such as http://127.0.0.1:8000/v1")
    run.add_argument("--reference", action="store_true", help="judge the bundled reference server instead of a URL")
    run.add_argument("--fault", default="", metavar="A+B", help="with --reference: the faults to give it")
    for option in opts.RUN:
        preset(option).add_to(run)
    run.add_argument("-v", "--verbose", action="store_true", help="list every rule and every reason")

    check = commands.add_parser(
        "check", help="judge stored transcripts", description="Judge stored transcripts offline."
    )
    check.add_argument(
        "paths", nargs="+", metavar="PATH", help="run record, transcript, curl -isN output, SSE body, HAR, or a folder"
    )
    opts.SUITE.add_to(check)
    preset(opts.LEVEL).add_to(check, help="which broken rules fail")
    for option in (opts.RECORD, opts.HTML, opts.JUNIT):
        option.add_to(check)
    opts.ENGINE.add_to(check, help="the engine that was recorded")
    opts.LABEL.add_to(check, help="name of this column in reports")
    preset(opts.RULES).add_to(check)
    opts.SETTINGS.add_to(check)
    check.add_argument("-v", "--verbose", action="store_true", help="list every reason")

    listing = commands.add_parser("list", help="list the rules", description="List the rules.")
    opts.SUITE.add_to(listing)
    opts.RULES.add_to(listing)
    listing.add_argument("--json", action="store_true", help="one JSON array of objects")

    explain = commands.add_parser("explain", help="explain a rule", description="Explain one rule.")
    explain.add_argument("rule", metavar="RULE", help="rule id or number, such as done.marker.exact or DONE-001")

    opts.RULES.add_to(explain)

    report = commands.add_parser(
        "report", help="make reports from run records", description="Make reports from run records."
    )
    report.add_argument("records", nargs="+", metavar="RUN", help="run record (JSON Lines)")
    for made in formats.load().values():
        option = opts.Option(made.name, made.help, f"FILE{made.suffix}", path=True)
        option.add_to(report)
    opts.LEVEL.add_to(report, help="which broken rules count as failures")

    serve = commands.add_parser("serve", help="run the reference server", description="Run the reference server.")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    serve.add_argument(
        "--port",
        type=opts.number(int, 0, 65535),
        default=8000,
        metavar="N",
        help="port, 0 for a free one (default 8000)",
    )
    serve.add_argument("--print-url", action="store_true", help="print only the base URL, when it is ready")
    opts.API_KEY_ENV.add_to(serve, help="ask for the API key in this environment variable")
    serve.add_argument("--list-faults", action="store_true", help="list the faults and exit")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    try:
        arguments, found = _parsed(argv)
    except SettingsError as error:
        print(f"wireproof: {error}", file=sys.stderr)
        return int(Exit.USAGE)
    handlers = {
        "run": _run,
        "check": _check,
        "list": _list,
        "explain": _explain,
        "report": _report,
        "serve": _serve,
    }
    try:
        _load_own(getattr(arguments, opts.RULES.dest, ()))
        if found.path is not None:
            found.check_rules()
            print(f"Settings: {found.path}", flush=True)
            arguments.settings = found
        return int(handlers[arguments.command](arguments))
    except (UsageError, opts.OptionError, SettingsError) as error:
        print(f"wireproof: {error}", file=sys.stderr)
        return int(Exit.USAGE)
    except KeyboardInterrupt:
        print("wireproof: interrupted", file=sys.stderr)
        return int(Exit.TARGET)
    except BrokenPipeError:  # the reader of our output went away
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(Exit.OK)


def _parsed(argv: Sequence[str] | None) -> tuple[argparse.Namespace, Settings]:
    """The arguments, with what the settings file says where the command line says nothing. Raises SettingsError."""
    arguments = _parser().parse_args(argv)
    if arguments.command not in ("run", "check"):
        return arguments, Settings()
    found = settings.load(arguments.settings, Path.cwd())
    if found.path is not None:
        values = dict(found.values)
        if getattr(arguments, "reference", False):  # what describes the team's server says nothing of ours
            values = {name: value for name, value in values.items() if name not in settings.OF_A_SERVER}
        arguments = _parser(values).parse_args(argv)
    arguments.settings = found
    if arguments.command == "run" and not arguments.reference:
        arguments.url = arguments.url or found.target
    return arguments, found


def _load_own(names: Sequence[str]) -> None:
    """Register the user's own rules. Raises UsageError."""
    if not names:
        return
    from wireproof.run import own

    try:
        for name in names:
            own.load(name)
    except own.OwnRulesError as error:
        raise UsageError(f"--rules: {error}") from error


@contextlib.contextmanager
def _target(arguments: argparse.Namespace) -> Iterator[str]:
    """The URL to judge: the user's, or that of a reference server that lives as long as the run."""
    if arguments.reference == bool(arguments.url):
        raise UsageError("give either a URL to judge, such as http://127.0.0.1:8000/v1, or --reference")
    if arguments.fault and not arguments.reference:
        raise UsageError("--fault belongs to --reference: a real server has its own")
    if arguments.url:
        yield arguments.url
        return
    from wireproof.reference_server import faults, player
    from wireproof.reference_server.config import Config

    if arguments.fault:
        try:
            faults.parse(arguments.fault)
        except faults.UnknownFault as error:
            raise UsageError(str(error)) from error
    with player.serve_in_thread(Config()) as url:
        yield url.replace("/v1", f"/fault/{arguments.fault}/v1") if arguments.fault else url


def _run(arguments: argparse.Namespace) -> int:
    """Judge with pytest in a child process. What can be wrong with the options is told before it starts."""
    from wireproof.run import child

    _live_options(arguments)
    path = arguments.settings.path
    arguments.settings = str(path.resolve()) if path is not None else "none"
    words = [w for option in opts.RUN for w in option.plugin_words(getattr(arguments, option.dest))]
    if arguments.reference:  # nobody else needs it
        words += [w for w in opts.RISKY.plugin_words(True) if w not in words]
    words.append("-v" if arguments.verbose else "-q")
    with _target(arguments) as url:
        code = child.run([*words, f"--target={url}"])
    if code in (0, 1, 2, 3):
        return code
    return int(Exit.USAGE if code in (4, 5) else Exit.TARGET)


def _live_options(arguments: argparse.Namespace) -> None:
    """Raise UsageError for what the plugin would refuse, in the words of the command line."""
    from wireproof.record.preflight import PreflightError, parse_engine
    from wireproof.record.target import BadTarget, parse_target

    try:
        parse_target(arguments.url or "http://127.0.0.1/v1", metrics=arguments.metrics)
        if arguments.engine is not None:
            parse_engine(arguments.engine)
    except (BadTarget, PreflightError) as error:
        raise UsageError(str(error)) from error
    if arguments.suite:
        _selected(arguments.suite)
    opts.secrets(arguments.api_key_env, arguments.header)


def _selected(text: str) -> list[rules.Rule]:
    try:
        return rules.select(rules.load().values(), opts.suites(text))
    except ValueError as error:
        raise UsageError(f"--suite: {error}") from error


def _check(arguments: argparse.Namespace) -> int:
    from wireproof.run import check

    try:
        return int(
            check.check(
                [Path(p) for p in arguments.paths],
                _selected(arguments.suite),
                suites=opts.suites(arguments.suite),
                settings=arguments.settings,
                level=arguments.level,
                engine=arguments.engine,
                label=arguments.label,
                record=_path(arguments.record),
                html=_path(arguments.html),
                junit=_path(arguments.junit),
                verbose=arguments.verbose,
            )
        )
    except check.CheckError as error:
        raise UsageError(str(error)) from error


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _list(arguments: argparse.Namespace) -> int:
    from wireproof.reference_server import faults

    chosen = _selected(arguments.suite)
    if arguments.json:
        proofs = faults.by_rule()
        print(json.dumps([rules.as_json(r, proofs.get(r.id, ())) for r in chosen], indent=1, ensure_ascii=False))
        return Exit.OK
    width = max(len(r.id) for r in chosen)
    for r in chosen:
        mark = " " if r.check else "-"
        print(f"{mark} {r.level.value:6} {r.id:{width}}  {', '.join(r.book):13} {r.requirement}")
    unchecked = sum(1 for r in chosen if r.check is None)
    print(f"{len(chosen)} rules; {unchecked} (marked -) cannot be observed: `wireproof explain RULE` says why")
    return Exit.OK


def _explain(arguments: argparse.Namespace) -> int:
    from wireproof.run.outputs import explain_text

    rules.load()
    found = rules.REGISTRY.find(arguments.rule)
    if found is None:
        import difflib

        names = [n for r in rules.REGISTRY.rules.values() for n in (r.id, *r.book)]
        close = difflib.get_close_matches(arguments.rule, names, n=3, cutoff=0.4)
        hint = f"; did you mean {', '.join(close)}?" if close else "; `wireproof list` has them all"
        raise UsageError(f"no rule is called {arguments.rule!r}{hint}")
    print(explain_text(found))
    return Exit.OK


def _report(arguments: argparse.Namespace) -> int:
    from wireproof.run import outputs
    from wireproof.stored import run_record

    known = formats.load()
    try:
        records = [run_record.read(Path(p)) for p in arguments.records]
        paths = {name: _path(getattr(arguments, name.replace("-", "_"))) for name in known}
        outputs.write(records, level=arguments.level, **paths)
    except run_record.RecordError as error:
        raise UsageError(str(error)) from error
    if not any(paths.values()):
        print(known["markdown"].render(records, level=arguments.level))
    return Exit.OK


def _serve(arguments: argparse.Namespace) -> int:
    from wireproof.reference_server import faults, player
    from wireproof.reference_server.config import Config

    if arguments.list_faults:
        for name, fault in sorted(faults.load().items()):
            print(f"{name:42} {fault.summary}")
        return Exit.OK
    key = opts.variable(arguments.api_key_env, "--api-key-env") if arguments.api_key_env else None

    def ready(url: str) -> None:
        if arguments.print_url:
            print(url, flush=True)
        else:
            print(f"The reference server answers at {url} (model {_REFERENCE_MODEL}); Ctrl-C stops it.")
            faulty = url.replace("/v1", "/fault/done.missing/v1")
            print(
                f"A fault is chosen by path, such as {faulty}; `wireproof serve --list-faults` lists them.", flush=True
            )

    try:
        player.run_forever(Config(api_key=key), host=arguments.host, port=arguments.port, on_ready=ready)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {arguments.host}:{arguments.port} ({error.strerror}): choose --port 0"
        ) from error
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
