"""What a response that was stored without its request proves about that request, and nothing more.

A guess only keeps rules from judging the wrong thing: of what cannot be known, such as whether
usage was asked for, a rule says that it is not applicable.
"""

from __future__ import annotations

import re
from typing import Any

from wireproof.wire import sse, strictjson
from wireproof.wire.http import Response

CHAT = "/v1/chat/completions"
_SSE_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:data|event|id|retry)?:")


def looks_like_stream(body: bytes) -> bool:
    """Whether a body begins as an event stream does."""
    return _SSE_START.match(body) is not None


def _is_stream(response: Response) -> bool:
    return response.media_type == "text/event-stream" or (
        response.media_type in ("", "text/plain") and looks_like_stream(response.content)
    )


def _events(response: Response) -> list[sse.Event]:
    return [item for item in sse.decode(response.content) if isinstance(item, sse.Event)]


def _objects(response: Response) -> list[dict[str, Any]]:
    """The JSON objects of the answer: of a stream, those of its events."""
    if _is_stream(response):
        texts = [e.data for e in _events(response)]
    else:
        texts = [response.content.decode("utf-8", errors="replace").removeprefix("\ufeff")]
    values = [strictjson.parse(text).value for text in texts if text.lstrip().startswith("{")]
    return [v for v in values if isinstance(v, dict)]


def endpoint(response: Response | None) -> tuple[str, str]:
    """Method and path of a request that has this answer; the path is / when nothing tells."""
    if response is None:
        return "POST", "/"
    found = _objects(response)
    names = {str(v.get("object", "")) for v in found}
    if _is_stream(response):
        if any(str(v.get("type", "")).startswith("response.") for v in found):
            return "POST", "/v1/responses"
        return "POST", "/v1/completions" if "text_completion" in names else CHAT
    if any(name.startswith("chat.completion") for name in names):
        return "POST", CHAT
    for name, method, path in (
        ("text_completion", "POST", "/v1/completions"),
        ("response", "POST", "/v1/responses"),
        ("list", "GET", "/v1/models"),
        ("model", "GET", "/v1/models/x"),
    ):
        if name in names:
            embeddings = name == "list" and strictjson.get(found[0], "data", 0, "object") == "embedding"
            return ("POST", "/v1/embeddings") if embeddings else (method, path)
    return "POST", CHAT if any("choices" in v for v in found) else "/"


def asked(response: Response | None) -> dict[str, Any]:
    """The members of a chat request that its answer proves, as if they had been sent."""
    if response is None:
        return {}
    out: dict[str, Any] = {}
    found = _objects(response)
    if _is_stream(response):
        out["stream"] = True
        # Nobody sends a chunk of usage alone, with no choices, unless it was asked for.
        if any(v.get("choices") == [] and isinstance(v.get("usage"), dict) for v in found):
            out["stream_options"] = {"include_usage": True}
            counted = [v for v in found if v.get("choices") and isinstance(v.get("usage"), dict)]
            if len(counted) > 1:
                out["stream_options"]["continuous_usage_stats"] = True
    parts = [c for v in found for c in _list(v.get("choices")) if isinstance(c, dict)]
    indexes = {c["index"] for c in parts if strictjson.is_int(c.get("index"))}
    if len(indexes) > 1:
        out["n"] = len(indexes)
    said = [c.get("delta") if "delta" in c else c.get("message") for c in parts]
    if any(isinstance(s, dict) and s.get("tool_calls") for s in said):
        out["tool_choice"] = "unknown"  # free, forced or named: it decides what finish_reason is right
    if any(isinstance(s, dict) and s.get("function_call") for s in said):
        out["functions"] = [{}]
    entries = [e for c in parts for e in _list(strictjson.get(c, "logprobs", "content"))]
    if entries:
        out["logprobs"] = True
        out["top_logprobs"] = max(len(_list(strictjson.get(e, "top_logprobs"))) for e in entries)
    return out


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
