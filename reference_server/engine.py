"""The engine: runs the model for every choice of a request and hands out pieces.

In: a validated ChatRequest and its prompt's tokens. Out: a lazy iterator of Piece, choices taking turns.
Nothing is computed before it is asked for; closing the iterator ends the generation.

Text is held back while its last character is incomplete, and while its end could be the beginning of a stop
sequence. It is handed out in whole tokens, so a piece's text and its logprob entries say the same. End
tokens are not counted as completion tokens; the markers and names of tool calls are.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from . import model, thinking, vocab
from .answer import Piece, PieceKind, TokenLogprob
from .config import Config
from .constrain import Phase, Rails
from .policy import Intent, read
from .request import ChatRequest


def render(chat: ChatRequest) -> list[int]:
    """The chat template: what the model reads. Users cannot spell the special tokens in it."""
    tokens = [vocab.BOS]
    for tool in chat.tools:
        tokens.append(vocab.TOOLS)
        tokens += vocab.encode(f"{tool.name}: {tool.description} ")
        tokens += vocab.encode(str(tool.parameters or {}))
    for message in chat.messages:
        tokens.append(vocab.SPECIAL[f"<|{message.role}|>"])
        if message.name:
            tokens += [vocab.NAME, *vocab.encode(message.name)]
        if message.tool_call_id:
            tokens += [vocab.NAME, *vocab.encode(message.tool_call_id)]
        tokens += vocab.encode(message.content or "")
        for call in message.tool_calls:
            tokens += [vocab.CALL, *vocab.encode(call.name), vocab.ARGS, *vocab.encode(call.arguments)]
            tokens.append(vocab.CALL_END)
        tokens.append(vocab.EOM)
    tokens.append(vocab.ASSISTANT)
    return tokens


class _Text:
    """Text of one choice on its way out: holds tokens back until they are safe to send."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = [stop.encode() for stop in stops]
        self._held: list[tuple[bytes, TokenLogprob | None]] = []

    @property
    def pending(self) -> bytes:
        """The incomplete character at the end."""
        tail = b"".join(data for data, _ in self._held[-4:])[-4:]
        for size in range(1, min(3, len(tail)) + 1):
            part = tail[-size:]
            if part[0] >= 0xC0:
                return part if not _complete(part) else b""
        return b""

    def add(self, data: bytes, entry: TokenLogprob | None) -> tuple[str, tuple[TokenLogprob, ...], bool]:
        """Take a token in; give text and entries that may be sent, and whether a stop sequence is there."""
        self._held.append((data, entry))
        joined = b"".join(part for part, _ in self._held)
        found = [at for stop in self._stops if (at := joined.find(stop)) >= 0]
        if found:
            return (*self._cut(min(found)), True)
        safe = len(joined) - max((_overlap(joined, stop) for stop in self._stops), default=0)
        count, size, good = 0, 0, 0
        for i, (part, _) in enumerate(self._held):
            size += len(part)
            if size > safe:
                break
            if _complete(joined[good:size]) or not vocab.is_utf8_start(joined[good:size]):
                count, good = i + 1, size
        text = joined[:good].decode(errors="replace")
        entries = tuple(entry for _, entry in self._held[:count] if entry is not None)
        del self._held[:count]
        return text, entries, False

    def _cut(self, at: int) -> tuple[str, tuple[TokenLogprob, ...]]:
        """What comes before the stop sequence; the entries of the tokens that have a part in it."""
        joined = b"".join(part for part, _ in self._held)
        entries, start = [], 0
        for part, entry in self._held:
            if start < at and entry is not None:
                entries.append(entry)
            start += len(part)
        self._held.clear()
        return joined[:at].decode(errors="replace"), tuple(entries)

    def flush(self) -> tuple[str, tuple[TokenLogprob, ...]]:
        """The rest, at the end: an incomplete character is dropped, its entries are not."""
        joined = b"".join(part for part, _ in self._held)
        entries = tuple(entry for _, entry in self._held if entry is not None)
        pending = self.pending
        self._held.clear()
        return joined[: len(joined) - len(pending)].decode(errors="replace"), entries


