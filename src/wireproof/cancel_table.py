"""The cancellation table: when we left, and what each channel shows of the abort.

A channel that does not work on the target (no metrics, others who use it) leaves an unclear cell with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .aborts import Aborted, before_first_token, by_black_box, by_gauge, by_gpu, by_queue
from .exchange import Exchange
from .tables import Cell, Outcome, Row, Table
from .verdict import Inconclusive, NotApplicable, Unsupported

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


def outcome(found: Sequence[Exchange], read: Callable[[Sequence[Exchange]], Aborted]) -> tuple[Outcome, str]:
    """What one conversation came to."""
    try:
        seen = read(found)
    except Unsupported as reason:
        return Outcome.REFUSED, str(reason)[:120]
    except (Inconclusive, NotApplicable) as reason:
        return Outcome.UNCLEAR, str(reason)[:120]
    return (Outcome.HELD if seen.seconds is not None else Outcome.IGNORED), seen.text[:120]


def table(exchanges: Iterable[Exchange]) -> Table:
    """The table of what was recorded; of several samples the first one is shown."""
    wanted = {scenario for scenario, *_ in _ROWS}
    takes: dict[str, list[Exchange]] = {}
    for x in exchanges:
        if x.scenario in wanted and (x.scenario not in takes or _same_take(takes[x.scenario][0], x)):
            takes.setdefault(x.scenario, []).append(x)
    rows: dict[str, Row] = {}
    for scenario, moment, channel, read in _ROWS:
        if scenario in takes:
            found = takes[scenario]
            owner = next((x for x in found if x.transcript.step == "left"), found[0])
            row = rows.setdefault(moment, Row(moment, (moment,), {}))
            row.cells[channel] = Cell(*outcome(found, read), owner.transcript.id)
    return Table(ID, "Cancellation", _LEGEND, ("the client leaves",), (GAUGE, BLACK_BOX, GPU), tuple(rows.values()))


def _same_take(a: Exchange, b: Exchange) -> bool:
    return a.transcript.sample == b.transcript.sample and a.place == b.place
