"""Where a stream's entries are: with their text, and nowhere else."""

from __future__ import annotations

import codecs

from wireproof.judge.rules import MUST, SHOULD, Each, client, contract, openapi, rule
from wireproof.judge.subjects import STREAMS
from wireproof.read.chat import Chat, is_stream
from wireproof.read.logprobs import (
    Scored,
    all_entries,
    as_bytes,
    begins,
    is_number,
    listed,
    repeated,
    scored,
    uncovered,
    walk,
)
from wireproof.read.request import tool_choice, wants_logprobs
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.chat import Choice
from wireproof.wire.strictjson import get, is_int

_NEEDS = ("stream-logprobs", "stream-logprobs-cut", "stream-logprobs-unicode", "stream-logprobs-stop")
SCORED_STREAMS = Each("every stream with log probabilities", lambda x: is_stream(x) and wants_logprobs(x), _NEEDS)
_NOT_ASKED = Each(STREAMS.what, STREAMS.match, (*STREAMS.needs, "stream-logprobs-off"))


def tokens_of_text(x: Chat) -> int | None:
    """completion_tokens, if they all belong to the text of the only choice, and nothing shows that they are wrong."""
    choices = scored(x)
    tokens = get(x.usage or {}, "completion_tokens")
    alone = len(choices) == 1 and choices[0].comparable and x.knows_request and x.asked_usage
    hidden = get(x.usage, "completion_tokens_details", "reasoning_tokens")
    if not is_int(tokens) or not alone or hidden or not all(p.parsed.ok for p in x.payloads):
        return None
    limit, finish = x.token_limit, choices[0].finish
    known = tokens == limit if finish == "length" else finish == "stop" and (limit is None or tokens <= limit)
    return tokens if known else None


def missing(x: Chat) -> int:
    """How many tokens of the text have no entry, according to usage; an end token needs none."""
    tokens = tokens_of_text(x)
    if tokens is None:
        return 0
    slack = 0 if scored(x)[0].finish == "length" else 1
    return max(0, tokens - len(scored(x)[0].entries) - slack)


@rule(
    "logprobstream.content.present",
    MUST,
    on=SCORED_STREAMS,
    book="LOGPROBSTREAM-001",
    source=contract("choices[].logprobs.content in chunks; OpenAPI: CreateChatCompletionStreamResponse"),
)
def test_content_present(x: Chat) -> None:
    """With logprobs true, every chunk with text has the log probabilities of its tokens, unless they came before.

    Otherwise streaming scorers get nothing, or only those of the last chunk.
    """
    choices = [s for s in scored(x) if s.text]
    if not choices or tool_choice(x).forced:
        raise inconclusive("the stream has no text")
    if x.asked.get("top_logprobs", 1) == 0 and not any(s.entries for s in choices):
        raise inconclusive("no entries with top_logprobs 0: logprob.top.zero-is-empty judges that")
    part = uncovered(x)
    got = part.choice.get("logprobs", "no logprobs") if part else ""
    require(part is None, "entries for the text of this chunk", got=got, at=part)


@rule(
    "logprobstream.entries.increments",
    MUST,
    on=SCORED_STREAMS,
    book="LOGPROBSTREAM-002",
    source=client("openai-python", "ChatCompletionStreamState appends them"),
)
def test_increments(x: Chat) -> None:
    """The server sends each entry once: a chunk has those of its own tokens, not those of the chunks before.

    openai-python and openai-node append what arrives: with cumulative lists, the first token counts once for each
    chunk.
    """
    all_entries(x)
    part = repeated(x)
    require(part is None, "entries of new tokens only", got=f"{part and len(listed(part))} entries", at=part)
    tokens = tokens_of_text(x)
    if tokens is not None and scored(x)[0].finish == "length":
        count = len(scored(x)[0].entries)
        require(count <= tokens, f"{tokens} entries, one for each token", got=count)


@rule(
    "logprobstream.chunk.aligned",
    SHOULD,
    on=SCORED_STREAMS,
    book="LOGPROBSTREAM-003",
    source=openapi("logprobs: log probability information for the choice"),
)
def test_aligned(x: Chat) -> None:
    """The tokens of a chunk's entries are the text of that chunk, except for parts of an incomplete character.

    Otherwise tools that colour text by its score colour the wrong word.
    """
    if uncovered(x) or repeated(x) or missing(x):
        raise inconclusive("entries are missing or repeated: other rules judge that")
    choices = [s for s in scored(x) if s.entries and s.text]
    plain = {s.choice for s in choices if not s.other and s.readable}
    if not plain:
        raise inconclusive("there is no plain text with log probabilities")
    may_hold = bool(x.asked.get("stop")) or not x.knows_request
    for s, choice in zip(scored(x), x.finished_stream.choices, strict=True):
        if s.choice not in plain or (s.cut and not begins(s)):
            continue  # the rules for stop judge what is left of a stop string
        _check_alignment(s, choice, may_hold=may_hold)


