"""The slice of each event: found in a dictionary, admitted where it is new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streameval.aggregation.cap import Labels
from streameval.aggregation.folding import Folding

_REMEMBERED: Final = 4_096
"""Combinations of raw values whose slice is remembered; beyond it all are looked up again."""


class Assigned(NamedTuple):
    """Where the events of a batch belong.

    Attributes:
        codes: for each event the place of its slice in `keys`.
        keys: slices, distinct.
        moves: slices that folded meanwhile -> where their content belongs now.
    """

    codes: NDArray[np.int64]
    keys: Sequence[Labels]
    moves: dict[Labels, Labels]


class Keys:
    """Assigns events to slices, in the order of the log.

    Args:
        folding: which slices there are.
        columns: places of the own dimensions among those of an event.
    """

    __slots__ = ("_codes", "_folding", "_keys", "_pick", "_places", "_single")

    def __init__(self, folding: Folding, columns: Sequence[int]) -> None:
        self._folding = folding
        self._pick = itemgetter(*columns) if columns else None
        self._single = len(columns) == 1
        self._codes: dict[Any, int] = {}
        self._keys: list[Labels] = []
        self._places: dict[Labels, int] = {}

    def assign(self, dimensions: Sequence[tuple[str, ...]] | None, events: int) -> Assigned:
        """The slice of each of a number of events; new combinations are admitted.

        Args:
            dimensions: values of all dimensions of each event; None where none are configured.
            events: how many.
        """
        if self._pick is None or dimensions is None:
            return Assigned(np.zeros(events, np.int64), [()], {})
        moves: dict[Labels, Labels] = {}
        raws = list(map(self._pick, dimensions))
        try:
            codes = np.fromiter(map(self._codes.__getitem__, raws), np.int64, events)
        except KeyError:
            codes = np.array([self._code(raw, moves) for raw in raws], np.int64)
        if moves:
            codes = self._renumbered(codes)
        return Assigned(codes, self._keys, moves)

    def _code(self, raw: Any, moves: dict[Labels, Labels]) -> int:
        found = self._codes.get(raw)
        if found is None:
            found = self._learnt(raw, moves)
        return found

    def _learnt(self, raw: Any, moves: dict[Labels, Labels]) -> int:
        admitted = self._folding.admit((raw,) if self._single else raw)
        if admitted.stale or len(self._codes) >= _REMEMBERED:
            self._codes.clear()
        if admitted.moves:
            self._move(admitted.moves, moves)
        code = self._places.setdefault(admitted.key, len(self._keys))
        if code == len(self._keys):
            self._keys.append(admitted.key)
        self._codes[raw] = code
        return code

    def _move(self, new: Mapping[Labels, Labels], moves: dict[Labels, Labels]) -> None:
        # Events of this batch that have a code already go where their slice goes.
        self._keys = [new.get(key, key) for key in self._keys]
        self._places = {key: code for code, key in enumerate(self._keys)}
        for old, target in moves.items():
            moves[old] = new.get(target, target)
        moves |= new

    def _renumbered(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        distinct = list(dict.fromkeys(self._keys))
        self._places = {key: code for code, key in enumerate(distinct)}
        table = np.array([self._places[key] for key in self._keys], np.int64)
        self._keys = distinct
        self._codes.clear()
        return table[codes]
