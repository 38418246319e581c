"""Whether a request was accepted or refused, for the rules that ask for one of the two.

A 4xx refuses, whatever its body (the shape of errors has rules of its own); a busy or locked door says nothing.
"""

from __future__ import annotations

import re

from wireproof.read.chat import Chat
from wireproof.read.exchange import Exchange
from wireproof.verdict import inconclusive, require
from wireproof.wire.strictjson import get

BUSY = 503
# Not allowed in, too slow, or too much at once: no judgement of the request.
LOCKED = frozenset({401, 403, 408, 429})
BUSY_OR_LOCKED = LOCKED | {BUSY}
_TOO_LONG = re.compile(r"context|too long|too many tokens|max(?:imum)?[ _](?:model|seq|input|prompt|total)", re.I)


def is_refused(x: Exchange) -> bool:
    """Whether a 4xx says no to the request itself."""
    return x.status is not None and 400 <= x.status < 500 and x.status not in LOCKED


def must_be_judged(x: Exchange) -> None:
    """Go on unless the door was locked or the server busy: such an answer shows nothing about the request."""
    if x.status in BUSY_OR_LOCKED:
        raise inconclusive(f"the request was not judged: {x.refusal()}")


def must_accept(x: Exchange, what: str, usual: Exchange | None = None) -> None:
    """Go on when the request was accepted, fail when it was refused.

    `usual` is a request of the ordinary kind: where that is refused, too, the feature is missing and the form of the
    request was not judged. What did not fit into the context, and what ended in a 5xx, is inconclusive here.
    """
    if usual is not None and not usual.ok:
        raise usual.refused()
    if x.ok:
        return
    if is_refused(x) and _TOO_LONG.search(x.refusal()):
        raise inconclusive(f"the request did not fit: {x.refusal()}")
    require(not is_refused(x), f"200 for {what}", got=x.refusal(), owner=x)
    raise inconclusive(f"the request was not judged: {x.refusal()}")


def must_refuse(x: Chat, what: str) -> None:
    """Fail unless the request was refused with a 4xx."""
    if x.answered.status in BUSY_OR_LOCKED:
        raise inconclusive(f"the request was not judged: {x.refusal()}")
    if x.ok and (x.errors if x.is_event_stream else get(x.parsed.value, "error")):
        raise inconclusive("an error came with status 200: another rule judges that")
    require(is_refused(x), f"a 4xx for {what}", got=f"{x.status}" if x.ok else x.refusal(), owner=x)


def must_not_crash(x: Exchange) -> None:
    """Fail on a 5xx; any other judgement of the request will do.

    (That there is an answer at all is http.body.framed-exactly's matter.)
    """
    must_be_judged(x)
    status = x.answered.status
    require(status is None or status < 500 or status == 501, "no 5xx", got=x.refusal(), owner=x)


def names(x: Exchange, *parameters: str) -> bool:
    """Whether a refusal names one of these parameters, in `param` or in its message."""
    param = get(x.parsed.value, "error", "param")
    said = f"{param} {x.refusal()}" if isinstance(param, str) else x.refusal()
    return any(re.search(rf"(?<![A-Za-z_]){re.escape(name)}(?![A-Za-z_])", said) for name in parameters)
