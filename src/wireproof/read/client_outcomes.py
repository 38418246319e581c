"""What a client library made of an answer, beside what the bytes of the answer say.

Clients are subjects, never judges: what a client returned is compared with our own decoding of the bytes that it was
given. Checks get the `Take` of one task and go through `answers`, which also says what an exception means.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wireproof.read.chat import Chat
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Take
from wireproof.verdict import Broken, NotApplicable, inconclusive, require, show
from wireproof.wire import strictjson
from wireproof.wire.strictjson import get
from wireproof.wire.transcript import Ending

_HUNG = (Ending.IDLE_TIMEOUT, Ending.TOTAL_TIMEOUT)
# What becomes of the process of a driver.
_OURS = frozenset({"DriverHang", "DriverCrash", "DriverNonsense"})


@dataclass(frozen=True)
class ClientResult:
    """What a client made of one task. `error` is empty when it came to its end."""

    setup: str
    client: str
    ok: bool
    result: Mapping[str, Any]
    error: Mapping[str, Any]

    @property
    def told(self) -> str:
        """The exception in a few words."""
        where = self.error.get("where")
        return f"{self.error.get('type')}: {show(self.error.get('message'), 120)}" + (f" ({where})" if where else "")

    def raised(self, *names: str) -> bool:
        """Whether the exception is of one of these classes."""
        bases = self.error.get("bases")
        return isinstance(bases, list) and any(name in bases for name in names)


def outcome(take: Take) -> ClientResult:
    """The outcome of the task whose exchanges these are."""
    tags = take.exchanges[0].transcript.tags
    try:
        value = json.loads(tags.outcome)
    except ValueError as error:
        raise inconclusive("the recording does not say what the client made of it") from error
    found = {key: value.get(key) if isinstance(value.get(key), dict) else {} for key in ("result", "error")}
    return ClientResult(tags.client, tags.versions, value.get("ok") is True, found["result"], found["error"])


# -- our reading of the bytes ----------------------------------------------------------


@dataclass(frozen=True)
class SeenCall:
    """A tool call as it stands in the answer."""

    id: Any
    name: Any
    arguments: Any


@dataclass(frozen=True)
class SeenChoice:
    """One choice of an answer as we read it."""

    index: Any
    content: Any
    refusal: Any
    finish: Any
    calls: tuple[SeenCall, ...]
    tokens: tuple[tuple[Any, Any], ...]  # of its logprobs: token, logprob


def read(x: Chat) -> list[SeenChoice]:
    """The choices of an answer; inconclusive when there are none. A client may leave after [DONE]."""
    if not x.ok:
        raise x.refused()
    if not x.is_event_stream:
        return [_plain(c) for c in x.plain_choices]
    if x.errors:
        raise inconclusive("the stream broke off with an error event, which client.errors.mid-stream judges")
    if x.cut_by_us and not x.done:
        raise inconclusive("the client left before the stream ended")
    if not x.assembled.choices:
        raise inconclusive("the stream has no choices")
    return [
        SeenChoice(
            index=c.index,
            content=c.content,
            refusal=c.refusal,
            finish=c.finish_reason,
            calls=tuple(SeenCall(k.id, k.name, k.arguments) for k in c.calls),
            tokens=tuple(t for p in c.parts for t in _tokens(p.choice)),
        )
        for c in x.assembled.choices
    ]


def _plain(choice: dict[str, Any]) -> SeenChoice:
    calls = get(choice, "message", "tool_calls")
    return SeenChoice(
        index=choice.get("index"),
        content=get(choice, "message", "content"),
        refusal=get(choice, "message", "refusal"),
        finish=choice.get("finish_reason"),
        calls=tuple(
            SeenCall(get(c, "id"), get(c, "function", "name"), get(c, "function", "arguments"))
            for c in (calls if isinstance(calls, list) else [])
        ),
        tokens=tuple(_tokens(choice)),
    )


def _tokens(choice: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    entries = get(choice, "logprobs", "content")
    for entry in entries if isinstance(entries, list) else []:
        yield get(entry, "token"), get(entry, "logprob")


# -- beside what the client says ----------------------------------------------------------


def answers(take: Take, *, stream: bool | None = None) -> Iterator[tuple[dict[str, Any], Chat]]:
    """Each answer as the client gave it to its user, with the exchange that it was made of.

    `stream` chooses those that were streamed, or those that were not. When the client raised instead, this does too:
    Broken when the answer is to blame.
    """
    found = outcome(take)
    if not found.ok:
        x = _raised_for(found, take.chats())
        if stream is None or x.asked_stream is stream:
            raise meaning(found, x)
        raise inconclusive(f"another request of the task failed: {found.told}")
    given = found.result.get("answers")
    pairs = list(zip(given if isinstance(given, list) else [], take.chats(), strict=False))
    chosen = [(a, x) for a, x in pairs if stream is None or x.asked_stream is stream]
    if not chosen:
        raise inconclusive("the task has no such request")
    yield from chosen


def _raised_for(found: ClientResult, exchanges: Sequence[Chat]) -> Chat:
    """The exchange that a client raised for: of several at a time the last one with the status that it tells."""
    told = [x for x in exchanges if x.status is not None and x.status == found.error.get("status")]
    return told[-1] if told else exchanges[-1]


def meaning(found: ClientResult, x: Chat) -> Exception:
    """What it means that a client raised: a broken rule, unless the bytes say that it was right to."""
    if found.error.get("type") in _OURS or x.transcript.ending in _HUNG:
        return inconclusive(f"{found.told}; {x.transcript.ending.value} {x.transcript.detail}".strip())
    if not x.ok:
        return x.refused()
    if x.is_event_stream and x.errors:
        return inconclusive("the stream broke off with an error event, which client.errors.mid-stream judges")
    if found.raised("LengthFinishReasonError", "ContentFilterFinishReasonError"):
        return inconclusive(f"the answer was cut: {found.told}")
    return Broken(f"an answer that {found.client} can take", found.told, owner=x.transcript.id)


def refusal(take: Take, found: ClientResult) -> Exchange:
    """The refused exchange that a client raised for.

    Not applicable where nothing was refused; inconclusive where that was the task, and where no whole answer came.
    """
    refused = [x for x in take.chats() if x.status is not None and x.status >= 400]
    last = take.exchanges[-1]
    if found.error.get("type") in _OURS:
        raise inconclusive(found.told)
    if not refused and last.valid:
        raise NotApplicable("nothing was refused")
    if not refused:
        raise inconclusive(f"the target did not refuse it: {last.status or last.transcript.ending.value}")
    whole = [x for x in refused if x.transcript.ending is Ending.COMPLETE]
    if not whole:
        raise inconclusive(f"the refusal did not come to its end: {refused[-1].transcript.ending.value}")
    return _raised_for(found, whole)


def same(given: Mapping[str, Any], x: Chat) -> None:
    """Go on when what the client gave to its user is what the bytes say."""
    ours = {c.index: c for c in read(x)}
    theirs = given.get("choices")
    for choice in theirs if isinstance(theirs, list) else []:
        wire = ours.get(choice.get("index"))
        if wire is None:
            raise inconclusive("the answer has other choices than were asked for")
        _same_choice(choice, wire, x)
    if "usage" in given and x.usage is not None:
        names = ("prompt", "completion", "total")
        counted = {name: x.usage.get(f"{name}_tokens") for name in names}
        require(given["usage"] == counted, f"the usage that was sent, {counted}", got=given["usage"], owner=x)
    invalid = given.get("invalid")
    if invalid and all(_valid(c.arguments) for w in ours.values() for c in w.calls):
        require(False, "calls whose arguments can be read", got=invalid, owner=x)
    if isinstance(given.get("chunks"), int) and x.is_event_stream:
        sent = len(x.payloads)
        require(given["chunks"] == sent, f"all {sent} chunks", got=f"{given['chunks']} of them", owner=x)


def _same_choice(choice: Mapping[str, Any], wire: SeenChoice, x: Exchange) -> None:
    content, sent = choice.get("content") or "", wire.content or ""
    require(content == sent, f"the text that was sent, {show(sent, 60)!r}", got=show(content), owner=x)
    if "finish" in choice:
        finish = choice["finish"]
        require(isinstance(finish, str), "a finish_reason", got=finish, owner=x)
        require(finish == wire.finish, f"finish_reason {wire.finish!r}, as was sent", got=finish, owner=x)
    if choice.get("role") is not None:
        require(choice["role"] == "assistant", "the role assistant", got=choice["role"], owner=x)
    calls = choice.get("calls") or []
    require(len(calls) == len(wire.calls), f"as many calls as were sent, {len(wire.calls)}", got=len(calls), owner=x)
    for call, one in zip(calls, wire.calls, strict=True):
        require(call["name"] == one.name, f"the function {one.name!r}", got=call["name"], owner=x)
        require(call["id"] == one.id, f"the call id {one.id!r}", got=call["id"], owner=x)
        _same_arguments(call["arguments"], one.arguments, x)
    if choice.get("logprobs"):
        tokens = [(t[0], t[1]) for t in choice["logprobs"]]
        require(tokens == list(wire.tokens), f"the {len(wire.tokens)} logprobs that were sent", got=tokens, owner=x)


def _same_arguments(theirs: Any, sent: Any, x: Exchange) -> None:
    if isinstance(theirs, str) or not isinstance(sent, str):
        require(theirs == sent, f"the arguments that were sent, {show(sent, 80)}", got=theirs, owner=x)
        return
    parsed = strictjson.parse(sent)
    if not parsed.ok:
        raise inconclusive(f"the arguments are no JSON: {show(sent, 60)}")
    require(theirs == parsed.value, f"the arguments that were sent, {show(sent, 80)}", got=theirs, owner=x)


def _valid(arguments: Any) -> bool:
    parsed = strictjson.parse(arguments) if isinstance(arguments, str) else None
    return parsed is not None and parsed.ok and isinstance(parsed.value, dict)


def called(x: Chat) -> list[SeenCall]:
    """The calls of an answer; inconclusive when there are none: that is for the rules of tool_choice."""
    found = [call for choice in read(x) for call in choice.calls]
    if not found:
        raise inconclusive("the answer has no tool call")
    return found


def cut(x: Chat) -> bool:
    """Whether some choice was cut by max_tokens, or left out by a filter."""
    return any(c.finish in ("length", "content_filter") for c in read(x))
