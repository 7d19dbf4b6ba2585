"""Distributions of floats: exact up to a cap of distinct values, then in narrow bins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from itertools import chain, compress
from sys import float_info
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast

import msgspec
import numpy as np

from streameval.statistics.arrays import FloatArray, IntArray, among
from streameval.statistics.exact import ONE, limbs, ratio, scaled_sum, squares
from streameval.statistics.relation import Relation, RelationColumns, Shape
from streameval.statistics.statistic import CellCap, Statistic
from streameval.statistics.vocabulary import Items

BITS: Final = 11
"""Bits of the mantissa that the bins of scores and values keep: a relative width of 1/2048."""

_MANTISSA: Final = 52
_FEWEST: Final = 2.0**-32, 2.0**32
"""Smaller and larger magnitudes share a bin, which limits fine bins to some 400,000."""

_EVERY: Final = 2.0**-1022, float_info.max
"""Of coarse bins there are few, so that they reach to the largest float."""

_COARSE: Final = 4


def float_keys(values: FloatArray) -> IntArray:
    """Distinct integers in the order of the floats (finite, shape (n,)).

    Example:
        >>> float_keys(np.array([-1.0, 0.0, 1.0])).tolist()
        [-4607182418800017408, 0, 4607182418800017408]
    """
    bits = (values + 0.0).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def floats_of_keys(keys: IntArray) -> FloatArray:
    """The inverse of `float_keys`."""
    return np.where(keys < 0, np.iinfo(np.int64).min - keys, keys).view(np.float64)


class Bins:
    """Narrow bins of floats, as integers in the order of the values.

    Between 0.5 and 1 the bins are those of 1 - value, so that resolution near 1 equals that near 0.

    `bits`: bits of the mantissa that a bin keeps.

    Example:
        >>> bins = Bins(4)
        >>> bins.middles(bins.keys(np.array([0.0, 1.0, 21_739.0]))).tolist()
        [0.0, 1.0, 22016.0]
    """

    def __init__(self, bits: int) -> None:
        self._shift = _MANTISSA - bits
        self._tiny, self._huge = _EVERY if bits <= _COARSE else _FEWEST
        self._half, self._one = self._coarse(np.array([0.5, 1.0])).tolist()

    def keys(self, values: FloatArray) -> IntArray:
        """The bin of each value."""
        half = self._half
        upper = self._coarse(1.0 - np.clip(values, 0.5, 1.0))
        near_one = 2 * half + 1 - upper
        above = 2 * half + 2 + self._coarse(values) - self._one
        return np.where(
            values < 0.5, self._coarse(values), np.where(values <= 1.0, near_one, above)
        )

    def middles(self, keys: IntArray) -> FloatArray:
        """A value inside each bin."""
        half = self._half
        # The first of these bins holds only 0.5.
        near_one = np.maximum(1.0 - self._middle(2 * half + 1 - keys), 0.5)
        above = self._middle(keys - 2 * half - 2 + self._one)
        inner = np.where(keys <= 2 * half + 1, near_one, above)
        return np.where(keys <= half, self._middle(keys), inner)

    def _coarse(self, values: FloatArray) -> IntArray:
        size = np.clip(np.abs(values), self._tiny, self._huge)
        clamped = np.where(np.abs(values) < self._tiny, 0.0, np.copysign(size, values))
        keys = float_keys(clamped)
        return np.where(keys < 0, -(-keys >> self._shift), keys >> self._shift)

    def _middle(self, keys: IntArray) -> FloatArray:
        midpoint = (np.abs(keys) << self._shift) | (1 << (self._shift - 1))
        return np.where(keys == 0, 0.0, np.copysign(midpoint.view(np.float64), keys))


@cache
def bins_of(bits: int) -> Bins:
    """The bins that keep these bits of the mantissa."""
    return Bins(bits)


CAP = 65_536
BINNED = Shape(keys=1, combine=np.maximum)
"""(cell) -> 1 if its floats are binned; no row otherwise."""


class BinnedFloats(CellCap):
    """Keeps the distinct floats of a cell up to a cap; beyond it, all its floats are binned.

    The content depends only on the multiset of floats. The bounded relation is (cell, key of a
    float or bin) -> counts; the relation `binned` has the shape BINNED.

    `sums`: name of a relation of exact sums, which gets the floats that are replaced by their bins;
    see `Values`.
    """

    additive = False
    """A cell may be binned here and not there."""

    def __init__(
        self,
        relations: Mapping[str, Relation],
        rows: str,
        most: int,
        bits: int = BITS,
        sums: str = "",
    ) -> None:
        super().__init__(relations, rows, "binned", most)
        self._bins, self._sums = bins_of(bits), sums

    def put(self, cells: IntArray, values: FloatArray, counts: Sequence[IntArray]) -> None:
        """Count floats (finite), shape (n,) each."""
        keys, binned = float_keys(values), among(cells, self.marks.cells)
        if binned.any():
            keys[binned] = self._bins.keys(values[binned])
            self._keep_sums(cells[binned], values[binned], counts[0][binned])
        self.rows.add([cells, keys], counts)

    def reduce(self) -> None:
        """Bin the cells with too many distinct floats."""
        cells, counts = np.unique(self.rows.columns[0], return_counts=True)
        exact = ~among(cells, self.marks.cells)
        cells, counts = cells[exact].astype(np.int64), counts[exact]
        self.bin(cells[counts > self._most])
        self.note_largest(min(self._most, int(counts.max(initial=0))))

    def align(self, others: Sequence[Any]) -> Sequence[Any]:
        """Bin the cells that are binned in one of them; the others do not change."""
        if not (self.reduced or any(other.cap.reduced for other in others)):
            return others
        for other in others:
            binned = other.cap.marks.cells
            self.bin(binned[~among(binned, self.marks.cells)])
        binned, alike = self.marks.cells, list(others)
        for at, other in enumerate(others):
            missing = binned[~among(binned, other.cap.marks.cells)]
            if among(missing, other.cap.rows.cells).any():
                alike[at] = other.copy()
                alike[at].cap.bin(missing)
        return alike

    def unite(self, names: Mapping[int, int]) -> None:
        """Bin the cells that get one number with a binned cell."""
        if not self.reduced:
            return
        goals = {names.get(cell, cell) for cell in self.marks.cells.tolist()}
        meeting = [cell for cell in self.rows.cells.tolist() if names.get(cell, cell) in goals]
        cells = np.array(meeting, np.int64)
        self.bin(cells[~among(cells, self.marks.cells)])

    def bin(self, cells: IntArray) -> None:
        """Bin the floats of these cells, which ascend and are not binned yet."""
        if not cells.size:
            return
        row_cells, keys, *counts = self.rows.columns
        selected = among(row_cells, cells)
        keys = keys.astype(np.int64)
        values = floats_of_keys(keys[selected])
        self._keep_sums(row_cells[selected].astype(np.int64), values, counts[0][selected])
        keys[selected] = self._bins.keys(values)
        self.rows.replace([row_cells, keys, *counts])
        self.marks.add([cells], [np.ones_like(cells)])

    def _keep_sums(self, cells: IntArray, values: FloatArray, counts: IntArray) -> None:
        """Add floats to the exact sums, because their bins forget them."""
        for power, moment in ((1, limbs), (2, squares)) if self._sums else ():
            exponents, parts = moment(values, counts.astype(np.int64))
            where = np.tile(cells, exponents.size // max(cells.size, 1))
            keys = [where, np.full_like(where, power), exponents]
            self._relations[self._sums].add(keys, parts)


Quantile: TypeAlias = Literal["lower", "linear"]
_ONE_OR_NONE: Final = frozenset({float, type(None)})
_LISTS, _UNDEFINED, _ABOVE, _BELOW = range(4)


class ValuesOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a statistic of values; only equal options merge.

    Attributes:
        cap: distinct values kept; with more, all are in bins.
        bits: bits of the mantissa of a bin: its relative width is 1 / 2^bits.
    """

    cap: int = CAP
    bits: int = BITS


