"""The loader of a compiled kernel; it needs nothing but Python, as memory checkers run it, too."""

from __future__ import annotations

from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType


def load_kernel(path: str) -> ModuleType:
    """The compiled module in a file, whatever the file is called."""
    loader = ExtensionFileLoader("_match", path)
    spec = spec_from_loader("_match", loader)
    if spec is None:
        raise ImportError(path)
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
