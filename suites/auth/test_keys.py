"""Which requests get in: with the right key, no key, a wrong one, a malformed one, and on which routes.

Without a key from the user, only the rules about servers that ask for none are applicable.
"""

from __future__ import annotations

from wireproof.judge.rules import MAY, MUST, SHOULD, Source, client, each_of, engine, observed, of, rfc, rule
from wireproof.read.chat import Chat
from wireproof.read.errors import told_error
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Take
from wireproof.scenarios.conversations.errors import ORIGIN
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.http import Response

_CODES = observed("error codes guide", "https://platform.openai.com/docs/guides/error-codes")
_FETCH = Source("whatwg", "Fetch: CORS-preflight fetch", "https://fetch.spec.whatwg.org/#cors-preflight-fetch")
_BUSY = frozenset({408, 429, 503})


def _keyed(*found: Exchange) -> None:
    if not all(x.transcript.tags.keyed for x in found):
        raise NotApplicable("no key was given (--api-key-env): the server is not known to ask for one")


def _locked(missing: Chat, wrong: Chat) -> None:
    """Continue if the server asks for a key at all: it does if it refuses one of the two."""
    _keyed(missing, wrong)
    if missing.ok and wrong.ok and not (told_error(missing) or told_error(wrong)):
        raise NotApplicable("the server lets everybody in")


def _is_401(x: Chat, what: str) -> None:
    if x.answered.status in _BUSY:
        raise x.refused()
    if told_error(x):
        raise inconclusive("an error with status 200: another rule judges that")
    require(x.status == 401, f"401 {what}", got=f"{x.status}, an answer" if x.ok else x.refusal(), owner=x)


@rule(
    "auth.bearer.accepted",
    MUST,
    on=each_of("plain-greedy", "stream-greedy"),
    book="AUTH-001",
    source=rfc(6750, "2.1"),
)
def test_bearer_accepted(x: Exchange) -> None:
    """A server that asks for a key accepts it as `Authorization: Bearer <key>`.

    It is the only form that SDKs send.
    """
    _keyed(x)
    require(x.answered.status not in (401, 403), "an answer to the right key", got=x.refusal())
    if not x.ok:
        raise x.refused()


@rule("auth.missing.401", MUST, on=of("auth-missing", "auth-wrong"), book="AUTH-002", source=rfc(9110, "15.5.2"))
def test_missing_401(missing: Chat, wrong: Chat) -> None:
    """The server refuses a request without an Authorization header with 401.

    SDKs raise AuthenticationError for 401 only; a server that answers serves the whole network.
    """
    _locked(missing, wrong)
    _is_401(missing, "without a key")


@rule("auth.wrong.401", MUST, on=of("auth-missing", "auth-wrong"), book="AUTH-003", source=_CODES)
def test_wrong_401(missing: Chat, wrong: Chat) -> None:
    """The server refuses a wrong key with 401: not with 403, 404, 400 or a 5xx.

    SDKs raise AuthenticationError for 401 only, and retry a 5xx twice.
    """
    _locked(missing, wrong)
    _is_401(wrong, "for a wrong key")


@rule(
    "auth.scheme.case-insensitive",
    SHOULD,
    on=of("plain-greedy", "auth-lower-case"),
    book="AUTH-007",
    source=rfc(9110, "11.1"),
)
def test_scheme_case_insensitive(usual: Exchange, lower: Exchange) -> None:
    """The server reads the name of the scheme in any case: `bearer` as well as `Bearer`.

    Some HTTP stacks send it in lower case, and their users think that the key is wrong.
    """
    _keyed(usual, lower)
    if not usual.ok or lower.answered.status in _BUSY:
        raise (lower if usual.ok else usual).refused()
    require(lower.ok, "200 for `bearer <key>`", got=lower.refusal(), owner=lower)


@rule(
    "auth.stream.plain-401",
    MUST,
    on=of("auth-missing", "auth-wrong", "auth-wrong-stream"),
    book="AUTH-008",
    source=client("openai-python", "_make_status_error"),
)
def test_stream_plain_401(missing: Chat, wrong: Chat, stream: Chat) -> None:
    """Given a wrong key, the server refuses a stream with a plain 401, as without stream.

    If only plain requests are checked, anyone can generate by asking for a stream.
    """
    _locked(missing, wrong)
    if wrong.status != 401:
        raise inconclusive("a wrong key does not get a 401 without stream either: auth.wrong.401 judges that")
    _is_401(stream, "for a wrong key with stream")


@rule(
    "auth.before-body",
    SHOULD,
    on=of("auth-missing", "auth-wrong", "auth-bad-body"),
    book="AUTH-009",
    source=engine("vllm", "AuthenticationMiddleware"),
)
def test_before_body(missing: Chat, wrong: Chat, bad: Chat) -> None:
    """The server checks the key before the body: a wrong key with a broken body gets a 401.

    Otherwise anyone can make the server parse megabytes, and learn from its errors how it works.
    """
    _locked(missing, wrong)
    if wrong.status != 401:
        raise inconclusive("a wrong key does not get a 401 with a good body either: auth.wrong.401 judges that")
    _is_401(bad, "for a wrong key with a broken body")


