"""Thoughts that are sent back: read under one of their names only."""

from ..answer import HttpRequest
from . import Context, Layer, fault
from .edits import Body
from .request_edits import in_messages


def with_thoughts(request: HttpRequest, *names: str) -> HttpRequest:
    """The request with the thoughts of its history written before the texts, where they come under these names."""

    def written(message: Body) -> None:
        found = next((t for n in names if isinstance(t := message.get(n), str) and t), None)
        if message.get("role") == "assistant" and found and isinstance(message.get("content"), str):
            message["content"] = f"{found}\n{message['content']}"

    return in_messages(request, written)


@fault("reasoning.replay-of-other-name", layer=Layer.REQUEST, breaks={"reasoning.history.own-name-read"})
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The template reads reasoning_content, while the answers of the server have reasoning."""
    return with_thoughts(request, "reasoning_content")


@fault(
    "reasoning.replay-of-own-name-only",
    layer=Layer.REQUEST,
    breaks={"reasoning.history.both-names-read"},
    source="https://github.com/vllm-project/vllm/issues/38488",
)
def _(request: HttpRequest, ctx: Context) -> HttpRequest:
    """The template reads reasoning; reasoning_content, which most clients send, is silently dropped."""
    return with_thoughts(request, "reasoning")
