"""Few label values stay and the others fold, without regard to the order in which they came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from streameval.aggregation.cap import Cap, Labels

FoldingState: TypeAlias = tuple[list[tuple[int | None, list[str]]], tuple[int | None, list[Labels]]]
"""What a folding remembers: edge and values kept of each dimension, and of the combinations."""

OTHER: Final = "__other__"
"""Label value of everything that was folded."""

MISSING: Final = "__missing__"
"""Label value of events without one."""


class FoldingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How many label values are kept apart.

    Attributes:
        cap: of each dimension, at least 0; values named and `__missing__` not counted.
        named: for each dimension, values that never fold.
        max_series: combinations of values; those of named values alone not counted.
    """

    cap: int = 50
    named: tuple[frozenset[str], ...] = ()
    max_series: int = 1_000


class Admitted(NamedTuple):
    """What seeing a combination has changed.

    Attributes:
        key: where it belongs.
        moves: where combinations belong now that had a place of their own before.
        stale: whether any combination seen before may have another place now.
    """

    key: Labels
    moves: Mapping[Labels, Labels]
    stale: bool


class Folding:
    """Which label values and combinations are kept apart, and where the others go.

    Per dimension this is a function of the set of values seen. Which combinations fold above
    `max_series` may depend on the order of the log, where a combination is there only until one
    of its values folds; never on how the log was cut into batches.

    Attributes:
        values: of each dimension the values kept, but those that never fold.
        series: the combinations kept, likewise.

    Args:
        options: how many are kept.
        dimensions: how many values a combination has.
    """

    def __init__(self, options: FoldingOptions, dimensions: int) -> None:
        named = options.named or (frozenset(),) * dimensions
        self._options = options
        self._fixed = [values | {MISSING, OTHER} for values in named]
        self._all = (OTHER,) * dimensions
        self.values: list[Cap[str]] = [Cap(options.cap) for _ in range(dimensions)]
        self.series: Cap[Labels] = Cap(options.max_series)

    @property
    def edges(self) -> tuple[int | None, ...]:
        """While they stay the same, `settled` does for all that was admitted."""
        return (*(cap.edge for cap in self.values), self.series.edge)

    @property
    def version(self) -> tuple[tuple[int | None, int], ...]:
        """While it stays the same, so does the content."""
        # Each only grows until its edge moves, but where an edge before it moved.
        sizes = [(cap.edge, len(cap.kept)) for cap in self.values]
        return (*sizes, (self.series.edge, len(self.series.kept)))

    def admit(self, raw: Labels) -> Admitted:
        """See a combination; what it folds stays folded."""
        moves: dict[Labels, Labels] = {}
        stale = False
        for place, value in enumerate(raw):
            if value not in self._fixed[place] and value not in self.values[place].kept:
                for gone in self.values[place].add(value):
                    stale = stale or gone != value
                    self._leave(place, gone, moves)
        key = self._placed(self._by_values(raw), moves)
        return Admitted(key, moves, stale or bool(moves))

    def settled(self, key: Labels) -> Labels:
        """Where a combination belongs that was admitted here or in one that was merged."""
        found = self._by_values(key)
        kept = found in self.series.kept or self._never_folds(found)
        return found if kept else self._all

    def merged(self, others: Iterable[Folding]) -> Folding:
        """What keeps apart what all of them do; the order of merging does not matter."""
        sources = (self, *others)
        together = Folding(self._options, len(self._all))
        for source in sources:
            for mine, theirs in zip(together.values, source.values, strict=True):
                mine.merge(theirs)
        for source in sources:
            series: Cap[Labels] = Cap(self._options.max_series)
            settled = map(together._by_values, source.series.kept)
            apart = (key for key in settled if not together._never_folds(key))
            series.load(source.series.edge, apart)
            together.series.merge(series)
        return together

    def state(self) -> list[Any]:
        """Plain integers and strings; equal content gives equal state."""
        return [[cap.state() for cap in self.values], self.series.state()]

    def load(self, state: FoldingState) -> None:
        """Take the place of the content by what `state` gave.

        Raises:
            ValueError: it is of another number of dimensions.
        """
        values, (edge, combinations) = state
        for cap, (own, kept) in zip(self.values, values, strict=True):
            cap.load(own, kept)
        self.series.load(edge, combinations)

    def _by_values(self, raw: Labels) -> Labels:
        each = zip(raw, self._fixed, self.values, strict=True)
        return tuple(v if v in fixed or v in cap.kept else OTHER for v, fixed, cap in each)

    def _never_folds(self, key: Labels) -> bool:
        if key == self._all:
            return True
        return all(v != OTHER and v in fixed for v, fixed in zip(key, self._fixed, strict=True))

    def _placed(self, key: Labels, moves: dict[Labels, Labels]) -> Labels:
        if key in self.series.kept or self._never_folds(key):
            return key
        for gone in self.series.add(key):
            if gone != key:
                _move(moves, gone, self._all)
        return key if key in self.series.kept else self._all

    def _leave(self, place: int, value: str, moves: dict[Labels, Labels]) -> None:
        for key in sorted(key for key in self.series.kept if key[place] == value):
            del self.series.kept[key]
            folded = (*key[:place], OTHER, *key[place + 1 :])
            _move(moves, key, self._placed(folded, moves))


def _move(moves: dict[Labels, Labels], old: Labels, new: Labels) -> None:
    for source, target in moves.items():
        if target == old:
            moves[source] = new
    moves[old] = new
