"""A chat completion: what its request asked for and its answer came to, plain or streamed.

Chat is one endpoint among several: what is true of any HTTP exchange is `Exchange`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeGuard

from wireproof.read import guessed_request
from wireproof.read.exchange import Exchange
from wireproof.verdict import Inconclusive, NotApplicable
from wireproof.wire import chat, strictjson
from wireproof.wire.sse import Event


@dataclass(frozen=True)
class Chat(Exchange):
    """An exchange with `/chat/completions`."""

    # -- the request ---------------------------------------------------------

    def _guessed(self) -> dict[str, Any]:
        return guessed_request.asked(self.response)

    @property
    def asked_usage(self) -> bool:
        """Whether `stream_options.include_usage` was asked for; not applicable when nothing tells."""
        found = strictjson.get(self.asked, "stream_options", "include_usage") is True
        if not found and not self.knows_request:
            raise NotApplicable("the recording does not say whether usage was asked for")
        return found

    @cached_property
    def asked_n(self) -> int:
        """How many choices were asked for."""
        n = self.asked.get("n")
        return int(n) if isinstance(n, int) and not isinstance(n, bool) and n > 0 else 1

    @cached_property
    def token_limit(self) -> int | None:
        """max_completion_tokens, or max_tokens (tokens); None when neither was given."""
        for name in ("max_completion_tokens", "max_tokens"):
            value = self.asked.get(name)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        return None

    # -- a plain answer ------------------------------------------------------

    @property
    def completion(self) -> dict[str, Any]:
        """The JSON object of a plain 200 answer; inconclusive when there is none."""
        if not self.ok:
            raise self.refused()
        if self.is_event_stream or not self.parsed.ok or not isinstance(self.parsed.value, dict):
            raise Inconclusive("the answer is not a JSON object")
        if self.parsed.value.get("error") or "choices" not in self.parsed.value:
            raise Inconclusive("the answer is not a completion")
        value: dict[str, Any] = self.parsed.value
        return value

    @property
    def plain_choices(self) -> list[dict[str, Any]]:
        """The choice objects of a plain answer; inconclusive when there is none."""
        found = self.completion.get("choices")
        choices = [c for c in found if isinstance(c, dict)] if isinstance(found, list) else []
        if not choices:
            raise Inconclusive("the answer has no choices")
        return choices

    # -- a stream ------------------------------------------------------------

    @cached_property
    def payloads(self) -> list[chat.Chunk]:
        """Every event but [DONE], with its data parsed as JSON (which may have failed)."""
        return [
            chat.Chunk(number, event, strictjson.parse(event.data))
            for number, event in enumerate(self.events)
            if event.data.strip() != chat.DONE
        ]

    @cached_property
    def chunks(self) -> list[chat.Chunk]:
        """The payloads that are JSON objects, no errors, and no asides (pings and the like have rules of their own)."""
        objects = (c for c in self.payloads if c.parsed.ok and isinstance(c.value, dict))
        return [c for c in objects if not (c.is_error or c.is_aside or c.is_preamble)]

    @property
    def answer_chunks(self) -> list[chat.Chunk]:
        """The chunks; inconclusive when there is none."""
        if not self.chunks:
            raise Inconclusive("the stream has no chunks")
        return self.chunks

    @property
    def answer_parts(self) -> tuple[chat.Part, ...]:
        """Every choice object of the stream; inconclusive when there is none."""
        if not self.assembled.parts:
            raise Inconclusive("the stream has no choices")
        return self.assembled.parts

    @cached_property
    def errors(self) -> list[chat.Chunk]:
        """The payloads that are error objects."""
        return [c for c in self.payloads if c.parsed.ok and c.is_error]

    @cached_property
    def done(self) -> list[Event]:
        """The events whose data is [DONE]."""
        return [e for e in self.events if e.data.strip() == chat.DONE]

    @cached_property
    def assembled(self) -> chat.Assembled:
        """The stream put together."""
        return chat.assemble(self.chunks)

    @property
    def finished_stream(self) -> chat.Assembled:
        """The stream put together; inconclusive when it broke off with an error or was cut by us."""
        if self.errors:
            raise Inconclusive("the stream broke off with an error event")
        if self.cut_by_us:
            raise Inconclusive("we left before the stream ended")
        if not self.assembled.choices:
            raise Inconclusive("the stream has no choices")
        return self.assembled

    # -- what both kinds of answer have --------------------------------------

    @cached_property
    def usage(self) -> dict[str, Any] | None:
        """The usage object of the answer, or None."""
        if self.is_event_stream:
            found = [u for _, u in self.assembled.usages if isinstance(u, dict)]
            return found[-1] if found else None
        found_plain = strictjson.get(self.parsed.value, "usage")
        return found_plain if isinstance(found_plain, dict) else None

    @cached_property
    def outcomes(self) -> list[ChoiceResult]:
        """What each choice came to, streamed or not; inconclusive when there is no answer."""
        if self.is_event_stream:
            return [
                ChoiceResult(
                    c.index, c.content, c.refusal, c.finish_reason, tuple((k.name, k.arguments) for k in c.calls)
                )
                for c in self.finished_stream.choices
            ]
        return [_plain_outcome(c) for c in self.plain_choices]


@dataclass(frozen=True)
class ChoiceResult:
    """One choice of an answer in a form that is the same for stream and plain."""

    index: Any
    content: Any
    refusal: Any
    finish_reason: Any
    calls: tuple[tuple[Any, Any], ...]


def _plain_outcome(choice: dict[str, Any]) -> ChoiceResult:
    calls = strictjson.get(choice, "message", "tool_calls")
    return ChoiceResult(
        index=choice.get("index"),
        content=strictjson.get(choice, "message", "content"),
        refusal=strictjson.get(choice, "message", "refusal"),
        finish_reason=choice.get("finish_reason"),
        calls=tuple(
            (strictjson.get(c, "function", "name"), strictjson.get(c, "function", "arguments"))
            for c in (calls if isinstance(calls, list) else [])
        ),
    )


def is_chat(x: Exchange) -> TypeGuard[Chat]:
    """Whether the request was a chat completion."""
    return isinstance(x, Chat)


def is_stream(x: Exchange) -> TypeGuard[Chat]:
    """A chat stream: asked for, and an event stream came."""
    return is_chat(x) and x.is_event_stream


def is_plain(x: Exchange) -> TypeGuard[Chat]:
    """A plain chat answer: no stream asked for, and a 200 came."""
    return is_chat(x) and not x.asked_stream and x.ok and not x.is_event_stream


def is_answer(x: Exchange) -> TypeGuard[Chat]:
    """A chat answer of either kind."""
    return is_stream(x) or is_plain(x)
