"""Whether a stream is complete when it ends, and whether its body ends."""

from __future__ import annotations

from wireproof.judge.rules import MUST, SHOULD, Each, client, contract, observed, rule
from wireproof.judge.subjects import STREAMS
from wireproof.read.chat import Chat, is_stream
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get, is_int
from wireproof.wire.transcript import Ending

# From [DONE] to the end of the body, and from an error event to the end of the body (seconds).
_DONE_LIMIT, _ERROR_LIMIT = 1.0, 10.0
_HUNG = (Ending.IDLE_TIMEOUT, Ending.TOTAL_TIMEOUT)


@rule(
    "done.choices.all-finished",
    MUST,
    on=STREAMS,
    book="DONE-005",
    source=client("openai-node", "finalizeChatCompletion"),
    evidence=("finish_missing", "finish_only_done_no_finish_tool"),
)
def test_all_finished(x: Chat) -> None:
    """Every choice that a stream opens gets its finish_reason before the stream ends.

    openai-node's helper throws "missing finish_reason for choice 0"; the other clients take the truncated text
    for a whole answer.
    """
    assembled = x.finished_stream
    if not x.answered.framing.complete and x.transcript.ending not in _HUNG:
        raise inconclusive("the body broke off")
    for choice in assembled.choices:
        asked = is_int(choice.index) and 0 <= choice.index < x.asked_n  # others have rules of their own
        done = not asked or any(p.finish_reason for p in choice.parts)
        require(done, f"a finish_reason for choice {choice.index}", got="none", at=choice.parts[-1])


@rule("done.body.ends-soon", SHOULD, on=STREAMS, book="DONE-006", source=client("openai-python", "AsyncStream"))
def test_body_ends_soon(x: Chat) -> None:
    """The server ends the body of a stream within a second of [DONE].

    openai-python drains the body before it returns: a body that stays open blocks the caller, who already has
    the whole answer.
    """
    if not x.transcript.timed:
        raise NotApplicable("the recording has no times")
    if not x.done or x.cut_by_us:
        raise inconclusive("there is no [DONE], or we disconnected")
    last = x.done[-1]
    if x.events[-1] is not last:
        raise inconclusive("more follows [DONE], which done.marker.once-and-last judges")
    waited = x.transcript.ended_at - x.answered.at(last.span[1] - 1)
    soon = waited <= _DONE_LIMIT and x.transcript.ending not in _HUNG
    require(soon, "the end of the body within 1 s of [DONE]", got=f"{waited:.1f} s, {x.transcript.ending}", at=last)


_BROKEN_STREAMS = Each(
    "every chat stream with an error event",
    lambda x: is_stream(x) and bool(x.errors) and not x.cut_by_us,
    (),  # no request makes a sound server fail mid-stream
)


@rule(
    "done.error.no-success-after",
    MUST,
    on=_BROKEN_STREAMS,
    source=contract("an answer that failed is not finished"),
)
def test_no_success_after_error(x: Chat) -> None:
    """After an error event, no choice gets a finish_reason: an answer has either failed or finished.

    Clients that skip the event store the partial text as a whole answer; openai-python raises APIError at the
    event, and loses the rest.
    """
    first = next((e for e in x.errors if get(e.value, "choices") is None), None)
    if first is None:
        raise NotApplicable("the error is inside a chunk: chunk.error.absent judges that")
    late = next((p for p in x.assembled.parts if p.finish_reason and p.chunk.position > first.position), None)
    require(late is None, "no finish_reason after the error event", got=late and late.finish_reason, at=late)


@rule(
    "done.error.stream-ends",
    SHOULD,
    on=_BROKEN_STREAMS,
    book="DONE-007",
    source=observed("error event, then [DONE]", "https://github.com/sashabaranov/go-openai/pull/396"),
)
def test_error_ends_stream(x: Chat) -> None:
    """After an error event the server ends the stream, directly or with a final [DONE], and does not leave it open.

    Clients that ignore the event wait for more until they time out.
    """
    last = x.errors[-1]
    if x.transcript.ending is Ending.UNKNOWN:
        raise NotApplicable("the recording does not say how it ended")
    waited = x.transcript.ended_at - x.answered.at(last.event.span[1] - 1) if x.transcript.timed else 0.0
    closed = x.transcript.ending not in _HUNG and waited <= _ERROR_LIMIT
    require(closed, "the end of the stream after the error", got=f"still open after {waited:.1f} s", at=last)