@rule(
    "auth.routes.alike",
    SHOULD,
    on=of("auth-missing", "auth-routes"),
    book="AUTH-010",
    source=engine("vllm", "GUARDED_PREFIX"),
)
def test_routes_alike(missing: Exchange, routes: Take) -> None:
    """Every route that uses the model asks for the key, below /v1 and outside it: completions, embeddings, tokenize.

    Anyone who finds the side door generates for free, or reads what others may not: vLLM guards /v1, but serves
    /tokenize and /invocations to everybody.
    """
    _keyed(missing)
    if missing.status != 401:
        raise NotApplicable("the chat route does not ask for a key (or does so with another status)")
    seen = 0
    for x in routes.steps("post-"):
        if x.status is None or 300 <= x.status < 400 or x.status in (404, 405, 501, *_BUSY):
            continue  # not there
        seen += 1
        got = f"{x.status}, {x.text[:60]!r}"
        require(x.status in (401, 403), f"401 on {x.request.path} without a key", got=got, owner=x)
    if not seen:
        raise inconclusive("none of these routes exists")


@rule("auth.models.alike", MAY, on=of("auth-missing", "auth-routes"), source=engine("vllm", "GUARDED_PREFIX"))
def test_models_alike(missing: Exchange, routes: Take) -> None:
    """The list of models asks for the key as well.

    Some servers leave it open on purpose; it tells strangers what runs there.
    """
    _keyed(missing)
    x = routes["get-models"]
    if missing.status != 401 or x.answered.status in (404, *_BUSY):
        raise NotApplicable("the chat route does not ask for a key, or there is no list")
    require(x.status in (401, 403), "401 on the list of models without a key", got=f"{x.status}", owner=x)


@rule(
    "auth.malformed.no-5xx",
    SHOULD,
    on=of("auth-missing", "auth-wrong", "auth-malformed"),
    book="AUTH-011",
    source=rfc(6750, "3.1"),
)
def test_malformed_no_5xx(missing: Exchange, wrong: Exchange, take: Take) -> None:
    """Malformed credentials (no token, another scheme, non-ASCII letters) get a 401 or 400, never a 5xx or an answer.

    Anyone can reach a parser that crashes on a header: the server checks the key only afterwards.
    """
    _keyed(missing)
    for x in take.steps():
        if x.response is None:
            require(False, "401", got=f"no answer ({x.transcript.ending.value})", owner=x)
        if x.status in _BUSY:
            raise x.refused()
        require(x.status is not None and x.status < 500, "401 or 400", got=x.refusal(), owner=x)
        closed = missing.status == 401 and wrong.status == 401
        require(not (x.ok and closed), f"401 for {x.transcript.step}", got=f"{x.status}, an answer", owner=x)


@rule(
    "auth.dummy.ignored",
    MUST,
    on=of("auth-missing", "auth-wrong", "auth-dummy"),
    book="AUTH-013",
    source=client("openai-python", "_client.OpenAI (api_key is required)"),
)
def test_dummy_ignored(missing: Exchange, wrong: Exchange, dummy: Exchange) -> None:
    """A server that asks for no key ignores any Authorization header.

    SDKs refuse to start without a key, so people set "dummy", "EMPTY" or "none".
    """
    if not missing.ok or (not wrong.ok and wrong.transcript.tags.keyed):
        raise NotApplicable("the server asks for a key")
    if dummy.answered.status in _BUSY:
        raise dummy.refused()
    for x in (dummy, wrong):
        require(x.ok, "200, as without the header", got=x.refusal(), owner=x)


@rule(
    "auth.cors.preflight",
    SHOULD,
    on=of("auth-cors"),
    source=_FETCH,
)
def test_cors_preflight(take: Take) -> None:
    """A server that offers CORS answers the preflight without a key, and allows authorization and content-type by name.

    Browsers never send a key with OPTIONS: a web application would fail before its first request. `*` does not cover
    Authorization, and browsers reject a list of two origins (from two layers that both add one).
    """
    offered = _items(take["get"].answered, "access-control-allow-origin")
    x, asked = take["preflight"], take["preflight"].answered
    if not offered:
        raise NotApplicable("the server offers no CORS")
    if not offered & {"*", ORIGIN}:
        raise NotApplicable(f"CORS is offered to other sites only ({', '.join(sorted(offered))[:60]})")
    if asked.status in _BUSY:
        raise x.refused()
    fine = asked.status is not None and 200 <= asked.status < 300
    require(fine, "200 or 204 for OPTIONS", got=x.refusal(), owner=x)
    origin = ", ".join(asked.all("access-control-allow-origin")).strip()
    wanted = f"Access-Control-Allow-Origin: {ORIGIN} or *"
    require(origin in ("*", ORIGIN), wanted, got=origin or "none", owner=x)
    allowed = _items(asked, "access-control-allow-headers")
    # "A CORS non-wildcard request-header name is a header name that is a byte-case-insensitive match for
    # `Authorization`": `*` is for the others (https://fetch.spec.whatwg.org/#cors-non-wildcard-request-header-name).
    missing = {"authorization", "content-type"} - allowed - ({"content-type"} if "*" in allowed else set())
    wanted = "authorization and content-type in Access-Control-Allow-Headers"
    require(not missing, wanted, got=", ".join(sorted(allowed)) or "none", owner=x)


def _items(answer: Response, name: str) -> set[str]:
    """The items of a header that is a list, in lower case; empty when there is no such header."""
    return {item.strip().lower() for value in answer.all(name) for item in value.split(",")} - {""}
