"""The body of a plain answer, member by member."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wireproof.judge.rules import MUST, SHOULD, Each, contract, openapi, rule
from wireproof.judge.subjects import PLAIN
from wireproof.read.chat import Chat
from wireproof.read.exchange import Exchange
from wireproof.verdict import inconclusive, require
from wireproof.wire.strictjson import get, is_int

_MESSAGE = "ChatCompletionResponseMessage"


def _messages(x: Chat) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each choice with its message; choice.members.present judges a choice without a message object."""
    for choice in x.plain_choices:
        message = choice.get("message")
        if isinstance(message, dict):
            yield choice, message


@rule(
    "choice.body.required-members",
    MUST,
    on=PLAIN,
    book="CHOICE-001",
    source=openapi("CreateChatCompletionResponse.required"),
    evidence=("ns_model_missing", "ns_choices_null"),
)
def test_required_members(x: Exchange) -> None:
    """A plain body has a non-empty string id, object "chat.completion", integer created, string model and choices.

    Typed clients require all five: pydantic-ai rejects an answer that lacks one; with choices null,
    openai-python raises TypeError in the user's own line.
    """
    require(x.answered.content.strip(), "a JSON object", got="an empty body")
    if not x.parsed.ok:
        raise inconclusive("the body is not JSON: http.json.well-formed judges that")
    body = x.parsed.value
    require(isinstance(body, dict), "a JSON object", got=body)
    require(not body.get("error"), "a completion, as the status is 200", got=body.get("error"))
    answer_id, created = body.get("id"), body.get("created")
    require(isinstance(answer_id, str) and answer_id, "a non-empty string in `id`", got=answer_id)
    require(body.get("object") == "chat.completion", '`object`: "chat.completion"', got=body.get("object"))
    require(is_int(created), "integer seconds in `created`", got=created)
    require(isinstance(body.get("model"), str), "a string in `model`", got=body.get("model"))
    require(isinstance(body.get("choices"), list), "an array in `choices`", got=body.get("choices"))


@rule(
    "choice.members.present",
    MUST,
    on=PLAIN,
    book="CHOICE-003",
    source=openapi("CreateChatCompletionResponse.choices.items.required"),
)
def test_members_present(x: Chat) -> None:
    """Each choice is an object with an integer index, a message object and a finish_reason.

    Typed clients (pydantic-ai, Go, C#) refuse a choice that lacks one; with message null LangChain raises
    "'NoneType' object has no attribute 'get'".
    """
    choices = x.completion.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        require(isinstance(choice, dict), "an object as choice", got=choice)
        require(is_int(choice.get("index")), "an integer `index` in the choice", got=choice.get("index", "no index"))
        message = choice.get("message", "no message")
        require(isinstance(message, dict), "an object `message` in the choice", got=message)
        require("finish_reason" in choice, "the key `finish_reason` in the choice", got=sorted(choice))


@rule(
    "choice.logprobs.key-present",
    SHOULD,
    on=PLAIN,
    book="CHOICE-004",
    source=openapi("CreateChatCompletionResponse.choices.items.required: logprobs"),
)
def test_logprobs_key(x: Chat) -> None:
    """Each choice of a plain answer has the key logprobs, null when none were asked for.

    Strictly generated clients fail without it; openai-python, LangChain and LlamaIndex do not care.
    """
    for choice in x.plain_choices:
        require("logprobs" in choice, "the key `logprobs` in the choice", got=sorted(choice))


@rule(
    "choice.message.role-assistant",
    MUST,
    on=PLAIN,
    book="CHOICE-005",
    source=openapi(f"{_MESSAGE}.required"),
    evidence=("ns_role_missing",),
)
def test_role_assistant(x: Chat) -> None:
    """The role of an answer's message is "assistant".

    LangChain, LlamaIndex and pydantic-ai raise a validation error when it is missing.
    """
    for _, message in _messages(x):
        require(message.get("role") == "assistant", '`role`: "assistant"', got=message.get("role", "no role"))


@rule(
    "choice.message.content-string-or-null",
    MUST,
    on=PLAIN,
    book="CHOICE-006",
    source=openapi(f"{_MESSAGE}.content"),
    evidence=("ns_content_list", "ns_content_missing"),
)
def test_content_type(x: Chat) -> None:
    """The message has the key content, and it is a string or null, never an array of parts.

    On a list LlamaIndex raises a ValidationError, and user code "'list' object has no attribute 'startswith'".
    """
    for _, message in _messages(x):
        require("content" in message, "the key `content` in the message", got=sorted(message))
        content = message["content"]
        require(content is None or isinstance(content, str), "a string or null in `content`", got=content)


@rule(
    "choice.message.content-not-null",
    MUST,
    on=Each(PLAIN.what, PLAIN.match, (*PLAIN.needs, "plain-cut-one", "stop-at-start")),
    book="CHOICE-007",
    source=contract("an answer without tool calls has text"),
)
def test_content_not_null(x: Chat) -> None:
    """A message without tool calls, function call, refusal, audio or reasoning has a string as content, not null.

    This is the classic agent crash: "'NoneType' object has no attribute 'startswith'".
    """
    for choice, message in _messages(x):
        # Reasoning that never reached its answer may leave null or "": servers differ, and both are common.
        others = ("tool_calls", "function_call", "refusal", "audio", "reasoning", "reasoning_content")
        if any(message.get(name) for name in others) or message.get("content", "") is not None:
            continue
        # A call cut by the limit may be dropped as a whole; then there is neither a call nor text.
        if choice.get("finish_reason") == "length" and (x.asked.get("tools") or x.asked.get("functions")):
            continue
        require(False, "a string in `content`", got="null")


@rule(
    "choice.message.refusal-key",
    SHOULD,
    on=PLAIN,
    book="CHOICE-008",
    source=openapi(f"{_MESSAGE}.required: refusal"),
)
def test_refusal_key(x: Chat) -> None:
    """The message has the key refusal, null unless the model refused.

    OpenAI's schema requires it and OpenAI sends it; strictly generated clients fail without it.
    """
    for _, message in _messages(x):
        require("refusal" in message, "the key `refusal` in the message", got=sorted(message))


@rule(
    "choice.message.no-empty-tool-calls",
    SHOULD,
    on=PLAIN,
    book="CHOICE-009",
    source=openapi(f"{_MESSAGE}.tool_calls: not nullable"),
    evidence=("ns_tool_empty_list",),
)
def test_no_empty_tool_calls(x: Chat) -> None:
    """The key tool_calls is absent, neither null nor an empty array, when no tool was called.

    Code that tests `"tool_calls" in message` or `is not None` takes the branch for tool calls.
    """
    for _, message in _messages(x):
        calls = message.get("tool_calls", "absent")
        require(calls is not None and calls != [], "no key `tool_calls` without a call", got=f"tool_calls: {calls}")


@rule(
    "choice.null.only-where-allowed",
    SHOULD,
    on=PLAIN,
    book="CHOICE-010",
    source=openapi("CreateChatCompletionResponse: members that are optional but not nullable"),
)
def test_null_only_where_allowed(x: Chat) -> None:
    """Optional members that are not nullable (annotations, function_call) are left out rather than sent as null.

    Strictly generated clients reject null there. system_fingerprint is left alone: OpenAI itself sends null.
    """
    for _, message in _messages(x):
        for name in ("annotations", "function_call"):
            require(message.get(name, "absent") is not None, f"no `{name}` at all", got=f"{name}: null")
        parts = message.get("annotations")
        for part in parts if isinstance(parts, list) else []:
            citation = get(part, "url_citation", default="absent")
            require(citation is not None, "an object in `url_citation`", got="null")
