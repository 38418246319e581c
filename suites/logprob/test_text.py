"""Entries and their text: one entry for each token, and joined they say the same as the text."""

from __future__ import annotations

from wireproof.judge.rules import SHOULD, Each, contract, engine, openapi, rule
from wireproof.read.chat import Chat, is_answer, is_plain
from wireproof.read.logprobs import Scored, as_bytes, begins, is_stand_in, join, read_so_far, reads, scored
from wireproof.read.request import wants_logprobs
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get, is_int

_PLAIN = Each(
    "every plain answer with log probabilities",
    lambda x: is_plain(x) and wants_logprobs(x) and x.asked_n == 1,
    ("plain-logprobs", "plain-logprobs-cut", "plain-logprobs-unicode"),
)
_ANY = Each(
    "every answer with log probabilities",
    lambda x: is_answer(x) and wants_logprobs(x),
    ("plain-logprobs", "stream-logprobs", "plain-logprobs-unicode", "stream-logprobs-unicode"),
)


def _comparable(x: Chat) -> Scored:
    """The only choice, if its entries and its text must say the same."""
    choice = scored(x)[0]
    if not choice.entries:
        raise inconclusive("the answer has no log probabilities: logprob.content.present judges that")
    if not choice.comparable:
        raise inconclusive("the answer is not plain text that ended by itself or at the limit")
    return choice


@rule(
    "logprob.count.equals-tokens",
    SHOULD,
    on=_PLAIN,
    book="LOGPROB-013",
    source=openapi("the Logprobs example: 9 entries, 9 tokens"),
)
def test_count(x: Chat) -> None:
    """There are as many entries as completion tokens, give or take one end token if the answer was not cut off.

    Evaluators divide the sum by the count: a token without an entry shifts every score.
    """
    choice = _comparable(x)
    if x.asked.get("stop"):
        raise NotApplicable("the tokens of a stop string are counted, and may have no entry")
    tokens = get(x.usage or {}, "completion_tokens")
    if not is_int(tokens) or get(x.usage, "completion_tokens_details", "reasoning_tokens"):
        raise inconclusive("usage does not say how many tokens the text has")
    cut = choice.finish == "length"
    if cut and tokens != x.token_limit:
        raise inconclusive("usage does not match the limit: the rules for usage judge that")
    slack = 0 if cut else 1
    count = len(choice.entries)
    require(abs(count - tokens) <= slack, f"{tokens} entries, one for each token", got=count)


@rule(
    "logprob.bytes.join-to-content",
    SHOULD,
    on=_PLAIN,
    book="LOGPROB-014",
    source=openapi("bytes: representations must be combined to generate the correct text"),
)
def test_bytes_join(x: Chat) -> None:
    """The bytes of all entries, joined and decoded as UTF-8, are the text of the answer.

    Tools map scores to text by these bytes: U+FFFD in place of a part of an emoji, or tokens of hidden reasoning,
    shift everything after them.
    """
    choice = _comparable(x)
    parts = [entry.bytes for entry in choice.own]
    if None in parts:
        raise NotApplicable("bytes is null, which is allowed")
    joined = b"".join(part for part in parts if part is not None)
    same = reads(joined, choice.text)
    require(same, f"bytes that join into {choice.text!r}", got=read_so_far(joined))


@rule(
    "logprob.token.exact-text",
    SHOULD,
    on=_PLAIN,
    book="LOGPROB-016",
    source=contract("' Yes' and 'Yes' are different labels"),
)
def test_exact_text(x: Chat) -> None:
    """Joined, the tokens of an ASCII answer are its exact text, with blanks and case.

    Cheap classifiers look up " Yes" and find "Yes", or the vocabulary's spelling ("\u0120Yes").
    """
    choice = _comparable(x)
    tokens = [entry.token for entry in choice.own if isinstance(entry.token, str)]
    odd = len(tokens) < len(choice.own) or any(is_stand_in(token) for token in tokens)
    if odd or not choice.text.isascii() or any(entry.bytes == b"" for entry in choice.own):
        raise inconclusive("the answer is not pure ASCII")
    if not choice.agrees and all(entry.bytes is not None for entry in choice.own):
        raise inconclusive("the bytes do not join into the text: logprob.bytes.join-to-content judges that")
    joined = "".join(tokens)
    require(
        joined.removeprefix(" ") == choice.text.removeprefix(" "), f"tokens that join into {choice.text!r}", got=joined
    )


@rule(
    "logprob.bytes.fit-token",
    SHOULD,
    on=_ANY,
    book="LOGPROB-015",
    source=openapi("bytes: the UTF-8 bytes representation of the token"),
)
def test_bytes_fit(x: Chat) -> None:
    """If a token is whole characters, bytes is its UTF-8.

    Clients that join bytes and clients that join tokens must read the same text. (Servers show parts of characters in
    many ways, with raw bytes.)
    """
    for entry in (e for choice in scored(x) for e in choice.entries):
        for value in (entry.value, *entry.top):
            token, found = get(value, "token"), as_bytes(get(value, "bytes"))
            if isinstance(token, str) and found is not None and not is_stand_in(token):
                same = token.encode("utf-8", "surrogatepass") == found
                require(same or _raw(token), f"the UTF-8 of {token!r}", got=list(found[:40]), at=entry.part)


def _raw(token: str) -> bool:
    """A label that is not text: an escape ("bytes:\\xf0") or a token's number ("token_id:262")."""
    return token.startswith(("bytes:", "token_id:", "id:"))


@rule(
    "logprob.stop.cut-with-text",
    SHOULD,
    on=Each(
        "every answer with log probabilities that may have ended at a stop string",
        lambda x: is_answer(x) and wants_logprobs(x) and bool(x.asked.get("stop")),
        ("plain-logprobs-stop", "stream-logprobs-stop"),
    ),
    source=contract("no score for text that nobody sees"),
)
def test_stop_cut(x: Chat) -> None:
    """At a stop string, the entries end with the text: hidden tokens have none, except one that is partly shown.

    Sums and means over the entries count words that the answer does not have.
    """
    choices = [s for s in scored(x) if s.cut and s.entries and s.text and not s.other and s.readable]
    if not choices:
        raise inconclusive("no text ended at a stop string")
    for choice in choices:
        before, whole = join(choice.entries[:-1]), join(choice.entries)
        if before is None or whole is None:
            raise inconclusive("an entry does not say what it stands for")
        said = read_so_far(whole)
        if not begins(choice):
            raise inconclusive("the entries do not begin with the text: other rules judge that")
        ends = len(read_so_far(before).removeprefix(" ")) <= len(choice.text)
        require(ends, f"entries for {choice.text!r}", got=said)


@rule(
    "logprob.finish.no-extra-entry",
    SHOULD,
    on=_ANY,
    source=engine("vllm", "an entry for the end token", "https://github.com/vllm-project/vllm/issues/17637"),
)
def test_no_extra_entry(x: Chat) -> None:
    """After the last token of the text, there is no entry for the end token.

    With -9999 for the end token, a good answer has the mean of nonsense; joined tokens end in "<|im_end|>".
    """
    for choice in scored(x):
        extra = choice.extra
        require(extra is None, f"a last entry for {choice.text[-20:]!r}", got=extra.value if extra else "")
    if not any(choice.comparable for choice in scored(x)):
        raise inconclusive("there is no plain text to compare with")
