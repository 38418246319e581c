"""The server sends log probabilities when a request asks for them, and only then."""

from __future__ import annotations

from wireproof.judge.rules import MUST, SHOULD, Each, Source, contract, engine, observed, of, openapi, rule
from wireproof.judge.subjects import PLAIN
from wireproof.read.chat import Chat, is_answer, is_chat, is_plain
from wireproof.read.exchange import Exchange
from wireproof.read.logprobs import entries, scored
from wireproof.read.refusal import must_be_judged
from wireproof.read.request import response_format, tool_choice, top_logprobs, wants_logprobs
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get, is_int

_ASKED = Each(
    "every plain answer with log probabilities",
    lambda x: is_plain(x) and wants_logprobs(x),
    ("plain-logprobs", "plain-logprobs-alone", "plain-logprobs-cut"),
)
_WITHOUT_ALTERNATIVES = Each(
    "every answer to a request for log probabilities without alternatives",
    lambda x: is_answer(x) and wants_logprobs(x) and top_logprobs(x) == 0,
    ("plain-logprobs-alone", "plain-logprobs-0", "stream-logprobs-0"),
)
_NOT_ASKED = Each(PLAIN.what, PLAIN.match, (*PLAIN.needs, "plain-logprobs-off"))
_OUT_OF_RANGE = Each(
    "every request with an impossible top_logprobs",
    lambda x: is_chat(x) and x.response is not None and wants_logprobs(x) and _impossible(x.asked.get("top_logprobs")),
    ("logprobs-top-negative", "logprobs-top-21", "logprobs-top-word"),
)
_TOP_ALONE = Each(
    "every request with top_logprobs but without logprobs",
    lambda x: is_chat(x) and x.response is not None and is_int(x.asked.get("top_logprobs")) and not wants_logprobs(x),
    ("logprobs-top-alone", "logprobs-top-with-false"),
)
_COMBINED = Each(
    "every request with log probabilities and a response_format or stop strings",
    lambda x: is_chat(x) and x.valid and x.response is not None and wants_logprobs(x) and _is_combined(x),
    ("plain-logprobs-unicode", "stream-logprobs-unicode", "plain-logprobs-stop", "stream-logprobs-stop"),
)


def _impossible(value: object) -> bool:
    return value is not None and not (is_int(value) and 0 <= value <= 20)


def _is_combined(x: Exchange) -> bool:
    return response_format(x).form != "text" or bool(x.asked.get("stop"))


def _has_entries(x: Chat) -> bool:
    return any(entries(x).values())


@rule(
    "logprob.content.present",
    MUST,
    on=_ASKED,
    book="LOGPROB-001",
    source=contract("logprobs: true gives choices[].logprobs.content; OpenAPI has the same"),
)
def test_content_present(x: Chat) -> None:
    """With logprobs true, a plain answer has the log probabilities of its text in choices[].logprobs.content.

    Classifiers and evaluators read the score there; null is a silent loss that shows as a crash far away.
    """
    asked = x.asked.get("top_logprobs", 1)
    if not asked:
        raise NotApplicable("logprob.top.zero-is-empty and logprob.top.null-is-absent judge that")
    if tool_choice(x).forced:
        raise NotApplicable("a call was forced, and its tokens are not text")
    choices = [s for s in scored(x) if s.text]
    if not choices:
        raise inconclusive("the answer has no text")
    if any(s.entries for s in choices) and len(choices) > 1:
        return  # logprob.n.own-values judges the others
    require(choices[0].entries, "entries in logprobs.content", got=_logprobs_as_they_are(x))


def _logprobs_as_they_are(x: Chat) -> object:
    first = x.plain_choices[0]
    return first.get("logprobs", "no logprobs")


@rule(
    "logprob.absent.when-not-asked",
    MUST,
    on=_NOT_ASKED,
    book="LOGPROB-002",
    source=contract("log probabilities are opt-in; OpenAPI: logprobs defaults to false"),
)
def test_absent_when_not_asked(x: Chat) -> None:
    """Without logprobs true, a plain answer has no log probabilities: choices[].logprobs is null or absent.

    They are several times the size of the answer, and clients that did not ask pay for them with every request.
    """
    if wants_logprobs(x) or not x.knows_request:
        raise NotApplicable("log probabilities were asked for, or may have been")
    if x.asked.get("top_logprobs"):
        raise NotApplicable("alternatives were asked for: logprob.top.without-logprobs judges that")
    for choice in x.plain_choices:
        found = choice.get("logprobs")
        scores = any(found.values()) if isinstance(found, dict) else False
        require(not scores, "null in choices[].logprobs, as none were asked for", got=found)


