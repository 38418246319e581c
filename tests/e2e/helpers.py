"""Running wireproof as a user does, and looking at what it printed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Nothing here takes nearly as long, however slow the machine: a test that does has found a hang (seconds).
LIMIT = 300.0


@dataclass(frozen=True)
class Done:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Everything that was printed."""
        return self.out + self.err

    @property
    def message(self) -> str:
        """The one line that says what is wrong."""
        found = [line for line in self.text.splitlines() if line.startswith("wireproof: ")]
        assert len(found) == 1, self.text
        return found[0].removeprefix("wireproof: ")


def environment(**changes: str | None) -> dict[str, str]:
    """This environment without what would change pytest or Python; None removes a variable."""
    out = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "PYTHON", "COV_"))}
    out.pop("CI", None)
    out["COLUMNS"] = "120"
    for name, value in changes.items():
        if value is None:
            out.pop(name, None)
        else:
            out[name] = value
    return out


def command(*words: object, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Done:
    """Run a command to its end."""
    done = subprocess.run(
        [str(w) for w in words],
        cwd=cwd,
        env=dict(env) if env is not None else environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LIMIT,
        check=False,
    )
    out, err = (stream.decode("utf-8", errors="replace") for stream in (done.stdout, done.stderr))
    return Done(done.returncode, out, err)


def wireproof(*words: object, cwd: Path | None = None, **variables: str | None) -> Done:
    """Run the command line in a process of its own, in a checkout that need not be installed."""
    env = environment(PYTHONPATH=str(ROOT / "src"), **variables)
    return command(sys.executable, "-m", "wireproof.cli", *words, cwd=cwd, env=env)


def no_traceback(done: Done) -> None:
    """Whatever went wrong, a user sees a sentence and not our stack."""
    for sign in ("Traceback (most recent", "INTERNALERROR", 'File "'):
        assert sign not in done.text, done.text
