"""Where the list of analyses is.

What counts, stores and serves finds the analyses here when it first needs them, so that it
depends on none of them; the package names the list before any of its modules is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_list: list[str] = []


def list_at(module: str) -> None:
    """Name the module of the list."""
    _list[:] = [module]


def listed(name: str) -> Any:
    """An attribute of that module."""
    return getattr(import_module(*_list), name)
