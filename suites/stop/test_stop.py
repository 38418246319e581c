"""Stop strings."""

from __future__ import annotations

from typing import Any

from wireproof.judge.rules import MUST, SHOULD, Each, Twins, contract, each_of, of, openapi, rule
from wireproof.read.chat import Chat, is_answer
from wireproof.read.exchange import Exchange
from wireproof.read.refusal import must_accept, must_not_crash, must_refuse
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get, parse

_PINNED = "alpha beta gamma delta epsilon"
_STOP = "StopConfiguration"
_PINNED_STOPS = ("plain-stop", "stream-stop", "plain-stop-one-string", "stream-stop-one-string")


def _stops(x: Exchange) -> list[str]:
    """The stop strings that the request asks for."""
    given = x.asked.get("stop")
    found = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    return [s for s in found if isinstance(s, str) and s]


_STOPPED = Each("every answer to a request with stop", lambda x: is_answer(x) and bool(_stops(x)), _PINNED_STOPS)


def _texts(x: Chat) -> list[str]:
    return [o.content for o in x.outcomes if isinstance(o.content, str)]


def _pinned_cut(x: Chat) -> tuple[str, str, str]:
    """Of a pinned answer: the text before the stop string, the stop string, and the pinned text that came."""
    stop = next((s for s in _stops(x) if s in _PINNED), "")
    if not stop:
        raise inconclusive("no stop string of the request occurs in the pinned answer")
    head = _PINNED.partition(stop)[0]
    text = next(iter(_texts(x)), "")
    start = text.find(_PINNED[:6])
    if start < 0:
        raise inconclusive(f"the answer is not the pinned one: {text[:60]!r}")
    return head, stop, text[start:]


@rule(
    "stop.forms.accepted",
    MUST,
    on=each_of("stop-one-string", "stop-four", "stop-four-stream"),
    book="PARAM-005",
    source=openapi(_STOP),
)
def test_forms_accepted(x: Exchange) -> None:
    """The server accepts stop as one string or as an array of up to four.

    Prompt scaffolding uses both forms; a refusal breaks it on the first call.
    """
    must_not_crash(x)  # the form is OpenAI's own, and no other rule demands an answer to it
    must_accept(x, "this form of stop")


@rule(
    "stop.text.excluded",
    MUST,
    on=_STOPPED,
    book="PARAM-006",
    source=openapi(f"{_STOP}: the returned text will not contain the stop sequence"),
)
def test_text_excluded(x: Chat) -> None:
    """No answer contains a stop string that the request asks for.

    Parsers rely on it: a ReAct agent reads its own "Observation:" as if the tool had spoken.
    """
    if x.asked.get("include_stop_str_in_output") is True:
        raise NotApplicable("the request asks for the stop string in the text")
    for text in _texts(x):
        found = next((s for s in _stops(x) if s in text), None)
        require(found is None, f"no {found!r} in the text", got=text[-80:])


@rule("stop.match.any-position", MUST, on=each_of(*_PINNED_STOPS), source=openapi(_STOP))
def test_match_any_position(x: Chat) -> None:
    """The answer ends exactly where the stop string begins, even inside a word or across tokens.

    A server that matches whole tokens runs on to the limit, or drops the letters before the match.
    """
    head, stop, text = _pinned_cut(x)
    kept = text.startswith(head)
    require(kept, f"{head!r} up to the stop string", got=text)
    rest = text[len(head) :]
    # Other rules judge a stop string, or its beginning, that stays in the text.
    require(stop.startswith(rest), f"an end at the stop string {stop!r}", got=text)


@rule(
    "stop.stream.no-partial",
    MUST,
    on=each_of("stream-stop", "stream-stop-one-string"),
    book="PARAM-007",
    source=openapi(_STOP),
)
def test_stream_no_partial(x: Chat) -> None:
    """A stream never shows the beginning of a stop string that the server recognises later.

    Users see "STO"; agents find half a marker in their prompt.
    """
    head, stop, text = _pinned_cut(x)
    rest = text[len(head) :]
    partial = text.startswith(head) and 0 < len(rest) < len(stop) and stop.startswith(rest)
    at = x.assembled.choices[0].parts[-1]
    require(not partial, f"nothing of the stop string {stop!r}", got=f"{rest!r} at the end", at=at)


@rule(
    "stop.text.nothing-lost",
    MUST,
    on=of("plain-pinned", "plain-stop-near-miss", "stream-stop-near-miss", "stop-held-at-end", "stop-held-stream"),
    source=contract("text that is held back is sent in the end"),
)
def test_nothing_lost(whole: Chat, *with_stop: Chat) -> None:
    """When only the beginning of a stop string occurs, the server removes no character.

    Text that the server holds back in case a stop string begins there is lost at the end: the last word disappears.
    """
    wanted = _pinned_value(whole)
    if wanted != _PINNED:
        raise inconclusive("the server does not obey the schema that pins the text")
    for x in with_stop:
        for o in x.outcomes:
            if o.finish_reason == "length":
                raise inconclusive("the answer was cut off")
            found = _pinned_value(x)
            require(found == wanted, "the whole text, as without stop", got=_texts(x) or "no text", owner=x)


def _pinned_value(x: Chat) -> Any:
    return get(parse(next(iter(_texts(x)), "")).value, "text")


@rule(
    "stop.parity.with-plain",
    MUST,
    on=Twins(
        "the same request with stop at temperature 0, plain and streamed",
        lambda x: is_answer(x) and bool(_stops(x)),
        ("plain-stop", "stream-stop", "plain-stop-one-string", "stream-stop-one-string"),
    ),
    source=contract("one answer, two ways to send it"),
)
def test_parity_with_plain(plain: Chat, stream: Chat) -> None:
    """An answer that ends at a stop string has the same text, streamed or not.

    Different code looks for the stop string in each mode; each has lost or leaked text on its own.
    """
    if any(o.finish_reason == "length" for o in (*plain.outcomes, *stream.outcomes)):
        raise inconclusive("the answer was cut off before the stop string")
    wanted, found = _texts(plain), _texts(stream)
    if not wanted or not found:
        raise inconclusive("an answer has no text")
    require(found == wanted, f"{wanted[0]!r} as in the plain answer", got=found, owner=stream)


@rule(
    "stop.values.refused",
    SHOULD,
    on=each_of("stop-five", "stop-number", "stop-numbers"),
    book="PARAM-008",
    source=openapi(f"{_STOP}: maxItems 4, strings"),
)
def test_values_refused(x: Chat) -> None:
    """The server refuses a stop other than a string or array of strings with a 4xx; it refuses or obeys more than four.

    If the server silently ignores stop, the answer runs on, and nothing says why.
    """
    if x.ok and len(_stops(x)) > 4:
        return  # a server may take more; stop.text.excluded judges whether it obeys them
    must_refuse(x, "this stop")
