"""Conversations about errors and keys: a flood, a bad request before a good one, side doors, malformed credentials."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wireproof.scenarios.scenario import Scenario, Session, conversation

FLOOD = 32


def _chat(say: str, **more: Any) -> Scenario:
    body = {"messages": [{"role": "user", "content": f"Say: {say}"}], "max_tokens": 4, "temperature": 0}
    return Scenario(name="errors", what=say, body={**body, **more})


@conversation("overload-flood", f"{FLOOD} short requests at once.", exclusive=True, load=True)
async def _(session: Session) -> None:
    await session.together(*((f"request-{n:02}", _chat(f"number {n}")) for n in range(FLOOD)))


@conversation("error-then-valid", "Valid requests over the connection of an invalid one.", exclusive=True, valid=False)
async def _(session: Session) -> None:
    good = _chat("hello")
    await session.send("valid", good)
    broken = replace(good, body=None, raw='{"model": "$MODEL", "messages": [' + " " * 3000, valid=False)
    await session.send("broken-json", broken, reuse=True)
    await session.send("after-broken-json", good, reuse=True)
    lost = replace(good, path="/wireproof/no-such-path", valid=False)
    await session.send("lost-path", lost, reuse=True)
    await session.send("after-lost-path", good, reuse=True)


_TEXT: dict[str, Any] = {"max_tokens": 1, "prompt": "Hello"}
_ROUTES: dict[str, dict[str, Any]] = {
    "/completions": _TEXT,
    "/embeddings": {"input": "Hello"},
    "/responses": {"input": "Hello", "max_output_tokens": 16},
    "/messages": {"max_tokens": 1, "messages": [{"role": "user", "content": "Hello"}]},
    "/tokenize": {"prompt": "Hello"},
}

# A guard that looks at the prefix /v1 does not see these: vLLM has them beside it.
_AT_THE_ROOT: dict[str, dict[str, Any]] = {
    "/tokenize": {"prompt": "Hello"},
    "/detokenize": {"tokens": [1]},
    "/invocations": {"max_tokens": 1, "messages": [{"role": "user", "content": "Hello"}]},
}


@conversation("auth-routes", "The other routes without a key.", valid=False)
async def _(session: Session) -> None:
    unkeyed = Scenario(name="routes", what="Without a key.", authorize=False, valid=False)
    await session.send("get-models", replace(unkeyed, method="GET", path="/models"))
    for path, body in _ROUTES.items():
        await session.send(f"post{path.replace('/', '-')}", replace(unkeyed, path=path, body=body))
    for path, body in _AT_THE_ROOT.items():
        await session.send(f"post-root{path.replace('/', '-')}", replace(unkeyed, path=path, root=True, body=body))


_MALFORMED = {
    "no-token": "Bearer",
    "another-scheme": "Basic dXNlcjpwYXNz",
    "unknown-scheme": "Key, realm=none",
    "beyond-ascii": "Bearer schl\u00fcssel-\u6f22",
}


@conversation("auth-malformed", "Malformed Authorization headers.", valid=False)
async def _(session: Session) -> None:
    for name, value in _MALFORMED.items():
        wrong = replace(_chat("hello"), headers={"Authorization": value}, authorize=False, valid=False)
        await session.send(name, wrong)


ORIGIN = "https://app.example.com"


@conversation("auth-cors", "A browser's request from another origin, and its preflight.", valid=False)
async def _(session: Session) -> None:
    models = Scenario(name="cors", what="GET", method="GET", path="/models", headers={"Origin": ORIGIN})
    await session.send("get", models)
    asked = {
        "Origin": ORIGIN,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    preflight = Scenario(name="cors", what="OPTIONS", method="OPTIONS", headers=asked, authorize=False, valid=False)
    await session.send("preflight", preflight)
