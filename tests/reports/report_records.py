"""Run records written by hand: two failures, a warning, and one of everything else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from wireproof.stored.run_record import RunRecord, validate, verdict_json
from wireproof.verdict import Status, Verdict, Violation
from wireproof.wire.transcript import Capture, Ending, Read, Request, Transcript, to_json

HOSTILE = (
    "<script>alert('x')</script>\"><img src=x onerror=alert(1)> \u202eoverride \x1b[31mred [bold]m[/] | `tick` @team"
)

_REQUEST: dict[str, Any] = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "What is the weather in Paris and in 東京? It's for a trip."}],
    "stream": True,
    "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}],
    "tool_choice": "required",
}

RULES: tuple[dict[str, Any], ...] = (
    {
        "id": "done.marker.once-and-last",
        "level": "MUST",
        "aliases": ["DONE-003"],
        "requirement": "[DONE] occurs exactly once and is the last event.",
        "why": "Clients stop reading at the first one: what follows is lost, and without it they wait until the "
        "socket closes.",
        "source": "openapi",
        "ref": "CreateChatCompletionRequest.stream",
        "link": "https://github.com/openai/openai-openapi/blob/main/openapi.yaml",
        "faults": ["done.missing", "done.not-last", "done.twice"],
        "clients": [
            {"client": "openai-python", "reaction": "drops what follows without a word", "case": "done_early"},
            {"client": "LangChain", "reaction": "usage is None", "case": "done_early"},
        ],
    },
    {
        "id": "tools.fragment.index-present",
        "level": "MUST",
        "aliases": ["TOOL-014"],
        "requirement": "Every fragment of a streamed tool call has an integer `index`.",
        "why": "Fragments of parallel calls are told apart by their index alone; without it arguments of two calls "
        "run together.",
        "source": "client:openai-python",
        "ref": "lib/streaming/chat",
        "link": "",
        "faults": ["tools.index-missing"],
        "clients": [
            {"client": "openai-python .stream()", "reaction": "TypeError: list indices must be integers, not NoneType"}
        ],
    },
    {
        "id": "chunk.finish.delta-empty",
        "level": "SHOULD",
        "aliases": ["CHUNK-021"],
        "requirement": "The chunk that carries finish_reason has an empty delta.",
        "why": "Some clients read the finish reason and skip the content of the same chunk.",
        "source": "openai-observed",
        "ref": "",
        "link": "javascript:alert(1)",
        "faults": ["finish.with-content"],
    },
    {"id": "chunk.id.constant", "level": "MUST", "requirement": "All chunks of a stream have the same id."},
    {"id": "chunk.created.integer", "level": "MUST", "requirement": "`created` is an integer.", "faults": ["x.float"]},
    {"id": "http.type.event-stream", "level": "MUST", "requirement": "A stream has the type text/event-stream."},
    {"id": "usage.stream.last", "level": "MUST", "requirement": "The usage chunk is the last one before [DONE]."},
    {"id": "tools.parallel.distinct-index", "level": "MUST", "requirement": "Parallel calls have distinct indexes."},
    {"id": "logprobs.top.sorted", "level": "SHOULD", "requirement": "top_logprobs are sorted, likeliest first."},
    {"id": "audio.delta.base64", "level": "MAY", "requirement": "Audio deltas are base64."},
    {"id": "http.reset.clean", "level": "MUST", "requirement": "A connection is not reset in mid-answer."},
    {
        "id": "sampling.cache.isolated",
        "level": "MUST",
        "requirement": "One tenant's prompt cache is never read for another tenant.",
        "checked": False,
        "reason": "a cache hit cannot be seen from outside without the engine's metrics",
    },
)


def sse(*payloads: object) -> list[bytes]:
    """Each payload as the bytes of an event; text and bytes as they are."""
    out = []
    for p in payloads:
        data = p if isinstance(p, bytes) else (p if isinstance(p, str) else json.dumps(p)).encode()
        out.append(b"data: " + data + b"\n\n")
    return out


def chunk(**delta: object) -> dict[str, Any]:
    """A chunk of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]}


def transcript(
    name: str, scenario: str, parts: Sequence[bytes], request: Mapping[str, Any] | None = None
) -> Transcript:
    """A stream whose parts arrive a while after each other."""
    body = json.dumps(request or _REQUEST, ensure_ascii=False).encode()
    headers = (("Authorization", "Bearer [removed]"), ("Content-Type", "application/json"))
    reads = [Read(0.183 + 0.0412 * number, part) for number, part in enumerate(parts)]
    return Transcript(
        id=name,
        scenario=scenario,
        request=Request("POST", "http://127.0.0.1:8000/v1/chat/completions", headers, body),
        reads=tuple(reads),
        ending=Ending.COMPLETE,
        capture=Capture.BODY,
        status=200,
        headers=(("content-type", "text/event-stream; charset=utf-8"), ("server", "uvicorn")),
    )


def _span(parts: Sequence[bytes], needle: bytes) -> tuple[int, int]:
    start = b"".join(parts).index(needle)
    return start, start + len(needle)


_DONE = sse(
    chunk(role="assistant", content="Bon"), chunk(content="jour 🌍"), "[DONE]", chunk(content=" encore"), "[DONE]"
)
_CALL = {"function": {"name": "get_weather", "arguments": '{"city": "東京"}'}, "id": "call_1"}
_TOOLS = sse(chunk(role="assistant"), chunk(tool_calls=[_CALL]), "[DONE]")
_FINISH = sse({**chunk(), "choices": [{"index": 0, "delta": {"content": "!"}, "finish_reason": "stop"}]}, "[DONE]")


