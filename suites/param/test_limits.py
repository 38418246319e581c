"""Token limits: obeyed under both names, and survived when they make no sense."""

from __future__ import annotations

from wireproof.judge.rules import MUST, SHOULD, Each, client, each_of, openapi, rule
from wireproof.read.chat import Chat, is_chat
from wireproof.read.exchange import Exchange
from wireproof.read.refusal import is_refused, must_not_crash, names
from wireproof.verdict import Broken, inconclusive, require
from wireproof.wire.strictjson import is_int
from wireproof.wire.transcript import Ending

_OLD, _NEW = "max_tokens", "max_completion_tokens"
# In a request with only these members, nothing but the limit ends the answer or leads to a refusal.
_PLAIN = frozenset((*("model", "messages", "temperature", "seed", "stream", "stream_options"), _OLD, _NEW))
# Limits that most answers reach (tokens).
_SMALL = 8
# More than the longest token of any vocabulary in use (characters).
_LONGEST = 128
_NO_END = frozenset({Ending.IDLE_TIMEOUT, Ending.TOTAL_TIMEOUT, Ending.BYTE_LIMIT})


def _limited_by(x: Exchange, name: str) -> bool:
    """Whether a plain request has a small limit under this name and none under the other."""
    other = _NEW if name == _OLD else _OLD
    limit = x.asked.get(name)
    small = is_int(limit) and 0 < limit <= _SMALL
    plain = _PLAIN.issuperset(x.asked) and None not in x.asked.values()
    return is_chat(x) and x.valid and small and other not in x.asked and plain


def _tokens(x: Chat) -> int | None:
    found = (x.usage or {}).get("completion_tokens")
    return found if is_int(found) else None


def _must_limit(x: Chat, name: str) -> None:
    """Fail when the answer went on after the limit: more text than that many tokens can hold, or an end of its own
    after more tokens. The rules for usage judge counts alone."""
    limit = x.token_limit or 0
    outcomes = x.outcomes
    for o in outcomes:
        length = len(o.content) if isinstance(o.content, str) else 0
        require(length <= limit * _LONGEST, f"an answer of at most {limit} tokens ({name})", got=f"{length} characters")
    tokens = _tokens(x)
    if tokens is None:
        raise inconclusive("the answer has no completion_tokens")
    over = tokens > limit * x.asked_n and all(o.finish_reason != "length" for o in outcomes)
    require(not over, f"at most {limit * x.asked_n} tokens ({name})", got=f"{tokens}, not cut off")


@rule(
    "param.max-tokens.limits",
    MUST,
    on=Each(
        "every answer to a plain request with a small max_tokens",
        lambda x: x.ok and _limited_by(x, _OLD),
        ("plain-cut", "stream-cut", "plain-cut-one", "stream-cut-one"),
    ),
    book="PARAM-001",
    source=openapi("CreateChatCompletionRequest.max_tokens"),
)
def test_max_tokens_limits(x: Chat) -> None:
    """max_tokens limits the number of tokens in an answer.

    Otherwise cost and latency run away: one ignored limit led to an answer of 40,000 tokens.
    """
    _must_limit(x, _OLD)


@rule(
    "param.max-completion-tokens.limits",
    MUST,
    on=Each(
        "every plain request with a small max_completion_tokens",
        lambda x: x.response is not None and _limited_by(x, _NEW),
        ("plain-cut-completion-tokens", "stream-cut-completion-tokens"),
    ),
    book="PARAM-002",
    source=client("langchain-openai", "renames max_tokens to max_completion_tokens"),
)
def test_max_completion_tokens_limits(x: Chat) -> None:
    """The server accepts max_completion_tokens, which limits an answer like max_tokens.

    LangChain sends this name whatever the caller wrote; Void and OpenOats got a 400, and others 40,000 tokens.
    """
    blamed = not names(x, *(name for name in x.asked if name != _NEW)) or names(x, _NEW)
    require(not is_refused(x) or not blamed, "200 for max_completion_tokens", got=x.refusal())
    _must_limit(x, _NEW)


@rule(
    "param.both-limits.one-wins",
    SHOULD,
    on=each_of("both-limits"),
    book="PARAM-003",
    source=openapi("CreateChatCompletionRequest.max_tokens: deprecated in favour of max_completion_tokens"),
)
def test_both_limits(x: Chat) -> None:
    """Given both limits, the server refuses the request or obeys one of the two, preferably the newer one.

    Migrating clients send both for a while; a server that obeys their sum, or neither, runs up a bill that nobody
    ordered. No source says which of them applies, and obeying the smaller one is careful: so either will do.
    """
    if is_refused(x):
        return
    both = [limit for name in (_OLD, _NEW) if is_int(limit := x.asked.get(name))]
    tokens = _tokens(x) if x.outcomes else None
    if tokens is None or len(both) < 2:
        raise inconclusive("the answer has no completion_tokens")
    if x.outcomes[0].finish_reason == "length":
        near = any(abs(tokens - limit) <= 1 for limit in both)  # (usage.length.exact judges counts)
        require(near, f"{both[0]} or {both[1]} tokens", got=tokens)
    require(tokens <= max(both) + 1, f"at most {max(both)} tokens", got=tokens)


@rule(
    "param.max-tokens.bounds",
    SHOULD,
    on=each_of("max-tokens-zero", "max-tokens-negative", "max-tokens-huge"),
    book="PARAM-004",
    source=openapi("CreateChatCompletionRequest.max_tokens"),
)
def test_max_tokens_bounds(x: Exchange) -> None:
    """The server refuses max_tokens of 0, below 0 or above the context (4xx) or clamps it: no 5xx, no endless run.

    Clients compute the limit from what is left of the context, and get it wrong at the edge.
    """
    if x.transcript.ending in _NO_END:
        raise Broken("an end of the answer", x.transcript.ending.value)
    must_not_crash(x)
