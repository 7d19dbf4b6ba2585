"""Values of formulas that need the whole event, one event at a time."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from streameval.errors import StateVersionError, UnlikeStateError
from streameval.events import Batch, Event
from streameval.statistics.distributions import Distribution

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

    __slots__ = ("_distributions", "_formulas", "_waiting", "lists")

    def __init__(self, formulas: Mapping[str, Formula]) -> None:
        self.lists = 0
        self._formulas = dict(formulas)
        self._distributions = {name: Distribution() for name in formulas}
        self._waiting: dict[str, array[float]] = {name: array("d") for name in formulas}

    def update_many(self, batch: Batch) -> None:
        """Add the values of many events."""
        self.lists += len(batch)
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

    def merge(self, other: Values) -> None:
        """Add what another one counted.

        Raises:
            UnlikeStateError: its formulas differ.
        """
        if [*other._formulas] != [*self._formulas]:
            raise UnlikeStateError("values", [*self._formulas], [*other._formulas])
        self.lists += other.lists
        for name in self._formulas:
            self.distribution(name).merge(other.distribution(name))

    def state_dict(self) -> dict[str, Any]:
        """Plain integers and strings; equal content gives equal state."""
        kept = {name: self.distribution(name).state_dict() for name in self._formulas}
        return {"version": VERSION, "lists": self.lists, "distributions": kept}

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
        self.lists = state["lists"]
        for name, distribution in self._distributions.items():
            self._waiting[name] = array("d")
            distribution.load_state_dict(state["distributions"][name])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and self.state_dict() == other.state_dict()

    __hash__ = None  # type: ignore[assignment]  # changes as it counts

    def _fold(self, name: str) -> None:
        waiting = np.array(self._waiting[name])
        if waiting.size:
            self._distributions[name].add(waiting, np.ones(waiting.size, np.int64))
            self._waiting[name] = array("d")
