"""Request ids, and the connection after an answer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from wireproof.judge.rules import SHOULD, Across, Each, contract, observed, of, rfc, rule
from wireproof.judge.subjects import ALL_RESPONSES, PLAIN_SCENARIOS, STREAM_SCENARIOS
from wireproof.read.chat import Chat
from wireproof.read.exchange import Exchange
from wireproof.read.gauges import is_probe
from wireproof.read.recording import Take
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.http import FramingKind
from wireproof.wire.strictjson import get

_ID = "x-request-id"
_DEBUGGING = "API overview, debugging requests"
ANY = Each(
    "every response with its headers",
    lambda x: x.knows_headers and not is_probe(x),
    (*PLAIN_SCENARIOS, *STREAM_SCENARIOS, "models", "body-not-json", "stream-invalid-parameter"),
)


@rule(
    "http.request-id.present",
    SHOULD,
    on=ANY,
    book="HTTP-010",
    source=observed(_DEBUGGING, "https://platform.openai.com/docs/api-reference/debugging-requests"),
)
def test_request_id_present(x: Exchange) -> None:
    """Every response, including an error, carries a non-empty X-Request-Id header.

    openai-python shows it as `_request_id` and in every APIStatusError: without it nobody can find the
    failed call in the server's log.
    """
    require((x.answered.header(_ID) or "").strip(), "an X-Request-Id header", got="none")


WITH_OWN_ID = Each(
    "every response to a request with an X-Request-Id",
    lambda x: x.knows_headers and bool(x.request.header(_ID)),
    ("plain-request-id", "stream-request-id"),
)


@rule("http.request-id.propagated", SHOULD, on=WITH_OWN_ID, book="HTTP-011", source=contract())
def test_request_id_propagated(x: Chat) -> None:
    """The server returns the client's X-Request-Id in its response.

    Otherwise traces break at the server: the gateway's id and the engine's cannot be matched.
    """
    sent = x.request.header(_ID) or ""
    if any(sent in value for _, value in x.answered.headers):
        return
    body_id = get(x.chunks[0].value, "id") if x.is_event_stream and x.chunks else get(x.parsed.value, "id")
    if isinstance(body_id, str) and sent in body_id:  # vLLM makes it the tail of the completion's id
        return
    got = x.answered.header(_ID)
    if got is None:
        raise NotApplicable("there is no X-Request-Id at all: http.request-id.present says so")
    require(False, f"X-Request-Id: {sent}", got=got)


@rule(
    "http.request-id.unique",
    SHOULD,
    on=Across(
        "all responses with an id made by the server",
        lambda x: x.knows_headers and bool(x.answered.header(_ID)) and not x.request.header(_ID),
        ALL_RESPONSES.needs,
    ),
    book="HTTP-012",
    source=observed(_DEBUGGING, "https://platform.openai.com/docs/api-reference/debugging-requests"),
)
def test_request_id_unique(found: Sequence[Exchange]) -> None:
    """The server makes a different X-Request-Id for every request.

    If all calls share one id, nobody can search the log for one of them.
    """
    seen: dict[str, str] = {}
    for x in found:
        value = x.answered.header(_ID) or ""
        require(value not in seen, "a new id", got=f"{value!r} again, as in {seen.get(value)}", owner=x)
        seen[value] = x.scenario


@rule(
    "http.connection.reusable",
    SHOULD,
    on=of("connection-reuse"),
    book="HTTP-014",
    source=rfc(9112, "9.3"),
)
def test_connection_reusable(take: Take) -> None:
    """After a complete answer, including a finished stream, the connection serves the next request.

    Async openai-python drains the body after [DONE] in order to reuse the connection; otherwise each call
    pays for a new one (and for TLS).
    """
    steps = [take["plain"], take["stream"], take["after-stream"]]
    for before, after in pairwise(steps):
        if not before.ok:
            raise before.refused()
        if before.answered.framing.problem:
            raise inconclusive("a body did not end as it should: http.body.framed-exactly says so")
        closing = "close" in (before.answered.header("connection") or "").lower()
        why = "Connection: close" if closing else f"a body that ends with the connection ({before.scenario})"
        ends = closing or before.answered.framing.kind is FramingKind.CLOSE
        require(not ends, "a connection that stays open", got=why, owner=before)
        again = before.transcript.connection == after.transcript.connection
        again = again and not (after.response is None and after.on_reused_connection)
        require(again, "the next request on the same connection", got="a closed connection", owner=before)
        if not after.ok:
            raise after.refused()
