"""What is known of engines: the facts of `runners/engines/*.toml`, and of a user's own files in the same form.

How an engine is installed and started stands in the same files, and is the business of the runners.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from wireproof import toml_table
from wireproof.resources import folder
from wireproof.toml_table import Table, TableError

#: Names the user's own file of an engine, or a folder of such files; their facts count before ours.
VARIABLE = "WIREPROOF_ENGINE_FILES"

# An engine that states no rank is looked for after those that do.
_LAST = 100


class Order(StrEnum):
    """How the versions of an engine are compared."""

    PEP440 = "pep440"
    BUILD = "build"  # by the digits, as in b11434
    EXACT = "exact"  # not at all


@dataclass(frozen=True)
class InHeader:
    """Every answer has its version in a header."""

    header: str


@dataclass(frozen=True)
class InAnswer:
    """The answer to a GET has its version in a member.

    With `owner`, only where the first model that is listed is owned by that name. `named_by` is the member in which
    another engine that answers the same question gives its name.
    """

    path: str
    key: str
    owner: str = ""
    named_by: str = ""


@dataclass(frozen=True)
class ByServer:
    """The header Server of an answer is its name, and a member of the answer its version."""

    server: str
    key: str


Place = InHeader | InAnswer | ByServer
P = TypeVar("P", InHeader, InAnswer, ByServer)


@dataclass(frozen=True)
class Ended:
    """Counters of answers that ended, by a label that says how; `aborted` is its value for aborts."""

    names: tuple[str, ...] = ()
    label: str = ""
    aborted: str = ""


@dataclass(frozen=True)
class GaugeNames:
    """What an engine calls its gauges and counters; of several names the first one that is there counts.

    `slots` is the member of each entry of /slots that says whether the slot is busy.
    """

    name: str
    running: str
    waiting: str
    generated: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()
    ended: Ended = Ended()
    slots: str = ""


@dataclass(frozen=True)
class EngineFacts:
    """All that the core knows of one engine."""

    name: str
    title: str
    rank: int = _LAST
    recorded_as: str = ""
    order: Order | None = None
    said_in: tuple[Place, ...] = ()
    gauges: GaugeNames | None = None
    call_markers: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()

    @property
    def anything(self) -> bool:
        """Whether the file has facts at all, and not only other versions of a known engine."""
        return bool(self.order or self.said_in or self.gauges or self.call_markers or self.reasoning)


# What else a file may have; the runners read it.
_OTHERS = ("recipe",)


def files(place: Path) -> list[Path]:
    """The file itself, or those of a folder, in the order of their names. Raises TableError when there is none."""
    if not place.is_dir():
        return [place]
    found = sorted(place.glob("*.toml"))
    if not found:
        raise TableError(f"{place} has no file of an engine: there is no *.toml in it")
    return found


def parse(values: Mapping[str, Any], where: str) -> EngineFacts:
    """The facts of one file. Raises TableError, naming the key that is wrong."""
    if "engine" in values:
        raise TableError(
            f"{where}: engine: unknown; a file has one engine: its `name`, and a [[recipe]] for each version"
            " (several engines are a folder of such files)"
        )
    table = Table({key: value for key, value in values.items() if key not in _OTHERS}, where)
    name = table.text("name", "the engine's name, such as vllm")
    title = table.text("title", "a text such as vLLM", name)
    version = table.table("version")
    order = version.text("order", f"one of {', '.join(Order)}", "")
    if order and order not in list(Order):
        raise version.wrong("order", f"{order!r} is none of {', '.join(Order)}")
    facts = EngineFacts(
        name=name,
        title=title,
        rank=table.take("rank", int, "a whole number", _LAST),
        recorded_as=version.text("name", "its name in records", name),
        order=Order(order) if order else None,
        said_in=tuple(_place(each) for each in version.tables("said_in")),
        gauges=_gauges(table.table("gauges"), title) if "gauges" in table else None,
        call_markers=tuple(_markers(table.table("call_markers"))),
        reasoning=table.texts("reasoning", "a list of members such as reasoning_content", ()),
    )
    version.finish()
    table.finish()
    return facts


def _place(table: Table) -> Place:
    place: Place
    if "header" in table:
        place = InHeader(table.text("header", "a header such as x-version"))
    elif "path" in table:
        path = table.text("path", "a path such as /version")
        if not path.startswith("/"):
            raise table.wrong("path", f"{path!r} is not a path such as /version")
        place = InAnswer(
            path,
            table.text("key", "the member that is the version"),
            table.text("owner", "the owner of the first model", ""),
            table.text("named_by", "the member that is the name", ""),
        )
    else:
        server = table.text("server", "what the header Server says (or there is `header`, or `path`)").lower()
        place = ByServer(server, table.text("key", "the member that is the version"))
    table.finish()
    return place


def _gauges(table: Table, title: str) -> GaugeNames:
    ended = table.table("ended") if "ended" in table else None
    found = GaugeNames(
        name=title,
        running=table.text("running", "the gauge of requests that run"),
        waiting=table.text("waiting", "the gauge of requests that wait"),
        generated=table.texts("generated", default=()),
        held=table.texts("held", default=()),
        aborted=table.texts("aborted", default=()),
        ended=_ended(ended) if ended else Ended(),
        slots=table.text("slots", "the member that says whether a slot is busy", ""),
    )
    table.finish()
    return found


def _ended(table: Table) -> Ended:
    names = table.texts("names")
    ended = Ended(names, table.text("label", "the label that says how"), table.text("aborted", "its value for aborts"))
    table.finish()
    return ended


def _markers(table: Table) -> Iterator[str]:
    for family in table.keys:
        for marker in table.texts(family):
            if not marker:
                raise table.wrong(family, "an empty marker is in every text")
            yield marker


@functools.cache
def load() -> tuple[EngineFacts, ...]:
    """The facts of all engines, by rank: ours, and those of the user's own files. Raises TableError."""
    own: list[EngineFacts] = []
    if given := os.environ.get(VARIABLE):
        own = [facts for facts in _read(Path(given)) if facts.anything]
    replaced = {facts.name for facts in own}
    ours = [facts for facts in _read(folder("runners") / "engines") if facts.name not in replaced]
    return tuple(sorted([*own, *ours], key=lambda facts: (facts.rank, facts.name)))


