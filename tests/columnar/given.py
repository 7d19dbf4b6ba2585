"""Columns of other libraries, and what counts them; a mistake counts nothing."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from streameval import Accumulator, Columns, Intervals, Similarity
from streameval.evaluation.partials import partials

__all__ = ["LISTS", "MATRIX", "PAIR", "TOP", "TRUTH", "Lazy", "Similarity", "Stuck", "Tensor"]
__all__ += ["Unreadable", "columns", "count", "np", "pa", "partials"]

PAIR: Final = np.array([1, 2, 3]), np.array([0, 2, 3])
MATRIX: Final = np.array([[1, 2, 3], [4, 5, 6]])
LISTS: Final = pa.array([["a"]])
TOP: Final = [[3, 1, 2], [5, 4, 6], [7, 8, 9]]
TRUTH: Final = [1, 9, 9]


def count(*given: Any) -> None:
    """Count what cannot be counted."""
    accumulator = Accumulator("recall@3", "distinct_items", intervals=Intervals(groups=16))
    try:
        accumulator.update_many(*given)
    finally:
        assert accumulator.lists == 0


def columns(ranked: Any, clicks: Any, **others: Any) -> None:
    """Count columns that cannot be counted."""
    count(Columns(recommendations=ranked, interactions=clicks, **others))


class Unreadable:
    """A column of a frame without an Arrow type."""

    def __arrow_c_stream__(self, _: Any = None) -> Any:
        raise TypeError("mixed")


class Lazy:
    """A lazy frame of Polars, which has no Arrow interface."""

    def collect_schema(self) -> None: ...

    def collect(self) -> None: ...


class Tensor:
    """A tensor with DLPack that is on a device until `cpu` is called."""

    def __init__(self, values: Any, device: int = 1) -> None:
        self.values, self.device, self.requires_grad = np.asarray(values), device, False
        self.dtype, self.shape = self.values.dtype, self.values.shape

    def __dlpack__(self, **asked: Any) -> Any:
        if self.device != 1:
            raise BufferError("not in the main memory")
        return self.values.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def cpu(self) -> Tensor:
        return Tensor(self.values)


class Stuck(Tensor):
    def cpu(self) -> Tensor:
        return self
