"""JUnit XML from a run record: a suite for each area, a case for each rule."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from wireproof.judge.summary import Outcome
from wireproof.show.failure import failure_text
from wireproof.show.text import safe, table_counts
from wireproof.stored.run_record import RunRecord
from wireproof.verdict import Status

from ..matrix import Column, columns, contract, rule_lines
from . import Format

WIDTH = 100

# What XML 1.0 allows (production Char); all else has no form in XML, not even as a reference.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _xml(text: str) -> str:
    return _FORBIDDEN.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def render(record: RunRecord, *, level: str = "must") -> str:
    """The record as JUnit XML. Failures below the level pass, with their text as output."""
    column = columns([record], level=level)[0]
    root = ET.Element("testsuites", name=_xml(safe(f"wireproof {column.label}")))
    if record.end:
        root.set("time", f"{float(record.end['cost']['seconds']):.3f}")
    if record.crashed:
        suite = ET.SubElement(root, "testsuite", name="wireproof")
        case = ET.SubElement(suite, "testcase", classname="wireproof", name="the run ends with its footer")
        error = ET.SubElement(case, "error", message="the run crashed: its record has no footer", type="crashed")
        error.text = "The run ended early; the record holds what had been written by then. Run it again."
    elif record.end and record.end.get("error"):
        suite = ET.SubElement(root, "testsuite", name="wireproof")
        case = ET.SubElement(suite, "testcase", classname="wireproof", name="the run ends well")
        ET.SubElement(case, "error", message=_xml(safe(str(record.end["error"]))), type="ended-early")
    areas: dict[str, ET.Element] = {}
    for name, line in rule_lines([column]).items():
        area = _xml(safe(line["area"]))
        if area not in areas:
            areas[area] = ET.SubElement(root, "testsuite", name=area)
            _properties(areas[area], record)
        case = ET.SubElement(areas[area], "testcase", classname=f"wireproof.{area}", name=_xml(safe(name, 0)))
        _outcome(case, column, name, line)
    for suite in root:
        _count(suite)
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _properties(suite: ET.Element, record: RunRecord) -> None:
    engine, version = record.engine
    found = ET.SubElement(suite, "properties")
    for name, value in (
        ("target", (record.header.get("target") or {}).get("url", "")),
        ("engine", engine),
        ("version", version),
        ("model", (record.header.get("model") or {}).get("id", "")),
        ("wireproof", record.header.get("tool", "")),
        ("started", record.header.get("started", "")),
    ):
        ET.SubElement(found, "property", name=name, value=_xml(safe(value)))
    for title, text in contract(record):
        ET.SubElement(found, "property", name=title, value=_xml(text))
    for table in record.tables:
        ET.SubElement(found, "property", name=_xml(safe(table.title)), value=_xml(table_counts(table)))


def _outcome(case: ET.Element, column: Column, name: str, line: Mapping[str, Any]) -> None:
    outcome = column.outcomes.get(name)
    if outcome is None:
        why = f"cannot be observed: {line.get('reason', '')}" if not line.get("checked", True) else "not judged"
        ET.SubElement(case, "skipped", message=_xml(safe(why)))
    elif outcome.status is Status.FAIL:
        text = _xml(failure_text(line, outcome, column.record.transcripts, width=WIDTH).plain)
        if outcome.gates(column.level):
            failure = ET.SubElement(case, "failure", message=_message(outcome), type=_xml(safe(outcome.level)))
            failure.text = text
        else:
            ET.SubElement(case, "system-out").text = f"warning, below the level {column.level}\n{text}"
    elif outcome.status is Status.ERROR:
        ET.SubElement(case, "error", message=_xml(safe(outcome.reason)), type="error")
    elif outcome.status is not Status.PASS:
        ET.SubElement(case, "skipped", message=_xml(safe(f"{outcome.status.value}: {outcome.reason}")))


def _message(outcome: Outcome) -> str:
    violations = [x for v in outcome.failing for x in v.violations]
    if not violations:
        return "failed"
    return _xml(f"expected {safe(violations[0].expected)}, got {safe(violations[0].got)}")


def _count(suite: ET.Element) -> None:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(sum(1 for case in cases if case.find(tag) is not None)))


def _first(records: Sequence[RunRecord], *, level: str) -> str:
    return render(records[0], level=level)


FORMAT = Format(
    "junit",
    title="JUnit XML",
    suffix=".xml",
    help="write JUnit XML, one test case per rule; of several records, the first",
    render=_first,
)
