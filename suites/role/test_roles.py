"""Roles and their order: which are accepted, and whether what they say reaches the model."""

from __future__ import annotations

from typing import Any

from wireproof.judge.rules import (
    MAY,
    MUST,
    SHOULD,
    Each,
    client,
    contract,
    each_of,
    engine,
    observed,
    of,
    openapi,
    rule,
)
from wireproof.read.chat import Chat, is_chat
from wireproof.read.exchange import Exchange
from wireproof.read.prompt_tokens import must_answer, prompt_tokens
from wireproof.read.recording import Take
from wireproof.read.refusal import is_refused, must_accept, must_not_crash, must_refuse
from wireproof.read.views import view
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
# Roles that templates of some engines have beside those of the API.
_EXTRA_ROLES = frozenset({"latest_reminder", "root", "model", "ipython", "observation", "critic", "control", "context"})


# Unusual orders, and the step of role-prompts that has one message fewer.
_ORDERS = {
    "role-two-users": "user",
    "role-assistant-first": "user",
    "role-two-assistants": "talk",
    "role-two-systems": "system-short",
    "role-system-middle": "talk",
}


def _grown(more: Chat, less: Chat) -> int:
    return prompt_tokens(more) - prompt_tokens(less)


# The text that is put into several roles has a hundred words: a count that rises by less than this counts nothing.
_LEAST = 40


def _text_tokens(prompts: Take) -> int:
    """How many tokens the long text has, by what it adds to a user's message."""
    tokens = _grown(prompts.chat("user-long"), prompts.chat("user"))
    if tokens < _LEAST or _grown(prompts.chat("talk"), prompts.chat("user")) <= 0:
        raise inconclusive("prompt_tokens does not grow with the prompt; usage.prompt.grows judges that")
    return tokens


@rule(
    "role.basic.accepted",
    MUST,
    on=of("role-prompts", "tools-auto-none-needed", "role-tool"),
    book="ROLE-001",
    source=openapi("ChatCompletionRequestMessage"),
)
def test_basic(prompts: Take, tools: Exchange, tool: Exchange) -> None:
    """The server answers messages of the roles user, assistant and tool, and never a system message with a 5xx.

    Every conversation has them in its second turn. (role.system.always-works asks for an answer to a system message: a
    few templates have no place for it.)
    """
    usual = prompts.chat("user")
    must_answer(usual, "a user message")
    must_answer(prompts.chat("talk"), "user, assistant, user", usual)
    must_not_crash(prompts.chat("system"))
    if tools.ok:
        must_answer(tool, "assistant with a call, and the tool's message")


@rule(
    "role.developer.accepted",
    SHOULD,
    on=of("role-prompts"),
    source=openapi("ChatCompletionRequestDeveloperMessage"),
)
def test_developer_accepted(prompts: Take) -> None:
    """The server answers a developer message if it answers a system message.

    The OpenAI Agents SDK, Codex and all newer client code send developer; if it is refused, none of their requests
    works.
    """
    must_answer(prompts.chat("developer"), "role developer", prompts.chat("system"))


@rule(
    "role.developer.as-system",
    MUST,
    on=of("role-prompts", "role-unknown"),
    book="ROLE-002",
    source=openapi("ChatCompletionRequestDeveloperMessage: replaces system messages with newer models"),
)
def test_developer_as_system(prompts: Take, unknown: Chat) -> None:
    """A developer message reaches the model like a system message, and is not refused if any word passes as a role.

    A template that does not know the role drops it: the application's instructions are gone, and nothing says so.
    """
    developer, system = prompts.chat("developer"), prompts.chat("system")
    if unknown.ok and system.ok:
        require(not is_refused(developer), "200, as for the role 'robot'", got=developer.refusal(), owner=developer)
    text = _text_tokens(prompts)
    if _grown(system, prompts.chat("system-short")) < text / 2:
        raise inconclusive("the system message does not reach the model itself")
    wanted, found = prompt_tokens(system), prompt_tokens(developer)
    require(abs(found - wanted) <= text / 2, f"about {wanted} prompt_tokens, as system", got=found, owner=developer)


