"""One self-contained HTML file from run records: works from disk, without scripts, and on paper."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from wireproof.resources import folder
from wireproof.stored.run_record import RunRecord

from .. import outcome_view
from ..matrix import columns
from ..view import page
from . import Format


def _templates() -> Path:
    return folder("reports") / "templates"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def ticked(text: str) -> Markup:
    """Text of a rule in which `this` is set as code; everything is escaped."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return Markup.escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else Markup.escape(part)
        for number, part in enumerate(parts)
    )


def dotted(name: str) -> Markup:
    """A rule's id that may be broken after its dots, where a narrow column must break it."""
    return Markup(".<wbr>").join(Markup.escape(part) for part in name.split("."))


def render(
    records: Sequence[RunRecord],
    *,
    level: str = "must",
    fault_matrix: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """The report. `fault_matrix` maps rules to the faults that break them; without it the records' own is shown.

    Raises ValueError when there is no record.
    """
    import jinja2  # here, since the command line asks each format for its name: this takes longer than all else

    if not records:
        raise ValueError("a report needs a run record: make one with `wireproof run URL -o run.jsonl`")
    cols = columns(records, level=level)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_templates()),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(ticked=ticked, dotted=dotted)
    style = (_templates() / "report.css").read_text(encoding="utf-8")
    script = (_templates() / "filter.js").read_text(encoding="utf-8")
    # The page may load nothing and run nothing but our own two texts, whatever a target made it show.
    policy = f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}"
    return environment.get_template("report.html").render(
        page(cols, level, fault_matrix),
        level=level,
        tables=outcome_view.views([(c.id, c.label, c.record) for c in cols]),
        policy=f"{policy}; base-uri 'none'; form-action 'none'",
        style=Markup(style),
        script=Markup(script),
    )


FORMAT = Format("html", title="HTML report", suffix=".html", help="write the HTML report", render=render)
