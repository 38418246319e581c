"""Chunks that are wrong around their choices: object, id, created, model, index, and members beside them."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from . import Context, Layer, fault

Chunks = Iterator[dict[str, Any]]


def each(chunks: Chunks, edit: Callable[[dict[str, Any]], object]) -> Chunks:
    """Every chunk after `edit` has changed a copy of it; the timing stays."""
    for chunk in chunks:
        changed = copy.deepcopy(chunk)
        edit(changed)
        yield changed


def each_choice(chunks: Chunks, edit: Callable[[dict[str, Any]], object]) -> Chunks:
    """The same for every choice of every chunk."""

    def all_of(chunk: dict[str, Any]) -> None:
        for choice in chunk["choices"]:
            edit(choice)

    return each(chunks, all_of)


@fault(
    "chunk.object-misspelt",
    layer=Layer.CHUNK,
    breaks={"chunk.object.literal"},
    cases=("B1-017",),
    source="https://github.com/rksm/org-ai/issues/95",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """object is "chat.completions.chunk", with a plural."""
    return each(chunks, lambda c: c.update(object="chat.completions.chunk"))


@fault("chunk.object-missing", layer=Layer.CHUNK, breaks={"chunk.object.literal"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Chunks have no object member."""
    return each(chunks, lambda c: c.pop("object"))


