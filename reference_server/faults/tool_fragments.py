"""Fragments of streamed tool calls whose members are wrong, missing, or in the wrong place."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ..answer import Frame
from . import Context, Layer, fault
from .call_edits import each_call_choice, each_fragment, fragments_of, joined, with_delta

Body = dict[str, Any]
Chunks = Iterator[Body]


@fault(
    "toolstream.index-missing",
    layer=Layer.CHUNK,
    breaks={"toolstream.fragment.index-integer"},
    cases=("B2-032",),
    source="https://github.com/ollama/ollama/issues/7881",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The fragments of a call have no index."""
    yield from each_fragment(chunks, lambda call, first: call.pop("index"))


@fault(
    "toolstream.index-null",
    layer=Layer.CHUNK,
    breaks={"toolstream.fragment.index-integer"},
    cases=("B2-033",),
    source="https://github.com/openai/openai-python/issues/2806",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The index of each fragment is null."""
    yield from each_fragment(chunks, lambda call, first: call.update(index=None))


@fault(
    "toolstream.object-for-list",
    layer=Layer.CHUNK,
    breaks={"toolstream.fragment.index-integer"},
    cases=("B2-072",),
    source="https://github.com/huggingface/text-generation-inference/issues/2794",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """delta.tool_calls is one object, not an array."""
    yield from each_call_choice(chunks, lambda c: c["delta"].update(tool_calls=c["delta"]["tool_calls"][0]))


@fault(
    "toolstream.index-of-the-tool",
    layer=Layer.CHUNK,
    breaks={"parallel.index.distinct", "toolstream.index.ascending"},
    cases=("B2-034",),
    source="https://github.com/sgl-project/sglang/issues/38198",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The index is the place of the function in the request's list of tools."""
    names = [tool.name for tool in ctx.chat.tools] if ctx.chat else []
    place = 0

    def change(call: Body, first: bool) -> None:
        nonlocal place
        place = names.index(call["function"]["name"]) if first else place
        call["index"] = place

    yield from each_fragment(chunks, change)


@fault(
    "toolstream.index-from-one",
    layer=Layer.CHUNK,
    breaks={"toolstream.index.ascending"},
    cases=("B2-035",),
    source="https://github.com/pipecat-ai/pipecat/issues/4987",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The first call has index 1."""
    yield from each_fragment(chunks, lambda call, first: call.update(index=call["index"] + 1))


@fault(
    "toolstream.head-and-tail-apart",
    layer=Layer.CHUNK,
    breaks={"parallel.index.distinct", "toolstream.id.one-index"},
    cases=("B2-036",),
    source="https://github.com/agno-agi/agno/issues/8880",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The first fragment of the second call has the index of the first call, the others have its own."""
    yield from each_fragment(chunks, lambda call, first: call.update(index=0) if first else None)


@fault(
    "toolstream.empty-members-later",
    layer=Layer.CHUNK,
    breaks={"toolstream.null.members"},
    cases=("B2-038",),
    source="https://github.com/anomalyco/opencode/issues/40969",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Later fragments have an id and a name that are empty strings."""

    def change(call: Body, first: bool) -> None:
        if not first:
            call.update(id="", function={"name": "", **call["function"]})

    yield from each_fragment(chunks, change)


@fault(
    "toolstream.null-members-later",
    layer=Layer.CHUNK,
    breaks={"chunk.null.only-where-allowed", "toolstream.null.members"},
    cases=("B2-039",),
    source="https://github.com/sgl-project/sglang/issues/35542",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Later fragments have id, type and name as null."""

    def change(call: Body, first: bool) -> None:
        if not first:
            call.update(id=None, type=None, function={"name": None, **call["function"]})

    yield from each_fragment(chunks, change)


@fault(
    "toolstream.id-in-function",
    layer=Layer.CHUNK,
    breaks={"toolstream.first.complete", "toolstream.fragment.known-members"},
    cases=("B2-045",),
    source="https://github.com/ggml-org/llama.cpp/pull/13800",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The id stands in the function object, and there is no type."""

    def change(call: Body, first: bool) -> None:
        if first:
            call["function"]["id"] = call.pop("id")
            del call["type"]

    yield from each_fragment(chunks, change)


@fault("toolstream.type-missing", layer=Layer.CHUNK, breaks={"toolstream.first.complete"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """A call has no type."""
    yield from each_fragment(chunks, lambda call, first: call.pop("type", None))


@fault(
    "toolstream.id-missing",
    layer=Layer.CHUNK,
    breaks={"toolstream.first.complete"},
    source="https://github.com/vllm-project/vllm/issues/16340",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """A call of a named function has no id, as in vLLM 0.8."""

    def change(call: Body, first: bool) -> None:
        if ctx.chat and ctx.chat.tool_choice.name:
            call.pop("id", None)

    yield from each_fragment(chunks, change)


@fault(
    "toolstream.id-null-first",
    layer=Layer.CHUNK,
    breaks={"chunk.null.only-where-allowed", "toolstream.first.arguments-string", "toolstream.first.complete"},
    cases=("B2-049",),
    source="https://github.com/vllm-project/vllm/issues/9693",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The first fragment has the name, and null as id and as arguments."""

    def change(call: Body, first: bool) -> None:
        if first:
            call["id"] = call["function"]["arguments"] = None

    yield from each_fragment(chunks, change)


@fault(
    "toolstream.name-late",
    layer=Layer.CHUNK,
    breaks={"toolstream.first.complete"},
    cases=("B2-047",),
    source="https://github.com/anomalyco/opencode/issues/24137",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The first fragment has id and arguments; the name comes in the next one."""
    for chunk in chunks:
        first = next((call for call in fragments_of(chunk) if "id" in call), None)
        if first is None:
            yield chunk
            continue
        function = {"arguments": first["function"]["arguments"]}
        yield with_delta(chunk, {"tool_calls": [{**first, "function": function}]})
        name = {"name": first["function"]["name"]}
        yield with_delta(chunk, {"tool_calls": [{"index": first["index"], "function": name}]})


@fault("toolstream.first-without-arguments", layer=Layer.CHUNK, breaks={"toolstream.first.arguments-string"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The first fragment has no arguments, as vLLM's has none."""
    yield from each_fragment(chunks, lambda call, first: first and call["function"].pop("arguments"))


@fault("toolstream.id-repeated", layer=Layer.CHUNK, breaks={"toolstream.id.once"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Each fragment repeats the id of its call."""
    known = ""

    def change(call: Body, first: bool) -> None:
        nonlocal known
        known = call["id"] if first else known
        call["id"] = known

    yield from _one_choice(chunks, ctx, change)


@fault(
    "toolstream.name-repeated",
    layer=Layer.CHUNK,
    breaks={"toolstream.name.once"},
    source="https://github.com/ggml-org/llama.cpp/pull/13800",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Each fragment repeats the name of the function, as vLLM 0.8 did for a named one."""
    known = ""

    def change(call: Body, first: bool) -> None:
        nonlocal known
        known = call["function"]["name"] if first else known
        call["function"]["name"] = known

    yield from _one_choice(chunks, ctx, change)


def _one_choice(chunks: Chunks, ctx: Context, change: Any) -> Chunks:
    """`each_fragment` for streams with one choice: what is remembered is that of one call at a time."""
    yield from chunks if ctx.chat is None or ctx.chat.n > 1 else each_fragment(chunks, change)


@fault("toolstream.name-in-pieces", layer=Layer.CHUNK, breaks={"toolstream.name.whole"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The name comes in two fragments, token by token."""
    for chunk in chunks:
        first = next((call for call in fragments_of(chunk) if "id" in call), None)
        name = first["function"]["name"] if first else ""
        if first is None or len(name) < 2:
            yield chunk
            continue
        function = {"name": name[: len(name) // 2], "arguments": ""}
        yield with_delta(chunk, {"tool_calls": [{**first, "function": function}]})
        rest = {"name": name[len(name) // 2 :], "arguments": ""}
        yield with_delta(chunk, {"tool_calls": [{"index": first["index"], "function": rest}]})


def _tails(chunks: Iterable[Body], extra: Body) -> Iterator[Body]:
    """A stream in which each call ends with one more fragment."""
    for chunk in chunks:
        yield chunk
        for call in fragments_of(chunk):
            if "id" in call:
                yield with_delta(chunk, {"tool_calls": [{"index": call["index"], **extra}]})


@fault("toolstream.function-missing", layer=Layer.CHUNK, breaks={"toolstream.fragment.function-object"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """A later fragment has a type and no function."""
    yield from _tails(chunks, {"type": "function"})


@fault("toolstream.function-null", layer=Layer.CHUNK, breaks={"toolstream.fragment.function-object"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """A later fragment has null as its function."""
    yield from _tails(chunks, {"function": None})


@fault(
    "toolstream.arguments-object",
    layer=Layer.CHUNK,
    breaks={"toolstream.arguments.no-object"},
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The arguments of a call come at once, as an object."""

    def change(call: Body, first: bool) -> None:
        try:
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        except ValueError:  # cut
            call["function"]["arguments"] = {}

    yield from each_fragment(joined(chunks), change)


@fault(
    "toolstream.empty-list",
    layer=Layer.CHUNK,
    breaks={"toolstream.list.not-empty"},
    cases=("B2-066",),
    source="https://github.com/n4ze3m/page-assist/issues/614",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Each delta with text also has `tool_calls: []`."""
    for chunk in chunks:
        choices = [
            {**c, "delta": {**c["delta"], "tool_calls": []}} if c["delta"].get("content") else c
            for c in chunk["choices"]
        ]
        changed = chunk.changed(choices=choices) if hasattr(chunk, "changed") else {**chunk, "choices": choices}
        yield changed


@fault(
    "toolstream.emoji-in-halves",
    layer=Layer.SSE,
    breaks={
        "sse.text.no-lone-surrogate",
        "tool.arguments.unicode-exact",
        "tool.strict.valid",
        "toolstream.fragment.unicode",
    },
    cases=("B2-028",),
    source="https://github.com/openclaw/openclaw/issues/115536",
)
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Arguments are cut between UTF-16 units: half an emoji in each of two events."""
    for frame in frames:
        chunk = json.loads(frame.data[6:]) if frame.data.startswith(b"data: {") else {"choices": []}
        call = next(iter(fragments_of(chunk)), None)
        text = call["function"].get("arguments", "") if call else ""
        at = next((i for i, letter in enumerate(text) if ord(letter) > 0xFFFF), -1)
        if at < 0:
            yield frame
            continue
        units = text[at].encode("utf-16-be")
        halves = [units[i : i + 2].decode("utf-16-be", "surrogatepass") for i in (0, 2)]
        for part in (text[:at] + halves[0], halves[1] + text[at + 1 :]):
            fragments_of(chunk)[0]["function"]["arguments"] = part
            yield Frame(b"data: " + json.dumps(chunk).encode() + b"\n\n")


@fault(
    "toolstream.characters-lost",
    layer=Layer.CHUNK,
    breaks={
        "tool.argument.markers-survive",
        "tool.arguments.unicode-exact",
        "tool.strict.valid",
        "toolstream.fragment.unicode",
    },
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Characters of several tokens come as U+FFFD in arguments."""

    def change(call: Body, first: bool) -> None:
        text = call["function"]["arguments"]
        call["function"]["arguments"] = "".join(c if c.isascii() else "\ufffd" for c in text)

    yield from each_fragment(chunks, change)
