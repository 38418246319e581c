"""What messages contain: strings and parts, nothing, names, and what the server itself once wrote."""

from __future__ import annotations

from typing import Any

from wireproof.judge.rules import MUST, SHOULD, client, contract, observed, of, openapi, rule
from wireproof.read.chat import Chat
from wireproof.read.prompt_tokens import must_answer, prompt_tokens, same_prompt
from wireproof.read.recording import Take
from wireproof.read.refusal import is_refused
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get

# Where two parts meet, a line break may be added, or tokens may be split differently (tokens for each joint).
_JOINT = 2
_JOINTS = 2  # of three parts


@rule(
    "role.parts.equal-string",
    MUST,
    on=of("role-prompts"),
    book="ROLE-006",
    source=openapi("content: oneOf a string, an array of parts"),
)
def test_parts_equal(prompts: Take) -> None:
    """A text as the only part of an array gives the same prompt as the plain string, for each role that has a text.

    LangChain, LlamaIndex and the Agents SDK send arrays. Templates that expect a string raise, or write out the array
    in Python's notation. (Tool results: tool.history.parts-equal.)
    """
    for step, usual in (("user", "user-long"), ("assistant", "talk"), ("system", "system"), ("developer", "developer")):
        if prompts.chat(usual).ok or usual == "user-long":
            same_prompt(prompts.chat(f"parts-{step}"), prompts.chat(usual), f"the content of role {step} in one part")


@rule(
    "role.parts.all-used",
    MUST,
    on=of("role-prompts", "role-say", "role-say-parts"),
    book="ROLE-007",
    source=openapi("ChatCompletionRequestUserMessage.content: an array of content parts"),
)
def test_parts_all_used(prompts: Take, told: Chat, parts: Chat) -> None:
    """The server uses all text parts of a message, in their order.

    Servers that use only the first part, or the last, answer a question without the document that came with it. (The
    order shows only with a model that repeats what it is told.)
    """
    whole, three = prompts.chat("user-long"), prompts.chat("parts-three")
    must_answer(three, "three text parts", prompts.chat("parts-user"))
    least = prompt_tokens(whole) - _JOINT * _JOINTS
    require(prompt_tokens(three) >= least, f"{least} prompt_tokens or more", got=prompt_tokens(three), owner=three)
    if parts.ok and told.ok:
        first, second = (_text(parts).find(word) for word in ("zebra", "4417"))
        swapped = _text(told).find("zebra") < _text(told).find("4417") and -1 < second < first
        require(not swapped, "the first part before the second", got=_text(parts), owner=parts)


def _text(x: Chat) -> str:
    found: list[Any] = [o.content for o in x.outcomes]
    return " ".join(c for c in found if isinstance(c, str))


@rule(
    "role.empty-content-and-name.accepted",
    SHOULD,
    on=of("role-forms"),
    book="ROLE-011",
    source=openapi("ChatCompletionRequestUserMessage.name"),
)
def test_empty_and_name(forms: Take) -> None:
    """The server answers a user message with empty text, and one with a name.

    Chat programs send empty text when there was only a picture, and AutoGen sends names with all messages.
    """
    usual = forms.chat("usual")
    must_answer(forms.chat("empty-user"), 'content "" of the user', usual)
    must_answer(forms.chat("named-user"), "a name in a message", usual)


@rule(
    "role.assistant.empty-accepted",
    SHOULD,
    on=of("role-forms"),
    source=observed("OpenAI accepts an empty text of the assistant in a history"),
)
def test_assistant_empty(forms: Take) -> None:
    """The server answers a history with an empty assistant message.

    Clients store an answer that was stopped at once as an empty one; if the server refuses it, the chat can never go
    on.
    """
    must_answer(forms.chat("empty-assistant"), 'content "" of the assistant', forms.chat("usual"))


@rule(
    "role.null-empty-absent.equal",
    SHOULD,
    on=of("role-odd-forms"),
    source=openapi("ChatCompletionRequestAssistantMessage.content: nullable"),
)
def test_null_empty_absent(forms: Take) -> None:
    """If the server accepts an assistant message with null or no content, the prompt is that of an empty text.

    All three mean the same. If a template writes "None", the model reads it as its own last words. (Beside tool calls:
    tool.history.content-forms-equal.)
    """
    usual, judged = forms.chat("empty"), False
    for step in ("null", "absent"):
        x = forms.chat(step)
        if x.ok and usual.ok:
            judged = True
            same_prompt(x, usual, "content null" if step == "null" else "no content")
    if not judged and usual.ok and is_refused(forms.chat("null")):
        raise NotApplicable("the server requires text in an assistant message")
    if not judged:
        raise forms.chat("null").refused()


@rule(
    "role.history.extension-fields-accepted",
    SHOULD,
    on=of("role-forms"),
    book="ROLE-014",
    source=client("openai-python", "ChatCompletionMessage.model_dump"),
)
def test_extension_fields(forms: Take) -> None:
    """The server accepts back an assistant message with refusal, annotations, audio, reasoning and reasoning_content.

    Clients dump the message that they got and append it to the history; if a server refuses the members that others
    send, the second turn fails after every change of provider.
    """
    must_answer(forms.chat("extensions"), "a message with reasoning, annotations and nulls", forms.chat("usual"))


@rule(
    "role.own-answer.accepted",
    MUST,
    on=of("role-own-answer"),
    source=contract("a server accepts the messages that it wrote"),
)
def test_own_answer(talk: Take) -> None:
    """The server accepts its own message back as it came, with one more question.

    Every chat does this. (With calls and their results: tool.history.own-message-accepted.)
    """
    first = talk.chat("first")
    if not first.ok:
        raise first.refused()
    message = get(first.parsed.value, "choices", 0, "message")
    if get(message, "role") != "assistant" or not isinstance(get(message, "content"), str):
        raise inconclusive("the answer is not an assistant's text; other rules judge that")
    if get(message, "tool_calls") == []:
        raise inconclusive("the answer has an empty list of calls; choice.message.no-empty-tool-calls judges that")
    must_answer(talk.chat("second"), "the server's own message")
