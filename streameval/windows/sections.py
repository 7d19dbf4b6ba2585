"""State in sections: only changed sections are written again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

_VERSIONS: Final = itertools.count(1)


def next_version() -> int:
    """A number that nothing in this process has had yet; it grows."""
    return next(_VERSIONS)


class Section(NamedTuple):
    """One piece of a state.

    Attributes:
        name: unique in the state: "labels/past", "labels/60/28333333", ...
        version: while it stays the same, so does the content.
        content: makes an independent copy, in milliseconds, and returns what yields its
            canonical bytes in small pieces, on any thread.
        closed: whether only events that come later than allowed can change it.
    """

    name: str
    version: int
    content: Callable[[], Callable[[], Iterator[bytes]]]
    closed: bool = False
