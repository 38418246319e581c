"""What the installed plugin costs a pytest run that has no target: CPU seconds with it and without, side by side.

python bench/bench_plugin_start.py
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 15


def cost(folder: Path, *words: str) -> float:
    """CPU seconds of one pytest run of one test."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    source = str(Path(__file__).resolve().parents[1] / "src")
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": source}
    subprocess.run([sys.executable, "-m", "pytest", "-q", *words], cwd=folder, env=env, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.joinpath("test_one.py").write_text("def test_one(): pass\n", encoding="utf-8")
        cost(folder, "-p", "wireproof.plugin")  # compiles
        pairs = [(cost(folder), cost(folder, "-p", "wireproof.plugin")) for _ in range(ROUNDS)]
    without, with_it = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(
        f"pytest alone {1000 * without:.0f} ms, with the plugin {1000 * with_it:.0f} ms: "
        f"{1000 * (with_it - without):.0f} ms more, ratio {with_it / without:.2f} (medians of {ROUNDS})"
    )


if __name__ == "__main__":
    main()
