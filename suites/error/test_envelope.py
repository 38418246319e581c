"""The body of an error: an object under `error` with four members, and what its message says."""

from __future__ import annotations

import re

from wireproof.judge.rules import MUST, SHOULD, Each, client, contract, observed, openapi, rule
from wireproof.read.errors import any_error_of, error_of, is_error_answer, is_json_error, members_problem
from wireproof.read.exchange import Exchange
from wireproof.read.request_defects import defect
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get

_NEEDS = ("body-not-json", "stream-invalid-parameter", "model-unknown", "path-unknown")
_CODES = "https://platform.openai.com/docs/guides/error-codes"
_SPELLED = ("None", "null", "undefined", "nil")
_LOCKED = 401  # auth.body.envelope judges that one

ERRORS = Each("every error answer", is_error_answer, _NEEDS)
JSON_ERRORS = Each("every error answer in JSON", lambda x: is_json_error(x) and x.status != _LOCKED, _NEEDS)
ENVELOPES = Each("every error object, including those in streams", lambda x: any_error_of(x) is not None, _NEEDS)


@rule(
    "error.envelope.object",
    MUST,
    on=JSON_ERRORS,
    book="ERROR-001",
    source=openapi("ErrorResponse"),
    evidence=("err_400_flat", "err_401_string", "err_422_detail"),
)
def test_envelope_object(x: Exchange) -> None:
    """The body of a 4xx or 5xx is a JSON object with the details in an object under `error`.

    openai-node shows a flat body as "status code (no body)", and openai-python loses type, code and param if `error`
    is a string or the body is FastAPI's `detail`.
    """
    if x.answered.content and not x.parsed.ok:
        raise inconclusive("the body is not JSON: http.json.well-formed judges that")
    found = get(x.parsed.value, "error")
    require(isinstance(found, dict), '{"error": {...}}', got=x.text[:120] or "no body", at=_all(x))


def _all(x: Exchange) -> tuple[int, int]:
    return 0, len(x.answered.content)


@rule(
    "error.envelope.members",
    MUST,
    on=Each("every error object except a 401's", lambda x: error_of(x) is not None and x.status != _LOCKED, _NEEDS),
    book="ERROR-002",
    source=openapi("Error.required"),
    evidence=("err_400",),
)
def test_envelope_members(x: Exchange) -> None:
    """The error has message (a non-empty string), type (a string), param and code (strings or null): all four.

    openai-python and openai-node put them into the exception: with a null message users read "Error code: 400",
    and programs that switch on type or code take the wrong branch.
    """
    error = error_of(x) or {}
    problem = members_problem(error)
    require(not problem, "message, type, param and code", got=f"{problem} in {x.text[:100]}", at=_all(x))


@rule(
    "error.code.string-or-null",
    SHOULD,
    on=ENVELOPES,
    book="ERROR-003",
    source=openapi("Error.code"),
    evidence=("err_400_intcode",),
)
def test_code_string_or_null(x: Exchange) -> None:
    """error.code is a string or null, not the status repeated as a number.

    Typed clients in Go, Rust and C# fail to decode a number; openai-python turns it into "400", which no program
    expects.
    """
    code = (any_error_of(x) or {}).get("code")
    if isinstance(code, (dict, list, bool)):
        raise NotApplicable("error.envelope.members judges that")
    require(code is None or isinstance(code, str), "a string or null", got=code, at=_all(x))


def _is_spelled(value: object) -> bool:
    return isinstance(value, str) and value in _SPELLED


@rule("error.null.not-spelled", SHOULD, on=ENVELOPES, source=openapi("Error: nullable members"))
def test_null_not_spelled(x: Exchange) -> None:
    """The server sends null for an unknown type, param or code, not the word "None".

    `if e.code:` is true for the word: programs branch on a code that does not exist, and users read "param None".
    """
    error = any_error_of(x) or {}
    spelled = [name for name in ("type", "param", "code") if _is_spelled(error.get(name))]
    require(not spelled, "null", got=f"{', '.join(spelled)}: {error.get(spelled[0])!r}" if spelled else "", at=_all(x))