OF_WEIGHTS: Final = ValuesOptions(cap=1_024, bits=4)
"""Options for products of weights, of which each list may have its own: about 10 kB per cell."""


def single_values(
    results: Sequence[float | Sequence[float] | None],
) -> tuple[list[float], list[bool] | None] | None:
    """The values of events, if each has one float or none, and which have one; else None.

    Returns:
        The values of the events that have one, and whether each event has one; None if all have.

    Example:
        >>> single_values([0.5, None]), single_values([[0.5, 1.0]])
        (([0.5], [True, False]), None)
    """
    kinds = set(map(type, results))
    if not kinds <= _ONE_OR_NONE:
        return None
    values = cast("list[float]", list(results))
    if type(None) not in kinds:
        return values, None
    has_value = [value is not None for value in results]
    return list(compress(values, has_value)), has_value


class Values(Statistic):
    """Counts of the distinct values of one metric over lists or events.

    Relations:
        values: (cell, key of a value) -> occurrences.
        marks: (cell, kind) -> occurrences; kinds are lists seen, NaN, infinity, and -infinity.
        sums: (cell, power 1 or 2, exponent) -> three integers: the exact sum of the values, or of
            their squares; for binned cells only.
        binned: see `BinnedFloats`.

    Example:
        >>> values = Values(ValuesOptions(), Items())
        >>> values.add(np.array([0, 0]), np.array([0.5, 1.0]), np.array([3, 1]))
        >>> found, = values.view(np.array([0]))
        >>> found.count, found.total, found.quantile(0.5)
        (4, 2.5, 0.5)
    """

    shapes: ClassVar[Mapping[str, Shape]] = {
        "values": Shape(keys=2),
        "marks": Shape(keys=2),
        "sums": Shape(keys=3, counts=3),
        "binned": BINNED,
    }
    options: ValuesOptions
    cap: BinnedFloats

    def __init__(self, options: ValuesOptions, items: Items) -> None:
        super().__init__(options, items)
        self.cap = BinnedFloats(self.relations, "values", options.cap, options.bits, "sums")

    def add(self, cells: IntArray, values: FloatArray, counts: IntArray) -> None:
        """Count each value (shape (n,)) in its cell, `counts` times."""
        kinds = (np.isnan(values), values == math.inf, values == -math.inf)
        for kind, selected in zip((_UNDEFINED, _ABOVE, _BELOW), kinds, strict=True):
            if selected.any():
                self._mark(kind, cells[selected], counts[selected])
        finite = np.isfinite(values)
        if not finite.all():
            cells, values, counts = cells[finite], values[finite], counts[finite]
        self.cap.put(cells, values + 0.0, [counts])

    def add_events(
        self, cells: IntArray, results: Sequence[float | Sequence[float] | None]
    ) -> None:
        """Count events, and their values: of each one, several or none."""
        self._mark(_LISTS, cells, np.ones_like(cells))
        if (single := single_values(results)) is not None:
            values, has_value = single
            where = cells if has_value is None else cells[np.array(has_value)]
        else:
            of_events = [
                [result] if isinstance(result, (int, float)) else result or () for result in results
            ]
            values = [*chain.from_iterable(of_events)]
            where = np.repeat(cells, [*map(len, of_events)])
        if values:
            self.add(where, np.array(values, np.float64), np.ones_like(where))

    def view(self, cells: IntArray) -> list[Distribution]:
        """The distribution of each of these cells."""
        self.reduce()
        values, marks, sums = (
            self.relations[name].by_cell(cells) for name in ("values", "marks", "sums")
        )
        estimated = self.relations["binned"].value(cells) > 0
        rows = zip(values, marks, sums, estimated.tolist(), strict=True)
        return [Distribution(*row, self.options.bits) for row in rows]

    def _mark(self, kind: int, cells: IntArray, counts: IntArray) -> None:
        self.relations["marks"].add([cells, np.full_like(cells, kind)], [counts])


