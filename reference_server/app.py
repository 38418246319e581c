"""The application: a request in, a lazy iterator of steps out. Pure of I/O and of the clock.

In memory, add up the `after` of the steps to know when something would have been sent; live, player.py
plays them. Closing the iterator is what a client's disconnect does: generation stops, the gauge falls.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from . import constrain, engine, faults, protocol
from .answer import HEARTBEAT, ApiError, Emit, Frame, Framing, HttpAnswer, HttpRequest, Piece, PieceKind, Step, invalid
from .config import Config
from .fields import parse_json
from .layers import Context, Hooks, Layer
from .request import ChatRequest, parse_chat
from .routes import Gauges, Json, Route, Text, find, simple, too_large
from .state import Orphan, ServerState

_FAULT = "/fault/"
_PREFIX_BLOCK = 128
_PREFIX_LEAST = 1024
# So many answers at a time do not slow each other down; the next ones do, up to a point.
_UNSHARED = 3
# How often one that waits for its turn looks for it (seconds).
_TURN = 0.005
# So often at most; then it is served all the same. A fault that gathers a whole answer lets no time pass for others.
_PATIENCE = 20_000


class PrefixCache:
    """Remembers the beginnings of recent prompts, in blocks, as servers with a prefix cache do."""

    def __init__(self, size: int = 4096) -> None:
        self._known: OrderedDict[int, None] = OrderedDict()
        self._size = size

    def add(self, prompt: list[int]) -> int:
        """How many tokens of `prompt` begin an earlier one: 0, or 1024 and more in steps of 128."""
        chain, shared, unbroken = 0, 0, True
        for end in range(_PREFIX_BLOCK, len(prompt) + 1, _PREFIX_BLOCK):
            chain = hash((chain, tuple(prompt[end - _PREFIX_BLOCK : end])))
            unbroken = unbroken and chain in self._known
            shared = end if unbroken else shared
            self._known[chain] = None
            self._known.move_to_end(chain)
        while len(self._known) > self._size:
            self._known.popitem(last=False)
        return shared if shared >= _PREFIX_LEAST else 0


@dataclass(frozen=True)
class _Exchange:
    """One request on its way through the layers."""

    http: HttpRequest
    hooks: Hooks
    request_id: str

    @property
    def keep(self) -> bool:
        """Whether the connection may stay open after the answer."""
        wanted = (self.http.header("connection") or "").lower()
        options = {option.strip() for option in wanted.split(",")}
        return "keep-alive" in options if self.http.version == "1.0" else "close" not in options


@dataclass(eq=False)
class _Place:
    """A chat request's place in the server: in the queue first, then in one of the slots."""

    prompt: int
    admitted: bool = False
    holds: bool = False  # a slot
    finished: bool = False
    reasons: list[str] = field(default_factory=list)  # why its choices ended