def verdicts(fixed: Sequence[str] = ()) -> list[Verdict]:
    """One verdict at least for every rule; the `fixed` rules pass."""
    tool_span = _span(_TOOLS, json.dumps([_CALL]).encode())
    done_span = _span(_DONE, sse(chunk(content=" encore"))[0])
    done = Violation("nothing after [DONE]", '{"id": "chatcmpl-1", …} after it', "t1", done_span)
    tool = Violation("an integer `index` in every fragment", "a fragment without `index`", "t2", tool_span)
    finish = Violation("an empty delta", '{"content": "!"}', "t3", _span(_FINISH, b'{"content": "!"}'))
    found = [
        Verdict("done.marker.once-and-last", "chat-stream", Status.FAIL, (done,)),
        Verdict("done.marker.once-and-last", "stream-usage", Status.PASS),
        Verdict("tools.fragment.index-present", "tool-stream", Status.FAIL, (tool,), attempts=5, failed=1),
        Verdict("tools.fragment.index-present", "tool-stream-parallel", Status.FAIL, (tool,)),
        Verdict("chunk.finish.delta-empty", "chat-stream", Status.FAIL, (finish,)),
        Verdict("chunk.id.constant", "chat-stream", Status.PASS),
        Verdict("chunk.created.integer", "chat-stream", Status.PASS),
        Verdict("http.type.event-stream", "chat-stream", Status.PASS),
        Verdict("usage.stream.last", "stream-usage", Status.PASS),
        Verdict(
            "tools.parallel.distinct-index", "tools", Status.INCONCLUSIVE, reason="the model made one call, not two"
        ),
        Verdict(
            "logprobs.top.sorted", "logprobs", Status.UNSUPPORTED, reason="logprobs: 400 logprobs are not supported"
        ),
        Verdict("audio.delta.base64", "", Status.NOT_APPLICABLE, reason="nothing was recorded that shows it"),
        Verdict("http.reset.clean", "reset", Status.ERROR, reason="no connection: refused"),
        Verdict("sampling.cache.isolated", "", Status.NOT_APPLICABLE, reason="cannot be seen"),
    ]
    return [Verdict(v.rule, v.case, Status.PASS) if v.rule in fixed else v for v in found]


def record(
    version: str = "0.11.2",
    *,
    engine: str = "vllm",
    order: str = "pep440",
    fixed: Sequence[str] = (),
    crashed: bool = False,
    transcripts: Sequence[Transcript] = (),
    more: Sequence[Verdict] = (),
    rules: Sequence[Mapping[str, Any]] = (),
    target: str = "http://127.0.0.1:8000/v1",
) -> RunRecord:
    """A plausible record; every line of it keeps the schema."""
    filled = [
        {"kind": "rule", "area": r["id"].split(".")[0], "why": "", "source": "contract", "ref": "", "link": "",
         "checked": True, "aliases": [], "reason": "", "faults": [], "clients": [], **r}
        for r in (*RULES, *rules)
    ]  # fmt: skip
    header = {
        "kind": "run",
        "schema": "wireproof/run/1",
        "tool": "0.1.0",
        "rules": "sha256:" + "0" * 64,
        "started": "2026-11-29T17:12:09Z",
        "target": {"url": target},
        "engine": {"name": engine, "version": version, "order": order},
        "model": {"id": "tiny-llama-1M"},
        "selection": {"mode": "live", "level": "must", "suites": []},
    }
    cost = {"requests": 212, "prompt_tokens": 18340, "completion_tokens": 5121, "seconds": 41.7}
    end = {"kind": "end", "counts": {}, "cost": cost, "exit": 1}
    found = [*verdicts(fixed), *more]
    kept = [
        transcript("t1", "chat-stream", _DONE),
        transcript("t2", "tool-stream", _TOOLS),
        transcript("t3", "chat-stream", _FINISH),
        *transcripts,
    ]
    levels = {r["id"]: r["level"] for r in filled}
    lines: list[Mapping[str, Any]] = [header, end, *filled, *(verdict_json(v, levels[v.rule]) for v in found)]
    for line in lines:
        validate(line)
    for t in kept:
        validate({"kind": "transcript", **to_json(t)})
    return RunRecord(
        header, {r["id"]: r for r in filled}, {t.id: t for t in kept}, tuple(found), None if crashed else end
    )


def hostile() -> RunRecord:
    """A record in which everything that a target can choose is an attack."""
    garbage = (HOSTILE.encode() + b"\xff\xfe\x00\x9b2J") * 10_000
    name = f"evil.{HOSTILE}.rule"
    t = transcript("evil", HOSTILE, sse(garbage), {"messages": [{"role": "assistant", "content": HOSTILE}]})
    violation = Violation(HOSTILE, "\ud800" + HOSTILE * 2000, "evil", (10, 900_000))
    rule = {"id": name, "level": "MUST", "requirement": HOSTILE, "why": HOSTILE, "link": 'https://x" onclick="alert(1)'}
    more = [
        Verdict(name, HOSTILE, Status.FAIL, (violation,)),
        Verdict("chunk.id.constant", HOSTILE, Status.INCONCLUSIVE, reason=HOSTILE * 500),
    ]
    made = record(HOSTILE, engine=HOSTILE, target=HOSTILE, transcripts=[t], more=more, rules=[rule], crashed=True)
    model = {**made.header, "model": {"id": HOSTILE}, "label": HOSTILE}
    others = tuple(v for v in made.verdicts if v.rule != "chunk.id.constant" or v.reason)
    return RunRecord(model, made.rules, made.transcripts, others, made.end)
