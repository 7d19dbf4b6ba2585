"""The layout of a state: the settings that must be equal to merge or resume."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from streameval.accumulator.experiment import Experiment
from streameval.engine.clock import MAX_AHEAD, RECENT
from streameval.statistics.intervals import Intervals
from streameval.windows.family import FamilySpec
from streameval.windows.times import Times


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of each partition.

    Attributes:
        dedup: for how long event ids are remembered, microseconds; None means not at all.
        max_ahead: so far ahead of recent events an event is believed at once, microseconds.
        recent: how many events of a log decide on its clock.
    """

    families: Sequence[FamilySpec]
    times: Times = Times()
    dedup: int | None = None
    max_ahead: int = MAX_AHEAD
    intervals: Intervals | None = None
    experiment: Experiment | None = None
    recent: int = RECENT
