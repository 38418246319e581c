"""What a 401 says."""

from __future__ import annotations

from wireproof.judge.rules import MUST, SHOULD, Each, observed, openapi, rfc, rule
from wireproof.read.errors import error_of, is_error_answer, is_json_error, members_problem
from wireproof.read.exchange import Exchange
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get

_NEEDS = ("auth-missing", "auth-wrong", "auth-wrong-stream")
_CODES = observed("error codes guide", "https://platform.openai.com/docs/guides/error-codes")


def _is_401(x: Exchange) -> bool:
    """A 401, or an answer where one was expected: a server that lets everybody in is not applicable."""
    return x.status == 401 or (x.scenario in _NEEDS and x.response is not None)


def _only_401(x: Exchange) -> None:
    if x.status != 401:
        raise NotApplicable("the answer is not a 401")


# The key that the scenarios send, and that nobody has.
WRONG_KEY = "sk-wireproof-wrong-7f3a91cd20b4"


@rule(
    "auth.body.envelope",
    MUST,
    on=Each("every 401 in JSON", _is_401, _NEEDS),
    book="AUTH-004",
    source=openapi("ErrorResponse"),
    evidence=("err_401_string",),
)
def test_body_envelope(x: Exchange) -> None:
    """The body of a 401 is the same error object as elsewhere: message, type, param and code under `error`.

    From {"error": "Unauthorized"} openai-python gets neither message nor code, and openai-node shows
    '401 "Unauthorized"'.
    """
    _only_401(x)
    if not is_json_error(x):
        raise inconclusive("the 401 is not declared as JSON: error.media.json judges that")
    if x.answered.content and not x.parsed.ok:
        raise inconclusive("the body is not JSON: http.json.well-formed judges that")
    error = get(x.parsed.value, "error")
    whole = (0, len(x.answered.content))
    require(isinstance(error, dict), '{"error": {...}}', got=x.text[:120] or "no body", at=whole)
    problem = members_problem(error)
    require(not problem, "message, type, param and code", got=f"{problem} in {x.text[:100]}", at=whole)


@rule(
    "auth.code.invalid-api-key",
    SHOULD,
    on=Each(
        "every 401 for a key",
        lambda x: _is_401(x) and bool(x.request.header("authorization")),
        ("auth-wrong", "auth-wrong-stream"),
    ),
    book="AUTH-005",
    source=_CODES,
)
def test_code_invalid_api_key(x: Exchange) -> None:
    """The 401 for a wrong key has the code invalid_api_key.

    Gateways and tools ask for a new key when they read it.
    """
    _only_401(x)
    error = error_of(x)
    if error is None:
        raise inconclusive("the 401 has no error object: auth.body.envelope judges that")
    code = error.get("code")
    if not (code is None or isinstance(code, str)):
        raise NotApplicable("the code is not a string: error.code.string-or-null judges that")
    require(code == "invalid_api_key", "code invalid_api_key", got=code)


@rule(
    "auth.challenge.present",
    SHOULD,
    on=Each("every 401 with its headers", lambda x: _is_401(x) and x.knows_headers, _NEEDS),
    book="AUTH-006",
    source=rfc(9110, "15.5.2"),
)
def test_challenge_present(x: Exchange) -> None:
    """A 401 carries WWW-Authenticate with the scheme Bearer.

    HTTP requires it; generic clients and proxies learn from it which key to send.
    """
    _only_401(x)
    shown = ", ".join(x.answered.all("www-authenticate"))
    require("bearer" in shown.lower(), "WWW-Authenticate: Bearer", got=shown or "no such header")


@rule(
    "auth.message.no-key",
    SHOULD,
    on=Each(
        "every refusal of a wrong key",
        lambda x: x.scenario in ("auth-wrong", "auth-wrong-stream", "auth-bad-body") and is_error_answer(x),
        ("auth-wrong", "auth-wrong-stream", "auth-bad-body"),
    ),
    book="AUTH-012",
    source=observed("the key is masked in OpenAI's message"),
)
def test_message_no_key(x: Exchange) -> None:
    """An error does not repeat the key that the client sent.

    Error messages end up in logs and bug reports, and a wrong key is usually the right key of another service.
    """
    shown = WRONG_KEY in x.text or any(WRONG_KEY in value for _, value in x.answered.headers)
    require(not shown, "no key in the answer", got=x.text[:120])
