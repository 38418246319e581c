"""Paths and methods, authentication, and the answers that need no model.

In: a request. Out: a Route with its argument, or an ApiError; and for simple routes the JSON or text.
"""

import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import unquote

from . import engine, vocab
from .answer import ApiError, HttpRequest, Piece, PieceKind, invalid
from .config import Config
from .fields import array, string
from .messages import parse_messages
from .request import ChatRequest, unknown_model
from .tools import parse_tools

#: When the served models were made: fixed, so that the list never changes.
CREATED = 1709208000


class Route(StrEnum):
    CHAT = "chat"
    MODELS = "models"
    MODEL = "model"
    TOKENIZE = "tokenize"
    DETOKENIZE = "detokenize"
    HEALTH = "health"
    VERSION = "version"
    METRICS = "metrics"


_PATHS = {
    "/v1/chat/completions": Route.CHAT,
    "/v1/models": Route.MODELS,
    "/v1/tokenize": Route.TOKENIZE,
    "/tokenize": Route.TOKENIZE,
    "/v1/detokenize": Route.DETOKENIZE,
    "/detokenize": Route.DETOKENIZE,
    "/health": Route.HEALTH,
    "/version": Route.VERSION,
    "/metrics": Route.METRICS,
}
_POSTS = (Route.CHAT, Route.TOKENIZE, Route.DETOKENIZE)
_OPEN = (Route.HEALTH, Route.VERSION, Route.METRICS)


@dataclass(frozen=True)
class Json:
    body: dict[str, Any]
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Text:
    text: str
    media: str
    status: int = 200


@dataclass
class Gauges:
    """What /metrics shows."""

    running: int = 0
    waiting: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    held_tokens: int = 0
    finished: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0})

    def abort_waiting(self) -> None:
        """A request has left the queue without an answer."""
        self.finished["abort"] += 1

    def start(self, prompt: int) -> None:
        self.running += 1
        self.prompt_tokens += prompt
        self.held_tokens += prompt

    def end(self, prompt: int, reasons: list[str] | None) -> None:
        """An answer is over: why each of its choices ended, or None when it was aborted."""
        self.running -= 1
        self.held_tokens -= prompt
        for reason in ["abort"] if reasons is None else reasons:
            self.finished[reason] += 1

    def count(self, pieces: Iterator[Piece], reasons: list[str]) -> Iterator[Piece]:
        """The same pieces, counted as they pass; why a choice ended goes to `reasons`."""
        seen: dict[int, int] = {}
        try:
            for piece in pieces:
                new = piece.tokens - seen.get(piece.index, 0)
                self.generation_tokens += new
                self.held_tokens += new
                seen[piece.index] = piece.tokens
                if piece.kind is PieceKind.FINISH:
                    reasons.append("length" if piece.finish == "length" else "stop")
                yield piece
        finally:
            self.held_tokens -= sum(seen.values())


def too_large(config: Config) -> ApiError:
    """The refusal of a request body over the limit."""
    return ApiError(413, f"The request body is larger than {config.body_limit} bytes.", code="request_too_large")


def find(request: HttpRequest, config: Config) -> tuple[Route, str]:
    """The route and its argument; 401, 404 or 405 otherwise."""
    path = request.path
    route = _PATHS.get(path)
    argument = ""
    if route is None and path.startswith("/v1/models/"):
        route, argument = Route.MODEL, unquote(path.removeprefix("/v1/models/"))
    if route not in _OPEN:
        _authenticate(request, config)
    if route is None:
        message = f"Unknown request URL: {request.method[:20]} {path[:200]}. Check the path for typos."
        raise ApiError(404, message, code="unknown_url")
    allowed = ("POST",) if route in _POSTS else ("GET", "HEAD")
    if request.method not in allowed:
        message = f"Not allowed to {request.method[:20]} on {path[:200]}; use {' or '.join(allowed)}."
        raise ApiError(405, message, code="method_not_allowed", headers=(("allow", ", ".join(allowed)),))
    return route, argument


