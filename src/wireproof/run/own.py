"""Rules and scenarios of a user's own, from a folder or an installed package.

A folder holds files of rules (Python that imports `wireproof.rules`) and scenarios (TOML, as in `fixtures/scenarios`).
They join ours in the same registries. A faulty file is one clear error, and nothing of its folder stays behind.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.metadata
import importlib.util
import sys
import tomllib
import traceback
from pathlib import Path

from wireproof.judge import rules
from wireproof.scenarios import catalog
from wireproof.show import victims

#: The group of entry points by which an installed package offers its rules.
GROUP = "wireproof.rules"
_SETTINGS = frozenset({"pyproject.toml", "wireproof.toml"})
_loaded: dict[Path, tuple[Path, ...]] = {}


class OwnRulesError(ValueError):
    """A folder or file of a user's that cannot be used; the message names it, and says what to do."""


def is_rule_file(path: Path) -> bool:
    """Whether a file is one of rules: Python that imports `wireproof.rules`."""
    if path.suffix != ".py" or path.name == "conftest.py":
        return False
    try:
        return "wireproof.rules import" in path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def load(name: str) -> tuple[Path, ...]:
    """Register the rules and scenarios of a folder, or of the installed package whose entry point has this name.

    Returns the files of rules. Loading a folder again does nothing. Raises OwnRulesError.
    """
    path = Path(name)
    package = "" if path.is_dir() else _package(name)
    where = (path if not package else _folder_of(package)).resolve()
    if where not in _loaded:
        before, scenarios = set(rules.REGISTRY.rules), catalog.own()
        try:
            _loaded[where] = _load(where, package)
        except OwnRulesError:
            rules.REGISTRY.keep(before)
            catalog.restore(scenarios)
            raise
    return _loaded[where]


def rule_file(r: rules.Rule) -> Path:
    """The file that holds a rule's check."""
    assert r.check is not None
    return Path(r.check.__code__.co_filename)


def _package(name: str) -> str:
    found = {e.name: e.value for e in importlib.metadata.entry_points(group=GROUP)}
    if name in found:
        return found[name]
    installed = f"; installed packages with rules: {', '.join(sorted(found))}" if found else ""
    raise OwnRulesError(f"{name} is neither a folder nor an installed package with rules{installed}")


def _folder_of(package: str) -> Path:
    try:
        spec = importlib.util.find_spec(package)
    except ImportError as error:
        raise OwnRulesError(f"the package {package} cannot be imported: {error}") from error
    if spec is None or not spec.submodule_search_locations:
        raise OwnRulesError(f"the entry point {GROUP} names {package}, which is not an installed package (a folder)")
    return Path(next(iter(spec.submodule_search_locations)))


def _load(where: Path, package: str) -> tuple[Path, ...]:
    rules.load(), catalog.load()  # ours first: who comes second is told of a clash
    for path in sorted(p for p in where.glob("*.toml") if p.name not in _SETTINGS):
        try:
            catalog.add(catalog.parse(path.read_text(encoding="utf-8"), str(path)), str(path))
        except tomllib.TOMLDecodeError as error:
            raise OwnRulesError(f"{path} is not TOML: {error}") from error
        except (OSError, UnicodeDecodeError) as error:
            raise OwnRulesError(f"{path} cannot be read: {error}") from error
        except (ValueError, TypeError) as error:
            raise OwnRulesError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    files = tuple(p for p in sorted(where.glob("*.py")) if is_rule_file(p))
    if not files:
        raise OwnRulesError(f"{where} has no rules: a file of rules is Python and imports wireproof.rules")
    for path in files:
        known = set(rules.REGISTRY.rules)
        _import(path, f"{package}.{path.stem}" if package else "")
        for name in set(rules.REGISTRY.rules) - known:
            _check(rules.REGISTRY.rules[name], path)
    return files


def _import(path: Path, module: str) -> None:
    """Execute a file of rules. Each has a name of its own, so that it hides no module of anybody's."""
    try:
        if module:
            importlib.import_module(module)
            return
        name = f"_wireproof_own_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        sys.modules[name] = made
        try:
            spec.loader.exec_module(made)
        except BaseException:
            del sys.modules[name]
            raise
    except SyntaxError as error:
        raise OwnRulesError(f"{error.filename}:{error.lineno}: {error.msg}") from error
    except Exception as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        told = str(error) or type(error).__name__
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise OwnRulesError(f"{path}:{lines[-1] if lines else 1}: {kind}{told}") from error


def _check(r: rules.Rule, path: Path) -> None:
    """Raise for a rule that could not be judged or shown."""
    line = r.check.__code__.co_firstlineno if r.check is not None else 1
    place = f"{path}:{line}: rule {r.id}"
    if "." not in r.id:
        raise OwnRulesError(f"{place}: an id has an area and a name, such as acme.{r.id}")
    known = catalog.load()
    for name in r.needs:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "; write it into a .toml file of this folder"
            raise OwnRulesError(f"{place}: no scenario is called {name!r}{hint}")
    try:
        victims.reactions(r.evidence)
    except KeyError as error:
        raise OwnRulesError(f"{place}: no wire case {error} was measured: leave `evidence` out") from error
