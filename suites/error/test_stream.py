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
        (),  # no request makes a sound server fail mid-stream
    ),
    book="ERROR-015",
    source=client("openai-python", "_streaming"),
    evidence=("error_mid_obj", "error_mid_flat", "error_mid_str", "event_error_obj", "event_error_flat"),
)
def test_stream_wrapped(x: Chat) -> None:
    """The server sends a failure inside a stream as `data: {"error": {...}}` with a message in the `error` object.

    openai-python, LangChain, litellm and openai-node skip a flat error: the truncated text looks complete.
    LlamaIndex raises a TypeError.
    """
    event = next((e for e in x.errors if get(e.value, "choices") is None), None)
    if event is None:
        raise NotApplicable("the error is inside a chunk: chunk.error.absent judges that")
    message = get(event.value, "error", "message")
    told = isinstance(message, str) and bool(message.strip())
    require(told, '{"error": {"message": "..."}}', got=event.event.data, at=event)


@rule(
    "error.stream.members",
    SHOULD,  # the schema is that of HTTP answers, and the clients we saw need only the message
    on=Each("every chat stream with a wrapped error", lambda x: stream_error_of(x) is not None, ()),
    source=openapi("Error.required"),
)
def test_stream_members(x: Chat) -> None:
    """Like any other error, one in a stream has type (a string), param and code (strings or null) beside its message.

    openai-python puts them into its APIError: a program that switches on type or code would recognise the error of a
    refusal, but not the same one mid-stream.
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
    requirement="The server never closes a failed stream like a successful one.",
    why="Clients take half an answer for a whole one, store it, and never ask for it again.",
    reason=(
        "The failure has to happen behind the server, out of our reach. What a stream itself shows is judged by "
        "done.choices.all-finished, done.error.no-success-after, finish.abort.is-error and http.body.framed-exactly."
    ),
    source=client("openai-python", "_streaming"),
    book="ERROR-016",
)
