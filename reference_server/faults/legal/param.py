"""Legal variations in parameters: what strict and lenient servers make of the same request."""

from dataclasses import replace

from ...answer import HttpRequest, invalid
from ...request import ChatRequest
from .. import Context, Layer, fault
from ..edits import Body
from ..request_edits import changed

_HINTS = ("store", "metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "prediction")


def _refused(chat: ChatRequest, *names: str) -> ChatRequest:
    """A 400 that names the member, when the request has one of these."""
    found = next((name for name in names if chat.body.get(name) is not None), None)
    if found is not None:
        raise invalid(f"Unrecognized request argument supplied: {found}", found, "unknown_parameter")
    return chat


@fault("legal.unknown-refused", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A field that no API has is refused by name, as OpenAI does it."""
    return _refused(chat, "zzz_unknown")


@fault("legal.vendor-refused", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Sampling parameters of open engines are refused."""
    return _refused(chat, "top_k", "min_p", "repetition_penalty", "min_tokens", "ignore_eos")


@fault("legal.hints-refused", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Hints are refused by name."""
    return _refused(chat, *_HINTS)


@fault("legal.effort-refused", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A model that does not reason refuses reasoning_effort and verbosity."""
    return _refused(chat, "reasoning_effort", "verbosity")


@fault("legal.no-logit-bias", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """logit_bias is refused."""
    return _refused(chat, "logit_bias")


@fault("legal.no-tokenize", layer=Layer.REQUEST, breaks=())
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """There is no /tokenize."""
    return replace(request, target="/v1/no-such-path") if request.path.endswith("/tokenize") else request


@fault("legal.both-limits-refused", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """max_tokens and max_completion_tokens together are refused, as OpenAI does it."""
    both = all(chat.body.get(name) is not None for name in ("max_tokens", "max_completion_tokens"))
    return _refused(chat, "max_tokens") if both else chat


@fault("legal.max-tokens-wins", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Given both limits, max_tokens holds."""
    old = chat.body.get("max_tokens")
    return replace(chat, max_tokens=old) if isinstance(old, int) else chat


def _clamp(body: Body) -> None:
    limit, temperature = body.get("max_tokens"), body.get("temperature")
    if isinstance(limit, int) and (limit <= 0 or limit > 4096):
        body["max_tokens"] = 64
    if isinstance(temperature, int | float) and temperature > 2:
        body["temperature"] = 2
    if body.get("seed") == -1:
        body["seed"] = None


@fault("legal.limits-clamped", layer=Layer.REQUEST, breaks=())
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Odd limits mean "as much as possible", a temperature above 2 counts as 2, seed -1 as none, as in llama.cpp."""
    return changed(request, _clamp)


def _without(request: HttpRequest, *names: str) -> HttpRequest:
    def drop(body: Body) -> None:
        for name in names:
            body.pop(name, None)

    return changed(request, drop)


@fault("legal.metadata-unlimited", layer=Layer.REQUEST, breaks=())
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Metadata is ignored, whatever it is."""
    return _without(request, "metadata")


@fault("legal.effort-ignored", layer=Layer.REQUEST, breaks=())
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """reasoning_effort and verbosity are ignored, whatever they say."""
    return _without(request, "reasoning_effort", "verbosity")


@fault("legal.vendor-unknown", layer=Layer.REQUEST, breaks=())
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Sampling parameters of open engines are unknown members, and ignored whatever they say."""
    return _without(request, "top_k", "min_p", "repetition_penalty", "min_tokens", "ignore_eos")
