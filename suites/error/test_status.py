"""The status of a refusal: a wrong request is the client's fault, and the server says so in time."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from wireproof.judge.rules import MUST, SHOULD, Across, Each, client, contract, observed, openapi, rfc, rule
from wireproof.read.chat import Chat, is_chat
from wireproof.read.errors import error_of, told_error
from wireproof.read.exchange import Exchange
from wireproof.read.refusal import BUSY_OR_LOCKED, must_not_crash
from wireproof.read.request_defects import Kind, defect
from wireproof.scenarios import fuzz
from wireproof.scenarios.catalog import load
from wireproof.verdict import NotApplicable, inconclusive, require

# Scenarios whose statuses have rules of their own. (error.fuzz.not-ignored judges which fuzzed bodies are refused.)
_OTHERS = ("fuzz-", "auth-")
_RETRIES = client("openai-python", "_base_client._should_retry")


def _of_kind(*kinds: Kind) -> Each:
    """Every chat request with such a defect that got a response; the description names the defects."""
    names = {
        Kind.JSON: ("body-not-json", "stream-not-json"),
        Kind.MESSAGES: ("messages-missing", "messages-empty", "messages-no-role", "stream-invalid-messages"),
        Kind.MODEL_MISSING: ("model-missing",),
        Kind.MODEL_UNKNOWN: ("model-unknown", "stream-unknown-model"),
        Kind.TYPE: ("parameter-word", "stream-invalid-parameter"),
    }
    what = f"every chat request with a defect ({', '.join(kinds)})"
    return Each(what, lambda x: _has(x, kinds), tuple(n for kind in kinds for n in names.get(kind, ())))


def _has(x: Exchange, kinds: Sequence[Kind]) -> bool:
    found = None if x.scenario.startswith(_OTHERS) else defect(x)
    return found is not None and found.kind in kinds and x.response is not None


def _must_refuse(x: Chat) -> None:
    """Fail on a 5xx and on a success; other rules judge an error with status 200."""
    found = defect(x)
    what = found.what if found else "this request"
    if x.answered.status in BUSY_OR_LOCKED:
        raise x.refused()
    if told_error(x):
        raise NotApplicable("an error with status 200: other rules judge that")
    refused = x.status is not None and 400 <= x.status < 500
    require(refused, f"a 4xx for {what}", got=f"{x.status}, an answer" if x.ok else x.refusal())


@rule("error.json.broken-is-400", MUST, on=_of_kind(Kind.JSON), book="ERROR-005", source=rfc(9110, "15.5.1"))
def test_json_broken(x: Chat) -> None:
    """The server refuses a body that is not JSON with a 4xx, preferably 400.

    Every SDK retries a 5xx: three times the same broken body; a 200 answers a question that nobody asked.
    """
    _must_refuse(x)


@rule(
    "error.messages.bad-is-400",
    MUST,
    on=_of_kind(Kind.MESSAGES),
    book="ERROR-006",
    source=openapi("CreateChatCompletionRequest.messages: minItems 1"),
)
def test_messages_bad(x: Chat) -> None:
    """The server refuses missing, empty or non-array messages, and a message without role, with a 4xx, preferably 400.

    openai-python retries a 5xx twice; with a 200 the user reads a confident answer to nothing.
    """
    _must_refuse(x)


@rule(
    "error.model.missing",
    SHOULD,
    on=_of_kind(Kind.MODEL_MISSING),
    book="ERROR-007",
    source=openapi("CreateChatCompletionRequest.required"),
)
def test_model_missing(x: Chat) -> None:
    """The server refuses a request without a model with 400, or answers it with the only model that it serves.

    OpenAI requires the member; clients of one-model servers leave it out.
    """
    if x.answered.status in BUSY_OR_LOCKED:
        raise x.refused()
    if told_error(x):
        raise NotApplicable("an error with status 200: other rules judge that")
    require(x.ok or x.status in (400, 422), "400, or an answer", got=x.refusal())


@rule(
    "error.parameter.bad-is-400",
    MUST,
    on=_of_kind(Kind.TYPE),
    book="ERROR-008",
    source=openapi("CreateChatCompletionRequest: types"),
)
def test_parameter_bad(x: Chat) -> None:
    """The server refuses a parameter of the wrong type with a 4xx, preferably 400.

    If the server silently ignores it, the answer changes, and nothing says so; after a 5xx every SDK sends it again.
    (The rules about each parameter judge values out of range.)
    """
    _must_refuse(x)


_DEFECTS = tuple(kind for kind in Kind if kind is not Kind.MODEL_UNKNOWN)


@rule(
    "error.invalid.exactly-400",
    SHOULD,
    on=Each(
        "every refusal of a wrong body",
        lambda x: _has(x, _DEFECTS) and x.status is not None and 400 <= x.status < 500,
        _of_kind(*_DEFECTS).needs,
    ),
    source=client("openai-python", "_make_status_error"),
)
def test_invalid_exactly_400(x: Exchange) -> None:
    """The server refuses a wrong body with 400, not with another 4xx.

    openai-python raises BadRequestError for 400 only: `except BadRequestError` misses FastAPI's 422.
    """
    if x.status in BUSY_OR_LOCKED:
        raise x.refused()
    found = defect(x)
    require(x.status == 400, f"400 for {found.what if found else ''}", got=x.refusal())


@rule(
    "error.model.unknown-is-404",
    MUST,
    on=_of_kind(Kind.MODEL_UNKNOWN),
    book="ERROR-010",
    source=observed("error codes guide", "https://platform.openai.com/docs/guides/error-codes"),
    evidence=("err_404_model",),
)
def test_model_unknown(x: Exchange) -> None:
    """The server refuses an unknown model with a 4xx, preferably 404, or really answers with another one: never a 5xx.

    Fallback routers go on after NotFoundError, and stop at what looks like a broken server.
    """
    must_not_crash(x)


@rule(
    "error.model.unknown-exactly-404",
    SHOULD,
    on=_of_kind(Kind.MODEL_UNKNOWN),
    source=observed("error codes guide", "https://platform.openai.com/docs/guides/error-codes"),
)
def test_model_unknown_exactly_404(x: Chat) -> None:
    """The server refuses an unknown model with 404.

    openai-python raises NotFoundError, LangChain OpenAIModelNotFoundError; with a 200 a typo in the name uses
    another model, and with a 400 nobody knows that the name was wrong.
    """
    status = x.answered.status
    if status in BUSY_OR_LOCKED or told_error(x) or (status is not None and status >= 500):
        raise x.refused()
    require(status == 404, "404", got=f"{status}, an answer" if x.ok else x.refusal())


@rule(
    "error.model.code",
    SHOULD,
    on=Each(
        "every 404 of an unknown model",
        lambda x: _has(x, (Kind.MODEL_UNKNOWN,)),
        _of_kind(Kind.MODEL_UNKNOWN).needs,
    ),
    source=client("langchain-openai", "OpenAIModelNotFoundError"),
    evidence=("err_404_model",),
)
def test_model_code(x: Exchange) -> None:
    """The 404 of an unknown model has the code model_not_found.

    It distinguishes a missing model from a missing path.
    """
    if x.status != 404:
        raise NotApplicable("the answer is not a 404")
    error = error_of(x)
    if error is None:
        raise inconclusive("there is no error object: error.envelope.object judges that")
    code = error.get("code")
    if not (code is None or isinstance(code, str)):
        raise NotApplicable("the code is not a string: error.code.string-or-null judges that")
    require(code == "model_not_found", "code model_not_found", got=code)


@rule(
    "error.model.not-echoed",
    SHOULD,
    on=Each(
        "every plain answer to an unknown model",
        lambda x: _has(x, (Kind.MODEL_UNKNOWN,)) and not x.asked_stream,
        ("model-unknown",),
    ),
    source=contract("the model of an answer is the one that made it"),
)
def test_model_not_echoed(x: Chat) -> None:
    """A server that answers for an unknown model with another one says in `model` which one answered.

    If the requested name comes back as if it existed, a user who mistyped it never finds out.
    """
    if not x.ok or told_error(x):
        return
    named = x.completion.get("model")
    require(named != x.asked.get("model"), "the model that answered", got=named)


def _is_other_bad(x: Exchange) -> bool:
    """A request with a defect that has no rule of its own: JSON that is not an object, or an unknown path."""
    if x.response is None or x.scenario.startswith(_OTHERS):
        return False
    found = defect(x)
    lost = x.transcript.step == "lost-path"
    return lost or (found is not None and found.kind in (Kind.BODY, Kind.RANGE) and x.scenario not in load())


@rule(
    "error.client-fault.never-5xx",
    MUST,
    on=Each("every other request with a defect", _is_other_bad, ("error-then-valid",)),
    book="ERROR-013",
    source=_RETRIES,
)
def test_client_fault_never_5xx(x: Exchange) -> None:
    """The server answers a wrong request with a 4xx, never with a 5xx.

    SDKs retry a 5xx on their own: one bad request becomes three, and with LlamaIndex twelve.
    """
    must_not_crash(x)


@rule(
    "error.plain.never-200",
    MUST,
    on=Each(
        "every success without a stream",
        lambda x: x.ok and not x.asked_stream and not x.is_event_stream and x.request.method == "POST",
        ("plain-greedy", "model-unknown", "parameter-word"),
    ),
    book="ERROR-014",
    source=rfc(9110, "15.3.1"),
    evidence=("ns_error_200",),
)
def test_plain_never_200(x: Chat) -> None:
    """The server never sends an error with status 200.

    openai-python turns it into a completion whose choices are None: the TypeError comes far from the cause.
    """
    told = told_error(x)
    if told and x.status is None:
        raise NotApplicable("the recording does not say which status the error had")
    require(not told, "a 4xx or 5xx status", got=f"200 with {x.text[:120]}", at=(0, len(x.answered.content)))


_KEYS = "auth-"  # there, the requests differ in more than the body
_STREAM_TEXT = re.compile(r'"stream"\s*:\s*true\s*,?\s*')
# Bodies that are sent both with and without stream.
_PAIRS = (
    *("parameter-word", "stream-invalid-parameter", "model-unknown", "stream-unknown-model"),
    *("messages-empty", "stream-invalid-messages", "body-not-json", "stream-not-json"),
    *(name for name in fuzz.names() if name.removesuffix("-stream") + "-stream" in fuzz.names()),
)


def _may_have_twin(x: Exchange) -> bool:
    refused = x.status is not None and x.status >= 400
    short = not x.request.omitted and len(x.request.body) < 100_000
    return is_chat(x) and (refused or not x.valid) and short and not x.scenario.startswith(_KEYS)


def _twin_key(x: Exchange) -> tuple[str, bool] | None:
    """What two requests have in common that differ only in asking for a stream, and whether this one asks for it.

    None for a body that may have asked for one in another way: `"stream": "perhaps"`.
    """
    kind = x.request.header("content-type")
    if not x.asked:  # of a body that is not a JSON object, only the bytes say what it asks for
        text, times = _STREAM_TEXT.subn("", x.request.body.decode("utf-8", errors="replace"))
        return json.dumps([text, kind]), times > 0
    if not isinstance(x.asked.get("stream"), bool | None):
        return None
    dropped = ("stream", "stream_options") if isinstance(x.asked.get("stream_options"), dict) else ("stream",)
    rest = {k: v for k, v in x.asked.items() if k not in dropped}
    return json.dumps([rest, kind], sort_keys=True), x.asked_stream


@rule(
    "error.status.same-for-stream",
    MUST,
    on=Across(
        "every refused request that was sent with and without stream",
        _may_have_twin,
        _PAIRS,
    ),
    source=client("openai-python", "_make_status_error"),
)
def test_status_same_for_stream(found: Sequence[Chat]) -> None:
    """The server refuses a wrong request with the same status, whether it asks for a stream or not.

    Otherwise streaming clients get another exception than plain ones, or an answer where plain ones are refused.
    """
    plain: dict[str, Exchange] = {}
    pairs = 0
    keyed = [(*named, x) for x in found if (named := _twin_key(x)) is not None]
    for key, streamed, x in sorted(keyed, key=lambda one: one[1]):
        if x.status in BUSY_OR_LOCKED or x.status is None or x.status >= 500 or told_error(x):
            continue
        if not streamed:
            plain.setdefault(key, x)
        elif key in plain and max(plain[key].status or 0, x.status) >= 400:
            pairs += 1
            other = plain[key].status
            require(x.status == other, f"{other}, as without stream", got=x.status, owner=x)
    if not pairs:
        raise inconclusive("no request was refused both with and without stream")
