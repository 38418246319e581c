"""Characters broken on their way, and packets that were rewritten."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..answer import Emit, Frame, Step
from . import Context, Layer, fault
from .sse import is_chunk


def _text(chunk: dict[str, Any]) -> str | None:
    """The content of the first choice, when there is some."""
    for choice in chunk.get("choices") or []:
        content = choice["delta"].get("content")
        return content if isinstance(content, str) and content else None
    return None


def _with_text(chunk: dict[str, Any], text: str) -> dict[str, Any]:
    choice = chunk["choices"][0]
    return {**chunk, "choices": [{**choice, "delta": {**choice["delta"], "content": text}}]}


def _by_frame(frames: Iterator[Frame], change: Callable[[dict[str, Any], str], list[bytes] | None]) -> Iterator[Frame]:
    """The frames, with those that carry text replaced by others where `change` says so."""
    for frame in frames:
        chunk = json.loads(frame.data[6:]) if is_chunk(frame) else {}
        text = _text(chunk)
        made = change(chunk, text) if text else None
        if made is None:
            yield frame
            continue
        for number, data in enumerate(made):
            yield Frame(b"data: " + data + b"\n\n", 0.0 if number else frame.after)


def _dump(chunk: dict[str, Any]) -> bytes:
    return json.dumps(chunk, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


@fault(
    "sse.character-split-over-events",
    layer=Layer.SSE,
    breaks={"chunk.content.increments", "chunk.parity.with-plain", "sse.stream.utf8"},
)
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """The bytes of a character go out as its tokens come: each event has a part of it."""

    def change(chunk: dict[str, Any], text: str) -> list[bytes] | None:
        if text.isascii():
            return None
        at = next(i for i, letter in enumerate(text) if not letter.isascii())
        whole = text.encode()
        cut = len(text[:at].encode()) + 1
        marked = _dump(_with_text(chunk, "<CUT>"))
        return [marked.replace(b"<CUT>", whole[:cut]), marked.replace(b"<CUT>", whole[cut:])]

    yield from _by_frame(frames, change)


@fault(
    "sse.characters-replaced",
    layer=Layer.SSE,
    breaks={
        "chunk.content.increments",
        "chunk.parity.with-plain",
        "sse.text.characters-whole",
        "sse.text.no-replacement",
    },
    cases=("B1-054",),
    source="https://github.com/waybarrios/vllm-mlx/issues/109",
)
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """Tokens are decoded one at a time, so each byte of a character becomes U+FFFD."""

    def change(chunk: dict[str, Any], text: str) -> list[bytes] | None:
        if text.isascii():
            return None
        return [_dump(_with_text(chunk, byte.decode("ascii", "replace"))) for byte in _bytes(text)]

    yield from _by_frame(frames, change)


def _bytes(text: str) -> list[bytes]:
    return [bytes([value]) for value in text.encode()]


@fault(
    "sse.characters-replaced-everywhere",
    layer=Layer.HTTP,
    breaks={"sse.text.no-replacement"},
    cases=("B1-057",),
    source="https://github.com/vllm-project/vllm/issues/8627",
)
def _(answer: Any, ctx: Context) -> Any:
    """Accented letters are U+FFFD in all answers, streamed or not."""

    def spoil(frame: Frame) -> Frame:
        return replace(
            frame, data=frame.data.replace("ý".encode(), b"\xef\xbf\xbd").replace(b"\xc5\xa5", b"\xef\xbf\xbd")
        )

    if ctx.chat is None:
        return answer
    if answer.stream:
        return replace(answer, body=map(spoil, answer.body))
    made = [spoil(frame) for frame in answer.body]
    size = sum(len(frame.data) for frame in made)
    return replace(answer, headers=answer.with_headers(content_length=str(size)), body=iter(made))


@fault(
    "sse.lone-surrogates",
    layer=Layer.SSE,
    breaks={"chunk.content.increments", "chunk.parity.with-plain", "sse.text.no-lone-surrogate"},
    cases=("B1-055",),
    source="https://github.com/waybarrios/vllm-mlx/issues/195",
)
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """An emoji is split into two surrogate escapes, one in each event."""

    def change(chunk: dict[str, Any], text: str) -> list[bytes] | None:
        if all(ord(letter) < 0x10000 for letter in text):
            return None
        units = text.encode("utf-16-be", "surrogatepass")
        halves = [units[i : i + 2].decode("utf-16-be", "surrogatepass") for i in range(0, len(units), 2)]
        return [json.dumps(_with_text(chunk, half)).encode() for half in halves]

    yield from _by_frame(frames, change)


@fault("http.lone-surrogate-in-plain", layer=Layer.HTTP, breaks={"sse.text.no-lone-surrogate"})
def _(answer: Any, ctx: Context) -> Any:
    """A plain completion has half an emoji in a field of its own."""
    if ctx.chat is None or answer.stream:
        return answer
    data = b"".join(frame.data for frame in answer.body)
    data = data.replace(b'{"id":', b'{"mood":"\\ud83d","id":', 1)
    return replace(answer, headers=answer.with_headers(content_length=str(len(data))), body=iter([Frame(data)]))


@fault("sse.bom", layer=Layer.SSE, breaks={"sse.stream.no-bom"})
def _(frames: Iterator[Frame], ctx: Context) -> Iterator[Frame]:
    """The stream begins with a byte order mark."""
    for number, frame in enumerate(frames):
        yield frame if number else replace(frame, data=b"\xef\xbb\xbf" + frame.data)


@fault(
    "sse.packets-rewritten",
    layer=Layer.SOCKET,
    breaks={
        "schema.keys.exact",
        "schema.stream.same-guarantee",
        "schema.vendor.choice",
        "choice.stream.independent",
        "chunk.content.increments",
        "chunk.parity.with-plain",
        "logprobstream.chunk.aligned",
        "sse.transport.split-invariant",
        "stop.parity.with-plain",
        "stop.text.nothing-lost",
    },
)
def _(steps: Iterator[Step], ctx: Context) -> Iterator[Step]:
    """Middleware replaces the first letter after each packet boundary, wherever that happens to lie."""
    letters, seed, packet = b"abcdefghijklmnopqrstuvwxyz", ctx.config.entropy(), 0
    for step in steps:
        if ctx.stream and isinstance(step, Emit) and b'"content":"' in step.data:
            head, mark, tail = step.data.partition(b'"content":"')
            at, packet = letters.find(tail[:1]) if tail[:1].isalpha() else -1, packet + 1
            if at >= 0:
                tail = letters[(at + (seed >> packet % 48)) % 26 :][:1] + tail[1:]
            yield replace(step, data=head + mark + tail)
        else:
            yield step
