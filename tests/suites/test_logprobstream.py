"""The rules for log probabilities in streams, on streams written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.verdict import Status

from .test_logprob import answer, bare, scores
from .wire import broken, chunk, envelope, explain, stream, usage_chunk, verdict

AREAS = ("logprob", "logprobstream")
ASKED = {"logprobs": True, "top_logprobs": 0}
USAGE = {"stream_options": {"include_usage": True}}


def part(text: str | None, *found: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk with text and its entries."""
    delta = {} if text is None else {"content": text}
    value = scores(*found) if found else None
    return envelope([{"index": 0, "delta": delta, "logprobs": value, "finish_reason": finish, **more}])


def scored(*parts: dict[str, Any], asked: dict[str, Any] | None = None, finish: str = "stop", **more: Any) -> Exchange:
    role = chunk({"role": "assistant", "content": ""})
    request = {**ASKED, **(asked or {})}
    end = [chunk({}, finish=finish)]
    tokens = request.pop("tokens", None)
    if tokens is not None:
        request.update(USAGE)
        end.append(usage_chunk(7, tokens))
    return stream(role, *parts, *end, request=request, **more)


HELLO = (part("hel", bare("hel")), part("lo", bare("lo")))


def test_right_streams_break_nothing() -> None:
    assert broken(scored(*HELLO), areas=AREAS) == set()
    assert broken(scored(part("hello", bare("hel"), bare("lo"))), areas=AREAS) == set()
    assert broken(scored(*HELLO, asked={"tokens": 2, "max_tokens": 2}, finish="length"), areas=AREAS) == set()
    with_finish = stream(part("hel", bare("hel")), part("lo", bare("lo"), finish="stop"), request=ASKED)
    assert broken(with_finish, areas=AREAS) == set()


def test_absent() -> None:
    """B2-133: only the last chunk has any."""
    none = scored(part("hel"), part("lo"), asked={"top_logprobs": 2})
    assert broken(none, areas=AREAS) == {"logprobstream.content.present"}
    last = scored(part("hel"), part("lo", bare("lo")))
    assert broken(last, areas=AREAS) == {"logprobstream.content.present"}
    off = scored(part("hel"), part("lo"))
    assert broken(off, areas=AREAS) == {"logprob.top.zero-is-empty"}


def test_cumulative() -> None:
    rule = "logprobstream.entries.increments"
    again = scored(part("hel", bare("hel")), part("lo", bare("hel"), bare("lo")))
    assert broken(again, areas=AREAS) == {rule}
    more = scored(part("ha", bare("h"), bare("a")), part("!", bare("!"), bare("?", bytes=None)))
    assert verdict(rule, more) is Status.PASS
    many = scored(*HELLO, part(None, bare("x")), asked={"tokens": 2, "max_tokens": 2}, finish="length")
    assert rule in broken(many, areas=AREAS)
    twice = scored(part("ha", bare("ha")), part("haho", bare("ha"), bare("ho")))
    assert broken(twice, areas=AREAS) == set()


def test_shifted() -> None:
    """B2-121: the first token of the next chunk comes with this one."""
    x = scored(part("a", bare("a"), bare(" b")), part(" b c", bare(" c")))
    assert broken(x, areas=AREAS) == {"logprobstream.chunk.aligned"}
    held = scored(part("a", bare("a"), bare(" b")), part(" b c", bare(" c")), asked={"stop": ["bx"]})
    assert broken(held, areas=AREAS) == set()


def test_parts_of_characters_may_come_ahead() -> None:
    first, second = (bare(f"bytes:\\x{b:02x}", bytes=[b]) for b in "\u00e9".encode())
    assert broken(scored(part(None, first), part("\u00e9", second)), areas=AREAS) == set()
    vllm = scored(part(None, bare("")), part("\u00e9", bare("\u00e9")))
    assert broken(vllm, areas=AREAS) == {"logprob.token.not-empty"}