def _complete(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _overlap(text: bytes, stop: bytes) -> int:
    """The longest end of `text` that is a beginning of `stop`."""
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0


class _Choice:
    """The generation of one choice."""

    def __init__(
        self, index: int, chat: ChatRequest, intent: Intent, prompt: list[int], limit: tuple[int, int]
    ) -> None:
        self.index = index
        self.done = False
        self._chat = chat
        self._plan = intent.plan()
        self._thought = thinking.thought(chat)
        self._hidden = thinking.hidden(chat)
        self._thought_tokens = 0
        self._rails = Rails(chat)
        self._text = _Text(chat.stop)
        self._args = _Text(())
        self._context = prompt[-3:]
        self._counts: Counter[int] = Counter()
        self._count = 0
        self._calls = 0
        self._limit, seed = limit
        self._rng = random.Random(seed + index * 0x9E3779B97F4A7C15)

    def _sample(self) -> tuple[int, TokenLogprob | None]:
        chat, rails = self._chat, self._rails
        text = self._args if rails.phase is Phase.ARGS else self._text
        values = model.logits(self._context, text.pending, [*rails.hints, *self._plan.hints()])
        mask = rails.mask()
        end = bool(mask[vocab.EOS]) and rails.phase is Phase.TEXT
        if end and (chat.ignore_eos or self._count < chat.min_tokens):
            mask[vocab.EOS] = False
            mask[vocab.EOS] = not mask.any()  # under a grammar that is at its end, the end it is
        values = model.adjust(values, self._counts, chat.sampling)
        values[~mask] = -np.inf
        token = model.choose(values, chat.sampling, self._rng)
        wanted = chat.logprobs and rails.phase is Phase.TEXT and token < vocab.FIRST_SPECIAL
        return token, model.logprobs(values, token, chat.top_logprobs) if wanted else None

    def step(self) -> Iterator[Piece]:
        """Generate one token; what can be sent after it."""
        if self._count >= self._limit:
            yield from self._finish("length")
            return
        if self._thought_tokens < len(self._thought):
            yield from self._think()
            return
        token, entry = self._sample()
        if token == vocab.EOS:
            yield from self._finish(self._stop_reason())
            return
        self._count += 1
        self._counts[token] += 1
        self._context = [*self._context[-2:], token]
        self._plan.advance(token)
        phase = self._rails.phase
        name = self._rails.name
        self._rails.advance(token)
        if token == vocab.CALL:
            yield from self._flush()
        elif token == vocab.ARGS:
            yield self._piece(PieceKind.CALL_START, name=name)
        elif token == vocab.CALL_END:
            self._calls += 1
        elif phase is Phase.TEXT:
            text, entries, stopped = self._text.add(vocab.TOKENS[token], entry)
            if text or entries:
                yield self._piece(PieceKind.TEXT, text=text, logprobs=entries)
            if stopped:
                yield from self._finish("stop")
        elif phase is Phase.ARGS:
            text, _, _ = self._args.add(vocab.TOKENS[token], None)
            if text:
                yield self._piece(PieceKind.CALL_ARGS, text=text)

    def _think(self) -> Iterator[Piece]:
        """One token of the thought. It is fixed, so that the answer after it is the same as without."""
        token = self._thought[self._thought_tokens]
        self._thought_tokens += 1
        self._count += 1
        if not self._hidden:
            yield self._piece(PieceKind.REASONING, text=vocab.TOKENS[token].decode())

    def _piece(self, kind: PieceKind, text: str = "", name: str = "", logprobs: tuple[TokenLogprob, ...] = ()) -> Piece:
        return Piece(
            self.index, kind, text, self._calls, "", name, logprobs, tokens=self._count, thought=self._thought_tokens
        )

    def _flush(self) -> Iterator[Piece]:
        text, entries = self._text.flush()
        if text or entries:
            yield self._piece(PieceKind.TEXT, text=text, logprobs=entries)

    def _stop_reason(self) -> str:
        """OpenAI says `stop` after a call of the one function that was forced."""
        if self._calls == 0 or (self._chat.tool_choice.name is not None and not self._chat.legacy):
            return "stop"
        return "function_call" if self._chat.legacy else "tool_calls"

    def _finish(self, reason: str) -> Iterator[Piece]:
        yield from self._flush()
        self.done = True
        yield Piece(self.index, PieceKind.FINISH, finish=reason, tokens=self._count, thought=self._thought_tokens)


def limit_of(chat: ChatRequest, prompt: int, config: Config) -> int:
    """How many tokens a choice may have: the request's limit, or ours, within the context."""
    room = config.context_tokens - prompt
    return min(room, config.default_max_tokens if chat.max_tokens is None else chat.max_tokens)


def generate(
    chat: ChatRequest, prompt: list[int], config: Config, recall: dict[Any, Any] | None = None
) -> Iterator[Piece]:
    """The pieces of all choices, index 0 first, in turns; `after` is the model's own working time.

    With `recall` equal requests are answered from it, and what is new is remembered there.
    """
    seed = chat.seed if chat.seed is not None else config.entropy()
    made: Iterable[tuple[Piece, float]] = _run(chat, prompt, config, seed)
    if recall is not None:
        key = (repr(chat), hash(tuple(prompt)), seed if chat.sampling.temperature > 0 else 0)
        made = recall.get(key) or recall.setdefault(key, list(made))
    for piece, after in made:
        yield _timed(piece, after, config.ids("call_") if piece.kind is PieceKind.CALL_START else "")


def _run(chat: ChatRequest, prompt: list[int], config: Config, seed: int) -> Iterator[tuple[Piece, float]]:
    intent = read(chat)
    limit = limit_of(chat, len(prompt), config)
    choices = [_Choice(i, chat, intent, prompt, (limit, seed)) for i in range(chat.n)]
    elapsed = intent.wait + len(prompt) / config.prefill_tokens_per_second
    while not all(choice.done for choice in choices):
        elapsed += config.token_seconds  # one pass of the model serves all choices
        for choice in choices:
            if choice.done:
                continue
            for piece in choice.step():
                yield piece, elapsed
                elapsed = 0.0


def _timed(piece: Piece, after: float, call_id: str) -> Piece:
    return Piece(
        piece.index,
        piece.kind,
        piece.text,
        piece.call,
        call_id,
        piece.name,
        piece.logprobs,
        piece.finish,
        after,
        piece.tokens,
        piece.thought,
    )
