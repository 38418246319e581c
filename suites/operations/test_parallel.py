"""Parallel requests: each gets its own answer, and none holds up the others."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from wireproof.judge.rules import MUST, SHOULD, contract, engine, of, rule
from wireproof.read.chat import Chat
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Take
from wireproof.read.refusal import BUSY, BUSY_OR_LOCKED
from wireproof.scenarios.conversations.load import OWN, SHARED, nonce
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.transcript import Ending

_HUNG = frozenset({Ending.IDLE_TIMEOUT, Ending.TOTAL_TIMEOUT})
_BY_STEP = {f"{'own' if n < OWN else 'shared'}-{n:02}": nonce(n) for n in range(OWN + SHARED)}
_NONCES = tuple(_BY_STEP.values())


@rule(
    "operations.nonce.no-mixing",
    MUST,
    on=of("parallel-nonces"),
    source=contract("an answer belongs to one request; mlx-lm issue 965, ray issue 45723"),
)
def test_no_mixing(take: Take) -> None:
    """Each of several parallel requests, even with the same X-Request-Id, gets its own answer and no word of another.

    A mixed-up KV cache or a table of answers by request id shows one user what another one asked. Half of the requests
    are streams, because servers hand out the pieces of a batch in other code.
    """
    shown = 0
    for x in take.chats():
        own = _BY_STEP.get(x.transcript.step)
        if own is None or not x.ok:
            continue
        said = _said(x)
        foreign = [n for n in _NONCES if n != own and n in said]
        require(not foreign, f"no word but its own, {own}", got=", ".join(foreign[:3]), owner=x)
        shown += own in said
    if not shown:
        raise take.chats()[0].refused() if not take.chats()[0].ok else inconclusive("no answer has its own word")


def _said(x: Chat) -> str:
    """All that an answer says: its bytes, and the joined pieces of a stream."""
    return "\n".join([x.text, *(o.content for o in x.outcomes if isinstance(o.content, str))])


@rule(
    "operations.request-id.shared",
    MUST,
    on=of("parallel-nonces"),
    source=engine("vllm", "issue 10583", "https://github.com/vllm-project/vllm/issues/10583"),
)
def test_shared_id(take: Take) -> None:
    """The server answers all parallel requests that share an X-Request-Id, or refuses them with a 4xx.

    Gateways pass one trace id on to several calls: an engine that keys its requests by it hangs on the second one.
    """
    found = take.chats("shared")
    if not found:
        raise inconclusive("the conversation did not reach its requests with a shared id")
    if any(x.transcript.ending in _HUNG for x in take.chats("own")):
        raise inconclusive("requests with their own ids hang as well: operations.streams.all-end judges that")
    if all(x.status in BUSY_OR_LOCKED for x in found):
        raise found[0].refused()
    lost = next((x for x in found if _is_lost(x)), None)
    got = (lost.refusal() if lost.status else f"no answer ({lost.transcript.ending.value})") if lost else ""
    require(lost is None, "an answer or a 4xx for each", got=got, owner=lost)


def _is_lost(x: Exchange) -> bool:
    """Whether a request got no answer of its own: none, half of one, or a server error."""
    return x.status is None or (x.status >= 500 and x.status != BUSY) or x.transcript.ending in _HUNG


def _streams(take: Take) -> list[Chat]:
    found = take.chats("stream-")
    refused = next((x for x in found if x.response is not None and not x.ok), None)
    if refused is not None:
        raise refused.refused()
    return found


@rule(
    "operations.streams.all-end",
    MUST,
    on=of("parallel-streams"),
    source=engine("lmdeploy", "issue 3144", "https://github.com/InternLM/lmdeploy/issues/3144"),
)
def test_streams_all_end(take: Take) -> None:
    """Eight parallel streams all begin and finish.

    In lmdeploy only the first one of a batch finished; the others hung until their clients timed out.
    """
    for x in _streams(take):
        hung = x.transcript.ending in _HUNG or x.response is None
        got = f"{x.transcript.step}: {x.transcript.ending.value} after {x.transcript.ended_at:.1f} s"
        require(not hung, "every stream to end", got=got, owner=x)


def _first_chunk(x: Chat) -> float | None:
    """When the first chunk was there (seconds after its request)."""
    if not x.is_event_stream or not x.chunks:
        return None
    end = x.chunks[0].event.span[1]
    return next((at for upto, at in x.answered.arrivals if upto >= end), None)


@rule(
    "operations.streams.parallel",
    SHOULD,
    on=of("parallel-streams"),
    book="OPERATIONS-006",
    source=contract("continuous batching"),
)
def test_streams_parallel(take: Take) -> None:
    """When streams begin together, a second one gets its first token before the first one ends.

    Otherwise one long answer blocks everybody behind it.
    """
    found = [x for x in _streams(take) if x.transcript.timed and x.transcript.ending not in _HUNG]
    times = [(at, x.transcript.ended_at) for x in found if (at := _first_chunk(x)) is not None]
    if len(times) < 2:
        raise inconclusive("fewer than two streams have chunks with times")
    end = min(ended for _, ended in times)
    begun = sorted(at for at, _ in times)
    if end - begun[0] < 0.02:
        raise inconclusive(f"a whole stream took only {end - begun[0]:.3f} s: too fast to tell")
    got = f"the first one ended after {end:.2f} s, the second one began after {begun[1]:.2f} s"
    require(begun[1] < end, "a second stream that begins before the first one ends", got=got)


@rule(
    "operations.schema.no-stall",
    SHOULD,
    on=of("schema-stall"),
    book="OPERATIONS-007",
    source=contract("grammars are compiled beside the engine's loop"),
)
def test_schema_no_stall(take: Take) -> None:
    """While the server prepares a large schema of another request, a running stream goes on.

    A grammar that is compiled in the engine's loop freezes all streams for seconds. Only a silence of more than two
    seconds counts here, and only if it is twenty times the usual gap between tokens or more.
    """
    x, schema = take.chat("stream"), take.chat("schema")
    if not schema.ok:
        raise schema.refused()
    if not x.ok or not x.is_event_stream:
        raise x.refused()
    gaps, alone = _gaps(x), _gaps(take.chat("alone"))
    if len(gaps) < 20 or len(alone) < 10:
        raise inconclusive("a stream came in only a few pieces: too few to tell a silence by")
    if alone[-1] > 1.0:
        raise inconclusive(f"the target is silent for {alone[-1]:.1f} s even when it is alone")
    usual, longest = median(gaps), gaps[-1]
    got = f"{longest:.2f} s of silence; usually {usual:.3f} s, and at most {alone[-1]:.2f} s when it is alone"
    require(longest <= max(2.0, 20 * usual, 5 * alone[-1]), "a stream that goes on", got=got, owner=x)


def _gaps(x: Chat) -> list[float]:
    """The silences between the pieces of a stream up to its last chunk, the longest last."""
    if not x.is_event_stream or not x.chunks or not x.transcript.timed:
        return []
    last = x.chunks[-1].event.span[1]  # (how it ends is another matter)
    return sorted(b - a for a, b in pairwise(at for upto, at in x.answered.arrivals if upto <= last))


@rule(
    "operations.logprobs.opt-in-cost",
    SHOULD,
    on=of("logprobs-cost"),
    book="OPERATIONS-010",
    source=contract("who does not ask for logprobs does not pay for them"),
)
def test_logprobs_opt_in_cost(take: Take) -> None:
    """A request without logprobs is no slower than the same one with logprobs.

    If it is, the server computes them for everybody, or has lost its fast path. Only a request that takes more than
    half as long again, and more than a quarter of a second longer, counts as slower.
    """
    times: dict[str, list[float]] = {}
    for step in ("without", "with"):
        found = [x for x in take.chats() if x.transcript.step == step][1:]  # the first one warms up
        refused = next((x for x in found if not x.ok), None)
        if refused is not None:
            raise refused.refused()
        if not found:
            raise inconclusive("the conversation did not finish")
        if not all(x.transcript.timed for x in found):
            raise NotApplicable("the recording has no times")
        times[step] = sorted(x.transcript.ended_at for x in found)
    without, scored = median(times["without"]), median(times["with"])
    slower = without > 1.5 * scored and without - scored > 0.25 and times["without"][0] > times["with"][-1]
    got = f"{without:.2f} s without, {scored:.2f} s with logprobs"
    require(not slower, "a request without logprobs that is no slower", got=got)
