"""What can be set on a reference server. Clock, ids and entropy are here so that tests can fix them."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass


def random_id(prefix: str) -> str:
    """`prefix` and 24 random letters."""
    return prefix + secrets.token_hex(12)


def random_seed() -> int:
    return secrets.randbits(64)


@dataclass(frozen=True)
class Config:
    """Settings of one server; the defaults are those of `wireproof serve`."""

    models: tuple[str, ...] = ("tiny-reference",)
    api_key: str | None = None
    context_tokens: int = 131072
    #: What a request without max_tokens may generate at most.
    default_max_tokens: int = 4096
    prefill_tokens_per_second: float = 50_000.0
    token_seconds: float = 0.002
    heartbeat_seconds: float = 10.0
    body_limit: int = 8 * 2**20
    header_limit: int = 64 * 2**10
    idle_seconds: float = 75.0
    #: Answers that are made at a time; the next ones wait for their turn.
    slots: int = 8
    version: str = "0.1.0"
    clock: Callable[[], float] = time.time
    ids: Callable[[str], str] = random_id
    entropy: Callable[[], int] = random_seed

    @property
    def model(self) -> str:
        return self.models[0]
