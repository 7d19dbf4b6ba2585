"""Whether memory has run out; imports nothing that may be too large to be imported."""

from __future__ import annotations

from mmap import mmap
from typing import Final

_STACK: Final = 8 << 20
"""Bytes that a new thread reserves."""
_LIBRARY: Final = 256 << 20
"""Bytes that the largest library reserves, with those that it needs."""

REMEDY: Final = "allow more, or count less at once: see docs/explanation/sizing.md"


def is_out_of_memory(error: BaseException | None) -> bool:
    """True if an error is a MemoryError, was raised while one was handled, or looks otherwise.

    A thread that gets no stack is a RuntimeError, a library that cannot be mapped an ImportError,
    and an import that ends between two allocations a SystemError. So whether there is room for one
    is tried, while the frames of the error still hold what they held. A module that is not there
    needs no room.
    """
    room = _LIBRARY if isinstance(error, ImportError | SystemError) else 2 * _STACK
    is_absent = isinstance(error, ModuleNotFoundError)
    while error is not None and not isinstance(error, MemoryError):
        error = error.__context__
    if error is not None:
        return True
    try:
        mmap(-1, room).close()
    except OSError:
        return not is_absent
    return False
