"""Choices of a stream whose delta, role or finish_reason is wrong."""

import copy
from collections.abc import Iterator
from typing import Any

from ..answer import Chunk
from . import Context, Layer, fault
from .chunk import Chunks, each_choice


@fault(
    "chunk.delta-null-at-finish",
    layer=Layer.CHUNK,
    breaks={"chunk.delta.object"},
    cases=("B1-049",),
    source="https://github.com/microsoft/agent-framework/issues/5734",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """delta is null where a choice finishes."""
    return each_choice(chunks, lambda c: c["finish_reason"] and c.update(delta=None))


@fault("chunk.delta-missing-at-finish", layer=Layer.CHUNK, breaks={"chunk.delta.object"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """There is no delta where a choice finishes."""
    return each_choice(chunks, lambda c: c["finish_reason"] and c.pop("delta"))


@fault(
    "chunk.finish-reason-omitted",
    layer=Layer.CHUNK,
    breaks={"chunk.finish-reason.key-present"},
    cases=("B1-023",),
    source="https://github.com/mudler/LocalAI/issues/1194",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """finish_reason is left out until a choice finishes."""
    return each_choice(chunks, lambda c: c["finish_reason"] is None and c.pop("finish_reason"))


@fault("chunk.finish-reason-empty", layer=Layer.CHUNK, breaks={"chunk.finish-reason.key-present"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """finish_reason is an empty string until a choice finishes."""
    return each_choice(chunks, lambda c: c.update(finish_reason=c["finish_reason"] or ""))


@fault("chunk.role-never", layer=Layer.CHUNK, breaks={"chunk.role.first"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """No delta has a role."""
    return each_choice(chunks, lambda c: c["delta"].pop("role", None))


@fault(
    "chunk.role-every-chunk",
    layer=Layer.CHUNK,
    breaks={"chunk.role.not-repeated"},
    cases=("B1-197", "B1-017"),
    source="https://github.com/ollama/ollama/issues/7626",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Every delta repeats the role."""
    return each_choice(chunks, lambda c: c["delta"].update(role="assistant"))


@fault("chunk.role-changes", layer=Layer.CHUNK, breaks={"chunk.role.once", "chunk.role.not-repeated"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The last delta of a choice has another role."""
    return each_choice(chunks, lambda c: c["finish_reason"] and c["delta"].update(role="user"))


@fault(
    "chunk.content-parts",
    layer=Layer.CHUNK,
    breaks={"choice.stream.independent", "chunk.content.string", "stop.parity.with-plain", "stop.text.nothing-lost"},
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """delta.content is an array of parts, as in a request."""

    def edit(choice: dict[str, Any]) -> None:
        if choice["delta"].get("content"):
            choice["delta"]["content"] = [{"type": "text", "text": choice["delta"]["content"]}]

    return each_choice(chunks, edit)


@fault("chunk.text-after-finish", layer=Layer.CHUNK, breaks={"chunk.finish.nothing-after"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The last piece of a choice's text comes after its finish_reason."""
    held: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        choice = chunk["choices"][0] if chunk["choices"] else None
        if choice is None:
            yield chunk
            continue
        index, last = choice["index"], held.pop(choice["index"], None)
        if choice["finish_reason"]:
            yield chunk
            if last:
                yield last
            continue
        if last:
            yield last
        if choice["delta"].get("content"):
            held[index] = chunk
        else:
            yield chunk


@fault("chunk.extension-list", layer=Layer.CHUNK, breaks={"chunk.extension.accumulates"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Deltas carry annotations, a list of objects without index."""
    return each_choice(chunks, lambda c: c["delta"].update(annotations=[{"type": "note", "text": "x"}]))


@fault("chunk.extension-count", layer=Layer.CHUNK, breaks={"chunk.extension.scalar-once"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Every delta repeats a number that clients sum."""
    return each_choice(chunks, lambda c: c["delta"].update(tokens_so_far=3))


@fault(
    "chunk.cumulative",
    layer=Layer.CHUNK,
    breaks={
        "choice.stream.independent",
        "chunk.content.not-cumulative",
        "chunk.parity.with-plain",
        "logprobstream.chunk.aligned",
        "stop.match.any-position",
        "stop.parity.with-plain",
        "stop.text.nothing-lost",
    },
    cases=("B1-045",),
    source="https://github.com/NVIDIA/TensorRT-LLM/issues/3280",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """A delta has the whole text so far."""
    texts: dict[int, str] = {}

    def edit(choice: dict[str, Any]) -> None:
        if choice["delta"].get("content"):
            texts[choice["index"]] = texts.get(choice["index"], "") + choice["delta"]["content"]
            choice["delta"]["content"] = texts[choice["index"]]

    return each_choice(chunks, edit)


@fault(
    "chunk.text-lost",
    layer=Layer.CHUNK,
    breaks={
        "schema.keys.exact",
        "choice.stream.independent",
        "chunk.content.increments",
        "chunk.parity.with-plain",
        "logprobstream.chunk.aligned",
        "stop.parity.with-plain",
        "stop.text.nothing-lost",
    },
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The second piece of text of every choice is lost."""
    seen: dict[int, int] = {}

    def edit(choice: dict[str, Any]) -> None:
        if choice["delta"].get("content"):
            seen[choice["index"]] = seen.get(choice["index"], 0) + 1
            if seen[choice["index"]] == 2:
                choice["delta"]["content"] = ""

    return each_choice(chunks, edit)


@fault(
    "chunk.text-again-at-end",
    layer=Layer.CHUNK,
    breaks={
        "choice.stream.independent",
        "chunk.content.increments",
        "chunk.parity.with-plain",
        "logprobstream.content.present",
        "stop.match.any-position",
        "stop.parity.with-plain",
        "stop.text.nothing-lost",
    },
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Before a choice finishes, one more delta brings its whole text again."""
    texts: dict[int, str] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            index = choice["index"]
            if choice["finish_reason"] and texts.get(index):
                again = {**choice, "delta": {"content": texts[index]}, "logprobs": None, "finish_reason": None}
                yield Chunk({**chunk, "choices": [again]})
            texts[index] = texts.get(index, "") + (choice["delta"].get("content") or "")
        yield chunk


@fault(
    "chunk.calls-dropped",
    layer=Layer.CHUNK,
    breaks={"chunk.parity.with-plain", "tool.named.only-it", "tool.required.calls"},
    cases=("B1-043",),
    source="https://github.com/lidge-jun/opencodex/issues/3770",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The streamed path knows text only: calls vanish, and finish_reason is stop."""
    for chunk in chunks:
        if any("tool_calls" in choice["delta"] for choice in chunk["choices"]):
            continue
        changed = copy.deepcopy(chunk)
        for choice in changed["choices"]:
            if choice["finish_reason"] == "tool_calls":
                choice["finish_reason"] = "stop"
        yield changed


def _nulls(choice: dict[str, Any]) -> None:
    for name in ("role", "tool_calls"):
        choice["delta"].setdefault(name, None)


@fault("legal.delta-nulls", layer=Layer.CHUNK, breaks={"chunk.null.only-where-allowed"})
def _(chunks: Chunks, ctx: Context) -> Iterator[dict[str, Any]]:
    """Deltas have null for a role and calls that they do not bring: clients forgive it, the schema does not."""
    return each_choice(chunks, _nulls)
