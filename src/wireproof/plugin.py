"""The pytest plugin. Without --target it does next to nothing, and imports next to nothing.

    pytest --target=http://127.0.0.1:8000/v1 [FOLDER]

Checks are collected from `wireproof.suites`, or from a FOLDER with rules of your own, one item per rule. The rest is in
`run/hooks.py`, which is imported when there is a target, or when a file of rules is collected.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from wireproof.resources import folder
from wireproof.run import options as opts

_HOOKS = "wireproof.run.hooks"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("wireproof", "conformance to the OpenAI wire contract")
    group.addoption("--target", metavar="URL", help="base URL of the server to judge, such as http://127.0.0.1:8000/v1")
    for option in opts.RUN:
        kind = {"type": option.kind} if option.kind else {}
        group.addoption(f"{opts.PLUGIN}{option.name}", **option.keywords(), **kind)


def _hooks(config: pytest.Config) -> Any:
    """The hooks of a run, registered when they are needed for the first time."""
    found = config.pluginmanager.get_plugin(_HOOKS)
    if found is None:
        from wireproof.run import hooks as found

        config.pluginmanager.register(found, _HOOKS)
    return found


def pytest_configure(config: pytest.Config) -> None:
    """With a target, the rest of the plugin comes in; `pytest --markers` lists the areas either way."""
    if config.getoption("--target"):
        _hooks(config).begin(config)
    if config.getoption("markers", False):
        areas = sorted(p.name for p in folder("suites").iterdir() if (p / "__init__.py").is_file())
        for marker in (*areas, *opts.LEVELS):
            config.addinivalue_line("markers", f"{marker}: rules of this area or level (wireproof)")


def _is_check_module(path: Path) -> bool:
    return path.name.startswith("test_") and path.suffix == ".py" and path.parent.parent == folder("suites")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """A check module is collected as ours, whatever patterns a user's ini has for files."""
    found = yield
    if _is_check_module(file_path):
        return [_hooks(parent.config).RuleModule.from_parent(parent, path=file_path)]
    if parent.config.getoption("--target") and _hooks(parent.config).is_own(parent.config, file_path):
        return [_hooks(parent.config).OwnModule.from_parent(parent, path=file_path)]
    return found