@rule(
    "error.media.json",
    MUST,
    on=Each("every error answer with its headers", lambda x: is_error_answer(x) and x.knows_headers, _NEEDS),
    book="ERROR-004",
    source=client("openai-node", "internal/errors"),
    evidence=("err_400_html",),
)
def test_media_json(x: Exchange) -> None:
    """An error has the media type application/json.

    openai-node parses no other type: users read "400 <html>…", and get neither type nor code.
    """
    if x.answered.media_type == "text/event-stream":
        raise NotApplicable("sse.error.before-stream-is-4xx judges that")
    shown = x.answered.header("content-type")
    is_json = x.answered.media_type == "application/json" or x.answered.media_type.endswith("+json")
    require(is_json, "Content-Type: application/json", got=f"{x.status} with {shown or 'no Content-Type'}")


@rule(
    "error.param.names-it",
    SHOULD,
    on=Each(
        "every refusal of a wrong member",
        lambda x: x.status in (400, 422) and error_of(x) is not None and bool(getattr(defect(x), "param", "")),
        ("stream-invalid-parameter", "parameter-word", "messages-empty"),
    ),
    book="ERROR-009",
    source=openapi("Error.param"),
)
def test_param_names_it(x: Exchange) -> None:
    """error.param gives the name of the wrong member, or the path to it.

    Without it, a developer who sent twenty parameters has to guess from prose which one is wrong. (body.top_p and
    messages[0].role name it; stop_p does not name top_p.)
    """
    found, wrong = defect(x), (error_of(x) or {}).get("param", 0)
    if found is None or not (wrong is None or isinstance(wrong, str)) or _is_spelled(wrong):
        raise NotApplicable("there is no usable param: another rule judges that")
    require(_is_named(found.param, wrong or ""), f"param {found.param!r} for {found.what}", got=wrong, at=_all(x))


def _is_named(name: str, param: str) -> bool:
    """Whether a name appears in the text as a word of its own."""
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", param) is not None


# OpenAI's words; 401s and others of the same family may use any of them.
_TYPES = frozenset(
    {"invalid_request_error", "authentication_error", "permission_error", "permission_denied_error"}
    | {"not_found_error", "conflict_error", "unprocessable_entity_error", "content_policy_violation"}
    | {"rate_limit_error", "rate_limit_exceeded", "requests", "tokens", "insufficient_quota"}
    | {"server_error", "api_error", "overloaded_error", "service_unavailable_error", "timeout_error"}
)


@rule(
    "error.type.vocabulary",
    SHOULD,
    on=ENVELOPES,
    book="ERROR-019",
    source=observed("error codes guide, and captured errors", _CODES),
)
def test_type_vocabulary(x: Exchange) -> None:
    """error.type is one of OpenAI's words: invalid_request_error, authentication_error, server_error, ...

    Gateways and retry logic switch on it; a home-made "BadRequestError" takes the default branch.
    """
    kind = (any_error_of(x) or {}).get("type")
    if not isinstance(kind, str) or _is_spelled(kind):
        raise NotApplicable("another rule judges that")
    require(kind in _TYPES, "invalid_request_error or another of OpenAI's words", got=kind, at=_all(x))


_INTERNALS = re.compile(
    r'Traceback \(|File "|\bline \d+, in |site-packages|(?:^|[\s"\'(\[])/(?:usr|opt|home|root|app|project|workspace)/'
    r"|\.(?:py|cc|cpp|rs|go|java):\d+|object has no attribute|positional argument|object at 0x"
    r"|\b[a-z_]+(?:\.[a-z_]+)*\.[A-Z]\w*(?:Error|Exception)\b"
)


@rule(
    "error.message.no-internals",
    SHOULD,
    on=ERRORS,
    book="ERROR-020",
    source=contract("OWASP, improper error handling"),
)
def test_message_no_internals(x: Exchange) -> None:
    """An error shows no stack trace, source file, server path or exception class.

    Such details tell attackers what runs where, and users nothing.
    """
    text = x.text[:20_000].replace('\\"', '"').replace("\\n", "\n")
    found = _INTERNALS.search(text)
    got = text[max(0, found.start() - 20) : found.end() + 40] if found else ""
    require(found is None, "words for the client", got=got, at=_all(x))


# Every client can read, log and show an error of this size (bytes).
_BOUND = 4096


@rule("error.message.bounded", SHOULD, on=ERRORS, source=contract("errors are logged and shown"))
def test_message_bounded(x: Exchange) -> None:
    """The body of an error is at most 4 KB long: it does not send the request back.

    Clients log it and show it: a prompt of a megabyte would come back as a message of a megabyte, with all its
    secrets.
    """
    size = len(x.answered.content)
    require(size <= _BOUND, f"at most {_BOUND} bytes", got=f"{size} bytes: {x.text[:60]!r}", at=_all(x))
