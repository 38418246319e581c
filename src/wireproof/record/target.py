"""The server that is judged, as a user named it, and what we accept from it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from wireproof.scenarios.scenario import Scenario
from wireproof.wire import redact


class BadTarget(ValueError):
    """A target URL that cannot be used; the message says what one looks like."""


@dataclass(frozen=True)
class Target:
    """Where requests go. `base` is the URL that ends in /v1, `root` the same without it."""

    base: str
    api_key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Where the engine behind the target shows its load. Neither key nor headers are sent there.
    metrics: str | None = None

    @property
    def root(self) -> str:
        """The base without its last /v1."""
        return self.base.removesuffix("/v1")

    @property
    def shown(self) -> str:
        """The base as it may be stored."""
        return redact.url(self.base)

    def url(self, scenario: Scenario) -> str:
        """The URL of a scenario's request."""
        if self.elsewhere(scenario):
            return str(self.metrics)
        return (self.root if scenario.root else self.base) + scenario.address

    def elsewhere(self, scenario: Scenario) -> bool:
        """Whether a request goes to the engine behind the target."""
        return scenario.gauges and self.metrics is not None

    @property
    def is_here(self) -> bool:
        """Whether the engine runs on this machine, as far as its address tells."""
        host = urlsplit(self.metrics or self.base).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


def _checked(url: str, example: str) -> str:
    """The URL without the spaces and slashes around it. Raises BadTarget, with an example, for what is none of ours."""
    shown = f"{redact.url(url)!r}"
    try:
        parts = urlsplit(url.strip())
        port_ok = parts.port is None or 0 < parts.port < 65536
    except ValueError as error:
        raise BadTarget(f"{shown} is not a URL ({error}): {example}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_ok:
        raise BadTarget(f"{shown} is not an http(s) URL: {example}")
    if "@" in parts.netloc:
        raise BadTarget(f"{shown} holds a user name, which is not sent: use --api-key-env, or --header NAME=VAR")
    if parts.query or parts.fragment:
        raise BadTarget(f"{shown} has a query or fragment: {example}")
    if not url.isascii():
        raise BadTarget(f"{shown} is not ASCII: write the host in punycode (xn--...) and the path with %-escapes")
    return url.strip().rstrip("/")


def parse_target(
    url: str, *, api_key: str | None = None, headers: Mapping[str, str] | None = None, metrics: str | None = None
) -> Target:
    """A target from what a user typed.

    Raises BadTarget for anything but http(s)://host[:port][/path], and for `metrics` that is no page of gauges.
    """
    base = _checked(url, "give the base URL of the API, such as http://127.0.0.1:8000/v1")
    for name, value in (("the API key", api_key or ""), *(headers or {}).items()):
        if not value.isascii() or not value.isprintable():
            raise BadTarget(f"the value of {name} holds characters that no HTTP header can carry: look at its variable")
    for suffix in ("/chat/completions", "/models"):
        base = base.removesuffix(suffix)
    if not urlsplit(base).path:
        base += "/v1"  # a bare host: the API is served under /v1 everywhere
    return Target(base, api_key or None, dict(headers or {}), _metrics(metrics) if metrics else None)


def _metrics(url: str) -> str:
    """Where an engine shows its load, as a user typed it. Raises BadTarget for anything but the URL of such a page."""
    example = "give the URL of the engine's gauges, such as http://127.0.0.1:8000/metrics"
    base = _checked(url, example)
    if not base.endswith(("/metrics", "/slots")):
        raise BadTarget(f"{redact.url(url)!r} ends neither in /metrics nor in /slots: {example}")
    return base


@dataclass(frozen=True)
class Limits:
    """What we accept from a target, per exchange (seconds, bytes)."""

    connect_seconds: float = 10.0
    idle_seconds: float = 60.0
    total_seconds: float = 300.0
    bytes: int = 4 * 1024 * 1024

    @classmethod
    def patient(cls, seconds: float) -> Limits:
        """Limits for a target that may be silent for so long; a whole answer may take five times that."""
        return cls(min(10.0, seconds), seconds, 5 * seconds)
