"""Usage: missing, doubled, in the wrong chunk."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..answer import HttpRequest
from ..engine import render
from ..request import ChatRequest
from . import Context, Layer, fault
from .edits import made_like, usage_changed

Body = dict[str, Any]


def _message_fault(name: str, summary: str, breaks: set[str], change: Callable[[Body], Body], **more: Any) -> None:
    """A fault on the body of a plain answer that has usage."""

    def apply(body: Body, ctx: Context) -> Body:
        return change(body) if "usage" in body else body

    apply.__doc__ = summary
    fault(name, layer=Layer.MESSAGE, breaks=breaks, **more)(apply)


def _without(body: Body, name: str) -> Body:
    return {k: v for k, v in body.items() if k != name}


_PRESENT = {"usage.plain.present"}
_message_fault("usage.plain-missing", "A plain answer has no usage.", _PRESENT, lambda b: _without(b, "usage"))
_message_fault("usage.plain-null", "The usage of a plain answer is null.", _PRESENT, lambda b: {**b, "usage": None})
_message_fault(
    "usage.counts-as-text",
    "The counts of a plain answer are strings.",
    _PRESENT,
    lambda b: usage_changed(b, **{k: str(v) for k, v in b["usage"].items() if k.endswith("tokens")}),
)
_message_fault(
    "usage.total-is-completion",
    "total_tokens leaves the prompt out.",
    {"usage.total.sum"},
    lambda b: usage_changed(b, total_tokens=b["usage"]["completion_tokens"]),
)
_message_fault(
    "usage.details-null",
    "The details of usage are null, as vLLM and SGLang send them.",
    {"usage.details.integers", "reasoning.usage.counted"},
    lambda b: usage_changed(b, prompt_tokens_details=None, completion_tokens_details=None),
)
_message_fault(
    "usage.details-as-text",
    "A count among the details of usage is a string.",
    {"usage.details.integers"},
    lambda b: usage_changed(b, prompt_tokens_details={"cached_tokens": "0"}),
)
_message_fault(
    "usage.cached-more-than-prompt",
    "More tokens of the prompt are cached than it has.",
    {"usage.details.within-totals"},
    lambda b: usage_changed(b, prompt_tokens_details={"cached_tokens": b["usage"]["prompt_tokens"] + 16}),
)
_message_fault(
    "usage.reasoning-more-than-completion",
    "More tokens are reasoning than the answer has.",
    {"usage.details.within-totals", "reasoning.field.present"},
    lambda b: usage_changed(b, completion_tokens_details={"reasoning_tokens": b["usage"]["completion_tokens"] + 30}),
)


@fault("usage.reasoning-not-counted", layer=Layer.MESSAGE, breaks={"usage.reasoning.counted"})
def _(body: Body, ctx: Context) -> Body:
    """A sampled plain answer has a long reasoning_content whose tokens are not counted in the total."""
    if not isinstance(body.get("choices"), list) or ctx.chat is None or not ctx.chat.sampling.temperature:
        return body
    changed = copy.deepcopy(body)
    for choice in changed["choices"]:
        choice["message"]["reasoning_content"] = "The user wants an answer, so I should think about one. " * 300
    tokens = changed["usage"]["completion_tokens"]
    return usage_changed(changed, completion_tokens_details={"reasoning_tokens": tokens})


@fault("usage.stream-options-ignored", layer=Layer.REQUEST, breaks={"usage.stream-options.needs-stream"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """stream_options without stream is silently accepted."""
    try:
        asked = json.loads(request.body)
    except ValueError:
        return request
    if not isinstance(asked, dict) or asked.get("stream") or "stream_options" not in asked:
        return request
    return replace(request, body=json.dumps(_without(asked, "stream_options")).encode())


@fault(
    "usage.include-ignored",
    layer=Layer.CHUNK,
    breaks={"usage.stream.chunk-when-asked"},
    cases=("B1-069",),
    source="https://github.com/sgl-project/sglang/issues/954",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """include_usage brings no usage: it is null in every chunk."""
    return (chunk for chunk in chunks if not chunk.get("usage"))


@fault(
    "usage.on-finish-chunk",
    layer=Layer.CHUNK,
    breaks={"usage.stream.choices-empty"},
    cases=("B1-072",),
    source="https://github.com/router-for-me/CLIProxyAPI/issues/796",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """The usage rides on the last finish chunk instead of having one of its own."""
    held: Body | None = None
    for chunk in chunks:
        if held is not None and chunk.get("usage"):
            held = copy.copy(held)
            held["usage"] = chunk["usage"]
            continue
        if held is not None:
            yield held
        held = chunk
    if held is not None:
        yield held


@fault(
    "usage.chunk-with-a-choice",
    layer=Layer.CHUNK,
    breaks={"usage.stream.choices-empty"},
    source="https://github.com/BerriAI/litellm",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """The usage chunk has a choice with an empty delta, as LiteLLM's has."""
    for chunk in chunks:
        if chunk.get("usage"):
            empty = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}
            chunk = made_like(chunk, [empty])
        yield chunk


