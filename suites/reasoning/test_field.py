"""The member that holds the thoughts: its names, its type, its place in a stream, its tokens."""

from __future__ import annotations

from wireproof.judge.rules import MAY, SHOULD, Each, Twins, contract, engine, openapi, rule, unobservable
from wireproof.read.chat import Chat, is_answer, is_chat, is_stream
from wireproof.read.exchange import Exchange
from wireproof.read.reasoning import NAMES, Thought, kept_in, members, tag, thinks, thoughts
from wireproof.read.tool_calls import torn
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get, is_int

_REASONING_TOKENS = ("completion_tokens_details", "reasoning_tokens")
_PAIR = ("reasoning-plain", "reasoning-stream")


def _counted(x: Chat) -> bool:
    tokens = get(x.usage, *_REASONING_TOKENS)
    return is_int(tokens) and tokens > 0


def _spoke_thoughts(x: Chat) -> bool:
    """Whether there is content although all tokens were thoughts."""
    tokens, thought = (get(x.usage, *at) for at in (("completion_tokens",), _REASONING_TOKENS))
    said = any(isinstance(m.get("content"), str) and m["content"] for m in members(x))
    return said and is_int(tokens) and is_int(thought) and thought >= tokens


def _is_odd(x: Chat) -> bool:
    return any(m.get(n) is not None and not isinstance(m[n], str) for m in members(x) for n in NAMES)


def _shows(x: Exchange) -> bool:
    """A chat answer with a member for thoughts that is not null, or with tokens of thoughts."""
    return is_answer(x) and (_counted(x) or any(m.get(n) is not None for m in members(x) for n in NAMES))


_SHOWN = Each("every chat answer that has reasoning, or counts its tokens", _shows, _PAIR)
_STREAMS = Each("every chat stream that has reasoning", lambda x: is_stream(x) and thinks(x), ("reasoning-stream",))
_WITH_USAGE = Each(
    "every chat answer that has reasoning and usage",
    lambda x: is_chat(x) and thinks(x) and x.usage is not None and (not x.is_event_stream or x.asked_usage),
    _PAIR,
)
_TWINS = Twins("the same request at temperature 0, plain and streamed", is_answer, _PAIR)

unobservable(
    "reasoning.null.tolerated",
    MAY,
    requirement="The members for reasoning may be null in every chunk or message of an answer without reasoning.",
    why="SGLang sends reasoning_content: null in each delta; clients use getattr and see nothing odd.",
    reason="It is a permission, which no answer can break. Legal variations of the bundled server show that no rule "
    "fails on null.",
    source=engine("sglang", "StreamDelta.reasoning_content"),
    book="REASONING-010",
)


@rule(
    "reasoning.field.present",
    MAY,
    on=_SHOWN,
    book="REASONING-002",
    source=engine("vllm", "ChatMessage.reasoning"),
)
def test_field_present(x: Chat) -> None:
    """The server shows the thoughts that it counts as `reasoning` or `reasoning_content`, a string or null.

    llama-index reads both names, others only one; an object in place of the text breaks typed clients.
    """
    for message in members(x):
        for name in NAMES:
            value = message.get(name)
            require(value is None or isinstance(value, str), f"{name} as a string or null", got=value)
    if not thinks(x):
        if kept_in(x) or not _counted(x):
            raise NotApplicable("the request keeps thoughts out, or there are none")
        if not members(x) or (x.is_event_stream and torn(x)):
            raise inconclusive("the message is missing or incomplete")
        if all(t.finish == "length" for t in thoughts(x)):
            raise inconclusive("the answer was cut off, perhaps within the tag that begins a thought")
        if tag(x) or _spoke_thoughts(x):
            raise inconclusive("the thoughts are in the content: other rules judge that")
        require(False, "the thoughts that usage counts", got="no reasoning, no reasoning_content")


