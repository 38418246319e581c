"""144 wires whose effect on clients was measured: which rules each of them breaks, and that benign ones break none.

The table is `fixtures/clients/expected_rules.json`. It was read case by case: a wire named by its defect is caught
by the rule about that defect. A rule that is added, or judges differently, shows here by the cases it moves.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import pytest

from wireproof.judge import rules
from wireproof.judge.judge import judge_all
from wireproof.judge.rules import Level, Rule
from wireproof.read.recording import Recording, Take
from wireproof.verdict import Status, fold

from .wires import cases, expected

LATER = frozenset(expected()["later"])
NOW = sorted(set(cases()) - LATER)

# What clients took without loss, and what OpenAI itself or the standard allows: no MUST may fail on these.
BENIGN = """
    good crlf cr nospace heartbeat heartbeat_single_nl heartbeat_empty_choices id_field_each event_message_field
    role_every_chunk multiline_pretty role_empty_string role_null_after
    finish_with_content finish_content_null finish_content_empty
    usage_null_elsewhere first_choices_empty error_null_each n2_in_order n2_same_chunk obfuscation
    delta_ext_str_reasoning delta_ext_number delta_ext_bool
    tool_finish_stop tool_good tool_empty_list_content tool_calls_null tool_id_null_later tool_id_empty_later
    tool_args_null_first tool_args_missing_first tool_no_args_at_all
    par_sequential par_interleaved par_same_chunk lp_content_null lp_repeat_cumulative
    error_mid_obj event_error_obj err_400 err_400_intcode err_404_model
    ns_good ns_ctype_charset ns_tool_good ns_tool_empty_list ns_tool_args_empty
""".split()  # noqa: SIM905


@functools.cache
def _judged_rules() -> Mapping[str, Rule]:
    areas = frozenset(expected()["areas"])
    return {r.id: r for r in rules.load().values() if r.area in areas and r.level is not Level.MAY}


@functools.cache
def _broken(name: str) -> frozenset[str]:
    recorded = Recording((Take(name, 0, (cases()[name].exchange(),)),))
    found = {rule: fold(v.status for v in vs) for rule, vs in judge_all(_judged_rules().values(), recorded).items()}
    crashed = [rule for rule, status in found.items() if status is Status.ERROR]
    assert not crashed, f"these checks crashed: {crashed}"
    return frozenset(rule for rule, status in found.items() if status is Status.FAIL)


def _musts(name: str) -> set[str]:
    return {rule for rule in _broken(name) if _judged_rules()[rule].level is Level.MUST}


def test_the_table_is_about_every_measured_case_and_existing_rules() -> None:
    """Protects the table from going stale: a new wire needs its row, a renamed rule its new name."""
    table = expected()["cases"]
    assert set(table) == set(cases())
    assert {rule for found in table.values() for rule in found} <= set(_judged_rules())
    assert set(table) >= LATER and not any(table[name] for name in LATER)


@pytest.mark.parametrize("name", NOW)
def test_a_wire_breaks_exactly_these_rules(name: str) -> None:
    """Protects each rule on bytes that nobody wrote for it: it catches its defect, and no other rule cries."""
    assert sorted(_broken(name)) == expected()["cases"][name]


@pytest.mark.parametrize("name", sorted(BENIGN))
def test_benign_wires_break_no_must(name: str) -> None:
    """Protects servers that are right from crying wolf."""
    assert _musts(name) == set()


@pytest.mark.parametrize("name", sorted(LATER))
def test_wires_of_later_suites_break_no_must_here(name: str) -> None:
    """Protects the areas from each other: a wrong tool call is not a wrong stream."""
    assert _musts(name) == set()


@pytest.mark.parametrize("name", sorted(set(NOW) - set(BENIGN)))
def test_a_wire_that_is_a_defect_breaks_a_must(name: str) -> None:
    """Protects against a defect that is only a warning, or nothing."""
    assert _musts(name)
