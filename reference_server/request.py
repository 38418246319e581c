"""A chat request: validated, typed, frozen.

In: the JSON body and the config. Out: a ChatRequest, or an ApiError that names the parameter. Everything
that can be refused is refused here or by constrain.py, before the first byte of an answer.
"""

from dataclasses import dataclass, field
from typing import Any

from .answer import ApiError, invalid
from .config import Config
from .fields import array, boolean, integer, mapping, number, one_of, string, wrong_type
from .messages import Message, parse_messages
from .model import Sampling
from .tools import (
    ResponseFormat,
    Tool,
    ToolChoice,
    parse_function_call,
    parse_functions,
    parse_response_format,
    parse_structured_outputs,
    parse_tool_choice,
    parse_tools,
)
from .vocab import SIZE

__all__ = ["ChatRequest", "Message", "ResponseFormat", "Tool", "ToolChoice", "parse_chat"]

_TIERS = ("auto", "default", "flex", "scale", "priority", "fast")
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


@dataclass(frozen=True)
class ChatRequest:
    """What a client asked for, defaults filled in. `body` is the JSON as it came."""

    model: str
    messages: tuple[Message, ...]
    stream: bool = False
    include_usage: bool = False
    n: int = 1
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    sampling: Sampling = field(default_factory=Sampling)
    seed: int | None = None
    logprobs: bool = False
    top_logprobs: int = 0
    response_format: ResponseFormat = field(default_factory=ResponseFormat)
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    parallel: bool = True
    legacy: bool = False  # `functions` instead of `tools`
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def callable_tools(self) -> tuple[Tool, ...]:
        """The tools that may be called."""
        choice = self.tool_choice
        if choice.mode == "none":
            return ()
        if choice.name is not None:
            return tuple(tool for tool in self.tools if tool.name == choice.name)
        if choice.allowed is not None:
            return tuple(tool for tool in self.tools if tool.name in choice.allowed)
        return self.tools


def parse_chat(body: dict[str, Any], config: Config) -> ChatRequest:
    """The whole validation of a chat request."""
    model = _model(body, config)
    messages = parse_messages(body.get("messages"))
    stream = boolean(body, "stream") or False
    functions = parse_functions(body)
    tools = functions or parse_tools(body)
    choice = parse_function_call(body, functions) if functions else parse_tool_choice(body, tools)
    if not functions:
        parse_function_call(body, functions)
    logprobs = boolean(body, "logprobs") or False
    top = integer(body, "top_logprobs", 0, 20)
    if top is not None and not logprobs:
        raise invalid("'top_logprobs' needs 'logprobs' to be true.", "top_logprobs")
    parallel = boolean(body, "parallel_tool_calls")
    _check_hints(body)
    return ChatRequest(
        model=model,
        messages=messages,
        stream=stream,
        include_usage=_include_usage(body, stream),
        n=integer(body, "n", 1, 128) or 1,
        stop=_stop(body),
        max_tokens=_max_tokens(body),
        min_tokens=integer(body, "min_tokens", 0, 2**31) or 0,
        ignore_eos=boolean(body, "ignore_eos") or False,
        sampling=_sampling(body),
        seed=integer(body, "seed", -(2**63), 2**63 - 1),
        logprobs=logprobs,
        top_logprobs=top or 0,
        response_format=parse_structured_outputs(body) or parse_response_format(body),
        tools=tools,
        tool_choice=choice,
        parallel=parallel is not False and not functions,
        legacy=bool(functions),
        body=body,
    )


def _model(body: dict[str, Any], config: Config) -> str:
    model = string(body, "model")
    if not model:
        raise invalid("You must provide a model parameter.", "model", "missing_required_parameter")
    if model not in config.models:
        raise unknown_model(model)
    return model


def unknown_model(name: str) -> ApiError:
    return ApiError(
        404,
        f"The model '{name[:200]}' does not exist or you do not have access to it.",
        param="model",
        code="model_not_found",
    )


