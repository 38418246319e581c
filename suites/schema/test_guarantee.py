"""What strict and json_object promise about a plain answer. One rule judges each flaw."""

from __future__ import annotations

from typing import Any

from wireproof.judge.rules import MUST, SHOULD, Each, client, contract, observed, openapi, rule
from wireproof.read.chat import Chat, is_answer, is_plain
from wireproof.read.json_answer import BLANKS, Flaw, Text, asks_json, asks_strict, not_ascii, texts, whole_texts
from wireproof.read.request import Form, response_format
from wireproof.verdict import inconclusive, require
from wireproof.wire.strictjson import get, has_lone_surrogate

_GUIDE = "https://platform.openai.com/docs/guides/structured-outputs"
# With this much room (tokens), an answer that has one possible value must end by itself.
_ROOM = 200

STRICT = Each(
    "every plain answer under a strict JSON Schema",
    lambda x: is_plain(x) and asks_strict(x) and x.asked_n == 1,
    ("schema-level", "schema-token", "schema-sdk", "schema-order"),
)
JSON = Each(
    "every plain answer under json_object or a strict JSON Schema",
    lambda x: is_plain(x) and asks_json(x) and x.asked_n == 1,
    ("schema-level", "schema-token", "format-object"),
)
OBJECT = Each(
    "every plain answer under json_object",
    lambda x: is_plain(x) and response_format(x).form is Form.OBJECT and x.asked_n == 1,
    ("format-object",),
)
EVERY_JSON = Each(
    "every answer under json_object or a strict JSON Schema",
    lambda x: is_answer(x) and asks_json(x),
    ("schema-level", "schema-token", "schema-token-stream", "format-object", "format-object-stream"),
)
EVERY_STRICT = Each(
    "every answer under a strict JSON Schema",
    lambda x: is_answer(x) and asks_strict(x),
    ("schema-level", "schema-token", "schema-token-stream", "schema-order"),
)
CUT = Each(
    "every answer with a token limit under json_object or a strict JSON Schema",
    lambda x: is_answer(x) and asks_json(x) and x.token_limit is not None,
    ("schema-cut", "schema-cut-stream"),
)
UNICODE = Each(
    "every answer under a strict JSON Schema with names or values that are not ASCII",
    lambda x: is_answer(x) and asks_strict(x) and not_ascii(response_format(x).schema),
    ("schema-unicode-keys", "schema-unicode-escaped", "plain-enum-unicode", "stream-enum-unicode"),
)


def _refuse(x: Chat, flaws: tuple[Flaw, ...], expected: str, *, cut: bool = False) -> None:
    """Fail on these flaws; inconclusive if every text has another flaw, which another rule judges."""
    found = texts(x) if cut else whole_texts(x)
    for text in found:
        require(text.flaw not in flaws, expected, got=text.shown)
    if all(text.flaw for text in found):
        raise inconclusive("the answer has another flaw, which has a rule of its own")


@rule(
    "schema.strict.valid",
    MUST,
    on=STRICT,
    book="SCHEMA-002",
    source=openapi("ResponseFormatJsonSchema.json_schema.strict"),
)
def test_strict_valid(x: Chat) -> None:
    """With strict: true, an answer that ends by itself is complete JSON of the schema's types, enums and constants.

    Clients dropped their own validation for this promise: openai `.parse()`, instructor and with_structured_output
    raise, or pass on a value of the wrong type.
    """
    _refuse(x, (Flaw.BROKEN, Flaw.INVALID), "JSON that fits the strict schema")


@rule(
    "schema.strict.not-silently-ignored",
    MUST,
    on=STRICT,
    book="SCHEMA-003",
    source=contract("a server that cannot enforce strict says 400"),
)
def test_strict_not_ignored(x: Chat) -> None:
    """The server enforces a strict schema or refuses it; it never answers with prose.

    The client trusts a guarantee that is not there: pydantic-ai had to add a guard against such servers.
    """
    _refuse(x, (Flaw.PROSE,), "JSON (or a 400)", cut=True)


@rule(
    "schema.object.is-object",
    MUST,
    on=OBJECT,
    book="SCHEMA-004",
    source=openapi("ResponseFormatJsonObject"),
)
def test_object_is_object(x: Chat) -> None:
    """Under json_object, an answer that ends by itself is a JSON object.

    LangChain's json_mode and the AI SDK parse it and read its keys.
    """
    if texts(x)[0].flaw is not Flaw.PROSE:  # prose need not be complete to be no object
        whole_texts(x)
    _refuse(x, (Flaw.PROSE, Flaw.BROKEN, Flaw.INVALID), "a JSON object", cut=True)


@rule(
    "schema.content.json-only",
    MUST,
    on=JSON,
    book="SCHEMA-006",
    source=client("openai-python", "lib/_parsing: json.loads of the whole content"),
)
def test_json_only(x: Chat) -> None:
    """Under json_object or a strict schema, the content is only the JSON: no Markdown fence, no thoughts, no words.

    Clients parse the whole content: with a fence around it, every answer raises a JSONDecodeError.
    """
    _refuse(x, (Flaw.AROUND,), "the JSON text alone", cut=True)


@rule(
    "schema.cut.is-length",
    MUST,
    on=CUT,
    book="SCHEMA-008",
    source=client("openai-python", "lib/_parsing: LengthFinishReasonError"),
)
def test_cut_is_length(x: Chat) -> None:
    """When the token limit cuts JSON off, finish_reason is "length", and the server does not close the JSON itself.

    openai `.parse()` raises its LengthFinishReasonError only on "length". JSON that the server closed parses, but is
    not what the model wanted to say.
    """
    found = texts(x)
    for text in found:
        require(text.flaw is not Flaw.CUT, 'finish_reason "length"', got=text.shown)
        repaired = text.finish == "length" and text.is_json and text.misses
        require(not repaired, "the beginning of the JSON, as it was cut off", got=text.shown)
    if not any(text.finish == "length" for text in found):
        raise inconclusive("the answer was not cut off")


