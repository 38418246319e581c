"""The run record: JSON Lines with a header, rules, transcripts, verdicts and a footer.

Everything that reports show is derived from it. It is validated by its schema when it
is written and when it is read; readers ignore keys that they don't know. A record
without a footer is a run that crashed, and says so.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import jsonschema

from wireproof.judge.rules import Rule, as_json
from wireproof.stored import pack
from wireproof.tables.table import Table
from wireproof.tables.table import as_json as table_json
from wireproof.tables.table import from_json as table_of
from wireproof.verdict import Status, Verdict, Violation
from wireproof.wire.transcript import Transcript, from_json, to_json

SCHEMA = "wireproof/run/1"


class RecordError(ValueError):
    """A run record that cannot be used; the message says which line, and what to do."""


@functools.cache
def _validators() -> Mapping[str, jsonschema.Draft202012Validator]:
    text = importlib.resources.files("wireproof.stored").joinpath("run.schema.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    return {
        kind: jsonschema.Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": schema["$defs"]})
        for kind in ("run", "rule", "transcript", "verdict", "table", "end")
    }


def validate(line: Mapping[str, Any]) -> None:
    """Raise RecordError when a line is not of the run record's schema. Unknown kinds pass."""
    validator = _validators().get(str(line.get("kind")))
    error = next(validator.iter_errors(line), None) if validator else None
    if error is not None:
        where = "/".join(str(p) for p in error.absolute_path)
        raise RecordError(
            f"a {line.get('kind')} line breaks the schema {SCHEMA} at {where or '(top)'}: {error.message[:200]}"
        )


def verdict_json(v: Verdict, level: str) -> dict[str, Any]:
    """One verdict as a line of the record."""
    out: dict[str, Any] = {"kind": "verdict", "rule": v.rule, "level": level, "case": v.case, "status": v.status.value}
    if v.violations:
        out["violations"] = [
            {"expected": x.expected, "got": x.got, "transcript": x.transcript, "span": list(x.span) if x.span else None}
            for x in v.violations
        ]
    if v.reason:
        out["reason"] = v.reason
    if v.attempts != 1:
        out["attempts"] = v.attempts
        out["failed"] = v.failed
    return out


def _verdict(line: Mapping[str, Any]) -> Verdict:
    return Verdict(
        rule=str(line["rule"]),
        case=str(line.get("case", "")),
        status=Status(line["status"]),
        violations=tuple(
            Violation(x["expected"], x["got"], x.get("transcript", ""), tuple(x["span"]) if x.get("span") else None)
            for x in line.get("violations", [])
        ),
        reason=str(line.get("reason", "")),
        attempts=int(line.get("attempts", 1)),
        failed=int(line.get("failed", line["status"] == Status.FAIL)),  # left out for a single attempt
    )


