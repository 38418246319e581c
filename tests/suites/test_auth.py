"""Rules about keys."""

from __future__ import annotations

import re
from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.reference_server.memory import record
from wireproof.scenarios.catalog import load
from wireproof.suites.auth.test_answers import WRONG_KEY
from wireproof.verdict import Status

from .wire import broken, explain, plain, stream, text, verdict

AREAS = ("auth",)
FAIL, PASS, NOT_APPLICABLE = Status.FAIL, Status.PASS, Status.NOT_APPLICABLE
ERROR: dict[str, Any] = {
    "message": "Incorrect API key provided.",
    "type": "authentication_error",
    "param": None,
    "code": "invalid_api_key",
}
KEYED = {"keyed": "yes"}
SENT = {"Authorization": "Bearer ***"}


def answer(scenario: str, status: int = 401, keyed: bool = True, **more: Any) -> Exchange:
    """An answer to one of the scenarios with or without a key; a 401 is right in every way."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    kwargs: dict[str, Any] = {"headers": {**headers, **more.pop("headers", {})}, "tags": KEYED if keyed else {}}
    if scenario != "auth-missing":
        kwargs["sent"] = SENT
    body = more.pop("body", {"error": {**ERROR, **more.pop("error", {})}} if status >= 400 else None)
    return plain(body, status=status, scenario=scenario, **kwargs, **more)


MISSING, WRONG = answer("auth-missing"), answer("auth-wrong")


def test_right_refusals_break_nothing() -> None:
    found = [answer(n) for n in ("auth-missing", "auth-wrong", "auth-wrong-stream", "auth-bad-body", "auth-dummy")]
    assert broken(plain(tags=KEYED), answer("auth-lower-case", 200), *found, areas=AREAS) == set()


def test_the_right_key_is_let_in() -> None:
    assert verdict("auth.bearer.accepted", plain(tags=KEYED)) is PASS
    assert verdict("auth.bearer.accepted", answer("plain-greedy", 401)) is FAIL
    assert verdict("auth.bearer.accepted", answer("plain-greedy", 403)) is FAIL
    assert verdict("auth.bearer.accepted", plain()) is NOT_APPLICABLE


@pytest.mark.parametrize(("status", "outcome"), [(401, PASS), (403, FAIL), (500, FAIL), (200, FAIL)])
def test_a_missing_key_is_a_401(status: int, outcome: Status) -> None:
    assert verdict("auth.missing.401", answer("auth-missing", status), WRONG) is outcome
    assert verdict("auth.wrong.401", MISSING, answer("auth-wrong", status)) is outcome


def test_a_server_without_keys_is_judged_by_other_rules() -> None:
    """Protects people who pass a dummy key to a server that asks for none."""
    found = [answer(n, 200) for n in ("auth-missing", "auth-wrong", "auth-wrong-stream", "auth-bad-body", "auth-dummy")]
    for rule in ("auth.missing.401", "auth.wrong.401", "auth.stream.plain-401", "auth.before-body"):
        assert verdict(rule, *found) is NOT_APPLICABLE
    assert verdict("auth.dummy.ignored", *found) is PASS
    assert verdict("auth.dummy.ignored", *found[:4], answer("auth-dummy", 401)) is FAIL
    unkeyed = [answer(n, 200, keyed=False) for n in ("auth-missing", "auth-wrong", "auth-dummy")]
    assert verdict("auth.dummy.ignored", *unkeyed) is PASS
    assert verdict("auth.dummy.ignored", unkeyed[0], answer("auth-wrong", 401, keyed=False), unkeyed[2]) is FAIL


def test_a_401_has_the_envelope_of_all_errors() -> None:
    assert broken(answer("auth-wrong", body={"error": "Unauthorized"}), areas=AREAS) == {"auth.body.envelope"}
    assert broken(answer("auth-wrong", error={"message": None}), areas=AREAS) == {"auth.body.envelope"}
    assert broken(answer("auth-wrong", body={"error": "Unauthorized"}), areas=("error",)) == set()


def test_the_code_and_the_challenge() -> None:
    assert broken(answer("auth-wrong", error={"code": None}), areas=AREAS) == {"auth.code.invalid-api-key"}
    assert broken(answer("auth-wrong", error={"code": 401}), areas=AREAS) == set()  # error.code.string-or-null
    assert broken(answer("auth-missing", error={"code": None}), areas=AREAS) == set()
    bare = answer("auth-wrong", headers={"WWW-Authenticate": None})
    assert broken(bare, areas=AREAS) == {"auth.challenge.present"}
    assert broken(answer("auth-wrong", headers={"WWW-Authenticate": 'bearer realm="x"'}), areas=AREAS) == set()


def test_the_scheme_in_lower_case() -> None:
    usual = plain(tags=KEYED)
    assert verdict("auth.scheme.case-insensitive", usual, answer("auth-lower-case", 200)) is PASS
    assert verdict("auth.scheme.case-insensitive", usual, answer("auth-lower-case", 401)) is FAIL


def test_a_stream_with_a_wrong_key() -> None:
    rule, name = "auth.stream.plain-401", "auth-wrong-stream"
    assert verdict(rule, MISSING, WRONG, answer(name)) is PASS
    open_door = stream(*text("hi"), scenario=name, tags=KEYED)
    assert verdict(rule, MISSING, WRONG, open_door) is FAIL
    assert verdict(rule, MISSING, answer("auth-wrong", 403), answer(name, 403)) is Status.INCONCLUSIVE


def test_the_key_comes_before_the_body() -> None:
    assert verdict("auth.before-body", MISSING, WRONG, answer("auth-bad-body")) is PASS
    assert verdict("auth.before-body", MISSING, WRONG, answer("auth-bad-body", 400)) is FAIL


def _route(step: str, status: int) -> Exchange:
    return answer("auth-routes", status, step=step, path=f"/v1/{step.partition('-')[2]}")


def test_side_doors() -> None:
    closed = [_route("get-models", 401), _route("post-completions", 401), _route("post-embeddings", 404)]
    assert verdict("auth.routes.alike", MISSING, *closed) is PASS
    assert verdict("auth.models.alike", MISSING, *closed) is PASS
    for status in (200, 400):
        found = [*closed, _route("post-tokenize", status)]
        assert verdict("auth.routes.alike", MISSING, *found) is FAIL
        assert "tokenize" in explain("auth.routes.alike", MISSING, *found)
    assert verdict("auth.models.alike", MISSING, _route("get-models", 200)) is FAIL


@pytest.mark.parametrize(
    ("path", "status", "outcome", "says"),
    [
        ("/tokenize", 200, FAIL, "expected 401 on /tokenize without a key, got 200, .+"),
        ("/invocations", 400, FAIL, "expected 401 on /invocations without a key, got 400, .+"),
        ("/tokenize", 401, PASS, ""),
        ("/detokenize", 403, PASS, ""),
        ("/tokenize", 404, Status.INCONCLUSIVE, "none of these routes exists"),
        ("/tokenize", 307, Status.INCONCLUSIVE, "none of these routes exists"),
        ("/tokenize", 503, Status.INCONCLUSIVE, "none of these routes exists"),
        ("/tokenize", 429, Status.INCONCLUSIVE, "none of these routes exists"),
    ],
)
def test_a_side_door_at_the_root(path: str, status: int, outcome: Status, says: str) -> None:
    """Protects the owners of a vLLM: its guard looks at the prefix /v1 only."""
    x = answer("auth-routes", status, step=f"post-root{path.replace('/', '-')}", path=path)
    assert verdict("auth.routes.alike", MISSING, x) is outcome
    said = explain("auth.routes.alike", MISSING, x)
    assert re.fullmatch(says, said), said


def test_the_root_is_asked_without_a_key() -> None:
    takes = record(scenarios=["auth-routes"]).takes
    sent = {x.request.path for x in takes[0].exchanges if x.transcript.step.startswith("post-root-")}
    assert sent == {"/tokenize", "/detokenize", "/invocations"}
    assert all(x.request.header("authorization") is None and x.status == 401 for x in takes[0].exchanges)


def test_malformed_credentials() -> None:
    rule = "auth.malformed.no-5xx"
    steps = [answer("auth-malformed", status, step=f"s{status}") for status in (401, 400, 403)]
    assert verdict(rule, MISSING, WRONG, *steps) is PASS
    for status in (500, 200):
        assert verdict(rule, MISSING, WRONG, *steps, answer("auth-malformed", status, step="odd")) is FAIL


def test_the_key_is_not_shown() -> None:
    shown = answer("auth-wrong", error={"message": f"Incorrect API key provided: {WRONG_KEY}"})
    assert broken(shown, areas=AREAS) == {"auth.message.no-key"}
    masked = answer("auth-wrong", error={"message": "Incorrect API key provided: sk-wi****20b4"})
    assert broken(masked, areas=AREAS) == set()


def test_the_scenarios_send_the_wrong_key() -> None:
    """Protects the rule about shown keys from looking for another key than was sent."""
    for name in ("auth-wrong", "auth-wrong-stream", "auth-bad-body"):
        assert load()[name].headers == {"Authorization": f"Bearer {WRONG_KEY}"}


SITE = "https://app.example.com"
BOTH = {"Access_Control_Allow_Headers": "Authorization, Content-Type"}


def _cors(status: int, offered: str = "*", **headers: str) -> list[Exchange]:
    allow = {"Access-Control-Allow-Origin": offered} if offered else {}
    preflight = {k.replace("_", "-"): v for k, v in headers.items()}
    return [
        answer("auth-cors", 200, headers=allow, step="get", method="GET", path="/v1/models"),
        answer("auth-cors", status, headers={**allow, **preflight}, step="preflight", method="OPTIONS", body=b""),
    ]


def test_preflight() -> None:
    rule = "auth.cors.preflight"
    assert verdict(rule, *_cors(204, **BOTH)) is PASS
    assert verdict(rule, *_cors(401, **BOTH)) is FAIL
    assert verdict(rule, *_cors(405, **BOTH)) is FAIL
    assert verdict(rule, *_cors(401, offered="", **BOTH)) is NOT_APPLICABLE
    for status in (408, 429, 503):
        assert verdict(rule, *_cors(status, **BOTH)) is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("names", "outcome"),
    [
        ("authorization,content-type", PASS),
        ("X-Other, AUTHORIZATION , Content-Type,", PASS),
        ("authorization, *", PASS),
        ("*", FAIL),  # the star does not stand for Authorization
        ("content-type", FAIL),
        ("authorization", FAIL),
        ("x-authorization, content-type", FAIL),
        ("authorization content-type", FAIL),
        ("", FAIL),
    ],
)
def test_headers_that_a_preflight_allows(names: str, outcome: Status) -> None:
    assert verdict("auth.cors.preflight", *_cors(204, Access_Control_Allow_Headers=names)) is outcome


@pytest.mark.parametrize(
    ("offered", "asked", "outcome"),
    [
        (SITE, SITE, PASS),
        ("*", SITE, PASS),
        (SITE, "*", PASS),
        ("*", "https://chat.example.org", FAIL),
        ("*", "*, *", FAIL),  # two layers add one each
        ("*", f"{SITE}/", FAIL),
        ("https://chat.example.org", "https://chat.example.org", NOT_APPLICABLE),  # for that site only: legal
        ("null", "null", NOT_APPLICABLE),
    ],
)
def test_sites_that_a_preflight_allows(offered: str, asked: str, outcome: Status) -> None:
    found = _cors(204, offered, Access_Control_Allow_Origin=asked, **BOTH)
    assert verdict("auth.cors.preflight", *found) is outcome


@pytest.mark.parametrize("value", [None, True, 0, "x", [], {}, {"error": []}, {"error": {"code": []}}])
def test_odd_json_never_makes_a_check_raise(value: Any) -> None:
    for status in (200, 401):
        broken(answer("auth-wrong", status, body={"error": value}), MISSING, answer("auth-dummy", status, body=[value]))
