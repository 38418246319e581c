"""The vocabulary: byte-level BPE with 256 byte tokens, a few hundred merges, and special tokens.

In: text or bytes. Out: token ids, and back. Every byte string round-trips, because each single byte is a
token; emoji and CJK therefore really do split over tokens, which is what a streaming server must get right.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from .merges import MERGES

SPECIALS = (
    "<|bos|>",
    "<|end|>",
    "<|system|>",
    "<|developer|>",
    "<|user|>",
    "<|assistant|>",
    "<|tool|>",
    "<|function|>",
    "<|tools|>",
    "<|name|>",
    "<|eom|>",
    "<|call|>",
    "<|args|>",
    "<|/call|>",
)


def _unspell() -> dict[str, int]:
    """GPT-2's letters for bytes, read backwards: letter -> byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(b): b for b in plain}
    others = [b for b in range(256) if b not in set(plain)]
    return letters | {chr(256 + i): b for i, b in enumerate(others)}


_LETTERS = _unspell()
TOKENS: tuple[bytes, ...] = (
    *(bytes([b]) for b in range(256)),
    *(bytes(_LETTERS[letter] for letter in word) for word in MERGES.split()),
    *(name.encode() for name in SPECIALS),
)
SIZE = len(TOKENS)
FIRST_SPECIAL = SIZE - len(SPECIALS)
SPECIAL: dict[str, int] = {name: FIRST_SPECIAL + i for i, name in enumerate(SPECIALS)}
BOS, EOS, EOM = SPECIAL["<|bos|>"], SPECIAL["<|end|>"], SPECIAL["<|eom|>"]
CALL, ARGS, CALL_END = SPECIAL["<|call|>"], SPECIAL["<|args|>"], SPECIAL["<|/call|>"]
TOOLS, NAME, ASSISTANT = SPECIAL["<|tools|>"], SPECIAL["<|name|>"], SPECIAL["<|assistant|>"]

#: Ordinary tokens by their bytes. Special tokens are not in here: no text can spell one.
ID_OF: dict[bytes, int] = {data: i for i, data in enumerate(TOKENS[:FIRST_SPECIAL])}
LONGEST = max(len(data) for data in ID_OF)

# Merges never cross these pieces. The bounds keep the quadratic merge loop short on hostile input.
_PIECES = re.compile(
    rb'": "|": |", "|, "'
    rb"| ?[A-Za-z]{1,24}| ?[0-9]{1,3}| ?[!-/:-@\[-`{-~]{1,4}"
    rb"|[\xc0-\xff][\x80-\xbf]{1,3}|\s{1,4}|[\x00-\xff]",
)


@lru_cache(maxsize=65536)
def _merge(piece: bytes) -> tuple[int, ...]:
    """Tokens of one piece: join the pair with the earliest merge until none is left."""
    whole = ID_OF.get(piece)
    if whole is not None:
        return (whole,)
    parts = [piece[i : i + 1] for i in range(len(piece))]
    while len(parts) > 1:
        ranks = [ID_OF.get(a + b, SIZE) for a, b in pairwise(parts)]
        best = min(ranks)
        if best == SIZE:
            break
        at = ranks.index(best)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return tuple(ID_OF[part] for part in parts)


def encode(text: str | bytes) -> list[int]:
    """Text (or any bytes) to token ids, without special tokens."""
    data = text.encode() if isinstance(text, str) else text
    return [token for piece in _PIECES.findall(data) for token in _merge(piece)]


def decode(tokens: Iterable[int]) -> bytes:
    """Token ids to bytes; special tokens have no bytes in text."""
    return b"".join(TOKENS[t] for t in tokens if t < FIRST_SPECIAL)


def label(token: int) -> str:
    r"""How a token is shown in logprobs: its text, or `bytes:\xf0\x9f` when it is part of a character."""
    data = TOKENS[token]
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{b:02x}" for b in data)


def prefixes(data: bytes) -> list[int]:
    """All tokens that `data` begins with, the longest first."""
    found = (ID_OF.get(data[:length]) for length in range(min(LONGEST, len(data)), 0, -1))
    return [token for token in found if token is not None]


def is_utf8_start(data: bytes) -> bool:
    """Whether `data` can be the beginning of valid UTF-8 (nothing wrong so far, maybe incomplete)."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return True
