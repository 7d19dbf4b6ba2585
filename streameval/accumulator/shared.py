"""Accumulators that several threads use at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import update_wrapper
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar, cast

from streameval.accumulator import Accumulator
from streameval.errors import NotShownError
from streameval.statistics.intervals import Audience

P = ParamSpec("P")
T = TypeVar("T")

_SHARING: Final = threading.Lock()


def _alone(
    method: Callable[Concatenate[Accumulator, P], T],
) -> Callable[Concatenate[Accumulator, P], T]:
    """The method under the accumulator's lock."""

    def locked(self: Any, /, *args: P.args, **named: P.kwargs) -> T:
        with self._lock:
            return method(self, *args, **named)

    update_wrapper(locked, method)
    return locked


class SharedAccumulator(Accumulator):
    """An Accumulator with a lock: several threads may count, read, merge and copy at once.

    Only one thread at a time may use a plain `Accumulator`. `copy` gives one without a lock.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> clicks = SharedAccumulator("hit_rate@1")
        >>> with ThreadPoolExecutor(4) as threads:
        ...     done = list(threads.map(lambda _: clicks.update(["a"], ["a"]), range(1000)))
        >>> clicks.read("hit_rate@1").count
        1000
    """

    _lock: threading.RLock

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """With its lock, unpickled ones included."""
        made = super().__new__(cls)
        made._lock = threading.RLock()
        return made

    update = _alone(Accumulator.update)
    update_many = _alone(Accumulator.update_many)
    read = _alone(Accumulator.read)
    interval = _alone(Accumulator.interval)
    groups = _alone(Accumulator.groups)
    compute = _alone(Accumulator.compute)
    advice = _alone(Accumulator.advice)
    reset = _alone(Accumulator.reset)
    copy = _alone(Accumulator.copy)
    state_dict = _alone(Accumulator.state_dict)
    load_state_dict = _alone(Accumulator.load_state_dict)
    adopt = _alone(Accumulator.adopt)

    @property
    def lists(self) -> int:
        """Number of events counted."""
        with self._lock:
            return super().lists

    @property
    def audience(self) -> Audience | None:
        """As `Accumulator.audience`."""
        with self._lock:
            return super().audience

    def merge(self, other: Accumulator) -> None:
        """Add the counts of another accumulator, which other threads may use if it is shared."""
        # Never two locks at once: two that merge each other would wait for ever.
        theirs = other.copy() if isinstance(other, SharedAccumulator) else other
        with self._lock:
            super().merge(theirs)

    def dump(self) -> Iterator[bytes]:
        """The counts as bytes, made at once: other threads may count meanwhile."""
        with self._lock:
            return iter([*super().dump()])


def share(accumulator: Accumulator) -> SharedAccumulator:
    """Make an accumulator safe for threads: the same object, with a lock.

    No other thread may be counting in it while this runs.

    Raises:
        NotShownError: it is an instance of a subclass of yours.
    """
    if not isinstance(accumulator, SharedAccumulator):
        if type(accumulator) is not Accumulator:
            found = f"one is of the class {type(accumulator).__name__}"
            raise NotShownError(found, "give an Accumulator or a SharedAccumulator")
        with _SHARING:
            # First the lock: a thread that finds the class must find it too.
            vars(accumulator).setdefault("_lock", threading.RLock())
            accumulator.__class__ = SharedAccumulator
    return cast("SharedAccumulator", accumulator)
