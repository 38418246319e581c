"""The [DONE] marker."""

from __future__ import annotations

from wireproof.judge.rules import MUST, client, openapi, rule
from wireproof.judge.subjects import STREAMS
from wireproof.read.chat import Chat
from wireproof.verdict import NotApplicable, Span, inconclusive, require
from wireproof.wire.sse import AnomalyKind
from wireproof.wire.transcript import Ending

_INCLUDE_USAGE = "ChatCompletionStreamOptions.include_usage"


def _at_its_end(x: Chat) -> None:
    """Continue only if the stream ended by itself: a torn body and an error have rules of their own."""
    if x.errors:
        raise inconclusive("the stream broke off with an error event")
    if x.cut_by_us:
        raise inconclusive("we disconnected before the stream ended")
    hung = x.transcript.ending in (Ending.IDLE_TIMEOUT, Ending.TOTAL_TIMEOUT)
    if not x.answered.framing.complete and not hung:
        raise inconclusive("the body broke off")
    if not x.events:
        if not x.is_empty_stream:
            raise inconclusive("the stream has no events")
        return
    if x.transcript.ending is Ending.UNKNOWN and not x.done and not x.events[-1].terminated:
        raise inconclusive("the recording ends inside an event")


def _home_made(x: Chat) -> tuple[str, Span] | None:
    """A terminator used in place of [DONE]: its text and its bytes."""
    for payload in x.payloads:
        value = payload.value
        quoted = isinstance(value, str) and value.strip().upper() == "[DONE]"
        flagged = isinstance(value, dict) and bool(value.get("done")) and "choices" not in value
        if quoted or flagged:
            return payload.event.data, payload.event.span
    for odd in x.anomalies(AnomalyKind.UNKNOWN_FIELD):
        if odd.detail.strip().upper().startswith("[DONE]"):
            return odd.detail, odd.span
    return None


@rule(
    "done.marker.exact",
    MUST,
    on=STREAMS,
    book="DONE-001",
    source=openapi(_INCLUDE_USAGE),
    evidence=("done_lower", "done_trailing_space", "missing_done"),
)
def test_done_exact(x: Chat) -> None:
    """A stream ends with an event whose data is exactly `[DONE]`.

    "[done]" is parsed as JSON and crashes openai-python, LangChain, LlamaIndex and openai-node. A missing one
    they forgive, and so cannot tell a finished answer from one whose worker died.
    """
    _at_its_end(x)
    require(not x.is_empty_stream, "a last event [DONE]", got="an event stream without any event", at=(0, 0))
    if not x.done and _home_made(x):
        raise NotApplicable("there is a marker in another form, which done.marker.not-json judges")
    last = x.events[-1]
    require(x.done, "a last event [DONE]", got=last.data[:80], at=last)
    for event in x.done:
        require(event.data == "[DONE]", "the six characters [DONE] and no more", got=repr(event.data), at=event)


@rule(
    "done.marker.not-json",
    MUST,
    on=STREAMS,
    book="DONE-002",
    source=openapi(f"{_INCLUDE_USAGE}: data: [DONE]"),
    evidence=("done_json_string", "done_json_obj", "done_bare"),
)
def test_done_not_json(x: Chat) -> None:
    """The marker is not JSON: no string `"[DONE]"`, no object {"done": true}, and no line without `data:`.

    For the string openai-python, LangChain and LlamaIndex raise AttributeError ('str' object has no attribute
    'choices'); the object crashes LlamaIndex and openai-node.
    """
    found = _home_made(x)
    require(found is None, "data: [DONE]", got=found and found[0], at=found and found[1])
    _at_its_end(x)


@rule(
    "done.marker.once-and-last",
    MUST,
    on=STREAMS,
    book="DONE-003",
    source=client("openai-python", "_streaming.Stream.__stream__"),
    evidence=("done_twice", "chunk_after_done"),
)
def test_done_once_and_last(x: Chat) -> None:
    """[DONE] occurs once and is the last event: nothing but comments may follow.

    Clients stop reading at the first one: later text and usage are silently lost. Only the AI SDK reads on.
    """
    if not x.done:
        raise inconclusive("there is no [DONE]")
    first = x.done[0]
    after = x.events[x.events.index(first) + 1 :]
    got = f"{len(after)} more, first {after[0].data[:60]}" if after else ""
    require(not after, "no event after [DONE]", got=got, at=after[0] if after else None)


@rule(
    "done.marker.every-finish",
    MUST,
    on=STREAMS,
    book="DONE-004",
    source=openapi(_INCLUDE_USAGE),
)
def test_done_every_finish(x: Chat) -> None:
    """The server sends [DONE] when all choices have finished, whatever their finish_reason, not after each of them.

    Clients stop at the first [DONE] and lose the other choices.
    """
    finished = [part for part in x.finished_stream.parts if part.finish_reason]
    if not x.done or not finished:
        raise inconclusive("there is no [DONE], or no finish_reason")
    late = next((p for p in finished if p.chunk.event.span[0] > x.done[0].span[0]), None)
    got = f"choice {late.index} finishes after it" if late else ""
    require(late is None, "[DONE] after the finish of every choice", got=got, at=late)
