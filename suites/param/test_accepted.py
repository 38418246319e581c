"""Parameters that a server need not act on but must not stumble over."""

from __future__ import annotations

from typing import Any

from wireproof.judge.rules import MAY, MUST, SHOULD, each_of, engine, observed, of, openapi, rule
from wireproof.read.exchange import Exchange
from wireproof.read.refusal import is_refused, must_accept, must_not_crash, names
from wireproof.verdict import inconclusive, require

_REQUEST = "CreateChatCompletionRequest"
_HINTS = (
    *("store", "metadata", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"),
    *("safety_identifier", "prediction"),
)
_UNKNOWN = "zzz_unknown"
_VLLM = "https://docs.vllm.ai/en/latest/serving/openai_compatible_server/"


@rule(
    "param.service-tier.accepted",
    SHOULD,
    on=of("plain-greedy", "service-tier-auto", "service-tier-default"),
    book="PARAM-017",
    source=openapi("ServiceTier"),
)
def test_service_tier_accepted(usual: Exchange, *tiers: Exchange) -> None:
    """The server accepts service_tier auto and default.

    Gateways and SDK defaults send them with every call.
    """
    for x in tiers:
        must_accept(x, f"service_tier {x.asked.get('service_tier')}", usual)


@rule(
    "param.user.accepted",
    MUST,
    on=of("plain-greedy", "param-user"),
    book="PARAM-018",
    source=openapi(f"{_REQUEST}.user"),
)
def test_user_accepted(usual: Exchange, x: Exchange) -> None:
    """The server accepts any text as `user`.

    LangChain and gateways send the end user's id with every call.
    """
    must_accept(x, "user", usual)


@rule(
    "param.hints.accepted",
    SHOULD,
    on=of("plain-greedy", "hints-store", "hints-cache", "hints-prediction"),
    book="PARAM-019",
    source=openapi(f"{_REQUEST}; ModelResponseProperties"),
)
def test_hints_accepted(usual: Exchange, *hinted: Exchange) -> None:
    """The server accepts store, metadata, cache hints, safety_identifier and prediction, or refuses them by name.

    New SDK helpers add them; only a refusal that names the field tells the caller what to leave out.
    """
    for x in hinted:
        if is_refused(x) and usual.ok and names(x, *(name for name in _HINTS if name in x.asked)):
            continue
        must_accept(x, "hints that change no answer", usual)


@rule(
    "param.unknown.uniform",
    SHOULD,
    on=of("unknown-field", "unknown-field-object", "unknown-field-stream"),
    book="PARAM-021",
    source=observed("OpenAI refuses: Unrecognized request argument supplied; vLLM ignores"),
)
def test_unknown_uniform(*unknown: Exchange) -> None:
    """The server always ignores a field that no API has, or always refuses it by name with a 4xx; never a 5xx.

    Clients add fields of other vendors; what works in one mode of an endpoint must not fail in the other.
    """
    for x in unknown:
        must_not_crash(x)
        named = not is_refused(x) or names(x, _UNKNOWN)
        require(named, f"a refusal that names {_UNKNOWN}", got=x.refusal(), owner=x)
    if not all(x.ok or is_refused(x) for x in unknown):
        raise inconclusive("a request was neither answered nor refused")
    refused = [x for x in unknown if is_refused(x)]
    uniform = len(refused) in (0, len(unknown))
    require(uniform, "the same for each unknown field", got=f"{len(refused)} of {len(unknown)} refused")


def _may_accept(x: Exchange) -> None:
    """Continue on a 200; a refusal says that there is no such feature; a 5xx fails."""
    must_not_crash(x)
    if not x.ok:
        raise x.refused()


@rule(
    "param.vendor.accepted",
    MAY,
    on=each_of("vendor-parameters"),
    book="PARAM-024",
    source=engine("vllm", "extra parameters of chat completions", _VLLM),
)
def test_vendor_accepted(x: Exchange) -> None:
    """The server accepts open engines' parameters (top_k, min_p, ...) at the top level, or refuses them with a 4xx.

    Workloads on open models need them; a 5xx looks like an outage.
    """
    _may_accept(x)


@rule(
    "param.repetition-penalty.accepted",
    MAY,
    on=each_of("repetition-penalty"),
    source=engine("vllm", "repetition_penalty", _VLLM),
)
def test_repetition_penalty_accepted(x: Exchange) -> None:
    """The server accepts repetition_penalty at the top level, or refuses it with a 4xx.

    Model cards recommend it, and front ends set it.
    """
    _may_accept(x)


@rule(
    "param.effort.accepted",
    MAY,
    on=each_of("effort-low", "effort-minimal", "effort-xhigh", "effort-max", "effort-unknown"),
    book="PARAM-026",
    source=openapi("ReasoningEffort; Verbosity"),
)
def test_effort_accepted(x: Exchange) -> None:
    """The server accepts reasoning_effort and verbosity or refuses them with a 4xx, even for values that do not exist.

    Agents built for reasoning models send them to every model.
    """
    must_not_crash(x)


@rule(
    "param.modalities.text",
    MAY,
    on=of("plain-greedy", "modalities-text"),
    book="PARAM-027",
    source=openapi("ResponseModalities"),
)
def test_modalities_text(usual: Exchange, x: Exchange) -> None:
    """The server accepts modalities ["text"].

    It asks for what a text model does anyway, and SDKs send it.
    """
    must_accept(x, "modalities", usual)


@rule(
    "param.stream-options.empty",
    SHOULD,
    on=of("stream-greedy", "stream-options-empty", "stream-usage-false"),
    book="PARAM-028",
    source=openapi("ChatCompletionStreamOptions: no member is required"),
)
def test_stream_options_empty(usual: Exchange, *streams: Exchange) -> None:
    """The server accepts stream_options {} and include_usage false.

    SDKs send them when the caller asked for nothing.
    """
    for x in streams:
        must_accept(x, _options(x), usual)


@rule(
    "param.obfuscation.accepted",
    SHOULD,
    on=of("stream-usage", "stream-obfuscation-false"),
    book="PARAM-029",
    source=openapi("ChatCompletionStreamOptions.include_obfuscation"),
)
def test_obfuscation_accepted(usual: Exchange, x: Exchange) -> None:
    """The server accepts stream_options.include_obfuscation.

    Clients that trust their network set it to false to save bandwidth.
    """
    must_accept(x, _options(x), usual)


def _options(x: Exchange) -> Any:
    return f"stream_options {x.asked.get('stream_options')}"


@rule(
    "param.request.no-5xx",
    MUST,
    on=each_of(
        *("both-limits", "range-highest", "range-lowest", "params-null", "params-null-limit"),
        *("seed-large", "service-tier-auto", "service-tier-default", "param-user"),
        *("hints-store", "hints-cache", "hints-prediction", "modalities-text"),
        *("stream-options-empty", "stream-obfuscation-false"),
    ),
    source=openapi(_REQUEST),
)
def test_request_no_5xx(x: Exchange) -> None:
    """No parameter within its range, known or new, causes a 5xx.

    Clients retry a 5xx, and it looks like an outage: nobody suspects a comparison with null.
    """
    must_not_crash(x)
