"""What a running server remembers. `Config` is what it was set to; this is what happened to it since."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

M = TypeVar("M")


@dataclass
class Orphan:
    """The rest of an answer without a client. `due` is when its next step is due (seconds, virtual time)."""

    steps: Iterator[Any]
    due: float = 0.0
    running: bool = False
    counted: bool = False  # by the gauge of running requests


@dataclass
class ServerState:
    """The state of one server, and of the faults that need some."""

    #: Answers that the server goes on making though their client has left (a fault's doing); each slows others down.
    orphans: list[Orphan] = field(default_factory=list)
    #: What the model said to equal requests, told again without thinking: for the fault matrix, where only the way to
    #: the wire differs.
    recall: dict[Any, Any] | None = None
    _memories: dict[Callable[[], Any], Any] = field(default_factory=dict)

    def memory(self, kind: Callable[[], M]) -> M:
        """The one `kind` of this server, made when it is asked for the first time."""
        if kind not in self._memories:
            self._memories[kind] = kind()
        found: M = self._memories[kind]
        return found
