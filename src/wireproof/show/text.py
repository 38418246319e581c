"""Text that is safe to show: in a terminal, and in every report.

What the target sent is shown, never obeyed, neither as markup nor as an escape sequence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from wireproof.judge.summary import Summary
from wireproof.read.exchange import Exchange
from wireproof.show.excerpt import Excerpt, curl, printable
from wireproof.tables.table import Effect, Table
from wireproof.verdict import Verdict, Violation
from wireproof.wire.transcript import Transcript

ROWS = 16  # lines of arrival times in an excerpt
TEXT = 400  # characters of one value
CURL = 4000  # a longer curl line is left out: it would bury the failure
NAMED = 12  # ignored rows of an outcome table that its line names

# Invisible or direction-changing characters that `printable` leaves, and what XML forbids.
_HIDDEN = re.compile("[\u061c\u200e\u200f\u2060-\u2064\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]")


def _visible(text: str) -> str:
    return _HIDDEN.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def safe(text: object, limit: int = TEXT) -> str:
    """Any text on one line, in which odd characters can be seen; cut after `limit` characters (0: never)."""
    value = str(text)
    if limit and len(value) > limit:
        value = f"{value[:limit]}… ({len(value)} characters)"
    return _visible(printable(value.encode("utf-8", "surrogatepass")).replace("\\n\n", "\\n"))


def safe_curl(transcript: Transcript, limit: int = CURL) -> str:
    """The curl line that repeats an exchange, safe to print; a line on why not when it is too long."""
    if transcript.tags.guessed:
        return "# the recording does not say what was asked"
    line = curl(transcript.request)
    if len(line) > limit:
        where = f"transcript {safe(transcript.id)} of the run record"
        return f"# too long for a line ({len(line)} characters): the request is in {where}"
    return "\n".join(safe(part, 0) for part in line.split("\n"))


@dataclass(frozen=True)
class Arrival:
    """Bytes that arrived together: a time since the request ("" when unknown), and (text, marked) parts."""

    time: str
    parts: tuple[tuple[str, bool], ...]


def rows(found: Excerpt, limit: int = ROWS) -> list[Arrival]:
    """The pieces of an excerpt by arrival; a dribble of many reads is put together to `limit` rows."""
    groups: list[tuple[list[float], list[tuple[str, bool]]]] = []
    for piece in found.pieces:
        times = [] if piece.at is None else [round(piece.at, 3)]
        if not groups or groups[-1][0][-1:] != times:
            groups.append((times, []))
        groups[-1][1].append((_visible(piece.text), piece.marked))
    step = -(-len(groups) // limit) or 1
    out = []
    for start in range(0, len(groups), step):
        together = groups[start : start + step]
        known = [t for times, _ in together for t in times]
        label = f"+{known[0]:.3f} s" if known else ""
        if known and known[-1] != known[0]:
            label = f"+{known[0]:.3f} to {known[-1]:.3f} s"
        out.append(Arrival(label, _joined([part for _, parts in together for part in parts])))
    return out


def _joined(parts: Iterable[tuple[str, bool]]) -> tuple[tuple[str, bool], ...]:
    out: list[tuple[str, bool]] = []
    for text, marked in parts:
        if out and out[-1][1] == marked:
            text = out.pop()[0] + text
        out.append((text, marked))
    return tuple(out)


def place(violation: Violation, found: Excerpt) -> str:
    """Where the marked bytes are, in words."""
    start, end = found.span
    if violation.span is None:
        return f"the answer's body, {found.total} bytes, begins"
    if start == end:
        return f"at byte {start} of {found.total}"
    return f"bytes {start} to {end} of {found.total}"


def head(violation: Violation, transcripts: Mapping[str, Transcript]) -> list[str]:
    """Status line and headers of the answer that a violation is about."""
    transcript = transcripts.get(violation.transcript)
    response = Exchange(transcript).response if transcript else None
    if response is None or response.status is None:
        return []
    lines = [f"{response.status} {response.reason}".strip()]
    lines += [f"{name}: {value}" for name, value in response.headers[:40]]
    return [safe(line) for line in lines]


def samples(verdict: Verdict) -> str:
    """How often a case failed, when it was tried more than once."""
    if verdict.attempts <= 1:
        return ""
    return f"fails {verdict.failed} of {verdict.attempts} samples"


def clients(rule: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Who breaks, and how: (client, reaction), each once."""
    found = [(safe(c.get("client", "")), safe(c.get("reaction", ""))) for c in rule.get("clients") or []]
    return list(dict.fromkeys(found))


def source(rule: Mapping[str, Any]) -> str:
    """What the rule rests on, in words."""
    kind, ref = safe(rule.get("source", "")), safe(rule.get("ref", ""))
    return f"{kind} ({ref})" if ref else kind


def counts_line(summary: Summary, hidden: int = 0) -> str:
    """How many rules came to each status; `hidden` of the not-applicable ones cannot be observed."""
    warnings = len(summary.warnings)
    counts = dict(summary.counts)
    counts["fail"] -= warnings
    counts["not-applicable"] -= hidden
    named = [f"{counts['pass']} pass", f"{counts['fail']} fail"]
    named += [f"{warnings} {'warning' if warnings == 1 else 'warnings'}"] if warnings else []
    named += [f"{counts[s]} {s}" for s in ("error", "inconclusive", "unsupported", "not-applicable") if counts[s]]
    named += [f"{hidden} cannot be observed"] if hidden else []
    return ", ".join(named)


def table_line(table: Table) -> str:
    """An outcome table in one line."""
    return f"{safe(table.title)}: {table_counts(table)}"


def table_counts(table: Table) -> str:
    """How many cells of an outcome table came to what, and which rows have one that was ignored."""
    counts = table.counts()
    always = (Effect.HELD, Effect.IGNORED)
    order = (Effect.HELD, Effect.REFUSED, Effect.UNCLEAR, Effect.IGNORED)  # the names follow what was ignored
    parts = [f"{counts[o]} {o.value}" for o in order if counts[o] or o in always]
    ignored = [r for r in table.rows if any(c.outcome is Effect.IGNORED for c in r.cells.values())]
    names = list(dict.fromkeys(safe(r.labels[0] if r.labels else r.name) for r in ignored))
    line = ", ".join(parts)
    if names:
        line += f": {', '.join(names[:NAMED])}"
    return line + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def cost_line(cost: Mapping[str, float]) -> str:
    """What a run cost, in words."""
    tokens = f"{cost.get('prompt_tokens', 0):.0f} prompt and {cost.get('completion_tokens', 0):.0f} completion tokens"
    return f"{cost.get('requests', 0):.0f} requests, {tokens}, {cost.get('seconds', 0):.1f} s"
