"""What the HTML page shows of outcome tables, as values: the counts, what was ignored, the grid, the exchanges.

As in `view.py`, every text has gone through `safe`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from wireproof.show.excerpt import excerpt
from wireproof.show.text import Arrival, head, place, rows, safe, safe_curl, table_counts
from wireproof.stored.run_record import RunRecord
from wireproof.tables.table import Effect, Table
from wireproof.verdict import Violation
from wireproof.wire.transcript import Transcript

from .outcomes import ORDER, SYMBOLS, Compared, Found, cells, compared, group, headed, merged, share, worst
from .view import slug

TEXT = 300
CURL = 4000
TITLE = 4  # outcomes that a tooltip names


@dataclass(frozen=True)
class Chip:
    """One outcome: symbol and word, what stands beside it, what a pointer shows, and where the exchange is."""

    outcome: str
    symbol: str
    word: str
    text: str
    title: str
    href: str


@dataclass(frozen=True)
class Cluster:
    """Chips that belong together, such as those of one type."""

    label: str
    chips: list[Chip]


@dataclass(frozen=True)
class GridRow:
    """A row of the grid: for each column its clusters."""

    name: str
    outcome: str
    cells: list[list[Cluster]]


@dataclass(frozen=True)
class Finding:
    """Something that was ignored: the labels of its row, how it was asked, what came."""

    labels: list[str]
    way: str
    text: str
    href: str


@dataclass(frozen=True)
class ExchangeView:
    """An exchange that shows an outcome."""

    anchor: str
    name: str
    chip: Chip
    text: str
    place: str
    rows: list[Arrival]
    head: list[str]
    curl: str


@dataclass(frozen=True)
class TableView:
    """One outcome table as the page lays it out."""

    anchor: str
    title: str
    legend: str
    lines: list[tuple[str, str]]  # label of the record when there are several, its counts in words
    counts: list[tuple[str, list[tuple[str, str, int]]]]
    ignored: int
    head: str
    heads: list[str]
    columns: list[str]
    worded: bool  # chips of what was held have their word, too
    grid: list[GridRow]
    findings: list[Finding]
    exchanges: list[ExchangeView]


class _Record:
    """Links from a table to the exchanges of one record; remembers which of them are linked."""

    def __init__(self, table: int, column: str, label: str, record: RunRecord) -> None:
        self._place, self._label, self._record = (table, column), label, record
        self._linked: dict[str, Found] = {}

    def chip(self, found: Found, text: str = "", title: str = "") -> Chip:
        href = ""
        if found.cell.transcript in self._record.transcripts:
            self._linked.setdefault(found.cell.transcript, found)
            href = self._anchor(found.cell.transcript)
        return _chip(found.outcome, text, title or _title(found), href)

    def _anchor(self, transcript: str) -> str:
        table, column = self._place
        return f"x{table}-{slug(transcript)}-{column}"

    def exchanges(self) -> list[ExchangeView]:
        """The linked exchanges, in the order of the record."""
        return [
            self._exchange(t, self._linked[t.id]) for t in self._record.transcripts.values() if t.id in self._linked
        ]

    def _exchange(self, transcript: Transcript, found: Found) -> ExchangeView:
        violation = Violation("", "", transcript.id)
        shown = excerpt(violation, self._record.transcripts)
        name = f"{found.row.name}, {found.way}"
        return ExchangeView(
            anchor=self._anchor(transcript.id),
            name=safe(f"{name} · {self._label}" if self._label else name),
            chip=_chip(found.outcome, "", "", ""),
            text=safe(found.cell.text, TEXT),
            place=place(violation, shown) if shown else "",
            rows=rows(shown) if shown else [],
            head=head(violation, self._record.transcripts),
            curl=safe_curl(transcript, CURL),
        )


def _chip(outcome: Effect, text: str, title: str, href: str) -> Chip:
    return Chip(outcome.value, SYMBOLS[outcome], outcome.value, text, title, href)


def _title(found: Found) -> str:
    return safe(f"{found.row.name}, {found.way}: {found.outcome.value}: {found.cell.text}", TEXT)


def views(columns: Sequence[tuple[str, str, RunRecord]]) -> list[TableView]:
    """The outcome tables of records, each given with the id and the label of its column."""
    found = compared([record for _, _, record in columns])
    return [_view(number, table, columns) for number, table in enumerate(found, 1)]


def _view(number: int, table: Compared, columns: Sequence[tuple[str, str, RunRecord]]) -> TableView:
    several = len(columns) > 1
    shown = [columns[n] for n in table.tables]
    links = [_Record(number, name, label if several else "", record) for name, label, record in shown]
    names, only = [label for _, label, _ in shown], next(iter(table.tables.values()))
    findings: list[Finding] = []
    if several:
        grid = _comparison(table, links)
    elif table.grouped:
        names, grid, findings = list(only.columns), _groups(only, links[0]), _findings(only, links[0])
    else:
        names, grid = list(only.columns), _rows(only, links[0])
    lines = [(label, table_counts(t) if (t := table.tables.get(n)) else "") for n, (_, label, _) in enumerate(columns)]
    return TableView(
        anchor=f"table-{slug(table.id)}",
        title=safe(table.title),
        legend=safe(table.legend, 0),
        lines=[(safe(label) if several else "", counts or "not recorded") for label, counts in lines],
        counts=[
            (safe(label), _counts(table.tables[n])) for n, (_, label, _) in enumerate(columns) if n in table.tables
        ],
        ignored=sum(t.counts()[Effect.IGNORED] for t in table.tables.values()),
        head=safe(table.head),
        heads=[safe(headed(h)) for h in only.heads],
        columns=[safe(name if several else headed(name)) for name in names],
        worded=several or not table.grouped,
        grid=grid,
        findings=findings,
        exchanges=[x for link in links for x in link.exchanges()],
    )


def _counts(table: Table) -> list[tuple[str, str, int]]:
    counts = table.counts()
    return [(o.value, SYMBOLS[o], counts[o]) for o in ORDER]


def _findings(table: Table, link: _Record) -> list[Finding]:
    return [
        Finding([safe(x) for x in f.row.labels], safe(f.way), safe(f.cell.text, TEXT), link.chip(f).href)
        for f in cells(table)
        if f.outcome is Effect.IGNORED
    ]


def _groups(table: Table, link: _Record) -> list[GridRow]:
    """A row for each group; in each column a cluster for each type, a chip for each schema."""
    by_group: dict[str, list[Found]] = {}
    for f in cells(table):
        by_group.setdefault(group(f.row), []).append(f)
    return [
        GridRow(
            safe(name), worst(found).value, [_clusters([f for f in found if f.way == w], link) for w in table.columns]
        )
        for name, found in by_group.items()
    ]


def _clusters(found: Sequence[Found], link: _Record) -> list[Cluster]:
    def kind(f: Found) -> str:
        return f.row.labels[1] if len(f.row.labels) > 1 else ""

    ordered = sorted(found, key=kind)  # stable: within a kind as they are in the table
    return [Cluster(safe(name), [link.chip(f) for f in each]) for name, each in itertools.groupby(ordered, key=kind)]


def _rows(table: Table, link: _Record) -> list[GridRow]:
    """A row for each row, what came beside each outcome."""
    out = []
    for row in table.rows:
        found = {f.way: f for f in cells(table) if f.row is row}
        clusters = [
            [Cluster("", [link.chip(found[way], safe(found[way].cell.text, TEXT))])] if way in found else []
            for way in table.columns
        ]
        out.append(GridRow(safe(group(row)), worst(found.values()).value, clusters))
    return out


def _comparison(table: Compared, links: Sequence[_Record]) -> list[GridRow]:
    """A row for each group, a column for each record: the worst of its outcomes, or what came in each way."""
    cell = _worst if table.grouped else _each_way
    return [
        GridRow(
            safe(line.name),
            line.worst.value,
            [cell(found, link) if found else [] for found, link in zip(line.found, links, strict=True)],
        )
        for line in table.lines
    ]


def _worst(found: Sequence[Found], link: _Record) -> list[Cluster]:
    shown = [f for f in found if f.outcome is worst(found)]
    title = "; ".join(_title(f) for f in shown[:TITLE]) + ("; …" if len(shown) > TITLE else "")
    if shown[0].outcome is Effect.HELD:  # hundreds of them: the report of one record has them all
        return [Cluster("", [_chip(Effect.HELD, "", title, "")])]
    return [Cluster("", [link.chip(shown[0], share(found), title)])]


def _each_way(found: Sequence[Found], link: _Record) -> list[Cluster]:
    return [Cluster(safe(way), [link.chip(f, safe(f.cell.text, TEXT))]) for way, f in merged(found)]
