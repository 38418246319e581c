"""Streams with tool calls that are put together wrongly, say too much beside them, or break when they are cut."""

import copy
from collections.abc import Iterator
from typing import Any

from ..answer import DONE_FRAME, Frame
from ..protocol import dumps
from . import Context, Layer, fault
from .call_edits import cut_soon, each_fragment, forced, fragments_of, joined, offered, with_delta
from .edits import each_choice, each_part, made_like

Body = dict[str, Any]
Chunks = Iterator[Body]
Frames = Iterator[Frame]


@fault(
    "toolstream.calls-end-with-stop",
    layer=Layer.CHUNK,
    breaks={"finish.parity.with-plain", "finish.tool-calls.when-called"},
    cases=("B2-008", "B2-009"),
    source="https://github.com/ollama/ollama/issues/7963",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Streamed calls that the model chose to make end with stop; without stream they end with tool_calls."""
    swap = offered(ctx)
    yield from each_part(
        chunks, lambda c: c.update(finish_reason="stop") if swap and c["finish_reason"] == "tool_calls" else None
    )


def _as_text(chunks: Chunks, text: str | None) -> Chunks:
    """A stream whose calls are text instead: as bare JSON, or as the given words. It ends with stop."""
    said = False
    for chunk in joined(chunks):
        calls = fragments_of(chunk)
        if calls:
            function = calls[0]["function"]
            bare = f'{{"name": "{function["name"]}", "arguments": {function["arguments"]}}}'
            if not said:
                yield with_delta(chunk, {"content": bare if text is None else text})
            said = True
        else:
            yield _ended_with_stop(chunk)


def _ended_with_stop(chunk: Body) -> Body:
    changed = copy.deepcopy(chunk)
    for choice in changed["choices"]:
        if choice["finish_reason"] == "tool_calls":
            choice["finish_reason"] = "stop"
    return changed


@fault(
    "toolstream.call-as-json-text",
    layer=Layer.CHUNK,
    breaks={"chunk.parity.with-plain", "toolstream.content.no-markup"},
    cases=("B2-012",),
    source="https://github.com/sgl-project/sglang/issues/3387",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """A call that the model chose to make is streamed as text: its JSON stands in the content."""
    return _as_text(chunks, None) if offered(ctx) else chunks


@fault(
    "toolstream.marker-in-pieces",
    layer=Layer.CHUNK,
    breaks={"chunk.parity.with-plain", "toolstream.marker.split"},
    cases=("B2-056",),
    source="https://github.com/vllm-project/vllm/issues/57490",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The opening marker comes in two steps: its first half is text, and the call is lost."""
    return _as_text(chunks, "<|action") if offered(ctx) else chunks


@fault(
    "toolstream.half-marker-before-call",
    layer=Layer.CHUNK,
    breaks={
        "chunk.parity.with-plain",
        "toolstream.content.no-markup",
        "toolstream.content.no-markup-when-cut",
    },
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The beginning of the opening marker is sent as text before the call."""
    for chunk in chunks:
        first = any("id" in call and call["index"] == 0 for call in fragments_of(chunk))
        if first and ctx.chat and not ctx.chat.logprobs:
            yield with_delta(chunk, {"content": "<tool_c"})
        yield chunk


@fault(
    "toolstream.cut-marker-in-plain",
    layer=Layer.MESSAGE,
    breaks={"chunk.parity.with-plain", "tool.content.no-markup-when-cut"},
    cases=("B2-018",),
    source="https://github.com/vllm-project/vllm/issues/47903",
)
def _(body: Body, ctx: Context) -> Body:
    """Cut within the opening marker, the plain answer shows the raw tag; the stream shows nothing."""

    def change(choice: Body) -> None:
        if forced(ctx) and choice["finish_reason"] == "length" and not choice["message"].get("tool_calls"):
            choice["message"]["content"] = "<tool_call>\n<fun"

    return each_choice(body, change)


@fault(
    "toolstream.finish-repeats-call",
    layer=Layer.CHUNK,
    breaks={"chunk.finish.empty-delta", "toolstream.id.once", "toolstream.name.once"},
    cases=("B2-041",),
    source="https://github.com/vllm-project/vllm/issues/44098",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The chunk that finishes repeats id, type and name of the call, with its last arguments."""
    first: dict[int, Body] = {}
    held: Body | None = None
    for chunk in chunks:
        if held is not None and chunk["choices"] and chunk["choices"][0]["finish_reason"]:
            call = fragments_of(held)[0]
            opened = first[call["index"]]
            again = {**opened, "function": {"name": opened["function"]["name"], **call["function"]}}
            yield made_like(chunk, [{**chunk["choices"][0], "delta": {"tool_calls": [again]}}])
            held = None
            continue
        if held is not None:
            yield held
        held = None
        calls = fragments_of(chunk)
        if calls and "id" in calls[0]:
            first[calls[0]["index"]] = calls[0]
        if calls and "id" not in calls[0] and ctx.chat and ctx.chat.n == 1:
            held = chunk
        else:
            yield chunk


@fault(
    "toolstream.no-arguments-for-none",
    layer=Layer.CHUNK,
    breaks={"toolstream.arguments.empty-object"},
    cases=("B2-050",),
    source="https://github.com/vllm-project/vllm/issues/28806",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """A function without parameters is called with its name and no arguments at all."""
    bare = ctx.chat is not None and not any((t.parameters or {}).get("properties") for t in ctx.chat.tools)
    for chunk in chunks:
        if not (bare and any("id" not in call for call in fragments_of(chunk))):
            yield chunk


@fault("toolstream.no-arguments-when-forced", layer=Layer.CHUNK, breaks={"toolstream.arguments.one-json"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """A named function that needs arguments is called with none."""
    needs = ctx.chat is not None and any((t.parameters or {}).get("required") for t in ctx.chat.tools)
    named = needs and ctx.chat is not None and ctx.chat.tool_choice.name is not None
    for chunk in chunks:
        if not (named and any("id" not in call for call in fragments_of(chunk))):
            yield chunk


def _loose(ctx: Context) -> bool:
    """Whether nothing but the model sees to it that arguments are JSON."""
    return offered(ctx) and ctx.chat is not None and not any(tool.strict for tool in ctx.chat.tools)


@fault(
    "toolstream.arguments-emptied",
    layer=Layer.CHUNK,
    breaks={"toolstream.parity.with-plain"},
    cases=("B2-054",),
    source="https://github.com/vllm-project/vllm/issues/31501",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """With larger steps, a call that the model chose to make has {} for its arguments."""
    if not _loose(ctx):
        yield from chunks
        return
    yield from each_fragment(joined(chunks), lambda call, first: call["function"].update(arguments="{}"))


def _without_last_bracket(chunks: Chunks) -> Chunks:
    """A stream in which the last fragment of each call lacks its closing bracket."""
    held: dict[int, Body] = {}
    for chunk in chunks:
        index = chunk["choices"][0]["index"] if chunk["choices"] else -1
        calls = fragments_of(chunk)
        before = held.pop(index, None)
        if before is not None and (not calls or "id" in calls[0]):
            text = fragments_of(before)[0]["function"]["arguments"].removesuffix("}")
            last = {"index": fragments_of(before)[0]["index"], "function": {"arguments": text}}
            before = with_delta(before, {"tool_calls": [last]})
        if before is not None:
            yield before
        if calls and "id" not in calls[0]:
            held[index] = chunk
        else:
            yield chunk


@fault(
    "toolstream.tail-lost-in-auto",
    layer=Layer.CHUNK,
    breaks={"toolstream.arguments.whole-in-auto", "toolstream.parity.with-plain"},
    cases=("B2-055",),
    source="https://github.com/vllm-project/vllm/issues/48702",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The closing bracket of arguments never comes when the model chose to make the call."""
    return _without_last_bracket(chunks) if _loose(ctx) else chunks


@fault(
    "toolstream.tail-lost-when-forced",
    layer=Layer.CHUNK,
    breaks={"toolstream.arguments.one-json"},
    cases=("B2-055",),
    source="https://github.com/vllm-project/vllm/issues/21046",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The closing bracket of arguments never comes when the call was forced."""
    return _without_last_bracket(chunks) if forced(ctx) else chunks


@fault("toolstream.cumulative", layer=Layer.CHUNK, breaks={"toolstream.arguments.one-json"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Each fragment repeats all of the arguments so far."""
    so_far: dict[int, str] = {}

    def change(call: Body, first: bool) -> None:
        text = ("" if first else so_far.get(call["index"], "")) + call["function"]["arguments"]
        so_far[call["index"]] = call["function"]["arguments"] = text

    yield from chunks if ctx.chat is None or ctx.chat.n > 1 else each_fragment(chunks, change)


@fault("toolstream.one-blob", layer=Layer.CHUNK, breaks={"toolstream.arguments.incremental"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Arguments come in one piece, when they are complete."""
    yield from joined(chunks)


@fault("toolstream.role-late", layer=Layer.CHUNK, breaks={"chunk.role.first", "toolstream.role.before"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The role of an answer with a forced call comes after the first fragment."""
    alone = ctx.chat is not None and ctx.chat.n == 1 and forced(ctx)
    held: Body | None = None
    for chunk in chunks:
        if alone and chunk["choices"] and "role" in chunk["choices"][0]["delta"]:
            held = chunk
            continue
        late = held if fragments_of(chunk) else None
        if held is not None and late is None:
            yield held
        yield chunk
        if late is not None:
            yield made_like(late, late["choices"])
        held = None


@fault(
    "toolstream.fragment-after-finish",
    layer=Layer.CHUNK,
    breaks={"chunk.finish.nothing-after", "toolstream.finish.after"},
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The last fragment of the arguments comes after finish_reason."""
    late: dict[int, Body] = {}
    for chunk in chunks:
        choice: Body = chunk["choices"][0] if chunk["choices"] else {"index": -1, "delta": {}, "finish_reason": None}
        before = late.pop(choice["index"], None)
        if before is not None and not choice["finish_reason"]:
            yield before
        if any("id" not in call for call in fragments_of(chunk)):
            late[choice["index"]] = chunk
            continue
        yield chunk
        if before is not None and choice["finish_reason"]:
            yield made_like(before, before["choices"])


@fault(
    "toolstream.text-after-calls",
    layer=Layer.CHUNK,
    breaks={"chunk.parity.with-plain", "toolstream.content.before-calls"},
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Text follows the tool calls of a choice."""
    called: set[int] = set()
    for chunk in chunks:
        for choice in chunk["choices"]:
            if choice["finish_reason"] and choice["index"] in called and ctx.chat and not ctx.chat.logprobs:
                yield with_delta(chunk, {"content": " Let me look."})
            if choice["delta"].get("tool_calls"):
                called.add(choice["index"])
        yield chunk


@fault(
    "toolstream.history-in-text",
    layer=Layer.CHUNK,
    breaks={"toolstream.history.no-leak"},
    cases=("B2-058",),
    source="https://github.com/raullenchai/Rapid-MLX/issues/1592",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """After a tool result the stream begins with the call as the server's own template rendered it."""
    asked = next((c for m in ctx.chat.messages for c in m.tool_calls), None) if ctx.chat else None
    for chunk in chunks:
        yield chunk
        if asked is not None and chunk["choices"] and "role" in chunk["choices"][0]["delta"]:
            yield with_delta(chunk, {"content": f": {asked.name}({asked.arguments})] "})


@fault(
    "toolstream.never-finishes",
    layer=Layer.CHUNK,
    breaks={"done.choices.all-finished"},
    cases=("B2-060",),
    source="https://github.com/vllm-project/vllm/issues/27572",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """A stream with tools never has a finish_reason."""
    tools = ctx.chat is not None and bool(ctx.chat.tools)
    yield from each_part(chunks, lambda c: c.update(finish_reason=None) if tools else None)


@fault(
    "toolstream.ids-differ",
    layer=Layer.CHUNK,
    breaks={"chunk.id.constant"},
    cases=("B2-069",),
    source="https://github.com/BerriAI/litellm/issues/32607",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Each chunk of a stream with tools has another id."""
    for number, chunk in enumerate(chunks):
        other = made_like(chunk, chunk["choices"])
        other["id"] = f"{chunk['id']}-{number}"
        yield other if ctx.chat and ctx.chat.tools else chunk


_PARSER = {"error": {"message": "Failed to parse input at pos 7", "type": "server_error", "param": None, "code": None}}


@fault(
    "toolstream.cut-is-error-event",
    layer=Layer.SSE,
    breaks={"toolstream.cut.well-formed"},
    cases=("B2-062", "B2-074"),
    source="https://github.com/vllm-project/vllm/issues/37937",
)
def _(frames: Frames, ctx: Context) -> Frames:
    """A stream that is cut inside a call breaks off with an error event."""
    for frame in frames:
        if cut_soon(ctx) and b'"finish_reason":"length"' in frame.data:
            yield Frame(b"data: " + dumps(_PARSER) + b"\n\n")
            return
        yield frame


@fault(
    "toolstream.cut-writes-bare-json",
    layer=Layer.SSE,
    breaks={"sse.line.known-field"},
    cases=("B2-063",),
    source="https://github.com/bstnxbt/dflash-mlx/issues/39",
)
def _(frames: Frames, ctx: Context) -> Frames:
    """A parse failure inside a stream writes a JSON body between the events."""
    for frame in frames:
        if cut_soon(ctx) and frame == DONE_FRAME:
            yield Frame(dumps(_PARSER) + b"\n\n")
        yield frame


@fault(
    "toolstream.silent-end",
    layer=Layer.SSE,
    breaks={"done.choices.all-finished", "done.marker.exact"},
    cases=("B2-064",),
    source="https://github.com/BerriAI/litellm/issues/39748",
)
def _(frames: Frames, ctx: Context) -> Frames:
    """A failure in the middle of a stream with tools ends the body: no error event, no [DONE]."""
    for number, frame in enumerate(frames):
        if number == 3 and ctx.chat and ctx.chat.tools:
            return
        yield frame