class Writer:
    """Writes a record line by line, flushed, so that a crash keeps what was there.

    Raises RecordError when the file cannot be written.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: TextIO = path.open("w", encoding="utf-8")
        except OSError as error:
            raise RecordError(f"cannot write {path}: {error.strerror}; choose another file with -o") from error
        self.line({"kind": "run", "schema": SCHEMA, **header})

    def line(self, line: Mapping[str, Any]) -> None:
        """Append one validated line."""
        validate(line)
        self._file.write(json.dumps(line, ensure_ascii=True, separators=(",", ":")) + "\n")
        self._file.flush()

    def rule(self, r: Rule, faults: Sequence[str] = (), clients: Sequence[Mapping[str, str]] = ()) -> None:
        """Append what a rule is, so that a record explains itself."""
        self.line({"kind": "rule", **as_json(r, faults), "clients": [dict(c) for c in clients]})

    def transcript(self, t: Transcript) -> None:
        """Append one exchange."""
        self.line({"kind": "transcript", **to_json(t)})

    def verdict(self, v: Verdict, level: str) -> None:
        """Append one verdict."""
        self.line(verdict_json(v, level))

    def table(self, table: Table) -> None:
        """Append one outcome table."""
        self.line({"kind": "table", **table_json(table)})

    def end(self, counts: Mapping[str, int], cost: Mapping[str, float], exit_code: int, **more: Any) -> None:
        """Append the footer and close the file."""
        self.line({"kind": "end", "counts": dict(counts), "cost": dict(cost), "exit": exit_code, **more})
        self.close()

    def close(self) -> None:
        """Close the file; without a footer the record is that of a crashed run."""
        self._file.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


@dataclass(frozen=True)
class RunRecord:
    """A record as read: `end` is None for a run that crashed."""

    header: Mapping[str, Any]
    rules: Mapping[str, Mapping[str, Any]]
    transcripts: Mapping[str, Transcript]
    verdicts: tuple[Verdict, ...]
    end: Mapping[str, Any] | None
    path: str = ""
    extra: tuple[Mapping[str, Any], ...] = field(default=())
    tables: tuple[Table, ...] = ()

    @property
    def crashed(self) -> bool:
        """Whether the run ended without its footer."""
        return self.end is None

    @property
    def engine(self) -> tuple[str, str]:
        """Name and version of the engine, as far as known."""
        engine = self.header.get("engine") or {}
        return str(engine.get("name") or "unknown"), str(engine.get("version") or "")

    @property
    def label(self) -> str:
        """A short name for a column of the matrix."""
        given = self.header.get("label")
        return str(given) if given else " ".join(part for part in self.engine if part)


def parse(lines: Iterable[str], path: str = "") -> RunRecord:
    """Read a record from its lines.

    Raises RecordError, naming the line, when it is not a run record.
    """
    header: Mapping[str, Any] | None = None
    rules: dict[str, Mapping[str, Any]] = {}
    transcripts: dict[str, Transcript] = {}
    verdicts: list[Verdict] = []
    extra: list[Mapping[str, Any]] = []
    found_tables: list[Table] = []
    end: Mapping[str, Any] | None = None
    kept = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    for position, (number, text) in enumerate(kept, 1):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError) as error:
            if position == len(kept) and header is not None:
                break  # the torn last line of a crashed run
            raise RecordError(f"{path or 'the record'}, line {number}: not JSON: {error}") from error
        if not isinstance(line, dict):
            raise RecordError(f"{path or 'the record'}, line {number}: not a JSON object")
        kind = line.get("kind")
        if header is None and (kind != "run" or not str(line.get("schema", "")).startswith("wireproof/run/")):
            raise RecordError(
                f"{path or 'the record'} is not a wireproof run record: make one with `wireproof run URL -o run.jsonl`"
            )
        if header is None and line["schema"] != SCHEMA:
            raise RecordError(
                f"{path or 'the record'} has the schema {line['schema']}, this version reads {SCHEMA}: update wireproof"
            )
        try:
            validate(line)
        except RecordError as error:
            raise RecordError(f"{path or 'the record'}, line {number}: {error}") from error
        if kind == "run" and header is not None:
            raise RecordError(f"{path or 'the record'}, line {number}: a second header: these are two records")
        if kind == "run":
            header = line
        elif kind == "rule":
            rules[str(line["id"])] = line
        elif kind == "transcript":
            try:
                transcript = from_json(line)
            except ValueError as error:
                raise RecordError(f"{path or 'the record'}, line {number}: {error}") from error
            transcripts[transcript.id] = transcript
        elif kind == "verdict":
            verdicts.append(_verdict(line))
        elif kind == "table":
            found_tables.append(table_of(line))
        elif kind == "end":
            end = line
        else:
            extra.append(line)
    if header is None:
        raise RecordError(f"{path or 'the record'} is empty: make one with `wireproof run URL -o run.jsonl`")
    return RunRecord(header, rules, transcripts, tuple(verdicts), end, path, tuple(extra), tuple(found_tables))


def read(path: Path) -> RunRecord:
    """Read a record from a file, which may be compressed (.xz, .gz). Raises RecordError with what to do about it."""
    try:
        return parse(pack.read(path).decode("utf-8").split("\n"), str(path))
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecordError(f"{path} is not UTF-8 text, so it is no run record") from error
    except ValueError as error:
        raise error if isinstance(error, RecordError) else RecordError(str(error)) from error
