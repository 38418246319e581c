"""Limits, ranges and hints: refused though they are right, taken though they are wrong, or the death of the request."""

import secrets
from dataclasses import replace
from typing import Any

from ..answer import ApiError, HttpAnswer, HttpRequest, invalid
from ..request import ChatRequest
from . import Context, Layer, fault
from .edits import Body
from .request_edits import changed, crash_when

_OLD, _NEW = "max_tokens", "max_completion_tokens"
_WITHIN = "usage.completion.within-limit"
# What else shows that a limit was passed over.
_UNCUT = (_WITHIN, "finish.length.when-cut")
_RANGES = {"temperature": (0, 2), "top_p": (0, 1), "frequency_penalty": (-2, 2), "presence_penalty": (-2, 2)}


# -- limits ---------------------------------------------------------------------------------


def _unlimited(chat: ChatRequest, *given: str) -> ChatRequest:
    """Without the limit when the request has these limits and no other."""
    has = {name for name in (_OLD, _NEW) if chat.body.get(name) is not None}
    return replace(chat, max_tokens=None) if has == set(given) else chat


@fault("param.max-tokens-ignored", layer=Layer.PARAMS, breaks={"param.max-tokens.limits", *_UNCUT})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """max_tokens is ignored."""
    return _unlimited(chat, _OLD)


