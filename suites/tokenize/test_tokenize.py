"""What a tokenizer endpoint answers, compared with itself and with the chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wireproof.judge.rules import MAY, SHOULD, Across, Each, contract, engine, of, rule
from wireproof.read.chat import Chat, is_answer, is_chat
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Take
from wireproof.read.refusal import BUSY_OR_LOCKED, must_be_judged
from wireproof.scenarios.conversations.tokenize import TEXT, token_ids
from wireproof.verdict import NotApplicable, Unsupported, inconclusive, require
from wireproof.wire.strictjson import get, is_int

# Nobody notices a request this quick before the one that it prepares (seconds).
_QUICK = 1.0
# BOS and EOS, or CLS and SEP; more tokens on one side are not markers.
_MARKS = 2
# Members of a chat request that do not change what the model reads.
_COUNTED_ALIKE = ("model", "messages", "tools", "stream", "stream_options", "user", "logprobs", "top_logprobs")
_SAMPLED = ("max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "n", "stop")
_INERT = frozenset((*_COUNTED_ALIKE, *_SAMPLED))
_COUNTING = frozenset({"model", "messages", "tools", "add_generation_prompt", "return_token_strs"})
# The names that engines give to the context length in a model's card.
_LENGTHS = ("max_model_len", "context_length", "context_window", "max_context_length", "n_ctx", "n_ctx_train")


def _path(x: Exchange) -> str:
    return x.request.path.split("?", 1)[0].rstrip("/")


def _is_tokenize(x: Exchange) -> bool:
    """A request for the tokens of a text, or of messages."""
    asks = isinstance(x.asked.get("prompt"), str) or isinstance(x.asked.get("messages"), list)
    return x.request.method == "POST" and _path(x).endswith("/tokenize") and asks and x.response is not None


def _found(x: Exchange) -> Any:
    """The JSON of a tokenizer's answer; unsupported if the target has no such endpoint, or not for this request."""
    # (A 403 may be how a gateway says that this endpoint is not offered.)
    if x.status in BUSY_OR_LOCKED - {403}:
        raise inconclusive(f"the request was not judged: {x.refusal()}")
    if x.status is not None and (400 <= x.status < 500 or x.status == 501):
        raise Unsupported(f"a tokenizer endpoint: {x.refusal()}")
    return x.parsed.value if x.ok else None


_TOKENIZE = Each(
    "every valid request to a tokenize endpoint",
    _is_tokenize,
    ("tokenize",),
)


@rule(
    "tokenize.endpoint.works",
    SHOULD,
    on=_TOKENIZE,
    book="TOKENIZE-001",
    source=engine("vllm", "POST /tokenize"),
)
def test_endpoint_works(x: Exchange) -> None:
    """POST /v1/tokenize or /tokenize returns `tokens`, an array of integers, and `count`, an integer.

    Clients that count with their own tokenizer, mostly tiktoken, are wrong about every other model: requests exceed
    the context, or stay far below it.
    """
    value = _found(x)
    require(x.ok and isinstance(value, dict), "200 with a JSON object", got=x.refusal() if not x.ok else value)
    tokens = get(value, "tokens")
    require(isinstance(tokens, list) and all(is_int(i) for i in tokens), "tokens as integers", got=tokens)
    require(is_int(get(value, "count")), "count as an integer", got=get(value, "count"))


@rule(
    "tokenize.count.consistent",
    SHOULD,
    on=_TOKENIZE,
    book="TOKENIZE-002",
    source=engine("vllm", "TokenizeResponse"),
)
def test_count_consistent(x: Exchange) -> None:
    """`count` is the length of `tokens`, and max_model_len, if given, is above 0.

    Clients plan their budgets with these two numbers: a wrong one cuts prompts short, or lets them run over.
    """
    value = _found(x)
    tokens, count, most = get(value, "tokens"), get(value, "count"), get(value, "max_model_len")
    if not isinstance(tokens, list) or not is_int(count):
        raise inconclusive("the answer has no tokens, or no count: tokenize.endpoint.works judges that")
    require(count == len(tokens), f"count {len(tokens)}, the number of tokens", got=count)
    require(most is None or (is_int(most) and most > 0), "max_model_len above 0, or none", got=most)


def _asked_as(x: Exchange) -> Any:
    return x.asked.get("messages"), x.asked.get("tools") or None


