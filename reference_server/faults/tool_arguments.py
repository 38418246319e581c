"""Tool calls: arguments of a wrong type, wrong JSON, wrong characters, or against their schema."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..answer import Piece
from ..request import ChatRequest
from . import Context, Layer, fault
from .edits import each_call, rewritten

Body = dict[str, Any]
Change = Callable[[str, str, Context], str]

_VLLM = "https://github.com/vllm-project/vllm/issues/"


def _arguments(name: str, summary: str, breaks: set[str], change: Change, **more: Any) -> None:
    """A fault that gives other arguments, plain and streamed alike; `change` gets function, arguments and context."""

    def in_model(pieces: Iterator[Piece], ctx: Context) -> Iterator[Piece]:
        return rewritten(pieces, lambda function, text: change(function, text, ctx))

    in_model.__doc__ = summary
    fault(name, layer=Layer.MODEL, breaks=breaks, **more)(in_model)


def _strict(ctx: Context) -> bool:
    return ctx.chat is not None and all(t.strict for t in ctx.chat.tools)


def _forced(ctx: Context) -> bool:
    return ctx.chat is not None and ctx.chat.tool_choice.forced


def _member(text: str, change: Callable[[str, Any], Any]) -> str:
    """The arguments with each member's value changed."""
    value = json.loads(text)
    return json.dumps({k: change(k, v) for k, v in value.items()}, ensure_ascii=False)


@fault(
    "tool.arguments-object",
    layer=Layer.MESSAGE,
    breaks={"tool.arguments.string", "tool.history.own-message-accepted"},
    cases=("B2-001", "B2-002"),
    source="https://github.com/ggml-org/llama.cpp/issues/20198",
)
def _(body: Body, ctx: Context) -> Body:
    """Arguments come as an object, not as a string of JSON."""

    def change(call: Body) -> None:
        try:
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        except ValueError:  # a call that was cut
            call["function"]["arguments"] = {}

    return each_call(body, change)


@fault(
    "tool.arguments-null-when-none",
    layer=Layer.MESSAGE,
    breaks={"tool.arguments.string"},
    cases=("B2-052",),
    source="https://github.com/run-llama/llama_index/issues/18230",
)
def _(body: Body, ctx: Context) -> Body:
    """Arguments are null where a call has none."""

    def change(call: Body) -> None:
        if call["function"]["arguments"] == "{}":
            call["function"]["arguments"] = None

    return each_call(body, change)


@fault(
    "tool.arguments-absent-when-none",
    layer=Layer.MESSAGE,
    breaks={"tool.arguments.string"},
    cases=("B2-052",),
    source="https://github.com/pydantic/pydantic-ai/issues/1802",
)
def _(body: Body, ctx: Context) -> Body:
    """The key arguments is left out where a call has none."""

    def change(call: Body) -> None:
        if call["function"]["arguments"] == "{}":
            del call["function"]["arguments"]

    return each_call(body, change)


@fault("tool.arguments-blank-when-none", layer=Layer.MESSAGE, breaks={"tool.arguments.not-blank"})
def _(body: Body, ctx: Context) -> Body:
    """Arguments are an empty string where a call has none."""

    def change(call: Body) -> None:
        if call["function"]["arguments"] == "{}":
            call["function"]["arguments"] = ""

    return each_call(body, change)