def _read(place: Path) -> list[EngineFacts]:
    return [parse(toml_table.read(path), str(path)) for path in files(place)]


def by_recorded_name(name: str) -> EngineFacts | None:
    """The engine that records call so, in capitals or not; None for one that nobody knows."""
    return next((facts for facts in load() if facts.recorded_as.lower() == name.lower()), None)


def places(kind: type[P]) -> list[tuple[EngineFacts, P]]:
    """All places of one kind where engines say their version, by rank."""
    return [(facts, place) for facts in load() for place in facts.said_in if isinstance(place, kind)]


def questions() -> Mapping[str, list[tuple[EngineFacts, InAnswer]]]:
    """The paths that are asked for, in order, each with the engines that answer; those with a condition come first."""
    out: dict[str, list[tuple[EngineFacts, InAnswer]]] = {}
    for facts, place in places(InAnswer):
        out.setdefault(place.path, []).append((facts, place))
    return {path: sorted(each, key=lambda one: not one[1].owner) for path, each in out.items()}


def gauges() -> tuple[GaugeNames, ...]:
    """What engines call their gauges."""
    return tuple(facts.gauges for facts in load() if facts.gauges)


def call_markers() -> tuple[str, ...]:
    """The markers of all families of models."""
    return _once(marker for facts in load() for marker in facts.call_markers)


def reasoning_members() -> tuple[str, ...]:
    """The members that bring reasoning."""
    return _once(name for facts in load() for name in facts.reasoning)


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
