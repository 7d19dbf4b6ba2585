"""What is kept of a stream, and how: all that two states must share to be the same kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

import msgspec

from streameval.aggregation.slices import A
from streameval.aggregation.spec import FamilySpec
from streameval.aggregation.time import Times

MAX_AHEAD = 600_000_000
"""Ten minutes, in microseconds."""


class Layout(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    """What is kept of each partition.

    Attributes:
        families: groups of metrics, each with labels and windows of its own; names are distinct.
        times: how event time is divided.
        dedup: for how long event ids are remembered, microseconds; None means not at all.
        max_ahead: so much later than its log's timestamp an event may be, microseconds.
    """

    families: Sequence[FamilySpec[A]]
    times: Times = Times()
    dedup: int | None = None
    max_ahead: int = MAX_AHEAD
