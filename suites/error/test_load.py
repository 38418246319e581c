"""Bad bodies by the dozen, too many requests at once, and the connection after a refusal."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

from wireproof.judge.rules import MUST, SHOULD, Each, client, contract, each_of, observed, of, openapi, rule
from wireproof.read.chat import Chat
from wireproof.read.errors import told_error
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Take
from wireproof.read.refusal import BUSY_OR_LOCKED
from wireproof.scenarios import fuzz
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.transcript import Ending

_BUSY = (429, 503)
# What openai-python waits for at most (seconds).
_PATIENCE = 120
_FUZZ = tuple(fuzz.names())


@rule("error.fuzz.never-5xx", MUST, on=each_of(*_FUZZ), source=contract("no request of one client hurts the server"))
def test_fuzz_never_5xx(x: Exchange) -> None:
    """The server answers any body, however wrong, with a 4xx, or a 200 if it can read it: never a 5xx, never silence.

    A public endpoint gets every one of these within a day. The SDKs retry a 5xx; an engine that crashes takes all
    other users down with it.
    """
    torn = x.response is None
    require(not torn, "an answer", got=f"none ({x.transcript.ending.value})")
    if x.status in _BUSY:
        raise x.refused()
    require(x.status is None or x.status < 500 or x.status == 501, "a 4xx (or 200)", got=x.refusal())


@rule(
    "error.fuzz.not-ignored", SHOULD, on=each_of(*fuzz.telling()), source=openapi("CreateChatCompletionRequest: types")
)
def test_fuzz_not_ignored(x: Chat) -> None:
    """The server refuses a value that it cannot read, such as max_tokens "many", n {} or stop {}, with a 4xx.

    Otherwise a caller who set a limit, a stop or a format gets an answer without it, and nothing says so. (Left out
    are values that a lenient server can read, 7 as "7" or any value as a boolean, and members that it need not know.)
    """
    if x.answered.status in BUSY_OR_LOCKED:
        raise x.refused()
    if told_error(x) or (x.status is not None and x.status >= 500):
        raise NotApplicable("it was not answered: error.plain.never-200 and error.fuzz.never-5xx judge that")
    require(not x.ok, "a 4xx", got=f"{x.status}, an answer")


@rule("error.server.survives", MUST, on=of("error-then-valid"), book="ERROR-024", source=contract("robustness"))
def test_server_survives(take: Take) -> None:
    """After a malformed request, the server answers the next valid one, even over the same connection.

    If the server refuses a body without reading all of it, it takes the rest for the next request: a good call gets
    the error of a bad one. (http.refusal.server-survives judges whether the process survives.)
    """
    first = take["valid"]
    if not first.ok:
        raise first.refused()
    for x in take.steps("after-"):
        if x.response is None and x.on_reused_connection:
            raise inconclusive("the server closed the connection after a refusal, as it may")
        if x.status in BUSY_OR_LOCKED:
            raise x.refused()
        got = x.refusal() if x.response else f"no answer ({x.transcript.ending.value})"
        require(x.ok, f"200 {x.transcript.step.replace('-', ' ')}", got=got, owner=x)


@rule(
    "error.overload.retry-after",
    SHOULD,
    on=Each(
        "every 429 and 503 with its headers",
        lambda x: x.knows_headers and (x.status in _BUSY or x.scenario == "overload-flood"),
        ("overload-flood",),
    ),
    book="ERROR-017",
    source=client("openai-python", "_parse_retry_after_header"),
)
def test_overload_retry_after(x: Exchange) -> None:
    """A 429 or 503 says when to come back: Retry-After of 1 to 120 s, or retry-after-ms.

    SDKs obey it, in seconds or as a date; without it hundreds of clients come back in the same half second, and
    LangChain.js does not retry a 429 at all; nor does openai-python if it has to wait more than 120 s. (RFC 9110 does
    not require the header, so this is a warning.)
    """
    if x.status not in _BUSY:
        raise NotApplicable("the server was not too busy")
    told, millis = (x.answered.header("retry-after") or "").strip(), x.answered.header("retry-after-ms") or ""
    right = told.isascii() and told.isdigit() and len(told) < 4 and 1 <= int(told) <= _PATIENCE
    right = right or _is_soon(told, x.dated) or (not told and millis.strip().isdigit())
    require(right, "Retry-After: 1 to 120", got=told or "no Retry-After")


def _is_soon(date: str, now: float | None) -> bool:
    """Whether a date (RFC 9110, 10.2.3) is within two minutes of the answer's own, where it has one."""
    try:
        when = parsedate_to_datetime(date)
        then = when.replace(tzinfo=when.tzinfo or UTC).timestamp()
    except (ValueError, TypeError, OverflowError):
        return False
    return now is None or 0 <= then - now <= _PATIENCE


@rule(
    "error.overload.429-or-503",
    SHOULD,
    on=of("overload-flood"),
    book="ERROR-018",
    source=observed("error codes guide", "https://platform.openai.com/docs/guides/error-codes"),
)
def test_overload_429_or_503(take: Take) -> None:
    """Of many requests at once, the server answers each or refuses it with 429 or 503: no other 5xx, reset or silence.

    Load balancers and SDKs back off for 429 and 503 only; a 500 or a reset looks like a broken server.
    """
    for x in take.steps():
        if x.transcript.ending is Ending.NOT_CONNECTED:
            require(False, "a connection", got=f"none: {x.transcript.detail}", owner=x)
        require(x.response is not None, "an answer, 429 or 503", got=f"none ({x.transcript.ending.value})", owner=x)
        fine = x.status is not None and (x.status < 500 or x.status == 503)
        require(fine, "an answer, 429 or 503", got=x.refusal(), owner=x)
