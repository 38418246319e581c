"""Loads the plugin when wireproof is not installed, so that `pytest --target=URL` works in a plain checkout."""

import sys
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Import the plugin by the name of its entry point, unless that has done it already."""
    if not pluginmanager.has_plugin("wireproof.plugin"):
        sys.path.insert(0, str(Path(__file__).parent / "src"))
        pluginmanager.import_plugin("wireproof.plugin")
