"""What the tap costs for each socket read.

    python bench/bench_tap.py

First over a stream in memory (the tap alone), then over a loopback socket (the tap beside what it watches).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpcore2

try:
    from wireproof.record.tap import Log, TapBackend, TapStream
except ModuleNotFoundError:  # a checkout that is not installed
    sys.path.insert(0, str(Path(__file__).parent.parent / "src"))
    from wireproof.record.tap import Log, TapBackend, TapStream

EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": "word"}}]}\n\n'


class Memory(httpcore2.AsyncNetworkStream):
    """A stream that always has the same bytes ready."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """One event."""
        return EVENT


async def _seconds(stream: httpcore2.AsyncNetworkStream, reads: int) -> float:
    start = time.perf_counter()
    for _ in range(reads):
        await stream.read(65536)
    return time.perf_counter() - start


async def in_memory(reads: int) -> tuple[float, float]:
    """Seconds for each read, without the tap and with it."""
    bare = await _seconds(Memory(), reads)
    tapped = await _seconds(TapStream(Memory(), Log(byte_limit=reads * len(EVENT) + 1)), reads)
    return bare / reads, tapped / reads


async def _drained(backend: httpcore2.AsyncNetworkBackend, port: int) -> tuple[float, int]:
    stream = await backend.connect_tcp("127.0.0.1", port)
    reads, start = 0, time.perf_counter()
    while await stream.read(len(EVENT)):
        reads += 1
    spent = time.perf_counter() - start
    await stream.aclose()
    return spent, reads


async def over_loopback(events: int) -> tuple[float, float]:
    """Seconds for each read of a real socket, without the tap and with it."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _number in range(events):
            writer.write(EVENT)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        spent, reads = await _drained(httpcore2.AnyIOBackend(), port)
        tapped, tapped_reads = await _drained(TapBackend(Log()), port)
    return spent / reads, tapped / tapped_reads


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reads", type=int, default=20_000, metavar="N")
    parser.add_argument("--rounds", type=int, default=7, metavar="N")
    options = parser.parse_args()
    kinds: dict[str, Callable[[int], Awaitable[tuple[float, float]]]] = {
        "memory": in_memory,
        "loopback": over_loopback,
    }

    async def rounds(measure: Callable[[int], Awaitable[tuple[float, float]]]) -> tuple[float, float]:
        found = [await measure(options.reads) for _ in range(options.rounds)]
        return min(bare for bare, _ in found), min(tapped for _, tapped in found)

    for name, measure in kinds.items():
        bare, tapped = asyncio.run(rounds(measure))
        print(
            f"{name:>9}: {bare * 1e6:6.2f} us per read, with the tap {tapped * 1e6:6.2f} us:"
            f" {(tapped - bare) * 1e6:5.2f} us more, {tapped / bare:.2f} times"
        )


if __name__ == "__main__":
    main()
