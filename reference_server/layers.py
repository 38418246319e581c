"""The pipeline's layers: the places where a fault can take hold."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from .answer import HttpRequest
from .config import Config
from .state import ServerState

if TYPE_CHECKING:
    from .request import ChatRequest


class Layer(StrEnum):
    """In pipeline order; the comment says what a fault on the layer takes and returns."""

    REQUEST = "request"  # HttpRequest -> HttpRequest
    PARAMS = "params"  # ChatRequest -> ChatRequest, after validation
    MODEL = "model"  # Iterator[Piece] -> Iterator[Piece]
    MESSAGE = "message"  # dict -> dict: any JSON body, errors too
    CHUNK = "chunk"  # Iterator[Chunk] -> Iterator[dict]
    SSE = "sse"  # Iterator[Frame] -> Iterator[Frame]
    HTTP = "http"  # HttpAnswer -> HttpAnswer
    SOCKET = "socket"  # Iterator[Step] -> Iterator[Step]


ORDER = {layer: i for i, layer in enumerate(Layer)}


@dataclass(frozen=True)
class Context:
    """What a fault may look at besides its value. `status` is that of the answer being made."""

    http: HttpRequest
    chat: "ChatRequest | None"
    config: Config
    state: ServerState
    stream: bool
    status: int = 200


@dataclass(frozen=True)
class Fault:
    """A named way to be wrong, and the rules that it breaks (none: a legal variation)."""

    name: str
    layer: Layer
    breaks: frozenset[str]
    summary: str
    cases: tuple[str, ...]
    source: str
    apply: Callable[[Any, Context], Any]


T = TypeVar("T")


@dataclass(frozen=True)
class Hooks:
    """The faults of one request, in the order in which they apply."""

    faults: tuple[Fault, ...] = ()

    @classmethod
    def of(cls, faults: Iterable[Fault]) -> "Hooks":
        """By layer, and within a layer as they were named."""
        return cls(tuple(sorted(faults, key=lambda fault: ORDER[fault.layer])))

    def apply(self, layer: Layer, value: T, context: Context) -> T:
        """`value` after every fault of `layer`."""
        for fault in self.faults:
            if fault.layer is layer:
                value = fault.apply(value, context)
        return value