def test_held_back() -> None:
    x = scored(part("\u00e9", bare("\u00e9")), part("x", bare("x")), asked={"tokens": 4})
    assert broken(x, areas=AREAS) == {"logprobstream.held-back.kept"}
    end = scored(*HELLO, asked={"tokens": 3})
    assert broken(end, areas=AREAS) == set()
    assert verdict("logprobstream.held-back.kept", scored(*HELLO)) is Status.INCONCLUSIVE


def test_elsewhere() -> None:
    rule = "logprobstream.empty.elsewhere"
    hollow: Any
    for hollow in ({"content": None, "refusal": None}, {"content": [], "refusal": None}):
        role = chunk({"role": "assistant", "content": ""})
        role["choices"][0]["logprobs"] = hollow
        assert broken(stream(role, *HELLO, chunk({}, finish="stop"), request=ASKED), areas=AREAS) == {rule}
    legacy = part("hi", logprobs={"tokens": None})
    assert broken(stream(legacy, chunk({}, finish="stop")), areas=AREAS) == set()


def test_unasked() -> None:
    x = stream(*HELLO, chunk({}, finish="stop"))
    assert broken(x, areas=AREAS) == {"logprobstream.absent.when-not-asked"}


@pytest.mark.parametrize("change", [{"top_logprobs": None}, {"logprob": "x"}, {"token": 7}, {"bytes": "x"}])
def test_shape(change: dict[str, Any]) -> None:
    x = scored(part("hel", {**bare("hel"), **change}), part("lo", bare("lo")))
    assert broken(x, areas=AREAS) == {"logprobstream.entry.shape"}


def test_parity() -> None:
    """B2-129: a stream with fewer entries."""
    rule = "logprobstream.parity.with-plain"
    plain = answer("hello", scores(bare("hel"), bare("lo")), ASKED)
    assert broken(plain, scored(*HELLO), areas=AREAS) == set()
    other = scored(part("he", bare("he")), part("llo", bare("llo")))
    assert broken(plain, other, areas=AREAS) == {rule}
    assert "2 entries as in the plain answer, ['hel', 'lo'] at 0" in explain(rule, plain, other)
    assert verdict(rule, plain, scored(part("hi", bare("hi")))) is Status.INCONCLUSIVE
    noise = scored(part("hel", bare("hel", -0.51)), part("lo", bare("lo", -0.49)))
    assert broken(plain, noise, areas=AREAS) == set()
    values = scored(part("hel", bare("hel", -0.9)), part("lo", bare("lo")))
    assert broken(plain, values, areas=AREAS) == {"logprobstream.values.as-plain"}


def test_parity_of_calls() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}
    plain = answer(said, scores(bare("{"), bare("}")), ASKED, "tool_calls")
    none = scored(chunk({"tool_calls": [{"index": 0, **call}]}), finish="tool_calls")
    assert broken(plain, none, areas=AREAS) == {"logprobstream.parity.with-plain"}
    whole = part(None, bare("{"), bare("}"), delta={"tool_calls": [{"index": 0, **call}]})
    assert broken(plain, scored(whole, finish="tool_calls"), areas=AREAS) == set()


def test_an_error_event_is_no_lost_entry() -> None:
    assert broken(stream(*HELLO, {"error": {"message": "out of memory"}}, request=ASKED), areas=AREAS) == set()


@pytest.mark.parametrize("junk", [None, 7, "x", True, [], [None], [[]], {"a": 1}, [{"token": [], "bytes": [None]}]])
def test_any_json_is_survived(junk: Any) -> None:
    plain = answer("hello", scores(bare("hel")), ASKED)
    for found in (part("hello", junk), part("hello", logprobs=junk), part("hello", logprobs={"content": junk})):
        broken(plain, scored(found, asked={"tokens": 3, "stop": junk}), areas=AREAS)
        broken(scored(found, part(None, index=junk), asked={"top_logprobs": junk}), areas=AREAS)
