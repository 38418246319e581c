"""An app in memory, and answers taken apart."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any

from wireproof.reference_server.answer import Emit, How, HttpRequest
from wireproof.reference_server.app import App
from wireproof.reference_server.config import Config

MODEL = "tiny-reference"


def _object(value: Any) -> dict[str, Any]:
    assert isinstance(value, dict), value
    return value


def _text(value: Any) -> str:
    assert isinstance(value, str), value
    return value


@dataclass
class Reply:
    """An answer as bytes; `seconds` is the virtual time until its end."""

    raw: bytes
    seconds: float
    how: How
    emits: list[Emit]

    @property
    def head(self) -> list[str]:
        return self.raw.partition(b"\r\n\r\n")[0].decode().split("\r\n")

    @property
    def status(self) -> int:
        return int(self.head[0].split()[1])

    @property
    def headers(self) -> dict[str, str]:
        return dict(line.split(": ", 1) for line in self.head[1:])

    @property
    def body(self) -> bytes:
        data = self.raw.partition(b"\r\n\r\n")[2]
        if self.headers.get("transfer-encoding") != "chunked":
            return data
        body = b""
        while data:
            size, _, data = data.partition(b"\r\n")
            body, data = body + data[: int(size, 16)], data[int(size, 16) + 2 :]
        return body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        return _object(self.json["error"])

    @property
    def message(self) -> dict[str, Any]:
        return _object(self.json["choices"][0]["message"])

    @property
    def content(self) -> str:
        return _text(self.message["content"])

    @property
    def finish(self) -> str:
        return _text(self.json["choices"][0]["finish_reason"])

    @property
    def events(self) -> list[str]:
        """SSE events and comments, without their blank line."""
        parts = self.body.decode().split("\n\n")
        assert parts[-1] == ""
        return parts[:-1]

    @property
    def chunks(self) -> list[dict[str, Any]]:
        data = [event[6:] for event in self.events if event.startswith("data: ")]
        return [json.loads(item) for item in data if item != "[DONE]"]

    def text(self, index: int = 0) -> str:
        """The streamed content of a choice."""
        choices = [c for chunk in self.chunks for c in chunk["choices"] if c["index"] == index]
        return "".join(c["delta"].get("content") or "" for c in choices)

    def arguments(self) -> dict[int, str]:
        """Streamed arguments by call."""
        found: dict[int, str] = {}
        for chunk in self.chunks:
            for choice in chunk["choices"]:
                for call in choice["delta"].get("tool_calls", ()):
                    found[call["index"]] = found.get(call["index"], "") + call["function"]["arguments"]
        return found


class Server:
    """Ask an app in memory."""

    def __init__(self, **settings: Any) -> None:
        numbers = itertools.count(1)
        defaults = {
            "clock": lambda: 1_700_000_000.5,
            "ids": lambda prefix: f"{prefix}{next(numbers):024d}",
            "entropy": lambda: next(numbers),
        }
        self.app = App(Config(**{**defaults, **settings}))

    def send(self, request: HttpRequest) -> Reply:
        emits: list[Emit] = []
        how = How.END
        for step in self.app.handle(request):
            if isinstance(step, Emit):
                emits.append(step)
            else:
                how = step.how
        return Reply(b"".join(e.data for e in emits), sum(e.after for e in emits), how, emits)

    def get(self, path: str, method: str = "GET", **headers: str) -> Reply:
        names = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        return self.send(HttpRequest(method, path, names))

    def post(self, path: str, body: Any, version: str = "1.1", **headers: str) -> Reply:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        names = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        return self.send(HttpRequest("POST", path, names, data, version))

    def chat(self, said: Any = "hi", *, fault: str = "", **parameters: Any) -> Reply:
        messages = said if isinstance(said, list) else [{"role": "user", "content": said}]
        body = {"model": MODEL, "messages": messages, **parameters}
        return self.post(f"{'/fault/' + fault if fault else ''}/v1/chat/completions", body)

    def stream(self, said: Any = "hi", **parameters: Any) -> Reply:
        return self.chat(said, stream=True, **parameters)
