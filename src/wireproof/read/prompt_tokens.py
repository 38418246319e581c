"""What a request came to in its prompt: whether it was answered, and how many tokens the model was given to read.

prompt_tokens is the witness of a chat template that works with any model: a text that is lost on the way is missing
from the count, whatever the model then says.
"""

from __future__ import annotations

from wireproof.read.chat import Chat
from wireproof.read.exchange import Exchange
from wireproof.read.refusal import BUSY, is_refused
from wireproof.verdict import inconclusive, require
from wireproof.wire.strictjson import get, is_int


def prompt_tokens(x: Chat) -> int:
    """usage.prompt_tokens of an answer; inconclusive when it does not have it."""
    if not x.ok:
        raise x.refused()
    found = get(x.usage, "prompt_tokens")
    if not is_int(found):
        raise inconclusive("usage does not say how long the prompt was")
    return int(found)


def must_answer(x: Exchange, what: str, usual: Exchange | None = None) -> None:
    """Go on when the request was answered; fail when it was refused with a 4xx, or ended in a 5xx.

    `usual` is a request of the ordinary kind: where that is not answered, the form of this one was not judged.
    """
    if usual is not None and not usual.ok:
        raise usual.refused()
    status = x.answered.status
    crashed = status is not None and status >= 500 and status != BUSY
    require(not (crashed or is_refused(x)), f"200 for {what}", got=x.refusal(), owner=x)
    if not x.ok:
        raise x.refused()


def same_prompt(x: Chat, usual: Chat, what: str) -> None:
    """The form is answered, and the model was given as many tokens as with the usual form."""
    must_answer(x, what, usual)
    wanted, found = prompt_tokens(usual), prompt_tokens(x)
    require(found == wanted, f"prompt_tokens {wanted}, with {what}", got=found, owner=x)
