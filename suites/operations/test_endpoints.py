"""Where the API lives, what may be sent to it, and the probes around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from email.utils import parsedate_to_datetime

from wireproof.judge.rules import MAY, MUST, SHOULD, Across, contract, each_of, engine, observed, of, rfc, rule
from wireproof.judge.subjects import PLAIN_SCENARIOS
from wireproof.read import gauges
from wireproof.read.chat import is_chat
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Take
from wireproof.read.refusal import BUSY_OR_LOCKED, must_be_judged
from wireproof.verdict import NotApplicable, Unsupported, inconclusive, require
from wireproof.wire.transcript import Ending

_DEBUGGING = "https://platform.openai.com/docs/api-reference/debugging-requests"
# The statuses of a path where nothing lives.
_GONE = frozenset({404, 405, 410})
_BROKEN = frozenset({Ending.RESET, Ending.CLOSED, Ending.IDLE_TIMEOUT, Ending.TOTAL_TIMEOUT})


def _answered(x: Exchange, expected: str) -> int:
    """The status; a request that got no answer at all fails."""
    got = f"no answer ({x.transcript.ending.value} {x.transcript.detail})".strip()
    require(x.status is not None or x.transcript.ending not in _BROKEN, expected, got=got)
    if x.status is None:
        raise inconclusive("no HTTP response came")
    return x.status


@rule(
    "operations.prefix.v1",
    MUST,
    on=Across(
        "all valid chat requests below /v1",
        lambda x: is_chat(x) and x.valid and "/v1/" in x.request.path and x.response is not None,
        ("plain-greedy", "stream-greedy", "plain-query"),
        at_least=1,
    ),
    book="OPERATIONS-001",
    source=contract("a version prefix, and base_url + /chat/completions"),
)
def test_prefix_v1(requests: Sequence[Exchange]) -> None:
    """The server answers chat completions at {base URL}/v1/chat/completions, with or without a query string.

    SDKs append /chat/completions to base_url and nothing else; gateways and `default_query` add a query string.
    """
    # If a path serves one request, another's 404 is about that request (or an engine that has died since).
    there = {x.request.path for x in requests if x.status not in _GONE}
    lost = [x for x in requests if x.request.path not in there]
    # (Some send a flat envelope.)
    named = [x for x in lost if x.status == 404 and "model" in x.text[:2000].lower()]
    for x in lost:
        got = f"{x.request.path}: {x.refusal()}"
        require(x in named, "the endpoint at its path", got=got, owner=x)
    if not there:
        raise named[0].refused()


@rule(
    "operations.upgrade.h2c-ignored",
    MUST,
    on=each_of("upgrade-h2c"),
    source=rfc(9110, "7.8"),
)
def test_h2c_ignored(x: Exchange) -> None:
    """The server answers a request that offers an upgrade to h2c as the HTTP/1.1 request that it is.

    The JDK's HttpClient offers it with every first request (LangChain4j, Spring AI, JetBrains): servers that drop the
    body then answer 400 or 422, "field required".
    """
    status = _answered(x, "an answer over HTTP/1.1")
    if status == 101 or status in BUSY_OR_LOCKED:
        raise NotApplicable(f"the target answered {status}")
    require(200 <= status < 300, "200, as without the offer", got=x.refusal())


@rule(
    "operations.body.256k-accepted",
    SHOULD,
    on=each_of("body-256k"),
    source=contract("coding agents send bodies of some hundred KB"),
)
def test_body_256k(x: Exchange) -> None:
    """The server reads a body of 256 KB: no 413, and no broken connection.

    Limits of 8 KB to 1 MB in front of engines cut off coding agents whose conversation would fit into the context.
    """
    status = _answered(x, "an answer to a body of 256 KB")
    if status in BUSY_OR_LOCKED:
        raise NotApplicable(f"the request was refused for another reason: {x.refusal()}")
    require(status != 413, "a body of 256 KB to be read", got=x.refusal())
    require(status < 500, "a body of 256 KB to be read", got=x.refusal())
    if not 200 <= status < 300:
        raise NotApplicable(f"the request was refused for another reason: {x.refusal()}")


@rule("operations.encoding.request-gzip", SHOULD, on=of("request-gzip"), source=rfc(9110, "8.4"))
def test_request_gzip(take: Take) -> None:
    """The server understands a request body with Content-Encoding: gzip, or refuses it with a 4xx, preferably 415.

    Clients on slow links compress: after a 500 or a closed connection they think that the server is down, and send
    the request again.
    """
    x = take["gzip"]
    expected = "200, or 415 (another 4xx will do)"
    status = _answered(x, expected)
    must_be_judged(x)
    require(status < 500, expected, got=x.refusal(), owner=x)


@rule(
    "operations.keep-alive.idle",
    SHOULD,
    on=of("keep-alive-idle"),
    source=contract("pooled clients keep idle connections"),
)
def test_keep_alive_idle(take: Take) -> None:
    """A connection that was idle for 15 seconds still serves the next request.

    uvicorn closes it after 5 seconds by default: undici and Go clients send their next POST into the closing
    connection, and may not retry it on their own.
    """
    first, second = take["first"], take["second"]
    if not first.ok:
        raise first.refused()
    if first.transcript.ending is not Ending.COMPLETE or first.answered.framing.problem:
        raise inconclusive("the first answer did not end as it should: http.body.framed-exactly says so")
    if "close" in (first.answered.header("connection") or "").lower():
        raise NotApplicable("the connection closes after each answer, and says so")
    told = re.search(r"timeout=(\d+)", first.answered.header("keep-alive") or "")
    if told and int(told.group(1)) < 15:
        raise NotApplicable(f"the answer says that the connection is kept for {told.group(1)} s")
    same = first.transcript.connection == second.transcript.connection and second.response is not None
    require(same, "the same connection after 15 s", got=f"another ({second.transcript.ending.value})", owner=second)


@rule(
    "operations.deprecation.header",
    SHOULD,
    on=Across("all responses with their headers", lambda x: x.knows_headers, PLAIN_SCENARIOS, at_least=1),
    book="OPERATIONS-003",
    source=rfc(9745, "2.1"),
)
def test_deprecation_header(found: Sequence[Exchange]) -> None:
    """A Deprecation header is a date (@ and Unix seconds), and a Sunset header a date at least 60 days after it.

    Tools that plan migrations read them; a bare `true` says neither since when nor until when.
    """
    announced = [x for x in found if x.answered.header("deprecation") or x.answered.header("sunset")]
    if not announced:
        raise NotApplicable("no deprecation is announced")
    for x in announced:
        since, until = x.answered.header("deprecation"), x.answered.header("sunset")
        if since is not None:
            date = re.fullmatch(r"@-?\d{1,15}", since.strip())
            require(date, "@ and Unix seconds, as in @1688169599", got=since, owner=x)
        end = _http_date(until) if until is not None else None
        require(until is None or end is not None, "an HTTP date in Sunset", got=until, owner=x)
        if since is not None and end is not None:
            days = (end - int(since.strip()[1:])) / 86400
            require(days >= 60, "a sunset at least 60 days after the deprecation", got=f"{days:.0f} days", owner=x)


# Headers that give the version of a server's API; clients ask for one under other names, except in Azure's query.
_VERSIONS = ("openai-version", "x-api-version", "api-version")
_ASKS_VERSION = re.compile(r"[?&]api[-_]version=", re.I)


def _tells_version(x: Exchange) -> bool:
    asks = _ASKS_VERSION.search(x.request.url) or any(x.request.header(name) for name in _VERSIONS)
    return x.knows_headers and not asks


@rule(
    "operations.version.constant",
    SHOULD,
    on=Across(
        "all responses with their headers to requests that ask for no version",
        _tells_version,
        PLAIN_SCENARIOS,
        at_least=1,
    ),
    source=observed("openai-version: REST API version used for this request (currently 2020-10-01)", _DEBUGGING),
)
def test_version_constant(found: Sequence[Exchange]) -> None:
    """A version header, if sent, is the same on all answers, and openai-version is a date.

    No such header is required. Operators who log it, or compare it before an upgrade, would otherwise see a change
    that never happened, or miss that two releases run behind one address.
    """
    seen: dict[str, str] = {}
    for x in found:
        for name in _VERSIONS:
            values = [value.strip() for value in x.answered.all(name)]
            if not values:
                continue
            got = f"{name}: {', '.join(values)}"
            require(len(values) == 1 and values[0], f"one value in {name}", got=got, owner=x)
            date = name != "openai-version" or re.fullmatch(r"\d{4}-\d{2}-\d{2}(-preview)?", values[0])
            require(date, "a date in openai-version, as in 2020-10-01", got=got, owner=x)
            first = seen.setdefault(name, values[0])
            require(values[0] == first, f"{name}: {first}, as before", got=got, owner=x)
    if not seen:
        raise NotApplicable("no version header is sent")


def _http_date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


@rule(
    "operations.health.ok",
    SHOULD,
    on=each_of("health-probe"),
    book="OPERATIONS-004",
    source=engine("vllm", "GET /health; SGLang and llama.cpp, too"),
)
def test_health_ok(x: Exchange) -> None:
    """The server answers GET /health with 200 while it is ready.

    Otherwise load balancers take a healthy server out, or never notice one that is down.
    """
    status = _answered(x, "an answer of the probe")
    # (A 503 is how a probe says no: that one is judged.)
    if status in (401, 403, 404, 405, 408, 429):
        raise NotApplicable(f"there is no open /health here ({status}); another probe may be documented")
    require(200 <= status < 300, "200 from a server that answers requests", got=x.refusal())


@rule(
    "operations.metrics.gauges",
    MAY,
    on=each_of("metrics"),
    book="OPERATIONS-005",
    source=engine("vllm", "v1/metrics/loggers.py; SGLang's metrics collector"),
)
def test_metrics_gauges(x: Exchange) -> None:
    """GET /metrics shows how many requests are running and how many are waiting, neither below zero.

    Autoscalers and the rules about cancellation read them.
    """
    if not x.ok:
        raise Unsupported(f"no /metrics: {x.refusal()}")
    found = gauges.reading(x)
    if found is None:
        known = ", ".join(e.running for e in gauges.ENGINES[:3])
        raise Unsupported(f"/metrics has no gauge of running requests that we know ({known})")
    require(found.waiting is not None, "a gauge of waiting requests", got=f"none ({found.engine})")
    got = f"{found.running:g} running, {found.waiting:g} waiting"
    require(min(found.running, found.waiting or 0.0) >= 0, "counts from 0", got=got)
