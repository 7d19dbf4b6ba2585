"""When Python looks for garbage: never for long while records come."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from streameval.events.records import Assignment, Owner, Partition

_SHORT: Final = 10.0
"""Seconds between looks at what has been made since the last one; milliseconds each."""

_LONG: Final = 600.0
"""Seconds between looks at everything, hundreds of milliseconds with a day of panes; and only when
there is nothing to count."""

_NEVER: Final = 1_000_000_000
"""Collections of the middle generation, after which Python would look at everything by itself."""


@contextmanager
def set_aside() -> Iterator[None]:
    """Around making very much that will live: it is not looked at meanwhile, nor afterwards."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


class Uncollected:
    """An owner that restores partitions without garbage collection.

    Args:
        owner: of the partitions.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.revoked = owner.revoked
        self.lost = owner.lost

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """See `Owner.assigned`."""
        with set_aside():
            return self._owner.assigned(assignments)


class Garbage:
    """Keeps full collections out of the way of counting, for as long as it is entered.

    State is made of very many objects that live for hours and are freed by their reference counts.
    To look for rings among all of them stops everything for a third of a second, and finds none.
    So what has lived through a look is set aside (`gc.freeze`): it is freed as before, but not
    looked at again until the source idles. Young objects are collected as always.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._thresholds = gc.get_threshold()
        self._short = self._long = clock()

    def __enter__(self) -> Self:
        """Set aside all that was made at the start."""
        self._thresholds = gc.get_threshold()
        young, middle, _ = self._thresholds
        gc.set_threshold(young, middle, _NEVER)
        self._look(everything=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Python looks by itself again."""
        gc.unfreeze()
        gc.set_threshold(*self._thresholds)

    def turn(self, *, idle: bool) -> None:
        """Look, if it is due.

        Args:
            idle: whether nothing came just now.
        """
        now = self._clock()
        if idle and now - self._long >= _LONG:
            self._look(everything=True)
        elif now - self._short >= _SHORT:
            self._look(everything=False)

    def _look(self, *, everything: bool) -> None:
        if everything:
            gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._short = self._clock()
        if everything:
            self._long = self._short
