"""Where the packaged data lies: beside src/ in a checkout, inside the package in a wheel."""

from __future__ import annotations

import importlib
from pathlib import Path


def folder(name: str) -> Path:
    """One of the five folders (suites, fixtures, runners, reference_server, reports).

    Raises FileNotFoundError when the installation lacks it.
    """
    package = importlib.import_module("wireproof")
    for base in package.__path__:
        found = Path(base) / name
        if found.is_dir():
            return found
    raise FileNotFoundError(f"this installation of wireproof has no folder {name}: reinstall it")
