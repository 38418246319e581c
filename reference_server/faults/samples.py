"""A fault for each of three layers: the pattern for the others."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..answer import DONE_FRAME, Frame, HttpAnswer
from . import Context, Layer, fault


@fault("done.not-last", layer=Layer.SSE, breaks={"done.marker.once-and-last", "done.marker.every-finish"})
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """[DONE] comes first, content after it."""
    yield DONE_FRAME
    for frame in frames:
        if frame != DONE_FRAME:
            yield frame


@fault("chunk.choices-null", layer=Layer.CHUNK, breaks={"chunk.choices.array"})
def _(chunks: Iterator[dict[str, Any]], ctx: Context) -> Iterator[dict[str, Any]]:
    """The usage chunk has `choices: null` instead of an empty array."""
    for chunk in chunks:
        changed = copy.copy(chunk)
        if not changed["choices"]:
            changed["choices"] = None
        yield changed


@fault("http.no-request-id", layer=Layer.HTTP, breaks={"http.request-id.present"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Answers carry no X-Request-Id header."""
    return replace(answer, headers=answer.with_headers(x_request_id=None))
