"""The rules for tokenizer endpoints, on answers written by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.scenarios.conversations.tokenize import MESSAGES, TEXT
from wireproof.verdict import Status

from .wire import broken, completion, exchange, explain, plain, usage, verdict

AREAS = ("tokenize",)
IDS = [3, 1, 4, 1, 5]
GOOD = {"count": 5, "max_model_len": 4096, "tokens": IDS}
ERROR = {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}}


def step(
    name: str, answer: Any, status: int = 200, asked: Any = None, path: str = "/tokenize", seconds: float = 0.01
) -> Exchange:
    """One step of the conversation."""
    return plain(
        answer,
        json.dumps({"model": "m", **({"prompt": TEXT} if asked is None else asked)}).encode(),
        status,
        scenario="tokenize",
        step=name,
        path=path,
        times=[seconds],
        method="GET" if name in ("info", "models") else "POST",
    )


def take(**changes: Any) -> list[Exchange]:
    """The whole conversation with a sound server; `changes` replaces steps (None leaves one out)."""
    steps: dict[str, Any] = {
        "text_v1": step("text-v1", ERROR, 404, path="/v1/tokenize"),
        "text_root": step("text-root", GOOD),
        "info": step("info", ERROR, 404, path="/tokenizer_info"),
        "models": step("models", {"object": "list", "data": [{"id": "m"}]}, path="/v1/models"),
        "back": step("back", {"prompt": TEXT}, asked={"tokens": IDS}, path="/detokenize"),
        "special": step("special", {**GOOD, "count": 6, "tokens": [1, *IDS]}),
        "bad_nothing": step("bad-nothing", ERROR, 400, asked={"prompt": None}),
    }
    steps.update(changes)
    return [x for x in steps.values() if x is not None]


def test_a_sound_server_breaks_nothing() -> None:
    assert broken(*take(), areas=AREAS) == set()
    for rule in ("endpoint.works", "count.consistent", "detokenize.inverts", "discoverable", "errors-and-speed"):
        assert verdict(f"tokenize.{rule}", *take()) is Status.PASS, rule
    assert verdict("tokenize.special-tokens.only-differ", *take()) is Status.PASS


@pytest.mark.parametrize("body", [ERROR, {"detail": "Not Found"}, "nothing here", b""], ids=str)
def test_no_such_endpoint_is_unsupported(body: Any) -> None:
    absent = [step("text-v1", body, 404, path="/v1/tokenize"), step("text-root", body, 404)]
    assert broken(*absent, areas=AREAS) == set()
    for rule in ("endpoint.works", "count.consistent", "detokenize.inverts", "discoverable", "errors-and-speed"):
        assert verdict(f"tokenize.{rule}", *absent) is Status.UNSUPPORTED, rule


@pytest.mark.parametrize(
    "answer",
    [
        {**GOOD, "tokens": ["a"] * 5},
        {**GOOD, "tokens": None},
        {**GOOD, "count": "5"},
        {"tokens": IDS, "max_model_len": 9},
        [3, 1],
        {},
    ],
    ids=str,
)
def test_odd_answers(answer: Any) -> None:
    assert broken(*take(text_root=step("text-root", answer)), areas=AREAS) == {"tokenize.endpoint.works"}
    assert verdict("tokenize.endpoint.works", step("text-root", ERROR, 500)) is Status.FAIL


def test_counts() -> None:
    for wrong in ({**GOOD, "count": 6}, {**GOOD, "max_model_len": 0}, {**GOOD, "max_model_len": "4096"}):
        x = step("text-root", wrong)
        assert broken(x, areas=AREAS) >= {"tokenize.count.consistent"}
    # vLLM says null where it does not give the texts of the tokens; SGLang may leave the length out.
    assert broken(*take(text_root=step("text-root", {**GOOD, "token_strs": None})), areas=AREAS) == set()


def measured(count: Any = 41, more: dict[str, Any] | None = None, prompt: Any = 41, **asked: Any) -> list[Exchange]:
    """Messages that were counted, and a chat with the same."""
    counted = step("messages", {"count": count, "tokens": [0] * 41}, asked={"messages": MESSAGES, **(more or {})})
    body = completion("hello", usage={**usage(), "prompt_tokens": prompt})
    return [counted, plain(body, {"messages": MESSAGES, **asked})]


def test_count_and_usage() -> None:
    rule = "tokenize.count.equals-usage"
    assert verdict(rule, *measured()) is Status.PASS
    assert verdict(rule, *measured(more={"add_generation_prompt": True})) is Status.PASS
    assert verdict(rule, *measured(prompt=40)) is Status.FAIL
    assert "41" in explain(rule, *measured(prompt=40))
    # Not the same prompt, or not one that the endpoint counts.
    for other in (
        measured(prompt=40, more={"add_generation_prompt": False}),
        measured(prompt=40, more={"continue_final_message": True}),
        measured(prompt=40, response_format={"type": "json_object"}),
        measured(prompt=40, tools=[{"type": "function", "function": {"name": "f"}}]),
        measured(prompt=None),
        measured(count=None),
    ):
        assert verdict(rule, *other) is Status.INCONCLUSIVE
    assert verdict(rule, plain(), plain()) is Status.NOT_APPLICABLE


def test_back() -> None:
    for answer in ({"prompt": TEXT}, {"text": TEXT}, {"content": TEXT}, {"prompt": f" {TEXT}"}):
        assert broken(*take(back=step("back", answer, asked={"tokens": IDS}, path="/detokenize")), areas=AREAS) == set()
    wrong: tuple[Any, ...] = ({"prompt": TEXT[:-1]}, {"prompt": [TEXT]}, {}, [TEXT], {"x": 1})
    for answer in wrong:
        x = step("back", answer, asked={"tokens": IDS}, path="/detokenize")
        assert broken(*take(back=x), areas=AREAS) == {"tokenize.detokenize.inverts"}


def test_special_tokens() -> None:
    rule = "tokenize.special-tokens.only-differ"
    for good in (IDS, [1, *IDS], [*IDS, 2], [1, *IDS, 2]):
        assert verdict(rule, *take(special=step("special", {"count": 1, "tokens": good}))) is Status.PASS
    for bad in ([1, *IDS[1:]], [1, 3, 9, 4, 1, 5], [*IDS, 2, 2, 2, 2, 2]):
        assert verdict(rule, *take(special=step("special", {"count": 1, "tokens": bad}))) is Status.FAIL


def test_discoverable() -> None:
    rule = "tokenize.discoverable"
    bare = step("text-root", {"count": 5, "tokens": IDS})
    assert broken(*take(text_root=bare), areas=AREAS) == {rule}
    card = {"object": "list", "data": [{"id": "m", "meta": {"n_ctx_train": 4096}}]}
    assert verdict(rule, *take(text_root=bare, models=step("models", card, path="/v1/models"))) is Status.PASS
    info = step("info", {"tokenizer_class": "X"}, path="/tokenizer_info")
    assert verdict(rule, *take(text_root=bare, info=info)) is Status.PASS


def test_errors_and_speed() -> None:
    rule = "tokenize.errors-and-speed"
    for answer, status in (({"count": 0, "tokens": []}, 200), (ERROR, 500)):
        x = step("bad-nothing", answer, status, asked={"prompt": None})
        assert broken(*take(bad_nothing=x), areas=AREAS) == {rule}
    assert broken(*take(text_root=step("text-root", GOOD, seconds=2.5)), areas=AREAS) == {rule}
    assert verdict(rule, *take(bad_nothing=step("bad-nothing", {"detail": []}, 422, asked={}))) is Status.PASS


ODD: list[Any] = [None, True, 7, 1.5, "x", [], ["x"], {}, {"tokens": 1}, [None]]


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_odd_types_are_no_crash(value: Any) -> None:
    for name in ("count", "max_model_len", "tokens"):
        broken(*take(text_root=step("text-root", {**GOOD, name: value})), areas=AREAS)
        broken(*take(special=step("special", {**GOOD, name: value})), areas=AREAS)
        broken(*measured(count=value), areas=AREAS)
    for name in ("models", "info", "back", "special", "text-root"):
        broken(*take(**{name.replace("-", "_"): step(name, value if value is not None else "null")}), areas=AREAS)
    broken(*take(models=step("models", {"data": value})), *take(models=step("models", {"data": [value]})), areas=AREAS)
    raw = exchange([b"{}"], headers={}, scenario="tokenize", step="text-v1", path="/v1/tokenize", request=b"[1]")
    broken(raw, areas=AREAS)
