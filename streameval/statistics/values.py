"""Values of formulas that need the whole event, one event at a time."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np

from streameval.errors import StateVersionError, UnlikeStateError
from streameval.events import Batch, Event
from streameval.statistics.distributions import Distribution
from streameval.statistics.packing import Count, array_of, packed

VERSION = 1
_MOST_WAITING = 8_192

Formula: TypeAlias = Callable[[Event], float | Sequence[float] | None]
"""The value of an event, several values, or None where it is left out; NaN where it has none."""


class Values:
    """The distribution of each formula's values.

    Args:
        formulas: by name; the names are the identity, unlike ones do not merge.

    Example:
        >>> values = Values({"length": lambda event: float(len(event.recommendations))})
        >>> values.update_many(Batch(recommendations=[["a", "b"]], interactions=[[]]))
        >>> values.distribution("length").total
        2.0
    """

    __slots__ = ("_distributions", "_formulas", "_lists", "_waiting")

    def __init__(self, formulas: Mapping[str, Formula]) -> None:
        self._formulas = dict(formulas)
        self._lists = dict.fromkeys(formulas, 0)
        self._distributions = {name: Distribution() for name in formulas}
        self._waiting: dict[str, array[float]] = {name: array("d") for name in formulas}

    def update_many(self, batch: Batch) -> None:
        """Add the values of many events."""
        for name in self._lists:
            self._lists[name] += len(batch)
        for event in batch.events():
            for name, formula in self._formulas.items():
                found = formula(event)
                if isinstance(found, (int, float)):
                    self._waiting[name].append(found)
                elif found is not None:
                    self._waiting[name].extend(found)
        for name, waiting in self._waiting.items():
            if len(waiting) >= _MOST_WAITING:
                self._fold(name)

    def distribution(self, name: str) -> Distribution:
        """All values of a formula so far."""
        self._fold(name)
        return self._distributions[name]

    def lists(self, name: str) -> int:
        """How many events a formula has seen."""
        return self._lists[name]

    def merge(self, other: Values) -> None:
        """Add what another one counted.

        Raises:
            UnlikeStateError: its formulas differ.
        """
        if [*other._formulas] != [*self._formulas]:
            raise UnlikeStateError("values", [*self._formulas], [*other._formulas])
        for name in self._formulas:
            self._lists[name] += other._lists[name]
            self.distribution(name).merge(other.distribution(name))

    def state_dict(self) -> dict[str, Any]:
        """Plain integers and strings; equal content gives equal state."""
        kept = {name: self.distribution(name).state_dict() for name in self._formulas}
        return {"version": VERSION, "lists": self._seen, "distributions": kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the place of the content by what `state_dict` gave.

        Raises:
            StateVersionError: the version is not known.
            UnlikeStateError: its formulas differ.
        """
        if state["version"] != VERSION:
            raise StateVersionError("values", state["version"], VERSION)
        if [*state["distributions"]] != [*self._formulas]:
            raise UnlikeStateError("values", [*self._formulas], [*state["distributions"]])
        seen = state["lists"]
        for name, distribution in self._distributions.items():
            self._lists[name] = seen if isinstance(seen, int) else int(seen[name])
            self._waiting[name] = array("d")
            distribution.load_state_dict(state["distributions"][name])

    def copy(self) -> Values:
        """An independent one with the same content."""
        twin = Values(self._formulas)
        for name in self._formulas:
            twin._lists[name] = self._lists[name]
            twin._waiting[name] = self._waiting[name][:]
            twin._distributions[name] = self._distributions[name].copy()
        return twin

    def dump(self, name: str) -> Iterator[bytes]:
        """One formula's content as msgpack, in pieces; equal content gives equal bytes."""
        kept = self.distribution(name)
        yield array_of(2) + packed(self._lists[name])
        yield from kept.dump()

    def adopt(self, name: str, saved: bytes | msgspec.Raw) -> None:
        """Take the place of one formula's content by what `dump` gave.

        Raises:
            UnlikeStateError: its distribution has another cap.
            ValueError: it is not what that gave.
            msgspec.DecodeError: it is no msgpack of that kind.
        """
        lists, kept = msgspec.msgpack.decode(saved, type=tuple[Count, msgspec.Raw])
        self._distributions[name].adopt(kept)
        self._lists[name], self._waiting[name] = lists, array("d")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and self.state_dict() == other.state_dict()

    __hash__ = None  # type: ignore[assignment]  # changes as it counts

    @property
    def _seen(self) -> int | dict[str, int]:
        """By formula only where some have seen fewer events, because they started later."""
        distinct = set(self._lists.values())
        return dict(self._lists) if len(distinct) > 1 else max(distinct, default=0)

    def _fold(self, name: str) -> None:
        waiting = np.array(self._waiting[name])
        if waiting.size:
            self._distributions[name].add(waiting, np.ones(waiting.size, np.int64))
            self._waiting[name] = array("d")
