"""Sections of a state: a checkpoint writes only those that changed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

_VERSIONS: Final = itertools.count(1)


def next_version() -> int:
    """A number above all earlier ones of this process."""
    return next(_VERSIONS)


class Section(NamedTuple):
    """One piece of a state.

    Attributes:
        name: unique in the state: "labels/past", "labels/60/28333333", ...
        version: changes whenever the content does.
        content: copies it within milliseconds; returns a function that yields its canonical
            bytes in small pieces, on any thread.
        closed: whether only late events can still change it.
    """

    name: str
    version: int
    content: Callable[[], Callable[[], Iterator[bytes]]]
    closed: bool = False
