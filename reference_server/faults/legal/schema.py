"""Legal variations of structured output: other layouts of the same JSON, honest refusals, other ways to say no."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ...answer import ApiError, Piece, invalid
from ...request import ChatRequest
from .. import Context, Layer, fault
from ..edits import each_message, each_part
from ..schema import is_level, kind, named, reworded

Body = dict[str, Any]


def _is_json(ctx: Context) -> bool:
    """Whether JSON was asked for, without log probabilities, which would have to be changed, too."""
    return kind(ctx) in ("json_object", "json_schema") and ctx.chat is not None and not ctx.chat.logprobs


def _layout(name: str, summary: str, change: Callable[[str], str], *only: str) -> None:
    """The same JSON, written in another way, by a model that was free to."""

    def apply(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
        if not _is_json(ctx) or not named(ctx, *only):
            return pieces
        return reworded(pieces, lambda text, finish: (change(text) if finish == "stop" else text, finish))

    apply.__doc__ = summary
    fault(name, layer=Layer.MODEL, breaks=())(apply)


_SMALL = ("level", "token", "reasons", "unicode", "branch", "list")


def _dumped(text: str, **options: Any) -> str:
    return json.dumps(json.loads(text), **options)


_layout(
    "legal.schema-indented",
    "Constrained JSON is indented, with a line break at its end.",
    lambda text: _dumped(text, ensure_ascii=False, indent=2) + "\n",
    *_SMALL,
)
_layout(
    "legal.schema-dense",
    "Constrained JSON has no white space at all.",
    lambda text: _dumped(text, ensure_ascii=False, separators=(",", ":")),
    *_SMALL,
)
_layout(
    "legal.schema-escapes",
    "Constrained JSON writes characters beyond ASCII as escapes.",
    _dumped,
    "unicode",
    "branch",
)
_layout(
    "legal.schema-blanks",
    "Constrained JSON has 40 blanks between two tokens.",
    lambda text: text.replace(": ", ":" + " " * 40),
    *_SMALL,
)


def _refuses(
    name: str, summary: str, when: Callable[[ChatRequest], bool], error: ApiError, breaks: tuple[str, ...] = ()
) -> None:
    """A server that lacks something and says so."""

    def apply(chat: ChatRequest, ctx: Context) -> ChatRequest:
        if when(chat):
            raise error
        return chat

    apply.__doc__ = summary
    fault(name, layer=Layer.PARAMS, breaks=breaks)(apply)


def _form(chat: ChatRequest) -> str:
    return chat.response_format.kind


def _outside(chat: ChatRequest) -> bool:
    """Whether a strict schema has a root that OpenAI's subset does not allow, or a key that is not required."""
    schema = chat.response_format.schema
    if _form(chat) != "json_schema" or not chat.response_format.strict or not isinstance(schema, dict):
        return False
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        return True
    return schema.get("additionalProperties") is not False or set(properties) != set(schema.get("required", ()))


_refuses(
    "legal.schema-none",
    "A server without JSON Schema refuses json_schema.",
    lambda chat: _form(chat) == "json_schema",
    invalid("'response_format.type' supports: 'text', 'json_object'.", "response_format.type", "invalid_value"),
)
_refuses(
    "legal.schema-no-object",
    "A server without JSON mode refuses json_object.",
    lambda chat: _form(chat) == "json_object",
    invalid("'response_format.type' must be 'json_schema' or 'text'.", "response_format.type", "invalid_value"),
)
_refuses(
    "legal.schema-word-needed",
    "json_object is refused where the messages do not contain the word JSON.",
    lambda chat: _form(chat) == "json_object" and not any("json" in (m.content or "").lower() for m in chat.messages),
    invalid("'messages' must contain the word 'json' in some form.", "messages"),
)
_refuses(
    "legal.schema-subset-only",
    "Strict schemas outside OpenAI's subset are refused.",
    _outside,
    invalid("Invalid schema for response_format: 'additionalProperties' must be false.", "response_format"),
)
_refuses(
    "legal.schema-without-tools",
    "A schema and tools together are refused, in words that name both.",
    lambda chat: _form(chat) == "json_schema" and bool(chat.tools),
    invalid("response_format json_schema cannot be combined with tools.", "response_format"),
)
_refuses(
    "legal.schema-without-logprobs",
    "A schema and logprobs together are refused.",
    lambda chat: _form(chat) == "json_schema" and chat.logprobs,
    invalid("'logprobs' cannot be combined with 'response_format'.", "logprobs"),
    breaks=("schema.logprobs.together",),
)
_refuses(
    "legal.schema-needs-schema",
    "json_schema without a schema is refused.",
    lambda chat: named_nothing(chat),
    invalid("Missing required parameter: 'response_format.json_schema.schema'.", "response_format"),
)


def named_nothing(chat: ChatRequest) -> bool:
    """Whether json_schema came without a schema."""
    form = chat.body.get("response_format")
    inner = form.get("json_schema") if isinstance(form, dict) else None
    return isinstance(inner, dict) and "schema" not in inner


_NO = "I'm sorry, I cannot help with that."


@fault("legal.schema-refusal", layer=Layer.MESSAGE, breaks=())
def _(body: Body, ctx: Context) -> Body:
    """The model refuses: the text stands in `refusal`, and content is null."""
    return each_message(body, lambda m: m.update(refusal=_NO, content=None)) if is_level(ctx) else body


@fault("legal.schema-no-refusal-member", layer=Layer.CHUNK, breaks=())
def _(chunks: Iterator[Body], ctx: Context) -> Iterator[Body]:
    """A server that never refuses leaves `refusal` out."""
    return each_part(chunks, lambda c: c["delta"].pop("refusal", None))


@fault("legal.schema-loose-violated", layer=Layer.MESSAGE, breaks=())
def _(body: Body, ctx: Context) -> Body:
    """Without strict the schema is best effort, and the model said something else."""
    loose = ctx.chat is not None and kind(ctx) == "json_schema" and not ctx.chat.response_format.strict
    return each_message(body, lambda m: m.update(content="Low, I would say.")) if loose else body


@fault("legal.schema-choice-unknown", layer=Layer.PARAMS, breaks=())
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """A server that does not know structured_outputs ignores it."""
    unknown = "structured_outputs" in chat.body
    return replace(chat, response_format=replace(chat.response_format, kind="text")) if unknown else chat
