"""The stand-in for packages that SGLang imports and does not need on a CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from wireproof.resources import folder

SCRIPT = """
import importlib.util
import torchvision.transforms.v2.functional as functional
from sgl_kernel import anything
from torchvision.transforms import InterpolationMode
class Own(functional.Base): pass
assert InterpolationMode.BICUBIC == "BICUBIC"
assert importlib.util.find_spec("torchvision") is None and importlib.util.find_spec("json") is not None
for call in (anything, Own):
    try:
        call(1)
    except RuntimeError as error:
        print(error)
"""


def run(script: str, *more: Path) -> str:
    path = os.pathsep.join(str(p) for p in (folder("runners") / "engines" / "sglang_cpu", *more))
    command = [sys.executable, "-c", script]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=30).stdout


def test_imports_work_and_calls_say_what_is_missing() -> None:
    assert run(SCRIPT).splitlines() == [
        "sgl_kernel.anything is a placeholder: the package is not installed",
        "__main__.Own is a placeholder: the package is not installed",
    ]


def test_what_is_installed_is_used(tmp_path: Path) -> None:
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("real = 1\n", encoding="utf-8")
    script = "import torchvision, importlib.util as u; print(torchvision.real, u.find_spec('torchvision') is not None)"
    assert run(script, tmp_path) == "1 True\n"
