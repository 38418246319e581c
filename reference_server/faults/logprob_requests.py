"""Log probabilities: absent where they were asked for, present where not, requests taken wrongly."""

from dataclasses import replace

from ..answer import ApiError, HttpAnswer, HttpRequest, invalid
from ..request import ChatRequest
from . import Context, Layer, fault
from .edits import Body, each_choice
from .request_edits import asked, changed


@fault(
    "logprob.null",
    layer=Layer.MESSAGE,
    breaks={"logprob.content.present", "logprob.top.zero-is-empty"},
    cases=("B2-131",),
    source="https://github.com/theroyallab/tabbyAPI/pull/430",
)
def _(body: Body, ctx: Context) -> Body:
    """logprobs is null in every plain answer, asked for or not."""
    return each_choice(body, lambda choice: choice.update(logprobs=None))


@fault(
    "logprob.legacy-shape",
    layer=Layer.MESSAGE,
    breaks={"logprob.content.present", "logprob.top.zero-is-empty"},
    cases=("B2-117",),
    source="https://github.com/vllm-project/vllm/issues/4795",
)
def _(body: Body, ctx: Context) -> Body:
    """A plain chat answer has the four parallel arrays of the old completions."""

    def change(choice: Body) -> None:
        found = (choice["logprobs"] or {}).get("content")
        if found:
            tokens, values = [e["token"] for e in found], [e["logprob"] for e in found]
            choice["logprobs"] = {"tokens": tokens, "token_logprobs": values, "top_logprobs": None, "text_offset": None}

    return each_choice(body, change)


@fault("logprob.unasked-plain", layer=Layer.PARAMS, breaks={"logprob.absent.when-not-asked"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Plain answers always have log probabilities."""
    return chat if chat.stream else replace(chat, logprobs=True)


@fault("logprob.top-21-crashes", layer=Layer.HTTP, breaks={"logprob.top.out-of-range-refused"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """21 alternatives cause an internal error."""
    return replace(answer, status=500, reason="Oops") if asked(ctx.http).get("top_logprobs") == 21 else answer


@fault("logprob.top-word-accepted", layer=Layer.REQUEST, breaks={"logprob.top.out-of-range-refused"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A top_logprobs that is a word counts as 5."""
    return (
        changed(request, lambda body: body.update(top_logprobs=5))
        if asked(request).get("top_logprobs") == "x"
        else request
    )


@fault("logprob.top-clamped", layer=Layer.REQUEST, breaks={"logprob.top.limit-kept"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """21 alternatives silently become 20."""
    return (
        changed(request, lambda body: body.update(top_logprobs=20))
        if asked(request).get("top_logprobs") == 21
        else request
    )


@fault("logprob.top-alone-crashes", layer=Layer.HTTP, breaks={"logprob.top.without-logprobs"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """top_logprobs without logprobs causes an internal error."""
    body = asked(ctx.http)
    alone = body.get("top_logprobs") is not None and body.get("logprobs") is not True
    return replace(answer, status=500, reason="Oops") if alone else answer


@fault(
    "logprob.alone-refused",
    layer=Layer.PARAMS,
    breaks={"logprob.top.not-needed"},
    cases=("B2-117",),
    source="https://github.com/vllm-project/vllm/issues/4795",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """logprobs without top_logprobs is refused."""
    if chat.logprobs and "top_logprobs" not in chat.body:
        raise invalid("'logprobs' needs 'top_logprobs'.", "top_logprobs")
    return chat


@fault(
    "logprob.zero-crashes",
    layer=Layer.PARAMS,
    breaks={"logprob.top.not-needed"},
    cases=("B2-118",),
    source="https://github.com/vllm-project/tpu-inference/pull/3572",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """top_logprobs 0 causes an internal error: list index out of range."""
    if chat.logprobs and chat.body.get("top_logprobs") == 0:
        raise ApiError(500, "list index out of range", kind="server_error")
    return chat


@fault(
    "logprob.zero-is-off",
    layer=Layer.PARAMS,
    breaks={"logprob.top.zero-is-empty"},
    cases=("B2-118",),
    source="https://github.com/InternLM/lmdeploy/issues/2802",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """top_logprobs 0 turns log probabilities off."""
    return replace(chat, logprobs=False) if chat.body.get("top_logprobs") == 0 else chat


@fault(
    "logprob.null-is-off",
    layer=Layer.PARAMS,
    breaks={"logprob.top.null-is-absent"},
    cases=("B2-119",),
    source="https://github.com/vllm-project/vllm/pull/47838",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """top_logprobs null turns log probabilities off."""
    off = "top_logprobs" in chat.body and chat.body["top_logprobs"] is None
    return replace(chat, logprobs=False) if off else chat


@fault(
    "logprob.with-schema-crashes",
    layer=Layer.PARAMS,
    breaks={"logprob.combined.no-5xx", "schema.logprobs.together"},
    cases=("B2-116",),
    source="https://github.com/vllm-project/vllm/issues/11073",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Masked tokens have a log probability of -inf: encoding it ends in a 500."""
    if chat.logprobs and chat.response_format.constrained:
        raise ApiError(500, "Out of range float values are not JSON compliant", kind="server_error")
    return chat
