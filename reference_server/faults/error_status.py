"""Refusals with a wrong status, and requests that are answered though they had to be refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..answer import DONE_FRAME, Frame, Framing, HttpAnswer, HttpRequest
from ..protocol import dumps
from . import Context, Layer, fault
from .http import stream_was_asked, with_body
from .request_edits import asked, changed, crash_when, crashed, messages, replaced

Body = dict[str, Any]
_UNKNOWN = "wireproof/no-such-model"


def _chat(ctx: Context) -> bool:
    return ctx.http.path == "/v1/chat/completions"


def _unfinished(request: HttpRequest) -> bool:
    return request.body.rstrip().endswith(b"[")


def _recode(answer: HttpAnswer, status: int, reason: str) -> HttpAnswer:
    return replace(answer, status=status, reason=reason)


@fault("error.json-500", layer=Layer.HTTP, breaks={"error.json.broken-is-400"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A body that is not JSON gets a 500."""
    return crashed(answer) if _unfinished(ctx.http) and answer.status == 400 else answer


@fault("error.json-repaired", layer=Layer.REQUEST, breaks={"error.json.broken-is-400"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The server repairs a body that broke off, and so answers a prompt that nobody wrote."""
    if not _unfinished(request):
        return request
    return replace(request, body=request.body.rstrip() + b'{"role":"user","content":"Hello"}],"max_tokens":4}')


@fault("error.no-messages-500", layer=Layer.HTTP, breaks={"error.messages.bad-is-400"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A request without messages gets a 500 with the text of a TypeError, as in LiteLLM."""
    return crash_when(
        lambda body: "messages" not in body and "max_tokens" in body and "prompt" not in body, answer, ctx
    )


@fault("error.empty-messages-answered", layer=Layer.REQUEST, breaks={"error.messages.bad-is-400"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """`messages: []` is answered, as by llama.cpp."""

    def filled(body: Body) -> None:
        if body.get("messages") == []:
            body["messages"] = [{"role": "user", "content": " "}]

    return changed(request, filled)


@fault("error.role-guessed", layer=Layer.REQUEST, breaks={"error.messages.bad-is-400"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A message without role is taken for the user's."""

    def guessed(body: Body) -> None:
        for message in messages(body):
            message.setdefault("role", "user")

    return changed(request, guessed)


@fault("error.no-model-500", layer=Layer.HTTP, breaks={"error.model.missing"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A request without a model gets a 500."""
    return crash_when(lambda body: _chat(ctx) and "messages" in body and "model" not in body, answer, ctx)


def _is_word(value: Any) -> bool:
    return isinstance(value, str)


@fault(
    "error.word-500",
    layer=Layer.HTTP,
    breaks={"error.parameter.bad-is-400"},
    cases=("B1-124",),
    source="https://github.com/vllm-project/vllm-omni/issues/1952",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """`"temperature": "hot"` gets a 500."""
    return crash_when(lambda body: _is_word(body.get("temperature")), answer, ctx)


@fault("error.word-ignored", layer=Layer.REQUEST, breaks={"error.parameter.bad-is-400"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A temperature that is not a number is ignored."""

    def dropped(body: Body) -> None:
        if _is_word(body.get("temperature")):
            del body["temperature"]

    return changed(request, dropped)


@fault(
    "error.bias-key-500",
    layer=Layer.HTTP,
    breaks={"param.odd.no-5xx", "param.logit-bias.bounds"},
    cases=("B1-126",),
    source="https://github.com/vllm-project/vllm/issues/5963",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A key of logit_bias that is not a number kills the engine loop."""
    return crash_when(lambda body: "hello" in str(body.get("logit_bias")), answer, ctx)


@fault("error.status-422", layer=Layer.HTTP, breaks={"error.invalid.exactly-400"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A wrong body gets a 422, as from FastAPI."""
    return _recode(answer, 422, "Unprocessable Entity") if answer.status == 400 else answer


def _of_unknown(answer: HttpAnswer, ctx: Context) -> bool:
    return answer.status == 404 and asked(ctx.http).get("model") == _UNKNOWN


@fault("error.model-500", layer=Layer.HTTP, breaks={"error.model.unknown-is-404"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """An unknown model gets a 500."""
    return crashed(answer) if _of_unknown(answer, ctx) else answer


@fault("error.model-400", layer=Layer.HTTP, breaks={"error.model.unknown-exactly-404"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """An unknown model gets a 400, as in LiteLLM."""
    return _recode(answer, 400, "Bad Request") if _of_unknown(answer, ctx) else answer


@fault(
    "error.model-echoed",
    layer=Layer.HTTP,
    breaks={"error.model.unknown-exactly-404", "error.model.not-echoed"},
    cases=("B1-114",),
    source="https://github.com/ddalcu/mlx-serve/issues/257",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Another model answers to an unknown name, and claims it as its own."""
    if not _of_unknown(answer, ctx):
        return answer
    made: Body = {"id": ctx.config.ids("chatcmpl-"), "object": "chat.completion", "model": _UNKNOWN}
    made["created"] = int(ctx.config.clock())
    message = {"role": "assistant", "content": "Hi", "refusal": None}
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    choice: Body = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    if not stream_was_asked(ctx):
        return replaced(answer, 200, "OK", {**made, "choices": [choice], "usage": usage})
    chunk = {**made, "object": "chat.completion.chunk"}
    deltas: list[Body] = [{"role": "assistant", "content": ""}, {"content": "Hi"}, {}]
    choices = [{"index": 0, "delta": d, "logprobs": None, "finish_reason": None if d else "stop"} for d in deltas]
    return _stream(answer, *(Frame(b"data: " + dumps({**chunk, "choices": [c]}) + b"\n\n") for c in choices))


def _stream(answer: HttpAnswer, *frames: Frame, end: Frame = DONE_FRAME) -> HttpAnswer:
    """A stream in the place of a refusal."""
    headers = answer.with_headers(
        content_type="text/event-stream; charset=utf-8",
        content_length=None,
        transfer_encoding="chunked",
        cache_control="no-cache",
        x_accel_buffering="no",
    )
    return HttpAnswer(200, "OK", headers, iter([*frames, end]), Framing.CHUNKED, stream=True)


@fault("error.model-code-null", layer=Layer.MESSAGE, breaks={"error.model.code"})
def _(body: Body, ctx: Context) -> Body:
    """The 404 of an unknown model has no code."""
    if not (isinstance(body.get("error"), dict) and body["error"]["code"] == "model_not_found"):
        return body
    return {"error": {**body["error"], "code": None}}


@fault(
    "error.model-200",
    layer=Layer.HTTP,
    breaks={"error.plain.never-200", "choice.body.required-members"},
    cases=("B1-113",),
    source="https://github.com/runpod-workers/worker-vllm/issues/57",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The error about an unknown model comes with status 200, and flat."""
    if not _of_unknown(answer, ctx) or stream_was_asked(ctx):
        return answer
    return replaced(answer, 200, "OK", {"object": "error", "message": "The model does not exist.", "code": 404})


@fault(
    "error.stream-other-status",
    layer=Layer.HTTP,
    breaks={"error.status.same-for-stream", "error.model.unknown-exactly-404"},
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """An unknown model gets a 404, but a 400 if the request asks for a stream."""
    return _recode(answer, 400, "Bad Request") if _of_unknown(answer, ctx) and stream_was_asked(ctx) else answer


@fault(
    "error.stream-empty-200",
    layer=Layer.HTTP,
    breaks={
        "error.parameter.bad-is-400",
        "error.messages.bad-is-400",
        "error.status.same-for-stream",
        "tool.definition.bad-refused",
        "done.marker.exact",
    },
    cases=("B1-042",),
    source="https://github.com/coder/aibridge/issues/56",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A request that the engine refuses before its stream begins gets a 200 without a byte."""
    if answer.status != 400 or not stream_was_asked(ctx) or len(ctx.http.body) > 100_000:
        return answer
    return replace(_stream(answer), body=iter(()))


@fault(
    "error.stream-bare-text",
    layer=Layer.HTTP,
    breaks={
        "error.parameter.bad-is-400",
        "error.messages.bad-is-400",
        "error.status.same-for-stream",
        "done.marker.exact",
        "http.body.framed-exactly",
    },
    cases=("B1-006",),
    source="https://github.com/EricLBuehler/mistral.rs/issues/1874",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """The error of a refused request stands as bare text in a 200 stream that then stays open."""
    body = asked(ctx.http)
    few = body.get("temperature") == "hot" or body.get("messages") == []  # so many open ends are waited for
    if answer.status != 400 or not stream_was_asked(ctx) or not few:
        return answer
    return _stream(answer, Frame(b"data: the request is not valid\n\n"), end=Frame(b"", 1000.0))


def _shortened(request: HttpRequest, change: Callable[[str], str]) -> HttpRequest:
    if len(request.body) < 500_000 or len(request.body) > 2_000_000:
        return request

    def cut(body: Body) -> None:
        for message in messages(body):
            message["content"] = change(str(message.get("content")))

    return changed(request, cut)


@fault(
    "error.context-cut",
    layer=Layer.REQUEST,
    breaks={"error.context.over-is-400"},
    cases=("B1-111",),
    source="https://github.com/sgl-project/sglang/issues/2956",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Of a prompt that is too long only the end is read."""
    return _shortened(request, lambda text: text[-2000:])


@fault("error.context-500", layer=Layer.HTTP, breaks={"error.context.over-is-400"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A prompt that is too long gets a 500."""
    return crashed(answer) if 500_000 < len(ctx.http.body) < 2_000_000 and answer.status == 400 else answer


@fault("error.context-code-null", layer=Layer.MESSAGE, breaks={"error.context.code"})
def _(body: Body, ctx: Context) -> Body:
    """The refusal of a prompt that is too long has no code."""
    if not (isinstance(body.get("error"), dict) and body["error"]["code"] == "context_length_exceeded"):
        return body
    return {"error": {**body["error"], "code": None}}


@fault("error.any-content-type", layer=Layer.REQUEST, breaks={"error.content-type.wrong"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The server ignores the Content-Type, as vLLM does."""
    if request.header("content-type") != "text/plain":
        return request
    return replace(request, headers=tuple((k, v) for k, v in request.headers if k.lower() != "content-type"))


@fault("error.content-type-500", layer=Layer.HTTP, breaks={"error.content-type.wrong"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A body whose Content-Type is not JSON gets a 500."""
    return crashed(answer) if answer.status == 415 else answer


@fault("error.path-200", layer=Layer.HTTP, breaks={"error.path.unknown-is-404"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Every unknown path shows the start page of the web interface."""
    if answer.status != 404 or ctx.http.method != "GET" or not ctx.http.path.endswith("no-such-path"):
        return answer
    page = with_body(answer, lambda data: b"<html>Welcome</html>", content_type="text/html")
    return _recode(page, 200, "OK")


@fault("error.path-500", layer=Layer.HTTP, breaks={"error.path.unknown-is-404"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A path that does not exist gets a 500."""
    lost = ctx.http.path.endswith("no-such-path") and ctx.http.method == "GET"
    return crashed(answer) if lost and answer.status == 404 else answer


@fault("error.post-500", layer=Layer.HTTP, breaks={"error.client-fault.never-5xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A body that is sent to a path that does not exist gets a 500."""
    lost = ctx.http.path.endswith("no-such-path") and ctx.http.method == "POST"
    return crashed(answer) if lost and answer.status == 404 else answer


@fault("error.audio-ignored", layer=Layer.REQUEST, breaks={"error.feature.unsupported-refused"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A request for a spoken answer gets a written one."""

    def silent(body: Body) -> None:
        body.pop("modalities", None)
        body.pop("audio", None)
        body.pop("web_search_options", None)

    return changed(request, silent) if b'"audio"' in request.body else request


@fault("error.image-ignored", layer=Layer.REQUEST, breaks={"error.feature.unsupported-refused"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Images are thrown away before a model sees them."""

    def blind(body: Body) -> None:
        for message in messages(body):
            if isinstance(message.get("content"), list):
                message["content"] = [p for p in message["content"] if "image_url" not in json.dumps(p)]

    return changed(request, blind) if b"What is in the picture?" in request.body else request


@fault(
    "error.seed-500",
    layer=Layer.HTTP,
    breaks={"error.valid.no-5xx"},
    cases=("B1-130",),
    source="https://github.com/HabanaAI/vllm-fork/issues/924",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A request with the seed 0 kills the engine."""
    return crash_when(lambda body: body.get("seed") == 0, answer, ctx)


def _ordinary(body: Body) -> bool:
    prompt = str(body.get("messages"))
    return "Say hello in one short sentence." in prompt and not set(body) - _PLAIN


_PLAIN = {"model", "messages", "max_tokens", "temperature", "stream"}


@fault("error.answer-500", layer=Layer.HTTP, breaks={"error.valid.no-5xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Some ordinary requests end in a 500."""
    return crash_when(_ordinary, answer, ctx)
