"""The server stops working for a client that has left: its own gauges show it, or how fast it is again."""

from __future__ import annotations

from wireproof.judge.rules import SHOULD, contract, engine, of, rule
from wireproof.read.aborts import (
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
from wireproof.read.leaving import CONTROL, LIMIT
from wireproof.read.recording import Take
from wireproof.verdict import NotApplicable, inconclusive, require


def _stopped(found: Aborted) -> None:
    """Require an abort within the limit."""
    require(found.seconds is not None, f"an abort within {LIMIT:.0f} s", got=found.text, owner=found.owner)


@rule(
    "cancel.stream.aborts",
    SHOULD,
    on=of("cancel-stream"),
    book="CANCEL-001",
    source=contract("half-closed connection"),
)
def test_stream_aborts(take: Take) -> None:
    """When the client closes the connection mid-stream, the server stops generating within 5 seconds.

    Otherwise the GPU works for nobody until max_tokens, and requests that somebody waits for queue behind it:
    llama.cpp kept such slots busy up to the end of the context.
    """
    found = by_gauge(take.exchanges)
    if not had_tokens(left(take.exchanges)):
        raise inconclusive("no token had come when we disconnected: cancel.before-first-byte.aborts judges that")
    _stopped(found)


@rule(
    "cancel.black-box.aborts",
    SHOULD,
    on=of("cancel-black-box"),
    book="CANCEL-002",
    source=contract("a server without metrics shows it by its pace"),
)
def test_black_box_aborts(take: Take) -> None:
    """After the clients of four long streams have left, a short request is as fast again as it was alone.

    Without a gauge, this is what other clients notice: retries of impatient ones pile up work for nobody.
    """
    _stopped(by_black_box(take.exchanges))


@rule(
    "cancel.gpu.aborts",
    SHOULD,
    on=of("cancel-gpu"),
    source=contract("check whether the GPU's utilisation drops"),
)
def test_gpu_aborts(take: Take) -> None:
    """After the client of a long stream has left, the GPU that worked for it is idle again.

    A gauge counts what the server believes; the GPU shows what is computed, and paid for. wireproof looks at the GPUs
    of its own machine, if NVIDIA's tool answers there.
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
    """When the client closes the connection of a plain request, the server stops generating within 5 seconds.

    Web frameworks notice a closed connection on their own only while they stream: clients that time out and retry
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
    """If the client leaves before the first token, while its prompt is read or queued, the work ends within 5 seconds.

    Some servers look for the client only when they have a token to send: they read the long prompt of an agent that
    has left to its end, and answer it.
    """
    _stopped(before_first_token(take.exchanges))


@rule(
    "cancel.queued.aborts",
    SHOULD,
    on=of("cancel-queued"),
    source=contract("who gave up in the queue is not worked for later"),
)
def test_queued_aborts(take: Take) -> None:
    """When the client leaves while its request waits for a place, the server takes the request out of the queue.

    Under load most requests are abandoned there: an engine that works through them one by one stays busy for clients
    that have left, until those that are still there leave in their turn.
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
    """When the client leaves a request with n = 4, the server stops generating all four choices.

    Engines that run each choice as a request of its own have aborted only the first one.
    """
    _stopped(by_gauge(take.exchanges))


@rule(
    "cancel.structured.aborts",
    SHOULD,
    on=of("cancel-structured"),
    source=contract("an abort ends the grammar's work, too"),
)
def test_structured_aborts(take: Take) -> None:
    """When the client leaves a stream under a strict schema, the server stops generating within 5 seconds.

    Requests with a grammar often run on a path, and in a queue, of their own: an abort that does not look there leaves
    the most expensive answers running.
    """
    found = by_gauge(take.exchanges)
    if not had_tokens(left(take.exchanges)):
        raise inconclusive("no token had come when we disconnected: cancel.before-first-byte.aborts judges that")
    _stopped(found)


def _aborted(take: Take) -> None:
    """Not applicable unless the gauge showed an abort: cancel.stream.aborts judges that."""
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
    """After an abort, the server counts no more tokens as generated, and uses as much of its KV cache as before.

    Blocks that an aborted request keeps are lost to all others until the server restarts.
    """
    _aborted(take)
    start, during, end = baseline(take.exchanges), readings(take.exchanges, "during"), readings(take.exchanges, "end")
    if len(end) < 2 or (start.generated is None and start.held is None):
        raise NotApplicable("the target shows neither generated tokens nor the use of its KV cache")
    if end[-1].load > start.load:
        raise NotApplicable("others are using the target now: its counters say nothing about our request")
    if end[0].generated is not None and end[1].generated is not None:
        more = end[1].generated - end[0].generated
        require(more <= 0, "a counter of generated tokens that stands still", got=f"{more:g} more within 0.5 s")
    peak = max((r.held for r in during if r.held is not None), default=None)
    if start.held is None or end[-1].held is None or peak is None or peak <= start.held:
        return
    kept = (end[-1].held - start.held) / (peak - start.held)
    got = f"{end[-1].held:.4%} of the KV cache in use ({start.held:.4%} before, {peak:.4%} during)"
    require(kept <= 0.25, "the same KV cache use as before", got=got)


@rule(
    "cancel.counted-as-aborted",
    SHOULD,
    on=of("cancel-stream"),
    book="CANCEL-009",
    source=engine("vllm", 'vllm:request_success_total{finished_reason="abort"}; sglang:num_aborted_requests_total'),
)
def test_counted_as_aborted(take: Take) -> None:
    """The server counts an aborted request as aborted, and not as a success.

    Otherwise dashboards and alerts show a healthy service while its clients leave.
    """
    _aborted(take)
    start, end = baseline(take.exchanges), readings(take.exchanges, "end")
    if start.aborted is None or not end or end[-1].aborted is None:
        raise NotApplicable("the target has no counter of aborted requests")
    aborts = end[-1].aborted - start.aborted
    others = "" if start.ended is None or end[-1].ended is None else f", other ends {end[-1].ended - start.ended:+g}"
    require(aborts >= 1, "one more aborted request", got=f"aborted {aborts:+g}{others}")
    if start.ended is not None and end[-1].ended is not None:
        own = sum(x.ok for x in take.steps(CONTROL))  # ended by itself
        more = end[-1].ended - start.ended - own
        require(more <= 0, "no more ends of other kinds than the control's", got=f"aborted {aborts:+g}{others}")
