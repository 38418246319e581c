"""Tokenizer endpoints: odd shapes, counts that do not fit, texts that do not come back, slow answers."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..answer import Frame, HttpAnswer, HttpRequest
from . import Context, Layer, fault

Body = dict[str, Any]


def _asked(request: HttpRequest) -> Body:
    try:
        value = json.loads(request.body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _tokenizes(request: HttpRequest) -> bool:
    return request.path.endswith("/tokenize")


def _on_answer(
    name: str, summary: str, breaks: set[str], change: Callable[[Body, Body], object], where: str = "/tokenize"
) -> None:
    """A fault in the answers of one endpoint; `change` gets a copy of the answer, and the request."""

    def apply(body: Body, ctx: Context) -> Body:
        if ctx.status != 200 or not ctx.http.path.endswith(where):
            return body
        changed = copy.deepcopy(body)
        change(changed, _asked(ctx.http))
        return changed

    apply.__doc__ = summary
    fault(name, layer=Layer.MESSAGE, breaks=breaks)(apply)


_on_answer(
    "tokenize.token-texts",
    "The tokens are texts, not ids.",
    {"tokenize.endpoint.works"},
    lambda body, asked: body.update(tokens=[f"t{i}" for i in body["tokens"]]),
)
_on_answer(
    "tokenize.no-count",
    "There is no count.",
    {"tokenize.endpoint.works"},
    lambda body, asked: body.pop("count"),
)
_on_answer(
    "tokenize.count-off",
    "The count of a text includes the marker of its beginning, the tokens do not.",
    {"tokenize.count.consistent"},
    lambda body, asked: body.update(count=body["count"] + ("prompt" in asked)),
)
_on_answer(
    "tokenize.length-minus-one",
    "max_model_len is -1.",
    {"tokenize.count.consistent"},
    lambda body, asked: body.update(max_model_len=-1),
)


def _last_left_out(body: Body, asked: Body) -> None:
    if "messages" in asked:
        body.update(tokens=body["tokens"][:-1], count=body["count"] - 1)


_on_answer(
    "tokenize.no-generation-prompt",
    "Messages are counted without the prompt for the model's answer.",
    {"tokenize.count.equals-usage"},
    _last_left_out,
)


@fault("tokenize.tools-left-out", layer=Layer.REQUEST, breaks={"tokenize.count.equals-usage"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Messages are counted without their tools."""
    asked = _asked(request)
    if not _tokenizes(request) or "tools" not in asked:
        return request
    return replace(request, body=json.dumps({k: v for k, v in asked.items() if k != "tools"}).encode())


_on_answer(
    "tokenize.text-with-holes",
    "Characters beyond ASCII come back as U+FFFD.",
    {"tokenize.detokenize.inverts"},
    lambda body, asked: body.update(prompt="".join(c if c.isascii() else "\ufffd" for c in body["prompt"])),
    "/detokenize",
)
_on_answer(
    "tokenize.text-missing",
    "Tokens come back as a list of their texts.",
    {"tokenize.detokenize.inverts"},
    lambda body, asked: body.update(prompt=list(body["prompt"])),
    "/detokenize",
)


def _other_tokens(body: Body, asked: Body) -> None:
    if asked.get("add_special_tokens") is True:
        body["tokens"][1:3] = body["tokens"][2:0:-1]


_on_answer(
    "tokenize.special-changes-text",
    "With special tokens the text has other tokens.",
    {"tokenize.special-tokens.only-differ"},
    _other_tokens,
)


@fault("tokenize.no-length", layer=Layer.MESSAGE, breaks={"tokenize.discoverable"})
def _(body: Body, ctx: Context) -> Body:
    """Neither the tokenizer nor the model's card says how long the context is."""

    def without(value: Body) -> Body:
        return {k: v for k, v in value.items() if k != "max_model_len"}

    if isinstance(body.get("data"), list):
        return {**body, "data": [without(card) for card in body["data"]]}
    return without(body)


@fault("tokenize.slow", layer=Layer.HTTP, breaks={"tokenize.errors-and-speed"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Tokenizing waits in the model's queue."""

    def late(frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            yield replace(frame, after=frame.after + 3.0)

    return replace(answer, body=late(answer.body)) if _tokenizes(ctx.http) else answer


@fault("tokenize.nonsense-counted", layer=Layer.REQUEST, breaks={"tokenize.errors-and-speed"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A body without a text is counted: 0 tokens."""
    asked = _asked(request)
    if not _tokenizes(request) or isinstance(asked.get("prompt"), str) or "messages" in asked:
        return request
    return replace(request, body=json.dumps({**asked, "prompt": ""}).encode())
