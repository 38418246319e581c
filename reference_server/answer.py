"""The values that travel through the server: request, pieces, chunks, frames, answer, steps."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any


@dataclass(frozen=True)
class HttpRequest:
    """A complete request. `target` is path and query, without the fault prefix."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    version: str = "1.1"

    def header(self, name: str) -> str | None:
        """The first value of a header, whatever the case of its name."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


class PieceKind(StrEnum):
    TEXT = "text"
    REASONING = "reasoning"
    CALL_START = "call_start"
    CALL_ARGS = "call_args"
    FINISH = "finish"


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token with its log probability; `data` is its raw bytes."""

    token: str
    logprob: float
    data: bytes


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """What was chosen at one position, and the likeliest tokens there."""

    chosen: Alternative
    top: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A bit of generation of one choice, ready to be sent.

    `text` holds complete characters only. `tokens` counts this choice's completion tokens so far, `thought` those
    of them that it thought before it answered; `after` is how long the model worked since the previous piece of
    any choice.
    """

    index: int
    kind: PieceKind
    text: str = ""
    call: int = 0
    call_id: str = ""
    name: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    finish: str | None = None
    after: float = 0.0
    tokens: int = 0
    thought: int = 0


class Chunk(dict[str, Any]):
    """A chunk object of a stream that also knows how long to wait before it is sent."""

    def __init__(self, *args: Any, after: float = 0.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.after = after

    def changed(self, **updates: Any) -> "Chunk":
        """A copy with some top-level members replaced and the same timing."""
        return Chunk({**self, **updates}, after=self.after)


@dataclass(frozen=True, slots=True)
class Frame:
    """Bytes of the body that belong together (one SSE event, one JSON body), sent `after` seconds later."""

    data: bytes
    after: float = 0.0


DONE_FRAME = Frame(b"data: [DONE]\n\n")
HEARTBEAT = b": keepalive\n\n"


class Framing(Enum):
    """How the end of the body is marked: Content-Length, chunked coding, or closing the connection."""

    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"


@dataclass(frozen=True)
class HttpAnswer:
    """Status line, headers exactly as sent, body frames, and how the body is delimited.

    The headers are not derived from `framing`: a fault can make the two disagree.
    """

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: Iterator[Frame] = field(default_factory=lambda: iter(()))
    framing: Framing = Framing.LENGTH
    stream: bool = False

    def with_headers(self, **changes: str | None) -> tuple[tuple[str, str], ...]:
        """The headers with some replaced, added, or (None) removed; `_` in a name stands for `-`."""
        wanted = {name.replace("_", "-").lower(): value for name, value in changes.items()}
        kept = [
            (name, wanted.pop(name.lower(), value) if name.lower() in wanted else value) for name, value in self.headers
        ]
        kept += list(wanted.items())
        return tuple((name, value) for name, value in kept if value is not None)


class How(Enum):
    """How a response ends on the socket."""

    KEEP = "keep"  # the connection may be used again
    END = "end"  # FIN
    RESET = "reset"  # RST


@dataclass(frozen=True, slots=True)
class Emit:
    """Write `data`, `after` seconds later."""

    data: bytes
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class Close:
    """The response is over. `idle` is how long the connection then waits for a request (seconds; None: as always)."""

    how: How
    idle: float | None = None


Step = Emit | Close


class ApiError(Exception):
    """A refusal that is answered with OpenAI's error envelope."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.kind = status, message, kind
        self.param, self.code, self.headers = param, code, headers

    def body(self) -> dict[str, Any]:
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": error}


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """The usual 400."""
    return ApiError(400, message, param=param, code=code)
