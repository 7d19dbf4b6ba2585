"""Locks that a child process finds free, whatever other threads did when it was forked."""

from __future__ import annotations

import os
from functools import cache
from threading import RLock
from typing import Any, Final
from weakref import WeakSet

_REGISTRY: Final = RLock()
_LOCKS: Final[WeakSet[Any]] = WeakSet()
_held: Final[list[Any]] = []

_PATIENCE: Final = 0.1
"""Seconds to wait for one lock while others are held: its holder may wait for one of those."""


def forkable_lock() -> Any:
    """A reentrant lock; a thread that forks waits for it, so that the child finds whole data."""
    lock = RLock()
    with _REGISTRY:
        _register_hooks()
        _LOCKS.add(lock)
    return lock


@cache
def _register_hooks() -> None:
    """Have a fork wait for the locks."""
    # At a fork hooks run in reverse order: those of logging are registered before, so that a lock
    # here is waited for first, whose thread may log while it holds it.
    import logging  # noqa: F401, PLC0415  takes long, and a program that counts nothing has no lock

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_acquire_all, after_in_parent=_release_all, after_in_child=_release_all
        )


def _acquire_all() -> None:
    while (busy := _first_busy()) is not None:
        _release_all()
        with busy:
            pass


def _first_busy() -> Any:
    """Acquire all locks; returns the first that another thread holds for long, or None."""
    _REGISTRY.acquire()
    _held.append(_REGISTRY)
    for lock in list(_LOCKS):
        if not lock.acquire(timeout=_PATIENCE):
            return lock
        _held.append(lock)
    return None


def _release_all() -> None:
    while _held:
        _held.pop().release()