class Distribution:
    """The values of one cell; NaN counts as undefined.

    Attributes:
        estimated: whether values are binned.
        lists: lists seen, if they were counted.
    """

    def __init__(
        self,
        values: RelationColumns,
        marks: RelationColumns,
        sums: RelationColumns,
        estimated: bool,  # noqa: FBT001  a column like the others
        bits: int = BITS,
    ) -> None:
        self._keys, self._counts = values
        self._marks, self._sums = marks, sums
        self.estimated, self._bits = estimated, bits
        by_mark: dict[int, int] = dict(zip(*(column.tolist() for column in marks), strict=True))
        self.lists, self.undefined = by_mark.get(_LISTS, 0), by_mark.get(_UNDEFINED, 0)
        self._above, self._below = by_mark.get(_ABOVE, 0), by_mark.get(_BELOW, 0)

    @classmethod
    def of_all(cls, values: FloatArray) -> Distribution:
        """The distribution of these values, never binned."""
        values_of_all = Values(ValuesOptions(cap=max(CAP, values.size)), Items())
        values_of_all.add(np.zeros(values.size, np.int64), values, np.ones(values.size, np.int64))
        return values_of_all.view(np.array([0]))[0]

    @property
    def count(self) -> int:
        """Number of values."""
        return int(self._counts.sum()) + self._above + self._below

    @property
    def zeros(self) -> int:
        """Number of values that are 0; below 2^-32, if they are binned."""
        return int(self._counts[self._values == 0].sum())

    @property
    def nonzero(self) -> Distribution:
        """The distribution of the values other than 0; see `zeros`."""
        is_nonzero = self._values != 0
        values = [self._keys[is_nonzero], self._counts[is_nonzero]]
        return Distribution(values, self._marks, self._sums, self.estimated, self._bits)

    def above(self, value: float) -> int:
        """Number of values that are larger."""
        return int(self._counts[self._values > value].sum()) + self._above * (value < math.inf)

    @property
    def total(self) -> float:
        """Sum of the values, exact and rounded once."""
        if self._above or self._below:
            both = self._above and self._below
            return math.nan if both else math.inf if self._above else -math.inf
        return ratio(self._moment(1), ONE)

    @property
    def scaled_total(self) -> int:
        """The exact sum of the values, as a multiple of 1 / ONE.

        Raises:
            ArithmeticError: a value is infinite.
        """
        if self._above or self._below:
            raise ArithmeticError
        return self._moment(1)

    def quantile(self, q: float, method: Quantile = "lower") -> float:
        """The q-quantile, q from 0 to 1; NaN without values.

        `method`: "lower" gives the value at rank ceil(q n); "linear" interpolates like numpy's
        default.
        """
        total = self.count
        if not total:
            return math.nan
        if method == "lower":
            return self._at(max(0, math.ceil(q * total) - 1))
        index = q * (total - 1)
        low, high = self._at(math.floor(index)), self._at(math.ceil(index))
        return low if low == high else low + (high - low) * (index - math.floor(index))

    @property
    def maximum(self) -> float:
        """The largest value; NaN without values."""
        return self._at(self.count - 1) if self.count else math.nan

    @property
    def effective_share(self) -> float:
        """(Sum of the values)^2 / (count * sum of squares); NaN without values other than 0."""
        if self._above or self._below:
            return math.nan
        squared = self.count * self._moment(2) * ONE
        return ratio(self._moment(1) ** 2, squared) if squared else math.nan

    @property
    def standard_error(self) -> float:
        """Sample standard deviation / sqrt(count); NaN for fewer than two values."""
        n = self.count
        if n < 2 or self._above or self._below:
            return math.nan
        # In integers, so that the small difference of two large sums is exact.
        spread = n * self._moment(2) * ONE - self._moment(1) ** 2
        scale = ONE**2 * n * n * (n - 1)
        return ratio(math.isqrt(spread * scale), scale)

    @cached_property
    def _values(self) -> FloatArray:
        bins = bins_of(self._bits)
        return bins.middles(self._keys) if self.estimated else floats_of_keys(self._keys)

    @cached_property
    def _ends(self) -> IntArray:
        ends: IntArray = np.cumsum(self._counts)
        return ends

    def _at(self, index: int) -> float:
        """The value at a index, from 0, in ascending order."""
        index -= self._below
        if index < 0:
            return -math.inf
        at = int(np.searchsorted(self._ends, index, side="right"))
        return math.inf if at == self._ends.size else float(self._values[at])

    def _moment(self, power: int) -> int:
        if not self.estimated:
            moment = limbs if power == 1 else squares
            return scaled_sum(*moment(self._values, self._counts))
        powers, exponents, *parts = self._sums
        selected = powers == power
        return scaled_sum(exponents[selected], [part[selected] for part in parts])
