"""The rules for models, on answers written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.verdict import Status

from .wire import MODEL, broken, completion, explain, plain, verdict

AREAS = ("models",)
ENVELOPE = {"error": {"message": "No.", "type": "invalid_request_error", "param": "model", "code": None}}


def entry(**more: Any) -> dict[str, Any]:
    return {"id": MODEL, "object": "model", "created": 1, "owned_by": "x", **more}


def without(name: str) -> dict[str, Any]:
    return {k: v for k, v in entry().items() if k != name}


def get(path: str, body: Any, status: int = 200, scenario: str = "models", **more: Any) -> Exchange:
    return plain(body, b"", status, scenario=scenario, method="GET", path=f"/v1{path}", **more)


def listing(*entries: Any, step: str = "", **more: Any) -> Exchange:
    scenario = "models-served" if step else "models"
    return get("/models", {"object": "list", "data": list(entries), **more}, scenario=scenario, step=step)


def one(path: str, body: Any = None, status: int = 200) -> Exchange:
    return get(f"/models/{path}", body if status == 200 else ENVELOPE, status, "models-served", step=path)


def failed(*exchanges: Exchange) -> set[str]:
    return broken(*exchanges, areas=AREAS)


def test_right_lists_break_nothing() -> None:
    llama_cpp = listing(entry(aliases=["tiny"], meta={"n_ctx": 2048}), models=[{"name": "m"}])
    vllm = listing(entry(root="models/tiny", parent=None, max_model_len=4096, permission=[{"id": "p"}]))
    assert failed(llama_cpp) == failed(vllm) == failed(listing(entry(), entry(id="org/m"))) == set()


@pytest.mark.parametrize(
    "body",
    [
        [entry()],  # B1-153
        {"data": [entry()]},
        {"object": "models", "data": [entry()]},
        {"object": "list", "data": {"m": entry()}},
        {"object": "list", "data": ["m"]},
        {"object": "list", "data": [without("id")]},
        {"object": "list", "data": [entry(id="")]},
        {"object": "list", "data": [entry(owned_by=["org", "name"])]},  # B1-154
        {"object": "list", "data": [entry(created="2024")]},
        {"object": "list", "data": [entry(created=None)]},
        {"object": "list", "data": [entry(created=1.5)]},
        {"object": "list", "data": [entry(object="list")]},
        *([], {}, "x", 7, True),
    ],
)
def test_shape(body: Any) -> None:
    assert failed(get("/models", body)) == {"models.list.shape"}


def test_not_there_and_not_let_in() -> None:
    assert failed(get("/models", ENVELOPE, 404)) == {"models.list.shape"}
    assert verdict("models.list.shape", get("/models", ENVELOPE, 401)) is Status.INCONCLUSIVE
    assert failed(get("/models", b"not json")) == set()


@pytest.mark.parametrize("name", ["created", "owned_by", "object"])
def test_members(name: str) -> None:
    """B1-156: a warning."""
    assert failed(listing(without(name))) == {"models.members.present"}


def test_listed_and_echoed() -> None:
    rule = "models.id.listed-and-echoed"
    assert verdict(rule, listing(entry()), plain()) is Status.PASS
    assert failed(listing(entry(id="other")), plain()) == {rule}
    assert failed(listing(entry()), plain(completion(model="/data/w"))) == {rule}
    snapshot = listing(entry(), entry(id="m-2024"))
    assert failed(snapshot, plain(completion(model="m-2024"))) == set()
    assert failed(listing(entry(id="base", aliases=[MODEL, 7])), plain()) == set()
    # One that serves every name on purpose; error.model.unknown-is-404 judges it.
    assert failed(listing(entry()), plain(None, {"model": "no-such-model"}, scenario="unknown.txt")) == set()
    odd: Any
    for odd in (None, 7, {}):
        assert failed(listing(entry()), plain(completion(model=odd))) == set()
    assert failed(listing(), plain()) == {rule}
    assert verdict(rule, listing(without("id")), plain()) is Status.INCONCLUSIVE
    assert verdict(rule, listing(entry()), get("/models", ENVELOPE, 401)) is Status.INCONCLUSIVE


@pytest.mark.parametrize("name", ["/data/w", "./w", "~/w", "C:\\w", "C:/w", "a\\b", "tiny.gguf", "file:///w", "../w"])
def test_paths(name: str) -> None:
    assert failed(listing(entry(id=name))) == {"models.name.explicit"}


@pytest.mark.parametrize("name", ["org/model", "gpt-4.1", "llama-70b-v2.1", "a:latest", "binary", "ünï"])
def test_names(name: str) -> None:
    assert failed(listing(entry(id=name))) == set()


def served(again: Exchange, *ones: Exchange) -> list[Exchange]:
    return [listing(entry(), step="list"), again, *ones]


def test_stable() -> None:
    rule = "models.list.stable"
    assert failed(*served(listing(entry(created=2, permission=[1]), step="list-again"))) == set()
    assert failed(*served(listing(entry(max_model_len=7), step="list-again"))) == {rule}
    assert failed(*served(listing(entry(), entry(id="n"), step="list-again"))) == {rule}

    def at(seconds: float) -> list[Exchange]:
        body = {"object": "list", "data": [entry()]}
        times = [seconds]
        return [
            get("/models", body, scenario="models-served", step=step, times=times) for step in ("list", "list-again")
        ]

    assert failed(*at(0.2)) == set()
    assert failed(*at(3.0)) == {rule}


@pytest.mark.parametrize(
    "more", [{"max_model_len": "4096"}, {"max_model_len": 0}, {"max_model_len": True}, {"root": 7}]
)
def test_extensions(more: dict[str, Any]) -> None:
    assert failed(listing(entry(**more))) == {"models.extensions.typed"}
    assert "models.extensions.typed" in failed(one(MODEL, entry(**more)))


def test_retrieve() -> None:
    rule = "models.retrieve.works"
    again = listing(entry(), step="list-again")
    assert verdict(rule, *served(again, one(MODEL, entry()))) is Status.PASS
    assert failed(*served(again, one(MODEL, status=404))) == {rule}
    odd: Any
    for odd in (entry(id="x"), entry(object="list"), [], 7, None, {"detail": "x"}):
        assert failed(*served(again, one(MODEL, odd))) == {rule}
    assert verdict(rule, *served(again, one(MODEL, status=401))) is Status.INCONCLUSIVE
    assert verdict(rule, *served(again)) is Status.INCONCLUSIVE


def slashed(encoded: int, raw: int, plain_one: int | None = 200) -> list[Exchange]:
    name = "org/m"
    both = [
        get(f"/models/{path}", entry(id=name) if status == 200 else ENVELOPE, status, "models-served", step=step)
        for step, path, status in (("slash-encoded", "org%2Fm", encoded), ("slash-raw", name, raw))
    ]
    others = [] if plain_one is None else [one(MODEL, entry(), plain_one)]
    entries = [entry(id=name)] if plain_one is None else [entry(), entry(id=name)]
    return [listing(*entries, step="list"), listing(*entries, step="list-again"), *others, *both]


def test_slashes() -> None:
    """B1-157."""
    rule = "models.retrieve.slash"
    assert verdict(rule, *slashed(200, 200)) is Status.PASS
    assert failed(*slashed(404, 404)) == failed(*slashed(404, 200)) == failed(*slashed(200, 404)) == {rule}
    assert "org%2Fm" in explain(rule, *slashed(404, 200))
    assert failed(*slashed(404, 404, 404)) == {"models.retrieve.works"}
    assert failed(*slashed(404, 404, None)) == {"models.retrieve.works"}
    assert failed(*slashed(200, 404, None)) == {rule}
    # mlx-lm answers each with the list.
    every = {"object": "list", "data": [entry(id="org/m")]}
    both = [get(f"/models/{path}", every, 200, "models-served", step=path) for path in ("org%2Fm", "org/m")]
    assert failed(listing(entry(id="org/m"), step="list"), *both) == {"models.retrieve.works"}


@pytest.mark.parametrize("name", ["wireproof-no-such-model", "nope", "does-not-exist", "org/no-such"])
def test_unknown(name: str) -> None:
    rule = "models.retrieve.unknown-404"
    assert verdict(rule, one(name, status=404)) is Status.PASS
    assert failed(one(name, entry(id=name))) == failed(one(name, status=400)) == failed(one(name, status=500)) == {rule}
    assert verdict(rule, one(name, status=401)) is Status.INCONCLUSIVE
    assert verdict(rule, get(f"/models/{name}", {"detail": "Not Found"}, 404)) is Status.PASS


def test_others_are_not_unknown() -> None:
    for name in ("knopen", "canopener-7b", MODEL):
        assert verdict("models.retrieve.unknown-404", one(name, entry(id=name))) is Status.NOT_APPLICABLE
