"""What crossed the wire for one request.

A `Transcript` is the only input that rules are judged on. It keeps the bytes as
they were read, with the time of every read, and how the exchange ended; all else
(status, headers, events, chunks) is derived from it and can be derived again.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

SCHEMA = "wireproof/transcript/1"

# A request body longer than this is stored deflated (padding is nearly nothing then), or only its length is, when that
# is too long as well (bytes). What is judged again must be what was judged.
STORED_BODY_LIMIT = 256 * 1024
# No stored body inflates to more (bytes).
_INFLATED_LIMIT = 64 * 1024 * 1024


class Ending(StrEnum):
    """Why reading stopped."""

    COMPLETE = "complete"  # the framing said that the response is over
    CLOSED = "closed"  # the server closed the connection
    RESET = "reset"  # the connection broke
    IDLE_TIMEOUT = "idle-timeout"  # no byte came for the idle limit
    TOTAL_TIMEOUT = "total-timeout"  # the exchange took longer than the total limit
    BYTE_LIMIT = "byte-limit"  # the response grew past the limit on bytes
    CLIENT_LEFT = "client-left"  # the scenario told us to leave
    NOT_CONNECTED = "not-connected"  # no connection, or no TLS
    UNKNOWN = "unknown"  # a stored recording that does not say


class Capture(StrEnum):
    """Which layer the recorded bytes belong to."""

    WIRE = "wire"  # as read from the socket, transfer coding included
    DECODED = "decoded"  # head as on the wire, body with the transfer coding undone (curl -i)
    BODY = "body"  # the body alone; status and headers given beside it, or unknown


@dataclass(frozen=True, slots=True)
class Read:
    """One read from the socket: seconds since the request was sent, and the bytes."""

    at: float
    data: bytes


@dataclass(frozen=True)
class Request:
    """The request as sent. Secrets are already removed from `headers`."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    # Set when the body was too long to keep: its true length in bytes.
    omitted: int = 0

    def header(self, name: str) -> str | None:
        """The first value of a header, by name in any case."""
        wanted = name.lower()
        return next((v for k, v in self.headers if k.lower() == wanted), None)

    @property
    def path(self) -> str:
        """The path and query of the URL."""
        rest = self.url.split("://", 1)[-1]
        slash = rest.find("/")
        return rest[slash:] if slash >= 0 else "/"


@dataclass(frozen=True)
class Tags:
    """What is known of an exchange beside its bytes: of its scenario, of how it was recorded, of what ran beside it.

    Stored as a JSON object of strings, from which everything with its default is left out.
    """

    # The scenario's: whether a server must accept the request, the feature whose honest 4xx means unsupported, and
    # the place in an outcome table.
    valid: bool = True
    optional: str = ""
    table: str = ""
    row: str = ""
    column: str = ""
    # The recorder's: an API key was known, the connection was that of the exchange before, other requests of ours ran
    # beside it (how soon it was answered then says little of the server), or it was a look at the engine behind the
    # target, which is another server.
    keyed: bool = False
    reused: bool = False
    beside: bool = False
    behind: bool = False
    # A look at the GPUs that was taken beside it: percent of time in use, one figure for each, and how long it took to
    # learn them (seconds).
    gpu: str = ""
    gpu_seconds: str = ""
    # A client library's: its set-up and versions, what it handed to its user (JSON), and why some of its tasks sent
    # nothing (JSON, reason by step; with the first exchange of the take).
    client: str = ""
    versions: str = ""
    outcome: str = ""
    unsent: str = ""
    # A stored recording's: the request was not recorded, the run record has no footer, and which recordings come from
    # one server.
    guessed: bool = False
    torn: bool = False
    place: str = ""

    def to_json(self) -> dict[str, str]:
        """The tags that are not as by default."""
        out = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if value != f.default:
                out[_STORED_AS.get(f.name, f.name)] = value if isinstance(value, str) else ("yes" if value else "no")
        if out.pop("guessed", None):
            out["request"] = "guessed"
        return out

    @classmethod
    def of(cls, stored: Mapping[str, str]) -> Tags:
        """Stored tags; those that we don't know are passed over."""
        found: dict[str, Any] = {}
        for f in fields(cls):
            value = stored.get(_STORED_AS.get(f.name, f.name))
            if value is not None:
                found[f.name] = value == "yes" if isinstance(f.default, bool) else value
        return cls(**{**found, "guessed": stored.get("request") == "guessed"})

    def __or__(self, more: Tags) -> Tags:
        """Both: what `more` says goes before what this says."""
        changed = {f.name: v for f in fields(self) if (v := getattr(more, f.name)) != f.default}
        return replace(self, **changed)


_STORED_AS = {"gpu_seconds": "gpu-seconds"}


