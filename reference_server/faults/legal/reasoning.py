"""Thoughts and tokenizers as sound servers have them, though other servers have them otherwise."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...answer import Frame, HttpAnswer, HttpRequest, Piece, PieceKind, invalid
from ...request import ChatRequest
from .. import Context, Layer, fault
from ..edits import each_message, each_part
from ..reasoning_history import with_thoughts

Body = dict[str, Any]
Bodies = Iterator[Body]
Pieces = Iterator[Piece]
_NOTHING = frozenset[str]()
_MEMBER = re.compile(rb'"reasoning":("(?:[^"\\]|\\.)*")')


def _reworded(answer: HttpAnswer, wanted: bytes) -> HttpAnswer:
    """Both modes at once: the bytes of the member, in whatever frame it stands."""

    def frames() -> Iterator[Frame]:
        for frame in answer.body:
            yield replace(frame, data=_MEMBER.sub(wanted, frame.data))

    if answer.stream:
        return replace(answer, body=frames())
    ready = list(frames())
    size = str(sum(len(frame.data) for frame in ready))
    return replace(answer, body=iter(ready), headers=answer.with_headers(content_length=size))


@fault("legal.reasoning-content", layer=Layer.HTTP, breaks=_NOTHING)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Thoughts are called reasoning_content, as DeepSeek, SGLang and llama.cpp call them."""
    return _reworded(answer, rb'"reasoning_content":\1')


@fault("legal.reasoning-both-names", layer=Layer.HTTP, breaks=_NOTHING)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Thoughts stand under both names, with the same text."""
    return _reworded(answer, rb'"reasoning":\1,"reasoning_content":\1')


@fault("legal.reasoning-null", layer=Layer.CHUNK, breaks=_NOTHING)
def _(chunks: Bodies, ctx: Context) -> Bodies:
    """Each delta has reasoning_content, null where it brings no thought, as SGLang's have."""

    def change(choice: Body) -> None:
        choice["delta"] = {"reasoning_content": None, **choice["delta"]}

    return each_part(chunks, change)


@fault("legal.reasoning-cut-null", layer=Layer.MESSAGE, breaks=_NOTHING)
def _(body: Body, ctx: Context) -> Body:
    """The content of a plain answer that was cut in its thoughts is null."""

    def change(message: Body) -> None:
        if message.get("reasoning") and message["content"] == "":
            message["content"] = None

    return each_message(body, change)


@fault("legal.reasoning-newlines", layer=Layer.MODEL, breaks=_NOTHING)
def _(pieces: Pieces, ctx: Context) -> Pieces:
    """An answer in text begins with the blank lines that the model wrote after its thought."""
    thought = False
    for piece in pieces:
        if thought and piece.kind is PieceKind.TEXT and ctx.chat and not ctx.chat.response_format.constrained:
            yield replace(piece, text="\n\n", logprobs=())
        thought = piece.kind is PieceKind.REASONING
        yield piece


@fault("legal.reasoning-ends-early", layer=Layer.MODEL, breaks=_NOTHING)
def _(pieces: Pieces, ctx: Context) -> Pieces:
    """The model stops within its thoughts: finish_reason stop, no content. That is its doing, not the server's."""
    thought = False
    for piece in pieces:
        free = ctx.chat is not None and ctx.chat.response_format.kind == "text" and not ctx.chat.tools
        if thought and free and piece.kind is PieceKind.TEXT:
            yield replace(piece, kind=PieceKind.FINISH, text="", logprobs=(), finish="stop")
            return
        thought = thought or piece.kind is PieceKind.REASONING
        yield piece


@fault("legal.reasoning-never", layer=Layer.PARAMS, breaks=_NOTHING)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """The model does not think, whatever it is asked."""
    return replace(chat, body={**chat.body, "reasoning_effort": "none"})


@fault("legal.reasoning-hidden", layer=Layer.MODEL, breaks={"reasoning.field.present"})
def _(pieces: Pieces, ctx: Context) -> Pieces:
    """Thoughts are counted and never shown, as OpenAI's are."""
    return (p for p in pieces if p.kind is not PieceKind.REASONING)


@fault("legal.reasoning-switch-refused", layer=Layer.PARAMS, breaks=_NOTHING)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """chat_template_kwargs, include_reasoning and separate_reasoning are unknown, and refused."""
    for name in ("chat_template_kwargs", "include_reasoning", "separate_reasoning"):
        if name in chat.body:
            raise invalid(f"Unrecognized request argument supplied: {name}", name)
    return chat


@fault("legal.reasoning-switch-unknown", layer=Layer.PARAMS, breaks=_NOTHING)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """Other engines' switches are ignored: only reasoning_effort turns thoughts off."""
    names = ("chat_template_kwargs", "include_reasoning", "separate_reasoning")
    return replace(chat, body={k: v for k, v in chat.body.items() if k not in names})


@fault("legal.thoughts-replayed", layer=Layer.REQUEST, breaks=_NOTHING)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The template writes thoughts of the history before the texts, under whichever name they come."""
    return with_thoughts(request, "reasoning", "reasoning_content")


def _elsewhere(request: HttpRequest, *ends: str) -> HttpRequest:
    return replace(request, target="/nowhere") if request.path.endswith(ends) else request


@fault("legal.tokenize-absent", layer=Layer.REQUEST, breaks=_NOTHING)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """There is no tokenizer endpoint."""
    return _elsewhere(request, "/tokenize", "/detokenize")


@fault("legal.tokenize-at-root", layer=Layer.REQUEST, breaks=_NOTHING)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The tokenizer is at /tokenize only, as vLLM's."""
    return _elsewhere(request, "/v1/tokenize", "/v1/detokenize")


@fault("legal.tokenize-other-members", layer=Layer.MESSAGE, breaks=_NOTHING)
def _(body: Body, ctx: Context) -> Body:
    """Token ids have their texts beside them, and detokenize calls its text `content`, as llama.cpp does."""
    if ctx.status != 200 or not ctx.http.path.endswith(("/tokenize", "/detokenize")):
        return body
    return {**body, "token_strs": None} if "tokens" in body else {"content": body["prompt"]}
