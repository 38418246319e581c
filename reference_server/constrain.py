"""Constraints on what may come next: llguidance grammars over our vocabulary, and the shape of tool calls.

In: a ChatRequest. Out: Rails, which give a mask of allowed tokens at each step and are told what was chosen.
A grammar that llguidance does not support is refused before generation starts.

JSON is generated in one layout (", " and ": " as separators, no other white space), so a constrained answer
cannot run away in blanks.
"""

import json
from enum import Enum, auto
from functools import cache, lru_cache
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray

from . import vocab
from .answer import invalid
from .model import Hints
from .request import ChatRequest

Mask = NDArray[np.bool_]
_QUOTE, _BACKSLASH = b'"\\'

_LAYOUT: dict[str, Any] = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "lenient": False,
    "coerce_one_of": False,
}
#: Where strictness was not asked for, keywords that cannot be enforced are passed over.
_LENIENT = _LAYOUT | {"lenient": True, "coerce_one_of": True}


def _liked(*texts: bytes) -> Hints:
    """The later, the better."""
    return Hints.of([(vocab.ID_OF[text], 8.0 + rank) for rank, text in enumerate(texts)])


#: Once the plan is lost, what ends JSON soonest is liked best.
_CLOSING = _liked(b"{", b"[", b"t", b"f", b"n", b"0", b"1", b",", b'"', b"]", b"}")
_CLOSING_STRING = _liked(b'"')


class _Tokenizer:
    """Our vocabulary in the form that llguidance asks for."""

    eos_token_id = vocab.EOS
    bos_token_id = vocab.BOS
    tokens = vocab.TOKENS
    special_token_ids = tuple(range(vocab.FIRST_SPECIAL, vocab.SIZE))

    def __call__(self, text: str | bytes) -> list[int]:
        return vocab.encode(text)


@cache
def _tokenizer() -> LLTokenizer:
    return LLTokenizer(TokenizerWrapper(_Tokenizer()))


class Unsupported(Exception):
    """llguidance cannot enforce the grammar; the message says why."""


@lru_cache(maxsize=256)
def _matcher(kind: str, text: str) -> LLMatcher:
    """A fresh matcher for a grammar, to be copied; compiled once."""
    try:
        if kind in ("json", "lenient"):
            options = _LAYOUT if kind == "json" else _LENIENT
            grammar = LLMatcher.grammar_from_json_schema(text, overrides=options)  # type: ignore[arg-type]
        elif kind == "regex":
            grammar = LLMatcher.grammar_from_regex(text)
        else:
            grammar = LLMatcher.grammar_from_lark(text)
    except ValueError as error:
        raise Unsupported(str(error)) from None
    matcher = LLMatcher(_tokenizer(), grammar, log_level=0)
    if matcher.is_error():
        raise Unsupported(matcher.get_error().splitlines()[0][:300])
    guide = Guide(matcher.deep_copy())
    if not guide.allowed()[: vocab.FIRST_SPECIAL].any() and not matcher.is_accepting():
        raise Unsupported("no value satisfies it")
    return matcher


class Guide:
    """A grammar at work on one text."""

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher
        self._odd = self._escaped = False  # whether an odd number of quotes came, and whether the next is escaped

    def allowed(self) -> Mask:
        """Tokens that keep the text within the grammar; EOS when it may end here."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        mask: Mask = np.unpackbits(bits, bitorder="little")[: vocab.SIZE].astype(np.bool_)
        mask[vocab.FIRST_SPECIAL :] = False
        mask[vocab.EOS] = self._matcher.is_accepting() or not mask.any()
        return mask

    def advance(self, token: int) -> None:
        self._matcher.consume_token(token)
        for byte in vocab.TOKENS[token]:
            self._odd ^= byte == _QUOTE and not self._escaped
            self._escaped = byte == _BACKSLASH and not self._escaped

    @property
    def hints(self) -> list[Hints]:
        """How to come to an end when there is no plan."""
        return [_CLOSING_STRING if self._odd else _CLOSING]


def json_guide(schema: dict[str, Any] | bool, *, strict: bool) -> Guide:
    """The guide of a JSON Schema; Unsupported when it cannot be enforced (all of it, if `strict`)."""
    text = json.dumps(schema)
    try:
        return Guide(_matcher("json", text).deep_copy())
    except Unsupported:
        if strict:
            raise
    return Guide(_matcher("lenient", text).deep_copy())


def accepts(schema: dict[str, Any] | bool, text: str, *, strict: bool) -> bool:
    """Whether a text, in our layout of JSON, is one that the guide of the schema would let through as a whole."""
    try:
        matcher = _matcher("json", json.dumps(schema))
    except Unsupported:
        if strict:
            return False
        matcher = _matcher("lenient", json.dumps(schema))
    trial = matcher.deep_copy()
    tokens = vocab.encode(text)
    return bool(trial.try_consume_tokens(tokens) == len(tokens) and trial.is_accepting())


def _format_guide(chat: ChatRequest) -> Guide | None:
    """The guide of `response_format`, or None for free text."""
    form = chat.response_format
    if form.kind == "text":
        return None
    if form.kind in ("json_object", "json_schema"):
        return json_guide(form.schema, strict=form.strict)
    if form.kind == "choice":
        options = " | ".join(json.dumps(choice, ensure_ascii=False) for choice in form.choices)
        return Guide(_matcher("lark", f"start: {options}").deep_copy())
    return Guide(_matcher("regex" if form.kind == "regex" else "lark", form.pattern).deep_copy())


def arguments_schema(parameters: dict[str, Any] | None) -> dict[str, Any]:
    """The schema of a tool's arguments: always an object; without parameters, the empty one."""
    if not parameters:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    if "type" in parameters or {"$ref", "anyOf", "oneOf", "allOf"} & parameters.keys():
        return parameters
    return {"type": "object", **parameters}


