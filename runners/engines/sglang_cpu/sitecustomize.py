"""Lets SGLang's server start on a CPU where its compiled kernels and torchvision cannot be had.

Python imports this file by itself when its folder is on PYTHONPATH, in the server and in all its child
processes. SGLang imports `sgl_kernel` (built for GPUs, or for CPUs with AMX) and `torchvision` at the top of many
modules, and calls neither for a text model with the torch_native attention and the pytorch sampler. So an import gets
a module of placeholders here, and whoever does call one is told what is missing.
"""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

ABSENT = ("sgl_kernel", "torchvision")


class _Placeholder(type):
    """A class, since SGLang derives from some of these; its members are their names (InterpolationMode.BICUBIC)."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{cls.__module__}.{cls.__name__} is a placeholder: the package is not installed")


class _Stand(Loader, MetaPathFinder):
    """Finds and makes the absent modules, whatever is below them."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if fullname.partition(".")[0] in ABSENT:
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def exec_module(self, module: ModuleType) -> None:
        def member(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return _Placeholder(name, (), {"__module__": module.__name__})

        vars(module).update(__version__="0.0.0", __getattr__=member)


# Last in line: where a package is installed after all, it is used.
sys.meta_path.append(_Stand())

_installed = importlib.util.find_spec


def _find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
    """transformers asks so whether torchvision can be used; the true answer is no."""
    spec = _installed(name, package)
    return None if spec is not None and isinstance(spec.loader, _Stand) else spec


importlib.util.find_spec = _find_spec
