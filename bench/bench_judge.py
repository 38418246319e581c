"""How fast a recorded stream is judged, against how fast openai-python parses the same bytes.

    python bench/bench_judge.py

Judging is everything from raw reads to verdicts: HTTP framing, SSE, JSON, assembling, and every rule that applies.
openai-python only yields chunks. A ratio of 1 means that judging costs as much as reading the stream once.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wireproof.read.endpoints import exchange_of

try:
    import wireproof
except ModuleNotFoundError:  # a checkout that is not installed
    sys.path.insert(0, str(Path(__file__).parent.parent / "src"))
    import wireproof

from wireproof.judge import rules
from wireproof.judge.judge import Judge, judge_all
from wireproof.read.recording import Recording, Take
from wireproof.verdict import Status
from wireproof.wire.transcript import Ending, Read, Request, Transcript

HEAD = (
    b"HTTP/1.1 200 OK\r\nDate: Mon, 24 Nov 2025 16:00:00 GMT\r\nContent-Type: text/event-stream\r\n"
    b"Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\nX-Request-Id: req_1\r\nTransfer-Encoding: chunked\r\n\r\n"
)
MESSAGES = [{"role": "user", "content": "Tell me a story."}]


def events(count: int) -> list[bytes]:
    """A stream of so many chunks, as engines write it, and [DONE]."""
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1764000000, "model": "m"}

    def chunk(delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**base, "choices": [choice], "usage": None}

    words = count - 3
    values = [chunk({"role": "assistant", "content": ""})]
    values += [chunk({"content": f" word{number}"}) for number in range(words)]
    values.append(chunk({}, "stop"))
    usage = {"prompt_tokens": 7, "completion_tokens": words, "total_tokens": 7 + words}
    values.append({**base, "choices": [], "usage": usage})
    return [b"data: " + json.dumps(v).encode() + b"\n\n" for v in values] + [b"data: [DONE]\n\n"]


def transcript(found: list[bytes]) -> Transcript:
    """The stream as it is recorded: one read and one HTTP chunk for each event."""
    asked = {"model": "m", "messages": MESSAGES, "stream": True, "stream_options": {"include_usage": True}}
    reads = [Read(0.0, HEAD)]
    reads += [Read(0.01 * n, b"%x\r\n%s\r\n" % (len(e), e)) for n, e in enumerate(found, 1)]
    reads.append(Read(0.01 * len(found), b"0\r\n\r\n"))
    request = Request("POST", "http://h/v1/chat/completions", (), json.dumps(asked).encode())
    return Transcript("t1", "stream-usage", request, tuple(reads), Ending.COMPLETE, ended_at=reads[-1].at)


def recorded(t: Transcript) -> Recording:
    """A fresh recording: nothing that an earlier round decoded is in it."""
    return Recording((Take(t.scenario, 0, (exchange_of(t),)),))


def openai_reader(body: bytes) -> Callable[[], int] | None:
    """Reads the body through openai-python's `create(stream=True)`; None when it is not installed."""
    try:
        import httpx2
        from openai import OpenAI
    except ImportError:
        return None

    def answer(_: Any) -> Any:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    client = OpenAI(
        api_key="not-a-key",
        base_url="http://h/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(answer)),
    )
    return lambda: sum(1 for _ in client.chat.completions.create(model="m", messages=MESSAGES, stream=True))


def best(work: Callable[[], object], rounds: int) -> float:
    """The shortest of some rounds (seconds)."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def hottest(t: Transcript, count: int) -> list[tuple[float, str]]:
    """The rules that take longest once everything is decoded (seconds, id)."""
    spent: defaultdict[str, float] = defaultdict(float)
    every = list(rules.load().values())
    made = recorded(t)
    judge_all(every, made)
    judge = Judge(made)
    for r in every:
        start = time.perf_counter()
        judge.judge(r)
        spent[r.id] += time.perf_counter() - start
    return sorted(((seconds, rule) for rule, seconds in spent.items()), reverse=True)[:count]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, nargs="+", default=[50, 500, 5000], metavar="N")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--hot", type=int, default=0, metavar="N", help="also print the N slowest rules")
    options = parser.parse_args()
    every = list(rules.load().values())
    print(f"wireproof {wireproof.__version__}, {len(every)} rules, best of {options.rounds} rounds")
    for count in options.chunks:
        found = events(count)
        t, read = transcript(found), openai_reader(b"".join(found))
        shown = judge_all(every, recorded(t))
        applied = sum(1 for vs in shown.values() if any(v.status in (Status.PASS, Status.FAIL) for v in vs))
        ours = best(lambda: judge_all(every, recorded(t)), options.rounds)  # noqa: B023 (called at once)
        line = (
            f"{count:>6} chunks: {applied} rules judged in {ours * 1e3:8.1f} ms, {ours / count * 1e6:5.1f} us per chunk"
        )
        if read is not None:
            read()
            theirs = best(read, options.rounds)
            line += f"; openai-python {theirs / count * 1e6:5.1f} us; speed ratio {theirs / ours:.2f}"
        print(line)
        for seconds, rule in hottest(t, options.hot) if options.hot else ():
            print(f"         {seconds / count * 1e6:6.2f} us per chunk  {rule}")
    if openai_reader(b"") is None:
        print("openai is not installed here, so there is no ratio: run `sh bench/with_openai.sh`")


if __name__ == "__main__":
    main()
