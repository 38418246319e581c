"""Bodies: their media type, their bytes, and how their end is marked."""

from __future__ import annotations

from wireproof.judge.rules import MUST, SHOULD, Each, client, rfc, rule
from wireproof.judge.subjects import PLAIN_SCENARIOS, STREAM_SCENARIOS
from wireproof.read.chat import Chat, is_chat, is_stream
from wireproof.read.exchange import Exchange
from wireproof.verdict import Broken, NotApplicable, require
from wireproof.wire.strictjson import ProblemKind
from wireproof.wire.transcript import Capture, Ending

_BOM = b"\xef\xbb\xbf"
_NO_STREAM = (None, False)
_SOME = (*PLAIN_SCENARIOS, *STREAM_SCENARIOS)


def _claims_json(x: Exchange) -> bool:
    return x.response is not None and not x.is_event_stream and x.response.media_type.endswith("json")


# `stream: "true"` is an invalid request: its answer is not judged here.
NO_STREAM_ASKED = Each(
    "every valid chat request without stream",
    lambda x: is_chat(x) and x.asked.get("stream") in _NO_STREAM and x.valid and x.response is not None,
    PLAIN_SCENARIOS,
)
JSON_RESPONSES = Each("every body declared as JSON", _claims_json, (*PLAIN_SCENARIOS, "body-not-json", "models"))
JSON_TEXTS = Each("every JSON body and every chat stream", lambda x: x.is_json or is_stream(x), _SOME)
ON_THE_WIRE = Each(
    "every response as read from the socket",
    lambda x: x.transcript.capture is Capture.WIRE,
    (*_SOME, "plain-accept-gzip", "stream-accept-gzip"),
)


@rule(
    "http.plain.json-media-type",
    MUST,
    on=NO_STREAM_ASKED,
    book="HTTP-001",
    source=client("openai-node", "internal/parse"),
    evidence=("ns_ctype_text", "ns_ctype_charset", "ns_html"),
)
def test_plain_json_media_type(x: Exchange) -> None:
    """A plain completion has status 200 and the media type application/json.

    openai-node and LangChain.js treat any other type as text: `choices` is undefined and the caller
    sees "Cannot read properties of undefined".
    """
    response = x.answered
    if not x.knows_headers or response.status is None or not 200 <= response.status < 300:
        raise x.refused()
    require(response.status == 200, "status 200", got=f"{response.status}")
    shown = response.header("content-type")
    require(response.media_type == "application/json", "Content-Type: application/json", got=shown or "no Content-Type")


@rule("http.json.utf8-no-bom", MUST, on=JSON_RESPONSES, book="HTTP-002", source=rfc(8259, "8.1"))
def test_json_utf8_no_bom(x: Exchange) -> None:
    """A JSON body is valid UTF-8 and does not start with a byte order mark.

    Go, Rust and JSON.parse refuse a byte order mark; invalid bytes turn into wrong characters or an exception.
    """
    content = x.answered.content
    require(not content.startswith(_BOM), "JSON from the first byte", got="a byte order mark", at=(0, 3))
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        wrong = content[error.start : error.end]
        raise Broken("valid UTF-8", f"{wrong!r}: {error.reason}", (error.start, error.end)) from None


@rule("http.json.well-formed", MUST, on=JSON_RESPONSES, source=rfc(8259, "2"))
def test_json_well_formed(x: Exchange) -> None:
    """A body declared as JSON is one complete JSON text.

    On anything else every client raises an untyped parse error, in the middle of the caller's code.
    """
    if x.answered.framing.problem or x.answered.encoding_problem or x.cut_by_us:
        raise NotApplicable("the body did not arrive complete")
    if not x.answered.content:  # HEAD, 204, or an error without a body: other rules ask for one
        raise NotApplicable("there is no body")
    problem = x.parsed.problem(ProblemKind.NOT_JSON)
    if not x.parsed.ok and problem is not None:
        at = problem.at or 0
        raise Broken("one JSON text", f"{problem.what} at character {at}: {x.text[at : at + 40]!r}")


