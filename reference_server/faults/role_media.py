"""Pictures, sounds and files: dropped in silence, fatal, or read in a form that nobody sends."""

import json
from collections.abc import Callable
from typing import Any

from ..answer import HttpAnswer, HttpRequest
from . import Context, Layer, fault
from .edits import Body
from .request_edits import crash_when, in_messages, kind, messages, without_parts


@fault("role.picture-dropped", layer=Layer.REQUEST, breaks={"role.image.counted", "error.feature.unsupported-refused"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A picture is silently left out: the model answers about one that it never saw."""
    return without_parts(request, lambda part: kind(part) == "image_url")


@fault("role.jpeg-dropped", layer=Layer.REQUEST, breaks={"role.image.counted"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """PNG is refused, and JPEG is silently left out."""
    return without_parts(request, lambda part: kind(part) == "image_url" and "image/jpeg" in str(part))


@fault("role.file-dropped", layer=Layer.REQUEST, breaks={"role.media.refused-on-text-model"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """Sounds and files are silently left out."""
    return without_parts(request, lambda part: kind(part) in ("input_audio", "file"))


@fault("role.audio-crashes", layer=Layer.HTTP, breaks={"role.media.refused-on-text-model"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A sound sent to a text-only model gets a 500."""
    return crash_when(lambda body: b"input_audio" in json.dumps(body).encode(), answer, ctx)


def _has_picture(body: Body) -> bool:
    parts = [p for m in messages(body) if isinstance(m.get("content"), list) for p in m["content"]]
    return any(kind(p) == "image_url" for p in parts)


@fault(
    "role.picture-crashes",
    layer=Layer.HTTP,
    breaks={"role.image.no-5xx", "error.feature.unsupported-refused"},
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A picture sent to a text-only model gets a 500, as from llama.cpp b11434: image input is not supported."""
    return crash_when(_has_picture, answer, ctx)


def _urls(body: Body) -> list[str]:
    """The addresses of all pictures of a request."""
    parts = [p for m in messages(body) if isinstance(m.get("content"), list) for p in m["content"]]
    found = [p["image_url"].get("url") for p in parts if isinstance(p, dict) and isinstance(p.get("image_url"), dict)]
    return [url for url in found if isinstance(url, str)]


@fault(
    "role.unpadded-base64-crashes",
    layer=Layer.HTTP,
    breaks={"role.base64.bad-no-5xx"},
    cases=("B2-186",),
    source="https://github.com/matatonic/openedai-vision/issues/4",
)
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A picture whose base64 has no padding gets a 500: Incorrect padding."""
    return crash_when(lambda body: any(len(u.partition(",")[2]) % 4 for u in _urls(body)), answer, ctx)


def see(request: HttpRequest, readable: Callable[[str], bool]) -> HttpRequest:
    """A model with eyes: a picture whose address is readable becomes 85 words or so of the prompt."""

    def seen(message: Body) -> None:
        if isinstance(message.get("content"), list):
            message["content"] = [_word(p, readable) for p in message["content"]]

    return in_messages(request, seen)


def _word(part: Any, readable: Callable[[str], bool]) -> Any:
    image = part.get("image_url") if isinstance(part, dict) else None
    url = image.get("url") if isinstance(image, dict) else None
    if not isinstance(url, str) or not readable(url):
        return part
    return {"type": "text", "text": " (a part of a picture)" * 17}


@fault(
    "role.bare-base64-only",
    layer=Layer.REQUEST,
    breaks={"role.data-uri.accepted"},
    cases=("B2-187",),
    source="https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/2427",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A model that reads pictures refuses data URIs: the url field must be base64."""
    return see(request, lambda url: not url.startswith("data:"))


@fault(
    "role.png-refused",
    layer=Layer.REQUEST,
    breaks={"role.data-uri.accepted"},
    cases=("B2-188",),
    source="https://github.com/vllm-project/vllm/issues/28123",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """A model that reads pictures fails on some data URIs while it prepares them."""
    return see(request, lambda url: url.startswith("data:image/jpeg;base64,"))


@fault("role.jpeg-crashes", layer=Layer.HTTP, breaks={"role.image.no-5xx"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A text-only model refuses PNG, and answers JPEG with a 500: no decoder was built in."""
    return crash_when(lambda body: any(u.startswith("data:image/jpeg") for u in _urls(body)), answer, ctx)
