"""TOML files that people write: read key by key, so that every complaint names the file and the key."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class TableError(ValueError):
    """A mistake in a TOML file; the message names the file and the key."""


class Table:
    """A TOML table that is read key by key; what nobody has asked for at the end is a mistake."""

    def __init__(self, values: Any, where: str) -> None:
        if not isinstance(values, dict):
            raise TableError(f"{where}: not a table")
        self._left, self.where = dict(values), where

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def wrong(self, key: str, what: str) -> TableError:
        """What is wrong with a key, to be raised."""
        return TableError(f"{self.where}: {key}: {what}")

    def take(self, key: str, kind: type | tuple[type, ...], what: str, default: Any = None) -> Any:
        """The value of a key; without a default, it must be there. Raises TableError."""
        if key not in self._left:
            if default is None:
                raise self.wrong(key, f"missing; it is {what}")
            return default
        value = self._left.pop(key)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(key, f"{value!r} is not {what}")
        return value

    def text(self, key: str, what: str, default: str | None = None) -> str:
        """A text that is not empty, unless that is the default."""
        value = str(self.take(key, str, what, default))
        if not value and default is None:
            raise self.wrong(key, f"it is empty; it is {what}")
        return value

    def texts(self, key: str, what: str = "a list of texts", default: Sequence[str] | None = None) -> tuple[str, ...]:
        """A list of texts."""
        value = self.take(key, list, what, None if default is None else list(default))
        if not all(isinstance(word, str) for word in value):
            raise self.wrong(key, f"{value!r} is not {what}")
        return tuple(value)

    def table(self, key: str) -> Table:
        """A table below this one; an empty one when it is not there."""
        return Table(self._left.pop(key, {}), f"{self.where}: {key}")

    def tables(self, key: str) -> list[Table]:
        """A list of tables below this one."""
        listed = self._left.pop(key, [])
        if not isinstance(listed, list):
            raise self.wrong(key, "not a list of tables")
        return [Table(item, f"{self.where}: {key} {number}") for number, item in enumerate(listed, 1)]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that nobody has asked for yet."""
        return tuple(self._left)

    def finish(self) -> None:
        """Raise TableError for a key that nobody has asked for."""
        for key in self._left:
            raise self.wrong(key, "unknown")


def read(path: Path) -> dict[str, Any]:
    """What a file says. Raises TableError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TableError(f"{path} is not TOML: {error}") from error
