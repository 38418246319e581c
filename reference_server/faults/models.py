"""The list of models, and each model by itself: other shapes, other names, and nothing where a model should be."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..answer import HttpAnswer
from . import Context, Layer, fault
from .edits import Body
from .request_edits import replaced

_LIST, _ONE = "/v1/models", "/v1/models/"


def _listed(body: Body, change: Callable[[list[Body]], list[Any]]) -> Body:
    """A list of models with other entries; any other body as it is."""
    if body.get("object") != "list" or not isinstance(body.get("data"), list):
        return body
    return {**body, "data": change([dict(entry) for entry in body["data"]])}


def _each(body: Body, change: Callable[[Body], None]) -> Body:
    def changed(entries: list[Body]) -> list[Any]:
        for entry in entries:
            change(entry)
        return entries

    return _listed(body, changed)


# -- the list --------------------------------------------------------------------------------


@fault(
    "models.bare-array",
    layer=Layer.MESSAGE,
    breaks={"models.list.shape"},
    cases=("B1-153",),
    source="https://github.com/songquanpeng/one-api/issues/128",
)
def _(body: Body, ctx: Context) -> Any:
    """The list of models is a bare array, and permission an object."""
    if body.get("object") != "list":
        return body
    return [{**entry, "permission": {"allow_view": True}} for entry in body["data"]]


@fault(
    "models.owned-by-list",
    layer=Layer.MESSAGE,
    breaks={"models.list.shape"},
    cases=("B1-154",),
    source="https://github.com/huggingface/transformers/issues/46006",
)
def _(body: Body, ctx: Context) -> Body:
    """owned_by is a list of strings."""
    return _each(body, lambda entry: entry.update(owned_by=["org", "name"]))


@fault("models.created-text", layer=Layer.MESSAGE, breaks={"models.list.shape"})
def _(body: Body, ctx: Context) -> Body:
    """created is a date as text."""
    return _each(body, lambda entry: entry.update(created="2024-02-29T12:00:00Z"))


@fault(
    "models.created-missing",
    layer=Layer.MESSAGE,
    breaks={"models.members.present"},
    cases=("B1-156",),
    source="https://github.com/webai-at-home/webai-at-home/issues/208",
)
def _(body: Body, ctx: Context) -> Body:
    """No model has the member created."""
    return _each(body, lambda entry: entry.pop("created", None))


@fault("models.served-not-listed", layer=Layer.MESSAGE, breaks={"models.id.listed-and-echoed"})
def _(body: Body, ctx: Context) -> Body:
    """The list lacks the model that answers requests."""
    return _listed(body, lambda entries: [e for e in entries if e["id"] != ctx.config.model])


@fault("models.path-echoed", layer=Layer.MESSAGE, breaks={"models.id.listed-and-echoed"})
def _(body: Body, ctx: Context) -> Body:
    """Plain answers name the folder of the weights as their model."""
    return {**body, "model": "/data/weights/v3"} if "choices" in body else body


@fault("models.path-as-name", layer=Layer.MESSAGE, breaks={"models.name.explicit"})
def _(body: Body, ctx: Context) -> Body:
    """A model is called by the path of its file."""
    return _listed(body, lambda entries: [*entries, {**entries[0], "id": "/data/weights/tiny.gguf"}])


@fault("models.list-changes", layer=Layer.MESSAGE, breaks={"models.list.stable"})
def _(body: Body, ctx: Context) -> Body:
    """With each call the list names another replica."""
    return _listed(body, lambda entries: [*entries, {**entries[0], "id": ctx.config.ids("replica-")}])


@fault("models.list-slow", layer=Layer.HTTP, breaks={"models.list.stable"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The list waits for a generation to be over."""
    if ctx.http.path != _LIST:
        return answer
    return replace(answer, body=(replace(f, after=f.after + 3.0) if f.data else f for f in answer.body))


@fault("models.length-text", layer=Layer.MESSAGE, breaks={"models.extensions.typed"})
def _(body: Body, ctx: Context) -> Body:
    """max_model_len is a string."""
    return _each(body, lambda entry: entry.update(max_model_len=str(entry["max_model_len"])))


# -- one model -------------------------------------------------------------------------------


def _missing(answer: HttpAnswer, what: str) -> HttpAnswer:
    error = {"message": what, "type": "invalid_request_error", "param": None, "code": "unknown_url"}
    return replaced(answer, 404, "Not Found", {"error": error})


def _is_one(ctx: Context) -> bool:
    return ctx.http.method == "GET" and ctx.http.path.startswith(_ONE)


@fault("models.no-retrieve", layer=Layer.HTTP, breaks={"models.retrieve.works"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """There is a list, but no path for a single model."""
    return _missing(answer, "Not Found") if _is_one(ctx) else answer


@fault("models.retrieve-other", layer=Layer.MESSAGE, breaks={"models.retrieve.works"})
def _(body: Body, ctx: Context) -> Body:
    """A model by itself has another id than in the list."""
    return {**body, "id": "base"} if _is_one(ctx) and body.get("id") == ctx.config.model else body


@fault(
    "models.slash-unknown",
    layer=Layer.HTTP,
    breaks={"models.retrieve.slash"},
    cases=("B1-157",),
    source="https://github.com/ollama/ollama/issues/10139",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A listed id with a slash cannot be retrieved, neither as it is nor percent-encoded."""
    name = ctx.http.path.removeprefix(_ONE)
    return _missing(answer, "page not found") if _is_one(ctx) and ("/" in name or "%2F" in name) else answer


@fault("models.slash-encoded-unknown", layer=Layer.HTTP, breaks={"models.retrieve.slash"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """An id with %2F in it is looked up without decoding it."""
    return _missing(answer, "page not found") if _is_one(ctx) and "%2F" in ctx.http.path else answer


@fault("models.retrieve-anything", layer=Layer.HTTP, breaks={"models.retrieve.unknown-404"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Every name passes for a model."""
    if not _is_one(ctx) or answer.status != 404:
        return answer
    entry = {"id": ctx.http.path.removeprefix(_ONE), "object": "model", "created": 1709208000, "owned_by": "wireproof"}
    return replaced(answer, 200, "OK", entry)


@fault("models.unknown-bad-request", layer=Layer.HTTP, breaks={"models.retrieve.unknown-404"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A model that does not exist gets a 400."""
    if not _is_one(ctx) or answer.status != 404:
        return answer
    error = {"message": "Invalid model name.", "type": "invalid_request_error", "param": "model", "code": None}
    return replaced(answer, 400, "Bad Request", {"error": error})