@fault(
    "param.max-completion-tokens-ignored",
    layer=Layer.PARAMS,
    breaks={"param.max-completion-tokens.limits", *_UNCUT},
    cases=("B1-166",),
    source="https://github.com/ggml-org/llama.cpp/issues/13700",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """max_completion_tokens is ignored."""
    return _unlimited(chat, _NEW)


@fault(
    "param.max-completion-tokens-refused",
    layer=Layer.PARAMS,
    breaks={"param.max-completion-tokens.limits"},
    cases=("B1-168",),
    source="https://github.com/voideditor/void/issues/128",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """max_completion_tokens is refused as an extra field."""
    if chat.body.get(_NEW) is not None:
        raise ApiError(422, f"body.{_NEW}: Extra inputs are not permitted", param=_NEW, code="extra_forbidden")
    return chat


@fault("param.both-limits-ignored", layer=Layer.PARAMS, breaks={"param.both-limits.one-wins", _WITHIN})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Given both max_tokens and max_completion_tokens, neither limits."""
    return _unlimited(chat, _OLD, _NEW)


@fault("param.both-limits-added", layer=Layer.PARAMS, breaks={"param.both-limits.one-wins", _WITHIN})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """The sum of max_tokens and max_completion_tokens is the limit."""
    limits = [chat.body.get(name) for name in (_OLD, _NEW)]
    both = [limit for limit in limits if isinstance(limit, int)]
    return replace(chat, max_tokens=sum(both)) if len(both) == 2 else chat


@fault("param.max-tokens-zero-500", layer=Layer.HTTP, breaks={"param.max-tokens.bounds"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """max_tokens 0 gets a 500."""
    return crash_when(lambda body: body.get(_OLD) == 0, answer, ctx)


# -- ranges and nulls -----------------------------------------------------------------------


@fault(
    "param.temperature-zero-refused",
    layer=Layer.PARAMS,
    breaks={"param.range.accepted"},
    cases=("B1-170",),
    source="https://github.com/InternLM/lmdeploy/issues/3176",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """temperature 0 is refused beside a top_p: "top_p must be 1 when using greedy sampling"."""
    if chat.body.get("temperature") == 0 and chat.sampling.top_p < 1:
        raise ApiError(422, "top_p must be 1 when using greedy sampling (temperature 0).", param="temperature")
    return chat


@fault("param.penalty-negative-refused", layer=Layer.PARAMS, breaks={"param.range.accepted"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A negative frequency_penalty is refused."""
    if chat.sampling.frequency < 0:
        raise invalid("frequency_penalty must be non-negative.", "frequency_penalty")
    return chat


@fault("param.range-clamped", layer=Layer.REQUEST, breaks={"param.range.outside-refused"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Values out of range are silently clamped."""

    def clamp(body: Body) -> None:
        for name, (low, high) in _RANGES.items():
            if isinstance(body.get(name), int | float):
                body[name] = min(high, max(low, body[name]))

    return changed(request, clamp)


@fault("param.temperature-above-two-500", layer=Layer.HTTP, breaks={"param.odd.no-5xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A temperature above 2 gets a 500."""
    return crash_when(lambda body: body.get("temperature") == 2.1, answer, ctx)


@fault("param.null-refused", layer=Layer.PARAMS, breaks={"param.null.equals-absent"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A parameter that is null is refused."""
    for name in _RANGES:
        if chat.body.get(name, 0) is None:
            raise ApiError(422, f"body.{name}: Input should be a valid number", param=name)
    return chat


@fault("param.null-500", layer=Layer.HTTP, breaks={"param.request.no-5xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A null top_p gets a 500: None met a comparison."""
    return crash_when(lambda body: body.get("top_p", 1) is None, answer, ctx)


@fault("param.null-limit-wins", layer=Layer.PARAMS, breaks={"param.null.equals-absent", "usage.length.exact"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A max_completion_tokens that is null is a limit of its own and wins over max_tokens."""
    null = _NEW in chat.body and chat.body[_NEW] is None
    return replace(chat, max_tokens=16) if null else chat


@fault("param.logit-bias-any-value", layer=Layer.REQUEST, breaks={"param.logit-bias.bounds"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A logit_bias out of range is silently ignored."""

    def drop(body: Body) -> None:
        bias = body.get("logit_bias")
        if isinstance(bias, dict):
            body["logit_bias"] = {k: v for k, v in bias.items() if abs(v) <= 100}

    return changed(request, drop)


@fault("param.seed-large-refused", layer=Layer.PARAMS, breaks={"param.seed.accepted"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A seed that is larger than 31 bits is refused."""
    if (chat.seed or 0) >= 2**31:
        raise invalid("seed must fit into 32 bits.", "seed", "integer_above_max_value")
    return chat


@fault("param.metadata-500", layer=Layer.HTTP, breaks={"param.metadata.limits"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Metadata beyond its limits gets a 500."""
    return crash_when(lambda body: len(body.get("metadata") or ()) > 16, answer, ctx)


# -- hints ----------------------------------------------------------------------------------


def _refused(chat: ChatRequest, *names: str, message: str = "", param: str | None = None) -> ChatRequest:
    """A 400 when the request has one of these members."""
    found = next((name for name in names if chat.body.get(name) is not None), None)
    if found is not None:
        raise invalid(message or f"Unrecognized request argument supplied: {found}", param)
    return chat


@fault("param.service-tier-refused", layer=Layer.PARAMS, breaks={"param.service-tier.accepted"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """service_tier is refused."""
    return _refused(chat, "service_tier", param="service_tier")


@fault("param.user-refused", layer=Layer.PARAMS, breaks={"param.user.accepted"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """user is refused."""
    return _refused(chat, "user", param="user")


@fault("param.hints-refused", layer=Layer.PARAMS, breaks={"param.hints.accepted"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Hints for a cache are refused, and nothing says which field is meant."""
    return _refused(chat, "prompt_cache_key", message="Extra inputs are not permitted")


@fault(
    "param.unknown-stream-refused", layer=Layer.PARAMS, breaks={"param.unknown.uniform", "error.status.same-for-stream"}
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """An unknown field is ignored in a plain request and refused in a stream."""
    return _refused(chat, "zzz_unknown", param="zzz_unknown") if chat.stream else chat


@fault("param.unknown-500", layer=Layer.HTTP, breaks={"param.unknown.uniform"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """An unknown field gets a 500: an unexpected keyword argument."""
    return crash_when(lambda body: "zzz_unknown" in body, answer, ctx)


@fault("param.vendor-500", layer=Layer.HTTP, breaks={"param.vendor.accepted"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """stop_token_ids beside min_tokens gets a 500."""
    return crash_when(lambda body: "stop_token_ids" in body and "min_tokens" in body, answer, ctx)


@fault("param.repetition-penalty-500", layer=Layer.HTTP, breaks={"param.repetition-penalty.accepted"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """repetition_penalty gets a 500."""
    return crash_when(lambda body: "repetition_penalty" in body, answer, ctx)


@fault("param.effort-500", layer=Layer.HTTP, breaks={"param.effort.accepted"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A reasoning_effort that the server does not know gets a 500."""
    return crash_when(lambda body: body.get("reasoning_effort") in ("max", "wireproof"), answer, ctx)


@fault("param.modalities-refused", layer=Layer.PARAMS, breaks={"param.modalities.text"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """modalities is refused, though it asks for text."""
    return _refused(chat, "modalities", param="modalities")


@fault("param.stream-options-empty-refused", layer=Layer.PARAMS, breaks={"param.stream-options.empty"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """stream_options {} is refused."""
    if chat.body.get("stream_options") == {}:
        raise ApiError(422, "stream_options.include_usage: Field required", param="stream_options.include_usage")
    return chat


@fault("param.obfuscation-refused", layer=Layer.PARAMS, breaks={"param.obfuscation.accepted"})
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """stream_options.include_obfuscation is refused as an extra field."""
    if "include_obfuscation" in (chat.body.get("stream_options") or {}):
        raise ApiError(422, "stream_options.include_obfuscation: Extra inputs are not permitted")
    return chat


# -- what an answer says of the backend -----------------------------------------------------


def _updated(body: Body, **members: Any) -> Body:
    """A plain completion with some members replaced; any other body as it is."""
    return {**body, **members} if "choices" in body else body


@fault("param.fingerprint-random", layer=Layer.MESSAGE, breaks={"param.fingerprint.stable"})
def _(body: Body, ctx: Context) -> Body:
    """system_fingerprint is different in each answer."""
    return _updated(body, system_fingerprint=f"fp_{secrets.token_hex(5)}")


@fault("param.fingerprint-number", layer=Layer.MESSAGE, breaks={"param.fingerprint.string", "choice.schema.openapi"})
def _(body: Body, ctx: Context) -> Body:
    """system_fingerprint of a plain answer is a number."""
    return _updated(body, system_fingerprint=44709)


@fault("param.service-tier-unknown", layer=Layer.MESSAGE, breaks={"param.service-tier.value", "choice.schema.openapi"})
def _(body: Body, ctx: Context) -> Body:
    """service_tier of an answer is a word of the vendor's own."""
    return _updated(body, service_tier="on_demand")
