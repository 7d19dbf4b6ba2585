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

LOADED: Final = ("this program", "the saved state")
"""The sides of a state that is loaded; see `unlike`."""
MERGED: Final = ("the first", "the second")


def unlike(
    what: str,
    left: object,
    right: object,
    kind: type[UnlikeStateError] = UnlikeStateError,
    sides: tuple[str, str] = MERGED,
) -> UnlikeStateError:
    """The error for states that differ in a setting, or in the entries of a mapping or list.

    `sides`: what has `left` and `right`, in words.

    Example:
        >>> left, right = {"k": 5, "depth": 9, "at": None}, {"k": 10, "depth": 9, "at": "UTC"}
        >>> str(unlike("settings", left, right, sides=LOADED)).partition(".")[0]
        'different settings: this program has k = 5, no at; the saved state has k = 10, at = UTC'
    """
    of_left, of_right = _only_in(left, right), _only_in(right, left)
    return kind(
        f"different {what}: {sides[0]} has {of_left}; {sides[1]} has {of_right}. Only states made "
        "with the same settings can be merged or loaded.",
        what=what,
        left=left,
        right=right,
    )


def _only_in(first: object, other: object) -> str:
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        first, other = dict(first), dict(other)
        extras = [
            f"no {name}" if first.get(name) is None else f"{name} = {first[name]}"
            for name in first | other
            if first.get(name) != other.get(name)
        ]
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
