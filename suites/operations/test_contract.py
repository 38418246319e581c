"""A contract that stands still: members, clocks, proxies, and what cannot be seen from outside."""

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
    requirement="Members of answers are not lost from one version of a server to the next.",
    why="/v1 is never broken silently: typed clients read what they read before.",
    reason="One run sees one version. The run record keeps every answer: the matrix of two records shows a rule about "
    "a member that held before and does not any more.",
    source=contract("contract snapshot"),
    book="OPERATIONS-002",
)
unobservable(
    "operations.trace.ids",
    SHOULD,
    requirement="`user` and the request id are recorded in the server's traces.",
    why="Abuse is tracked by one, failed calls are found by the other.",
    reason="Traces and logs are not part of any answer; that the id comes back at all is http.request-id.propagated.",
    source=contract("observability"),
    book="OPERATIONS-009",
)
unobservable(
    "operations.deviations.declared",
    SHOULD,
    requirement="Known deviations are documented, and declared to the suite as expected failures.",
    why="A contract with stated exceptions can be trusted; one with silent ones cannot.",
    reason="It is about the serving team's files, not about its answers: a failure that is not declared stands in the "
    "report as what it is.",
    source=contract("expected failures"),
    book="OPERATIONS-011",
)

_DEEP = 8
# Optional in OpenAI's schema, and the first of equal requests finds nothing in the cache.
_OF_THE_CACHE = "usage.prompt_tokens_details."


def _shape(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """The paths of all members with the kind of their value; of a list its first entry stands for all."""
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

    A member that comes and goes breaks typed clients now and then, which is the hardest to find. A value may be null,
    and what says how much of the prompt was cached may be there only when something was.
    """
    shapes: list[tuple[Exchange, dict[str, str]]] = [(x, dict(_shape(x.completion))) for x in take.chats()]
    if len(shapes) < 2:
        raise inconclusive("the request was sent once only")
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

    Caches and audits sort by it; a clock that is off shows in certificates and tokens next.
    """
    value = (x.chunks[0].value if x.chunks else None) if x.is_event_stream else x.completion
    created = get(value, "created")
    dated = x.dated
    if dated is None:
        raise NotApplicable("there is no Date header")
    if not is_int(created) or abs(created - dated) > 86_400:
        raise NotApplicable("there is no time of these days in `created`: choice.created.seconds is about that")
    allowed = 60.0 + (x.transcript.ended_at if x.transcript.timed else 300.0)
    off = created - dated
    require(abs(off) <= allowed, "`created` within a minute of Date", got=f"{off:+.0f} s")


_PROXIES = ("nginx", "openresty", "envoy", "cloudflare", "traefik", "haproxy", "caddy", "apache", "awselb", "varnish")


def _proxy(x: Exchange) -> str | None:
    """What shows that a proxy stands in front; None when nothing does."""
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
    """Through a proxy, too, the events of a stream arrive one by one and not in blocks.

    nginx gathers 4 or 8 KB by default, some thirty tokens: text comes in jerks, or all at the end. Without
    `X-Accel-Buffering: no` or `proxy_buffering off` each installation finds out by itself.
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
