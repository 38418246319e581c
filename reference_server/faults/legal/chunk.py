"""Streams that look odd and are right. Where a SHOULD has a word to say about one, it is declared."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from ...answer import Chunk
from .. import Context, Layer, fault
from ..chunk import Chunks, each, each_choice


def _text(chunk: dict[str, Any]) -> str:
    """The text that a chunk of one choice brings; empty for every other chunk."""
    choice = chunk["choices"][0] if len(chunk["choices"]) == 1 else {"delta": {}}
    return choice["delta"].get("content") or "" if "role" not in choice["delta"] else ""


def _joined(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two neighbours of one choice as one chunk."""
    both = copy.deepcopy(first)
    choice, other = both["choices"][0], second["choices"][0]
    choice["delta"]["content"] = (choice["delta"].get("content") or "") + (other["delta"].get("content") or "")
    if choice["logprobs"] and other["logprobs"]:
        choice["logprobs"]["content"] += other["logprobs"]["content"]
    else:
        choice["logprobs"] = choice["logprobs"] or other["logprobs"]
    choice["finish_reason"] = other["finish_reason"]
    return both


def _merged(chunks: Chunks, join: Callable[[dict[str, Any], dict[str, Any]], bool]) -> Iterator[dict[str, Any]]:
    """Neighbours of the same choice joined where `join` says so."""
    held: dict[str, Any] | None = None
    for chunk in chunks:
        if held is not None and chunk["choices"] and held["choices"]:
            same = held["choices"][0]["index"] == chunk["choices"][0]["index"]
            if same and join(held, chunk):
                held = _joined(held, chunk)
                continue
        if held is not None:
            yield held
        held = chunk
    if held is not None:
        yield held


@fault("legal.tokens-batched", layer=Layer.CHUNK, breaks=())
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """A chunk brings several tokens, as with speculative decoding or a slow reader."""
    return _merged(chunks, lambda a, b: bool(_text(a)) and bool(_text(b)) and len(_text(a)) < 12)


@fault("legal.text-empty", layer=Layer.CHUNK, breaks=())
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Before every text there is a chunk with an empty one: the character was not complete yet."""
    for chunk in chunks:
        if _text(chunk):
            choice = {**chunk["choices"][0], "delta": {"content": ""}, "logprobs": None}
            yield Chunk({**chunk, "choices": [choice]})
        yield chunk


@fault("legal.role-with-text", layer=Layer.CHUNK, breaks={"chunk.role.own-event"})
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The first chunk of a choice brings role and text, as Ollama's does."""
    return _merged(chunks, lambda a, b: a["choices"][0]["delta"].get("role") is not None and bool(_text(b)))


