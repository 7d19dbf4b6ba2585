"""The registry of analyses: the module that lists them, imported at first use.

Modules that count, store and serve look the analyses up here, so that they import none of them.
The package registers the module before any of its modules is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_modules: list[str] = []


def register_analyses(module: str) -> None:
    """Register the module that lists the analyses."""
    _modules[:] = [module]


def look_up(name: str) -> Any:
    """An attribute of the registered module."""
    return getattr(import_module(*_modules), name)
