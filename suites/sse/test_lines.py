"""Lines and events: what the bytes of a stream look like to the parsers in clients."""

from __future__ import annotations

import re

from wireproof.judge.rules import MUST, SHOULD, client, contract, openapi, rule, whatwg
from wireproof.judge.subjects import STREAM_REQUESTS, STREAMS
from wireproof.read.chat import Chat
from wireproof.read.exchange import Exchange
from wireproof.verdict import NotApplicable, require
from wireproof.wire import strictjson
from wireproof.wire.sse import Anomaly, AnomalyKind, Comment, Event
from wireproof.wire.transcript import Ending

_DONE = b"[DONE]"
_BLANK_FOLLOWS = re.compile(rb"(\r\n|\n|\r)(:[^\r\n]*(\r\n|\n|\r))*(\r\n|\n|\r)")


def _torn(x: Exchange) -> bool:
    """Whether the body did not arrive complete: http.body.framed-exactly reports it, or we disconnected."""
    whole = x.transcript.ending in (Ending.COMPLETE, Ending.CLOSED, Ending.UNKNOWN)
    return not whole or bool(x.answered.framing.problem)


def _at_the_tear(x: Exchange, span: tuple[int, int]) -> bool:
    return _torn(x) and span[1] >= len(x.answered.content)


def _fused(event: Event) -> bool:
    """Whether the event has several data lines, each a whole payload: separate events that ran together."""
    if len(event.lines) < 2:
        return False
    values = [line.value.strip() for line in event.lines if line.name == b"data"]
    return len(values) > 1 and all(
        v == _DONE or (v[:1] == b"{" and strictjson.parse(v.decode("utf-8", "replace")).ok) for v in values
    )


def _separates(x: Exchange) -> bool:
    """Whether the server separates events at all: at least one event holds a single payload."""
    return any(e.terminated and not _fused(e) for e in x.events)


def _done_lookalike(text: str) -> bool:
    """A misspelled terminator: the done rules judge it."""
    bare = text.strip().strip('"').lower()
    return bare in ("[done]", "done") or (text[:1] == "{" and '"done"' in text and len(text) < 40)


def _wordless(event: Event) -> bool:
    """Whether a line of the event is not a known field: sse.line.known-field judges it."""
    if len(event.lines) == 1:  # almost always
        return event.lines[0].name != b"data"
    return any(line.name not in (b"data", b"event", b"id", b"retry") for line in event.lines)


@rule(
    "sse.response.event-stream",
    MUST,
    on=STREAM_REQUESTS,
    book="SSE-001",
    source=whatwg("9.2.2"),
    evidence=("sse_ctype_json", "sse_ctype_plain"),
)
def test_response_event_stream(x: Exchange) -> None:
    """A stream has status 200 and the media type text/event-stream.

    EventSource and httpx-sse refuse any other type, tools that check it parse the whole body as one JSON
    text, and gateways switch off buffering for this type only.
    """
    response = x.answered
    if not x.knows_headers:
        raise NotApplicable("the recording has no headers")
    looks = response.content.lstrip(b"\xef\xbb\xbf\r\n")[:5] == b"data:"
    success = response.status is not None and 200 <= response.status < 300
    require(not (success and looks) or response.status == 200, "status 200", got=f"{response.status}")
    if not x.is_event_stream:
        raise x.refused()
    shown = response.header("content-type")
    require(
        response.media_type == "text/event-stream", "Content-Type: text/event-stream", got=shown or "no Content-Type"
    )


@rule(
    "sse.event.terminated",
    MUST,
    on=STREAMS,
    book="SSE-002",
    source=whatwg("9.2.6"),
    evidence=("single_newline", "done_no_blank"),
)
def test_event_terminated(x: Exchange) -> None:
    """Every event, including the last one, ends with a blank line.

    With single newlines all events fuse into one: openai-python, LlamaIndex and litellm return an empty
    answer without an error, LangChain raises "No generation chunks were returned".
    """
    for event in x.events:
        require(
            event.terminated or _at_the_tear(x, event.span), "a blank line after the event", got="the end", at=event
        )
        lone = _fused(event) and not _separates(x)
        require(not lone, "a blank line between events", got=f"{event.data_lines} payloads in one event", at=event)


