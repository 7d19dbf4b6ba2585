"""Guards a table against changes from a signal handler, and after an exception half-way."""

from __future__ import annotations

from typing import Final

from streameval.errors import HalfCountedError

_RESTORE: Final = "call reset(), or load a saved state"
_BETWEEN: Final = "an interrupt, a signal handler or another thread came in between"
_SHARE: Final = f"share it as a SharedAccumulator, only set a flag in a handler, or {_RESTORE}"


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
