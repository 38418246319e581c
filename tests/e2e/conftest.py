"""What all end-to-end tests share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def signals_are_not_ignored() -> Iterator[None]:
    """Under nohup SIGHUP is ignored, and children inherit that: those that are told to end would not hear it."""
    ignored = [n for n in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
