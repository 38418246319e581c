"""Before anything is judged: is the target there, is the key right, is the model served?

A failed preflight is one clear error, not hundreds of red checks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from wireproof.read import engine_facts
from wireproof.read.endpoints import exchange_of
from wireproof.read.engine_facts import ByServer, InHeader, Order
from wireproof.read.exchange import Exchange
from wireproof.read.gauges import ENGINES, reading
from wireproof.record.live import LiveSender
from wireproof.record.target import Limits, Target
from wireproof.scenarios.scenario import Scenario
from wireproof.wire import redact, strictjson
from wireproof.wire.transcript import Ending


class PreflightError(Exception):
    """The target cannot be judged; the message says what to do. `usage` marks a mistake in the options."""

    def __init__(self, message: str, *, usage: bool = False) -> None:
        super().__init__(message)
        self.usage = usage


@dataclass(frozen=True)
class Engine:
    """Which engine answers, as far as it says so. `order` tells how its versions are compared."""

    name: str = "unknown"
    version: str = ""
    order: str = Order.EXACT.value


@dataclass(frozen=True)
class Preflight:
    """What the preflight found out."""

    model: str
    models: tuple[str, ...]
    engine: Engine


_MODELS = Scenario(name="preflight-models", what="The list of models.", method="GET", path="/models")
_TINY = Scenario(
    name="preflight-completion",
    what="One tiny completion.",
    body={"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 1},
)


async def run(target: Target, *, model: str | None, engine: str | None = None, limits: Limits) -> Preflight:
    """Check the target and choose the model.

    `engine` (NAME==VERSION) overrides what the target says of itself. Raises PreflightError.
    """
    sender = LiveSender(target, model or "", limits)
    listing = await _ask(sender, _MODELS)
    _reachable(listing, target)
    models = _ids(listing)
    if not model and listing.ok and not models:
        _is_api(listing, target, b'"data"')
    chosen = model or _choose(models, listing, target)
    sender.model = chosen
    tiny = await _ask(sender, _TINY)
    _reachable(tiny, target)
    _works(tiny, chosen, models, target)
    _is_api(tiny, target, b'"choices"')
    await _shows_gauges(sender, target)
    if engine is None:
        return Preflight(chosen, models, await _identify(sender, (listing, tiny)))
    return Preflight(chosen, models, parse_engine(engine))


def parse_engine(text: str) -> Engine:
    """An engine from NAME or NAME==VERSION. Raises PreflightError for an empty name."""
    name, _, version = text.partition("==")
    if not name.strip():
        raise PreflightError(f"{text!r} names no engine: write it as vllm==0.32.0", usage=True)
    return Engine(name.strip(), version.strip(), order_of(name.strip(), version.strip()))


def order_of(name: str, version: str) -> str:
    """How the versions of an engine are compared: pep440, build (its number counts), or exact (not at all)."""
    known = engine_facts.by_recorded_name(name)
    if known and known.order:
        return known.order.value
    if re.fullmatch(r"[A-Za-z]*\d+", version):
        return Order.BUILD.value
    try:
        Version(version)
    except InvalidVersion:
        return Order.EXACT.value
    return Order.PEP440.value


async def _ask(sender: LiveSender, scenario: Scenario) -> Exchange:
    lane = sender.lane()
    try:
        return exchange_of(await lane.send(scenario, reuse=False))
    finally:
        await lane.close()


def _reachable(x: Exchange, target: Target) -> None:
    t = x.transcript
    if t.ending is Ending.NOT_CONNECTED:
        hint = "is the server running, and is the URL right?"
        if "CERTIFICATE_VERIFY_FAILED" in t.detail:
            hint = "set SSL_CERT_FILE to the certificate of its authority, if you trust it"
        elif "SSL" in t.detail or (target.base.startswith("https:") and "Timeout" in t.detail):
            hint = "does that port speak plain http://?"
        raise PreflightError(f"cannot connect to {target.shown} ({t.detail}): {hint}")
    if x.response is None and t.reads:
        start = t.raw[:40]
        raise PreflightError(f"{target.shown} does not speak HTTP (it sent {start!r}): check host, port and http/https")
    if x.response is None:
        raise PreflightError(
            f"{target.shown} accepts connections but does not answer {t.request.method} {t.request.path}"
            f" ({t.ending.value}{': ' + t.detail if t.detail else ''}): is the server ready?"
        )
    if x.status in (401, 403):
        hint = (
            "check the key in that variable" if target.api_key else "name the variable that holds it with --api-key-env"
        )
        raise PreflightError(f"{target.shown} refuses the API key ({x.refusal()}): {hint}")
    if x.status is not None and 300 <= x.status < 400:
        where = x.response.header("location") or "elsewhere"
        raise PreflightError(
            f"{target.shown} redirects to {where[:200]}: give that URL (no redirect is followed, so that no key leaks)"
        )


# Endings that leave an answer without its end, however patient we are.
_ENDLESS = frozenset({Ending.BYTE_LIMIT, Ending.IDLE_TIMEOUT, Ending.TOTAL_TIMEOUT})


def _is_api(x: Exchange, target: Target, sign: bytes) -> None:
    """Raise for an answer that no server of this API gives: a web page, an endless body, anything without `sign`."""
    asked = f"{x.request.method} {x.request.path}"
    if x.response is None or sign not in x.response.content:
        if x.transcript.ending in _ENDLESS:
            raise PreflightError(
                f"the answer to {asked} does not end ({x.transcript.detail}): is {target.shown} the API, and ready?"
            )
        if x.response is not None and not x.response.content:
            why = f": {x.transcript.detail}" if x.transcript.detail else ""
            raise PreflightError(f"the answer to {asked} is empty ({x.status}{why}): is {target.shown} the API?")
        page = x.response is not None and x.response.content[:64].lstrip().startswith(b"<")
        kind = "a web page" if page else "not that of the API"
        raise PreflightError(
            f"the answer to {asked} is {kind} ({x.refusal()[:60]}):"
            " give the base URL of the API, which mostly ends in /v1"
        )
    if x.response.encoding_problem:
        raise PreflightError(
            f"the answer to {asked} cannot be decoded ({x.response.encoding_problem}): mend that first"
        )


def _ids(x: Exchange) -> tuple[str, ...]:
    value = x.parsed.value if x.ok else None
    data = value if isinstance(value, list) else strictjson.get(value, "data")  # (a bare list is a rule's business)
    found = [strictjson.get(m, "id") for m in data] if isinstance(data, list) else []
    return tuple(m for m in found if isinstance(m, str) and m)


def _choose(models: Sequence[str], listing: Exchange, target: Target) -> str:
    if len(models) == 1:
        return models[0]
    if not models:
        raise PreflightError(
            f"{target.shown}/models lists no model ({listing.refusal()}): name the model with --model", usage=True
        )
    shown = ", ".join(models[:12]) + (", ..." if len(models) > 12 else "")
    raise PreflightError(f"the target serves {len(models)} models, choose one with --model: {shown}", usage=True)


def _works(x: Exchange, model: str, models: Sequence[str], target: Target) -> None:
    if x.status is not None and 200 <= x.status < 300:  # 201 is wrong, and a rule's business
        return
    if x.status in (400, 404, 422) and models and model not in models:
        raise PreflightError(
            f"the target does not serve the model {model!r} ({x.refusal()}): choose one of {', '.join(models[:12])}",
            usage=True,
        )
    if x.status == 404:
        raise PreflightError(
            f"{target.shown}/chat/completions does not exist ({x.refusal()}): does the base URL end in /v1?"
        )
    raise PreflightError(f"a completion of one token fails with {x.refusal()}: mend that first, nothing can be judged")


async def _shows_gauges(sender: LiveSender, target: Target) -> None:
    """Raise when the engine that was named behind the target shows no load there."""
    if target.metrics is None:
        return
    x = await _ask(sender, Scenario(name="preflight-gauges", what="", method="GET", root=True, gauges=True))
    if reading(x) is None:
        known = ", ".join(e.running for e in ENGINES)
        what = "it shows no gauge that we know" if x.ok else x.refusal()
        where = redact.url(target.metrics)
        raise PreflightError(
            f"--metrics {where}: {what} (known: {known}): name the page of the engine itself", usage=True
        )


async def _identify(sender: LiveSender, seen: Sequence[Exchange]) -> Engine:
    """Ask the target who it is, by the places where engines say so (runners/engines/)."""
    for facts, header in engine_facts.places(InHeader):
        for x in seen:
            if x.response and (version := x.response.header(header.header)):
                return _engine(facts.recorded_as, version)
    owner = strictjson.get(seen[0].parsed.value, "data", 0, "owned_by") if seen else None
    for path, known in engine_facts.questions().items():
        x = await _ask(sender, Scenario(name="preflight-version", what="", method="GET", path=path, root=True))
        for facts, place in known if x.ok and x.response else ():
            found = strictjson.get(x.parsed.value, place.key)
            if isinstance(found, str) and place.owner in ("", owner):
                name = (place.named_by and strictjson.get(x.parsed.value, place.named_by)) or facts.recorded_as
                return _engine(name if isinstance(name, str) else "unknown", found)
    for x in seen:
        server = (x.response.header("server") if x.response else None) or ""
        for facts, named in engine_facts.places(ByServer):
            if server.lower() == named.server:
                return _engine(facts.recorded_as, str(strictjson.get(x.parsed.value, named.key) or ""))
    return Engine()


def _engine(name: str, version: str) -> Engine:
    name, version = name[:60], version[:60]
    return Engine(name, version, order_of(name, version))
