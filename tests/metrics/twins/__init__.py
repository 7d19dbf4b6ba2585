"""Twins: a slow textbook implementation of every metric, by family."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import FunctionType

from tests.metrics.preparation import Twin


@cache
def twins() -> Mapping[str, Twin]:
    """Every twin by the name of its metric."""
    modules = [
        import_module(f"{__name__}.{module_info.name}")
        for module_info in pkgutil.iter_modules(__path__)
    ]
    return {
        name.rstrip("_"): member
        for module in modules
        for name, member in vars(module).items()
        if isinstance(member, FunctionType)
        and member.__module__ == module.__name__
        and not name.startswith("_")
    }
