"""One exchange, decoded once and read by many checks.

`Exchange` wraps a transcript with lazily computed views: the response, the JSON body,
the events, the chunks, the assembled message. A view that needs something which the
target did not deliver raises `Inconclusive`: the rule that demands it says so once,
the others do not repeat it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any

from . import guess
from .verdict import Inconclusive, NotApplicable, Unsupported
from .wire import chat, http, sse, strictjson
from .wire.http import Response
from .wire.sse import Anomaly, AnomalyKind, Event
from .wire.strictjson import Parsed
from .wire.transcript import Capture, Ending, Request, Transcript

# How a server says that it lacks a feature; 401, 408 or 429 say something else.
_NOT_THERE = frozenset({400, 404, 405, 415, 422, 501})
CHAT_PATH = "/chat/completions"


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
        return self.transcript.tags.get("request") != "guessed"

    @property
    def place(self) -> str:
        """Exchanges of one place come from one server: a folder, or a file of its own, when judged offline."""
        return self.transcript.tags.get("place") or self.scenario.rpartition("/")[0]

    @cached_property
    def asked(self) -> dict[str, Any]:
        """The request body as a JSON object; empty when it is none."""
        if not self.knows_request:
            return guess.asked(self.response)
        try:
            value = json.loads(self.request.body)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    @cached_property
    def is_chat(self) -> bool:
        """Whether the request was a chat completion."""
        path = self.request.path.split("?", 1)[0].rstrip("/")
        return self.request.method == "POST" and path.endswith(CHAT_PATH)

    @cached_property
    def valid(self) -> bool:
        """Whether the request is one that a server must accept (a scenario says when it is not)."""
        return self.transcript.tags.get("valid", "yes") == "yes"

    @property
    def on_reused_connection(self) -> bool:
        """Whether it was sent over the connection of the exchange before."""
        return self.transcript.tags.get("reused") == "yes"

    @property
    def asked_stream(self) -> bool:
        """Whether `stream: true` was asked for."""
        return self.asked.get("stream") is True

    @property
    def asked_usage(self) -> bool:
        """Whether `stream_options.include_usage` was asked for; not applicable when nothing tells."""
        found = strictjson.get(self.asked, "stream_options", "include_usage") is True
        if not found and not self.knows_request:
            raise NotApplicable("the recording does not say whether usage was asked for")
        return found

    @cached_property
    def asked_n(self) -> int:
        """How many choices were asked for."""
        n = self.asked.get("n")
        return int(n) if isinstance(n, int) and not isinstance(n, bool) and n > 0 else 1

    @cached_property
    def token_limit(self) -> int | None:
        """max_completion_tokens, or max_tokens (tokens); None when neither was given."""
        for name in ("max_completion_tokens", "max_tokens"):
            value = self.asked.get(name)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        return None

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

    @property
    def completion(self) -> dict[str, Any]:
        """The JSON object of a plain 200 answer; inconclusive when there is none."""
        if not self.ok:
            raise self.refused()
        if self.is_event_stream or not self.parsed.ok or not isinstance(self.parsed.value, dict):
            raise Inconclusive("the answer is not a JSON object")
        if self.parsed.value.get("error") or "choices" not in self.parsed.value:
            raise Inconclusive("the answer is not a completion")
        value: dict[str, Any] = self.parsed.value
        return value

    @property
    def plain_choices(self) -> list[dict[str, Any]]:
        """The choice objects of a plain answer; inconclusive when there is none."""
        found = self.completion.get("choices")
        choices = [c for c in found if isinstance(c, dict)] if isinstance(found, list) else []
        if not choices:
            raise Inconclusive("the answer has no choices")
        return choices

    def refusal(self) -> str:
        """Status and message of an answer that is no success, for a reason text."""
        if self.response is None:
            return self.transcript.ending.value
        message = strictjson.get(self.parsed.value, "error", "message")
        return f"{self.status} {str(message if message is not None else self.text)[:120]}".strip()

    def refused(self) -> Inconclusive | Unsupported:
        """Why there is nothing to judge: the feature is honestly refused, or something is wrong."""
        feature = self.transcript.tags.get("optional", "")
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

    @cached_property
    def payloads(self) -> list[chat.Chunk]:
        """Every event but [DONE], with its data parsed as JSON (which may have failed)."""
        return [
            chat.Chunk(number, event, strictjson.parse(event.data))
            for number, event in enumerate(self.events)
            if event.data.strip() != chat.DONE
        ]

    @cached_property
    def chunks(self) -> list[chat.Chunk]:
        """The payloads that are JSON objects, no errors, and no asides (pings and the like have rules of their own)."""
        objects = (c for c in self.payloads if c.parsed.ok and isinstance(c.value, dict))
        return [c for c in objects if not (c.is_error or c.is_aside or c.is_preamble)]

    @property
    def answer_chunks(self) -> list[chat.Chunk]:
        """The chunks; inconclusive when there is none."""
        if not self.chunks:
            raise Inconclusive("the stream has no chunks")
        return self.chunks

    @property
    def answer_parts(self) -> tuple[chat.Part, ...]:
        """Every choice object of the stream; inconclusive when there is none."""
        if not self.assembled.parts:
            raise Inconclusive("the stream has no choices")
        return self.assembled.parts

    @cached_property
    def errors(self) -> list[chat.Chunk]:
        """The payloads that are error objects."""
        return [c for c in self.payloads if c.parsed.ok and c.is_error]

    @cached_property
    def done(self) -> list[Event]:
        """The events whose data is [DONE]."""
        return [e for e in self.events if e.data.strip() == chat.DONE]

    @cached_property
    def assembled(self) -> chat.Assembled:
        """The stream put together."""
        return chat.assemble(self.chunks)

    @property
    def finished_stream(self) -> chat.Assembled:
        """The stream put together; inconclusive when it broke off with an error or was cut by us."""
        if self.errors:
            raise Inconclusive("the stream broke off with an error event")
        if self.cut_by_us:
            raise Inconclusive("we left before the stream ended")
        if not self.assembled.choices:
            raise Inconclusive("the stream has no choices")
        return self.assembled

    # -- what both kinds of answer have --------------------------------------

    @cached_property
    def usage(self) -> dict[str, Any] | None:
        """The usage object of the answer, or None."""
        if self.is_event_stream:
            found = [u for _, u in self.assembled.usages if isinstance(u, dict)]
            return found[-1] if found else None
        found_plain = strictjson.get(self.parsed.value, "usage")
        return found_plain if isinstance(found_plain, dict) else None

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """What each choice came to, streamed or not; inconclusive when there is no answer."""
        if self.is_event_stream:
            return [
                Outcome(c.index, c.content, c.refusal, c.finish_reason, tuple((k.name, k.arguments) for k in c.calls))
                for c in self.finished_stream.choices
            ]
        return [_plain_outcome(c) for c in self.plain_choices]


@dataclass(frozen=True)
class Outcome:
    """One choice of an answer in a form that is the same for stream and plain."""

    index: Any
    content: Any
    refusal: Any
    finish_reason: Any
    calls: tuple[tuple[Any, Any], ...]


def _plain_outcome(choice: dict[str, Any]) -> Outcome:
    calls = strictjson.get(choice, "message", "tool_calls")
    return Outcome(
        index=choice.get("index"),
        content=strictjson.get(choice, "message", "content"),
        refusal=strictjson.get(choice, "message", "refusal"),
        finish_reason=choice.get("finish_reason"),
        calls=tuple(
            (strictjson.get(c, "function", "name"), strictjson.get(c, "function", "arguments"))
            for c in (calls if isinstance(calls, list) else [])
        ),
    )
