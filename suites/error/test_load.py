"""Bad bodies by the dozen, too many requests at once, and the connection after a refusal."""

from __future__ import annotations

from wireproof import fuzz
from wireproof.exchange import Exchange
from wireproof.judge import Take
from wireproof.refusal import BUSY_OR_LOCKED
from wireproof.rules import MUST, SHOULD, Each, client, contract, each_of, observed, of, rule
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.transcript import Ending

_BUSY = (429, 503)
_FUZZ = tuple(fuzz.names())


@rule("error.fuzz.never-5xx", MUST, on=each_of(*_FUZZ), source=contract("no request of one client hurts the server"))
def test_fuzz_never_5xx(x: Exchange) -> None:
    """Any body, however wrong, is answered with a 4xx, or with a 200 when it can be read: never a 5xx, never nothing.

    A public endpoint gets every one of these within a day. The SDKs repeat a 5xx; an engine that dies takes all
    other users with it.
    """
    torn = x.response is None
    require(not torn, "an answer", got=f"none ({x.transcript.ending.value})")
    if x.status in _BUSY:
        raise x.refused()
    require(x.status is None or x.status < 500 or x.status == 501, "a 4xx (or 200)", got=x.refusal())


@rule("error.server.survives", MUST, on=of("error-then-valid"), book="ERROR-024", source=contract("robustness"))
def test_server_survives(take: Take) -> None:
    """After a malformed request the server answers the next valid one, over the same connection too.

    A body that was refused and not read to its end is taken for the next request: a good call gets the error of
    a bad one. (That the process lives on is judged by http.refusal.server-survives.)
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

    SDKs obey it; without it hundreds of clients come back at the same half second, and openai-python gives up at
    once when it is longer than 120 s.
    """
    if x.status not in _BUSY:
        raise NotApplicable("the server was not too busy")
    seconds, millis = (x.answered.header("retry-after") or "").strip(), x.answered.header("retry-after-ms") or ""
    right = seconds.isascii() and seconds.isdigit() and len(seconds) < 4 and 1 <= int(seconds) <= 120
    right = right or (not seconds and millis.strip().isdigit())
    require(right, "Retry-After: 1 to 120", got=seconds or "no Retry-After")


@rule(
    "error.overload.429-or-503",
    SHOULD,
    on=of("overload-flood"),
    book="ERROR-018",
    source=observed("error codes guide", "https://platform.openai.com/docs/guides/error-codes"),
)
def test_overload_429_or_503(take: Take) -> None:
    """Of many requests at once each is answered, or refused with 429 or 503: none gets another 5xx, a reset or nothing.

    Load balancers and SDKs back off for 429 and 503 only; a 500 or a reset looks like a broken server.
    """
    for x in take.steps():
        if x.transcript.ending is Ending.NOT_CONNECTED:
            require(False, "a connection", got=f"none: {x.transcript.detail}", owner=x)
        require(x.response is not None, "an answer, 429 or 503", got=f"none ({x.transcript.ending.value})", owner=x)
        fine = x.status is not None and (x.status < 500 or x.status == 503)
        require(fine, "an answer, 429 or 503", got=x.refusal(), owner=x)
