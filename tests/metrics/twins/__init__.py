"""The slow textbook twin of every metric: one file, one function, one name."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

Twin: TypeAlias = Callable[..., Any]


@cache
def twins() -> Mapping[str, Twin]:
    """Every twin by the name of its metric."""
    names = [entry.name for entry in pkgutil.iter_modules(__path__)]
    modules = {name: import_module(f"{__name__}.{name}") for name in names}
    return {
        name: getattr(module, name, None) or getattr(module, f"{name}_")
        for name, module in modules.items()
    }
