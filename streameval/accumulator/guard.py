"""Refuses a table that is read or changed in the middle of a change, or after an exception in one.

A lock keeps other threads out. It lets the same thread in again: a signal handler, which may run
between any two instructions of a change.
"""

from __future__ import annotations

from typing import Final

from streameval.events.errors import HalfCountedError

_RESTORE: Final = "call reset(), or load a saved state"
_BETWEEN: Final = "an interrupt or a signal handler came in between"
_AVOID: Final = f"only set a flag in a handler, or {_RESTORE}"


def between() -> HalfCountedError:
    """The error for a table that is read or changed in the middle of a change."""
    return HalfCountedError(_BETWEEN, _AVOID)


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
