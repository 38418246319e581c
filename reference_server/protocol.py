"""Pieces to the wire's objects and bytes: message bodies, chunks, SSE frames, HTTP steps.

Each function is one arrow of the pipeline and takes and returns lazy values, so that a fault can stand
between any two of them.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .answer import (
    DONE_FRAME,
    HEARTBEAT,
    Alternative,
    Chunk,
    Close,
    Emit,
    Frame,
    Framing,
    How,
    HttpAnswer,
    Piece,
    PieceKind,
    Step,
    TokenLogprob,
)
from .request import ChatRequest

FINGERPRINT = "fp_wireproof_1"


@dataclass(frozen=True)
class Identity:
    """What all objects of one answer share."""

    id: str
    created: int
    model: str
    prompt_tokens: int
    cached_tokens: int


def dumps(value: Any) -> bytes:
    """Compact JSON in UTF-8. A fault may put anything in it, so NaN and lone surrogates pass here."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="surrogatepass")


def usage(identity: Identity, completion: int, thought: int) -> dict[str, Any]:
    return {
        "prompt_tokens": identity.prompt_tokens,
        "completion_tokens": completion,
        "total_tokens": identity.prompt_tokens + completion,
        "prompt_tokens_details": {"cached_tokens": identity.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


def _alternative(value: Alternative) -> dict[str, Any]:
    return {"token": value.token, "logprob": value.logprob, "bytes": list(value.data)}


def _logprobs(entries: Iterable[TokenLogprob]) -> dict[str, Any]:
    content = [
        {**_alternative(entry.chosen), "top_logprobs": [_alternative(other) for other in entry.top]}
        for entry in entries
    ]
    return {"content": content, "refusal": None}


class _Message:
    """One choice of a plain answer, put together piece by piece."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.tokens = self.thought = 0
        self._text = self._reasoning = ""
        self._calls: list[dict[str, Any]] = []
        self._entries: list[TokenLogprob] = []
        self._finish: str | None = None

    def add(self, piece: Piece) -> None:
        self.tokens, self.thought = piece.tokens, piece.thought
        self._entries += piece.logprobs
        if piece.kind is PieceKind.TEXT:
            self._text += piece.text
        elif piece.kind is PieceKind.REASONING:
            self._reasoning += piece.text
        elif piece.kind is PieceKind.CALL_START:
            function = {"name": piece.name, "arguments": ""}
            self._calls.append({"id": piece.call_id, "type": "function", "function": function})
        elif piece.kind is PieceKind.CALL_ARGS and self._calls:
            self._calls[-1]["function"]["arguments"] += piece.text
        elif piece.kind is PieceKind.FINISH:
            self._finish = piece.finish

    def choice(self, chat: ChatRequest) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self._text, "refusal": None}
        if self._reasoning:  # the name that vLLM uses
            message["reasoning"] = self._reasoning
        if self._calls:
            message["content"] = self._text or None
            if chat.legacy:
                message["function_call"] = self._calls[0]["function"]
            else:
                message["tool_calls"] = self._calls
        return {
            "index": self.index,
            "message": message,
            "logprobs": _logprobs(self._entries) if chat.logprobs else None,
            "finish_reason": self._finish,
        }


def message(pieces: Iterable[Piece], chat: ChatRequest, identity: Identity) -> dict[str, Any]:
    """The body of a plain answer."""
    parts: dict[int, _Message] = {}
    for piece in pieces:
        if piece.index not in parts:
            parts[piece.index] = _Message(piece.index)
        parts[piece.index].add(piece)
    return {
        "id": identity.id,
        "object": "chat.completion",
        "created": identity.created,
        "model": identity.model,
        "choices": [part.choice(chat) for part in parts.values()],
        "usage": usage(
            identity,
            sum(part.tokens for part in parts.values()),
            sum(part.thought for part in parts.values()),
        ),
        "service_tier": "default",
        "system_fingerprint": FINGERPRINT,
    }


def _delta(piece: Piece, chat: ChatRequest) -> dict[str, Any]:
    if piece.kind is PieceKind.TEXT:
        return {"content": piece.text}
    if piece.kind is PieceKind.REASONING:
        return {"reasoning": piece.text}
    if piece.kind is PieceKind.FINISH:
        return {}
    if piece.kind is PieceKind.CALL_START:
        function = {"name": piece.name, "arguments": ""}
        call = {"index": piece.call, "id": piece.call_id, "type": "function", "function": function}
    else:
        function = {"arguments": piece.text}
        call = {"index": piece.call, "function": function}
    return {"function_call": function} if chat.legacy else {"tool_calls": [call]}


def chunks(pieces: Iterable[Piece], chat: ChatRequest, identity: Identity) -> Iterator[Chunk]:
    """The chunk objects of a stream: role first, then increments, the finish, and usage if asked for."""
    tokens: dict[int, int] = {}
    thought: dict[int, int] = {}

    def chunk(choices: list[dict[str, Any]], after: float) -> Chunk:
        value = Chunk(
            id=identity.id,
            object="chat.completion.chunk",
            created=identity.created,
            model=identity.model,
            service_tier="default",
            system_fingerprint=FINGERPRINT,
            choices=choices,
            after=after,
        )
        if chat.include_usage:
            value["usage"] = None
        return value

    def choice(index: int, delta: dict[str, Any], entries: tuple[TokenLogprob, ...] = ()) -> dict[str, Any]:
        logprobs = _logprobs(entries) if entries else None
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": None}

    for piece in pieces:
        after = piece.after
        if piece.index not in tokens:
            yield chunk([choice(piece.index, {"role": "assistant", "content": "", "refusal": None})], after)
            after = 0.0
        tokens[piece.index], thought[piece.index] = piece.tokens, piece.thought
        one = choice(piece.index, _delta(piece, chat), piece.logprobs)
        one["finish_reason"] = piece.finish
        yield chunk([one], after)
    if chat.include_usage:
        yield chunk([], 0.0).changed(usage=usage(identity, sum(tokens.values()), sum(thought.values())))


def frames(chunks: Iterable[dict[str, Any]], heartbeat: float) -> Iterator[Frame]:
    """SSE events, [DONE] last, and comments wherever a client would hear nothing for `heartbeat` seconds."""
    for chunk in chunks:
        after = chunk.after if isinstance(chunk, Chunk) else 0.0
        while heartbeat > 0 and after > heartbeat:
            yield Frame(HEARTBEAT, heartbeat)
            after -= heartbeat
        yield Frame(b"data: " + dumps(chunk) + b"\n\n", after)
    yield DONE_FRAME


def steps(answer: HttpAnswer, *, keep: bool, head_only: bool = False) -> Iterator[Step]:
    """The bytes of an answer: head first, then each frame, in its framing, then how it ends."""
    lines = [f"HTTP/1.1 {answer.status} {answer.reason}", *(f"{k}: {v}" for k, v in answer.headers)]
    yield Emit("\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape"))
    if not head_only:
        for frame in answer.body:
            if answer.framing is Framing.CHUNKED and frame.data:
                yield Emit(b"%x\r\n%s\r\n" % (len(frame.data), frame.data), frame.after)
            elif frame.data or frame.after:
                yield Emit(frame.data, frame.after)
        if answer.framing is Framing.CHUNKED:
            yield Emit(b"0\r\n\r\n")
    yield Close(How.KEEP if keep and answer.framing is not Framing.CLOSE else How.END)
