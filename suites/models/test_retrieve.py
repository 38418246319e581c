"""One model by itself: the served one, one with a slash in its name, and one that does not exist."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

from wireproof.judge.rules import MUST, SHOULD, Across, Each, client, openapi, rule
from wireproof.read.exchange import Exchange
from wireproof.read.refusal import BUSY_OR_LOCKED
from wireproof.scenarios.conversations.roles import listed
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get

_NO_SUCH = re.compile(r"(?:^|[-_/ ])(?:no[-_]?such|nope|does[-_]not[-_]exist)", re.I)
_ONE = re.compile(r"/models/([^?]+)")


def _name(x: Exchange) -> str:
    """The model that a request retrieves, decoded; empty when it retrieves none."""
    found = _ONE.search(x.request.path) if x.request.method == "GET" and x.response is not None else None
    return unquote(found[1]).rstrip("/") if found else ""


def _is_list(x: Exchange) -> bool:
    return x.request.method == "GET" and x.request.path.split("?", 1)[0].rstrip("/").endswith("/models") and x.ok


ONES = Across(
    "the list of models, and each model by itself",
    lambda x: x.valid and (_is_list(x) or bool(_name(x))),
    ("models-served",),
)


def _retrieved(found: Sequence[Exchange], *, slash: bool) -> dict[str, list[Exchange]]:
    """The answers for each listed model that was retrieved; those whose names have a slash, or those without."""
    ids = {name for x in found if _is_list(x) for name in listed(x)}
    out: dict[str, list[Exchange]] = {}
    for x in found:
        name = _name(x)
        if name in ids and ("/" in name) is slash and x.status not in BUSY_OR_LOCKED:
            out.setdefault(name, []).append(x)
    return out


def _is_it(x: Exchange, name: str) -> bool:
    """Whether the answer is the object of a model."""
    return x.ok and get(x.parsed.value, "id") == name and get(x.parsed.value, "object", default="model") == "model"


def _got(x: Exchange) -> str:
    return f"200 {x.text[:80]}" if x.ok else x.refusal()


@rule(
    "models.retrieve.works",
    MUST,
    on=ONES,
    book="MODELS-003",
    source=openapi("paths./models/{model}.get"),
)
def test_retrieve(found: Sequence[Exchange]) -> None:
    """The server returns a listed model by its id: its object, with the same id.

    Otherwise client.models.retrieve() raises NotFoundError for a model that does answer, and tools that first check
    whether a model exists refuse to start.
    """
    plain = _retrieved(found, slash=False)
    for name, answers in plain.items():
        for x in answers:
            require(_is_it(x, name), f"200 with the model {name!r}", got=_got(x), owner=x)
    slashed = {} if plain else _retrieved(found, slash=True)
    for name, answers in slashed.items():  # in one form or the other: models.retrieve.slash asks for both
        ok = any(_is_it(x, name) for x in answers)
        require(ok, f"200 with the model {name!r}", got=_got(answers[0]), owner=answers[0])
    if not plain and not slashed:
        raise inconclusive("no listed model was retrieved")


@rule(
    "models.retrieve.slash",
    SHOULD,
    on=ONES,
    book="MODELS-005",
    source=client("openai-python", "path_template: the id is percent-encoded"),
)
def test_retrieve_slash(found: Sequence[Exchange]) -> None:
    """The server returns a model with a slash in its id, whether the slash comes as it is or percent-encoded.

    Hugging Face ids have one. openai-python sends %2F, a person with curl sends the slash.
    """
    slashed = _retrieved(found, slash=True)
    if not slashed:
        raise NotApplicable("no listed model has a slash in its id")
    plain = _retrieved(found, slash=False)
    if not any(_is_it(x, name) for name, answers in (plain or slashed).items() for x in answers):
        raise inconclusive("no model can be retrieved at all; models.retrieve.works judges that")
    for name, answers in slashed.items():
        for x in answers:
            require(_is_it(x, name), f"200 with the model {name!r} for {x.request.path}", got=_got(x), owner=x)


@rule(
    "models.retrieve.unknown-404",
    MUST,
    on=Each(
        "every request for a model that does not exist", lambda x: bool(_NO_SUCH.search(_name(x))), ("models-unknown",)
    ),
    book="MODELS-004",
    source=client("openai-python", "NotFoundError"),
)
def test_retrieve_unknown(x: Exchange) -> None:
    """The server answers 404 for a model that does not exist.

    Tools ask whether a model exists: they expect NotFoundError, and take a 200 for a yes and a 5xx for an outage.
    """
    if x.answered.status in BUSY_OR_LOCKED:
        raise x.refused()
    require(x.status == 404, "404", got=_got(x))