@fault(
    "legal.text-at-finish",
    layer=Layer.CHUNK,
    breaks={"chunk.finish.empty-delta"},
    source="https://github.com/vllm-project/vllm/issues/35705",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The chunk that finishes a choice brings its last text, as vLLM's does under load."""
    return _merged(chunks, lambda a, b: bool(_text(a)) and bool(b["choices"][0]["finish_reason"]))


@fault("legal.role-content-null", layer=Layer.CHUNK, breaks=())
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The first delta has content null, as llama.cpp's does."""
    return each_choice(chunks, lambda c: "role" in c["delta"] and c["delta"].update(content=None))


@fault("legal.role-emptied", layer=Layer.CHUNK, breaks=())
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Later deltas have an empty string as role: it adds nothing."""
    return each_choice(chunks, lambda c: c["delta"].setdefault("role", ""))


@fault("legal.members-unknown", layer=Layer.CHUNK, breaks=())
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Chunk, choice and delta have members that OpenAI does not know."""

    def edit(chunk: dict[str, Any]) -> None:
        chunk.update(provider="x", timings={"predicted_ms": 3.5}, warnings=[])
        for choice in chunk["choices"]:
            choice.update(stop_reason=None, token_ids=None, matched_stop=None, native_finish_reason="eos")
            choice["delta"].update(metadata=None, x_note="")

    return each(chunks, edit)


@fault("legal.vendor-members", layer=Layer.CHUNK, breaks=())
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Members that vLLM, SGLang and llama.cpp add: stop_reason, token_ids, matched_stop, timings."""

    def edit(chunk: dict[str, Any]) -> None:
        for choice in chunk["choices"]:
            choice["token_ids"] = [11, 7] if choice["delta"].get("content") else None
            if choice["finish_reason"]:
                choice.update(stop_reason=151645, matched_stop=151645)
                chunk["timings"] = {"prompt_n": 14, "predicted_per_second": 91.5}

    return each(chunks, edit)


@fault("legal.members-absent", layer=Layer.CHUNK, breaks=())
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Optional members without a value are left out: logprobs, refusal, system_fingerprint, service_tier."""

    def edit(chunk: dict[str, Any]) -> None:
        for name in ("system_fingerprint", "service_tier"):
            chunk.pop(name, None)
        for choice in chunk["choices"]:
            choice["delta"].pop("refusal", None)
            if choice["logprobs"] is None:
                del choice["logprobs"]

    return each(chunks, edit)


@fault(
    "legal.members-null",
    layer=Layer.CHUNK,
    breaks=(),
    source="https://github.com/openai/openai-openapi/issues/167",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Optional members without a value are null: system_fingerprint, service_tier, refusal, content, error."""

    def edit(chunk: dict[str, Any]) -> None:
        chunk.update(system_fingerprint=None, service_tier=None, error=None)
        for choice in chunk["choices"]:
            for name in ("refusal", "content"):
                choice["delta"].setdefault(name, None)

    return each(chunks, edit)


@fault("legal.obfuscation", layer=Layer.CHUNK, breaks=())
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Chunks carry obfuscation, except where the request refuses it."""
    refused = b'"include_obfuscation": false' in ctx.http.body
    return chunks if refused else each(chunks, lambda c: c.update(obfuscation="k3Jw9"))


@fault("legal.choices-empty-heartbeat", layer=Layer.CHUNK, breaks=())
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """A complete chunk with no choices stands between others: a heartbeat that even LangChain's timeout hears."""
    for number, chunk in enumerate(chunks):
        yield chunk
        if number == 2 and chunk["choices"]:
            yield Chunk({**chunk, "choices": []})


@fault(
    "legal.prompt-filter-first",
    layer=Layer.CHUNK,
    breaks={"chunk.choices.first-not-empty"},
    cases=("B1-083",),
    source="https://github.com/AndraxDev/speak-gpt/issues/162",
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Prompt filter results come ahead, with empty choices, id and model, as Azure sends them."""
    results = [{"prompt_index": 0, "content_filter_results": {}}]
    yield Chunk(choices=[], created=0, id="", model="", object="", prompt_filter_results=results)
    yield from chunks


@fault("legal.usage-null", layer=Layer.CHUNK, breaks=())
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Every chunk has usage null although none was asked for."""
    return each(chunks, lambda c: c.setdefault("usage", None))


@fault(
    "legal.reasoning-deltas",
    layer=Layer.CHUNK,
    breaks={"reasoning.field.same-in-both-modes", "reasoning.usage.counted"},
)
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The model thinks first: reasoning_content comes in fragments before the text."""
    for chunk in chunks:
        yield chunk
        for choice in chunk["choices"]:
            if "role" in choice["delta"]:
                for piece in ("The user", " wants", " this."):
                    thought = {**choice, "delta": {"reasoning_content": piece}}
                    yield Chunk({**chunk, "choices": [thought]})


@fault("legal.id-long", layer=Layer.CHUNK, breaks=())
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The id is long and has characters that no prefix promises."""
    return each(chunks, lambda c: c.update(id="gen:" + "7f3a/" * 40 + c["id"]))


@fault("legal.model-alias", layer=Layer.CHUNK, breaks=())
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """The answer names the dated model behind the alias that was asked for."""
    return each(chunks, lambda c: c.update(model=f"{c['model']}-2026-08-21"))


@fault("legal.extension-indexed", layer=Layer.CHUNK, breaks=())
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """Deltas carry a list of objects that clients can merge: each entry has an integer index."""
    return each_choice(chunks, lambda c: c["delta"].update(citations=[{"index": 0, "url": "x"}]))


@fault("legal.chunk-after-finish", layer=Layer.CHUNK, breaks=())
def _(chunks: Chunks, ctx: Context) -> Chunks:
    """After the finish of the only choice one more chunk with no choices brings vendor metadata."""
    many = bool(ctx.chat and ctx.chat.n > 1)
    for chunk in chunks:
        yield chunk
        if not many and any(choice["finish_reason"] for choice in chunk["choices"]):
            yield Chunk({**chunk, "choices": [], "sglext": {"routed": 1}})
