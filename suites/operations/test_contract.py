"""A stable contract: members, clocks, proxies, and what cannot be seen from outside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wireproof.judge.rules import SHOULD, Each, contract, each_of, observed, of, rule, unobservable
from wireproof.judge.subjects import PLAIN_SCENARIOS, STREAM_SCENARIOS
from wireproof.read.chat import Chat, is_answer
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Take
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get, is_int

unobservable(
    "operations.members.not-lost",
    SHOULD,
    requirement="A new version of a server does not lose members of its answers.",
    why="/v1 must never break silently: typed clients go on reading what they read before.",
    reason="One run sees one version. The run record keeps every answer: the matrix of two records shows a rule about "
    "a member that passed before and no longer does.",
    source=contract("contract snapshot"),
    book="OPERATIONS-002",
)
unobservable(
    "operations.trace.ids",
    SHOULD,
    requirement="The server records `user` and the request id in its traces.",
    why="Operators track abuse by one, and find failed calls by the other.",
    reason="Traces and logs are not part of any answer; http.request-id.propagated judges whether the id comes back.",
    source=contract("observability"),
    book="OPERATIONS-009",
)
unobservable(
    "operations.deviations.declared",
    SHOULD,
    requirement="The serving team documents known deviations, and declares them to the suite as expected failures.",
    why="A contract with stated exceptions can be trusted; one with silent ones cannot.",
    reason="It is about the serving team's files, not about its answers: a failure that is not declared appears in the "
    "report as a failure.",
    source=contract("expected failures"),
    book="OPERATIONS-011",
)

_DEEP = 8
# Optional in OpenAI's schema, and the first of equal requests finds nothing in the cache.
_OF_THE_CACHE = "usage.prompt_tokens_details."


def _shape(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """The paths of all members with the kind of their value; the first entry of a list stands for all."""
    if depth > _DEEP:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            where = f"{path}.{key}" if path else str(key)
            yield where, _kind(inner)
            yield from _shape(inner, where, depth + 1)
    elif isinstance(value, list) and value:
        yield from _shape(value[0], f"{path}[]", depth + 1)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    kinds: dict[type, str] = {int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "other")


@rule("operations.members.repeat", SHOULD, on=of("repeat-plain"), book="OPERATIONS-012", source=contract())
def test_members_repeat(take: Take) -> None:
    """The same request five times gives the same members with values of the same type.

    A member that comes and goes breaks typed clients only now and then, which is the hardest bug to find. A value may
    be null, and the details of cached prompt tokens may be there only when something was cached.
    """
    shapes: list[tuple[Exchange, dict[str, str]]] = [(x, dict(_shape(x.completion))) for x in take.chats()]
    if len(shapes) < 2:
        raise inconclusive("the request was sent only once")
    _, first = shapes[0]
    nullable = {path for _, shape in shapes for path, kind in shape.items() if kind == "null"}
    for x, shape in shapes[1:]:
        changed = sorted(
            p
            for p in set(first) ^ set(shape)
            if not any(p.startswith(f"{n}.") for n in nullable) and not f"{p}.".startswith(_OF_THE_CACHE)
        )
        require(not changed, "the same members each time", got=f"{changed[:3]} only now and then", owner=x)
        other = [p for p, k in shape.items() if p in first and {k, first[p]} - {"null"} not in ({k}, {first[p]}, set())]
        require(not other, "the same types each time", got=f"{other[:3]} of another type", owner=x)


def _has_clocks(x: Exchange) -> bool:
    return is_answer(x) and x.knows_headers


@rule(
    "operations.clock.sane",
    SHOULD,
    on=Each("every chat answer with its headers", _has_clocks, (*PLAIN_SCENARIOS, *STREAM_SCENARIOS)),
    book="OPERATIONS-013",
    source=observed("created is the Unix time of the completion"),
)
def test_clock_sane(x: Chat) -> None:
    """`created` is within a minute of the Date header, unless the answer itself took longer.

    Caches and audits sort by it; a wrong clock shows up in certificates and tokens next.
    """
    value = (x.chunks[0].value if x.chunks else None) if x.is_event_stream else x.completion
    created = get(value, "created")
    dated = x.dated
    if dated is None:
        raise NotApplicable("there is no Date header")
    if not is_int(created) or abs(created - dated) > 86_400:
        raise NotApplicable("there is no plausible time in `created`: choice.created.seconds judges that")
    allowed = 60.0 + (x.transcript.ended_at if x.transcript.timed else 300.0)
    off = created - dated
    require(abs(off) <= allowed, "`created` within a minute of Date", got=f"{off:+.0f} s")


_PROXIES = ("nginx", "openresty", "envoy", "cloudflare", "traefik", "haproxy", "caddy", "apache", "awselb", "varnish")


def _proxy(x: Exchange) -> str | None:
    """The header that shows a proxy in front of the server, or None."""
    server = (x.answered.header("server") or "").lower()
    if any(name in server for name in _PROXIES):
        return f"Server: {server[:40]}"
    marks = ("via", "x-envoy-upstream-service-time", "cf-ray", "x-amz-cf-id", "x-cache", "x-kong-proxy-latency")
    return next((name for name in marks if x.answered.header(name) is not None), None)


@rule(
    "operations.proxy.incremental",
    SHOULD,
    on=each_of("stream-long"),
    book="OPERATIONS-008",
    source=contract("proxies with default settings"),
)
def test_proxy_incremental(x: Chat) -> None:
    """Even through a proxy, the events of a stream arrive one by one and not in blocks.

    nginx collects 4 or 8 KB by default, some thirty tokens: text arrives in bursts, or all at the end. Without
    `X-Accel-Buffering: no` or `proxy_buffering off`, each installation finds out for itself.
    """
    if not x.ok or not x.is_event_stream:
        raise x.refused()
    if not x.knows_headers or _proxy(x) is None:
        raise NotApplicable("no proxy shows in the answer's headers")
    if not x.transcript.timed:
        raise NotApplicable("the recording has no times")
    arrivals = {at for _, at in x.answered.arrivals}
    events, last = len(x.chunks), x.transcript.ended_at
    if events < 40 or last < 0.25:
        raise inconclusive(f"{events} events within {last:.2f} s: too few or too fast to tell")
    got = f"{events} events in {len(arrivals)} arrivals ({_proxy(x)})"
    require(len(arrivals) * 8 >= events, "events one by one", got=got)