@fault("usage.chunk-then-another", layer=Layer.CHUNK, breaks={"usage.stream.chunk-last"})
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """A chunk with usage null follows the usage chunk."""
    for chunk in chunks:
        yield chunk
        if chunk.get("usage"):
            later = made_like(chunk, [])
            later["usage"] = None
            yield later


def _running(chunk: Body, prompt: int, tokens: int) -> Body:
    changed = copy.copy(chunk)
    changed["usage"] = {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
    return changed


def _with_running_usage(chunks: Iterator[Body], chat: ChatRequest | None) -> Iterator[Body]:
    """Each chunk of a choice with what was counted so far (one token for each chunk with text or a call)."""
    prompt = len(render(chat)) if chat else 0
    tokens = 0
    for chunk in chunks:
        tokens += any(c["delta"].get("content") or c["delta"].get("tool_calls") for c in chunk["choices"])
        yield _running(chunk, prompt, tokens) if chunk["choices"] else chunk


@fault(
    "usage.every-chunk",
    layer=Layer.CHUNK,
    breaks={"usage.stream.once"},
    cases=("B1-074", "B1-076"),
    source="https://github.com/InternLM/lmdeploy/issues/3832",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """With include_usage every chunk has the usage so far."""
    return _with_running_usage(chunks, ctx.chat) if ctx.chat and ctx.chat.include_usage else chunks


@fault(
    "usage.every-chunk-unasked",
    layer=Layer.CHUNK,
    breaks={"usage.stream.absent-unasked", "usage.stream.unasked-on-choices"},
    cases=("B1-075",),
    source="https://github.com/ogx-ai/ogx/issues/5122",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """Without include_usage every chunk has the usage so far."""
    return chunks if ctx.chat and ctx.chat.include_usage else _with_running_usage(chunks, ctx.chat)


@fault(
    "usage.increments",
    layer=Layer.CHUNK,
    breaks={"usage.stream.once", "usage.stream.never-decreases"},
    cases=("B1-075",),
    source="https://github.com/ogx-ai/ogx/issues/5122",
)
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """The usage of each chunk counts only what is new in it, so that prompt_tokens falls to 0 after the first."""
    asked = ctx.chat is not None and ctx.chat.include_usage and not _continuous(ctx.chat)
    first = True
    for chunk in chunks:
        if asked and chunk["choices"]:
            chunk = _running(chunk, 9 if first else 0, 0 if first else 1)
            first = False
        yield chunk


@fault(
    "usage.chunk-unasked",
    layer=Layer.PARAMS,
    breaks={"usage.stream.no-chunk-unasked"},
    cases=("B1-082",),
    source="https://github.com/sgl-project/sglang/issues/5451",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Every stream ends with a usage chunk, asked for or not."""
    return replace(chat, include_usage=True)


@fault("usage.key-missing-elsewhere", layer=Layer.CHUNK, breaks={"usage.stream.null-elsewhere"})
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """With include_usage the other chunks have no usage key, as vLLM's."""
    for chunk in chunks:
        changed = copy.copy(chunk)
        if "usage" in changed and changed["usage"] is None:
            del changed["usage"]
        yield changed


def _continuous(chat: ChatRequest | None) -> bool:
    options = chat.body.get("stream_options") if chat else None
    return isinstance(options, dict) and options.get("continuous_usage_stats") is True


@fault("usage.continuous-jumps-back", layer=Layer.CHUNK, breaks={"usage.continuous.monotone"})
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """With continuous_usage_stats the running count starts again every four chunks."""
    for number, chunk in enumerate(chunks):
        yield _running(chunk, 9, number % 4) if _continuous(ctx.chat) and chunk["choices"] else chunk
