"""Heads, chunks, heartbeats, errors, routes, faults: the wire as OpenAI's, in memory."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from wireproof.reference_server import faults
from wireproof.reference_server.answer import DONE_FRAME, How, HttpRequest
from wireproof.reference_server.layers import Context, Hooks, Layer

from .serving import Server

NAN = b'{"model":"tiny-reference","messages":[{"role":"user","content":"hi"}],"temperature":NaN}'


def test_stream_shape(server: Server) -> None:
    reply = server.stream("hi", stream_options={"include_usage": True})
    head = reply.headers
    assert (reply.status, head["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert (head["cache-control"], head["x-accel-buffering"]) == ("no-cache", "no")
    assert head["transfer-encoding"] == "chunked" and "content-length" not in head
    assert reply.emits[0].after == 0 and reply.emits[0].data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert reply.raw.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    chunks = reply.chunks
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert chunks[-2]["choices"][0]["delta"] == {} and chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert [c["usage"] is None for c in chunks] == [True] * (len(chunks) - 1) + [False]
    assert len({(c["id"], c["created"], c["model"], c["object"]) for c in chunks}) == 1
    assert all("usage" not in chunk for chunk in server.stream("hi").chunks)


def test_plain_shape(server: Server) -> None:
    body = server.chat("hi").json
    assert list(body)[:5] == ["id", "object", "created", "model", "choices"]
    assert body["object"] == "chat.completion" and body["created"] == 1_700_000_000
    choice = body["choices"][0]
    assert set(choice) == {"index", "message", "logprobs", "finish_reason"} and choice["logprobs"] is None
    assert choice["message"] == {"role": "assistant", "content": choice["message"]["content"], "refusal": None}


@pytest.mark.parametrize("stream", [True, False])
def test_wait_is_virtual_time_with_heartbeats(server: Server, stream: bool) -> None:
    reply = server.chat("[wait 40 s] Say: ahoy", stream=stream)
    assert 40 < reply.seconds < 40.1
    if stream:
        assert reply.events[:4] == [": keepalive"] * 4 and reply.text() == "ahoy"
        assert max(emit.after for emit in reply.emits) <= 10


def test_request_id_is_echoed_or_made(server: Server) -> None:
    assert server.get("/v1/models", x_request_id="abc-1").headers["x-request-id"] == "abc-1"
    for bad in ("", "x" * 129, "é", "a\tb"):
        assert server.get("/v1/models", x_request_id=bad).headers["x-request-id"].startswith("req_")
    ids = {reply.headers["x-request-id"] for reply in (server.chat(), server.stream(), server.get("/nope"))}
    assert len(ids) == 3


def test_http_1_0_and_connection_close(server: Server) -> None:
    body = {"model": "tiny-reference", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    old = server.post("/v1/chat/completions", body, version="1.0")
    assert old.how is How.END and "transfer-encoding" not in old.headers and old.raw.endswith(b"[DONE]\n\n")
    assert server.get("/v1/models", connection="close").how is How.END
    assert server.get("/v1/models").how is How.KEEP
    head = server.get("/v1/models", method="HEAD")
    assert head.body == b"" and int(head.headers["content-length"]) > 50


def test_routes(server: Server) -> None:
    assert server.get("/v1/models").json["data"][0]["id"] == "tiny-reference"
    assert server.get("/v1/models/tiny%2Dreference?x=1").json["object"] == "model"
    for path in ("/health", "/version", "/metrics"):
        assert server.get(path).status == 200
    assert server.get("/v1/models/nope").error["code"] == "model_not_found"
    assert server.get("/v1/nope").status == 404
    wrong = server.get("/v1/chat/completions")
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    assert server.post("/v1/models", {}).headers["allow"] == "GET, HEAD"
    assert server.post("/v1/tokenize", {"prompt": "héllo"}).json["count"] > 1


TOOL = {"type": "function", "function": {"name": "f"}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
BAD: dict[str, list[Any]] = {
    "temperature": ["hot", -0.1, 2.1, True],
    "top_p": [1.1, "x"],
    "n": [0, 129, -1, 1.5, "2"],
    "stop": [["a"] * 5, 5, ""],
    "stop[1]": [("stop", ["a", 3])],
    "max_tokens": [0, -1, "5", 1.5],
    "max_completion_tokens": [0],
    "frequency_penalty": [2.5],
    "presence_penalty": [-2.5],
    "logit_bias": [{"5": 101}, {"x": 1}, [], {"5": "1"}, {"99999": 1}],
    "seed": ["x", 2**63],
    "stream": ["yes", 1],
    "stream_options": [{"include_usage": True}],
    "logprobs": [1],
    "top_logprobs": [3, 21],
    "user": [5],
    "metadata": [{"a" * 65: "x"}, 5],
    "service_tier": ["gold"],
    "reasoning_effort": ["huge"],
    "modalities": [["audio"]],
    "audio": [{}],
    "messages": [[], "hi", 5],
    "messages[0].role": [("messages", [{"content": "x"}]), ("messages", [{"role": "bot", "content": "x"}])],
    "messages[0].content": [("messages", [{"role": "user"}]), ("messages", [{"role": "user", "content": 5}])],
    "messages[0].content[0]": [("messages", [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])],
    "messages[0].tool_call_id": [("messages", [{"role": "tool", "tool_call_id": "x", "content": "y"}])],
    "tools": [[], {}],
    "tools[0].type": [("tools", [{"type": "custom", "custom": {"name": "x"}}])],
    "tools[0].function.name": [("tools", [{"type": "function", "function": {"name": "a b"}}])],
    "tools[1].function.name": [("tools", [TOOL, TOOL])],
    "tool_choice": ["required", "auto", "sometimes", {"type": "function", "function": {"name": "g"}}],
    "response_format.type": [("response_format", {"type": "xml"})],
    "response_format.json_schema": [("response_format", {"type": "json_schema"})],
    "response_format.json_schema.name": [("response_format", {"type": "json_schema", "json_schema": {"schema": {}}})],
    "model": [None, "", 5],
}
CASES = [
    (param, *(case if isinstance(case, tuple) else (param, case))) for param, cases in BAD.items() for case in cases
]


@pytest.mark.parametrize("param, name, value", CASES)
def test_bad_parameters_are_named(server: Server, param: str, name: str, value: object) -> None:
    wrong: dict[str, Any] = {name: value}
    reply = server.chat("hi", **wrong)
    assert (reply.status, reply.error["type"], reply.error["param"]) == (400, "invalid_request_error", param)
    assert set(reply.error) == {"message", "type", "param", "code"}


def test_errors_come_before_a_stream(server: Server) -> None:
    reply = server.stream("hi", temperature=3)
    assert (reply.status, reply.headers["content-type"]) == (400, "application/json")
    assert server.stream("hi", model="nope").error["code"] == "model_not_found"
    assert server.stream("hi", model="nope").status == 404


NULLABLE = """temperature top_p n stop max_tokens max_completion_tokens frequency_penalty presence_penalty logit_bias
    logprobs top_logprobs seed stream stream_options metadata store reasoning_effort verbosity service_tier user
    tools tool_choice response_format parallel_tool_calls functions function_call modalities""".split()  # noqa: SIM905


def test_null_is_absence_and_unknown_fields_are_ignored(server: Server) -> None:
    nulls: dict[str, Any] = dict.fromkeys(NULLABLE)
    assert server.chat("hi", **nulls).content == server.chat("hi", unheard_of={"a": 1}).content
    hints: dict[str, Any] = {
        "store": False,
        "metadata": {"a": "b"},
        "prompt_cache_key": "k",
        "service_tier": "auto",
        "user": "u",
    }
    assert server.chat("hi", response_format={"type": "text"}, **hints).status == 200


BODIES = [b"", b"{", b"[1]", b"\xff{}", b"\xef\xbb\xbf{}", NAN, b'{"a":"\\ud83d"}', b'{"a":1e999}', b"[" * 5000]


@pytest.mark.parametrize("body", BODIES)
def test_bad_bodies(server: Server, body: bytes) -> None:
    reply = server.post("/v1/chat/completions", body)
    assert (reply.status, reply.error["code"]) == (400, None)


def test_body_limit(make_server: type[Server]) -> None:
    assert make_server(body_limit=50).chat("hi").status == 413


def test_content_types(server: Server) -> None:
    body = {"model": "tiny-reference", "messages": [{"role": "user", "content": "hi"}]}
    for good in ("application/json", "Application/JSON; charset=UTF-8"):
        assert server.post("/v1/chat/completions", body, content_type=good).status == 200
    assert server.post("/v1/chat/completions", body, content_type="text/plain").status == 415


def test_roles_and_parts(server: Server) -> None:
    parts = [{"type": "text", "text": "Say: a"}, {"type": "text", "text": "b"}]
    assert server.chat([{"role": "user", "content": parts}]).content == "ab"
    one = server.chat([{"role": "user", "content": parts[:1]}]).json["usage"]["prompt_tokens"]
    assert one == server.chat("Say: a").json["usage"]["prompt_tokens"]
    odd = [{"role": "assistant", "content": "x", "reasoning_content": "y", "refusal": None, "audio": None}]
    odd += [{"role": "system", "content": ""}, {"role": "user", "content": "hi", "name": "ann"}] * 2
    assert server.chat(odd).status == 200


def test_context_overflow(make_server: type[Server]) -> None:
    server = make_server(context_tokens=50)
    assert server.stream("word " * 60).error["code"] == "context_length_exceeded"
    assert server.chat("hi", max_tokens=50).error["code"] == "context_length_exceeded"
    assert server.chat("tell me a story").finish == "length"


def test_api_key(make_server: type[Server]) -> None:
    server = make_server(api_key="secret")
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic secret"}, {"authorization": "é"}):
        reply = server.post("/v1/chat/completions", b"{", **headers)
        assert (reply.status, reply.error["code"]) == (401, "invalid_api_key")
        assert reply.headers["www-authenticate"] == "Bearer"
    assert server.get("/v1/models", authorization="bearer secret").status == 200
    assert server.get("/v1/models").status == 401 and server.get("/health").status == 200


def test_faults_take_hold_on_their_layer(server: Server) -> None:
    reply = server.chat("hi", fault="done.not-last", stream=True)
    assert reply.events[0] == "data: [DONE]" and reply.events.count("data: [DONE]") == 1
    both = "done.not-last+http.no-request-id+chunk.choices-null"
    reply = server.chat("hi", fault=both, stream=True, stream_options={"include_usage": True})
    assert "x-request-id" not in reply.headers and reply.events[0] == "data: [DONE]"
    assert json.loads(reply.events[-1][6:])["choices"] is None
    assert "x-request-id" not in server.get("/fault/http.no-request-id/v1/models").headers
    assert server.chat("hi", fault="done.not-last").status == 200


def test_unknown_fault_lists_close_names(server: Server) -> None:
    reply = server.get("/fault/done.not-lost/v1/models")
    assert reply.status == 404 and "done.not-last" in reply.error["message"]


def test_registry_refuses_duplicates_and_mislabelled_faults() -> None:
    known = faults.load()
    assert known["done.not-last"].summary == "[DONE] comes first, content after it."
    for name, breaks in (("done.not-last", {"x"}), ("legal.thing", {"x"}), ("thing", set())):
        with pytest.raises(ValueError):
            faults.fault(name, layer=Layer.SSE, breaks=breaks)(lambda value, ctx: value)


@pytest.mark.parametrize("layer", Layer)
def test_every_layer_calls_its_faults(server: Server, layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Context] = []

    def look(value: Any, ctx: Context) -> Any:
        seen.append(ctx)
        return value

    spy = faults.Fault("spy", layer, frozenset({"x"}), "s", (), "", look)
    monkeypatch.setattr(faults, "parse", lambda names: (spy,))
    server.chat("hi", fault="spy", stream=layer is not Layer.MESSAGE)
    assert len(seen) == 1 and seen[0].http.target == "/v1/chat/completions"
    assert (seen[0].chat is None) == (layer is Layer.REQUEST)


def test_faults_compose_in_layer_order() -> None:
    late, early = (replace(faults.load()[n]) for n in ("http.no-request-id", "chunk.choices-null"))
    assert [f.name for f in Hooks.of([late, early]).faults] == [early.name, late.name]
    assert DONE_FRAME.data == b"data: [DONE]\n\n"


def test_clock_ids_and_order_of_calls_are_pure(make_server: type[Server]) -> None:
    one, two = make_server(), make_server()
    request = HttpRequest("GET", "/v1/models")
    assert one.send(request).raw == two.send(request).raw
    assert one.stream("tell me a story").raw == two.stream("tell me a story").raw