def _authenticate(request: HttpRequest, config: Config) -> None:
    if config.api_key is None:
        return
    scheme, _, key = (request.header("authorization") or "").partition(" ")
    good = hmac.compare_digest(key.strip().encode(errors="replace"), config.api_key.encode())
    if scheme.lower() != "bearer" or not good:
        problem = "Incorrect API key provided." if key.strip() else "You did not provide an API key."
        raise ApiError(
            401,
            f"{problem} Send it as 'Authorization: Bearer <key>'.",
            kind="authentication_error",
            code="invalid_api_key",
            headers=(("www-authenticate", "Bearer"),),
        )


def simple(route: Route, argument: str, body: dict[str, Any], config: Config, gauges: Gauges) -> Json | Text:
    """The answer of a route other than chat."""
    if route is Route.MODELS:
        return Json({"object": "list", "data": [_model(name, config) for name in config.models]})
    if route is Route.MODEL:
        if argument not in config.models:
            raise unknown_model(argument)
        return Json(_model(argument, config))
    if route is Route.TOKENIZE:
        return Json(_tokenize(body, config))
    if route is Route.DETOKENIZE:
        return Json(_detokenize(body, config))
    if route is Route.HEALTH:
        return Json({"status": "ok"})
    if route is Route.VERSION:
        return Json({"version": config.version})
    return Text(_metrics(config, gauges), "text/plain; version=0.0.4; charset=utf-8")


def _model(name: str, config: Config) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": CREATED,
        "owned_by": "wireproof",
        "max_model_len": config.context_tokens,
    }


def _tokenize(body: dict[str, Any], config: Config) -> dict[str, Any]:
    model = string(body, "model")
    if model and model not in config.models:
        raise unknown_model(model)
    prompt = string(body, "prompt")
    if prompt is not None:
        # For a bare prompt special tokens are only added when asked for.
        tokens = [vocab.BOS] if body.get("add_special_tokens") is True else []
        tokens += vocab.encode(prompt)
    elif body.get("messages") is not None:
        messages = parse_messages(body["messages"])
        tokens = engine.render(ChatRequest(config.model, messages, tools=parse_tools(body)))
    else:
        raise invalid("Send 'prompt' or 'messages'.", "prompt", "missing_required_parameter")
    return {"count": len(tokens), "max_model_len": config.context_tokens, "tokens": tokens}


def _detokenize(body: dict[str, Any], config: Config) -> dict[str, Any]:
    model = string(body, "model")
    if model and model not in config.models:
        raise unknown_model(model)
    tokens = array(body.get("tokens"), "tokens")
    for i, token in enumerate(tokens):
        if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < vocab.SIZE:
            raise invalid(f"Invalid 'tokens[{i}]': expected a token id below {vocab.SIZE}.", "tokens")
    return {"prompt": vocab.decode(tokens).decode(errors="replace")}


def _metrics(config: Config, gauges: Gauges) -> str:
    """Prometheus text with vLLM's names."""
    label = f'model_name="{config.model}"'
    rows: list[tuple[str, str, list[tuple[str, float]]]] = [
        ("vllm:num_requests_running", "gauge", [(label, gauges.running)]),
        ("vllm:num_requests_waiting", "gauge", [(label, gauges.waiting)]),
        ("vllm:kv_cache_usage_perc", "gauge", [(label, gauges.held_tokens / config.context_tokens)]),
        ("vllm:prompt_tokens_total", "counter", [(label, gauges.prompt_tokens)]),
        ("vllm:generation_tokens_total", "counter", [(label, gauges.generation_tokens)]),
        (
            "vllm:request_success_total",
            "counter",
            [(f'finished_reason="{why}",{label}', count) for why, count in gauges.finished.items()],
        ),
    ]
    lines = []
    for name, kind, values in rows:
        lines.append(f"# TYPE {name} {kind}")
        lines += [f"{name}{{{labels}}} {float(value)}" for labels, value in values]
    return "\n".join(lines) + "\n"
