"""The policy: reads what the conversation asks for and scripts what the model would like to say.

In: a ChatRequest. Out: an Intent; its plan gives hints (token, logit) step by step. The plan is a wish: the
model's sampling and the constraints of the request decide what is really said.
"""

import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import vocab
from .constrain import accepts, arguments_schema
from .instance import Supply, build
from .model import Hints
from .request import ChatRequest, Message, Tool

FOLLOW = 30.0  # the planned token
MARK = 60.0  # a special token whose time has come: beats penalties, not a logit_bias of 100
DRIFT = 12.0  # words that fit

_SENTENCE = (
    (" The", " Every", " A", " Once", " Then"),
    (" quiet", " small", " old", " bright", " gentle", " silver", " distant", " clever", " patient"),
    (" keeper", " sailor", " teacher", " robot", " village", " river", " garden", " lantern"),
    (" watched", " followed", " carried", " remembered", " painted", " measured", " opened", " repaired"),
    (" the", " a", " every"),
    (" mountain", " bridge", " window", " letter", " forest", " signal", " lighthouse"),
    (" across", " beyond", " beneath", " toward", " around", " before"),
    (" the", " every"),
    (" morning", " evening", " winter", " harbour", " weather", " city"),
    (".",),
)
_FIRST = ("The", "Once", "Later", "Every", "Then", "In")


def _slot(words: Sequence[str]) -> "np.ndarray[Any, np.dtype[np.intp]]":
    ids = [vocab.ID_OF[w.encode()] for w in words if w.encode() in vocab.ID_OF]
    return np.array(ids, dtype=np.intp)


_SLOTS = [_slot(words) for words in _SENTENCE]
_START = _slot(_FIRST)
_SLOT_HINTS = [Hints(ids, np.full(len(ids), DRIFT), 1.5) for ids in _SLOTS]
_START_HINT = Hints(_START, np.full(len(_START), DRIFT), 1.5)
_END_HINT = Hints.of([(vocab.EOS, MARK)])


@dataclass(frozen=True)
class Script:
    """Bytes to say as they are. `fixed`: under a grammar, so that a deviation loses the thread for good."""

    data: bytes
    fixed: bool = False


class Plan:
    """A sequence of scripts and special tokens, then `drift` free words, then the end."""

    def __init__(self, parts: Sequence[Script | int] = (), drift: int = 0) -> None:
        self._parts = list(parts)
        self._drift = drift
        self._said = 0  # free words so far
        self._part = 0
        self._offset = 0
        self._lost = b""  # what was said since the script could not be followed
        self._tokens = self._canonical()

    def _canonical(self) -> dict[int, int]:
        """Offset -> token of the current script's usual tokenisation."""
        part = self._parts[self._part] if self._part < len(self._parts) else 0
        if not isinstance(part, Script):
            return {}
        result, at = {}, 0
        for token in vocab.encode(part.data):
            result[at] = token
            at += len(vocab.TOKENS[token])
        return result

    def _next_part(self) -> None:
        self._part += 1
        self._offset = 0
        self._tokens = self._canonical()

    def _find_again(self, data: bytes) -> None:
        """After a deviation forced by a grammar: go on with the script at the next key that it has, too."""
        self._lost += data
        key = _KEY.search(self._lost)
        part = self._parts[self._part] if self._part < len(self._parts) else None
        at = part.data.find(key.group()) if key is not None and isinstance(part, Script) else -1
        if key is not None and at >= 0:
            self._lost, self._offset = b"", at + len(key.group())

    def _skip_empty(self) -> None:
        while self._part < len(self._parts) and not self._lost:
            part = self._parts[self._part]
            if not isinstance(part, Script) or self._offset < len(part.data):
                return
            self._next_part()

    def hints(self) -> list[Hints]:
        """What should come next, in rising priority."""
        if self._lost:
            later = self._parts[self._part + 1] if self._part + 1 < len(self._parts) else vocab.EOS
            return [Hints.of([(later, MARK)])] if isinstance(later, int) else []
        self._skip_empty()
        if self._part < len(self._parts):
            part = self._parts[self._part]
            if isinstance(part, int):
                return [Hints.of([(part, MARK)])]
            usual = self._tokens.get(self._offset)
            if usual is not None and not part.fixed:
                return [Hints.of([(usual, FOLLOW)])]
            # A grammar may rule out the usual token and still allow a shorter one.
            rest = part.data[self._offset : self._offset + vocab.LONGEST]
            pairs = [(t, FOLLOW - 6.0 * (i + 1)) for i, t in enumerate(vocab.prefixes(rest))]
            if usual is not None:
                pairs.append((usual, FOLLOW))
            return [Hints.of(pairs)]
        words = _START_HINT if self._said == 0 and not self._parts else _SLOT_HINTS[self._said % len(_SLOTS)]
        return [words] if self._said < self._drift else [words, _END_HINT]

    def advance(self, token: int) -> None:
        """Take note of what was really said."""
        self._skip_empty()
        if token >= vocab.FIRST_SPECIAL:
            later = self._parts[self._part :]
            self._lost = b""
            if token in later:
                self._part += later.index(token)
                self._next_part()
            return
        if self._lost:
            self._find_again(vocab.TOKENS[token])
            return
        if self._part >= len(self._parts):
            self._said += 1
            return
        part = self._parts[self._part]
        if isinstance(part, int):
            return
        data = vocab.TOKENS[token]
        if part.data.startswith(data, self._offset):
            self._offset += len(data)
        elif part.fixed:
            self._lost, self._offset = data, len(part.data)
        else:  # a slip of the tongue stands for the token that was due
            usual = self._tokens.get(self._offset)
            self._offset += len(vocab.TOKENS[usual]) if usual is not None else 1