@rule(
    "http.json.no-nan",
    MUST,
    on=JSON_TEXTS,
    book="HTTP-003",
    source=rfc(8259, "6"),
    evidence=("ns_nan", "nan_logprob"),
)
def test_json_no_nan(x: Chat) -> None:
    """The tokens NaN, Infinity and -Infinity never occur in JSON, plain or streamed.

    JSON.parse throws: every JavaScript client fails, and LangChain.js keeps retrying for 40 s. Python
    accepts these tokens, so tests in Python alone miss the problem.
    """
    texts = [(c.parsed, c) for c in x.payloads] if x.is_event_stream else [(x.parsed, None)]
    for parsed, at in texts:
        problem = parsed.problem(ProblemKind.CONSTANT)
        require(problem is None, "a JSON number or null", got=problem.what if problem else "", at=at)


@rule("http.json.unique-names", SHOULD, on=JSON_TEXTS, book="HTTP-015", source=rfc(8259, "4"))
def test_json_unique_names(x: Chat) -> None:
    """The member names of a JSON object are unique.

    Of two equal names, some parsers keep the first and some the last: clients disagree about the value.
    """
    texts = [(c.parsed, c) for c in x.payloads] if x.is_event_stream else [(x.parsed, None)]
    for parsed, at in texts:
        problem = parsed.problem(ProblemKind.DUPLICATE)
        require(problem is None, "each name once", got=f"{problem.what!r} twice" if problem else "", at=at)


@rule(
    "http.body.framed-exactly",
    MUST,
    on=ON_THE_WIRE,
    book="HTTP-004",
    source=rfc(9112, "6.3"),
    evidence=("truncated",),
)
def test_body_framed_exactly(x: Exchange) -> None:
    """A body ends where its Content-Length or its zero-length chunk says, never earlier or later.

    openai-python raises APIConnectionError, LlamaIndex RemoteProtocolError, node says "terminated"; bytes
    after the end are read as the next response.
    """
    if x.response is None and x.on_reused_connection:
        raise NotApplicable("a server may close an idle connection: http.connection.reusable judges that")
    if x.response is None:
        lost = x.valid and x.transcript.ending in (Ending.COMPLETE, Ending.CLOSED, Ending.RESET)
        require(
            not lost, "an HTTP response", got=f"{x.transcript.raw[:60]!r} and a {x.transcript.ending.value} connection"
        )
    framing = x.answered.framing
    size = len(x.answered.content)
    require(not framing.problem, f"a complete body ({framing.kind.value})", got=framing.problem, at=(size, size))
    require(not x.answered.encoding_problem, "a body that fits its Content-Encoding", got=x.answered.encoding_problem)


def _codings(x: Exchange) -> set[str]:
    """The content codings that the request accepts."""
    out = {"identity"}
    for entry in (x.request.header("accept-encoding") or "").lower().split(","):
        name, _, weight = entry.partition(";")
        if not weight.replace(" ", "").strip("q=0.") and weight:
            continue  # q=0 means: not this one
        out.add(name.strip())
    return out


@rule(
    "http.encoding.identity-respected",
    SHOULD,
    on=Each(
        "every response with its headers",
        lambda x: x.knows_headers,
        (*_SOME, "plain-identity", "stream-identity", "plain-accept-gzip"),
    ),
    book="HTTP-017",
    source=rfc(9110, "12.5.3"),
)
def test_encoding_identity_respected(x: Exchange) -> None:
    """A body has a Content-Encoding only if the request accepts it: none without Accept-Encoding or with `identity`.

    Small clients cannot decode it, and a compressor usually holds a stream back.
    """
    coding = (x.answered.header("content-encoding") or "identity").strip().lower()
    accepted = _codings(x)
    allowed = coding in accepted or "*" in accepted
    require(allowed, f"no Content-Encoding but {', '.join(sorted(accepted - {''}))}", got=f"Content-Encoding: {coding}")
