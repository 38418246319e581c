"""Errors in the middle of a stream."""

from __future__ import annotations

from wireproof.judge.rules import MUST, SHOULD, Each, client, openapi, rule, unobservable
from wireproof.read.chat import Chat, is_stream
from wireproof.read.errors import members_problem, stream_error_of
from wireproof.verdict import NotApplicable, require
from wireproof.wire.strictjson import get


@rule(
    "error.stream.wrapped",
    MUST,
    on=Each(
        "every chat stream with an error event",
        lambda x: is_stream(x) and bool(x.errors),
        (),  # no request makes a sound server fail in mid-stream
    ),
    book="ERROR-015",
    source=client("openai-python", "_streaming"),
    evidence=("error_mid_obj", "error_mid_flat", "error_mid_str", "event_error_obj", "event_error_flat"),
)
def test_stream_wrapped(x: Chat) -> None:
    """A failure inside a stream is sent as `data: {"error": {...}}` with a message in the object under `error`.

    openai-python, LangChain, litellm and openai-node pass over a flat error: the torn text looks complete.
    LlamaIndex dies with a TypeError.
    """
    event = next((e for e in x.errors if get(e.value, "choices") is None), None)
    if event is None:
        raise NotApplicable("the error stands in a chunk: chunk.error.absent judges that")
    message = get(event.value, "error", "message")
    told = isinstance(message, str) and bool(message.strip())
    require(told, '{"error": {"message": "..."}}', got=event.event.data, at=event)


@rule(
    "error.stream.members",
    SHOULD,  # the schema is that of HTTP answers, and clients were seen to need the message only
    on=Each("every chat stream with a wrapped error", lambda x: stream_error_of(x) is not None, ()),
    source=openapi("Error.required"),
)
def test_stream_members(x: Chat) -> None:
    """The error of a stream has type (a string), param and code (strings or null) beside its message, as any other.

    openai-python puts them into its APIError: a program that switches on type or code knows the error of a refusal,
    and not the same one in mid-stream.
    """
    error = stream_error_of(x) or {}
    message = error.get("message")
    if not (isinstance(message, str) and message.strip()):
        raise NotApplicable("there is no message: error.stream.wrapped judges that")
    event = next(e for e in x.errors if get(e.value, "error") is error)
    problem = members_problem(error)
    require(not problem, "message, type, param and code", got=f"{problem} in {event.event.data[:100]}", at=event)


unobservable(
    "error.stream.not-like-success",
    MUST,
    requirement="A stream that failed is never closed like one that succeeded.",
    why="Half an answer is taken for a whole one, stored, and never asked for again.",
    reason=(
        "The failure has to happen behind the server, where we are not. What a stream shows by itself is judged by "
        "done.choices.all-finished, done.error.no-success-after, finish.abort.is-error and http.body.framed-exactly."
    ),
    source=client("openai-python", "_streaming"),
    book="ERROR-016",
)
