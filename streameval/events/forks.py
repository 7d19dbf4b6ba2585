"""Locks that are free in a forked child, whatever other threads did at the fork."""

from __future__ import annotations

import os
from functools import cache
from threading import RLock
from typing import Any, Final
from weakref import WeakSet

_REGISTRY: Final = RLock()
_LOCKS: Final[WeakSet[Any]] = WeakSet()
_acquired: Final[list[Any]] = []

_PATIENCE: Final = 0.1
"""Seconds to wait for a lock while holding others: its holder may be waiting for one of them."""


def forkable_lock() -> Any:
    """A reentrant lock; a fork waits for it, so that the child never sees half a change."""
    lock = RLock()
    with _REGISTRY:
        _register_hooks()
        _LOCKS.add(lock)
    return lock


@cache
def _register_hooks() -> None:
    """Make every fork wait for the locks."""
    # Hooks before a fork run in reverse order. Those of logging are registered first, so that the
    # fork waits for our locks before logging's: a thread may log while it holds one of ours.
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
    _acquired.append(_REGISTRY)
    for lock in list(_LOCKS):
        if not lock.acquire(timeout=_PATIENCE):
            return lock
        _acquired.append(lock)
    return None


def _release_all() -> None:
    while _acquired:
        _acquired.pop().release()
