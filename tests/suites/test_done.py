"""The rules about the end of a stream."""

from __future__ import annotations

from typing import Any

import pytest

from wireproof.read.endpoints import exchange_of
from wireproof.read.exchange import Exchange
from wireproof.verdict import Status
from wireproof.wire.transcript import Ending

from .wire import broken, chunk, stream, text, usage_chunk, verdict

ERROR = {"error": {"message": "the engine failed", "type": "server_error", "param": None, "code": None}}
USAGE = {"stream_options": {"include_usage": True}}
HELLO = text("hel", "lo")


def mine(x: Exchange) -> set[str]:
    return broken(x, areas=("done", "chunk"))


def ended(*data: Any, **options: Any) -> Exchange:
    return stream(*HELLO, *data, done=False, **options)


RIGHT = {
    "stop": stream(*HELLO),
    "length": stream(*text("hel", finish="length")),
    "usage": stream(*HELLO, usage_chunk(), request=USAGE),
    "two choices": stream(*text("a"), *text("b", index=1), request={"n": 2}),
    "a comment after it": ended("[DONE]", b": bye\n\n"),
    "CRLF": ended(b"data: [DONE]\r\n\r\n"),
    "no space": ended(b"data:[DONE]\n\n"),
    "an error, then [DONE]": stream(*HELLO[:2], ERROR),
    "an error alone": stream(*HELLO[:2], ERROR, done=False),
    "an error in an event": stream(*HELLO[:2], b'event: error\ndata: {"message": "no"}\n\n', done=False),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_ends_break_nothing(name: str) -> None:
    assert mine(RIGHT[name]) == set()


ONCE, EVERY = "done.marker.once-and-last", "done.marker.every-finish"

WRONG: list[tuple[str, set[str], Exchange]] = [
    ("missing", {"done.marker.exact"}, ended()),
    ("lower case", {"done.marker.exact"}, ended("[done]")),
    ("trailing space", {"done.marker.exact"}, ended("[DONE] ")),
    ("another word", {"done.marker.exact"}, ended("END")),
    ("JSON string", {"done.marker.not-json"}, ended('"[DONE]"')),
    ("JSON object", {"done.marker.not-json"}, ended('{"done": true}')),
    ("no field name", {"done.marker.not-json"}, ended(b"[DONE]\n\n")),
    ("twice", {ONCE}, ended("[DONE]", "[DONE]")),
    ("first", {ONCE, EVERY}, stream("[DONE]", *HELLO, done=False)),
    ("before the usage", {ONCE}, ended("[DONE]", usage_chunk(), request=USAGE)),
    (
        "B1-198 after each choice",
        {ONCE, EVERY},
        stream(*text("a"), "[DONE]", *text("b", index=1), request={"n": 2}),
    ),
    ("never finished", {"done.choices.all-finished"}, stream(*HELLO[:-1])),
    (
        "the second choice never finished",
        {"done.choices.all-finished"},
        stream(*text("a"), *text("b", index=1)[:-1], request={"n": 2}),
    ),
    ("cut off cleanly", {"done.choices.all-finished", "done.marker.exact"}, stream(*HELLO[:-1], done=False)),
]


@pytest.mark.parametrize(("rules", "x"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_a_wrong_end_fails_its_rules_and_no_others(rules: set[str], x: Exchange) -> None:
    assert mine(x) == rules


def test_a_torn_body_and_our_own_leaving_are_not_judged() -> None:
    for ending in (Ending.CLIENT_LEFT, Ending.RESET):
        x = stream(*HELLO[:2], done=False, ending=ending)
        reads = x.transcript.reads[:-1]  # the last chunk of the transfer coding never came
        torn = exchange_of(x.transcript.__class__(**{**x.transcript.__dict__, "reads": reads}))
        assert mine(torn) == set()
        assert verdict("done.marker.exact", torn) is Status.INCONCLUSIVE
        assert verdict("done.choices.all-finished", torn) is Status.INCONCLUSIVE


def test_a_stream_that_hangs_without_done_is_judged() -> None:
    x = stream(*HELLO, done=False, ending=Ending.IDLE_TIMEOUT)
    assert verdict("done.marker.exact", x) is Status.FAIL


@pytest.mark.parametrize(
    ("times", "ending", "status"),
    [
        ([0.1] * 6, Ending.COMPLETE, Status.PASS),
        ([0.1] * 5 + [0.9], Ending.CLOSED, Status.PASS),
        ([0.1] * 5 + [1.4], Ending.COMPLETE, Status.FAIL),
        ([0.1] * 6, Ending.IDLE_TIMEOUT, Status.FAIL),
        (None, Ending.COMPLETE, Status.NOT_APPLICABLE),
    ],
)
def test_the_body_ends_soon_after_done(times: list[float] | None, ending: Ending, status: Status) -> None:
    assert verdict("done.body.ends-soon", stream(*HELLO, times=times, ending=ending)) is status


@pytest.mark.parametrize(
    ("times", "ending", "status"),
    [
        ([0.1] * 3, Ending.CLOSED, Status.PASS),
        ([0.1] * 3 + [30.0], Ending.CLOSED, Status.FAIL),
        ([0.1] * 3, Ending.TOTAL_TIMEOUT, Status.FAIL),
        (None, Ending.UNKNOWN, Status.NOT_APPLICABLE),
    ],
)
def test_a_stream_ends_after_an_error(times: list[float] | None, ending: Ending, status: Status) -> None:
    x = stream(*HELLO[:2], ERROR, done=False, times=times, ending=ending)
    assert verdict("done.error.stream-ends", x) is status


def test_an_abort_reported_as_success_is_left_to_the_finish_rules() -> None:
    """B1-015: the stream itself ends well; what is wrong is its finish_reason."""
    assert mine(stream(*HELLO[:2], chunk({}, finish="abort"))) == set()
