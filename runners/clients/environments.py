"""The clients' environments: which are wanted, and where they lie."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from packaging.specifiers import SpecifierSet

from wireproof.scenarios.clients import Setup

from .. import environments
from ..environments import NotInstalled, Wanted

__all__ = ["NotInstalled", "default_home", "provide", "wanted"]

VARIABLE = "WIREPROOF_CLIENTS"
# The longest that an installation may take; with uv and a good line it takes seconds.
INSTALL_SECONDS = 900.0


def default_home() -> Path:
    """The cache folder: $WIREPROOF_CLIENTS, or one below the user's cache."""
    return environments.cache_folder(VARIABLE, "clients")


def wanted(setup: Setup, home: Path) -> Wanted:
    """The environment of a set-up. Clients run on our own Python; with uv, which is fetched, it takes seconds."""
    log = home / setup.name / "install.log"
    return Wanted(home, setup.name, sys.executable, (setup.packages,), setup.digest, log, fetches_uv=True)


async def provide(setup: Setup, home: Path | None = None, *, seconds: float = INSTALL_SECONDS) -> Path:
    """The Python of a set-up, installed first unless it is there. Raises NotInstalled."""
    found = wanted(setup, home or default_home())
    if not found.installed and not SpecifierSet(setup.python).contains(platform.python_version()):
        raise NotInstalled(f"{setup.name} needs Python {setup.python}, this is {platform.python_version()}")
    try:
        return await environments.provide(found, seconds)
    except OSError as error:
        raise NotInstalled(
            f"cannot write to {found.home} ({error.strerror}): choose another folder with {VARIABLE}"
        ) from error
