"""Legal variations of streamed tool calls: odd, and right. A SHOULD that complains is named."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from .. import Context, Layer, fault
from ..call_edits import each_fragment, fragments_of, joined, with_delta
from ..edits import each_part

Body = dict[str, Any]
Chunks = Iterator[Body]
_NOTHING: frozenset[str] = frozenset()


def _first_only(chunks: Chunks, whole: bool) -> Chunks:
    """A stream in which a call's first fragment has some of its arguments, or all."""
    held: Body | None = None
    for chunk in joined(chunks) if whole else chunks:
        calls = fragments_of(chunk)
        if held is not None:
            opened = copy.deepcopy(held)
            if calls and "id" not in calls[0]:
                fragments_of(opened)[0]["function"]["arguments"] = calls[0]["function"]["arguments"]
                yield opened
                held = None
                continue
            yield opened
        held = chunk if calls and "id" in calls[0] and len(chunk["choices"]) == 1 else None
        if held is None:
            yield chunk


@fault("legal.call-in-one-fragment", layer=Layer.CHUNK, breaks={"toolstream.arguments.incremental"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """A call comes whole, in one fragment, as Ollama and Gemini send it."""
    yield from chunks if ctx.chat is None or ctx.chat.n > 1 else _first_only(chunks, True)


@fault("legal.arguments-in-first-fragment", layer=Layer.CHUNK, breaks=_NOTHING)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The first fragment of a call has the beginning of its arguments already."""
    yield from chunks if ctx.chat is None or ctx.chat.n > 1 else _first_only(chunks, False)


@fault("legal.arguments-by-character", layer=Layer.CHUNK, breaks=_NOTHING)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Each fragment has one character, also within JSON escapes."""
    for chunk in chunks:
        calls = fragments_of(chunk)
        text = calls[0]["function"]["arguments"] if calls and "id" not in calls[0] else ""
        if len(text) < 2:
            yield chunk
            continue
        for letter in text:
            piece = {"index": calls[0]["index"], "function": {"arguments": letter}}
            yield with_delta(chunk, {"tool_calls": [piece]})


@fault("legal.arguments-escaped", layer=Layer.CHUNK, breaks={"toolstream.arguments.incremental"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Streamed arguments have \\u escapes and no spaces; the plain ones have neither."""

    def change(call: Body, first: bool) -> None:
        try:
            value = json.loads(call["function"]["arguments"])
        except ValueError:  # cut
            return
        call["function"]["arguments"] = json.dumps(value, separators=(",", ":"))

    yield from each_fragment(joined(chunks), change)


@fault("legal.empty-last-fragment", layer=Layer.CHUNK, breaks=_NOTHING)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Each fragment is followed by one with empty arguments, as vLLM's parsers end a call."""
    for chunk in chunks:
        yield chunk
        for call in fragments_of(chunk):
            if "id" not in call:
                yield with_delta(chunk, {"tool_calls": [{"index": call["index"], "function": {"arguments": ""}}]})


@fault("legal.type-in-every-fragment", layer=Layer.CHUNK, breaks=_NOTHING)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Each fragment says type "function" again."""
    yield from each_fragment(chunks, lambda call, first: call.update(type="function"))


@fault(
    "legal.nulls-in-tool-deltas",
    layer=Layer.CHUNK,
    breaks={"chunk.null.only-where-allowed", "toolstream.null.members"},
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Deltas with a call have role, content and reasoning_content as null, and later fragments id and name."""

    def change(choice: Body) -> None:
        delta = choice["delta"]
        if delta.get("tool_calls"):
            choice["delta"] = {"role": None, "content": None, "reasoning_content": None, **delta}

    def nulls(call: Body, first: bool) -> None:
        if not first:
            call.update(id=None, type="function", function={"name": None, **call["function"]})

    yield from each_fragment(each_part(chunks, change), nulls)


@fault("legal.content-empty-in-tool-deltas", layer=Layer.CHUNK, breaks=_NOTHING)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Deltas with a call have content "" beside it, as llama.cpp's have."""

    def change(choice: Body) -> None:
        if choice["delta"].get("tool_calls"):
            choice["delta"] = {"content": "", **choice["delta"]}

    yield from each_part(chunks, change)


@fault("legal.vendor-members-in-calls", layer=Layer.CHUNK, breaks=_NOTHING)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Calls have members of vendors: Gemini's extra_content with a thought signature, and a provider's own."""

    def change(call: Body, first: bool) -> None:
        if first:
            call["extra_content"] = {"google": {"thought_signature": "CiQB"}}
            call["provider_specific_fields"] = {"thought_signature": "CiQB"}

    yield from each_fragment(chunks, change)


@fault("legal.call-ids-of-other-forms", layer=Layer.CHUNK, breaks=_NOTHING)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Ids are nine letters and digits, as Mistral's, without "call_"."""

    def change(call: Body, first: bool) -> None:
        if first:
            call["id"] = call["id"][-9:]

    yield from each_fragment(chunks, change)


@fault("legal.interleaved-calls", layer=Layer.CHUNK, breaks={"parallel.calls.sequential"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Two calls take turns: clients that go by the index read them, LlamaIndex does not."""
    held: list[Body] = []
    for chunk in chunks:
        calls = fragments_of(chunk)
        if calls and calls[0]["index"] == 0 and "id" not in calls[0] and ctx.chat and ctx.chat.n == 1:
            held.append(chunk)
            continue
        if calls and calls[0]["index"] == 1 and "id" not in calls[0] and held:
            yield held.pop(0)
        if held and not calls:
            yield from held
            held = []
        yield chunk


@fault(
    "legal.calls-in-one-delta",
    layer=Layer.CHUNK,
    breaks={"parallel.chunk.one-entry", "toolstream.arguments.incremental"},
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """All calls of a choice come in one delta, as Gemini and Ollama send them; LlamaIndex reads the first."""
    whole: list[Body] = []
    last: Body | None = None
    for chunk in chunks if ctx.chat is None or ctx.chat.n > 1 else _first_only(chunks, True):
        if fragments_of(chunk) and ctx.chat and ctx.chat.n == 1:
            whole += fragments_of(chunk)
            last = chunk
            continue
        if last is not None:
            yield with_delta(last, {"tool_calls": whole})
            last = None
        yield chunk


@fault("legal.white-space-between-calls", layer=Layer.CHUNK, breaks={"chunk.parity.with-plain"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """A line break is streamed as text after each call, as vLLM's Hermes parser did."""
    called = False
    for chunk in chunks:
        calls = fragments_of(chunk)
        if called and not calls and chunk["choices"] and ctx.chat and not ctx.chat.logprobs and ctx.chat.n == 1:
            yield with_delta(chunk, {"content": "\n"})
            called = False
        called = called or bool(calls)
        yield chunk