@rule(
    "role.function.accepted-or-refused",
    MAY,
    on=each_of("role-function"),
    book="ROLE-003",
    source=openapi("ChatCompletionRequestFunctionMessage"),
)
def test_function(x: Exchange) -> None:
    """The server answers a message of the deprecated role function, or refuses it with a 4xx.

    Old stored conversations have it.
    """
    must_not_crash(x)


# The longer result has thirty words more.
_LEAST_OF_RESULT = 15


@rule(
    "role.function.counted",
    SHOULD,
    on=of("role-prompts", "role-function", "role-function-long"),
    source=openapi("ChatCompletionRequestFunctionMessage.content: the return value from the function call"),
)
def test_function_counted(prompts: Take, x: Chat, longer: Chat) -> None:
    """If the server accepts a message of the deprecated role function, its text reaches the model.

    Templates skip roles that they do not know: the model makes up an answer, although the history has the result.
    """
    if is_refused(x) or is_refused(longer):
        raise NotApplicable("the role is refused")
    _text_tokens(prompts)
    wanted, found = prompt_tokens(x) + _LEAST_OF_RESULT, prompt_tokens(longer)
    require(found >= wanted, f"{wanted} prompt_tokens or more, with a longer result", got=found, owner=longer)


@rule(
    "role.system.always-works",
    SHOULD,
    on=of("role-prompts"),
    book="ROLE-004",
    source=contract("the server maps what the template does not know"),
)
def test_system_always_works(prompts: Take) -> None:
    """The server answers a system message, even if the model's template has no place for it.

    Every framework sends one. If Gemma's or Mistral's template raises, no application runs on that model.
    """
    must_accept(prompts.chat("system"), "a system message", prompts.chat("user"))


@rule(
    "role.system.reaches-model",
    MUST,
    on=of("role-prompts"),
    book="ROLE-005",
    source=openapi("ChatCompletionRequestSystemMessage.content"),
)
def test_system_reaches_model(prompts: Take) -> None:
    """A longer system message makes the prompt longer by about as much as the same text from the user would.

    If a system message is dropped or cut, nothing says so: the assistant forgets its rules, and nobody sees why.
    """
    text = _text_tokens(prompts)
    grown = _grown(prompts.chat("system"), prompts.chat("system-short"))
    require(grown >= text / 2, f"about {text} prompt_tokens more", got=grown, owner=prompts.chat("system"))


@view
def _unknown(x: Exchange) -> str:
    """The unknown role or part type in a chat request; empty when there is none."""
    found = x.asked.get("messages") if is_chat(x) and x.knows_request else None
    for message in found if isinstance(found, list) else []:
        role, content = get(message, "role"), get(message, "content")
        if isinstance(role, str) and role.lower() not in _ROLES | _EXTRA_ROLES:
            return f"role {role[:40]!r}"
        if isinstance(content, list) and any(get(part, "type") == "no-such-part" for part in content):
            return "a part of type 'no-such-part'"
    return ""


@rule(
    "role.unknown.refused",
    SHOULD,
    on=Each(
        "every request with an unknown role or part type",
        lambda x: bool(_unknown(x)) and x.response is not None,
        ("role-unknown", "part-unknown"),
    ),
    book="ROLE-009",
    source=openapi("ChatCompletionRequestMessage: discriminator role"),
)
def test_unknown(x: Chat) -> None:
    """The server refuses a role or part type that does not exist with a 4xx.

    Otherwise a message with a typo ("sytem") reads as nobody's words, or as nothing at all, and the answer looks fine.
    """
    must_refuse(x, _unknown(x))


@rule(
    "role.sequences.no-5xx",
    SHOULD,
    on=each_of(*_ORDERS, "role-assistant-last"),
    book="ROLE-010",
    source=engine("vllm", "a template that raises is a 400"),
)
def test_sequences(x: Exchange) -> None:
    """The server answers an unusual order of messages, or refuses it with a 4xx, never with a 5xx.

    Chat templates raise on roles that do not alternate. Every SDK retries a 5xx, and it counts as an outage.
    """
    must_not_crash(x)


