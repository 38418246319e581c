"""Helpers for faults on choices: change a copy, keep the timing. No fault is registered here."""

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

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