def _check_alignment(s: Scored, choice: Choice, *, may_hold: bool) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    said = mine = ""  # what the entries say and the text does not yet have, and the other way round
    begun = {"said": False, "mine": False}
    for part, text, data in walk(s, choice):
        if data is None:
            raise inconclusive("an entry does not say what it stands for")
        if s.extra is not None and s.extra.part is part:
            return  # logprob.finish.no-extra-entry judges what comes at the end
        new = decoder.decode(data)
        # Some vocabularies put a blank before the first word.
        said += new if begun["said"] else new.removeprefix(" ")
        mine += text if begun["mine"] else text.removeprefix(" ")
        begun = {"said": begun["said"] or bool(new), "mine": begun["mine"] or bool(text)}
        both = min(len(said), len(mine))
        same = said[:both] == mine[:both] and (len(mine) == both or s.cut) and (len(said) == both or may_hold)
        require(same, f"entries for the text {mine[:60]!r}", got=said[:60], at=part)
        said, mine = said[both:], mine[both:]


@rule(
    "logprobstream.empty.elsewhere",
    SHOULD,
    on=STREAMS,
    book="LOGPROBSTREAM-004",
    source=openapi("the streaming example: logprobs null"),
    evidence=("lp_content_null",),
)
def test_empty_elsewhere(x: Chat) -> None:
    """In a chunk without tokens, such as those with the role and the finish_reason, logprobs is null or absent.

    An object without entries, or an entry for the role, shifts what clients align by chunks.
    """
    for part in x.answer_parts:
        found = part.choice.get("logprobs")
        if not isinstance(found, dict) or "content" not in found:
            continue
        role_only = part.delta.get("role") and not part.carries and part.finish_reason is None
        if role_only and listed(part) and not any(get(e, "token") for e in listed(part)):
            require(False, "null in `logprobs` of the role chunk", got=found, at=part)
        empty = not listed(part) and not found.get("refusal")
        require(not empty, "null in `logprobs` where there are no tokens", got=found, at=part)


@rule(
    "logprobstream.entry.shape",
    MUST,
    on=SCORED_STREAMS,
    book="LOGPROBSTREAM-005",
    source=openapi("ChatCompletionTokenLogprob.required"),
)
def test_entry_shape(x: Chat) -> None:
    """An entry in a chunk has a token, logprob, bytes and top_logprobs of the same types as in a plain answer.

    LiteLLM loses the text of a chunk whose entry lacks top_logprobs; agents fail with a TypeError.
    """
    for entry in all_entries(x):
        value = entry.value
        found = get(value, "bytes")
        ok = isinstance(entry.token, str) and is_number(entry.logprob)
        ok = ok and (found is None or as_bytes(found) is not None)
        ok = ok and isinstance(get(value, "top_logprobs"), list)
        require(ok, "token, logprob, bytes and top_logprobs of their types", got=value, at=entry.part)


@rule(
    "logprobstream.held-back.kept",
    MUST,
    on=SCORED_STREAMS,
    book="LOGPROBSTREAM-006",
    source=contract("every completion token has its entry"),
)
def test_held_back_kept(x: Chat) -> None:
    """If the server holds tokens back, such as parts of a character, it sends their entries later, and drops none.

    With fewer entries than completion_tokens, means are wrong, and every position after the loss is shifted.
    """
    all_entries(x)
    if uncovered(x):
        raise inconclusive("text without entries: logprobstream.content.present judges that")
    tokens = tokens_of_text(x)
    if tokens is None:
        raise inconclusive("usage does not say how many tokens the text has")
    require(not missing(x), f"{tokens} entries, one for each token", got=len(scored(x)[0].entries))


@rule(
    "logprobstream.absent.when-not-asked",
    MUST,
    on=_NOT_ASKED,
    book="LOGPROBSTREAM-007",
    source=openapi("logprobs: defaults to false"),
)
def test_absent_when_not_asked(x: Chat) -> None:
    """Without logprobs true, no chunk has log probabilities: logprobs is null or absent.

    They are many times the size of a chunk's text.
    """
    if wants_logprobs(x) or not x.knows_request:
        raise NotApplicable("log probabilities were asked for, or may have been")
    if x.asked.get("top_logprobs"):
        raise NotApplicable("alternatives were asked for: logprob.top.without-logprobs judges that")
    for part in x.answer_parts:
        found = part.choice.get("logprobs")
        scores = any(found.values()) if isinstance(found, dict) else False
        require(not scores, "null in `logprobs`, as none were asked for", got=found, at=part)
