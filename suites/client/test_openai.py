"""openai-python, the current version and one that is two years older."""

from __future__ import annotations

from wireproof.judge.rules import MUST, EachStep, client, rule
from wireproof.read.client_outcomes import answers, called, cut, outcome, read, same
from wireproof.read.recording import Take
from wireproof.scenarios.clients import steps
from wireproof.verdict import inconclusive, require

_CLIENT = "openai-python"
_BOTH_WAYS = ("logprobs", "tools", "tools-required", "tools-auto", "tools-none", "parallel", "agent")


def _on(what: str, *tasks: str) -> EachStep:
    return EachStep(what, steps(_CLIENT, *tasks))


@rule(
    "client.openai.create",
    MUST,
    on=_on("every plain answer to openai-python", "plain", "plain-async", "round-trip", *_BOTH_WAYS),
    book="CLIENT-001",
    source=client("openai-python", "chat.completions.create"),
    evidence=("ns_choices_null", "ns_error_200"),
)
def test_create(take: Take) -> None:
    """openai-python's chat.completions.create gives its user what was sent, sync and async: text, calls, usage.

    It validates nothing: a value that is missing or of another type becomes a TypeError in the user's own code.
    """
    for given, x in answers(take, stream=False):
        same(given, x)


@rule(
    "client.openai.stream",
    MUST,
    on=_on("every stream to openai-python", "stream", "stream-async", *_BOTH_WAYS),
    book="CLIENT-002",
    source=client("openai-python", "chat.completions.create(stream=True)"),
    evidence=("done_lower", "done_json_string"),
)
def test_stream(take: Take) -> None:
    """openai-python's create(stream=True) yields every chunk and ends without an exception.

    An event that it cannot read raises an untyped JSONDecodeError mid-stream; the text of one that it does not see is
    silently lost.
    """
    for given, x in answers(take, stream=True):
        same(given, x)


@rule(
    "client.openai.stream-helper",
    MUST,
    on=_on("every stream to openai-python's helper", "helper", "helper-tools", "helper-logprobs", "helper-choices"),
    book="CLIENT-003",
    source=client("openai-python", "ChatCompletionStreamState"),
    evidence=("role_every_chunk", "tool_id_repeat", "usage_then_null_chunk"),
)
def test_stream_helper(take: Take) -> None:
    """openai-python's stream() helper assembles the message that was sent: role, text, calls, finish, usage.

    It joins every string member of every chunk: a repeated id becomes call_a1call_a1, a repeated role
    assistantassistant.
    """
    for given, x in answers(take):
        same(given, x)


@rule(
    "client.openai.parse",
    MUST,
    on=_on("every answer that openai-python parses", "parse", "parse-tool", "helper-parse"),
    book="CLIENT-004",
    source=client("openai-python", "chat.completions.parse, .stream"),
)
def test_parse(take: Take) -> None:
    """openai-python's parse() returns parsed objects, for a response_format and for pydantic_function_tool.

    So does the stream helper. With strict: true the schema allows only one value. Any other answer raises a
    ValidationError.
    """
    for given, x in answers(take):
        if take.chats()[0].transcript.step == "parse-tool":
            called(x)
        elif read(x)[0].refusal or cut(x):
            raise inconclusive("the model refused, or was cut off")
        same(given, x)
        result = outcome(take).result
        require(result.get("right"), "an object of the requested type", got=result.get("parsed"), owner=x)