class App:
    """A reference server without its socket."""

    def __init__(self, config: Config | None = None, state: ServerState | None = None) -> None:
        self.config = config or Config()
        self.state = state or ServerState()
        self.gauges = Gauges()
        self._prefixes = PrefixCache()
        self._queue: deque[_Place] = deque()
        self._busy = 0  # slots

    def handle(self, request: HttpRequest) -> Iterator[Step]:
        """Answer a request. `/fault/<name>[+<name>...]` in front of the path chooses faults."""
        request, hooks, refusal = self._hooks(request)
        request = hooks.apply(Layer.REQUEST, request, Context(request, None, self.config, self.state, False))
        exchange = _Exchange(request, hooks, self._request_id(request))
        if refusal is not None:
            return self._refuse(exchange, refusal)
        return self._answer(exchange)

    def _hooks(self, request: HttpRequest) -> tuple[HttpRequest, Hooks, ApiError | None]:
        """The request without its fault prefix, the faults named there, and the refusal of an unknown name."""
        if not request.target.startswith(_FAULT):
            return request, Hooks(), None
        names, slash, rest = request.target[len(_FAULT) :].partition("/")
        request = replace(request, target=slash + rest or "/")
        try:
            return request, Hooks.of(faults.parse(unquote(names))), None
        except faults.UnknownFault as error:
            return request, Hooks(), ApiError(404, str(error), kind="not_found_error", code="unknown_fault")

    def refuse(self, request: HttpRequest, error: ApiError) -> Iterator[Step]:
        """The steps of an error that was found before there was a whole request."""
        request, hooks, _ = self._hooks(request)
        return self._refuse(_Exchange(request, hooks, self._request_id(request)), error)

    def _request_id(self, request: HttpRequest) -> str:
        """The client's own id where it is harmless, otherwise a new one."""
        given = request.header("x-request-id") or ""
        good = 0 < len(given) <= 128 and given.isascii() and given.isprintable()
        return given if good else self.config.ids("req_")

    def _answer(self, exchange: _Exchange) -> Iterator[Step]:
        try:
            route, argument = find(exchange.http, self.config)
            if len(exchange.http.body) > self.config.body_limit:
                raise too_large(self.config)
            if route is Route.CHAT:
                chat = self._chat(exchange)
                prompt = engine.render(chat)
                self._check_length(chat, prompt)
            else:
                body = parse_json(exchange.http.body) if route in (Route.TOKENIZE, Route.DETOKENIZE) else {}
                return self._simple(exchange, simple(route, argument, body, self.config, self.gauges))
        except ApiError as error:
            return self._refuse(exchange, error)
        return self._generate(exchange, chat, prompt)

    def _chat(self, exchange: _Exchange) -> ChatRequest:
        http = exchange.http
        media = (http.header("content-type") or "application/json").partition(";")[0].strip().lower()
        if media != "application/json":
            raise ApiError(415, f"Unsupported content type '{media[:60]}'; send application/json.")
        chat = parse_chat(parse_json(http.body), self.config)
        constrain.check(chat)
        return exchange.hooks.apply(Layer.PARAMS, chat, Context(http, chat, self.config, self.state, chat.stream))

    def _check_length(self, chat: ChatRequest, prompt: list[int]) -> None:
        most = self.config.context_tokens
        wanted = len(prompt) + (chat.max_tokens or 1)
        if wanted > most:
            raise invalid(
                f"This model's maximum context length is {most} tokens. However, you requested {wanted} tokens "
                f"({len(prompt)} in the messages, {chat.max_tokens or 1} in the completion).",
                "messages",
                "context_length_exceeded",
            )

    def _generate(self, exchange: _Exchange, chat: ChatRequest, prompt: list[int]) -> Iterator[Step]:
        """A chat answer. All that a started request holds is given back in `finally`."""
        config, hooks, gauges = self.config, exchange.hooks, self.gauges
        context = Context(exchange.http, chat, config, self.state, chat.stream)
        identity = protocol.Identity(
            config.ids("chatcmpl-"), int(config.clock()), chat.model, len(prompt), self._prefixes.add(prompt)
        )
        place = _Place(len(prompt))
        pieces: Iterator[Piece] = iter(())
        try:
            made = self._shared(gauges.count(engine.generate(chat, prompt, config, self.state.recall), place.reasons))
            pieces = hooks.apply(Layer.MODEL, made, context)
            if chat.stream:
                chunks = hooks.apply(Layer.CHUNK, protocol.chunks(pieces, chat, identity), context)
                events = protocol.frames(chunks, config.heartbeat_seconds)
                body = self._in_turn(place, hooks.apply(Layer.SSE, events, context))
                yield from self._send(exchange, context, self._stream_answer(exchange, body))
            else:
                for pause in self._turn(place):
                    yield Emit(b"", pause)
                ready: list[Piece] = []
                waited = 0.0
                for piece in pieces:
                    ready.append(piece)
                    waited += piece.after
                    if waited >= 0.05 or piece.kind is PieceKind.FINISH:
                        yield Emit(b"", waited)  # nothing to send, only time that passes
                        waited = 0.0
                value = hooks.apply(Layer.MESSAGE, protocol.message(ready, chat, identity), context)
                yield from self._send(exchange, context, self._json_answer(exchange, 200, value))
            place.finished = True
        finally:
            close = getattr(pieces, "close", None)
            if close is not None and not self._uncounted:
                close()
            self._end(place)

    def _turn(self, place: "_Place") -> Iterator[float]:
        """Pauses (seconds) until one of the slots is free: first come, first served."""
        self._queue.append(place)
        self.gauges.waiting += 1
        for _ in range(_PATIENCE):
            if self._queue[0] is place and self._busy < self.config.slots:
                break
            yield _TURN
        self._queue.remove(place)
        self.gauges.waiting -= 1
        self.gauges.start(place.prompt)
        place.admitted = place.holds = True
        self._busy += 1

    def _in_turn(self, place: "_Place", frames: Iterator[Frame]) -> Iterator[Frame]:
        """The frames of a stream once it is its turn, and heartbeats until then."""
        silent, most = 0.0, self.config.heartbeat_seconds
        for pause in self._turn(place):
            silent += pause
            due = 0 < most <= silent
            silent = 0.0 if due else silent
            yield Frame(HEARTBEAT if due else b"", pause)
        yield from frames

    @property
    def _uncounted(self) -> Orphan | None:
        """The rest of an answer that a fault has just taken away from its client."""
        return next((o for o in self.state.orphans if not o.counted), None)

    def _end(self, place: "_Place") -> None:
        """A request is over, unless a fault goes on with it: then it is when its orphan is.

        The slot is free at once: answers without a client slow the others down, which is harm enough.
        """
        self._free(place)
        orphan = self._uncounted
        if orphan is None or place.finished:
            self._leave(place)
            return
        orphan.counted, rest = True, orphan.steps

        def until_over() -> Iterator[Step]:
            try:
                yield from rest
            finally:
                self._leave(place)

        orphan.steps = until_over()

    def _free(self, place: "_Place") -> None:
        self._busy -= place.holds
        place.holds = False

    def _leave(self, place: "_Place") -> None:
        self._free(place)
        if place.admitted:
            self.gauges.end(place.prompt, place.reasons if place.finished else None)
            return
        if place in self._queue:
            self._queue.remove(place)
            self.gauges.waiting -= 1
        self.gauges.abort_waiting()

    def _shared(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """The model's time is shared with answers that nobody waits for any more, and with a crowd of others."""
        for piece in pieces:
            others = max(len(self.state.orphans), min(self.gauges.running - _UNSHARED, _UNSHARED))
            yield replace(piece, after=piece.after * (1 + others)) if others > 0 else piece

    def _refuse(self, exchange: _Exchange, error: ApiError) -> Iterator[Step]:
        return self._simple(exchange, Json(error.body(), error.status, error.headers))

    def _simple(self, exchange: _Exchange, made: Json | Text) -> Iterator[Step]:
        """An answer that needs no model."""
        context = Context(exchange.http, None, self.config, self.state, False, made.status)
        if isinstance(made, Text):
            answer = self._plain(exchange, made.status, made.text.encode(), made.media, ())
        else:
            value = exchange.hooks.apply(Layer.MESSAGE, made.body, context)
            answer = self._json_answer(exchange, made.status, value, made.headers)
        return self._send(exchange, context, answer)

    def _common(self, exchange: _Exchange) -> tuple[tuple[str, str], ...]:
        date = formatdate(self.config.clock(), usegmt=True)
        headers = [("date", date), ("server", "wireproof-reference"), ("x-request-id", exchange.request_id)]
        if not exchange.keep:
            headers.append(("connection", "close"))
        elif exchange.http.version == "1.0":
            headers.append(("connection", "keep-alive"))
        return tuple(headers)

    def _plain(
        self, exchange: _Exchange, status: int, data: bytes, media: str, extra: tuple[tuple[str, str], ...]
    ) -> HttpAnswer:
        headers = (("content-type", media), ("content-length", str(len(data))))
        reason = HTTPStatus(status).phrase
        return HttpAnswer(status, reason, (*headers, *self._common(exchange), *extra), iter([Frame(data)]))

    def _json_answer(
        self, exchange: _Exchange, status: int, value: Any, extra: tuple[tuple[str, str], ...] = ()
    ) -> HttpAnswer:
        return self._plain(exchange, status, protocol.dumps(value), "application/json", extra)

    def _stream_answer(self, exchange: _Exchange, body: Iterator[Frame]) -> HttpAnswer:
        headers = [
            ("content-type", "text/event-stream; charset=utf-8"),
            ("cache-control", "no-cache"),
            ("x-accel-buffering", "no"),
            *self._common(exchange),
        ]
        framing = Framing.CHUNKED
        if exchange.http.version == "1.0":
            framing = Framing.CLOSE
            headers = [(k, v) for k, v in headers if k != "connection"] + [("connection", "close")]
        else:
            headers.append(("transfer-encoding", "chunked"))
        return HttpAnswer(200, "OK", tuple(headers), body, framing, stream=True)

    def _send(self, exchange: _Exchange, context: Context, answer: HttpAnswer) -> Iterator[Step]:
        answer = exchange.hooks.apply(Layer.HTTP, answer, context)
        made = protocol.steps(answer, keep=exchange.keep, head_only=exchange.http.method == "HEAD")
        return exchange.hooks.apply(Layer.SOCKET, made, context)
