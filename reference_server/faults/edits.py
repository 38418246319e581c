"""Helpers for faults on choices: change a copy, keep the timing. No fault is registered here."""

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from ..answer import Piece, PieceKind

Body = dict[str, Any]


def each_choice(body: Body, change: Callable[[Body], None]) -> Body:
    """A plain body with `change` done to a copy of each choice; any other body as it is."""
    if not isinstance(body.get("choices"), list):
        return body
    changed = copy.deepcopy(body)
    for choice in changed["choices"]:
        change(choice)
    return changed


def each_message(body: Body, change: Callable[[Body], None]) -> Body:
    """The same for the message of each choice."""
    return each_choice(body, lambda choice: change(choice["message"]))


def usage_changed(body: Body, **counts: Any) -> Body:
    """A body or chunk with members of its usage replaced; one without usage as it is."""
    if not isinstance(body.get("usage"), dict):
        return body
    changed = copy.copy(body)
    changed["usage"] = {**body["usage"], **counts}
    return changed


def recounted(body: Body, prompt: int | None = None, completion: int | None = None) -> Body:
    """Other counts, with a total that fits."""
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return body
    p = usage["prompt_tokens"] if prompt is None else prompt
    c = usage["completion_tokens"] if completion is None else completion
    return usage_changed(body, prompt_tokens=p, completion_tokens=c, total_tokens=p + c)


def each_part(chunks: Iterable[Body], change: Callable[[Body], None]) -> Iterator[Body]:
    """A stream with `change` done to a copy of each choice of each chunk."""
    for chunk in chunks:
        changed = copy.deepcopy(chunk)
        for choice in changed["choices"]:
            change(choice)
        yield changed


def made_like(chunk: Body, choices: list[Body]) -> Body:
    """Another chunk of the same stream, sent at once after it."""
    made = copy.copy(chunk)
    made["choices"] = choices
    if hasattr(made, "after"):
        made.after = 0.0
    return made


def each_call(body: Body, change: Callable[[Body], None]) -> Body:
    """A plain body with `change` done to a copy of each entry of `tool_calls`."""

    def in_message(message: Body) -> None:
        for call in message.get("tool_calls") or ():
            change(call)

    return each_message(body, in_message)


def rewritten(pieces: Iterable[Piece], change: Callable[[str, str], str]) -> Iterator[Piece]:
    """Pieces whose calls have other arguments: `change` gets the name and all of the arguments.

    As many fragments as before bring the new text, and none earlier than it came; it is changed before the first.
    """
    held: dict[int, tuple[str, list[Piece]]] = {}

    def release(index: int) -> Iterator[Piece]:
        name, parts = held.pop(index, ("", []))
        text = change(name, "".join(p.text for p in parts)) if parts else ""
        size = -(-len(text) // len(parts)) if parts else 0
        for i, part in enumerate(parts):
            yield replace(part, text=text[i * size : (i + 1) * size])

    for piece in pieces:
        if piece.kind is PieceKind.CALL_ARGS:
            held[piece.index][1].append(piece)
            continue
        yield from release(piece.index)
        if piece.kind is PieceKind.CALL_START:
            held[piece.index] = (piece.name, [])
        yield piece


def each_scored(body: Body, change: Callable[[list[Any]], list[Any]]) -> Body:
    """A plain body with other entries in the logprobs of each choice that has some."""

    def scored(choice: Body) -> None:
        found = (choice["logprobs"] or {}).get("content")
        if found:
            choice["logprobs"]["content"] = change(found)

    return each_choice(body, scored)


def each_entry(body: Body, change: Callable[[Body], Any]) -> Body:
    """A plain body with `change` done to a copy of each entry of its logprobs."""

    def changed(found: list[Any]) -> list[Any]:
        for entry in found:
            change(entry)
        return found

    return each_scored(body, changed)
