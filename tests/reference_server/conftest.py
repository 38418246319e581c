"""The bundled server in memory, for each test anew."""

from __future__ import annotations

import pytest

from .serving import Server


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def make_server() -> type[Server]:
    return Server
