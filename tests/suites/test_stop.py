"""The rules for stop strings, on answers written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.verdict import Status

from .wire import broken, completion, explain, plain, stream, text, verdict

AREAS = ("stop",)
WHOLE = '{"text": "alpha beta gamma delta epsilon"}'
STOP = "ma delta ep"
HEAD = '{"text": "alpha beta gam'
LOST = "stop.text.nothing-lost"


def plain_stop(content: str, finish: str = "stop") -> Exchange:
    return plain(completion(content, finish), {"stop": [STOP]}, scenario="plain-stop")


def stream_stop(*pieces: str, finish: str = "stop") -> Exchange:
    return stream(*text(*pieces, finish=finish), request={"stop": [STOP]}, scenario="stream-stop")


def test_right_answers_break_nothing() -> None:
    assert broken(plain_stop(HEAD), stream_stop(HEAD[:9], HEAD[9:]), areas=AREAS) == set()


def test_ignored() -> None:
    """B1-061, B1-063, B1-067: the stop string has no effect."""
    both = {"stop.text.excluded", "stop.match.any-position"}
    assert broken(plain_stop(WHOLE, "length"), areas=AREAS) == both
    assert broken(stream_stop(WHOLE), areas=AREAS) == both
    assert STOP in explain("stop.text.excluded", plain_stop(WHOLE))


def test_kept() -> None:
    """B1-067, B1-068: the answer ends there, but the stop string stays in the text."""
    assert broken(plain_stop(HEAD + STOP), areas=AREAS) == {"stop.text.excluded"}
    asked = {"stop": [STOP], "include_stop_str_in_output": True}
    x = plain(completion(HEAD + STOP), asked, scenario="other")
    assert broken(x, areas=AREAS) == set()


def test_stop_as_one_string_is_judged_too() -> None:
    assert broken(plain(completion("1, 2, 3"), {"stop": "2"}), areas=AREAS) == {"stop.text.excluded"}
    assert broken(plain(completion("1, 2, 3"), {"stop": [2, None, ""]}), areas=AREAS) == set()


def test_letters_lost_before_the_match() -> None:
    """B1-067: matching by tokens takes the whole token away."""
    assert broken(plain_stop('{"text": "alpha beta '), areas=AREAS) == {"stop.match.any-position"}


def test_partial_leaks() -> None:
    """B1-064: characters of the stop string are sent before the match is complete."""
    leaked = stream_stop(HEAD, STOP[:-1])
    assert broken(leaked, areas=AREAS) == {"stop.stream.no-partial"}
    twins = plain_stop(HEAD), leaked
    assert broken(*twins, areas=AREAS) == {"stop.stream.no-partial", "stop.parity.with-plain"}


def test_nothing_lost() -> None:
    """B1-060: text that was held back is lost at the end."""

    def answers(last: str, finish: str = "stop") -> list[Exchange]:
        out = [plain(completion(WHOLE), scenario="plain-pinned")]
        for name in ("plain-stop-near-miss", "stop-held-at-end"):
            out.append(plain(completion(WHOLE), {"stop": ["epsilonX"]}, scenario=name))
        for name, content in (("stream-stop-near-miss", WHOLE), ("stop-held-stream", last)):
            out.append(stream(*text(content, finish=finish), request={"stop": ["epsilonX"]}, scenario=name))
        return out

    assert verdict(LOST, *answers(WHOLE)) is Status.PASS
    assert broken(*answers(WHOLE[:-2]), areas=AREAS) == {LOST, "stop.parity.with-plain"}
    assert verdict(LOST, *answers(WHOLE[:-2], "length")) is Status.INCONCLUSIVE
    free = [plain(completion("hello"), scenario="plain-pinned"), *answers(WHOLE)[1:]]
    assert verdict(LOST, *free) is Status.INCONCLUSIVE


def test_a_model_that_says_something_else_is_inconclusive() -> None:
    for rule in ("stop.match.any-position", "stop.stream.no-partial"):
        assert verdict(rule, stream_stop("hello")) is Status.INCONCLUSIVE


@pytest.mark.parametrize("status", [400, 422, 500])
def test_forms(status: int) -> None:
    refused = plain({"error": {"message": "stop"}}, {"stop": "5"}, status, scenario="stop-one-string")
    assert broken(refused, areas=AREAS) == {"stop.forms.accepted"}
    right = plain(completion("1, 2"), {"stop": "5"}, scenario="stop-one-string")
    assert verdict("stop.forms.accepted", right) is Status.PASS


@pytest.mark.parametrize("status", [401, 403, 408, 429, 503])
def test_a_busy_or_locked_server_is_not_judged(status: int) -> None:
    for name, stop in (
        ("stop-one-string", "5"),
        ("stop-four", ["5"]),
        ("stop-number", 5),
        ("stop-five", list("vwxyz")),
    ):
        x = plain({"error": {"message": "later"}}, {"stop": stop}, status, scenario=name)
        rule = "stop.forms.accepted" if name in ("stop-one-string", "stop-four") else "stop.values.refused"
        assert verdict(rule, x) is Status.INCONCLUSIVE


def test_values() -> None:
    def answer(stop: Any, status: int, name: str) -> Exchange:
        body = completion("1, 2") if status == 200 else {"error": {"message": "stop"}}
        return plain(body, {"stop": stop}, status, scenario=name, tags={"valid": "no"})

    rule = "stop.values.refused"
    assert broken(answer(5, 200, "stop-number"), areas=AREAS) == {rule}
    assert broken(answer([5], 200, "stop-numbers"), areas=AREAS) == {rule}
    assert broken(answer([5], 500, "stop-numbers"), areas=AREAS) == {rule}
    assert verdict(rule, answer([5], 422, "stop-numbers")) is Status.PASS
    for status in (200, 400):
        assert broken(answer(list("vwxyz"), status, "stop-five"), areas=AREAS) == set()


@pytest.mark.parametrize("junk", [None, 7, [None], {"a": 1}, [{"index": {}}], [{"message": {"content": ["x"]}}]])
def test_any_json_is_survived(junk: Any) -> None:
    for name in ("plain-stop", "stop-one-string", "stop-number", "plain-pinned"):
        broken(plain(completion(choices=junk), {"stop": [STOP]}, scenario=name), areas=AREAS)
    broken(stream({"choices": junk}, request={"stop": junk}, scenario="stream-stop"), areas=AREAS)
