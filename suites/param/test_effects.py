"""Parameters have the effect that they promise, measured against the same request without them.

If the same request gives two different answers, or if sampling changes nothing, nothing can be measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from wireproof.judge.rules import MUST, SHOULD, contract, engine, of, openapi, rule
from wireproof.read.chat import Chat
from wireproof.read.logprobs import Entry, finite, scored
from wireproof.read.recording import Take
from wireproof.read.refusal import is_refused, names
from wireproof.scenarios.conversations.param import LETTER, OPEN, token_ids
from wireproof.verdict import Unsupported, inconclusive, require
from wireproof.wire.strictjson import get, is_int

_REQUEST = "CreateChatCompletionRequest"
_EFFECTS = of("param-effects")
_SAMPLING = "https://docs.vllm.ai/en/latest/api/vllm/sampling_params/"
_STRENGTH = 2.0  # the penalty that is sent
_SLACK = 0.5  # how far rounding may change a difference of log probabilities
# How far back every engine looks for the tokens that repetition_penalty punishes (tokens; mlx-lm: 20).
_WINDOW = 16


def _text(x: Chat) -> str:
    """The text of the one choice; inconclusive when there is none."""
    content = x.outcomes[0].content if x.outcomes else None
    if not isinstance(content, str) or not content:
        raise inconclusive("an answer has no text")
    return content


def _greedy(effects: Take) -> str:
    """The answer at temperature 0; inconclusive when a second request gave another one."""
    first, second = _text(effects.chat("greedy")), _text(effects.chat("greedy-again"))
    if first != second:
        raise inconclusive("the same request at temperature 0 gave two answers")
    return first


def _must_know(conversation: Take, step: str, parameter: str) -> None:
    """Continue if the server knows an engine's own parameter: it refuses a value of the wrong type by name.

    A server that has never heard of a member may ignore it, as most servers do with unknown members.
    """
    probes = conversation.chats(f"{step}-wrong")
    if not probes:
        raise inconclusive(f"{parameter} had no effect, and nothing shows whether the server knows it")
    if probes[0].ok:
        raise Unsupported(f"{parameter} has no effect, and any value is accepted: the server does not know it")
    if not (is_refused(probes[0]) and names(probes[0], parameter)):
        raise inconclusive(f"{parameter} had no effect, and the answer to a wrong value does not name it")


def _must_pin(effects: Take, step: str, what: str, own: str = "") -> None:
    """Fail when a request at temperature 1, with a parameter that leaves one token to choose from, is not greedy.

    `own` is the parameter's name if only engines have it, not OpenAI.
    """
    greedy, x = _greedy(effects), effects.chat(step)
    if not x.ok:
        raise x.refused()
    free = [_text(effects.chat(name)) for name in ("seed-7", "seed-8") if effects.chat(name).ok]
    if not any(text != greedy for text in free):
        raise inconclusive("temperature 1 gave the same answer as temperature 0: the parameter's effect cannot be seen")
    found = _text(x)
    if own and found != greedy:
        _must_know(effects, step, own)
    require(found == greedy, f"{greedy!r} as at temperature 0, with {what}", got=found, owner=x)


@rule("param.top-p.pins", SHOULD, on=_EFFECTS, source=openapi(f"{_REQUEST}.top_p"))
def test_top_p_pins(effects: Take) -> None:
    """A tiny top_p at temperature 1 leaves only the likeliest token: the answer is that of temperature 0.

    A user who sets top_p to tame a model gets wild answers from a server that ignores it.
    """
    _must_pin(effects, "top-p", "top_p 0.0001")


@rule(
    "param.top-k.greedy",
    SHOULD,
    on=_EFFECTS,
    book="PARAM-025",
    source=engine("vllm", "SamplingParams.top_k", _SAMPLING),
)
def test_top_k_greedy(effects: Take) -> None:
    """A server that knows top_k obeys it: top_k 1 at temperature 1 gives the answer of temperature 0.

    Model cards recommend a top_k; if it is ignored, the model is not the one that was evaluated. If the server refuses
    it, or ignores it and accepts any value, it counts as unsupported: no OpenAI API has it.
    """
    _must_pin(effects, "top-k", "top_k 1", "top_k")


@rule("param.min-p.greedy", SHOULD, on=_EFFECTS, source=engine("vllm", "SamplingParams.min_p", _SAMPLING))
def test_min_p_greedy(effects: Take) -> None:
    """A server that knows min_p obeys it: min_p 1 at temperature 1 gives the answer of temperature 0.

    Front ends for open models set it by default. (As with top_k, a server that does not know it may ignore it.)
    """
    _must_pin(effects, "min-p", "min_p 1", "min_p")


@rule("param.stream.same-sample", SHOULD, on=_EFFECTS, source=contract("one answer, two ways to send it"))
def test_stream_same_sample(effects: Take) -> None:
    """seed and top_p have the same effect in a stream as in a plain answer.

    A chat window streams, and the evaluation before it did not: nobody notices settings that are lost in one of the
    two modes. (chunk.parity.with-plain compares the answers at temperature 0.)
    """
    greedy, control = _greedy(effects), effects.chat("stop-never-stream")
    if _text(control) != greedy:
        raise inconclusive("the stream differs even at temperature 0: chunk.parity.with-plain judges that")
    shown = False
    for step, again in (("seed-7", "seed-7-again"), ("top-p", "greedy")):
        x, plain = effects.chat(f"{step}-stream"), effects.chat(step)
        if not (x.ok and plain.ok and effects.chat(again).ok) or _text(plain) != _text(effects.chat(again)):
            continue  # other rules judge what does not hold without a stream
        shown = True
        require(_text(x) == _text(plain), f"{_text(plain)!r} as without stream", got=_text(x), owner=x)
    if not shown:
        raise inconclusive("neither seed nor top_p has the same effect twice without a stream")


@rule("param.stop.never-matching", MUST, on=_EFFECTS, source=openapi("StopConfiguration"))
def test_stop_never_matching(effects: Take) -> None:
    """A stop string that never occurs changes nothing, even when the token limit ends the answer.

    Text held back for a match that never comes is lost: the end of a long answer is missing.
    """
    greedy, x = _greedy(effects), effects.chat("stop-never")
    require(_text(x) == greedy, f"{greedy!r} as without stop", got=_text(x), owner=x)


@rule("param.stop.newline", MUST, on=of("param-stop-newline"), source=openapi("StopConfiguration"))
def test_stop_newline(lines: Take) -> None:
    r"""A newline is a stop string like any other: the server returns only the first line.

    It is the most common one, and it disappears when a server trims blanks: the answer is then empty, or too long.
    """
    first, newline, _ = _text(lines.chat("whole")).partition("\n")
    if not newline or not first.strip():
        raise inconclusive("the model did not write two lines")
    content = lines.chat("stopped").outcomes[0].content
    found = content if isinstance(content, str) else ""
    if "\n" in found:
        raise inconclusive("the answer has a newline: stop.text.excluded judges that")
    require(
        found.rstrip() == first.rstrip(), f"{first!r}, the first line", got=repr(found), owner=lines.chat("stopped")
    )


# -- penalties ------------------------------------------------------------------------------


def _entries(x: Chat) -> tuple[Entry, ...]:
    """The entries of the one choice; inconclusive when they are not those of its text (mlx-lm names other tokens)."""
    found = scored(x)[0]
    if not found.agrees:
        raise inconclusive("the log probabilities are not those of the text")
    return found.entries


# What a penalty subtracts from the score of a token, given how often the token was said.
Cost = Callable[[int], float]


def _must_change(entries: tuple[Entry, ...], cost: Cost) -> bool:
    """Whether the penalty must have changed the greedy choice: at some place it exceeds the lead of the chosen token
    over another one."""
    said: Counter[Any] = Counter()
    for entry in entries:
        token, own = entry.token, finite(entry.logprob)
        if not isinstance(token, str) or own is None:
            return False
        for name, lead in _leads(entry, token, own):
            if cost(said[token]) - cost(said[name]) > lead + _SLACK:
                return True
        said[token] += 1
    return False


def _leads(entry: Entry, token: str, own: float) -> list[tuple[str, float]]:
    """The other tokens at a place, each with the lead of the chosen one over it.

    Empty if another one is likelier: something has already changed the choice, or the scores are not its own.
    """
    scores = [(get(other, "token"), finite(get(other, "logprob"))) for other in entry.top]
    leads = [(name, own - score) for name, score in scores if isinstance(name, str) and score is not None]
    return [(name, lead) for name, lead in leads if name != token] if all(lead >= 0 for _, lead in leads) else []


def _must_differ(penalty: Take, step: str, parameter: str) -> None:
    """Fail when a request with a penalty that must show got the same answer as the open one."""
    before, x = _text(penalty.chat("open")), penalty.chat(step)
    if not x.ok:
        raise x.refused()
    require(_text(x) != before, f"another answer with {parameter} 2", got=before, owner=x)


@rule("param.penalty.effect", SHOULD, on=of("param-penalty"), source=openapi(f"{_REQUEST}.frequency_penalty"))
def test_penalty_effect(penalty: Take) -> None:
    """frequency_penalty 2 changes an answer that repeats a token again and again.

    It is the documented remedy for loops; if it is ignored, the loop goes on to the limit. The log probabilities of
    the free answer show by how much each token led, and so whether the penalty must have changed the answer.
    """
    free, penalised = penalty.chat("free"), penalty.chat("penalised")
    before = _text(free)
    if not _must_change(_entries(free), lambda times: _STRENGTH * times):
        raise inconclusive("nothing in the free answer repeats often enough for the penalty to show")
    require(_text(penalised) != before, "another answer with frequency_penalty 2", got=before, owner=penalised)


@rule("param.presence-penalty.effect", SHOULD, on=of("param-penalty"), source=openapi(f"{_REQUEST}.presence_penalty"))
def test_presence_penalty_effect(penalty: Take) -> None:
    """presence_penalty 2 changes an answer that repeats a token where a new one was nearly as likely.

    It moves a model on to new topics; if it is ignored, a writer gets the same words whatever the slider says. It does
    not grow with each repetition, so only a close decision, which the log probabilities show, must change.
    """
    if not _must_change(_entries(penalty.chat("open")), lambda times: _STRENGTH if times else 0.0):
        raise inconclusive("no token was repeated where a new one was nearly as likely")
    _must_differ(penalty, "presence", "presence_penalty")


def _must_turn(entries: tuple[Entry, ...]) -> bool:
    """Whether repetition_penalty must have changed the greedy choice: one of the last few tokens was repeated, and one
    that is in neither the answer nor the prompt was almost as likely.

    The penalty divides logits, which no API shows; it overcomes a lead of up to 0.5 for any logit above 1.
    """
    said: list[Any] = []
    for entry in entries:
        token, own = entry.token, finite(entry.logprob)
        if not isinstance(token, str) or own is None:
            return False
        if token in said[-_WINDOW:]:
            for name, lead in _leads(entry, token, own):
                asked = name.strip().lower() in OPEN.lower()  # engines count the words of the prompt as said
                if lead <= _SLACK and name not in said and not asked:
                    return True
        said.append(token)
    return False


@rule(
    "param.repetition-penalty.effect",
    SHOULD,
    on=of("param-penalty"),
    source=engine("vllm", "SamplingParams.repetition_penalty", _SAMPLING),
)
def test_repetition_penalty_effect(penalty: Take) -> None:
    """A server that knows repetition_penalty obeys it: 2 reverses a close decision for a repeated token.

    Model cards recommend it against loops. If the server refuses it, or ignores it and accepts any value, it counts
    as unsupported.
    """
    if not penalty.chat("repetition").ok:
        raise penalty.chat("repetition").refused()
    if not _must_turn(_entries(penalty.chat("open"))):
        raise inconclusive("no token was repeated where a new one was almost as likely")
    if _text(penalty.chat("repetition")) == _text(penalty.chat("open")):
        _must_know(penalty, "repetition", "repetition_penalty")
    _must_differ(penalty, "repetition", "repetition_penalty")


# -- logit_bias -----------------------------------------------------------------------------


@rule(
    "param.logit-bias.effect",
    SHOULD,
    on=of("param-logit-bias"),
    book="PARAM-022",
    source=openapi(f"{_REQUEST}.logit_bias: -100 and 100 ban and force a token"),
)
def test_logit_bias_effect(bias: Take) -> None:
    """logit_bias 100 forces a token, and -100 bans one.

    Classifiers are built on it: without it the label is not one of two tokens but anything in the vocabulary.
    """
    if not bias.chats("forced"):
        raise inconclusive("there is no /tokenize endpoint that gives token ids")
    forced = bias.chat("forced")
    if not forced.ok:
        raise forced.refused()
    letters = set(_text(forced)) - {" "}
    require(letters == {LETTER}, f"nothing but {LETTER!r}, which is forced", got=_text(forced), owner=forced)
    if not bias.chats("banned"):
        return
    free, banned = bias.chat("free"), bias.chat("banned")
    if not banned.ok:
        raise banned.refused()
    tokens = (free.usage or {}).get("completion_tokens")
    ids = token_ids(bias["tokenize-free"])
    if not is_int(tokens) or len(ids) != tokens:
        return  # the text may consist of other tokens than those that were banned
    found = banned.outcomes[0].content
    require(found != _text(free), "another answer without the tokens of the first", got=found, owner=banned)
