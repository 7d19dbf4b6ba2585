"""Refuses a table that is read or changed in the middle of a change, or after an exception in one.

A lock keeps other threads out. It lets the same thread in again: a signal handler, which may run
between any two instructions of a change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from streameval.events.errors import HalfCountedError

_WHERE: Final = "counts are half-way through a change"
_RESTORE: Final = "call reset(), or load a saved state"
_BETWEEN: Final = "an interrupt or a signal handler came in between"
_AVOID: Final = "only set a flag in a handler"


_CHANGES: Final = frozenset({"table", "merge", "_take", "_count_blocks", "_check_and_add"})
"""Methods that enter a guard."""


def interrupted() -> HalfCountedError:
    """The error for a table that is read or changed in the middle of a change."""
    return HalfCountedError(_WHERE, _BETWEEN, _AVOID)


class Guard:
    """Refuses a table while it changes, and after an exception has stopped a change half-way.

    `stopped`: gives what to call after such an exception, or None.
    """

    __slots__ = ("_cause", "_changing", "_stopped")

    def __init__(self, stopped: Callable[[], Callable[[], None] | None]) -> None:
        self._changing, self._cause = False, ""
        self._stopped = stopped

    def check_sound(self) -> None:
        """Refuse a change after an exception."""
        if self._cause:
            raise HalfCountedError(_WHERE, f"it stopped with {self._cause}", _RESTORE)

    def check_idle(self, owner: object) -> None:
        """Refuse to replace the counts in the middle of a change, which would go on in them.

        An exception just before or after a change may leave it marked, with nothing to go on.

        `owner`: whose counts they are.
        """
        if not self._changing:
            return
        from inspect import currentframe  # noqa: PLC0415  slow, and needed in a handler only

        frame = currentframe()
        while frame is not None:
            if frame.f_code.co_name in _CHANGES and frame.f_locals.get("self") is owner:
                raise interrupted()
            frame = frame.f_back

    def __enter__(self) -> None:
        self.check_sound()
        if self._changing:
            raise interrupted()
        self._changing = True

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._changing = False
        if error is not None:
            self._cause = f"{error!r:.200}"
            if (stopped := self._stopped()) is not None:
                stopped()