_arguments(
    "tool.arguments-null-text-when-none",
    'Arguments are the text "null" where a call has none.',
    {"tool.arguments.empty-object"},
    lambda function, text, ctx: "null" if text == "{}" else text,
)
_arguments(
    "tool.forced-any-json",
    "A forced call of a function that is not strict has any JSON as arguments, such as null.",
    {"tool.arguments.object-when-forced"},
    lambda function, text, ctx: "null" if _forced(ctx) and not _strict(ctx) and text != "{}" else text,
)
_arguments(
    "tool.auto-arguments-list",
    "A call that the model chose to make has a list as arguments.",
    {"tool.arguments.valid-in-auto"},
    lambda function, text, ctx: text if _forced(ctx) or _strict(ctx) else f"[{text}]",
)
_arguments(
    "tool.strict-extra-key",
    "A strict function gets an argument that it does not have.",
    {"tool.strict.valid"},
    lambda function, text, ctx: text[:-1] + ', "source": "chat"}' if function == "book_room" and _strict(ctx) else text,
)
_arguments(
    "tool.strict-not-in-auto",
    "With tool_choice auto a strict function is not constrained.",
    {"tool.auto.strict-constrains"},
    lambda function, text, ctx: text if _forced(ctx) or not _strict(ctx) else _member(text, lambda k, v: "banana"),
    cases=("B2-102",),
    source=f"{_VLLM}37064",
)
_arguments(
    "tool.ref-not-followed",
    "The parts of a schema behind $ref are not enforced.",
    {"tool.arguments.schema-respected"},
    lambda function, text, ctx: (
        _member(text, lambda k, v: "Paris" if isinstance(v, dict) else v) if not _strict(ctx) else text
    ),
)
_arguments(
    "tool.optional-as-string",
    "An integer behind anyOf with null comes as a string.",
    {"tool.arguments.typed"},
    lambda function, text, ctx: (
        _member(text, lambda k, v: str(v) if k == "guests" else v) if not _strict(ctx) else text
    ),
    cases=("B2-024",),
    source=f"{_VLLM}37831",
)
_arguments(
    "tool.digits-as-number",
    "A string of digits comes as a number.",
    {"tool.arguments.typed"},
    lambda function, text, ctx: _member(text, lambda k, v: int(v) if k == "room" else v) if not _strict(ctx) else text,
    cases=("B2-024",),
    source=f"{_VLLM}38973",
)
_arguments(
    "tool.unicode-escaped-twice",
    "Characters beyond ASCII are escaped twice.",
    {"tool.arguments.unicode-exact"},
    lambda function, text, ctx: json.dumps(json.loads(text)).replace("\\u", "\\\\u") if "海" in text else text,
)
_arguments(
    "tool.unicode-beyond-bmp-lost",
    "Characters beyond the basic plane become question marks.",
    {"tool.arguments.unicode-exact"},
    lambda function, text, ctx: "".join("?" if ord(c) > 0xFFFF else c for c in text) if "海" in text else text,
)
_arguments(
    "tool.line-break-lost",
    "Line breaks in arguments become blanks.",
    {"tool.arguments.unicode-exact"},
    lambda function, text, ctx: _member(text, lambda k, v: v.replace("\n", " ")) if "海" in text else text,
)
_arguments(
    "tool.cut-at-marker",
    "An argument that holds the marker of a call's end is cut there.",
    {"tool.argument.markers-survive"},
    lambda function, text, ctx: text.partition("</tool_call>")[0] + '"}' if "</tool_call>" in text else text,
)
_arguments(
    "tool.long-argument-cut",
    "Arguments of more than 512 characters are cut, and closed.",
    {"tool.argument.long"},
    lambda function, text, ctx: text if len(text) <= 512 else text[:510] + '"}',
)
_arguments(
    "tool.raw-line-break",
    "A line break in arguments is not escaped: they are not JSON.",
    {"tool.arguments.object-when-forced", "toolstream.arguments.one-json"},
    lambda function, text, ctx: re.sub(r"(?<!\\)\\n", "\n", text),
)


@fault(
    "tool.strict-in-prompt",
    layer=Layer.PARAMS,
    breaks={"tool.strict.costs-nothing"},
    cases=("B2-101",),
    source=f"{_VLLM}52741",
)
def _(chat: ChatRequest, ctx: Context) -> ChatRequest:
    """strict is written into the prompt, and counted."""
    tools = tuple(replace(t, description=f"{t.description} strict: true") if t.strict else t for t in chat.tools)
    return replace(chat, tools=tools)
