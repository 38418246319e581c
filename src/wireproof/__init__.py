"""wireproof proves, byte by byte, whether a server keeps the OpenAI wire contract."""

from pathlib import Path as _Path

__version__ = "0.1.0"

# In a checkout the five top-level folders lie beside src/, in a wheel inside this package.
_root = _Path(__file__).resolve().parents[2]
if (_root / "suites").is_dir() and (_root / "pyproject.toml").is_file():
    __path__.append(str(_root))
