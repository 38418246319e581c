"""The matrix as JSON, for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from wireproof.stored.run_record import RunRecord

from ..matrix import matrix_json
from . import Format


def render(records: Sequence[RunRecord], *, level: str = "must") -> str:
    """Rules by engine version."""
    return json.dumps(matrix_json(records, level=level), indent=1)


FORMAT = Format("json", title="Matrix", suffix=".json", help="write the matrix as JSON", render=render)