@rule(
    "tokenize.count.equals-usage",
    SHOULD,
    on=Across(
        "chat answers, and requests for the tokens of messages",
        lambda x: is_answer(x) or (_is_tokenize(x) and "messages" in x.asked),
        ("tokenize",),
    ),
    book="TOKENIZE-003",
    source=engine("vllm", "TokenizeChatRequest"),
)
def test_count_equals_usage(found: Sequence[Exchange]) -> None:
    """usage.prompt_tokens of a chat is what the tokenize endpoint counts for the same messages and tools.

    Otherwise the server bills, or refuses, a prompt by another number than the one that the client measured.
    """
    measures = [x for x in found if not is_chat(x)]
    if not measures:
        raise NotApplicable("no request asked for the tokens of messages")
    compared = 0
    for measure in measures:
        wanted, count = _asked_as(measure), get(_value_or_none(measure), "count")
        usual = measure.asked.get("add_generation_prompt", True) is True and set(measure.asked) <= _COUNTING
        if not is_int(count) or not usual:
            continue
        for x in found:
            if is_chat(x) and _asked_as(x) == wanted and set(x.asked) <= _INERT and is_int(_prompt(x)):
                compared += 1
                require(_prompt(x) == count, f"prompt_tokens {count}, as tokenize counts", got=_prompt(x), owner=x)
    if not compared:
        for measure in measures:
            _found(measure)
        raise inconclusive("no chat has the messages that were tokenized")


def _value_or_none(x: Exchange) -> Any:
    return x.parsed.value if x.ok else None


def _prompt(x: Chat) -> Any:
    return get(x.usage, "prompt_tokens")


def _ids(take: Take) -> tuple[Exchange, list[int]]:
    """The exchange that gave the tokens of the text, and these tokens; unsupported if none did."""
    tried = take.steps("text-")
    for x in tried:
        if token_ids(x):
            return x, token_ids(x)
    for x in tried:
        _found(x)
    raise inconclusive("the answer has no tokens: tokenize.endpoint.works judges that")


@rule(
    "tokenize.detokenize.inverts",
    MAY,
    on=of("tokenize"),
    book="TOKENIZE-004",
    source=engine("vllm", "POST /detokenize"),
)
def test_detokenize_inverts(take: Take) -> None:
    """The detokenize endpoint returns the text that the tokens were made from.

    Tools that cut a prompt by tokens turn the rest into text again: broken emoji and CJK end up in the next request.
    """
    _ids(take)
    x = take["back"]
    value = _found(x)
    # The names in vLLM, SGLang and llama.cpp.
    text = next((t for n in ("prompt", "text", "content") if isinstance(t := get(value, n), str)), None)
    require(text is not None, "the text as `prompt`, `text` or `content`", got=value if x.ok else x.refusal(), owner=x)
    # SentencePiece puts a blank in front of a text.
    require(str(text).removeprefix(" ") == TEXT, repr(TEXT), got=text, owner=x)


@rule(
    "tokenize.special-tokens.only-differ",
    MAY,
    on=of("tokenize"),
    book="TOKENIZE-005",
    source=engine("vllm", "add_special_tokens"),
)
def test_special_tokens(take: Take) -> None:
    """With add_special_tokens, the tokens of a text are the same, between markers for its beginning and its end.

    Clients put prompts together from parts: a part whose own tokens change is not what they measured.
    """
    _, plain = _ids(take)
    x = take["special"]
    _found(x)
    marked = token_ids(x)
    if not marked:
        raise inconclusive("the answer has no tokens: tokenize.endpoint.works judges that")
    at = next((i for i in range(_MARKS + 1) if marked[i : i + len(plain)] == plain), None)
    require(at is not None, f"the {len(plain)} tokens of the text within", got=marked, owner=x)
    extra = len(marked) - len(plain)
    require(extra <= 2 * _MARKS, "only markers beside them", got=f"{extra} more tokens", owner=x)


@rule(
    "tokenize.discoverable",
    SHOULD,
    on=of("tokenize"),
    book="TOKENIZE-006",
    source=contract("clients know what to count with, and up to where"),
)
def test_discoverable(take: Take) -> None:
    """A server that tokenizes says how long its context is: in the answer, the model's card, or /tokenizer_info.

    Clients count tokens against a limit: without it, they learn from errors how much they may send.
    """
    text, _ = _ids(take)
    info = take["info"]
    listed = get(_value_or_none(take["models"]), "data")
    cards = [c for c in listed if isinstance(c, dict)] if isinstance(listed, list) else []
    said = [_value_or_none(text), *cards, *(get(c, "meta") for c in cards)]
    known = any(is_int(get(value, name)) for value in said for name in _LENGTHS)
    known = known or (info.ok and isinstance(info.parsed.value, dict))
    require(known, "max_model_len, or a /tokenizer_info", got=get(_value_or_none(text), "max_model_len"), owner=text)


@rule(
    "tokenize.errors-and-speed",
    SHOULD,
    on=of("tokenize"),
    book="TOKENIZE-007",
    source=contract("tokenizing is a check before the request"),
)
def test_errors_and_speed(take: Take) -> None:
    """The server tokenizes a sentence in less than a second, and refuses a body without a text with a 4xx.

    Clients ask it before each request: one that waits for the model, or counts nonsense, is useless for that.
    """
    text, _ = _ids(take)
    if text.transcript.timed:
        took = text.transcript.ended_at
        require(took < _QUICK, f"an answer within {_QUICK:g} s", got=f"after {took:.1f} s", owner=text)
    for x in take.steps("bad-"):
        must_be_judged(x)
        status = x.status or 0
        require(400 <= status < 500, "a 4xx", got=x.refusal(), owner=x)
