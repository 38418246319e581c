"""Exchanges written by hand, for the tests of the rules.

    x = stream(chunk({"role": "assistant"}), chunk({"content": "hi"}), chunk({}, finish="stop"))
    assert verdict("done.marker.exact", x) is Status.PASS
    assert broken(x) == set()

Both kinds of answer are full HTTP/1.1 responses (a stream is chunked, one event in each chunk),
so that every rule can be judged on them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wireproof.judge import rules
from wireproof.judge.judge import failures, judge_all
from wireproof.read.chat import Chat
from wireproof.read.endpoints import exchange_of
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Recording, Take
from wireproof.verdict import Status, Verdict, fold
from wireproof.wire.transcript import Capture, Ending, Read, Request, Tags, Transcript

ID, CREATED, MODEL = "chatcmpl-7f3a", 1764000000, "m"

# What every client sends, unless a test says otherwise. A plain answer and a stream are twins.
REQUEST: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Say hello."}],
    "max_tokens": 24,
    "temperature": 0,
}

_HEADERS = {"Date": "Mon, 24 Nov 2025 16:00:00 GMT", "X-Request-Id": "req_7f3a"}
_STREAM_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
    "Transfer-Encoding": "chunked",
}


def chunk(delta: Any, index: int = 0, finish: str | None = None, **extra: Any) -> dict[str, Any]:
    """A chunk with one choice; `extra` replaces or adds members at the top level."""
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
    return envelope([choice], **extra)


def envelope(choices: Any, **extra: Any) -> dict[str, Any]:
    """A chunk around any `choices`."""
    return {
        "id": ID,
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": MODEL,
        "choices": choices,
        **extra,
    }


def usage_chunk(prompt: int = 7, completion: int = 2, **extra: Any) -> dict[str, Any]:
    """The usage chunk at the end of a stream that asked for it."""
    return envelope([], usage=usage(prompt, completion), **extra)


def usage(prompt: int = 7, completion: int = 2) -> dict[str, int]:
    """A usage object whose sum is right."""
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def text(*pieces: str, finish: str = "stop", index: int = 0) -> list[dict[str, Any]]:
    """The chunks of one choice: the role, each piece, the finish."""
    role = chunk({"role": "assistant", "content": ""}, index)
    return [role, *(chunk({"content": piece}, index) for piece in pieces), chunk({}, index, finish)]


def completion(message: Any = "hello", finish: str = "stop", **extra: Any) -> dict[str, Any]:
    """A plain body; `message` is its text or a whole message object."""
    if isinstance(message, str):
        message = {"role": "assistant", "content": message, "refusal": None}
    return {
        "id": "chatcmpl-91cc",
        "object": "chat.completion",
        "created": CREATED,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": usage(),
        **extra,
    }


def event(data: str | dict[str, Any] | bytes) -> bytes:
    """One event: text becomes its data, an object becomes JSON, bytes stay as they are."""
    if isinstance(data, bytes):
        return data
    payload = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return b"data: " + payload.encode("utf-8") + b"\n\n"


def stream(
    *data: str | dict[str, Any] | bytes,
    request: Mapping[str, Any] | bytes | None = None,
    headers: Mapping[str, str | None] | None = None,
    done: bool = True,
    raw: bytes | None = None,
    times: Sequence[float] | None = None,
    scenario: str = "stream-greedy",
    **more: Any,
) -> Chat:
    """The answer to a streamed request.

    `request` changes members of the request (bytes replace it), `headers` add or (None) remove response
    headers, `raw` is the whole body instead of `data`, `times` gives the second at which each item (and
    [DONE], and the end of the body) came. `more` goes to `exchange`.
    """
    pieces = [raw] if raw is not None else [event(d) for d in data]
    if done and raw is None:
        pieces.append(event("[DONE]"))
    framed = [b"%x\r\n%s\r\n" % (len(p), p) for p in pieces if p]
    asked = request if isinstance(request, bytes) else {"stream": True, **(request or {})}
    return chat(
        exchange(
            [*framed, b"0\r\n\r\n"],
            request=asked,
            headers={**_HEADERS, **_STREAM_HEADERS, **(headers or {})},
            times=times,
            scenario=scenario,
            **more,
        )
    )


def plain(
    body: dict[str, Any] | list[Any] | str | bytes | None = None,
    request: Mapping[str, Any] | bytes | None = None,
    status: int = 200,
    headers: Mapping[str, str | None] | None = None,
    scenario: str = "plain-greedy",
    **more: Any,
) -> Exchange:
    """The answer to a plain request of any endpoint; a `body` of None is a completion that says hello."""
    value = completion() if body is None else body
    data = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode("utf-8")
    own = {"Content-Type": "application/json", "Content-Length": str(len(data))}
    return exchange(
        [data],
        request=request,
        status=status,
        headers={**_HEADERS, **own, **(headers or {})},
        scenario=scenario,
        **more,
    )


def chat(x: Exchange) -> Chat:
    """An exchange as one of /chat/completions, which it must be."""
    assert isinstance(x, Chat), x.request.url
    return x


def exchange(
    pieces: Sequence[bytes],
    *,
    request: Mapping[str, Any] | bytes | None = None,
    status: int = 200,
    headers: Mapping[str, str | None],
    scenario: str,
    times: Sequence[float] | None = None,
    step: str = "",
    sample: int = 0,
    ending: Ending = Ending.COMPLETE,
    tags: Tags | Mapping[str, str] | None = None,
    sent: Mapping[str, str] | None = None,
    method: str = "POST",
    path: str = "/v1/chat/completions",
) -> Exchange:
    """A whole exchange from the pieces of its (framed) body; `sent` adds request headers."""
    kept = "".join(f"{k}: {v}\r\n" for k, v in headers.items() if v is not None)
    reason = {200: "OK", 400: "Bad Request", 404: "Not Found"}.get(status, "Status")
    head = f"HTTP/1.1 {status} {reason}\r\n{kept}\r\n".encode("latin-1")
    seconds = [times[min(i, len(times) - 1)] if times else 0.0 for i in range(len(pieces))]
    reads = (Read(seconds[0] if seconds else 0.0, head), *(Read(at, p) for at, p in zip(seconds, pieces, strict=True)))
    asked = request if isinstance(request, bytes) else json.dumps({**REQUEST, **(request or {})}).encode("utf-8")
    given = {"Content-Type": "application/json", **(sent or {})}
    return exchange_of(
        Transcript(
            id=f"t-{scenario}{step and '-'}{step}",
            scenario=scenario,
            request=Request(method, f"http://127.0.0.1:8000{path}", tuple(given.items()), asked),
            reads=reads,
            ending=ending,
            capture=Capture.WIRE,
            timed=times is not None,
            ended_at=seconds[-1] if seconds else 0.0,
            step=step,
            sample=sample,
            tags=tags if isinstance(tags, Tags) else Tags.of(tags or {}),
        )
    )


def recorded(*exchanges: Exchange) -> Recording:
    """A recording of these; those of one scenario are its samples, or the steps of one conversation."""
    takes: dict[tuple[str, int], list[Exchange]] = {}
    seen: dict[str, int] = {}
    for x in exchanges:
        number = x.transcript.sample if x.transcript.step else seen.get(x.scenario, 0)
        seen[x.scenario] = number + 1
        takes.setdefault((x.scenario, number), []).append(x)
    return Recording(
        tuple(
            Take(name, sample, tuple(found), conversation=any(x.transcript.step for x in found))
            for (name, sample), found in takes.items()
        )
    )


@functools.cache
def _rules() -> Mapping[str, rules.Rule]:
    return rules.load()


def verdicts(names: Iterable[str], *exchanges: Exchange) -> dict[str, list[Verdict]]:
    """The verdicts of some rules over these exchanges."""
    known = _rules()
    return judge_all([known[name] for name in names], recorded(*exchanges))


def verdict(rule_id: str, *exchanges: Exchange) -> Status:
    """The status of one rule over these exchanges together."""
    return fold(v.status for v in verdicts([rule_id], *exchanges)[rule_id])


def explain(rule_id: str, *exchanges: Exchange) -> str:
    """What the first violation (or the reason) of a rule says: for assertions on the message."""
    for v in verdicts([rule_id], *exchanges)[rule_id]:
        for violation in v.violations:
            return f"expected {violation.expected}, got {violation.got}"
        if v.reason:
            return v.reason
    return ""


def broken(*exchanges: Exchange, areas: Iterable[str] = ()) -> set[str]:
    """Ids of the rules (of some areas, or all) that fail over these exchanges. A check that crashes raises."""
    wanted = frozenset(areas)
    found = verdicts([r.id for r in _rules().values() if not wanted or r.area in wanted], *exchanges)
    crashed = [v for vs in found.values() for v in vs if v.status is Status.ERROR]
    assert not crashed, f"{crashed[0].rule}: {crashed[0].reason}"
    return failures(found)