@rule(
    "logprob.top.zero-is-empty",
    MUST,
    on=_WITHOUT_ALTERNATIVES,
    book="LOGPROB-009",
    source=openapi("ChatCompletionTokenLogprob.required: top_logprobs"),
)
def test_zero_is_empty(x: Chat) -> None:
    """With logprobs true and top_logprobs 0 or absent, each token has an entry with an empty list of alternatives.

    A server that takes 0 for "off" loses the score of the chosen token, which is all that confidence scoring needs; and
    a client that asked for no alternatives does not want to pay for any.
    """
    asked = x.asked.get("top_logprobs", "absent")
    if not x.knows_request or _impossible(x.asked.get("top_logprobs")):
        raise NotApplicable("it is unclear how many alternatives were asked for")
    choices = scored(x)
    if not any(s.entries for s in choices):
        if asked != 0 or not any(s.text for s in choices):
            raise inconclusive("the answer has no log probabilities")
        require(False, "an entry for each token with top_logprobs 0", got="none")
    for entry in (e for s in choices for e in s.entries):
        require(not entry.top, "top_logprobs []", got=f"{len(entry.top)} alternatives", at=entry.part)


@rule(
    "logprob.top.not-needed",
    MUST,
    on=of("plain-logprobs", "plain-logprobs-alone", "plain-logprobs-0"),
    source=openapi("top_logprobs: optional, minimum 0"),
)
def test_top_not_needed(with_five: Exchange, alone: Exchange, zero: Exchange) -> None:
    """A server that accepts logprobs true with top_logprobs also accepts it with top_logprobs 0 and without any.

    SDK code that works with OpenAI sends only logprobs; servers answered 400, or 500 "list index out of range".
    """
    if not with_five.ok:
        raise with_five.refused()
    for x, what in ((alone, "without top_logprobs"), (zero, "with top_logprobs 0")):
        must_be_judged(x)
        require(x.ok, f"200 for logprobs {what}, as with 5", got=x.refusal(), owner=x)


@rule(
    "logprob.top.null-is-absent",
    MUST,
    on=of("plain-logprobs-alone", "plain-logprobs-null"),
    source=openapi("top_logprobs: nullable in CreateModelResponseProperties"),
)
def test_null_is_absent(alone: Chat, null: Chat) -> None:
    """top_logprobs null next to logprobs true means the same as leaving it out.

    Typed clients serialise unset members as null: servers turned the scores off without a word.
    """
    if not alone.ok:
        raise alone.refused()
    if not _has_entries(alone):
        raise inconclusive("without top_logprobs there are no log probabilities either")
    must_be_judged(null)
    require(null.ok, "200, as without top_logprobs", got=null.refusal(), owner=null)
    require(_has_entries(null), "log probabilities, as without top_logprobs", got="none", owner=null)


# Values above 20, and -1 for "all", are engine extensions: an answer does not break the contract, a crash does.
@rule(
    "logprob.top.out-of-range-refused",
    MUST,
    on=_OUT_OF_RANGE,
    book="LOGPROB-007",
    source=openapi("top_logprobs: an integer, minimum 0, maximum 20"),
)
def test_out_of_range_refused(x: Exchange) -> None:
    """The server refuses a top_logprobs that is not an integer with a 4xx, and never sends a 5xx for one out of range.

    A crash looks like an outage: clients send the same request again and again. A server that takes a word for a number
    changes the results, and does not say so.
    """
    must_be_judged(x)
    value = x.asked.get("top_logprobs")
    status = x.status or 0
    require(status < 500, f"a 4xx for top_logprobs {value!r}", got=x.refusal())
    if not is_int(value):
        require(status >= 400, f"a 4xx for top_logprobs {value!r}", got=status)


@rule(
    "logprob.top.limit-kept",
    SHOULD,
    on=_OUT_OF_RANGE,
    source=openapi("top_logprobs: minimum 0, maximum 20"),
)
def test_limit_kept(x: Exchange) -> None:
    """The server refuses a top_logprobs below 0 or above 20 with a 4xx.

    Engines take -1 for the whole vocabulary, or allow any number: code written against them fails with OpenAI.
    """
    value = x.asked.get("top_logprobs")
    if not is_int(value):
        raise NotApplicable("logprob.top.out-of-range-refused judges other types")
    must_be_judged(x)
    require(not x.ok, f"a 4xx for top_logprobs {value}", got=x.status)