@dataclass(frozen=True)
class Transcript:
    """One exchange: the request, the timed raw reads, and how it ended.

    `timed` is false for recordings that carry no times; then every `Read.at` is 0.
    `ended_at` is in seconds on the same clock as `Read.at` (0 is when the
    request had been sent). `status` and `headers` are used with `Capture.BODY` only.
    """

    id: str
    scenario: str
    request: Request
    reads: tuple[Read, ...]
    ending: Ending
    capture: Capture = Capture.WIRE
    timed: bool = True
    ended_at: float = 0.0
    detail: str = ""
    step: str = ""
    sample: int = 0
    connection: int = 0
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    tags: Tags = Tags()

    @property
    def raw(self) -> bytes:
        """All bytes that were read, in order."""
        return b"".join(r.data for r in self.reads)

    def digest(self) -> str:
        """A digest of everything that a check can see; equal digests give equal verdicts."""
        h = hashlib.blake2b(digest_size=16)
        asked = self.request
        small = (
            *(self.scenario, self.step, self.sample, self.connection, sorted(self.tags.to_json().items())),
            *(asked.method, asked.url, asked.headers, asked.omitted, len(asked.body)),
            *(self.ending.value, self.detail, self.capture.value, self.timed, f"{self.ended_at:.6f}"),
            *(self.status, self.headers),
        )
        h.update(repr(small).encode())
        h.update(asked.body)
        # Each read with its length, so that no data can look like the start of another read.
        h.update("".join(f"|{read.at:.6f} {len(read.data)}|" for read in self.reads).encode())
        h.update(self.raw)
        return h.hexdigest()


def _pack(data: bytes) -> Any:
    """Bytes as readable text where that loses nothing, else as base64."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _unpack(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8")
    return base64.b64decode(value["base64"], validate=True)


def _inflate(request: Mapping[str, Any]) -> bytes:
    """A body that was stored deflated."""
    length = int(request.get("omitted", 0))
    try:
        body = zlib.decompressobj().decompress(base64.b64decode(request["deflated"], validate=True), _INFLATED_LIMIT)
    except zlib.error as error:
        raise ValueError(f"a deflated body: {error}") from error
    if len(body) != length:
        raise ValueError(f"a deflated body of {len(body)} bytes, not {length}")
    return body


def to_json(t: Transcript) -> dict[str, Any]:
    """The transcript as a JSON object (format `wireproof/transcript/1`)."""
    body = t.request.body
    request: dict[str, Any] = {
        "method": t.request.method,
        "url": t.request.url,
        "headers": [list(h) for h in t.request.headers],
        "body": _pack(body) if len(body) <= STORED_BODY_LIMIT else "",
    }
    if len(body) > STORED_BODY_LIMIT:
        request["omitted"] = len(body)
        deflated = zlib.compress(body) if len(body) <= _INFLATED_LIMIT else b""
        if 0 < len(deflated) <= STORED_BODY_LIMIT:
            request["deflated"] = base64.b64encode(deflated).decode("ascii")
    elif t.request.omitted:
        request["omitted"] = t.request.omitted
    out: dict[str, Any] = {
        "schema": SCHEMA,
        "id": t.id,
        "scenario": t.scenario,
        "request": request,
        "reads": [[round(r.at, 6), _pack(r.data)] for r in t.reads],
        "ending": t.ending.value,
        "capture": t.capture.value,
        "timed": t.timed,
        "ended_at": round(t.ended_at, 6),
    }
    if t.capture is Capture.BODY:
        out["status"] = t.status
        out["headers"] = [list(h) for h in t.headers]
    for name, value in (
        ("detail", t.detail),
        ("step", t.step),
        ("sample", t.sample),
        ("connection", t.connection),
        ("tags", t.tags.to_json()),
    ):
        if value:
            out[name] = value
    return out


def from_json(value: Mapping[str, Any]) -> Transcript:
    """Read a transcript back.

    Raises ValueError with one sentence when the object is not a transcript.
    """
    try:
        request = value["request"]
        whole = "deflated" in request
        return Transcript(
            id=str(value["id"]),
            scenario=str(value["scenario"]),
            request=Request(
                method=str(request["method"]),
                url=str(request["url"]),
                headers=tuple((str(k), str(v)) for k, v in request.get("headers", [])),
                body=_inflate(request) if whole else _unpack(request.get("body", "")),
                omitted=0 if whole else int(request.get("omitted", 0)),
            ),
            reads=tuple(Read(float(at), _unpack(data)) for at, data in value["reads"]),
            ending=Ending(value["ending"]),
            capture=Capture(value.get("capture", "wire")),
            timed=bool(value.get("timed", True)),
            ended_at=float(value.get("ended_at", 0.0)),
            detail=str(value.get("detail", "")),
            step=str(value.get("step", "")),
            sample=int(value.get("sample", 0)),
            connection=int(value.get("connection", 0)),
            status=None if value.get("status") is None else int(value["status"]),
            headers=tuple((str(k), str(v)) for k, v in value.get("headers", [])),
            tags=Tags.of({str(k): str(v) for k, v in value.get("tags", {}).items()}),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"not a wireproof transcript: {error!r}") from error
