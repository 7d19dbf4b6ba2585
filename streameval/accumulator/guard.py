"""Who may use the counts of an accumulator: one thread alone, or several that wait for each other.

A guard refuses a table that is read or changed in the middle of a change, by a signal handler or
after an exception half-way.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import update_wrapper
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from streameval.events.errors import HalfCountedError

P = ParamSpec("P")
T = TypeVar("T")

_RESTORE: Final = "call reset(), or load a saved state"
_BETWEEN: Final = "an interrupt, a signal handler or another thread came in between"
_SHARE: Final = f"share it as a SharedAccumulator, only set a flag in a handler, or {_RESTORE}"

ALONE: Final[AbstractContextManager[Any]] = nullcontext()
"""The lock of what only one thread uses."""

_FREE: Final = frozenset({"ids", "version", "update", "merge", "share"})
"""Public members that take the lock themselves, or read a single number."""


class Lockable(Protocol):
    """An object with a lock that its callers hold."""

    lock: AbstractContextManager[Any]


L = TypeVar("L", bound=Lockable)


def locked(method: Callable[Concatenate[L, P], T]) -> Callable[Concatenate[L, P], T]:
    """The method, called with the lock of its object held."""

    def holding(self: L, /, *args: P.args, **named: P.kwargs) -> T:
        with self.lock:
            return method(self, *args, **named)

    update_wrapper(holding, method)
    return holding


def exclusive(cls: type[L]) -> type[L]:
    """The class, whose public methods and properties hold the lock of their object."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_") or name in _FREE:
            continue
        if isinstance(member, property) and member.fget is not None:
            setattr(cls, name, property(locked(member.fget), doc=member.__doc__))
        elif callable(member):
            setattr(cls, name, locked(member))
    return cls


def between() -> HalfCountedError:
    """The error for a table that is read or changed in the middle of a change."""
    return HalfCountedError(_BETWEEN, _SHARE)


class Guard:
    """Refuses a table while it changes, and after an exception has stopped a change half-way."""

    __slots__ = ("_cause", "_changing")

    def __init__(self) -> None:
        self._changing, self._cause = False, ""

    def __enter__(self) -> None:
        if self._cause:
            raise HalfCountedError(f"it stopped with {self._cause}", _RESTORE)
        if self._changing:
            raise between()
        self._changing = True

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._changing, self._cause = False, "" if error is None else f"{error!r:.200}"