@rule(
    "schema.n.every-choice",
    MUST,
    on=Each(
        "every answer with n > 1 under json_object or a strict JSON Schema",
        lambda x: is_answer(x) and asks_json(x) and x.asked_n > 1,
        ("schema-level-n3", "stream-pinned-n2"),
    ),
    book="SCHEMA-026",
    source=openapi("CreateChatCompletionRequest.n, response_format"),
)
def test_n_every_choice(x: Chat) -> None:
    """With n > 1, every choice keeps to the format, not only the first.

    If the choices share the state of one grammar, there is one right answer and n - 1 broken ones.
    """
    found = texts(x)
    if sorted(str(o.index) for o in x.outcomes) != [str(i) for i in range(x.asked_n)]:
        raise inconclusive("the choices cannot be told apart")
    for text in found:
        got = f"choice {str(text.outcome.index)[:10]}: {text.shown}"
        require(text.flaw in (None, Flaw.LETTERS), "JSON of the format in every choice", got=got)


@rule(
    "schema.unicode.exact",
    MUST,
    on=UNICODE,
    book="SCHEMA-025",
    source=contract("constrained text is exact, whatever its script"),
)
def test_unicode_exact(x: Chat) -> None:
    """Names and values of a strict schema that are not ASCII come out exactly.

    Labels that lost their special letters ("Sjofart") no longer match anything in the client's tables.
    """
    for text in whole_texts(x):
        if "\ufffd" in text.content or has_lone_surrogate(text.content):
            raise inconclusive("characters were split: the rules for text in streams judge that")
    _refuse(x, (Flaw.LETTERS,), "the letters that the schema pins")


def _out_of_order(schema: Any, value: Any) -> tuple[str, list[str]] | None:
    """The first object whose keys are in another order than its properties: the order wanted, the order found."""
    stack = [(schema, value)]
    while stack:
        part, here = stack.pop()
        properties = get(part, "properties")
        if isinstance(properties, dict) and isinstance(here, dict):
            known = [name for name in here if name in properties]
            wanted = [name for name in properties if name in here]
            if known != wanted:
                return ", ".join(wanted), known
            stack += [(properties[name], here[name]) for name in known]
        elif isinstance(here, list) and isinstance(get(part, "items"), dict):
            stack += [(part["items"], item) for item in here[:64]]
    return None


@rule(
    "schema.keys.in-order",
    SHOULD,
    on=EVERY_STRICT,
    book="SCHEMA-021",
    source=observed("structured outputs: keys in the order of the schema", _GUIDE),
)
def test_keys_in_order(x: Chat) -> None:
    """Keys come in the order of the schema's properties.

    Schemas that ask for the reasons first and the answer last lose their effect when the answer comes first.
    """
    found = [text for text in whole_texts(x) if text.is_json]
    if not found:
        raise inconclusive("the answer is not JSON")
    for text in found:
        wrong = _out_of_order(text.form.schema, text.parsed.value)
        require(wrong is None, f"the keys in the order {wrong and wrong[0]}", got=wrong and ", ".join(wrong[1]))


def _longest(schema: Any) -> int | None:
    """Characters of the longest answer when each member of an object schema is one of a few texts; else None."""
    properties = get(schema, "properties")
    if not isinstance(properties, dict) or get(schema, "additionalProperties") is not False:
        return None
    total = 2
    for name, part in properties.items():
        listed, one = get(part, "enum"), get(part, "const")
        if not isinstance(listed, list) and not isinstance(one, str):
            return None
        values = listed if isinstance(listed, list) else [one]
        total += len(name) + 6 + max((len(str(value)) for value in values), default=0)
    return total


def _ample(text: Text, limit: int | None) -> bool:
    """Whether the answer is short, and the limit far beyond it, even at a token for each character."""
    longest = _longest(text.form.schema)
    return longest is not None and (limit is None or limit >= max(_ROOM, 2 * longest))


@rule(
    "schema.output.terminates",
    SHOULD,
    on=EVERY_STRICT,
    book="SCHEMA-028",
    source=contract("a constrained answer comes to its end"),
)
def test_output_terminates(x: Chat) -> None:
    """An answer with a few short possible values ends by itself, long before an ample token limit.

    An answer that runs on to max_tokens costs GPU time, and ends as an error in the client.
    """
    found = [text for text in texts(x) if _ample(text, x.token_limit) and not text.blanks]
    if not found:
        raise inconclusive("the schema does not allow just a few short values, or there is no room for them")
    for text in found:
        ran_on = text.finish == "length" and text.flaw is not Flaw.PROSE
        require(not ran_on, f"the end, within {x.token_limit} tokens", got=text.shown)


@rule(
    "schema.whitespace.bounded",
    SHOULD,
    on=EVERY_JSON,
    source=observed("JSON mode may run on in white space", "https://github.com/openai/openai-python/issues/857"),
)
def test_whitespace_bounded(x: Chat) -> None:
    """Constrained JSON never has more than 64 blanks in a row between its tokens.

    A grammar that allows any white space lets some models print blanks until max_tokens: in up to a quarter of the
    calls, according to reports on vLLM and others.
    """
    for text in texts(x):
        require(not text.blanks, f"at most {BLANKS} blanks in a row", got=f"{text.blanks}; {text.shown}")
