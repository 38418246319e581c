"""The requested number of choices, each independent of the others."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from wireproof.judge.rules import MUST, SHOULD, Each, client, each_of, observed, openapi, rule
from wireproof.judge.subjects import ALL_ANSWERS, ANSWERS
from wireproof.read.chat import Chat, is_chat
from wireproof.read.exchange import Exchange
from wireproof.read.refusal import must_be_judged
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.sse import AnomalyKind
from wireproof.wire.strictjson import get, is_int, parse

# Refused requests match as well, so that a server without n > 1 is reported as such.
_N_STREAMS = Each(
    "every chat stream with n > 1",
    lambda x: is_chat(x) and x.asked_stream and x.asked_n > 1 and x.valid and x.response is not None,
    ("stream-n2", "stream-n3-cut"),
)
_PINNED = "alpha beta gamma delta epsilon"
# Equal choices count as copies of one sample when chance would produce them less often than this.
_CHANCE = 1e-6


def _indexes(x: Chat) -> list[Any]:
    """The index of every choice, in order of appearance."""
    if x.is_event_stream:
        if x.done and not x.payloads and not x.anomalies(AnomalyKind.UNKNOWN_FIELD) and not x.cut_by_us:
            return []  # a whole stream of nothing but [DONE]
        return [c.index for c in x.finished_stream.choices]
    found = x.completion.get("choices")
    if not isinstance(found, list):
        raise inconclusive("choices is not an array")
    return [get(c, "index") for c in found]


@rule(
    "choice.count.equals-n",
    MUST,
    on=ANSWERS,
    book="CHOICE-002",
    source=openapi("CreateChatCompletionRequest.n; CreateChatCompletionResponse.choices"),
    evidence=("ns_choices_empty",),
)
def test_count_equals_n(x: Chat) -> None:
    """An answer has exactly n choices (one by default), with the indexes 0 to n-1, and never an empty list.

    On `choices: []` LangChain and LlamaIndex raise an IndexError; fewer than n silently weaken every vote over
    several samples (ragas, optillm, self-consistency).
    """
    if not x.valid:
        raise NotApplicable("the server may refuse this request")
    found = _indexes(x)
    require(len(found) == x.asked_n, f"{x.asked_n} choices", got=f"{len(found)}, with the indexes {found}")
    if all(is_int(i) for i in found):  # an index of another type is judged by its own rule
        require(sorted(found) == list(range(x.asked_n)), f"the indexes 0 to {x.asked_n - 1}", got=found)


@rule(
    "choice.id.unique",
    MUST,
    on=ALL_ANSWERS,
    book="CHOICE-011",
    source=openapi("CreateChatCompletionResponse.id: a unique identifier"),
)
def test_id_unique(found: Sequence[Chat]) -> None:
    """Every answer has its own id.

    Logs, caches and evaluators key on it: two answers with the same id become one row.
    """
    owners: dict[str, Exchange] = {}
    for x in found:
        if x.request.header("x-request-id"):  # some servers make the id from the client's own
            continue
        if x.is_event_stream:
            answer_id = next((get(c.value, "id") for c in x.chunks if get(c.value, "id")), None)
        else:
            answer_id = get(x.parsed.value, "id")
        if not isinstance(answer_id, str) or not answer_id:
            continue
        first = owners.setdefault(answer_id, x)
        require(first is x, "a different `id` for each answer", got=f"{answer_id}, as in {first.scenario}", owner=x)
    if len(owners) < 2:
        raise inconclusive("fewer than two answers have an id")


@rule(
    "choice.stream.index-ascending",
    MUST,
    on=_N_STREAMS,
    book="CHOICE-012",
    source=client("openai-python", "lib/streaming/chat _convert_initial_chunk_into_snapshot"),
    evidence=("n2_index1_first", "n2_in_order"),
)
def test_index_ascending(x: Chat) -> None:
    """With n > 1, new indexes appear in a stream in ascending order.

    openai-python's .stream() raises IndexError when index 1 comes before index 0.
    """
    assembled = x.finished_stream if x.events else None
    highest = -1
    for choice in assembled.choices if assembled else ():
        if is_int(choice.index):
            require(choice.index > highest, f"an index above {highest}", got=choice.index, at=choice.parts[0])
            highest = choice.index


@rule(
    "choice.stream.one-per-chunk",
    SHOULD,
    on=_N_STREAMS,
    book="CHOICE-013",
    source=client("langchain-openai", "_convert_chunk_to_generation_chunk; llama-index _stream_chat"),
    evidence=("n2_same_chunk",),
)
def test_one_per_chunk(x: Chat) -> None:
    """With n > 1, each chunk of a stream carries one choice.

    LangChain and LlamaIndex read choices[0] only: the text of a second choice in the chunk is lost.
    """
    if not x.events:
        raise inconclusive("the stream has no events")
    for chunk in x.chunks:
        require(len(chunk.choices) <= 1, "one choice in a chunk", got=len(chunk.choices), at=chunk)


@rule(
    "choice.stream.independent",
    MUST,
    on=each_of("stream-pinned-n2"),
    book="CHOICE-014",
    source=openapi("CreateChatCompletionStreamResponse.choices.index"),
)
def test_streams_independent(x: Chat) -> None:
    """With n > 1, everything that a stream sends under one index belongs to that choice alone.

    Only the index tells choices apart: text under the wrong one spoils two answers at once.
    """
    if not x.events:
        raise inconclusive("the stream has no events")
    for choice in x.finished_stream.choices:
        if choice.finish_reason != "stop":
            raise inconclusive(f"choice {choice.index} did not end on its own")
        parsed = parse(choice.content or "")
        whole = parsed.ok and get(parsed.value, "text") == _PINNED
        require(whole, f"the pinned text as choice {choice.index}", got=choice.content, at=choice.parts[-1])


@rule(
    "choice.n.bounds",
    MUST,
    on=each_of("n-zero", "n-negative", "n-fraction", "n-too-many"),
    book="CHOICE-015",
    source=openapi("CreateChatCompletionRequest.n: integer, minimum 1, maximum 128"),
)
def test_n_bounds(x: Chat) -> None:
    """The server refuses n = 0, a negative n, a fraction and more than 128 with a 4xx.

    Silent clamping returns fewer choices than the client then indexes.
    """
    response, n = x.answered, x.asked.get("n")
    must_be_judged(x)
    refused = x.status is not None and 400 <= x.status < 500
    # A server with a higher limit is right as well, if it really returns that many.
    if not refused and x.ok and is_int(n) and n > 128 and not x.is_event_stream:
        require(len(x.plain_choices) == n, f"a 4xx, or {n} choices", got=f"{len(x.plain_choices)} choices")
        return
    require(refused, f"a 4xx for n = {n}", got=x.status, at=(0, min(len(response.content), 200)))


@rule(
    "choice.n.sampled-independently",
    SHOULD,
    on=each_of("plain-n4-logprobs"),
    book="CHOICE-016",
    source=observed("n gives several samples"),
)
def test_n_sampled_independently(x: Chat) -> None:
    """The choices of one request at temperature 1 are sampled independently.

    Copies of one sample make n useless, and cost n times as much.
    """
    choices = x.plain_choices
    texts = [get(c, "message", "content") for c in choices]
    if not all(isinstance(t, str) for t in texts) or len(texts) < 2:
        raise inconclusive("there are not several texts to compare")
    if len(set(texts)) > 1:
        return
    # How likely is it that the model says the same thing every time? Its own log probabilities tell.
    entries = get(choices[0], "logprobs", "content")
    logprobs = [get(e, "logprob") for e in entries] if isinstance(entries, list) else []
    known = [float(p) for p in logprobs if isinstance(p, int | float) and p <= 0]
    if not known or len(known) != len(logprobs):
        raise inconclusive("all choices are equal, and no log probabilities say whether that is chance")
    chance = math.exp(max(sum(known) * (len(texts) - 1), -700.0))
    if chance > _CHANCE:
        raise inconclusive(f"the model is sure of its answer: {len(texts)} equal ones have a chance of {chance:.2g}")
    require(False, "choices that differ", got=f"{len(texts)} times {json.dumps(texts[0], ensure_ascii=False)}")
