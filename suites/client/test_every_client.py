"""What holds for every client: errors, None, leaving a stream, many requests at a time."""

from __future__ import annotations

from wireproof.judge.rules import MUST, SHOULD, EachStep, client, contract, rule, unobservable
from wireproof.read.chat import Chat
from wireproof.read.client_outcomes import answers, cut, meaning, outcome, read, refusal, same
from wireproof.read.recording import Take
from wireproof.scenarios.clients import TASKS, steps
from wireproof.verdict import NotApplicable, inconclusive, require, show
from wireproof.wire.strictjson import get, parse

_LEAVES = ("leave", "leave-async")
_ANSWERED = tuple(name for name, task in TASKS.items() if task.valid)
_CLASSES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
}


@rule(
    "client.errors.mapped",
    MUST,
    on=EachStep("every refusal to a client", steps("")),
    book="CLIENT-010",
    source=client("openai-python", "_make_status_error"),
    evidence=("err_401_string", "err_422_detail", "err_400_html"),
)
def test_errors_mapped(take: Take) -> None:
    """A refusal raises the exception class of its status, with message and type, and the code and param sent.

    Retries and fallbacks look at these. Of an error body in another form, only the words "Error code: 400" are left.
    """
    found = outcome(take)
    x = refusal(take, found)
    status = x.status or 0
    wanted = _CLASSES.get(status, "InternalServerError" if status >= 500 else "APIStatusError")
    require(found.raised(wanted), f"{wanted} for {status}", got="no error" if found.ok else found.told, owner=x)
    # All four clients take every member of a flat body as well: the rules about envelopes judge that.
    error = get(x.parsed.value, "error", default=x.parsed.value)
    message = get(error, "message")
    require(isinstance(message, str) and message, "an error with a message", got=x.text[:120], owner=x)
    body = get(found.error.get("body"), "message")  # openai 1 and 2 print the whole body, escaped
    shown = message in str(found.error.get("message")) or message == body
    require(shown, f"the message {show(message, 100)}", got=found.told, owner=x)
    kind = found.error.get("kind")
    require(isinstance(kind, str) and kind, "a non-empty error type", got=kind, owner=x)
    for name in ("code", "param"):
        # openai 3 makes a string of a code that is a number; null arrives as None. Beside the error nobody looks.
        sent, got = get(error, name, default=get(x.parsed.value, name)), found.error.get(name)
        require(sent is None or str(got) == str(sent), f"the {name} {show(sent, 60)}", got=got, owner=x)


@rule(
    "client.errors.mid-stream",
    MUST,
    on=EachStep("every stream to a client that broke off with an error event", steps("")),
    book="CLIENT-011",
    source=client("openai-python", "_streaming.Stream"),
    evidence=("error_mid_obj", "error_mid_flat"),
)
def test_error_mid_stream(take: Take) -> None:
    """A mid-stream error raises APIError in the client that reads it.

    Only {"error": {...}} does so everywhere. With any other form openai-python and LangChain end as if the answer
    were whole, and LlamaIndex raises a TypeError.
    """
    broken = next((x for x in take.chats() if x.is_event_stream and x.errors), None)
    if broken is None:
        raise NotApplicable("no stream broke off with an error event")
    found = outcome(take)
    if broken.transcript.step in _LEAVES:
        raise inconclusive("the client had left")
    got = "no exception" if found.ok else found.told
    require(found.raised("APIError"), "APIError", got=got, at=broken.errors[0].event, owner=broken)


@rule(
    "client.values.no-none",
    MUST,
    on=EachStep("every answer to a client", steps("", *_ANSWERED)),
    book="CLIENT-012",
    source=client("langchain", "'NoneType' object has no attribute 'startswith'"),
    evidence=("ns_content_missing", "tool_id_missing"),
)
def test_no_none(take: Take) -> None:
    """No answer leaves None where client code expects a string: text without calls, role, tool name, arguments, id.

    Otherwise the user's own code raises "'NoneType' object has no attribute 'startswith'".
    """
    found = outcome(take)
    if not found.ok:
        raise NotApplicable(f"the client raised, which other rules judge: {found.told}")
    given = [*(found.result.get("answers") or []), *(found.result.get("each") or [])]
    after = found.result.get("after")
    given += [after] if after else []
    if not given:
        raise NotApplicable("the task returns no answer")
    for number, answer in enumerate(given):
        x = take.chats()[min(number, len(take.chats()) - 1)]
        none = answer.get("none") or []
        if none == ["content"] and any(cut(one) for one in take.chats() if one.ok):
            continue  # all of it was reasoning
        require(not none, "strings where strings are expected", got=f"None as {', '.join(none)}", owner=x)


@rule(
    "client.break.usable",
    MUST,
    on=EachStep("every stream that a client leaves", steps("", *_LEAVES)),
    book="CLIENT-013",
    source=client("openai-python", "Stream.close"),
)
def test_usable_after_break(take: Take) -> None:
    """A client that leaves a stream early, by closing it, gets its next answer as if nothing had happened.

    Users press Stop: a server that keeps the place of a client that left runs out of places.
    """
    found = outcome(take)
    left, last = take.chats()[:-1], take.chats()[-1]
    if last.asked_stream:
        raise meaning(found, last) if not found.ok else inconclusive("there is no answer after the streams")
    if not any(x.cut_by_us for x in left):
        raise inconclusive("the streams had ended before the client left them")
    require(found.ok, "the next answer", got=f"{last.refusal()}: {found.told}", owner=last)
    same(found.result["after"], last)


@rule(
    "client.async.unmixed",
    SHOULD,
    on=EachStep("many answers at a time to one client", steps("", "unmixed")),
    book="CLIENT-014",
    source=contract("an answer belongs to its request"),
)
def test_unmixed(take: Take) -> None:
    """Each of sixteen streamed and eight plain requests that one client sends at a time gets its own answer.

    Every request has a schema that allows only one word, so the model is no excuse for another's.
    """
    found = outcome(take)
    if not found.ok:
        list(answers(take))
    words = found.result.get("words") or []
    for word, answer in zip(words, found.result.get("each") or [], strict=True):
        text = str(answer["choices"][0]["content"])
        value = parse(text)
        said = get(value.value, "word") if value.ok else None
        if said == word:
            continue
        x = _asked_for(take, word)
        mixed = next((w for w in words if w != word and w in text), None)
        if mixed is None and not (x and not cut(x) and read(x)):
            raise inconclusive(f"{word} was asked for, and came as {text[:60]!r}")
        require(mixed is None, f"the word {word}, which was asked for", got=text, owner=x)
        raise inconclusive("the answer does not follow the schema, which the schema rules judge")


def _asked_for(take: Take, word: str) -> Chat | None:
    return next((x for x in take.chats() if word.encode() in x.request.body), None)


unobservable(
    "client.node.helpers",
    SHOULD,
    requirement="openai-node's create, stream().finalChatCompletion() and finalMessage() work.",
    why="It is the largest client outside Python, and stricter: role, type and finish_reason must be there.",
    reason="It is not run yet: clients of node come after those of Python.",
    source=client("openai-node"),
    book="CLIENT-009",
)

unobservable(
    "client.versions.pinned-and-new",
    SHOULD,
    requirement="The client suites run with pinned and newest client versions on every upgrade of the server.",
    why="Servers break old clients, and new clients break on old servers.",
    reason="It is a matter of how wireproof is used: the set-ups pin a current version and one that is two years old,"
    " and the run record names the versions that were run.",
    source=contract("coverage of client versions"),
    book="CLIENT-015",
)
