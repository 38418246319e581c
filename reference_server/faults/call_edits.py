"""Helpers for faults on streamed tool calls: change a copy of each fragment, keep the timing. No fault is here."""

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import Context
from .edits import made_like

Body = dict[str, Any]


def fragments_of(chunk: Body) -> list[Body]:
    """The entries of `tool_calls` of all choices of a chunk."""
    return [call for choice in chunk["choices"] for call in choice["delta"].get("tool_calls", ())]


def each_fragment(chunks: Iterable[Body], change: Callable[[Body, bool], object]) -> Iterator[Body]:
    """A stream with `change` done to a copy of each fragment; it is told whether it is the first of its call."""
    for chunk in chunks:
        changed = copy.deepcopy(chunk)
        for call in fragments_of(changed):
            change(call, "id" in call)
        yield changed


def each_call_choice(chunks: Iterable[Body], change: Callable[[Body], None]) -> Iterator[Body]:
    """A stream with `change` done to a copy of each choice that has a fragment."""
    for chunk in chunks:
        changed = copy.deepcopy(chunk)
        for choice in changed["choices"]:
            if choice["delta"].get("tool_calls"):
                change(choice)
        yield changed


def with_delta(chunk: Body, delta: Body) -> Body:
    """Another chunk with this delta for the first choice of a chunk."""
    choice = chunk["choices"][0]
    return made_like(chunk, [{**choice, "delta": delta, "logprobs": None, "finish_reason": None}])


def joined(chunks: Iterable[Body]) -> Iterator[Body]:
    """A stream in which each call comes as one fragment, with all its arguments, when it is complete."""
    held: dict[int, list[Body]] = {}

    def release(index: int) -> Iterator[Body]:
        chunks = held.pop(index, [])
        if chunks:
            whole = copy.deepcopy(chunks[0])
            function = fragments_of(whole)[0]["function"]
            function["arguments"] = "".join(fragments_of(c)[0]["function"]["arguments"] for c in chunks)
            yield whole

    for chunk in chunks:
        index = chunk["choices"][0]["index"] if chunk["choices"] else -1
        calls = fragments_of(chunk)
        if calls and "id" not in calls[0]:
            held.setdefault(index, []).append(chunk)
            continue
        yield from release(index)
        if calls:
            held[index] = [chunk]
        else:
            yield chunk


def forced(ctx: Context) -> bool:
    """Whether a call must come."""
    return ctx.chat is not None and ctx.chat.tool_choice.forced


def offered(ctx: Context) -> bool:
    """Whether tools are there, and the model may choose."""
    return ctx.chat is not None and bool(ctx.chat.callable_tools) and not ctx.chat.tool_choice.forced


def cut_soon(ctx: Context) -> bool:
    """Whether a forced call is cut by the limit on tokens."""
    return forced(ctx) and ctx.chat is not None and (ctx.chat.max_tokens or 99) <= 20
