"""The rules for histories of tool calls, on answers written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.scenarios.conversations.tools import CODE_WORD
from wireproof.verdict import Status

from .wire import broken, completion, explain, plain, usage, verdict

AREAS = ("tool",)
ENVELOPE = {"error": {"message": "No.", "type": "invalid_request_error", "param": "messages", "code": None}}
USUAL = "tools-auto-none-needed"
TOOLS = [{"type": "function", "function": {"name": "get_weather"}}]
STEPS = ("null", "absent", "empty", "nulls", "no-calls", "parts", "more")
FORMS = {
    "absent": "tool.history.content-forms-equal",
    "empty": "tool.history.content-forms-equal",
    "nulls": "tool.history.nulls-as-absent",
    "parts": "tool.history.parts-equal",
    "no-calls": "tool.history.empty-calls-keep-text",
}
RULES = {*FORMS.values(), "tool.history.null-content-accepted", "tool.history.tool-message-counts"}


def usual(status: int = 200) -> Exchange:
    return plain(None if status == 200 else ENVELOPE, {"tools": TOOLS}, status, scenario=USUAL)


def said(
    step: str, prompt: Any = 60, scenario: str = "tool-history", status: int = 200, text: Any = "Rain."
) -> Exchange:
    """The answer to one step; without usage when `prompt` is None."""
    body: Any = completion(text, usage=usage(prompt, 2) if isinstance(prompt, int) else prompt)
    tags = {"optional": "tools"}
    return plain(body if status == 200 else ENVELOPE, {"tools": TOOLS}, status, scenario=scenario, step=step, tags=tags)


def histories(**changed: Exchange) -> list[Exchange]:
    """All forms, right but for some."""
    return [
        usual(),
        *(changed.get(s.replace("-", "_"), said(s, 85 if s == "more" else 60)) for s in STEPS),
    ]


def failed(*exchanges: Exchange) -> set[str]:
    return broken(*exchanges, areas=AREAS)


def test_right_histories_break_nothing() -> None:
    assert failed(*histories()) == set()
    assert all(verdict(rule, *histories()) is Status.PASS for rule in RULES)


@pytest.mark.parametrize("step", FORMS)
def test_a_form_that_makes_another_prompt(step: str) -> None:
    """B2-107, B2-111, B2-113."""
    wrong = histories(**{step.replace("-", "_"): said(step, 51)})
    assert failed(*wrong) == {FORMS[step]}
    assert "60" in explain(FORMS[step], *wrong)


@pytest.mark.parametrize("step", FORMS)
def test_a_form_that_is_refused(step: str) -> None:
    """B2-106, B2-111. tool_calls [] alone may be refused."""
    wrong = histories(**{step.replace("-", "_"): said(step, status=400)})
    assert failed(*wrong) == ({FORMS[step]} if step != "no-calls" else set())


@pytest.mark.parametrize("step", FORMS)
def test_a_form_that_crashes_the_server(step: str) -> None:
    """B2-110, B2-113: one rule for all."""
    assert failed(*histories(**{step.replace("-", "_"): said(step, status=500)})) == {"tool.choice.no-5xx"}


def test_parts_may_be_joined_by_a_line_break() -> None:
    assert failed(*histories(parts=said("parts", 61))) == set()
    assert failed(*histories(parts=said("parts", 63))) == {"tool.history.parts-equal"}


def test_null_content() -> None:
    assert failed(*histories(null=said("null", status=400))) == {"tool.history.null-content-accepted"}
    no_tools = [usual(400), *(said(s, status=400) for s in STEPS)]
    assert failed(*no_tools) == set()


def test_results_count() -> None:
    rule = "tool.history.tool-message-counts"
    assert failed(*histories(more=said("more", 60))) == {rule}
    assert failed(*histories(more=said("more", status=400))) == {rule}
    assert verdict(rule, *histories(more=said("more", {}))) is Status.INCONCLUSIVE


@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, {"prompt_tokens": "60"}, {"prompt_tokens": None}])
def test_junk_usage_is_no_exception(junk: Any) -> None:
    for step in STEPS:
        assert failed(*histories(**{step.replace("-", "_"): said(step, {"x": 1})})) == set()
        x = plain({**completion("x"), "usage": junk}, {"tools": TOOLS}, scenario="tool-history", step=step)
        assert failed(*histories(**{step.replace("-", "_"): x})) == set()


def loop(*statuses: int) -> list[Exchange]:
    return [said(f"turn-{n}", scenario="tool-loop", status=s) for n, s in enumerate(statuses, 1)]


def test_own_message() -> None:
    """B2-015."""
    rule = "tool.history.own-message-accepted"
    assert verdict(rule, *loop(200, 200, 200, 200, 200)) is Status.PASS
    assert failed(*loop(200, 404)) == {rule}
    assert failed(*loop(200, 200, 400)) == {rule}
    assert failed(*loop(200, 500)) == {"tool.choice.no-5xx"}
    assert verdict(rule, *loop(200)) is Status.INCONCLUSIVE
    assert verdict(rule, *loop(200, 200, 200)) is Status.INCONCLUSIVE
    assert verdict(rule, *loop(400)) is Status.UNSUPPORTED


def talk(told: Any, result: Any, finish: str = "stop") -> list[Exchange]:
    found = plain(completion(result, finish), {"tools": TOOLS}, scenario="tool-code-word", step="result")
    return [said("told", scenario="tool-code-word", text=told), found]


def test_result_used() -> None:
    rule = "tool.history.result-used"
    word = f"The code word is {CODE_WORD}."
    call = {"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    assert verdict(rule, *talk(word, f"It says {CODE_WORD}")) is Status.PASS
    assert verdict(rule, *talk(word, "I do not know.")) is Status.FAIL
    assert verdict(rule, *talk("Hello!", "I do not know.")) is Status.INCONCLUSIVE
    assert verdict(rule, *talk(word, "I do not", "length")) is Status.INCONCLUSIVE
    again = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}
    assert verdict(rule, *talk(word, again, "tool_calls")) is Status.INCONCLUSIVE


EDGES = {
    "history-orphan": "tool.history.orphan-no-5xx",
    **{
        f"history-{edge}": "tool.history.edge-no-5xx"
        for edge in (
            *("result-empty", "result-null", "result-missing", "result-object"),
            *("id-mismatch", "unanswered", "arguments-cut", "two-assistants"),
        )
    },
}


@pytest.mark.parametrize("name", EDGES)
def test_edges(name: str) -> None:
    """B2-112; ambiguous 20: both answers are right, a 5xx is not."""

    def x(status: int) -> Exchange:
        body = None if status == 200 else ENVELOPE
        return plain(body, {"tools": TOOLS}, status, scenario=name, tags={"valid": "no"})

    assert failed(x(200)) == failed(x(400)) == failed(x(422)) == set()
    assert verdict(EDGES[name], x(400)) is Status.PASS
    assert failed(x(500)) == {EDGES[name]}
    assert verdict(EDGES[name], x(503)) is Status.INCONCLUSIVE
