"""Values at, inside and outside the limits of the documented ranges."""

from __future__ import annotations

from wireproof.judge.rules import MAY, MUST, SHOULD, Each, each_of, observed, of, openapi, rule
from wireproof.read.chat import Chat, is_chat
from wireproof.read.exchange import Exchange
from wireproof.read.logprobs import finite
from wireproof.read.recording import Take
from wireproof.read.refusal import is_refused, must_accept, must_not_crash, must_refuse, names
from wireproof.verdict import inconclusive, require

_REQUEST = "CreateChatCompletionRequest"
_ZERO_REFUSED = "https://github.com/InternLM/lmdeploy/issues/3176"
_RANGES = {"temperature": (0, 2), "top_p": (0, 1), "frequency_penalty": (-2, 2), "presence_penalty": (-2, 2)}
# If a request has only these members, a refusal is about one of them.
_PLAIN = frozenset((*_RANGES, "model", "messages", "max_tokens", "seed", "stream", "stream_options"))


def _in_range(x: Exchange) -> bool:
    """Whether a plain request sets some of the parameters, each within its range."""
    values = {name: finite(x.asked[name]) for name in _RANGES if x.asked.get(name) is not None}
    within = all(v is not None and _RANGES[name][0] <= v <= _RANGES[name][1] for name, v in values.items())
    # (top_p 0 leaves no tokens at all: servers differ.)
    return bool(values) and within and values.get("top_p") != 0 and _PLAIN.issuperset(x.asked)


@rule(
    "param.range.accepted",
    MUST,
    on=Each(
        "every plain request with sampling parameters within their ranges",
        lambda x: is_chat(x) and x.valid and x.knows_request and x.response is not None and _in_range(x),
        ("range-highest", "range-lowest"),
    ),
    book="PARAM-009",
    source=openapi(f"{_REQUEST}: temperature 0 to 2, top_p 0 to 1, penalties -2 to 2"),
)
def test_range_accepted(x: Exchange) -> None:
    """The server accepts temperature 0 to 2, top_p up to 1 and both penalties from -2 to 2.

    Every client sets them. graphrag sends temperature 0 and got a 422, others a 500.
    """
    given = [name for name in _RANGES if x.asked.get(name) is not None]
    refused = is_refused(x) and names(x, *given)
    require(not refused, f"200 for {', '.join(f'{n} {x.asked[n]}' for n in given)}", got=x.refusal())
    if not x.ok:
        raise inconclusive(f"something else was wrong: {x.refusal()}")


@rule(
    "param.range.outside-refused",
    MUST,
    on=each_of("temperature-negative", "top-p-above", "frequency-above", "presence-below"),
    book="PARAM-010",
    source=openapi(f"{_REQUEST}: minimum and maximum"),
)
def test_range_outside_refused(x: Chat) -> None:
    """The server refuses a temperature below 0, a top_p above 1 and penalties beyond -2 and 2 with a 4xx.

    If they are silently clamped, an evaluation runs with other settings than its report says. (A temperature above 2
    and a top_p of 0 are left to the server: engines differ.)
    """
    must_refuse(x, "a value out of range")


@rule(
    "param.null.equals-absent",
    MUST,
    on=of("param-effects", "params-null", "params-null-limit"),
    book="PARAM-011",
    source=openapi(f"{_REQUEST}: nullable members"),
)
def test_null_equals_absent(effects: Take, null: Chat, limit: Chat) -> None:
    """For a nullable parameter, null means the same as absent.

    Many clients send every optional field, and None as null: they get a 422 on the first call, or "None" as a setting.
    """
    absent, again = effects.chat("greedy"), effects.chat("greedy-again")
    must_accept(null, "parameters that are null", absent)
    if not (is_refused(limit) and names(limit, "max_completion_tokens")):  # (another rule judges that)
        must_accept(limit, "max_tokens and temperature that are null", absent)
    texts = [x.outcomes[0].content for x in (absent, again, null)]
    if texts[0] != texts[1]:
        raise inconclusive("the same request twice gave two answers")
    require(texts[2] == texts[0], f"{texts[0]!r} as without the parameters", got=texts[2], owner=null)


@rule(
    "param.seed.accepted",
    SHOULD,
    on=of("plain-greedy", "seed-zero", "seed-large"),
    source=openapi(f"{_REQUEST}.seed: an integer of 64 bits"),
)
def test_seed_accepted(usual: Exchange, *seeded: Exchange) -> None:
    """The server accepts any seed from 0 up, even one that is larger than 31 bits.

    Evaluation tools draw seeds from the whole range; zero is the favourite of test suites.
    """
    for x in seeded:
        must_accept(x, f"seed {x.asked.get('seed')}", usual)


@rule(
    "param.logit-bias.bounds",
    SHOULD,
    on=each_of("logit-bias-above", "logit-bias-word"),
    book="PARAM-023",
    source=openapi(f"{_REQUEST}.logit_bias: token ids to values from -100 to 100"),
)
def test_logit_bias_bounds(x: Chat) -> None:
    """The server refuses a logit_bias above 100, or for something that is not a token id, with a 4xx.

    Otherwise a caller who wrote the word instead of its id gets an answer without the bias, and no hint.
    """
    must_refuse(x, "this logit_bias")


@rule(
    "param.odd.no-5xx",
    MUST,
    on=each_of("temperature-above", "top-p-zero", "seed-negative", "logit-bias-word"),
    source=observed("engines differ: 4xx or 200", _ZERO_REFUSED),
)
def test_odd_no_5xx(x: Exchange) -> None:
    """A temperature above 2, a top_p of 0, a negative seed and a logit_bias for a word give a 4xx or 200, never a 5xx.

    Clients retry a 5xx: the same bad request comes again and again.
    """
    must_not_crash(x)


@rule(
    "param.metadata.limits",
    MAY,
    on=each_of("metadata-many", "metadata-odd"),
    book="PARAM-020",
    source=openapi("Metadata: 16 pairs, keys of 64 and values of 512 characters"),
)
def test_metadata_limits(x: Chat) -> None:
    """The server refuses metadata beyond its limits with a 4xx or ignores it: no 5xx, and it is not stored and shown.

    What one server stores, another refuses: the caller learns of the limit only when moving.
    """
    must_not_crash(x)
    if x.ok and not x.is_event_stream:
        shown = x.completion.get("metadata")
        require(shown is None or shown != x.asked.get("metadata"), "no metadata beyond the limits", got=shown)