@rule(
    "sse.event.one-json",
    MUST,
    on=STREAMS,
    book="SSE-003",
    source=contract("each event is one JSON text"),
    evidence=("two_json_one_event",),
)
def test_event_one_json(x: Chat) -> None:
    """The data of an event is exactly one JSON object, or [DONE].

    Two objects in one event, or text that is not JSON, raise an untyped JSONDecodeError or SyntaxError
    in every client, in the middle of the answer.
    """
    for chunk in x.payloads:
        event = chunk.event
        if not event.data.strip() or _wordless(event) or _done_lookalike(event.data) or _at_the_tear(x, event.span):
            continue  # other rules judge these
        if _fused(event) and not _separates(x):
            continue  # a missing blank line: sse.event.terminated
        problem = chunk.parsed.problem(strictjson.ProblemKind.NOT_JSON)
        require(
            chunk.parsed.ok, "one JSON text", got=f"{problem.what if problem else ''}: {event.data[:80]!r}", at=event
        )
        require(isinstance(chunk.value, dict), "a JSON object", got=event.data[:80], at=event)


def _other_field(line: str) -> bool:
    """A field that no parser knows and that the standard lets it ignore: nothing meant as data is lost."""
    name, colon, _ = line.partition(":")
    known = name.lower() in ("data", "event", "id", "retry")
    return bool(colon) and not known and re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) is not None


@rule(
    "sse.line.known-field",
    MUST,
    on=STREAMS,
    book="SSE-004",
    source=whatwg("9.2.6"),
    evidence=("pretty_raw_newlines",),
)
def test_line_known_field(x: Exchange) -> None:
    """Every non-blank line is a comment or has a field name; data, event, id and retry are spelled exactly so.

    A raw line break in the JSON, a missing `data:` or a space before it makes parsers ignore the line:
    every client then raises on truncated JSON, or returns an empty answer without an error.
    """
    for anomaly in x.anomalies(AnomalyKind.UNKNOWN_FIELD):
        bare_done = _done_lookalike(anomaly.detail) or _other_field(anomaly.detail)
        if not bare_done and not _at_the_tear(x, anomaly.span):
            require(False, "a line that begins with `data:`", got=anomaly.detail, at=anomaly)


@rule(
    "sse.line.canonical",
    SHOULD,
    on=STREAMS,
    book="SSE-005",
    source=contract("each event is `data: <json>` and a blank line"),
    evidence=("nospace", "multiline_pretty"),
)
def test_line_canonical(x: Exchange) -> None:
    """Each event is one line: `data:`, exactly one space, and the payload.

    Legal variations break home-grown parsers that test for "data: " and cut off six characters:
    langchain_dart, genai-bench and old openai-python dropped all chunks.
    """
    for event in x.events:
        if _wordless(event) or _fused(event) or not event.data.strip():
            continue  # other rules judge these
        require(event.data_lines == 1, "one data line", got=f"{event.data_lines}", at=event)
        raw = next(line.raw for line in event.lines if line.name == b"data")
        one_space = raw.startswith(b"data: ") and raw[6:7] not in (b" ", b"\t")
        require(one_space, "`data:` and one space", got=repr(raw[:24])[2:-1], at=event)


@rule("sse.line.lf", SHOULD, on=STREAMS, book="SSE-006", source=whatwg("9.2.5"), evidence=("crlf", "cr"))
def test_line_lf(x: Exchange) -> None:
    """Lines end with LF (or CRLF), never with a bare CR.

    A bare CR is legal, but parsers that split at LF see one giant line and return nothing until the end.
    """
    found = x.anomalies(AnomalyKind.BARE_CR)
    require(not found, "LF", got="a bare CR", at=found[0] if found else None)


