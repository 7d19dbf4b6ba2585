"""Reasons not to load a saved state: damage, another version, or other settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec

from streameval.events.errors import (
    DamagedStateError,
    StateVersionError,
    StreamevalError,
    UnlikeStateError,
)


def unlike(
    what: str, left: object, right: object, kind: type[UnlikeStateError] = UnlikeStateError
) -> UnlikeStateError:
    """The error for states that differ in a setting, or in the entries of a mapping or list.

    Example:
        >>> str(unlike("settings", {"k": 5, "depth": 9}, {"k": 10, "depth": 9}))[:50]
        'different settings: here k = 5; there k = 10. Only'
    """
    return kind(
        f"different {what}: here {_only_in(left, right)}; there {_only_in(right, left)}. Only "
        "states made with the same settings can be merged or loaded.",
        what=what,
        left=left,
        right=right,
    )


def _only_in(first: object, other: object) -> str:
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        extras = [f"{name} = {first[name]}" for name in first if first[name] != other.get(name)]
    elif isinstance(first, list | tuple) and isinstance(other, list | tuple):
        extras = [str(entry) for entry in first if entry not in other]
    else:
        return repr(first)
    return ", ".join(extras) or "nothing more"


def unknown_version(
    what: str, found: object, known: int, writer: str = "the release that wrote it"
) -> StateVersionError:
    """The error for a state of a version that this release does not read."""
    return StateVersionError(
        f"{what}: state version {found!r} is not known; this release reads version {known}. Use "
        f"{writer}, or count its events again.",
        what=what,
        found=found,
        known=known,
        writer=writer,
    )


def damaged(what: str, problem: str) -> DamagedStateError:
    """The error for a saved state with content that no release wrote."""
    return DamagedStateError(
        f"{what}: the saved state is damaged ({problem}). Nothing was loaded; use another copy.",
        what=what,
        problem=problem,
    )


@contextmanager
def damage_as_error(what: str) -> Iterator[None]:
    """The only guard of saved data: any exception from content that no release wrote is damage.

    A digest says that bytes are as written, not by whom: a forged state has the right ones, and
    its values may be of any kind, size and depth.

    Args:
        what: the name of what is read.

    Raises:
        DamagedStateError: reading it failed.

    Example:
        >>> with damage_as_error("meta"):
        ...     {}["clock"]
        Traceback (most recent call last):
            ...
        streameval.events.errors.DamagedStateError: meta: the saved state is damaged (KeyError: ...
    """
    try:
        yield
    except StreamevalError:
        raise
    except _DAMAGE as error:
        raise damaged(what, f"{type(error).__name__}: {error}") from error


_DAMAGE: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
)
