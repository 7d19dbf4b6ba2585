"""Imports all that the program may import, in the server that forks its processes."""

from __future__ import annotations

import gc
import importlib
import pkgutil

import streameval

for _module in pkgutil.walk_packages(streameval.__path__, "streameval."):
    if not _module.name.endswith("__main__"):
        importlib.import_module(_module.name)
# Typer imports pydantic only as it reads a command line.
importlib.import_module("typer._adapters")
gc.freeze()
