"""Values that are passed over because they cannot be read, bodies that kill, and prompts cut behind the counter."""

import json
from dataclasses import replace
from typing import Any

from ..answer import HttpAnswer, HttpRequest
from . import Context, Layer, fault
from .http import stream_was_asked
from .request_edits import asked, changed, crash_when, messages, replaced

Body = dict[str, Any]


@fault("error.unreadable-seed-ignored", layer=Layer.REQUEST, breaks={"error.fuzz.not-ignored"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A seed that is an object is ignored: to `if seed:` an empty one is no seed."""

    def dropped(body: Body) -> None:
        if isinstance(body.get("seed"), dict):
            del body["seed"]

    return changed(request, dropped)


@fault("error.unreadable-form-ignored", layer=Layer.REQUEST, breaks={"error.fuzz.not-ignored"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A response_format that is an array is ignored: the answer is free text."""

    def dropped(body: Body) -> None:
        if isinstance(body.get("response_format"), list):
            del body["response_format"]

    return changed(request, dropped)


@fault("error.role-number-guessed", layer=Layer.REQUEST, breaks={"error.fuzz.not-ignored"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A role that is a number is taken for the user's."""

    def guessed(body: Body) -> None:
        for message in messages(body):
            if isinstance(message.get("role"), int):
                message["role"] = "user"

    return changed(request, guessed)


def _first_content(body: Body) -> Any:
    return next((m.get("content") for m in messages(body)), None)


@fault("error.nested-500", layer=Layer.HTTP, breaks={"error.fuzz.never-5xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Arrays inside the content of a message overflow the stack of its reader."""
    return crash_when(lambda body: json.dumps(_first_content(body)).startswith("[[["), answer, ctx)


@fault("error.part-type-500", layer=Layer.HTTP, breaks={"error.fuzz.never-5xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A part of a message whose type is a number gets a 500."""
    return crash_when(lambda body: '{"type": 7' in json.dumps(_first_content(body)), answer, ctx)


@fault("error.stop-ids-many-500", layer=Layer.HTTP, breaks={"error.fuzz.never-5xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """More stop_token_ids than the kernel has places for shut the engine down."""
    return crash_when(lambda body: isinstance(ids := body.get("stop_token_ids"), list) and len(ids) > 128, answer, ctx)


@fault("error.allowed-ids-many-500", layer=Layer.HTTP, breaks={"error.fuzz.never-5xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """More allowed_token_ids than the kernel has places for shut the engine down."""

    def is_many(body: Body) -> bool:
        ids = body.get("allowed_token_ids")
        return isinstance(ids, list) and len(ids) > 1024

    return crash_when(is_many, answer, ctx)


@fault("error.stream-other-schema-status", layer=Layer.HTTP, breaks={"error.status.same-for-stream"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Tools that are not an array get a 400, but a 422 if the request asks for a stream."""
    wrong = isinstance(asked(ctx.http).get("tools"), dict) and stream_was_asked(ctx)
    return replace(answer, status=422, reason="Unprocessable Entity") if wrong else answer


@fault(
    "error.stream-other-json-status",
    layer=Layer.HTTP,
    breaks={"error.status.same-for-stream", "error.invalid.exactly-400"},
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A body that breaks off gets a 400, but a 422 if it asked for a stream before that."""
    wrong = answer.status == 400 and ctx.http.body.startswith(b'{"stream": true')
    return replace(answer, status=422, reason="Unprocessable Entity") if wrong else answer


@fault("error.context-cut-counted", layer=Layer.HTTP, breaks={"error.context.within-limit"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A prompt that is too long is silently cut, but counted in full."""
    if answer.status != 400 or not 500_000 < len(ctx.http.body) < 2_000_000 or stream_was_asked(ctx):
        return answer
    counted = ctx.config.context_tokens + 10_000
    return replaced(
        answer,
        200,
        "OK",
        {
            "id": ctx.config.ids("chatcmpl-"),
            "object": "chat.completion",
            "created": int(ctx.config.clock()),
            "model": ctx.config.model,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "Hi", "refusal": None},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": counted, "completion_tokens": 2, "total_tokens": counted + 2},
        },
    )
