"""What one family of slices is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

import msgspec

from streameval.aggregation.folding import FoldingOptions
from streameval.aggregation.slices import A


class FamilySpec(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    """What one family of slices is.

    Attributes:
        name: its identity in saved state; without a slash.
        dimensions: names of what it is divided by.
        columns: the place of each of those among the dimensions of an event.
        spans: of its windows, microseconds, ascending; empty where only its lifetime is read.
        new: makes an empty accumulator.
        folding: how many label values and combinations are kept apart.
    """

    name: str
    dimensions: tuple[str, ...] = ()
    columns: tuple[int, ...] = ()
    spans: tuple[int, ...] = ()
    new: Callable[[], A]
    folding: FoldingOptions = FoldingOptions()
