"""Thread-safe accumulators."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import update_wrapper
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar, cast

from streameval.accumulator import Accumulator
from streameval.accumulator.table import Table
from streameval.errors import NotShownError
from streameval.statistics.intervals import Audience

P = ParamSpec("P")
T = TypeVar("T")

_SHARING: Final = threading.Lock()


def _locked(
    method: Callable[Concatenate[Accumulator, P], T],
) -> Callable[Concatenate[Accumulator, P], T]:
    """The method, called with the accumulator's lock held."""

    def locked(self: Any, /, *args: P.args, **named: P.kwargs) -> T:
        with self._lock:
            return method(self, *args, **named)

    update_wrapper(locked, method)
    return locked


class SharedAccumulator(Accumulator):
    """An Accumulator with a lock, which several threads may use at once.

    Only one thread at a time may use a plain `Accumulator`. `copy` gives a plain one.

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
        """Add the lock here rather than in __init__, which unpickling does not call."""
        made = super().__new__(cls)
        made._lock = threading.RLock()
        return made

    update = _locked(Accumulator.update)
    update_many = _locked(Accumulator.update_many)
    read = _locked(Accumulator.read)
    interval = _locked(Accumulator.interval)
    groups = _locked(Accumulator.groups)
    compute = _locked(Accumulator.compute)
    advice = _locked(Accumulator.advice)
    reset = _locked(Accumulator.reset)
    copy = _locked(Accumulator.copy)
    state_dict = _locked(Accumulator.state_dict)
    load_state_dict = _locked(Accumulator.load_state_dict)
    adopt = _locked(Accumulator.adopt)
    needs = _locked(Accumulator.needs)

    @property
    def table(self) -> Table:
        """As `Accumulator.table`; hold no reference to it while other threads count."""
        with self._lock:
            return super().table

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
        """Add the counts of another accumulator; other threads may use it if it is shared."""
        # Hold only one lock at a time: two threads that merge crosswise would deadlock.
        theirs = other.copy() if isinstance(other, SharedAccumulator) else other
        with self._lock:
            super().merge(theirs)

    def dump(self) -> Iterator[bytes]:
        """The counts as bytes, encoded at once, so that other threads may count meanwhile."""
        with self._lock:
            return iter([*super().dump()])


def share(accumulator: Accumulator) -> SharedAccumulator:
    """Make an accumulator thread-safe in place.

    No other thread may use it during the call.

    Raises:
        NotShownError: it is an instance of another subclass.
    """
    if not isinstance(accumulator, SharedAccumulator):
        if type(accumulator) is not Accumulator:
            problem = f"one is of the class {type(accumulator).__name__}"
            raise NotShownError(problem, "give an Accumulator or a SharedAccumulator")
        with _SHARING:
            # The lock first: a thread that sees the new class must also find the lock.
            vars(accumulator).setdefault("_lock", threading.RLock())
            accumulator.__class__ = SharedAccumulator
    return cast("SharedAccumulator", accumulator)
