"""Who leaves is not worked for any more: shown by the server's own gauges, or by how fast it is again."""

from __future__ import annotations

from wireproof.judge.rules import SHOULD, contract, engine, of, rule
from wireproof.read.aborts import (
    LIMIT,
    Aborted,
    baseline,
    before_first_token,
    by_black_box,
    by_gauge,
    by_gpu,
    by_queue,
    had_tokens,
    left,
    readings,
)
from wireproof.read.recording import Take
from wireproof.verdict import NotApplicable, inconclusive, require


def _stopped(found: Aborted) -> None:
    """The abort came, and within the limit."""
    require(found.seconds is not None, f"an abort within {LIMIT:.0f} s", got=found.text, owner=found.owner)


@rule(
    "cancel.stream.aborts",
    SHOULD,
    on=of("cancel-stream"),
    book="CANCEL-001",
    source=contract("half-closed connection"),
)
def test_stream_aborts(take: Take) -> None:
    """A client that closes the connection in mid-stream ends the generation within 5 seconds.

    The GPU otherwise works for nobody until max_tokens, and requests that somebody waits for queue behind it:
    llama.cpp kept such slots busy up to the end of the context.
    """
    found = by_gauge(take.exchanges)
    if not had_tokens(left(take.exchanges)):
        raise inconclusive("no token had come when we left: cancel.before-first-byte.aborts is about that")
    _stopped(found)


@rule(
    "cancel.black-box.aborts",
    SHOULD,
    on=of("cancel-black-box"),
    book="CANCEL-002",
    source=contract("a server without metrics shows it by its pace"),
)
def test_black_box_aborts(take: Take) -> None:
    """After four long streams were left, a short request is as fast again as it was alone.

    Where no gauge tells, this is what other clients feel: retries of impatient ones stack up work for nobody.
    """
    _stopped(by_black_box(take.exchanges))


@rule(
    "cancel.gpu.aborts",
    SHOULD,
    on=of("cancel-gpu"),
    source=contract("check whether the GPU's utilisation drops"),
)
def test_gpu_aborts(take: Take) -> None:
    """After a long stream was left, the GPU that worked for it is idle again.

    A gauge counts what the server believes; the GPU shows what is computed, and paid for. Looked at on the machine
    that wireproof runs on, where NVIDIA's tool answers.
    """
    _stopped(by_gpu(take.exchanges))


@rule(
    "cancel.plain.aborts",
    SHOULD,
    on=of("cancel-plain"),
    book="CANCEL-003",
    source=engine("vllm", "with_cancellation of non-streaming handlers"),
)
def test_plain_aborts(take: Take) -> None:
    """A client that closes the connection of a plain request ends its generation within 5 seconds, too.

    Web frameworks notice a closed connection by themselves only while they stream: clients that time out and retry
    then fill the engine with answers that nobody reads.
    """
    _stopped(by_gauge(take.exchanges))


@rule(
    "cancel.before-first-byte.aborts",
    SHOULD,
    on=of("cancel-prefill"),
    book="CANCEL-004",
    source=contract("long prompts are the most expensive ones to work on for nobody"),
)
def test_before_first_byte_aborts(take: Take) -> None:
    """A client that leaves before the first token, while its prompt is read or queued, ends the work within 5 seconds.

    Some servers look for the client only when they have a token to send: a long prompt of an agent that gave up is
    read to its end, and answered.
    """
    _stopped(before_first_token(take.exchanges))


@rule(
    "cancel.queued.aborts",
    SHOULD,
    on=of("cancel-queued"),
    source=contract("who gave up in the queue is not worked for later"),
)
def test_queued_aborts(take: Take) -> None:
    """A client that leaves while its request waits for a place is taken out of the queue.

    Under load most requests are abandoned there: an engine that works them off one by one stays busy for clients who
    have left, and makes those who are still there give up in their turn.
    """
    found = by_queue(take.exchanges)
    if had_tokens(left(take.exchanges)):
        raise inconclusive("a token had come: the request did not wait")
    _stopped(found)


