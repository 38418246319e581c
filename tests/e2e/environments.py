"""Virtual environments without network: what runs these tests, linked in, but not wireproof itself."""

from __future__ import annotations

import sysconfig
import venv
from pathlib import Path


def make(folder: Path) -> Path:
    """An environment with our dependencies only; gives its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    packages = next(folder.glob("lib/python*/site-packages"))
    for source in {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}:
        for entry in source.iterdir():
            ours = "wireproof" in entry.name.lower() or entry.suffix == ".pth" or entry.name.startswith("__editable__")
            if not ours and not (packages / entry.name).exists():
                (packages / entry.name).symlink_to(entry)
    return python
