"""Requests as real clients send them: Accept, unknown headers, charsets, escapes, methods, sizes."""

from __future__ import annotations

from wireproof.judge.rules import MUST, SHOULD, Each, client, each_of, of, openapi, rfc, rule
from wireproof.judge.subjects import STREAM_SCENARIOS
from wireproof.read.chat import Chat, is_chat
from wireproof.read.exchange import Exchange
from wireproof.read.refusal import BUSY_OR_LOCKED
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.endpoints import PATHS, Endpoint
from wireproof.wire.strictjson import get
from wireproof.wire.transcript import Ending


def _asks_for_stream(x: Exchange) -> bool:
    return is_chat(x) and x.asked_stream and x.valid and x.response is not None


def _accepts_only_json(x: Exchange) -> bool:
    accept = (x.request.header("accept") or "").lower()
    return "application/json" in accept and "event-stream" not in accept and "*/*" not in accept


ACCEPT_JSON = Each(
    "every stream asked for with Accept: application/json",
    lambda x: _asks_for_stream(x) and _accepts_only_json(x),
    ("stream-accept-json",),
)
STREAM_WANTED = Each(
    "every other valid chat request with stream true",
    lambda x: _asks_for_stream(x) and not _accepts_only_json(x),
    STREAM_SCENARIOS,
)


def _is_stream_or_refusal(x: Exchange) -> None:
    """Continue for an event stream; inconclusive for a refusal, broken for any other success."""
    response = x.answered
    if x.cut_by_us and not response.content:
        raise NotApplicable("we disconnected before the first byte of the body")
    if not x.is_event_stream and (response.status is None or not 200 <= response.status < 300):
        raise x.refused()
    if response.status != 200 and response.media_type == "text/event-stream":
        raise inconclusive(f"a stream with status {response.status}: sse.response.event-stream judges that")
    if not x.is_event_stream and get(x.parsed.value, "error"):
        raise inconclusive(f"an error with status {response.status}: sse.error.before-stream-is-4xx judges that")
    shown = response.header("content-type") or "no Content-Type"
    require(x.is_event_stream, "an event stream", got=f"{shown}: {x.text[:60]!r}", at=(0, len(response.content)))


@rule(
    "http.accept.json-still-streams",
    MUST,
    on=ACCEPT_JSON,
    book="HTTP-005",
    source=client("openai-python", "_base_client.default_headers"),
)
def test_accept_json_still_streams(x: Exchange) -> None:
    """The server streams its answer to a request with `Accept: application/json` and `stream: true`.

    openai-python sends this header with every request: otherwise each of them gets no chunk, or a 406.
    """
    require(x.status != 406, "a stream", got="406 Not Acceptable")
    _is_stream_or_refusal(x)


@rule(
    "http.stream.honoured",
    MUST,
    on=STREAM_WANTED,
    book="HTTP-006",
    source=openapi("CreateChatCompletionRequest.stream"),
    evidence=("json_for_stream",),
)
def test_stream_honoured(x: Exchange) -> None:
    """The server answers `stream: true` with an event stream, never with one JSON object.

    openai-python, LlamaIndex, litellm and haystack find no chunk to iterate over and return an empty
    answer without an error; LangChain and the node helper raise.
    """
    _is_stream_or_refusal(x)


def _comparable(bare: Chat, dressed: Chat) -> None:
    """Inconclusive when the bare request fails as well, or when load or a key was in the way."""
    if not bare.plain_choices or dressed.status in BUSY_OR_LOCKED:
        raise dressed.refused()


@rule(
    "http.headers.unknown-ignored",
    MUST,
    on=of("plain-greedy", "plain-sdk-headers"),
    book="HTTP-007",
    source=client("openai-python", "_client.default_headers"),
)
def test_headers_unknown_ignored(bare: Chat, dressed: Chat) -> None:
    """Headers that SDKs add (X-Stainless-*, OpenAI-Organization, OpenAI-Beta, ...) do not change the answer.

    Every official SDK sends them with each call.
    """
    _comparable(bare, dressed)
    got = dressed.refusal() if not dressed.ok else dressed.text
    same = dressed.ok and isinstance(get(dressed.parsed.value, "choices"), list)
    require(same, "a completion, as without these headers", got=got, owner=dressed)


