"""Characters: the bytes of a stream as text, and characters that span several tokens."""

from __future__ import annotations

from typing import Any

from wireproof.judge.rules import MUST, Each, Twins, client, contract, of, rfc, rule, whatwg
from wireproof.judge.subjects import PLAIN_SCENARIOS, STREAM_SCENARIOS, STREAMS, TWINS
from wireproof.read.chat import Chat, is_answer, is_stream
from wireproof.read.exchange import Exchange
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire import strictjson
from wireproof.wire.sse import AnomalyKind
from wireproof.wire.strictjson import get

_LOST = "\ufffd"


@rule(
    "sse.stream.utf8",
    MUST,
    on=STREAMS,
    book="SSE-007",
    source=whatwg("9.2.5"),
    evidence=("bad_utf8",),
)
def test_stream_utf8(x: Exchange) -> None:
    """Every event is valid UTF-8 on its own: no character is split across two events.

    openai-python, LangChain and LlamaIndex raise UnicodeDecodeError in the middle of the answer; node
    shows U+FFFD.
    """
    size = len(x.answered.content)
    torn = x.cut_by_us or bool(x.answered.framing.problem)
    for anomaly in x.anomalies(AnomalyKind.INVALID_UTF8):
        if torn and anomaly.span[1] >= size:
            continue  # the body broke off inside a character: not the text's fault
        wrong = x.answered.content[anomaly.span[0] : anomaly.span[1]]
        require(False, "valid UTF-8", got=f"{wrong!r} ({anomaly.detail})", at=anomaly)


@rule(
    "sse.stream.no-bom",
    MUST,
    on=STREAMS,
    book="SSE-010",
    source=client("openai-python", "SSEDecoder"),
    evidence=("bom",),
)
def test_stream_no_bom(x: Exchange) -> None:
    """The stream does not start with a byte order mark.

    openai-python ignores the line "\\ufeffdata: ...": the first chunk, with the role, is silently lost.
    """
    found = x.anomalies(AnomalyKind.BOM)
    require(not found, "a field or a comment", got="a byte order mark", at=found[0] if found else None)


def _pins_unicode(schema: Any) -> bool:
    """Whether a schema pins every string, and at least one of them to text that is not ASCII."""
    stack, pinned = [schema], False
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack += node
        elif isinstance(node, dict):
            values = [*(node["enum"] if isinstance(node.get("enum"), list) else []), node.get("const")]
            texts = [v for v in values if isinstance(v, str)]
            if node.get("type") == "string" and not texts:
                return False
            pinned = pinned or any(not t.isascii() for t in texts)
            stack += [v for k, v in node.items() if k not in ("enum", "const", "required")]
    return pinned


def _is_pinned(x: Exchange) -> bool:
    if not is_answer(x) or get(x.asked, "response_format", "type") != "json_schema":
        return False
    schema = get(x.asked, "response_format", "json_schema", "schema")
    return _pins_unicode(schema) and _LOST.encode() not in x.request.body and b"ufffd" not in x.request.body.lower()


PINNED = Each(
    "every answer that a schema pins to non-ASCII text", _is_pinned, ("stream-enum-unicode", "plain-enum-unicode")
)


@rule("sse.text.no-replacement", MUST, on=PINNED, book="SSE-008", source=contract("partial UTF-8 is held back"))
def test_text_no_replacement(x: Chat) -> None:
    """The server holds back a character that spans several tokens until it is complete, and never sends U+FFFD.

    Otherwise users of Chinese, Czech or emoji read garbage that nothing can repair.
    """
    sent = x.answered.content
    if _LOST.encode() not in sent and b"\\ufffd" not in sent.lower():
        return  # invalid bytes become U+FFFD in our reading; sse.stream.utf8 judges those
    if x.is_event_stream:
        for part in x.assembled.parts:
            text = part.delta.get("content")
            require(not isinstance(text, str) or _LOST not in text, "whole characters", got=text, at=part)
        return
    for choice in x.plain_choices:
        text = get(choice, "message", "content")
        require(not isinstance(text, str) or _LOST not in text, "whole characters", got=text)


WHOLE = Twins(
    TWINS.what, TWINS.match, ("plain-unicode-raw", "stream-unicode-raw", "plain-enum-unicode", "stream-enum-unicode")
)


@rule("sse.text.characters-whole", MUST, on=WHOLE, source=contract("partial UTF-8 is held back"))
def test_text_characters_whole(plain: Chat, stream: Chat) -> None:
    """A character that is whole in the plain answer is not replaced by U+FFFD in the stream.

    Otherwise the same question gets a readable answer or garbage, depending on `stream`.
    """
    sent = stream.answered.content
    if _LOST.encode() not in sent and b"\\ufffd" not in sent.lower() and not sent.isascii():
        return
    before = {o.index: o.content for o in plain.outcomes if isinstance(o.content, str)}
    if all(text.isascii() for text in before.values()):
        raise NotApplicable("the answer is plain ASCII")
    for outcome in stream.outcomes:
        there, here = before.get(outcome.index, ""), outcome.content
        at = here.find(_LOST) if isinstance(here, str) else -1
        if at < 0 or at >= len(there) or there[at] == _LOST:
            continue
        if here[:at] != there[:at] or there[at].isascii():
            raise inconclusive("the two answers differ, so their characters cannot be compared")
        require(False, f"{there[max(0, at - 8) : at + 8]!r}", got=f"{here[max(0, at - 8) : at + 8]!r}", owner=stream)


JSON_TEXTS = Each(
    "every JSON body and every chat stream",
    lambda x: x.is_json or is_stream(x),
    (*STREAM_SCENARIOS, *PLAIN_SCENARIOS),
)


@rule(
    "sse.text.no-lone-surrogate",
    MUST,
    on=JSON_TEXTS,
    book="SSE-009",
    source=rfc(8259, "8.2"),
    evidence=("ascii_split_utf8",),
)
def test_text_no_lone_surrogate(x: Chat) -> None:
    r"""No JSON string contains half a character, such as "\ud83d" without its second half.

    Python clients keep it, and the later .encode("utf-8"), for a file or a database, raises
    UnicodeEncodeError.
    """
    texts = [(c.parsed, c) for c in x.payloads] if x.is_event_stream else [(x.parsed, None)]
    for parsed, at in texts:
        problem = parsed.problem(strictjson.ProblemKind.SURROGATE)
        require(problem is None, "whole characters", got=problem.what if problem else "", at=at)


@rule(
    "sse.transport.split-invariant",
    MUST,
    on=of("stream-enum-unicode", "stream-enum-unicode-small-reads"),
    book="SSE-024",
    source=rfc(9112, "7.1"),
)
def test_transport_split_invariant(at_once: Chat, small: Chat) -> None:
    """An answer is the same however the transport cuts it into pieces.

    Middleware that works on one packet at a time corrupts an event now and then, for no apparent reason.
    """
    whole, pieces = at_once.outcomes, small.outcomes
    if any(o.finish_reason != "stop" for o in (*whole, *pieces)):
        raise inconclusive("the pinned answer was not finished")
    got = [o.content for o in pieces]
    require(got == [o.content for o in whole], f"{[o.content for o in whole]}", got=f"{got}", owner=small)
