"""The cancellation table: when we left, and what each channel shows of the abort.

A channel that does not work on the target (no metrics, others who use it) leaves an unclear cell with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from wireproof.read.aborts import Aborted, before_first_token, by_black_box, by_gauge, by_gpu, by_queue
from wireproof.read.exchange import Exchange
from wireproof.read.leaving import LEFT
from wireproof.tables.table import WORST_FIRST, Cell, Effect, Row, Table
from wireproof.verdict import Inconclusive, NotApplicable, Unsupported

ID = "cancellation"
GAUGE, BLACK_BOX, GPU = "gauge", "black box", "GPU"
_LEGEND = (
    "A client left at this moment. held: the work was stopped, and how soon that showed; ignored: the server went on; "
    "refused: the target said that it has no such feature; unclear: the channel does not show it here, with the reason."
)
#: Scenario, moment, channel and how it is read, in the order of the rows.
_ROWS: tuple[tuple[str, str, str, Callable[[Sequence[Exchange]], Aborted]], ...] = (
    ("cancel-stream", "in mid-stream", GAUGE, by_gauge),
    ("cancel-black-box", "in mid-stream", BLACK_BOX, by_black_box),
    ("cancel-gpu", "in mid-stream", GPU, by_gpu),
    ("cancel-plain", "in a plain answer", GAUGE, by_gauge),
    ("cancel-prefill", "before the first token", GAUGE, before_first_token),
    ("cancel-queued", "while queued", GAUGE, by_queue),
    ("cancel-structured", "in a structured stream", GAUGE, by_gauge),
    ("cancel-n4", "in a stream of four choices", GAUGE, by_gauge),
)


def outcome(found: Sequence[Exchange], read: Callable[[Sequence[Exchange]], Aborted]) -> tuple[Effect, str]:
    """What one conversation came to."""
    try:
        seen = read(found)
    except Unsupported as reason:
        return Effect.REFUSED, str(reason)[:120]
    except (Inconclusive, NotApplicable) as reason:
        return Effect.UNCLEAR, str(reason)[:120]
    return (Effect.HELD if seen.seconds is not None else Effect.IGNORED), seen.text[:120]


def table(exchanges: Iterable[Exchange]) -> Table:
    """The table of what was recorded; of several samples the worst one is shown."""
    wanted = {scenario for scenario, *_ in _ROWS}
    takes: dict[str, dict[tuple[str, int], list[Exchange]]] = {}
    for x in exchanges:
        if x.scenario in wanted:
            takes.setdefault(x.scenario, {}).setdefault((x.place, x.transcript.sample), []).append(x)
    rows: dict[str, Row] = {}
    for scenario, moment, channel, read in _ROWS:
        if scenario in takes:
            row = rows.setdefault(moment, Row(moment, (moment,), {}))
            cells = [_cell(found, read) for found in takes[scenario].values()]
            row.cells[channel] = min(cells, key=lambda cell: WORST_FIRST.index(cell.outcome))
    return Table(ID, "Cancellation", _LEGEND, ("the client leaves",), (GAUGE, BLACK_BOX, GPU), tuple(rows.values()))


def _cell(found: Sequence[Exchange], read: Callable[[Sequence[Exchange]], Aborted]) -> Cell:
    owner = next((x for x in found if x.transcript.step == LEFT), found[0])
    return Cell(*outcome(found, read), owner.transcript.id)
