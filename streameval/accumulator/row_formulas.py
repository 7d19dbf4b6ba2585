"""What a metric of hits does with the count of one row, as steps that need no array.

The formula is written once, in the metric: its function runs on rows whose counts are not numbers
but record the operations. Each is of IEEE 754, so that Python's floats give the bits of NumPy's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from streameval.accumulator.formulas import call_metric, is_own
from streameval.catalogue.context import Context
from streameval.catalogue.metric import Metric
from streameval.statistics.hitrows import HitsView

Steps: TypeAlias = tuple[tuple[Callable[[Any, Any], Any], Any], ...]
"""Operators with their right operands, in order."""

Counted: TypeAlias = Literal["hits", "ordinals"]

_OPERATORS: Final[Mapping[np.ufunc, Callable[[Any, Any], Any]]] = {
    np.multiply: operator.mul,
    np.divide: operator.truediv,
    np.add: operator.add,
    np.subtract: operator.sub,
}
_COMMUTE: Final = (np.multiply, np.add)


class RowFormula(NamedTuple):
    """The contributions of rows to the sum of a metric.

    Attributes:
        size: the meaning of the rows' size, such as INTERACTED.
        k: the cut-off; None for every rank.
        counted: the count that the steps begin with.
        steps: those of each rank.
    """

    size: int
    k: int | None
    counted: Counted
    steps: list[Steps]


def row_formula(metric: Metric, context: Context, size: int, ranks: range) -> RowFormula | None:
    """The formula at rows of this size and each of these ranks; None if it is no chain of steps.

    Example:
        >>> from streameval.catalogue import parse
        >>> from streameval.catalogue.context import Context
        >>> found = row_formula(parse("precision@4"), Context(), 20, range(1, 3))
        >>> found.counted, found.steps[0]
        ('hits', ((<built-in function truediv>, 4),))
    """
    if is_own(metric) or metric.definition.reads != "hits":
        return None
    try:
        result = call_metric(metric, _TracedView(size, np.array(ranks)), context)
        return result.formula(len(ranks)) if isinstance(result, _Sum) else None
    except (TypeError, AttributeError, NotImplementedError):
        return None


class _Unknown(NDArrayOperatorsMixin):
    """A count of each row, and what was done to it."""

    def __init__(self, counted: Counted, steps: tuple[tuple[np.ufunc, Any], ...] = ()) -> None:
        self.counted, self.steps = counted, steps

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any) -> _Unknown:
        left, other = inputs if len(inputs) == 2 else (None, None)
        if left is not self and ufunc in _COMMUTE:
            left, other = other, left
        wrong = left is not self or isinstance(other, _Unknown) or ufunc not in _OPERATORS
        if wrong or method != "__call__" or named:
            raise TypeError(ufunc)
        return _Unknown(self.counted, (*self.steps, (ufunc, other)))

    def __array_function__(self, function: Any, *_: Any) -> Any:
        raise TypeError(function)

    def __array__(self, *_: Any) -> Any:
        raise TypeError


class _Sum(NamedTuple):
    """A sum of contributions over rows."""

    size: int
    k: int | None
    contributions: _Unknown

    def formula(self, ranks: int) -> RowFormula | None:
        columns = []
        for ufunc, operand in self.contributions.steps:
            values = np.broadcast_to(np.asarray(operand), ranks)
            if values.dtype.kind not in "bif" or values.dtype.itemsize not in (1, 8):
                return None
            columns.append([(_OPERATORS[ufunc], value) for value in values.tolist()])
        steps = [*zip(*columns, strict=True)] if columns else [()] * ranks
        return RowFormula(self.size, self.k, self.contributions.counted, steps)


class _TracedRows:
    """Rows of one size, one for each rank."""

    def __init__(self, axis: int, k: int | None, size: int, ranks: Any) -> None:
        self._axis, self._k = axis, k
        self.rank, self.size, self.gain = ranks, np.full_like(ranks, size), np.ones(ranks.size)
        self.hits, self.ordinals = _Unknown("hits"), _Unknown("ordinals")

    def total(self, contributions: Any) -> _Sum:
        if not isinstance(contributions, _Unknown):
            raise TypeError(contributions)
        return _Sum(self._axis, self._k, contributions)


class _TracedView(HitsView):
    def __init__(self, size: int, ranks: Any) -> None:
        self._size, self._ranks = size, ranks

    def rows_by(self, size: int, k: int | None) -> Any:
        return _TracedRows(size, k, self._size, self._ranks)