@rule(
    "sse.event.has-data",
    MUST,
    on=STREAMS,
    book="SSE-011",
    source=client("openai-python", "SSEDecoder.decode"),
    evidence=("event_no_data", "retry_only"),
)
def test_event_has_data(x: Exchange) -> None:
    """The server sends no event without data, such as `event: ping` or `retry: 3000` alone.

    The standard drops it, but openai-python and everything built on it call json.loads("") and crash; so
    do openai-node and LangChain.js on `event: ping`.
    """
    for anomaly in x.anomalies(AnomalyKind.NO_DATA):
        require(_at_the_tear(x, anomaly.span), "data in the event", got=anomaly.detail, at=anomaly)


@rule(
    "sse.event.data-not-empty",
    MUST,
    on=STREAMS,
    book="SSE-012",
    source=client("openai-python", "_streaming"),
    evidence=("empty_data",),
)
def test_event_data_not_empty(x: Exchange) -> None:
    """No event has empty data, not even as a keep-alive.

    json.loads("") and JSON.parse("") raise in all clients: the answer ends at the first heartbeat.
    """
    for event in x.events:
        require(event.data.strip() or _at_the_tear(x, event.span), "data with a payload", got="none", at=event)


@rule(
    "sse.id.no-idle-block-after",
    MUST,
    on=STREAMS,
    book="SSE-013",
    source=client("openai-python", "SSEDecoder.decode: last_event_id is kept"),
    evidence=("id_then_heartbeat", "id_field_each"),
)
def test_id_no_idle_block_after(x: Exchange) -> None:
    """After an event with an `id:`, the server sends no comment-only block and no extra blank line.

    openai-python keeps the last id and turns each later idle blank line into an event without data:
    JSONDecodeError at the first heartbeat. Ids without idle blocks, and idle blocks without ids, are harmless.
    """
    last_id = ""
    for item in x.items:
        if isinstance(item, Event) and item.id is not None:
            last_id = item.id
        elif last_id:
            extra = isinstance(item, Anomaly) and item.kind is AnomalyKind.EXTRA_BLANK
            idle = isinstance(item, Comment) and item.alone
            idle = idle and _BLANK_FOLLOWS.match(x.answered.content, item.span[1]) is not None
            got = "an extra blank line" if extra else "a comment block"
            require(not (extra or idle), f"no idle block after id: {last_id}", got=got, at=item)


@rule(
    "sse.event.data-only",
    SHOULD,
    on=STREAMS,
    book="SSE-014",
    source=openapi("CreateCompletionRequest.stream: data-only server-sent events"),
    evidence=("event_message_field", "id_field_each"),
)
def test_event_data_only(x: Exchange) -> None:
    """The events of a chat stream consist of data lines only: no event, id or retry.

    Event names that begin with "thread." switch openai-python to Assistants; SDKs ignore the rest, but
    strict parsers trip over it.
    """
    for event in x.events:
        other = next((line for line in event.lines if line.name in (b"event", b"id", b"retry")), None)
        require(other is None, "data lines only", got=repr(other.raw[:48])[2:-1] if other else "", at=other)


@rule(
    "sse.heartbeat.is-comment",
    MUST,
    on=STREAMS,
    book="SSE-016",
    source=client("llama-index-llms-openai"),
    evidence=("heartbeat_data_ping", "heartbeat_data_empty_obj", "heartbeat_empty_choices", "heartbeat"),
)
def test_heartbeat_is_comment(x: Chat) -> None:
    """A keep-alive is a comment or a chunk with `choices: []`, never another payload such as {} or a ping.

    LlamaIndex raises "object of type 'NoneType' has no len()", the node helper "chunk.choices is not
    iterable".
    """
    for chunk in x.payloads:
        if chunk.parsed.ok and chunk.is_aside and not chunk.is_error and not _done_lookalike(chunk.event.data):
            require(False, "a comment line, or a chunk", got=chunk.event.data[:80], at=chunk)
