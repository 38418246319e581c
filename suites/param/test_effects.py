"""Parameters have the effect that they promise, measured against the same request without them.

Where the same request twice gives two answers, or where sampling changes nothing, there is nothing to measure by.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from wireproof.conversations_param import LETTER, token_ids
from wireproof.exchange import Exchange
from wireproof.judge import Take
from wireproof.rules import MAY, MUST, SHOULD, engine, of, openapi, rule
from wireproof.scores import Entry, finite, scored
from wireproof.verdict import inconclusive, require
from wireproof.wire.strictjson import get, is_int

_REQUEST = "CreateChatCompletionRequest"
_EFFECTS = of("param-effects")
_SAMPLING = "https://docs.vllm.ai/en/latest/api/vllm/sampling_params/"
_STRENGTH = 2.0  # the frequency_penalty that is sent
_SLACK = 0.5  # what rounding may do to a difference of log probabilities


def _text(x: Exchange) -> str:
    """The text of the one choice; inconclusive when there is none."""
    content = x.outcomes[0].content if x.outcomes else None
    if not isinstance(content, str) or not content:
        raise inconclusive("an answer has no text")
    return content


def _greedy(effects: Take) -> str:
    """The answer at temperature 0; inconclusive when it did not come twice."""
    first, second = _text(effects["greedy"]), _text(effects["greedy-again"])
    if first != second:
        raise inconclusive("the same request at temperature 0 gave two answers")
    return first


def _must_pin(effects: Take, step: str, what: str) -> None:
    """Fail when a request at temperature 1, with a parameter that leaves one token to choose from, is not greedy."""
    greedy, x = _greedy(effects), effects[step]
    if not x.ok:
        raise x.refused()
    free = [_text(effects[name]) for name in ("seed-7", "seed-8") if effects[name].ok]
    if not any(text != greedy for text in free):
        raise inconclusive("sampling at temperature 1 gave the same as temperature 0: nothing shows what pinned it")
    found = _text(x)
    require(found == greedy, f"{greedy!r} as at temperature 0, with {what}", got=found, owner=x)


@rule("param.top-p.pins", SHOULD, on=_EFFECTS, source=openapi(f"{_REQUEST}.top_p"))
def test_top_p_pins(effects: Take) -> None:
    """A tiny top_p at temperature 1 leaves the likeliest token alone: the answer is that of temperature 0.

    Who sets top_p to tame a model gets wild answers from a server that ignores it.
    """
    _must_pin(effects, "top-p", "top_p 0.0001")


@rule(
    "param.top-k.greedy",
    MAY,
    on=_EFFECTS,
    book="PARAM-025",
    source=engine("vllm", "SamplingParams.top_k", _SAMPLING),
)
def test_top_k_greedy(effects: Take) -> None:
    """top_k 1 at temperature 1 gives the answer of temperature 0, or is refused.

    Model cards recommend a top_k; ignored, the model is not the one that was evaluated.
    """
    _must_pin(effects, "top-k", "top_k 1")


@rule("param.min-p.greedy", MAY, on=_EFFECTS, source=engine("vllm", "SamplingParams.min_p", _SAMPLING))
def test_min_p_greedy(effects: Take) -> None:
    """min_p 1 at temperature 1 gives the answer of temperature 0, or is refused.

    Front ends for open models set it by default.
    """
    _must_pin(effects, "min-p", "min_p 1")


@rule("param.stop.never-matching", MUST, on=_EFFECTS, source=openapi("StopConfiguration"))
def test_stop_never_matching(effects: Take) -> None:
    """A stop string that never occurs changes nothing, also when the limit on tokens ends the answer.

    Text held back for a match that never comes is lost: the end of a long answer is missing.
    """
    greedy, x = _greedy(effects), effects["stop-never"]
    require(_text(x) == greedy, f"{greedy!r} as without stop", got=_text(x), owner=x)


@rule("param.stop.newline", MUST, on=of("param-stop-newline"), source=openapi("StopConfiguration"))
def test_stop_newline(lines: Take) -> None:
    r"""A newline is a stop string like any other: the answer is its first line.

    The commonest of all, and the one that disappears when a server trims blanks: then nothing comes, or too much.
    """
    first, newline, _ = _text(lines["whole"]).partition("\n")
    if not newline or not first.strip():
        raise inconclusive("the model did not write two lines")
    content = lines["stopped"].outcomes[0].content
    found = content if isinstance(content, str) else ""
    if "\n" in found:
        raise inconclusive("the answer has a newline: stop.text.excluded judges that")
    require(found.rstrip() == first.rstrip(), f"{first!r}, the first line", got=repr(found), owner=lines["stopped"])


# -- penalties ------------------------------------------------------------------------------


def _must_change(entries: tuple[Entry, ...]) -> bool:
    """Whether the penalty must have changed the greedy choice: at some place it is more than the lead of the chosen
    token over another one."""
    said: Counter[Any] = Counter()
    for entry in entries:
        token, own = entry.token, finite(entry.logprob)
        if not isinstance(token, str) or own is None:
            return False
        for other in entry.top:
            name, score = get(other, "token"), finite(get(other, "logprob"))
            if isinstance(name, str) and name != token and score is not None:
                lead = own - score
                if _STRENGTH * (said[token] - said[name]) > lead + _SLACK:
                    return True
        said[token] += 1
    return False


@rule("param.penalty.effect", SHOULD, on=of("param-penalty"), source=openapi(f"{_REQUEST}.frequency_penalty"))
def test_penalty_effect(penalty: Take) -> None:
    """frequency_penalty 2 changes an answer in which a token comes again and again.

    It is the documented remedy for loops; ignored, the loop goes on to the limit. What the log probabilities of the
    free answer say of its lead over others decides whether the penalty must have changed it.
    """
    free, penalised = penalty["free"], penalty["penalised"]
    before = _text(free)
    if not _must_change(scored(free)[0].entries):
        raise inconclusive("nothing in the free answer repeats itself so often that the penalty must show")
    require(_text(penalised) != before, "another answer with frequency_penalty 2", got=before, owner=penalised)


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

    Classifiers are built on it: the label comes out of two tokens, or out of the whole vocabulary.
    """
    if not bias.steps("forced"):
        raise inconclusive("there is no /tokenize that tells token ids")
    forced = bias["forced"]
    if not forced.ok:
        raise forced.refused()
    letters = set(_text(forced)) - {" "}
    require(letters == {LETTER}, f"nothing but {LETTER!r}, which is forced", got=_text(forced), owner=forced)
    if not bias.steps("banned"):
        return
    free, banned = bias["free"], bias["banned"]
    if not banned.ok:
        raise banned.refused()
    tokens = (free.usage or {}).get("completion_tokens")
    ids = token_ids(bias["tokenize-free"])
    if not is_int(tokens) or len(ids) != tokens:
        return  # the text may have been written with other tokens than those that were banned
    found = banned.outcomes[0].content
    require(found != _text(free), "another answer without the tokens of the first", got=found, owner=banned)
