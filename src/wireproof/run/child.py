"""Runs pytest as a child process that sees our ini and nothing of the user's, and that ends when we are told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from wireproof.resources import folder

#: Set for the child: the command line has all options already, the settings file adds none.
FINAL = "WIREPROOF_OPTIONS_ARE_FINAL"


def _command(options: Sequence[str]) -> list[str]:
    suites = folder("suites")
    base = [sys.executable, "-m", "pytest", "--noconftest", "-c", str(suites / "pytest.ini"), "--rootdir", str(suites)]
    return [*base, "-p", "wireproof.plugin", str(suites), *options]


def _environment() -> dict[str, str]:
    """The environment without what changes pytest, and with this copy of wireproof in front."""
    out = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    out["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    out[FINAL] = "1"
    package = str(Path(__file__).resolve().parent.parent)
    out["PYTHONPATH"] = os.pathsep.join([package, *filter(None, [out.get("PYTHONPATH")])])
    return out


def run(options: Sequence[str]) -> int:
    """Run the suites with pytest options; returns pytest's exit code.

    The child has a process group of its own: Ctrl-C reaches it once and through us, so that it
    writes the footer of its record before it ends. A second Ctrl-C kills it.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as in a script's background job
    if ignored:  # the child would inherit that, and not hear the SIGINT with which we end it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    child = subprocess.Popen(_command(options), env=_environment(), process_group=0)
    if ignored:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = 0

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked += 1
        child.send_signal(signal.SIGINT if asked == 1 else signal.SIGKILL)

    # A signal that is ignored (SIGHUP under nohup) stays ignored.
    asking = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heard = [number for number in asking if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heard}
    try:
        return child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if child.poll() is None:
            child.kill()
            child.wait()