@rule(
    "cancel.all-sequences.abort",
    SHOULD,
    on=of("cancel-n4"),
    book="CANCEL-005",
    source=contract("an abort is about the request, not about one of its sequences"),
)
def test_all_sequences_abort(take: Take) -> None:
    """A client that leaves a request with n = 4 ends the generation of all four choices.

    Engines that run each choice as a request of its own have aborted the first one only.
    """
    _stopped(by_gauge(take.exchanges))


@rule(
    "cancel.structured.aborts",
    SHOULD,
    on=of("cancel-structured"),
    source=contract("an abort ends the grammar's work, too"),
)
def test_structured_aborts(take: Take) -> None:
    """A client that leaves a stream under a strict schema ends its generation within 5 seconds.

    Requests with a grammar often run on a path, and in a queue, of their own: an abort that does not look there leaves
    the most expensive answers running.
    """
    found = by_gauge(take.exchanges)
    if not had_tokens(left(take.exchanges)):
        raise inconclusive("no token had come when we left: cancel.before-first-byte.aborts is about that")
    _stopped(found)


def _aborted(take: Take) -> None:
    """Not applicable unless the gauge showed an abort: the rule about that says so."""
    if by_gauge(take.exchanges).seconds is None:
        raise NotApplicable("the request was not aborted: cancel.stream.aborts says so")


@rule(
    "cancel.counters.settle",
    SHOULD,
    on=of("cancel-stream"),
    book="CANCEL-008",
    source=engine("vllm", "vllm:kv_cache_usage_perc, vllm:generation_tokens_total"),
)
def test_counters_settle(take: Take) -> None:
    """After an abort no more tokens are counted as generated, and the share of the KV cache in use is as before.

    Blocks that an aborted request keeps are lost to all others until the server is started again.
    """
    _aborted(take)
    start, during, end = baseline(take.exchanges), readings(take.exchanges, "during"), readings(take.exchanges, "end")
    if len(end) < 2 or (start.generated is None and start.held is None):
        raise NotApplicable("the target shows neither generated tokens nor the use of its KV cache")
    if end[-1].load > start.load:
        raise NotApplicable("others use the target now: its counters tell nothing of ours")
    if end[0].generated is not None and end[1].generated is not None:
        more = end[1].generated - end[0].generated
        require(more <= 0, "a counter of generated tokens that stands still", got=f"{more:g} more within 0.5 s")
    peak = max((r.held for r in during if r.held is not None), default=None)
    if start.held is None or end[-1].held is None or peak is None or peak <= start.held:
        return
    kept = (end[-1].held - start.held) / (peak - start.held)
    got = f"{end[-1].held:.4%} of the KV cache in use ({start.held:.4%} before, {peak:.4%} during)"
    require(kept <= 0.25, "the use of the KV cache as before", got=got)


@rule(
    "cancel.counted-as-aborted",
    SHOULD,
    on=of("cancel-stream"),
    book="CANCEL-009",
    source=engine("vllm", 'vllm:request_success_total{finished_reason="abort"}; sglang:num_aborted_requests_total'),
)
def test_counted_as_aborted(take: Take) -> None:
    """An aborted request is counted as aborted, and not as a success.

    Dashboards and alerts otherwise show a healthy service while its clients give up.
    """
    _aborted(take)
    start, end = baseline(take.exchanges), readings(take.exchanges, "end")
    if start.aborted is None or not end or end[-1].aborted is None:
        raise NotApplicable("the target has no counter of aborted requests")
    aborts = end[-1].aborted - start.aborted
    others = "" if start.ended is None or end[-1].ended is None else f", other ends {end[-1].ended - start.ended:+g}"
    require(aborts >= 1, "one more aborted request", got=f"aborted {aborts:+g}{others}")
    if start.ended is not None and end[-1].ended is not None:
        own = sum(x.ok for x in take.steps("control"))  # ended by itself
        more = end[-1].ended - start.ended - own
        require(more <= 0, "no more ends of other kinds than the control's", got=f"aborted {aborts:+g}{others}")
