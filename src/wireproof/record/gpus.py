"""What the GPUs of this machine are doing: NVIDIA's own tool is asked, where it is installed and answers.

An engine that works for a client who left shows in no answer, but in the GPU's use. The figure is the share of the
last sampling period (1/6 s to 1 s) in which a kernel ran (nvidia-smi's manual: utilization.gpu).
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time

from wireproof.wire.transcript import Tags

_COMMAND = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")
# Without persistence mode the tool has to wake each GPU up first (seconds); no machine has more GPUs than this.
_PATIENCE, _MOST = 10.0, 64


class Gpus:
    """Asks for the use of all GPUs. Where that does not work it is not tried again."""

    def __init__(self, command: tuple[str, ...] = _COMMAND) -> None:
        self._command: tuple[str, ...] | None = command if shutil.which(command[0]) else None

    async def look(self) -> Tags:
        """The use of each GPU (percent), and how long it took to learn, as tags; none of them without a GPU."""
        if self._command is None:
            return Tags()
        began = time.perf_counter()
        used = parse(await _output(self._command))
        if used is None:
            self._command = None
            return Tags()
        return Tags(gpu=" ".join(f"{u:g}" for u in used), gpu_seconds=f"{time.perf_counter() - began:.3f}")


def parse(text: str) -> tuple[float, ...] | None:
    """Percent for each GPU; None when the tool shows none. (A GPU in MIG mode has "[N/A]", which counts as idle.)"""
    lines = [line.strip() for line in text.splitlines() if line.strip()][:_MOST]
    numbers = [float(line) if line.isdecimal() and len(line) < 4 else None for line in lines]
    if all(n is None for n in numbers):
        return None
    return tuple(n or 0.0 for n in numbers)


async def _output(command: tuple[str, ...]) -> str:
    """What a command prints; empty when it fails, or takes too long."""
    try:
        child = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    try:
        async with asyncio.timeout(_PATIENCE):
            out, _ = await child.communicate()
    except TimeoutError:
        return ""
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    return out.decode("ascii", "replace") if child.returncode == 0 else ""
