"""A stream's log probabilities against those of its plain twin."""

from __future__ import annotations

from wireproof.judge.rules import MUST, SHOULD, Twins, client, contract, rule
from wireproof.read.chat import Chat, is_answer
from wireproof.read.logprobs import Entry, Scored, finite, join, repeated, scored, uncovered
from wireproof.read.request import wants_logprobs
from wireproof.verdict import inconclusive, require

_TWINS = Twins(
    "the same request with log probabilities at temperature 0, plain and streamed",
    lambda x: is_answer(x) and wants_logprobs(x),
    ("plain-logprobs", "stream-logprobs", "plain-logprobs-tool", "stream-logprobs-tool"),
)
# Batching moves values in the third decimal; the tails of a distribution move more.
_NOISE = 0.05


def _pairs(plain: Chat, stream: Chat) -> list[tuple[Scored, Scored]]:
    """The choices of both with the same words and calls, where the plain answer has entries."""
    if plain.asked_n > 1:
        raise inconclusive("with several choices, it is unclear which is which")
    words = [(o.content or "", o.refusal or "", o.calls) for o in plain.outcomes]
    if words != [(o.content or "", o.refusal or "", o.calls) for o in stream.outcomes]:
        raise inconclusive("the two answers are not the same")
    found = [(p, s) for p, s in zip(scored(plain), scored(stream), strict=True) if p.entries]
    if not found:
        raise inconclusive("the plain answer has no log probabilities")
    if any(p.text and not s.entries for p, s in found) or uncovered(stream) or repeated(stream):
        raise inconclusive("entries are missing or repeated in the stream: other rules judge that")
    if any(_short(s) and not _short(p) for p, s in found):
        raise inconclusive("the stream's entries are not those of its text: other rules judge that")
    return found


def _short(s: Scored) -> bool:
    joined = join(s.entries)
    return joined is not None and len(joined) < len(s.text.encode("utf-8", "surrogatepass"))


def _same_token(a: Entry, b: Entry) -> bool:
    return bool(a.token == b.token or (a.bytes and a.bytes == b.bytes))


@rule(
    "logprobstream.parity.with-plain",
    MUST,
    on=_TWINS,
    source=client("openai-python", "the entries of a stream are put together to those of a plain answer"),
)
def test_parity(plain: Chat, stream: Chat) -> None:
    """A stream has the entries of the plain answer: the same number, for the same tokens, in the same order.

    Training on tool use reads them from streams: what a parser swallows is missing there, and nothing says so.
    """
    for p, s in _pairs(plain, stream):
        a, b = p.own, s.own
        first = next(
            (i for i, (e, f) in enumerate(zip(a, b, strict=False)) if not _same_token(e, f)), min(len(a), len(b))
        )
        if len(a) != len(b) or first < len(a):
            want = f"{len(a)} entries as in the plain answer, {[e.token for e in a[first : first + 3]]} at {first}"
            got = f"{len(b)}, {[e.token for e in b[first : first + 3]]} there"
            require(False, want, got=got, at=b[first].part if first < len(b) else None, owner=stream)


@rule(
    "logprobstream.values.as-plain",
    SHOULD,
    on=_TWINS,
    source=contract("one model, one distribution"),
)
def test_values(plain: Chat, stream: Chat) -> None:
    """A stream's log probabilities are those of the plain answer, within the noise of batching.

    A threshold that was tuned on one does not hold for the other.
    """
    for p, s in _pairs(plain, stream):
        if len(p.own) != len(s.own) or not all(map(_same_token, p.own, s.own)):
            raise inconclusive("the entries differ: logprobstream.parity.with-plain judges that")
        for a, b in zip(p.own, s.own, strict=True):
            u, v = finite(a.logprob), finite(b.logprob)
            if u is not None and v is not None:
                near = abs(u - v) <= _NOISE * max(1.0, abs(u))
                require(near, f"{a.logprob} as in the plain answer", got=b.logprob, at=b.part, owner=stream)
