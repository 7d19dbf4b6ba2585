"""Which events of a batch belong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Group(NamedTuple):
    """Events of one pane and one slice.

    Attributes:
        start: of the pane.
        code: of the slice.
        rows: places of the events in the batch, ascending; None where they are all of it.
    """

    start: int
    code: int
    rows: Sequence[int] | None


def grouped(starts: NDArray[np.int64], codes: NDArray[np.int64]) -> Iterator[Group]:
    """The groups of at least one event, by start, then by code.

    Example:
        >>> list(grouped(np.array([60, 0, 60]), np.array([1, 1, 1])))
        [Group(start=0, code=1, rows=[1]), Group(start=60, code=1, rows=[0, 2])]
    """
    if (starts == starts[0]).all() and (codes == codes[0]).all():
        yield Group(int(starts[0]), int(codes[0]), None)
        return
    order = np.lexsort((codes, starts))
    starts, codes = starts[order], codes[order]
    changes = (starts[1:] != starts[:-1]) | (codes[1:] != codes[:-1])
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(order)]
    for begin, end in pairwise(bounds):
        yield Group(int(starts[begin]), int(codes[begin]), order[begin:end].tolist())
