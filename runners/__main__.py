"""Installs real engines, and judges them: `python -m wireproof.runners list | provision | run`.

Exit codes as of wireproof: 0 all is kept, 1 a rule is broken, 2 a mistake in the options or files, 3 an engine that
cannot be installed, started or judged. With several engines, the highest of theirs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from . import process, provision
from .engine_files import ENGINES, load
from .provision import Home
from .recipes import Catalogue, EngineError
from .standing import Judging, provide

# Ours: the record is cleaned of this machine's paths before reports are made of it.
_OWN = ("-o", "--output", "--html", "--junit")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"wireproof: {message}; see `{self.prog} --help`\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m wireproof.runners",
        description="Installs, starts and judges real engines with tiny models, without a GPU.",
        epilog="Exit codes: 0 kept, 1 a rule is broken, 2 usage, 3 an engine cannot be installed, started or judged.",
    )
    _add_common(parser, ENGINES, provision.default_home())
    common = _Parser(add_help=False)
    # They may stand before the command, or after it: there, what is not given must not hide what was.
    _add_common(common, argparse.SUPPRESS, argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", parents=[common], help="list the engines")
    install = commands.add_parser("provision", parents=[common], help="install engines and make their models")
    install.add_argument("names", nargs="+", metavar="NAME")
    run = commands.add_parser(
        "run",
        parents=[common],
        help="install, start, judge and stop engines",
        usage="%(prog)s NAME[:VARIANT]... [--out DIR] [--html] [--home DIR] [-- OPTION...]",
        epilog="A variant is a model; of a gateway also what stands behind it (GATEWAY:NAME:VARIANT)."
        " What follows -- is passed on to `wireproof run`.",
    )
    run.add_argument("names", nargs="+", metavar="NAME[:VARIANT]")
    run.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="where run records go (default: here)")
    run.add_argument("--html", action="store_true", help="write an HTML report beside each record")
    return parser


def _add_common(parser: argparse.ArgumentParser, engines: Path | str, home: Path | str) -> None:
    parser.add_argument(
        "--engines",
        type=Path,
        default=engines,
        metavar="FILE",
        help="your own engines: a file (TOML), or a folder of such files",
    )
    parser.add_argument(
        "--home",
        type=Path,
        default=home,
        metavar="DIR",
        help=f"where engines are installed (default ${provision.VARIABLE}, else {provision.default_home()})",
    )


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
        for name, pick in zip(arguments.names, picked, strict=True):
            provide(pick, catalogue, home)
            for kind in () if ":" in name else pick.engine.models:
                home.model(pick.engine, kind, catalogue)
        return 0
    judging = Judging(catalogue, home, arguments.out.resolve(), arguments.html, extra)
    codes = []
    for pick in picked:
        try:
            codes.append(judging.run(pick))
        except EngineError as error:  # the next engine is judged all the same
            print(f"wireproof: {error}", file=sys.stderr, flush=True)
            codes.append(error.code)
    return max(codes)


def _list(catalogue: Catalogue, home: Home) -> int:
    for engine in catalogue.engines.values():
        there = "installed" if home.installed(engine.id, engine.environment) else "-"
        print(f"{engine.id:20} {'over ' if engine.behind else ''}{engine.variants:16} {there}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
