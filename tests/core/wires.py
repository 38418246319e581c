"""The measured wire cases of `fixtures/clients` as exchanges: the same bytes behind an ordinary head."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wireproof.read.chat import Chat
from wireproof.read.exchange import Exchange
from wireproof.resources import folder
from wireproof.wire.transcript import Ending, Read, Request, Transcript

_TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


@dataclass(frozen=True)
class Wire:
    """One measured case: its answer, and whether it was asked for as a stream."""

    name: str
    stream: bool
    status: int
    media_type: str
    body: bytes

    @property
    def asked(self) -> dict[str, Any]:
        """A request that the bytes answer: usage, two choices, tools and logprobs are asked for if they came."""
        out: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 24}
        if self.stream:
            out["stream"] = True
            if b'"usage": {' in self.body or self.name.startswith("usage"):
                out["stream_options"] = {"include_usage": True}
        if self.name.startswith("n2_"):
            out["n"] = 2
        if b'"tool_calls"' in self.body:
            out["tools"] = _TOOLS
        if "malformed" in self.name:
            out["tool_choice"] = "required"  # of a free call it would be the model's fault
        if b'"logprob": ' in self.body or b'"logprob":' in self.body:
            out["logprobs"] = True
        return out

    def exchange(self) -> Exchange:
        """The case as it would have been recorded."""
        head = [
            f"HTTP/1.1 {self.status} X",
            "Date: Wed, 03 Jul 2024 22:13:21 GMT",
            f"Content-Type: {self.media_type}",
            "X-Request-Id: req_1",
        ]
        if self.stream:
            head += ["Cache-Control: no-cache", "X-Accel-Buffering: no", "Transfer-Encoding: chunked"]
            framed = (b"%x\r\n%s\r\n" % (len(self.body), self.body) if self.body else b"") + b"0\r\n\r\n"
        else:
            head.append(f"Content-Length: {len(self.body)}")
            framed = self.body
        raw = "\r\n".join(head).encode() + b"\r\n\r\n" + framed
        headers = (("Content-Type", "application/json"),)
        request = Request("POST", "http://127.0.0.1:8000/v1/chat/completions", headers, json.dumps(self.asked).encode())
        return Chat(Transcript(self.name, self.name, request, (Read(0.0, raw),), Ending.COMPLETE, timed=False))


def _data(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(folder("fixtures").joinpath("clients", name).read_text(encoding="utf-8"))
    return found


@functools.cache
def cases() -> Mapping[str, Wire]:
    """Every measured case by name."""
    return {name: _wire(name, case["kind"], case["wire"]) for name, case in _data("wire_cases.json")["cases"].items()}


def _wire(name: str, kind: str, wire: Any) -> Wire:
    if kind == "stream":
        return Wire(name, True, 200, "text/event-stream; charset=utf-8", wire.encode("utf-8"))
    if kind == "stream-raw":
        return Wire(name, True, 200, wire["content_type"], wire["body_latin1"].encode("latin-1"))
    assert kind == "json", f"{name} is of an unknown kind: {kind}"
    return Wire(name, False, wire["status"], wire["content_type"], wire["body"].encode("utf-8"))


@functools.cache
def expected() -> Mapping[str, Any]:
    """What is known about each case: `fixtures/clients/expected_rules.json`."""
    return _data("expected_rules.json")
