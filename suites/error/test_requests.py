"""Refusals that need a request of their own: too long, of another type, to another path, or asking for too much."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wireproof.judge.rules import MUST, SHOULD, Across, Each, client, contract, each_of, engine, observed, of, rfc, rule
from wireproof.judge.subjects import PLAIN_SCENARIOS
from wireproof.read.chat import Chat, is_answer, is_chat
from wireproof.read.errors import error_of, told_error
from wireproof.read.exchange import Exchange
from wireproof.read.refusal import BUSY_OR_LOCKED, must_not_crash
from wireproof.read.request_defects import defect
from wireproof.scenarios.catalog import load
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get, is_int

_TOO_LONG = re.compile(r"context|too (?:long|large|many)|exceed|maximum|longer than", re.I)
# The prompt of `context-over` has this many sentences: with any tokenizer, each is at least one token.
_SENTENCES = 700_000 // 29

OVER = each_of("context-over", "context-over-stream")


@rule("error.context.over-is-400", MUST, on=OVER, book="ERROR-011", source=observed("error codes guide"))
def test_context_over(x: Chat) -> None:
    """The server refuses a prompt longer than the context with a 4xx before a stream begins; it never silently cuts it.

    Otherwise the answer is about the rest of a document, and nothing says that the beginning was thrown away.
    """
    if x.response is None:
        raise inconclusive(f"no answer ({x.transcript.ending.value})")
    if x.status in BUSY_OR_LOCKED or told_error(x):
        raise x.refused()
    if not x.ok:
        require(x.status is not None and x.status < 500, "a 4xx for 700 KB of prompt", got=x.refusal())
        return
    counted = get(x.usage, "prompt_tokens")
    if not is_int(counted):
        raise NotApplicable("the prompt fits, or was cut: without usage we cannot tell")
    whole = counted >= _SENTENCES
    require(whole, f"a 4xx, or at least {_SENTENCES} prompt tokens", got=f"200 and {counted} prompt tokens")
    raise NotApplicable(f"the context is larger than this prompt ({counted} tokens)")


def _is_list(x: Exchange) -> bool:
    """Whether this is a list of models."""
    return x.request.method == "GET" and x.request.path.split("?", 1)[0].rstrip("/").endswith("/models") and x.ok


@rule(
    "error.context.within-limit",
    SHOULD,  # either the list is wrong, or the prompt was cut: the wire does not say which
    on=Across(
        "the list of models, and every chat answer",
        lambda x: _is_list(x) or is_answer(x),
        ("models", *OVER.needs, *PLAIN_SCENARIOS),
    ),
    source=engine("vllm", "max_model_len of the model list"),
)
def test_context_within_limit(found: Sequence[Exchange]) -> None:
    """No answer counts more prompt tokens than the max_model_len that the list of models gives for the model.

    Either the server silently cut such a prompt but counted all of it, and the answer is about a part; or the list is
    wrong, and routers cut prompts by it.
    """
    most: dict[str, int] = {}
    for x in found:
        data = get(x.parsed.value, "data") if _is_list(x) else None
        for entry in data if isinstance(data, list) else []:
            name, length = get(entry, "id"), get(entry, "max_model_len")
            if isinstance(name, str) and is_int(length) and length > 0:
                most[name] = length
    compared = 0
    for x in found:
        if not is_chat(x):
            continue
        limit, counted = most.get(str(x.asked.get("model"))), get(x.usage, "prompt_tokens")
        if limit is not None and is_int(counted):
            compared += 1
            require(counted <= limit, f"a 4xx, or at most {limit} prompt tokens", got=f"200 and {counted}", owner=x)
    if not compared:
        raise NotApplicable("no answer with usage comes from a model with max_model_len")


@rule(
    "error.context.code",
    SHOULD,
    on=Each(
        "every refusal of a prompt that is too long",
        lambda x: x.scenario in OVER.needs and x.response is not None,
        OVER.needs,
    ),
    book="ERROR-012",
    source=client("langchain-openai", "_handle_openai_bad_request"),
)
def test_context_code(x: Exchange) -> None:
    """The refusal of a prompt that is too long has the code context_length_exceeded.

    LangChain, litellm and pydantic-ai raise their own error for it, and cut or summarise the history, only when
    they find this word.
    """
    if x.status not in (400, 413, 422):
        raise NotApplicable("the prompt was not refused")
    error = error_of(x)
    if error is None:
        raise inconclusive("there is no error object: error.envelope.object judges that")
    if x.status == 413 or not _TOO_LONG.search(str(error.get("message"))):
        raise NotApplicable("the body was too large, not the prompt")
    told = "context_length_exceeded" in (str(error.get("code")), str(error.get("type")))
    told = told or "context_length_exceeded" in str(error.get("message"))
    require(told, "code context_length_exceeded", got=x.text[:120])


@rule(
    "error.content-type.wrong",
    SHOULD,
    on=each_of("content-type-text"),
    book="ERROR-021",
    source=rfc(9110, "15.5.16"),
)
def test_content_type_wrong(x: Exchange) -> None:
    """The server refuses a body whose Content-Type is not JSON with 400 or 415.

    Browsers send text/plain across sites without asking first: a server that accepts it serves every web page.
    """
    if x.answered.status in BUSY_OR_LOCKED:
        raise x.refused()
    got = f"{x.status}, an answer" if x.ok else x.refusal()
    require(x.status in (400, 415, 422), "415 or 400 for text/plain", got=got)


@rule("error.path.unknown-is-404", MUST, on=each_of("path-unknown"), book="ERROR-022", source=rfc(9110, "15.5.5"))
def test_path_unknown(x: Exchange) -> None:
    """The server answers 404 for a path that does not exist.

    SDKs and tools try which endpoints exist: they need NotFoundError, and take a 200 for a yes.
    """
    if x.answered.status in BUSY_OR_LOCKED:
        raise x.refused()
    require(x.status == 404, "404", got=f"{x.status}, {x.text[:60]!r}" if x.ok else x.refusal())


def _text(x: Exchange) -> str:
    return f"{x.status}, {x.text[:80]!r}" if x.ok else x.refusal()


@rule(
    "error.feature.unsupported-refused",
    SHOULD,
    on=of("feature-audio", "feature-image", "feature-no-image"),
    book="ERROR-023",
    source=contract("an ignored parameter is a wrong answer"),
)
def test_feature_unsupported(audio: Chat, image: Chat, no_image: Chat) -> None:
    """The server refuses audio output, and an image for a text-only model, with a 4xx instead of ignoring them.

    Otherwise the user asks about a picture that the model never saw, and gets a confident answer.
    """
    judged = False
    for x in (audio, image):
        require(x.answered.status is None or x.answered.status < 500 or x.status in (501, 503), "a 4xx", got=_text(x))
    if audio.ok and not told_error(audio):
        judged = True
        spoken = isinstance(get(audio.completion, "choices", 0, "message", "audio"), dict)
        require(spoken, "a 4xx, or audio in the message", got=_text(audio), owner=audio)
    if image.ok and not told_error(image) and no_image.ok:
        tokens = [get(x.completion, "usage", "prompt_tokens") for x in (image, no_image)]
        if all(is_int(t) for t in tokens):
            judged = True
            seen = tokens[0] > tokens[1]
            require(seen, f"a 4xx, or more than {tokens[1]} prompt tokens", got=f"200, {tokens[0]}", owner=image)
    refused = [x for x in (audio, image) if x.status in (400, 404, 415, 422, 501)]
    if not judged and not refused:
        raise audio.refused()


_RIGHT = ("plain-greedy", "stream-greedy", "seed-zero")


def _is_sound(x: Exchange) -> bool:
    """Whether this is a correct request of ours, or one in a recording without a visible defect."""
    foreign = x.scenario not in load()  # other rules judge the requests of the other scenarios
    ours = x.scenario in _RIGHT or foreign
    return x.response is not None and is_chat(x) and ours and defect(x) is None


@rule(
    "error.valid.no-5xx",
    MUST,
    on=Each("every chat request without a visible defect", _is_sound, _RIGHT),
    source=contract("what is right is answered"),
)
def test_valid_no_5xx(x: Exchange) -> None:
    """The server answers a request without a visible defect, or refuses it with a 4xx: it never sends a 5xx.

    A seed or an unusual tool_choice has crashed engines, and all other requests with them. SDKs send such a request
    again, twice.
    """
    must_not_crash(x)