def check(chat: ChatRequest) -> None:
    """Refuse with a 400 what cannot be enforced."""
    form = chat.response_format
    try:
        _format_guide(chat)
    except Unsupported as error:
        where = "response_format" if form.kind == "json_schema" else "structured_outputs"
        raise invalid(f"Invalid schema for {where} '{form.name}': {error}", where, "invalid_schema") from None
    for i, tool in enumerate(chat.tools):
        try:
            json_guide(arguments_schema(tool.parameters), strict=tool.strict)
        except Unsupported as error:
            path = f"functions[{i}].parameters" if chat.legacy else f"tools[{i}].function.parameters"
            message = f"Invalid schema for function '{tool.name}': {error}"
            raise invalid(message, path, "invalid_function_parameters") from None


class Phase(Enum):
    TEXT = auto()
    NAME = auto()  # between <|call|> and <|args|>
    ARGS = auto()  # between <|args|> and <|/call|>
    BETWEEN = auto()  # after a call


class Rails:
    """What a choice may say next: text (perhaps under a grammar), then calls (always under theirs)."""

    def __init__(self, chat: ChatRequest) -> None:
        self._chat = chat
        self._tools = {tool.name: tool for tool in chat.callable_tools}
        self._guide = _format_guide(chat)
        self._name = b""
        self._calls = 0
        self._started = False
        self.phase = Phase.TEXT

    @property
    def hints(self) -> list[Hints]:
        """Under a grammar: how to come to an end when there is no plan."""
        return [] if self._guide is None else self._guide.hints

    def mask(self) -> Mask:
        """True for each token that may come next; EOS is among them when the answer may end here."""
        if self.phase is Phase.NAME:
            return self._name_mask()
        if self.phase is Phase.BETWEEN:
            mask: Mask = np.zeros(vocab.SIZE, dtype=np.bool_)
            mask[vocab.EOS] = True
            mask[vocab.CALL] = self._chat.parallel and self._chat.tool_choice.name is None
            return mask
        if self._guide is not None:
            mask = self._guide.allowed()
        else:
            mask = np.ones(vocab.SIZE, dtype=np.bool_)
            mask[vocab.FIRST_SPECIAL :] = False
            mask[vocab.EOS] = True
        if self.phase is Phase.ARGS:
            mask[vocab.CALL_END], mask[vocab.EOS] = mask[vocab.EOS], False
        elif self._tools and not (self._started and self._guide is not None):
            if self._chat.tool_choice.forced:
                mask[:] = False
            mask[vocab.CALL] = True
        return mask

    def _name_mask(self) -> Mask:
        mask: Mask = np.zeros(vocab.SIZE, dtype=np.bool_)
        for name in self._tools:
            data = name.encode()
            if data == self._name:
                mask[vocab.ARGS] = True
            elif data.startswith(self._name):
                mask[vocab.prefixes(data[len(self._name) :])] = True
        return mask

    def advance(self, token: int) -> None:
        self._started = True
        if token == vocab.CALL:
            self.phase, self._name, self._guide = Phase.NAME, b"", None
        elif token == vocab.ARGS:
            tool = self._tools[self.name]
            self._guide = json_guide(arguments_schema(tool.parameters), strict=tool.strict)
            self.phase = Phase.ARGS
        elif token == vocab.CALL_END:
            self.phase, self._guide = Phase.BETWEEN, None
            self._calls += 1
        elif self.phase is Phase.NAME:
            self._name += vocab.TOKENS[token]
        elif self._guide is not None:
            self._guide.advance(token)

    @property
    def name(self) -> str:
        """The name of the call in progress, as far as it is known."""
        return self._name.decode()
