"""The endpoints of the API. They are neighbours: each has its own requests, answers, scenarios and rules."""

from __future__ import annotations

from enum import StrEnum


class Endpoint(StrEnum):
    """Where a request goes. OTHER is the server's own pages: health, gauges, its root."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    EMBEDDINGS = "embeddings"
    MODELS = "models"
    TOKENIZE = "tokenize"
    OTHER = "other"


TITLES = {
    Endpoint.CHAT: "Chat completions",
    Endpoint.COMPLETIONS: "Completions (legacy)",
    Endpoint.RESPONSES: "Responses",
    Endpoint.EMBEDDINGS: "Embeddings",
    Endpoint.MODELS: "Models",
    Endpoint.TOKENIZE: "Tokenizer",
    Endpoint.OTHER: "The server's own pages",
}
#: What stands in their place for rules about any HTTP exchange.
ANY = "Every endpoint"

#: The path of each endpoint below the base URL (.../v1), or below the server's root.
PATHS = {
    Endpoint.CHAT: "/chat/completions",
    Endpoint.COMPLETIONS: "/completions",
    Endpoint.RESPONSES: "/responses",
    Endpoint.EMBEDDINGS: "/embeddings",
    Endpoint.MODELS: "/models",
    Endpoint.TOKENIZE: "/tokenize",
}
_POSTED = (Endpoint.CHAT, Endpoint.COMPLETIONS, Endpoint.RESPONSES, Endpoint.EMBEDDINGS, Endpoint.TOKENIZE)


def endpoint_of(method: str, path: str) -> Endpoint:
    """The endpoint of a request line (a path with or without query); OTHER when it is none of ours.

    A GET of an address that takes POST only is OTHER, too: it asks that endpoint for nothing.
    """
    bare = path.split("?", 1)[0].rstrip("/")
    if method == "POST":  # (the first that fits: the path of chat ends as that of completions does)
        return next((e for e in _POSTED if bare.endswith(PATHS[e])), Endpoint.OTHER)
    parent = bare.rpartition("/models/")[0]
    return Endpoint.MODELS if method == "GET" and (bare.endswith("/models") or parent) else Endpoint.OTHER
