"""Thoughts and tool calls, thoughts in the history, and the switches that turn them off."""

from __future__ import annotations

from collections.abc import Iterable

from wireproof.judge.rules import MAY, SHOULD, Each, client, contract, each_of, engine, of, rule
from wireproof.read.call_markers import call_json, every, found
from wireproof.read.chat import Chat
from wireproof.read.exchange import Exchange
from wireproof.read.prompt_tokens import prompt_tokens
from wireproof.read.reasoning import NAMES, members, thinks, thoughts
from wireproof.read.recording import Take
from wireproof.read.refusal import BUSY_OR_LOCKED
from wireproof.read.request import ToolChoiceKind, tool_choice, tools
from wireproof.verdict import NotApplicable, Unsupported, inconclusive, require

_CALLS = ("reasoning-call", "reasoning-call-stream", "reasoning-call-auto", "reasoning-call-auto-stream")
_WITH_TOOLS = Each("every chat answer with tools and reasoning", lambda x: thinks(x) and bool(tools(x)), _CALLS)
_SWITCHES = ("reasoning-off", "reasoning-effort-none", "reasoning-hidden", "reasoning-unseparated")


def _markup(x: Exchange, text: str, names: Iterable[str]) -> str | None:
    """Markup of a call in a thought, followed by the name of a declared function; None if there is none."""
    marker = found(text)
    if marker and every(text) - every(x.request.body.decode("utf-8", "replace")):
        rest = text[text.index(marker) :]
        if any(name in rest for name in names):
            return rest
    last = text.strip().rpartition("\n")[2]
    return last if call_json(last, names) else None


@rule(
    "reasoning.calls.no-markup",
    SHOULD,
    on=_WITH_TOOLS,
    book="REASONING-007",
    source=engine("vllm", "the order of its parsers"),
)
def test_calls_no_markup(x: Chat) -> None:
    """When an answer makes a tool call, the thoughts do not also contain its markup.

    Clients that show or store thoughts show the raw call; a call that is parsed twice is made twice.
    """
    called = [t for t in thoughts(x) if t.calls]
    if not called:
        raise inconclusive("the model made no tool call")
    for t in called:
        markup = _markup(x, t.text, tools(x))
        require(markup is None, "no call markup in the reasoning", got=markup)


@rule(
    "reasoning.call.not-swallowed",
    SHOULD,
    on=_WITH_TOOLS,
    source=contract("a call is a call, wherever the model makes it"),
)
def test_not_swallowed(x: Chat) -> None:
    """A tool call that the model makes before its thoughts end is in tool_calls, not in the reasoning.

    If tool_calls stays empty and finish_reason is "stop", the agent halts without doing anything.
    """
    if tool_choice(x).kind in (ToolChoiceKind.NONE, ToolChoiceKind.UNKNOWN):
        raise NotApplicable("the request forbids calls, or is unknown")
    for t in thoughts(x):
        if t.calls:
            continue
        if t.finish not in ("stop", "tool_calls"):
            raise inconclusive("the answer was cut off")
        markup = _markup(x, t.text, tools(x))
        require(markup is None, "the call in `tool_calls`", got=f"in the reasoning: {markup}")
        raise inconclusive("the model made no tool call")


@rule(
    "reasoning.history.accepted",
    SHOULD,
    on=each_of("reasoning-history"),
    book="REASONING-008",
    source=client("openai-python", "messages are echoed with all their members"),
)
def test_history_accepted(x: Exchange) -> None:
    """The server accepts a history whose assistant messages still have `reasoning` or `reasoning_content`.

    Clients send back the message as it came: if the server refuses its own member, the second turn always fails.
    """
    if x.status in BUSY_OR_LOCKED:
        raise inconclusive(f"the request was not judged: {x.refusal()}")
    if x.status is not None and 200 <= x.status < 300 and not x.ok:
        raise inconclusive("a success with another status: the rules for http judge that")
    require(x.ok, "200", got=x.refusal())


# The thought that is sent back has thirty words: without one, a template may write an empty pair of tags.
_LEAST = 15


def _read(replay: Take, usual: Chat, plain: Chat) -> tuple[int, int, str]:
    """How many tokens a thought adds to the prompt under the server's own name, how many at most, and that name."""
    own = {name for message in members(plain) for name in NAMES if name in message} if plain.ok else set()
    if not own:
        raise inconclusive("the server's answer has no member for thoughts")
    grown = {name: prompt_tokens(replay.chat(name)) - prompt_tokens(usual) for name in NAMES}
    if max(grown.values()) < _LEAST:
        raise inconclusive("no thought of the history reaches the model: the template may leave them out")
    mine = max(own, key=lambda name: grown[name])
    return grown[mine], max(grown.values()), mine


@rule(
    "reasoning.history.own-name-read",
    SHOULD,
    on=of("reasoning-replay", "role-tool", "reasoning-plain"),
    source=contract("what the server wrote, it takes back"),
)
def test_own_name_read(replay: Take, usual: Chat, plain: Chat) -> None:
    """If a thought reaches the model under one of the two names, it does so under the name that the server writes.

    Agents send the message with a call back as it came. If the template reads the other name, a model that thinks
    between its calls loses its plan at each result, and nobody notices. (A template may read no thoughts at all.)
    """
    mine, most, name = _read(replay, usual, plain)
    require(
        mine >= most / 2,
        f"{most} prompt_tokens more for {name}, as for the other",
        got=mine,
        owner=replay.chat(name),
    )


@rule(
    "reasoning.history.both-names-read",
    MAY,
    on=of("reasoning-replay", "role-tool", "reasoning-plain"),
    source=client("opencode", "sends reasoning_content, whatever the server wrote"),
)
def test_both_names_read(replay: Take, usual: Chat, plain: Chat) -> None:
    """If thoughts in the history reach the model, they do so both as `reasoning` and as `reasoning_content`.

    vLLM reads one, the AI SDK and qwen-code send the other: to the model, its thoughts before each call are empty.
    """
    mine, most, _ = _read(replay, usual, plain)
    if mine < most / 2:
        raise inconclusive("the server's own name is not read: reasoning.history.own-name-read judges that")
    for name in NAMES:
        grown = prompt_tokens(replay.chat(name)) - prompt_tokens(usual)
        require(grown >= most / 2, f"{most} prompt_tokens more for {name}", got=grown, owner=replay[name])


@rule(
    "reasoning.switches.accepted",
    MAY,
    on=of("reasoning-plain", *_SWITCHES),
    book="REASONING-009",
    source=engine("vllm", "chat_template_kwargs, include_reasoning"),
)
def test_switches_accepted(plain: Exchange, *switched: Exchange) -> None:
    """At least one of the switches that turn thoughts off works, and none of them breaks the server.

    They are enable_thinking in chat_template_kwargs, reasoning_effort none, include_reasoning and separate_reasoning
    false. Thoughts cost money and time even if nobody wants them; engines know different switches.
    """
    for x in switched:
        if x.status in BUSY_OR_LOCKED:
            continue
        require(x.status is None or x.status < 500, "an answer, or a 4xx", got=x.refusal(), owner=x)
    if not thinks(plain):
        raise inconclusive("the model did not think: no reasoning in `reasoning` or `reasoning_content`")
    accepted = [x for x in switched if x.ok]
    if not accepted:
        unjudged = next((x for x in switched if x.status in BUSY_OR_LOCKED), None)
        raise unjudged.refused() if unjudged else Unsupported("every switch is refused")
    require(not all(thinks(x) for x in accepted), "no reasoning with one of the switches", got="reasoning with each")