@fault(
    "chunk.id-each",
    layer=Layer.CHUNK,
    breaks={"chunk.id.constant"},
    cases=("B1-019",),
    source="https://github.com/microsoft/foundry-local/issues/144",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Every chunk has an id of its own."""
    for number, chunk in enumerate(chunks):
        yield from each(iter([chunk]), lambda c, number=number: c.update(id=f"{c['id']}.{number}"))  # type: ignore[misc]


@fault(
    "chunk.id-by-choice",
    layer=Layer.CHUNK,
    breaks={"chunk.id.constant"},
    cases=("B1-021",),
    source="https://github.com/sgl-project/sglang/issues/39864",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """With n > 1 each choice has an id of its own."""

    def edit(chunk: dict[str, Any]) -> None:
        for choice in chunk["choices"]:
            chunk["id"] += f"-{choice['index']}" if choice["index"] else ""

    return each(chunks, edit)


@fault(
    "chunk.id-empty",
    layer=Layer.CHUNK,
    breaks={"chunk.id.constant"},
    cases=("B1-022",),
    source="https://github.com/huggingface/text-generation-inference/issues/1782",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """id is an empty string in every chunk."""
    return each(chunks, lambda c: c.update(id=""))


@fault(
    "chunk.created-moves",
    layer=Layer.CHUNK,
    breaks={"chunk.created.does-not-move"},
    cases=("B1-021",),
    source="https://github.com/sgl-project/sglang/issues/39864",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The server reads the clock for every chunk, and created moves on when a second passes."""
    for number, chunk in enumerate(chunks):
        late = int(number >= 4)
        yield from each(iter([chunk]), lambda c, late=late: c.update(created=c["created"] + late))  # type: ignore[misc]


@fault(
    "chunk.created-milliseconds",
    layer=Layer.CHUNK,
    breaks={"chunk.created.seconds"},
    cases=("B1-050",),
    source="https://github.com/vercel/ai/issues/7417",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """created is in milliseconds."""
    return each(chunks, lambda c: c.update(created=c["created"] * 1000 + 123))


@fault("chunk.created-jumps", layer=Layer.CHUNK, breaks={"chunk.created.constant"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Every other chunk was created an hour before."""
    for number, chunk in enumerate(chunks):
        late = 3600 * (number % 2)
        yield from each(iter([chunk]), lambda c, late=late: c.update(created=c["created"] - late))  # type: ignore[misc]


@fault("chunk.created-float", layer=Layer.CHUNK, breaks={"chunk.created.constant"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """created is a float."""
    return each(chunks, lambda c: c.update(created=c["created"] + 0.25))


@fault(
    "chunk.model-null",
    layer=Layer.CHUNK,
    breaks={"chunk.model.constant"},
    cases=("B1-019",),
    source="https://github.com/microsoft/foundry-local/issues/221",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """model is null in every chunk."""
    return each(chunks, lambda c: c.update(model=None))


@fault("chunk.model-changes", layer=Layer.CHUNK, breaks={"chunk.model.constant"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The first chunk names the model as asked for, the others name the file that serves it."""
    for number, chunk in enumerate(chunks):
        suffix = "-q4.gguf" if number else ""
        yield from each(iter([chunk]), lambda c, s=suffix: c.update(model=c["model"] + s))  # type: ignore[misc]


@fault(
    "chunk.usage-without-choices",
    layer=Layer.CHUNK,
    breaks={"chunk.choices.array"},
    cases=("B1-050",),
    source="https://github.com/vercel/ai/issues/7417",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The usage chunk has no choices at all."""
    return each(chunks, lambda c: c["choices"] or c.pop("choices"))


@fault(
    "chunk.index-missing",
    layer=Layer.CHUNK,
    breaks={"choice.count.equals-n", "choice.stream.independent", "chunk.index.integer", "finish.stream.once"},
    cases=("B1-023",),
    source="https://github.com/mudler/LocalAI/issues/1194",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Streamed choices have no index."""
    return each_choice(chunks, lambda c: c.pop("index"))


@fault(
    "chunk.index-counts",
    layer=Layer.CHUNK,
    breaks={
        "choice.count.equals-n",
        "chunk.role.first",
        "done.choices.all-finished",
        "finish.tool-calls.iff-called",
        "stop.parity.with-plain",
        "stop.text.nothing-lost",
    },
    cases=("B1-019",),
    source="https://github.com/microsoft/foundry-local/issues/144",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """index counts the chunks instead of the choices."""
    for number, chunk in enumerate(chunks):
        yield from each_choice(iter([chunk]), lambda c, n=number: c.update(index=n))  # type: ignore[misc]


@fault(
    "chunk.message-beside-delta",
    layer=Layer.CHUNK,
    breaks={"chunk.choice.no-message"},
    cases=("B1-048", "B1-017", "B1-019"),
    source="https://github.com/perplexityai/api-discussion/issues/209",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Each choice has the whole message so far beside its delta, so that a stream grows with its square."""
    texts: dict[int, str] = {}

    def edit(choice: dict[str, Any]) -> None:
        index = choice["index"]
        texts[index] = texts.get(index, "") + (choice["delta"].get("content") or "")
        choice["message"] = {"role": "assistant", "content": texts[index]}

    return each_choice(chunks, edit)


@fault("chunk.error-member", layer=Layer.CHUNK, breaks={"chunk.error.absent", "sse.error.before-stream-is-4xx"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Every chunk says that there is no error, in an error member that is an object."""
    return each(chunks, lambda c: c.update(error={"message": "success", "type": "none", "param": None, "code": "0"}))


@fault("chunk.obfuscation-refused", layer=Layer.CHUNK, breaks={"chunk.obfuscation.optional"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Chunks carry obfuscation although the request refuses it."""
    return each(chunks, lambda c: c.update(obfuscation="k3Jw9"))


@fault("chunk.fingerprint-number", layer=Layer.CHUNK, breaks={"chunk.schema.openapi", "param.fingerprint.string"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """system_fingerprint is a number."""
    return each(chunks, lambda c: c.update(system_fingerprint=7))


@fault(
    "chunk.logprobs-legacy",
    layer=Layer.CHUNK,
    breaks={"chunk.schema.openapi"},
    cases=("B1-053",),
    source="https://github.com/OpenRouterTeam/ai-sdk-provider/issues/3",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """logprobs has the shape of the old completions, with null members, where it should be null."""
    legacy = {"tokens": None, "token_logprobs": None, "top_logprobs": None, "text_offset": None}
    return each_choice(chunks, lambda c: c.update(logprobs=c["logprobs"] or dict(legacy)))


@fault(
    "chunk.zero-usage-each",
    layer=Layer.CHUNK,
    breaks={
        "usage.completion.counted",
        "usage.prompt.independent",
        "usage.reasoning.counted",
        "usage.stream.unasked-on-choices",
    },
    cases=("B1-023",),
    source="https://github.com/mudler/LocalAI/issues/1744",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Every chunk with a choice carries a usage object of zeros."""
    zero = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    return each(chunks, lambda c: c["choices"] and c.update(usage=dict(zero)))


@fault("chunk.choices-null", layer=Layer.CHUNK, breaks={"chunk.choices.array"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The usage chunk has `choices: null` instead of an empty array."""
    return each(chunks, lambda c: c["choices"] or c.update(choices=None))
