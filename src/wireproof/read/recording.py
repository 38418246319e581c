"""What was recorded, as checks get it: the takes of each scenario, and why others are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from wireproof.read.chat import Chat, is_chat
from wireproof.read.endpoints import exchange_of
from wireproof.read.exchange import Exchange
from wireproof.verdict import Inconclusive, Status
from wireproof.wire.transcript import Transcript


@dataclass(frozen=True)
class Take:
    """One recording of one scenario: its exchanges in order, by step name."""

    scenario: str
    sample: int
    exchanges: tuple[Exchange, ...]
    conversation: bool = False

    def __getitem__(self, step: str) -> Exchange:
        """The first exchange of a step; inconclusive when the conversation never got there."""
        for x in self.exchanges:
            if x.transcript.step == step:
                return x
        raise Inconclusive(f"the conversation {self.scenario} did not reach the step {step}")

    def chat(self, step: str) -> Chat:
        """The first exchange of a step that asks for a chat completion; inconclusive when it never got there."""
        x = self[step]
        if not is_chat(x):
            raise Inconclusive(f"the step {step} of {self.scenario} is no chat completion")
        return x

    def chats(self, prefix: str = "") -> list[Chat]:
        """All chat completions whose step name starts with the prefix."""
        return [x for x in self.steps(prefix) if is_chat(x)]

    def steps(self, prefix: str = "") -> list[Exchange]:
        """All exchanges whose step name starts with the prefix."""
        return [x for x in self.exchanges if x.transcript.step.startswith(prefix)]


@dataclass(frozen=True)
class Recording:
    """Everything that a run recorded, and why some scenarios were not."""

    takes: tuple[Take, ...]
    skipped: Mapping[str, tuple[Status, str]] = field(default_factory=dict)

    @property
    def exchanges(self) -> list[Exchange]:
        """Every exchange, in recorded order."""
        return [x for take in self.takes for x in take.exchanges]

    def of(self, scenario: str) -> list[Take]:
        """The takes of a scenario, by sample."""
        return self._by_scenario.get(scenario, [])

    @cached_property
    def _by_scenario(self) -> dict[str, list[Take]]:
        out: dict[str, list[Take]] = {}
        for take in self.takes:
            out.setdefault(take.scenario, []).append(take)
        return out


def recording(transcripts: Iterable[Transcript]) -> Recording:
    """Group transcripts into takes by scenario and sample."""
    groups: dict[tuple[str, str, int], list[Exchange]] = {}
    for t in transcripts:
        x = exchange_of(t)
        groups.setdefault((x.place, t.scenario, t.sample), []).append(x)
    return Recording(
        tuple(
            Take(name, sample, tuple(found), conversation=any(x.transcript.step for x in found))
            for (_, name, sample), found in groups.items()
        )
    )