@rule(
    "reasoning.stream.before-content",
    MAY,
    on=_STREAMS,
    book="REASONING-003",
    source=engine("vllm", "DeltaMessage.reasoning"),
    evidence=("delta_ext_str_reasoning",),
)
def test_before_content(x: Chat) -> None:
    """In a stream, all thoughts of a choice come before its first content.

    User interfaces close the "thinking" box at the first content: they show later thoughts nowhere, or as text.
    """
    answered: set[object] = set()
    for part in x.answer_parts:
        delta = part.delta
        if part.index in answered:
            late = next((n for n in NAMES if delta.get(n)), None)
            require(late is None, "no thought after the first content", got=late and delta[late], at=part)
        content = delta.get("content")
        if isinstance(content, str) and content.strip():
            answered.add(part.index)
    if not answered:
        raise inconclusive("no content came after the thoughts")


@rule(
    "reasoning.delta.not-both",
    SHOULD,
    on=_STREAMS,
    source=contract("a delta is thought, or answer"),
)
def test_not_both(x: Chat) -> None:
    """No delta has both content and a thought.

    Clients that branch on one drop the other: the last words of the thought, or the first of the answer, are lost.
    """
    for part in x.answer_parts:
        thought = any(part.delta.get(n) for n in NAMES)
        content = part.delta.get("content")
        require(not (thought and content), "content or a thought", got=part.delta, at=part)


@rule(
    "reasoning.usage.counted",
    SHOULD,
    on=_WITH_USAGE,
    book="REASONING-005",
    source=openapi("CompletionUsage.completion_tokens_details.reasoning_tokens"),
)
def test_usage_counted(x: Chat) -> None:
    """usage.completion_tokens_details.reasoning_tokens counts the tokens of thoughts: an integer above 0.

    Users pay for thoughts: without their number, nobody can tell why a short answer cost so much.
    """
    tokens = get(x.usage, *_REASONING_TOKENS)
    require(is_int(tokens) and tokens > 0, "completion_tokens_details.reasoning_tokens above 0", got=tokens)


def _one(x: Chat) -> Thought:
    if x.is_event_stream and torn(x):
        raise inconclusive("an event is not JSON")
    found = thoughts(x)
    if len(found) != 1:
        raise NotApplicable("the answer does not have exactly one choice")
    if found[0].finish is None:
        raise inconclusive("the answer did not end")
    return found[0]


@rule(
    "reasoning.field.same-in-both-modes",
    SHOULD,
    on=_TWINS,
    source=contract("one name, plain and streamed"),
)
def test_same_in_both_modes(plain: Chat, stream: Chat) -> None:
    """Thoughts have the same name plain and streamed; if they come under two names, the text is the same.

    Both `reasoning` and `reasoning_content` are in use, and most clients read only one: if the name changes with the
    mode, LiteLLM, strands, langchain4j and opencode lose the thoughts without an error.
    """
    if _is_odd(plain) or _is_odd(stream):
        raise inconclusive("a thought is not text: reasoning.field.present judges that")
    first, second = _one(plain), _one(stream)
    if not first.names and not second.names:
        raise NotApplicable("the answer has no reasoning")
    for x, found in ((plain, first), (stream, second)):
        texts = {text.strip() for text in found.texts.values()}
        require(len(texts) < 2, "one text under both names", got=dict(found.texts), owner=x)
    if first.content.strip() != second.content.strip():
        raise inconclusive("the two answers are not the same")
    named = " and ".join(sorted(first.names)) or "none"
    require(first.names == second.names, f"{named}, as in the plain answer", got=sorted(second.names), owner=stream)


@rule(
    "reasoning.parity",
    SHOULD,
    on=_TWINS,
    source=contract("a stream says what the plain answer says"),
)
def test_parity(plain: Chat, stream: Chat) -> None:
    """At temperature 0, the thoughts of a stream join into those of the plain answer.

    Parsers that hold text back lose the last tokens before the end tag: traces end in the middle of a word.
    """
    first, second = _one(plain), _one(stream)
    one, two = first.text.strip(), second.text.strip()
    if not one or not two:
        raise NotApplicable("an answer has no reasoning")
    if first.finish != second.finish:
        raise inconclusive("the answers do not end alike")
    # A lost part shows only in the thought; if the answers differ as well, the model said something else.
    if one != two and (first.calls, first.content.strip()) != (second.calls, second.content.strip()):
        raise inconclusive("the model did not repeat itself")
    require(one == two, f"the thought of the plain answer, ending in {one[-40:]!r}", got=two[-60:], owner=stream)
