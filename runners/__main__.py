"""Installs real engines, and judges them: `python -m wireproof.runners list | provision | run`.

Exit codes as of wireproof: 0 all is kept, 1 a rule is broken, 2 a mistake in the options or files, 3 an engine that
cannot be installed, started or judged. With several engines, the highest of theirs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from . import neutral, process, provision
from .provision import Home
from .recipes import ENGINES, Catalogue, Engine, EngineError, fill, load

# Ours: the record is cleaned of this machine's paths before reports are made of it.
_OWN = ("-o", "--output", "--html", "--junit")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"wireproof: {message}; see `{self.prog} --help`\n")


def _parser() -> argparse.ArgumentParser:
    common = _Parser(add_help=False)
    common.add_argument("--engines", type=Path, default=ENGINES, metavar="FILE", help="another file of engines (TOML)")
    common.add_argument(
        "--home",
        type=Path,
        default=provision.default_home(),
        metavar="DIR",
        help=f"where engines are installed (default ${provision.VARIABLE}, else %(default)s)",
    )
    parser = _Parser(
        prog="python -m wireproof.runners",
        description="Installs, starts and judges real engines with tiny models, without a GPU.",
        epilog="Exit codes: 0 kept, 1 a rule is broken, 2 usage, 3 an engine cannot be installed, started or judged.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", parents=[common], help="list the engines")
    install = commands.add_parser("provision", parents=[common], help="install engines and make their models")
    install.add_argument("names", nargs="+", metavar="NAME")
    run = commands.add_parser(
        "run",
        parents=[common],
        help="install, start, judge and stop engines",
        usage="%(prog)s NAME[:VARIANT]... [--out DIR] [--html] [--home DIR] [-- OPTION...]",
        epilog="What follows -- is passed on to `wireproof run`.",
    )
    run.add_argument("names", nargs="+", metavar="NAME[:VARIANT]")
    run.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="where run records go (default: here)")
    run.add_argument("--html", action="store_true", help="write an HTML report beside each record")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    extra: list[str] = []
    if "--" in words:
        cut = words.index("--")
        words, extra = words[:cut], words[cut + 1 :]
    arguments = _parser().parse_args(words)
    try:
        with process.told():
            return _command(arguments, extra)
    except EngineError as error:
        print(f"wireproof: {error}", file=sys.stderr)
        return error.code
    except process.Told as signal_name:
        print(f"wireproof: stopped by {signal_name}", file=sys.stderr)
        return 3


def _command(arguments: argparse.Namespace, extra: Sequence[str]) -> int:
    if extra and arguments.command != "run":
        raise EngineError("options after -- belong to `run`", code=2)
    for word in extra:
        if word.partition("=")[0] in _OWN or (word.startswith("-o") and not word.startswith("--")):
            raise EngineError(
                f"{word}: records and reports are written by us; say where with --out, and --html", code=2
            )
    catalogue = load(arguments.engines)
    home = Home(arguments.home.expanduser().resolve(), lambda text: print(text, flush=True))
    if arguments.command == "list":
        return _list(catalogue, home)
    picked = [catalogue.pick(name) for name in arguments.names]  # all names are looked at before anything is done
    if arguments.command == "provision":
        for name, (engine, variant) in zip(arguments.names, picked, strict=True):
            home.provision(engine.id, engine.environment)
            for kind in (variant,) if ":" in name else engine.models:
                home.model(engine, kind, catalogue)
        return 0
    codes = []
    for engine, variant in picked:
        try:
            codes.append(_Run(catalogue, home, engine, variant, arguments.out.resolve(), arguments.html, extra).run())
        except EngineError as error:  # the next engine is judged all the same
            print(f"wireproof: {error}", file=sys.stderr, flush=True)
            codes.append(error.code)
    return max(codes)


def _list(catalogue: Catalogue, home: Home) -> int:
    for engine in catalogue.engines.values():
        there = "installed" if home.installed(engine.id, engine.environment) else "-"
        print(f"{engine.id:20} {', '.join(engine.models) or '(its own model)':16} {there}")
    return 0


@dataclass(frozen=True)
class _Run:
    """One engine, judged once."""

    catalogue: Catalogue
    home: Home
    engine: Engine
    variant: str
    out: Path
    html: bool
    extra: Sequence[str]

    @property
    def name(self) -> str:
        return "-".join(filter(None, [self.engine.id, self.variant]))

    def run(self) -> int:
        engine, home = self.engine, self.home
        python = home.provision(engine.id, engine.environment)
        model = home.model(engine, self.variant, self.catalogue) if self.variant else None
        port = process.free_port()
        values = provision.template_values(engine, home, python=python, model=model, port=port)
        log = home.logs / f"{self.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")
        home.say(f"{self.name}: starting; log {log}")
        group = process.Group(
            [fill(word, **values) for word in engine.start],
            env=provision.environment_of(engine, home, python=python, model=model, port=port),
            cwd=home.cache,
            log=log,
        )
        try:
            took = process.wait_ready(group, port, engine.ready, engine.timeout, self.name)
            home.say(f"{self.name}: ready after {took:.1f} s on http://127.0.0.1:{port}")
            return self._judge(port)
        finally:
            gentle = group.stop()
            home.say(f"{self.name}: stopped" + ("" if gentle else " by SIGKILL: it did not end on SIGTERM"))

    def _judge(self, port: int) -> int:
        raw = self.home.path / "runs" / f"{self.name}.jsonl"
        raw.parent.mkdir(parents=True, exist_ok=True)
        raw.unlink(missing_ok=True)
        label = " ".join([self.engine.name, self.engine.version]) + (f", {self.variant}" if self.variant else "")
        options = ["run", f"http://127.0.0.1:{port}/v1", "-o", str(raw), "--label", label]
        if self.engine.label:
            options += ["--engine", self.engine.label]
        # A group of its own: a Ctrl-C reaches it through us, once, and it writes the footer of its record.
        judge = process.Group([sys.executable, "-m", "wireproof.cli", *options, *self.extra])
        try:
            return judge.child.wait()
        finally:
            judge.stop()
            if raw.exists():
                self._keep(raw)

    def _keep(self, raw: Path) -> None:
        record = self.out / f"{self.name}.jsonl"
        try:
            neutral.clean_record(raw, record, neutral.machine_paths(self.home.path))
        except OSError as error:
            raise EngineError(
                f"cannot write {record} ({error.strerror}): choose another folder with --out", code=2
            ) from error
        self.home.say(f"{self.name}: record without this machine's paths: {record}")
        if self.html:
            page = record.with_suffix(".html")
            words = [sys.executable, "-m", "wireproof.cli", "report", str(record), "--html", str(page)]
            if process.Group(words).wait(120) == 0:
                self.home.say(f"{self.name}: report {page}")


if __name__ == "__main__":
    sys.exit(main())