@rule(
    "http.content-type.parameters-accepted",
    SHOULD,
    on=of("plain-greedy", "plain-content-type-charset"),
    book="HTTP-008",
    source=rfc(9110, "8.3.1"),
)
def test_content_type_parameters_accepted(bare: Chat, dressed: Chat) -> None:
    """The server accepts `Application/JSON; charset=UTF-8` like `application/json`.

    Java, .NET and PHP clients add the charset on their own.
    """
    _comparable(bare, dressed)
    require(dressed.ok, "status 200", got=dressed.refusal(), owner=dressed)


@rule(
    "http.body.unicode-equal",
    MUST,
    on=of("plain-unicode-raw", "plain-unicode-escaped"),
    book="HTTP-009",
    source=rfc(8259, "7"),
)
def test_body_unicode_equal(raw: Chat, escaped: Chat) -> None:
    r"""The model gets the same prompt from raw UTF-8 and from \u escapes with surrogate pairs.

    Clients differ in how they escape: a broken decoder gives the model characters that the user did not type.
    """
    for one, other in ((raw, escaped), (escaped, raw)):
        if one.ok and not other.ok and other.status not in BUSY_OR_LOCKED:
            require(False, "status 200, as for the other spelling", got=other.refusal(), owner=other)
    counts = [get(x.completion, "usage", "prompt_tokens") for x in (raw, escaped)]
    if None in counts:
        same = [o.content for o in raw.outcomes] == [o.content for o in escaped.outcomes]
        if not same:  # sampling noise of a busy server proves nothing
            raise inconclusive("there is no usage to compare, and the texts differ")
        return
    require(counts[0] == counts[1], f"{counts[0]} prompt tokens for both", got=f"{counts[1]} escaped", owner=escaped)


def _wrong_method(x: Exchange) -> bool:
    path = x.request.path.split("?", 1)[0].rstrip("/")
    on_chat = path.endswith(PATHS[Endpoint.CHAT]) and x.request.method in ("GET", "PUT", "PATCH", "DELETE")
    on_models = path.endswith("/models") and x.request.method in ("PUT", "PATCH", "DELETE")
    return (on_chat or on_models) and x.response is not None


WRONG_METHOD = Each(
    "every request with an unsupported method", _wrong_method, ("method-get-chat", "method-delete-models")
)


@rule("http.method.unsupported-refused", SHOULD, on=WRONG_METHOD, book="HTTP-013", source=rfc(9110, "15.5.6"))
def test_method_unsupported_refused(x: Exchange) -> None:
    """The server answers an unsupported method on a known path with 405 or 404, never with 200 or 5xx.

    Otherwise health checks and clients believe that the endpoint works, or that the server is broken.
    """
    if x.status in BUSY_OR_LOCKED:
        raise x.refused()
    # OpenAI's own GET /v1/chat/completions lists stored completions: a server may offer it as well.
    listed = x.ok and x.request.method == "GET" and get(x.parsed.value, "object") == "list"
    require(x.status in (404, 405) or listed, "405 or 404", got=x.refusal())


@rule("http.method.allow-named", SHOULD, on=WRONG_METHOD, source=rfc(9110, "15.5.6"))
def test_method_allow_named(x: Exchange) -> None:
    """A 405 lists the allowed methods in its Allow header.

    Without it, the developer has to guess which methods the path supports.
    """
    if x.status != 405 or not x.knows_headers:
        raise NotApplicable("the answer is not a 405")
    require(x.answered.header("allow"), "an Allow header", got="none")


@rule("http.body.too-large-refused", SHOULD, on=each_of("body-too-large"), book="HTTP-016", source=rfc(9110, "15.5.14"))
def test_body_too_large_refused(x: Exchange) -> None:
    """The server refuses a body that is too large with 413 or 400, not with a reset or a 5xx.

    Clients retry after a reset or a 5xx: twenty megabytes, three times.
    """
    torn = x.response is None and x.transcript.ending in (Ending.RESET, Ending.CLOSED)
    require(not torn, "413 or 400", got=f"a {x.transcript.ending.value} connection without an answer")
    if x.answered.status in BUSY_OR_LOCKED:
        raise x.refused()
    # 200 is right for a server that accepts such a body; 422 is how FastAPI spells 400.
    require(x.ok or x.status in (400, 413, 422), "413 or 400 (or 200)", got=x.refusal())