@rule(
    "logprob.top.without-logprobs",
    MUST,
    on=_TOP_ALONE,
    book="LOGPROB-008",
    source=openapi("top_logprobs: logprobs must be set to true if this parameter is used"),
)
def test_top_without_logprobs(x: Exchange) -> None:
    """The server refuses or ignores top_logprobs without logprobs true; it never sends a 5xx.

    OpenAI refuses it, many servers ignore it; a crash looks like an outage, and clients retry.
    """
    must_be_judged(x)
    require((x.status or 0) < 500, "a 4xx (or an answer without log probabilities)", got=x.refusal())


@rule(
    "logprob.top.needs-logprobs",
    SHOULD,
    on=_TOP_ALONE,
    source=observed("400 for top_logprobs without logprobs"),
)
def test_top_needs_logprobs(x: Exchange) -> None:
    """The server refuses top_logprobs without logprobs true with a 4xx, as it has no effect.

    If the server ignores it, callers miss the scores that they meant to get, and never learn why.
    """
    must_be_judged(x)
    require(not x.ok, "a 4xx for top_logprobs without logprobs", got=x.status)


@rule(
    "logprob.combined.no-5xx",
    MUST,
    on=_COMBINED,
    book="LOGPROB-018",
    source=contract("log probabilities, structured output and stop strings go together"),
)
def test_combined_no_5xx(x: Exchange) -> None:
    """Log probabilities together with response_format or stop strings never end in a 5xx.

    Masked tokens have probability 0: their logarithm is -inf, and encoding it crashed server after server.
    """
    must_be_judged(x)
    require((x.status or 0) < 500, "an answer, or a 4xx that says what cannot be combined", got=x.refusal())


_VLLM_SPECULATION: Source = engine(
    "vllm", "log probabilities are 0.0 under speculation", "https://github.com/vllm-project/vllm/issues/17876"
)
_SEVERAL = Each(
    "every sampled answer with several choices and log probabilities",
    lambda x: is_answer(x) and wants_logprobs(x) and x.asked_n > 1 and x.asked.get("temperature") != 0,
    ("plain-n4-logprobs", "stream-logprobs-n2"),
)


@rule("logprob.sampled.plausible", MUST, on=_SEVERAL, source=_VLLM_SPECULATION)
def test_sampled_plausible(x: Chat) -> None:
    """The log probabilities of choices that differ are not all 0: tokens sampled differently were not certain.

    Perplexity and reinforcement learning read them: a 200 with zeros poisons a training run.
    """
    choices = [s for s in scored(x) if s.text and s.entries]
    if len({s.text for s in choices}) < 2:
        raise inconclusive("the choices do not differ")
    values = [entry.logprob for s in choices for entry in s.entries]
    require(any(value != 0 for value in values), "a log probability below 0", got=f"{len(values)} times 0")


@rule(
    "logprob.n.own-values",
    MUST,
    on=Each(
        "every answer with several choices and log probabilities",
        lambda x: is_answer(x) and wants_logprobs(x) and x.asked_n > 1,
        ("plain-n4-logprobs", "stream-logprobs-n2"),
    ),
    book="LOGPROB-019",
    source=openapi("CreateChatCompletionResponse.choices.items.logprobs"),
)
def test_n_own_values(x: Chat) -> None:
    """With n above 1, every choice has its own log probabilities.

    Best-of-n picks by them: if every choice has those of choice 0, it picks by chance.
    """
    choices = [s for s in scored(x) if s.text]
    if not all(is_int(s.choice) for s in choices) or len({s.choice for s in choices}) < len(choices):
        raise inconclusive("the choices cannot be told apart by their index")
    known = [s for s in choices if s.entries]
    if not known:
        raise inconclusive("no choice has log probabilities")
    missing = [s.choice for s in choices if not s.entries]
    require(not missing, "log probabilities in every choice with text", got=f"none in {missing}")
    seen: dict[tuple[str, ...], str] = {}
    for s in known:
        said = tuple(repr((get(e.value, "token"), e.logprob)) for e in s.entries)
        other = seen.setdefault(said, s.text)
        require(other == s.text, f"log probabilities of {s.text!r}", got=f"those of {other!r}", at=s.entries[0].part)
