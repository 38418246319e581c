"""What others notice of a client that leaves: nothing."""

from __future__ import annotations

from wireproof.judge.rules import MUST, contract, engine, of, rule
from wireproof.read.chat import Chat
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Take
from wireproof.read.refusal import BUSY
from wireproof.verdict import inconclusive, require
from wireproof.wire.transcript import Ending


def _fate(x: Exchange) -> str:
    """What became of a request, for a message."""
    return x.refusal() if x.response is not None else f"no answer ({x.transcript.ending.value})"


def _ends_by_itself(x: Chat) -> bool:
    """Whether a stream has a finish_reason of its own, and no error."""
    if not x.is_event_stream or x.errors:
        return False
    finishes = [c.finish_reason for c in x.assembled.choices]
    return bool(finishes) and all(isinstance(f, str) and f != "abort" for f in finishes)


@rule(
    "cancel.others.undisturbed",
    MUST,
    on=of("cancel-others"),
    book="CANCEL-006",
    source=contract("one client's leaving is no other client's business"),
)
def test_others_undisturbed(take: Take) -> None:
    """A client that leaves does not disturb another's stream, even if one request id is a prefix of the other.

    Engines that abort by a prefix of the id end a stranger's answer: its client sees half a text, or waits forever.
    """
    gone, other = take.chat("left"), take.chat("other")
    if not _ends_by_itself(take.chat("alone")):
        raise inconclusive("a stream on its own does not finish either: done.* and finish.* judge that")
    if other.response is not None and not other.ok:
        raise other.refused()
    if gone.transcript.ending is not Ending.CLIENT_LEFT or other.transcript.ended_at < gone.transcript.ended_at:
        raise inconclusive("the streams were over before we left one of them")
    came = other.response is not None
    require(came, "the other stream's answer", got=f"none ({other.transcript.ending.value})", owner=other)
    if not other.is_event_stream:
        raise other.refused()
    finishes = [c.finish_reason for c in other.assembled.choices]
    got = f"finish_reason {finishes}, the exchange {other.transcript.ending.value}"
    require(_ends_by_itself(other), "a stream that finishes normally", got=got, owner=other)


@rule(
    "operations.request-id.reused-after-cancel",
    MUST,
    on=of("cancel-others"),
    source=engine("vllm", "issue 23697", "https://github.com/vllm-project/vllm/issues/23697"),
)
def test_id_reused_after_cancel(take: Take) -> None:
    """The server answers a request with the X-Request-Id of one whose client has just left.

    Retry middleware keeps the id: while the abort of the first request is still under way, the second one hangs or is
    aborted in its place.
    """
    gone, again = take["left-again"], take["same-id"]
    if gone.transcript.ending is not Ending.CLIENT_LEFT:
        raise inconclusive("the answer was over before we left")
    if again.status is not None and (400 <= again.status < 500 or again.status == BUSY):
        raise again.refused()
    answered = again.status is not None and again.status < 300
    require(answered, "an answer to the second request", got=_fate(again), owner=again)


@rule(
    "cancel.many.still-serves",
    MUST,
    on=of("cancel-many"),
    book="CANCEL-007",
    source=contract("clients leave all the time"),
)
def test_many_still_serves(take: Take) -> None:
    """After thirty clients have left mid-stream, the server still answers.

    Workers, slots or KV blocks that leak with each of them take the service down within hours.
    """
    before, after = take["before"], take["then"]
    if not before.ok:
        raise before.refused()
    require(after.ok, "200 after thirty clients have left", got=_fate(after), owner=after)


@rule(
    "cancel.early.no-leak",
    MUST,
    on=of("cancel-early"),
    source=engine("vllm-ascend", "issue 10812", "https://github.com/vllm-project/vllm-ascend/issues/10812"),
)
def test_early_no_leak(take: Take) -> None:
    """After twenty clients leave at once, some before the first byte, the server serves as many at a time as before.

    A counter of running requests that goes up before the stream begins and down at its end leaks one place with each
    of them, until an idle server refuses everybody.
    """
    before, after = take.steps("before"), take.steps("then")
    refused = next((x for x in before if not x.ok), None)
    if refused is not None or not after:
        raise (refused or take["then"]).refused()
    lost = next((x for x in after if not x.ok), None)
    got = _fate(lost) if lost else ""
    require(lost is None, f"200 for each of {len(after)} requests at a time", got=got, owner=lost)