@dataclass(frozen=True)
class PlannedCall:
    name: str
    arguments: str


@dataclass(frozen=True)
class Intent:
    """What to say: text or calls, and how long to think before the first token."""

    text: str | None = None
    drift: int = 0
    calls: tuple[PlannedCall, ...] = ()
    wait: float = 0.0
    fixed: bool = False

    def plan(self) -> Plan:
        parts: list[Script | int] = []
        if self.text is not None:
            parts.append(Script(self.text.encode(), self.fixed))
        for call in self.calls:
            parts += [vocab.CALL, Script(call.name.encode(), True), vocab.ARGS]
            parts += [Script(call.arguments.encode(), True), vocab.CALL_END]
        return Plan(parts, self.drift)


_KEY = re.compile(rb'"[^"\\]+": "?$')
_WAIT = re.compile(r"\s?\[wait\s+(\d{1,5}(?:\.\d+)?)\s*s\]\s?")
_ECHO = re.compile(
    r"^[ \t]*(?:please\s+)?(?:repeat|say|echo|print|write|output"
    r"|(?:reply|answer|respond|return)\b(?=[^:\n]*\b(?:exactly|only|with|verbatim)\b))\b[^:\n]{0,80}:[ \n]?(.*)",
    re.I | re.S | re.M,
)
_QUOTED = re.compile(
    r"\b(?:say|repeat|echo|reply|answer|respond|write|output|word)\b[^\"'“`\n]{0,80}"
    r"(?:\"([^\"]+)\"|“([^”]+)”|`([^`]+)`|'([^']+)')",
    re.I,
)
_WORD = re.compile(
    r"\b(?:say|(?:answer|reply|respond)(?:\s+only)?\s+with|the (?:single )?word)"
    r"(?:\s+(?:exactly|only|just|the|single|word))*\s+([\w-]+)[.!]?\s*$",
    re.I,
)
_COUNT = re.compile(r"\bcount\b(?:[^\d\n]{0,30}?from\s+(\d{1,6}))?[^\d\n]{0,30}?to\s+(\d{1,6})\b", re.I)
_GREETING = re.compile(r"\s*(?:hi|hello|hey|good (?:morning|evening|day))\b", re.I)
_HELLO = re.compile(r"\bsay (?:hello|hi) in (?:a|one)\b", re.I)
_LONG = re.compile(r"\b(?:story|long|essay|poem|detail(?:ed)?|at length|explain|describe)\b", re.I)
_NO_TOOLS = re.compile(r"(?:don'?t|do not|never|without)\s+(?:\w+\s+){0,3}?(?:tools?|functions?)|\bno tools?\b", re.I)
_SEVERAL = re.compile(r"\b(?:both|each|every|two|three|twice|parallel|and|all)\b", re.I)
_PROPER = re.compile(r"(?<![.!?\n] )(?<!^)\b[A-Z][a-z]\w*(?: [A-Z][a-z]\w*)*")
_COMMON = frozenset(
    "the a an in of to for and or what is get give me my you your call use with it on at".split()  # noqa: SIM905
)


def read(chat: ChatRequest) -> Intent:
    """What the conversation asks for, and a plan for it."""
    last = _last_user(chat)
    waits = [float(m.group(1)) for m in _WAIT.finditer(last)]
    said = _WAIT.sub("", last)
    calls = _calls(chat, said)
    if calls:
        return Intent(calls=calls, wait=sum(waits))
    schema = chat.response_format.schema
    if chat.response_format.constrained:
        return Intent(text=_constrained(chat, said, schema), wait=sum(waits), fixed=True)
    text = _text(chat, said)
    drift = 0 if text is not None else 600 if _LONG.search(said) else 30
    return Intent(text=text, drift=drift, wait=sum(waits))


def _last_user(chat: ChatRequest) -> str:
    return next((m.content or "" for m in reversed(chat.messages) if m.role == "user"), "")


def _tool_results(chat: ChatRequest) -> list[Message]:
    """The tool messages at the end of the conversation, in order."""
    trailing: list[Message] = []
    for message in reversed(chat.messages):
        if message.role not in ("tool", "function"):
            break
        trailing.insert(0, message)
    return trailing