def _include_usage(body: dict[str, Any], stream: bool) -> bool:
    value = body.get("stream_options")
    if value is None:
        return False
    options = mapping(value, "stream_options")
    if not stream:
        raise invalid("'stream_options' is only allowed when 'stream' is true.", "stream_options")
    boolean(options, "include_obfuscation", "stream_options.include_obfuscation")
    return boolean(options, "include_usage", "stream_options.include_usage") or False


def _stop(body: dict[str, Any]) -> tuple[str, ...]:
    value = body.get("stop")
    if value is None:
        return ()
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        raise wrong_type("stop", "a string or an array of strings", value)
    if len(items) > 4:
        raise invalid("Invalid 'stop': at most 4 sequences are supported.", "stop", "array_above_max_length")
    for i, item in enumerate(items):
        if not isinstance(item, str):
            raise wrong_type(f"stop[{i}]", "a string", item)
        if not item:
            raise invalid("Invalid 'stop': a stop sequence cannot be empty.", "stop", "invalid_value")
    return tuple(items)


def _max_tokens(body: dict[str, Any]) -> int | None:
    """Both given: max_completion_tokens wins, as it is the successor of max_tokens."""
    old = integer(body, "max_tokens", 1, 2**31)
    new = integer(body, "max_completion_tokens", 1, 2**31)
    return new if new is not None else old


def _sampling(body: dict[str, Any]) -> Sampling:
    def value(name: str, low: float, high: float, default: float) -> float:
        found = number(body, name, low, high)
        return default if found is None else found

    return Sampling(
        temperature=value("temperature", 0, 2, 1.0),
        top_p=value("top_p", 0, 1, 1.0),
        top_k=max(0, integer(body, "top_k", -1, 2**31) or 0),
        min_p=value("min_p", 0, 1, 0.0),
        presence=value("presence_penalty", -2, 2, 0.0),
        frequency=value("frequency_penalty", -2, 2, 0.0),
        repetition=value("repetition_penalty", 0.01, 100, 1.0),
        logit_bias=_logit_bias(body),
    )


def _logit_bias(body: dict[str, Any]) -> tuple[tuple[int, float], ...]:
    value = body.get("logit_bias")
    if value is None:
        return ()
    pairs = []
    for key, bias in mapping(value, "logit_bias").items():
        if not (key.isascii() and key.isdigit() and len(key) < 10):
            raise invalid(f"Invalid key in 'logit_bias': '{key[:40]}' is no token id.", "logit_bias", "invalid_value")
        if isinstance(bias, bool) or not isinstance(bias, int | float):
            raise wrong_type("logit_bias", "numbers as values", bias)
        if not -100 <= bias <= 100:
            raise invalid("Invalid 'logit_bias': values lie between -100 and 100.", "logit_bias", "invalid_value")
        if int(key) >= SIZE:
            raise invalid(f"Invalid key in 'logit_bias': the vocabulary has {SIZE} tokens.", "logit_bias")
        pairs.append((int(key), float(bias)))
    return tuple(pairs)


def _check_hints(body: dict[str, Any]) -> None:
    """Parameters that do not change the answer, but have types; and features that this model lacks."""
    string(body, "user")
    boolean(body, "store")
    one_of(body, "service_tier", _TIERS)
    one_of(body, "reasoning_effort", _EFFORTS)
    one_of(body, "verbosity", ("low", "medium", "high"))
    _check_metadata(body.get("metadata"))
    modalities = body.get("modalities")
    if modalities is not None and array(modalities, "modalities") != ["text"]:
        raise invalid("This model answers in text only: 'modalities' supports ['text'].", "modalities")
    for name in ("audio", "web_search_options"):
        if body.get(name) is not None:
            raise invalid(f"This model does not support '{name}'.", name, "unsupported_parameter")


def _check_metadata(value: Any) -> None:
    if value is None:
        return
    metadata = mapping(value, "metadata")
    if len(metadata) > 16:
        raise invalid("Invalid 'metadata': at most 16 pairs are supported.", "metadata")
    for key, text in metadata.items():
        if not isinstance(text, str):
            raise wrong_type(f"metadata.{key[:64]}", "a string", text)
        if len(key) > 64 or len(text) > 512:
            raise invalid("Invalid 'metadata': keys have at most 64, values 512 characters.", "metadata")
