"""Every outcome table that a recording fills. Pure: exchanges in, tables out."""

from __future__ import annotations

from collections.abc import Iterable

from wireproof.read.chat import is_chat
from wireproof.read.exchange import Exchange
from wireproof.scenarios import keywords
from wireproof.tables import cancellation
from wireproof.tables.keywords_and_choice import CHOICE_TABLE, Samples, choice_table, keyword_table
from wireproof.tables.table import Table


def tables(exchanges: Iterable[Exchange]) -> list[Table]:
    """The tables that the exchanges fill, empty ones left out."""

    exchanges = list(exchanges)
    by_table: dict[str, dict[str, Samples]] = {}
    for x in exchanges:
        tags = x.transcript.tags
        if tags.table and is_chat(x):
            row = by_table.setdefault(tags.table, {}).setdefault(tags.row, {})
            row.setdefault(tags.column or "plain", []).append(x)
    made = [
        keyword_table(by_table.get(keywords.TABLE, {})),
        choice_table(by_table.get(CHOICE_TABLE, {})),
        cancellation.table(exchanges),
    ]
    return [t for t in made if t.rows]