def _demand(text: str) -> str | None:
    """The exact text that an instruction asks for."""
    echo = _ECHO.search(text)
    if echo and echo.group(1):
        return echo.group(1)
    quoted = _QUOTED.search(text)
    if quoted:
        return next(group for group in quoted.groups() if group is not None)
    word = _WORD.search(text)
    return word.group(1) if word else None


def _text(chat: ChatRequest, said: str) -> str | None:
    """A scripted answer, or None for free text."""
    results = _tool_results(chat)
    if results:
        return "The result is: " + "; ".join(message.content or "" for message in results)
    demanded = _demand(said)
    if demanded is not None:
        return demanded
    for message in chat.messages:
        if message.role in ("system", "developer"):
            demanded = next((d for line in (message.content or "").splitlines() if (d := _demand(line))), None)
            if demanded:
                return demanded
    count = _COUNT.search(said)
    if count:
        first, last = int(count.group(1) or 1), int(count.group(2))
        step = 1 if last >= first else -1
        last = first + max(-20_000, min(20_000, last - first))
        return ", ".join(str(i) for i in range(first, last + step, step))
    if _HELLO.search(said):
        return "Hello, it is very nice to meet you today."
    if _GREETING.match(said) and not _LONG.search(said):
        return "Hello! How can I help you today?"
    return None


def _supply(said: str) -> Supply:
    quoted = re.findall(r"[\"“`]([^\"”`]{1,200})[\"”`]", said)
    proper = _PROPER.findall(said)
    other = re.findall(r"[^\x00-\x7f]{1,40}", said)
    numbers = [float(n) for n in re.findall(r"(?<![\w.])\d{1,9}(?![\w.])", said)]
    return Supply([*quoted, *proper, *other], numbers, said)


def _compact(value: Any) -> str:
    """JSON in the one layout that the grammar allows."""
    return json.dumps(value, ensure_ascii=False)


def _constrained(chat: ChatRequest, said: str, schema: Any) -> str:
    form = chat.response_format
    wanted = _demand(said)
    if form.kind == "choice":
        return next((c for c in form.choices if c in said), form.choices[0])
    if form.kind in ("regex", "grammar"):
        return wanted or ""
    if wanted is not None:
        with contextlib.suppress(ValueError, RecursionError):
            demanded = _compact(json.loads(wanted))
            if form.kind != "json_schema" or accepts(schema, demanded, strict=form.strict):
                return demanded
            return _compact(build(schema, _supply(said)))  # it cannot be said: something that can
    if form.kind == "json_object":
        return _compact({"answer": wanted if wanted is not None else _supply(said).word()})
    return _compact(build(schema, _supply(said)))


def _words(text: str) -> set[str]:
    return {w.lower() for w in re.findall(r"[A-Za-z]+", text.replace("_", " "))} - _COMMON


def _mentions(tool: Tool, said: str) -> int:
    """Where the message names the tool, or -1."""
    for name in (tool.name, tool.name.replace("_", " ")):
        found = re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", said, re.I)
        if found:
            return found.start()
    return -1


def _picked(chat: ChatRequest, said: str) -> list[Tool]:
    """The tools that the message asks for, best first."""
    tools = chat.callable_tools
    named = sorted((t for t in tools if _mentions(t, said) >= 0), key=lambda t: _mentions(t, said))
    if named:
        return named
    words = _words(said)
    scored = [(len(words & _words(f"{t.name} {t.description}")), t) for t in tools]
    best = [t for score, t in sorted(scored, key=lambda pair: -pair[0]) if score > 0]
    return best[:2] if re.search(r"\b(?:both|each|all|two)\b", said, re.I) else best[:1]


def _calls(chat: ChatRequest, said: str) -> tuple[PlannedCall, ...]:
    """The calls to make: none, one, or several where that is asked for and allowed."""
    tools = chat.callable_tools
    forced = chat.tool_choice.forced
    if not tools:
        return ()
    if not forced and (_tool_results(chat) or _NO_TOOLS.search(said)):
        return ()
    picked = _picked(chat, said) or (list(tools[:1]) if forced else [])
    if not forced and _ECHO.search(said) and not any(_mentions(t, said) >= 0 for t in tools):
        return ()
    if not picked:
        return ()
    if chat.tool_choice.name is not None or not chat.parallel:
        picked = picked[:1]
    places = _PROPER.findall(said)
    if len(picked) == 1 and chat.parallel and len(places) > 1 and _SEVERAL.search(said):
        return tuple(_call(picked[0], Supply([place], said=place)) for place in places[:8])
    supply = _supply(said)
    return tuple(_call(tool, supply) for tool in picked[:8])


def _call(tool: Tool, supply: Supply) -> PlannedCall:
    value: Any = None
    start, end = supply.said.find("{"), supply.said.rfind("}")
    if 0 <= start < end:
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(supply.said[start : end + 1])  # arguments that the user wrote out
    possible = isinstance(value, dict) and accepts(
        arguments_schema(tool.parameters), _compact(value), strict=tool.strict
    )
    if not possible:
        value = build(tool.parameters, supply) if tool.parameters else {}
    return PlannedCall(tool.name, _compact(value if isinstance(value, dict) else {}))