def _holds(more: Exchange, less: Exchange) -> bool:
    """Whether a request has all messages of another, in their order, and more (older recordings have other texts)."""
    longer, shorter = more.asked.get("messages"), less.asked.get("messages")
    if not (isinstance(longer, list) and isinstance(shorter, list)):
        return False
    rest = iter(longer)
    return len(longer) > len(shorter) and all(any(m == other for other in rest) for m in shorter)


@rule(
    "role.sequences.counted",
    SHOULD,
    on=of("role-prompts", *_ORDERS),
    source=openapi("CreateChatCompletionRequest.messages: the messages of the conversation so far"),
)
def test_sequences_counted(prompts: Take, *orders: Chat) -> None:
    """Every message of an unusual order makes the prompt longer, or the server refuses the order with a 4xx.

    Agents stack system messages, and chat programs begin with a greeting. If a template reads only the first or the
    last of them, the server answers 200 as if the rest had not been said. (It may merge them as it likes.)
    """
    text = _text_tokens(prompts)
    heard = prompts.chat("system").ok and prompts.chat("system-short").ok
    heard = (
        heard and _grown(prompts.chat("system"), prompts.chat("system-short")) >= text / 2
    )  # role.system.reaches-model
    # A system message from the middle may replace the template's own, which may be longer than ours.
    instead = heard and _grown(prompts.chat("system-short"), prompts.chat("user")) <= 0
    unheard = {"role-two-systems": not heard, "role-system-middle": not heard or instead}
    pairs = [(x, prompts.chat(_ORDERS[x.scenario])) for x in orders if x.ok and not unheard.get(x.scenario)]
    pairs = [(x, less) for x, less in pairs if less.ok and _holds(x, less)]
    for x, less in pairs:
        wanted, found = prompt_tokens(less), prompt_tokens(x)
        require(found > wanted, f"more than the {wanted} prompt_tokens of one message fewer", got=found, owner=x)
    if not pairs and all(is_refused(x) for x in orders):
        raise NotApplicable("every unusual order is refused")
    if not pairs:
        raise inconclusive("no unusual order can be compared with the usual one")


def _text(x: Chat) -> str:
    found: list[Any] = [o.content for o in x.outcomes]
    return " ".join(c for c in found if isinstance(c, str)).strip()


@rule(
    "role.prefill.only-by-option",
    MAY,
    on=of("role-assistant-last"),
    book="ROLE-012",
    source=engine("vllm", "continue_final_message, add_generation_prompt"),
)
def test_prefill(x: Chat) -> None:
    """The server continues a last assistant message only if an option asks for it: otherwise a new turn, or a 4xx.

    Some engines continue it, most do not: clients that rely on either get half sentences, or repeated words.
    """
    if is_refused(x):
        return
    text = _text(x)
    if "4417" not in text:
        raise inconclusive("the model does not repeat what it is told")
    require(not text.startswith("4417"), "an answer that starts a new turn", got=text)


@rule(
    "role.system.obeyed",
    SHOULD,
    on=of("role-system-word", "role-user-word"),
    book="ROLE-013",
    source=observed("models follow a system message before the user's"),
)
def test_system_obeyed(system: Chat, user: Chat) -> None:
    """The model does what a simple system message says.

    A template that puts the text in the wrong place leaves it without effect. (Judged only with a model that does it
    when the user asks.)
    """
    if "BLUE" not in _text(user).upper():
        raise inconclusive("the model does not do it for the user either")
    if not system.ok:
        raise system.refused()
    require("BLUE" in _text(system).upper(), "the word BLUE", got=_text(system) or "no text", owner=system)


@rule(
    "role.unknown-member.tolerated",
    SHOULD,
    on=of("role-odd-forms"),
    source=client("codecompanion.nvim", "members of its own in messages"),
)
def test_unknown_member(forms: Take) -> None:
    """The server accepts a message with a member that the API does not have.

    Clients keep ids and times in their messages, and send them along: from a server that refused them, CodeCompanion,
    Void and LiveKit got nothing but 400 "extra_forbidden".
    """
    must_answer(forms.chat("unknown-member"), "a message with a member `id`", forms.chat("usual"))
