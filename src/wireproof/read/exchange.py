"""One HTTP exchange, decoded once and read by many checks.

`Exchange` wraps a transcript with lazily computed views: the response, the JSON body, the events of a stream. What
belongs to one endpoint is in its subclass (`Chat`). A view that needs something that the target did not deliver raises
`Inconclusive`: the rule that demands it says so once, the others do not repeat it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any

from wireproof.verdict import Inconclusive, Unsupported
from wireproof.wire import http, sse, strictjson
from wireproof.wire.endpoints import Endpoint, endpoint_of
from wireproof.wire.http import Response
from wireproof.wire.sse import Anomaly, AnomalyKind, Event
from wireproof.wire.strictjson import Parsed
from wireproof.wire.transcript import Capture, Ending, Request, Transcript

# How a server says that it lacks a feature; 401, 408 or 429 say something else.
_NOT_THERE = frozenset({400, 404, 405, 415, 422, 501})


@dataclass(frozen=True)
class Exchange:
    """A transcript and everything that follows from it."""

    transcript: Transcript

    # -- the request ---------------------------------------------------------

    @property
    def scenario(self) -> str:
        """The scenario that recorded it; a file name when judged offline."""
        return self.transcript.scenario

    @property
    def request(self) -> Request:
        """The request as sent."""
        return self.transcript.request

    @cached_property
    def digest(self) -> str:
        """Equal digests give equal verdicts."""
        return self.transcript.digest()

    @property
    def knows_request(self) -> bool:
        """Whether the request was recorded; else only what its answer proves is known of it."""
        return not self.transcript.tags.guessed

    @property
    def place(self) -> str:
        """Exchanges of one place come from one server: a folder, or a file of its own, when judged offline."""
        return self.transcript.tags.place or self.scenario.rpartition("/")[0]

    @cached_property
    def asked(self) -> dict[str, Any]:
        """The request body as a JSON object; empty when it is none."""
        if not self.knows_request:
            return self._guessed()
        try:
            value = json.loads(self.request.body)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def _guessed(self) -> dict[str, Any]:
        """What the answer alone proves of a request that was not recorded."""
        return {}

    @cached_property
    def endpoint(self) -> Endpoint:
        """Where the request went."""
        return endpoint_of(self.request.method, self.request.path)

    @cached_property
    def valid(self) -> bool:
        """Whether the request is one that a server must accept (a scenario says when it is not)."""
        return self.transcript.tags.valid

    @property
    def on_reused_connection(self) -> bool:
        """Whether it was sent over the connection of the exchange before."""
        return self.transcript.tags.reused

    @property
    def asked_stream(self) -> bool:
        """Whether `stream: true` was asked for."""
        return self.asked.get("stream") is True

    # -- the response --------------------------------------------------------

    @cached_property
    def response(self) -> Response | None:
        """The response, or None when none came."""
        return http.parse_response(self.transcript)

    @property
    def answered(self) -> Response:
        """The response; inconclusive when none came."""
        if self.response is None:
            raise Inconclusive(
                f"no HTTP response came ({self.transcript.ending.value} {self.transcript.detail})".strip()
            )
        return self.response

    @property
    def status(self) -> int | None:
        """The status code; None when unknown."""
        return self.response.status if self.response else None

    @property
    def ok(self) -> bool:
        """Whether the status is 200 (a recording of a bare body counts as 200)."""
        if self.response is None:
            return False
        return self.status == 200 or (self.status is None and self.transcript.capture is Capture.BODY)

    @cached_property
    def dated(self) -> float | None:
        """The Date header in Unix seconds; None when there is none that can be read."""
        try:
            return parsedate_to_datetime(self.answered.header("date") or "").timestamp()
        except (ValueError, TypeError, OverflowError):
            return None

    @property
    def knows_headers(self) -> bool:
        """Whether the recording has the response headers."""
        return self.response is not None and (self.transcript.capture is not Capture.BODY or self.status is not None)

    @cached_property
    def is_event_stream(self) -> bool:
        """Whether the body is an event stream: by its type, or by its look when a stream was asked for."""
        if not self.ok or self.response is None:
            return False
        if self.response.media_type == "text/event-stream":
            return True
        start = self.response.content[:512].lstrip(b"\xef\xbb\xbf\r\n\t ")
        return self.asked_stream and start.startswith((b"data:", b":", b"event:", b"id:", b"retry:"))

    @cached_property
    def is_json(self) -> bool:
        """Whether the body claims to be JSON, or looks like it."""
        if self.response is None or self.is_event_stream or not self.response.content:
            return False
        if self.response.media_type.endswith("json"):
            return True
        return self.response.media_type in ("", "text/plain") and self.response.content.lstrip()[:1] in (b"{", b"[")

    @cached_property
    def cut_by_us(self) -> bool:
        """Whether we stopped reading before the server was done."""
        return self.transcript.ending in (Ending.CLIENT_LEFT, Ending.BYTE_LIMIT)

    # -- JSON bodies ---------------------------------------------------------

    @cached_property
    def text(self) -> str:
        """The body as text; invalid UTF-8 is replaced here and judged elsewhere."""
        return self.answered.content.decode("utf-8", errors="replace").removeprefix("\ufeff")

    @cached_property
    def parsed(self) -> Parsed:
        """The body parsed as one strict JSON text."""
        return strictjson.parse(self.text)

    def refusal(self) -> str:
        """Status and message of an answer that is no success, for a reason text."""
        if self.response is None:
            return self.transcript.ending.value
        message = strictjson.get(self.parsed.value, "error", "message")
        return f"{self.status} {str(message if message is not None else self.text)[:120]}".strip()

    def refused(self) -> Inconclusive | Unsupported:
        """Why there is nothing to judge: the feature is honestly refused, or something is wrong."""
        feature = self.transcript.tags.optional
        envelope = isinstance(strictjson.get(self.parsed.value, "error"), dict) if self.response else False
        if feature and envelope and self.status in _NOT_THERE:
            return Unsupported(f"{feature}: {self.refusal()}")
        if self.ok:
            return Inconclusive("the answer is not of the kind that was asked for")
        return Inconclusive(f"the request was refused: {self.refusal()}")

    # -- event streams -------------------------------------------------------

    @cached_property
    def items(self) -> list[sse.Item]:
        """Everything that the SSE decoder saw, in order."""
        items = sse.decode(self.answered.content)
        if self.cut_by_us:  # the torn end is our doing
            items = [i for i in items if not (isinstance(i, Anomaly) and i.kind is AnomalyKind.UNTERMINATED)]
            items = [i for i in items if not (isinstance(i, Event) and not i.terminated)]
        return items

    @cached_property
    def events(self) -> list[Event]:
        """The data events; inconclusive when the answer is no event stream."""
        if not self.is_event_stream:
            raise self.refused()
        return [i for i in self.items if isinstance(i, Event)]

    def anomalies(self, *kinds: AnomalyKind) -> list[Anomaly]:
        """The decoder's anomalies of the given kinds."""
        return [i for i in self.items if isinstance(i, Anomaly) and i.kind in kinds]

    @cached_property
    def is_empty_stream(self) -> bool:
        """Whether an event stream ended without a single field: nothing, or comments and blank lines only."""
        odd = (AnomalyKind.UNKNOWN_FIELD, AnomalyKind.NO_DATA, AnomalyKind.INVALID_UTF8)
        return not self.events and not self.anomalies(*odd)

    # -- what both kinds of answer have --------------------------------------
