"""The values of finish_reason, and where they appear."""

from __future__ import annotations

from typing import Any

from wireproof.judge.rules import MAY, MUST, SHOULD, Each, contract, openapi, rule
from wireproof.judge.subjects import ANSWERS, PLAIN, STREAMS, TWINS
from wireproof.read.chat import Chat
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.chat import Choice, Part
from wireproof.wire.strictjson import get, is_int

_KNOWN = ("stop", "length", "tool_calls", "content_filter", "function_call")
_ABORTED = ("abort", "aborted", "cancelled", "canceled", "error", "timeout", "preempted")
# Text in place of null: finish.reason.known reports it, so it does not end a choice here.
_NULL_AS_TEXT = ("", "None", "null", "nil", "undefined")


def _given(x: Chat) -> list[tuple[Any, Part | None]]:
    """Every finish_reason that is not null, with the part that carries it when the answer is a stream.

    chunk.finish-reason.key-present judges "" in a chunk.
    """
    if x.is_event_stream:
        return [(p.finish_reason, p) for p in x.assembled.parts if p.finish_reason not in (None, "")]
    return [(c["finish_reason"], None) for c in x.plain_choices if c.get("finish_reason") is not None]


def _ends(choice: Choice) -> list[Part]:
    return [p for p in choice.finishes if p.finish_reason not in _NULL_AS_TEXT]


@rule(
    "finish.reason.known",
    MUST,
    on=ANSWERS,
    book="FINISH-001",
    source=contract("finish_reason has five values; OpenAPI has the same enum"),
    evidence=("ns_finish_unknown", "finish_reason_empty_str"),
)
def test_reason_known(x: Chat) -> None:
    """finish_reason is null or one of stop, length, tool_calls, content_filter and function_call.

    Clients with an enum (Go, C#, Rust, AI SDK) fail on "eos_token", "abort" or "None"; loops that wait for
    any value but null end at the first chunk.
    """
    for reason, part in _given(x):
        require(reason in _KNOWN, f"null or one of {', '.join(_KNOWN)}", got=repr(reason), at=part)


@rule(
    "finish.plain.not-null",
    MUST,
    on=PLAIN,
    book="FINISH-002",
    source=openapi("CreateChatCompletionResponse.choices.finish_reason: not nullable"),
    evidence=("ns_finish_null",),
)
def test_plain_not_null(x: Chat) -> None:
    """In a plain answer, finish_reason is not null.

    Agent loops depend on it: with null they neither continue nor end. pydantic-ai rejects the answer.
    """
    for choice in x.plain_choices:
        require(choice.get("finish_reason", "absent") is not None, "a string in `finish_reason`", got="null")


@rule(
    "finish.stream.once",
    MUST,
    on=STREAMS,
    book="FINISH-003",
    source=contract("one finish per choice"),
    evidence=("finish_twice", "finish_missing"),
)
def test_stream_once(x: Chat) -> None:
    """Exactly one chunk of each choice has a finish_reason that is not null.

    LangChain joins two into "stopstop"; openclaude showed each answer twice. done.choices.all-finished judges a
    choice without any.
    """
    choices = x.finished_stream.choices
    for choice in choices:
        ends = _ends(choice)
        require(len(ends) < 2, f"one finish_reason for choice {choice.index}", got=len(ends), at=ends[-1:] and ends[-1])
    if not all(_ends(choice) for choice in choices):
        raise inconclusive("a choice never finished: done.choices.all-finished judges that")


@rule(
    "finish.stream.last-of-choice",
    MUST,
    on=Each(STREAMS.what, STREAMS.match, (*STREAMS.needs, "stream-logprobs")),
    book="FINISH-004",
    source=contract("the finish is the last chunk of its choice"),
    evidence=("content_after_finish",),
)
def test_stream_last_of_choice(x: Chat) -> None:
    """After the finish_reason of a choice, the server sends nothing more for it, neither a role nor log probabilities.

    User interfaces finalise the message there. chunk.finish.nothing-after judges text, reasoning and calls after
    it; an empty delta with vendor members is allowed.
    """
    for choice in x.finished_stream.choices:
        ends = _ends(choice)
        for part in choice.parts[choice.parts.index(ends[0]) + 1 :] if ends else ():
            if part.carries:
                raise inconclusive("text or a call follows the finish: chunk.finish.nothing-after judges that")
            more = ["role"] if part.delta.get("role") else []
            more += ["logprobs"] if get(part.choice, "logprobs", "content") else []
            require(not more, "nothing of the choice after its finish_reason", got=", ".join(more), at=part)


@rule(
    "finish.function-call.legacy-only",
    MUST,
    on=ANSWERS,
    book="FINISH-011",
    source=openapi("finish_reason: function_call is deprecated"),
)
def test_function_call_legacy_only(x: Chat) -> None:
    """finish_reason is "function_call" only if the request sent the deprecated `functions`.

    Today's agent loops know tool_calls; they end on anything else and never run the tool.
    """
    for reason, part in _given(x):
        ok = reason != "function_call" or bool(x.asked.get("functions"))
        require(ok, "no function_call without `functions` in the request", got=reason, at=part)


@rule(
    "finish.content-filter.only-filtered",
    MAY,
    on=ANSWERS,
    book="FINISH-012",
    source=openapi("finish_reason: content_filter"),
)
def test_content_filter_only_filtered(x: Chat) -> None:
    """finish_reason is "content_filter" only if a filter withheld something; these prompts give it no cause.

    openai-python's .parse() raises ContentFilterFinishReasonError on it.
    """
    for reason, part in _given(x):
        if reason == "content_filter" and b"content_filter_result" in x.answered.content:
            raise NotApplicable("the answer says what its filter found")
        require(reason != "content_filter", "no content_filter for a harmless prompt", got=reason, at=part)


@rule(
    "finish.abort.is-error",
    SHOULD,
    on=ANSWERS,
    book="FINISH-013",
    source=contract("a failed generation is an error"),
)
def test_abort_is_error(x: Chat) -> None:
    """The server reports an aborted generation as an error, not as a finish_reason such as "abort".

    A client that only checks whether there is a finish_reason takes the truncated text for the answer.
    """
    for reason, part in _given(x):
        require(reason not in _ABORTED, "an error object for an aborted generation", got=repr(reason), at=part)


@rule(
    "finish.parity.with-plain",
    MUST,
    on=TWINS,
    book="FINISH-014",
    source=contract("stop and length are judged alike in both modes"),
)
def test_parity_with_plain(plain: Chat, stream: Chat) -> None:
    """The same answer has the same finish_reason, streamed or not.

    An agent loop branches on it: it would run the tool in one mode and end in the other.
    """
    if any(len(_ends(choice)) > 1 for choice in stream.finished_stream.choices):
        raise inconclusive("a choice finished more than once: finish.stream.once judges that")
    streamed = {o.index: o for o in stream.outcomes if is_int(o.index)}
    for o in plain.outcomes:
        twin = streamed.get(o.index) if is_int(o.index) else None
        if twin is None or o.finish_reason not in _KNOWN or twin.finish_reason not in _KNOWN:
            continue  # judged by other rules
        if (o.content or "", o.calls) != (twin.content or "", twin.calls):
            raise inconclusive("the two answers differ in more than their finish_reason")
        same = o.finish_reason == twin.finish_reason
        choice = stream.assembled.choice(twin.index)
        at = choice.finishes[0] if choice else None
        require(same, f"{o.finish_reason} as in the plain answer", got=twin.finish_reason, at=at, owner=stream)
