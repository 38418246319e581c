"""The list of models: its shape, its names, and its stability."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from wireproof.judge.rules import MAY, MUST, SHOULD, Across, Each, contract, engine, of, openapi, rule
from wireproof.read.chat import is_plain
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Take
from wireproof.read.refusal import BUSY_OR_LOCKED
from wireproof.read.request_defects import defect
from wireproof.scenarios.conversations.roles import listed
from wireproof.verdict import inconclusive, require
from wireproof.wire.strictjson import get, is_int

_REQUIRED = ("object", "created", "owned_by")


def is_list(x: Exchange) -> bool:
    """Whether this is a request for the list of models (but not one that tests wrong methods or keys)."""
    path = x.request.path.split("?", 1)[0].rstrip("/")
    return x.request.method == "GET" and path.endswith("/models") and x.valid and x.response is not None


LISTS = Each("every list of models", is_list, ("models",))


def _entries(x: Exchange) -> list[Any]:
    """The entries that are objects; inconclusive when there is no such list."""
    if not x.ok:
        raise x.refused()
    data = get(x.parsed.value, "data")
    found = [e for e in data if isinstance(e, dict)] if isinstance(data, list) else []
    if not found:
        raise inconclusive("the answer is not a list of models; models.list.shape judges that")
    return found


@rule(
    "models.list.shape",
    MUST,
    on=LISTS,
    book="MODELS-001",
    source=openapi("ListModelsResponse, Model"),
)
def test_list_shape(x: Exchange) -> None:
    """The list of models is an object "list" whose entries each have an id, and members of the right type.

    client.models.list(), chatbot-ui and routers fail on a bare array, typed clients on an owned_by that is a list.
    (models.members.present judges missing members.)
    """
    if x.answered.status in BUSY_OR_LOCKED:
        raise x.refused()
    require(x.ok, "200 for the list of models", got=x.refusal())
    if not x.parsed.ok:
        raise inconclusive("the answer is not JSON; http.json rules judge that")
    body = x.parsed.value
    require(get(body, "object") == "list", 'an object with object: "list"', got=_kind(body))
    data = get(body, "data")
    require(isinstance(data, list), "an array in `data`", got=data)
    for entry in data:
        require(isinstance(entry, dict), "objects in `data`", got=entry)
        require(isinstance(entry.get("id"), str) and entry["id"], "a non-empty string as id", got=entry.get("id"))
        require(entry.get("object", "model") == "model", 'object: "model"', got=entry.get("object"))
        require(is_int(entry.get("created", 0)), "an integer as created", got=entry.get("created"))
        require(isinstance(entry.get("owned_by", ""), str), "a string as owned_by", got=entry.get("owned_by"))


def _kind(body: Any) -> str:
    return f"object {body.get('object')!r}" if isinstance(body, dict) else f"{type(body).__name__}"


@rule("models.members.present", SHOULD, on=LISTS, source=openapi("Model.required"))
def test_members_present(x: Exchange) -> None:
    """Each model in the list has object, created and owned_by.

    LM Studio leaves created out: typed clients refuse the whole list.
    """
    for entry in _entries(x):
        missing = [name for name in _REQUIRED if name not in entry]
        require(not missing, f"{', '.join(_REQUIRED)} in each entry", got=f"no {', '.join(missing)}")


@rule(
    "models.id.listed-and-echoed",
    MUST,
    on=Across(
        "the list of models and all plain answers", lambda x: is_list(x) or is_plain(x), ("models", "plain-greedy")
    ),
    book="MODELS-002",
    source=openapi("CreateChatCompletionResponse.model: the model used"),
)
def test_listed_and_echoed(found: Sequence[Exchange]) -> None:
    """The model that a request names is in the list, and the answer names it, or another one from the list.

    Clients choose from the list, and charge costs and quotas to the name in the answer. (error.model.unknown-is-404
    judges a request for a model that does not exist.)
    """
    lists = [x for x in found if is_list(x) and x.ok]
    ids = {name for x in lists for name in (*listed(x), *_aliases(x))}
    if not ids and not any(get(x.parsed.value, "data") == [] for x in lists):
        raise inconclusive("there is no list of models")
    judged = False
    for x in found:
        asked = x.asked.get("model") if is_plain(x) and x.valid and x.knows_request else None
        if not isinstance(asked, str) or defect(x) or not isinstance(get(x.parsed.value, "choices"), list):
            continue
        judged = True
        require(asked in ids, f"{asked!r} in the list of models", got=", ".join(sorted(ids)) or "none", owner=lists[0])
        told = get(x.parsed.value, "model")
        if isinstance(told, str) and told:
            require(told in ids, f"model {asked!r} in the answer", got=told, owner=x)
    if not judged:
        raise inconclusive("no answered request names its model")


def _aliases(x: Exchange) -> list[str]:
    """Other names that the list itself gives for a model (llama.cpp)."""
    data = get(x.parsed.value, "data")
    found = [get(entry, "aliases") for entry in data] if isinstance(data, list) else []
    return [name for names in found if isinstance(names, list) for name in names if isinstance(name, str)]


_PATH = re.compile(r"^(?:[/~\\]|\.{1,2}[/\\]|[A-Za-z]:[/\\]|file:)|\\|\.(?:gguf|safetensors|bin|pth?)$", re.I)


@rule(
    "models.name.explicit",
    SHOULD,
    on=LISTS,
    book="MODELS-006",
    source=contract("an explicit, versioned name, not the path of the weights"),
)
def test_name_explicit(x: Exchange) -> None:
    """The id of a model is a name, not the path of a file or folder.

    A path changes when the weights move, and every client with it; it also reveals the layout of the server's disk.
    """
    _entries(x)
    for name in listed(x):
        require(not _PATH.search(name), "a name", got=name)


# The members of an entry that stay the same; some engines renew `created` and the ids of permissions in each answer.
_LASTING = ("object", "owned_by", "root", "parent", "max_model_len")
_PATIENCE = 1.0  # seconds


@rule(
    "models.list.stable",
    SHOULD,
    on=of("models-served"),
    book="MODELS-007",
    source=contract("the list is asked for as a sign of health"),
)
def test_list_stable(served: Take) -> None:
    """The server gives the same list of models each time, and within a second.

    Gateways and load balancers ask for it every few seconds: if it differs, or waits for the model, they take a
    healthy server out of service.
    """
    first, second = served["list"], served["list-again"]
    before, after = ([_lasting(e) for e in _entries(x)] for x in (first, second))
    require(before == after, f"the same list: {before}", got=after, owner=second)
    if first.transcript.timed and second.transcript.timed:
        took = min(first.transcript.ended_at, second.transcript.ended_at)
        require(took < _PATIENCE, f"the list within {_PATIENCE:g} s", got=f"{took:.1f} s", owner=second)


def _lasting(entry: dict[str, Any]) -> dict[str, Any]:
    return {"id": entry.get("id"), **{name: entry[name] for name in _LASTING if name in entry}}


@rule(
    "models.extensions.typed",
    MAY,
    on=Each("every list of models, and each model by itself", lambda x: is_list(x) or _is_one(x), ("models",)),
    book="MODELS-008",
    source=engine("vllm", "ModelCard"),
)
def test_extensions(x: Exchange) -> None:
    """max_model_len, if a model has it, is a positive integer; root and parent are strings or null.

    Routers cut prompts to max_model_len: with a string, or 0, they cut everything or nothing.
    """
    entries = _entries(x) if is_list(x) else [x.parsed.value]
    for entry in entries:
        length = get(entry, "max_model_len", default=1)
        require(length is None or (is_int(length) and length > 0), "a positive integer as max_model_len", got=length)
        for name in ("root", "parent"):
            value = get(entry, name)
            require(value is None or isinstance(value, str), f"a string or null as {name}", got=value)


def _is_one(x: Exchange) -> bool:
    path = x.request.path.split("?", 1)[0]
    return x.request.method == "GET" and "/models/" in path and x.valid and x.ok
