"""Orders the records of several slices, judges lateness, and combines gains."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, cast

import numpy as np

from streameval.events import LARGEST_GAIN, Id, Interaction
from streameval.join.cursors import RecordSlice
from streameval.join.interactions import InteractionColumns
from streameval.join.reported import Reported
from streameval.statistics.arrays import IntArray


def ordered(slices: Sequence[RecordSlice]) -> list[tuple[int, int]]:
    """Slice and row of each record, in the order of the join."""
    rows = [(number, row) for number, part in enumerate(slices) for row in range(len(part.before))]
    if len({part.log for part in slices}) == 1:
        return rows
    before = np.concatenate([part.before for part in slices])
    logs = np.concatenate([np.full(len(part.before), part.log) for part in slices])
    return [rows[place] for place in np.lexsort((logs, before)).tolist()]


def runs(turns: Sequence[tuple[int, int]]) -> Iterator[tuple[int, list[int]]]:
    """Slice and rows of consecutive records in one slice."""
    for number, run in groupby(turns, key=itemgetter(0)):
        yield number, [row for _, row in run]


def late_in(slices: Sequence[RecordSlice], lateness: int, watermark: int) -> list[list[bool]]:
    """Which are late: by the clock of their own log; and never before what is counted already."""
    bounds = [np.maximum(part.before - lateness, watermark) for part in slices]
    times = [cast("IntArray", part.content.times) for part in slices]
    return [(own < bound).tolist() for own, bound in zip(times, bounds, strict=True)]


def reported_in(part: RecordSlice, found: InteractionColumns, row: int) -> Reported:
    """An interaction of a slice."""
    return Reported(
        int(found.times[row]),
        found.keys[row],
        found.items[row],
        found.types[row],
        found.gains[row],
        part.log,
        part.offset(row),
    )


def combined(found: Sequence[Reported], how: Literal["max", "sum"]) -> tuple[Any, Any]:
    """Gains by item, or ids where each is worth 1; and by item and type."""
    if len(found) == 1:
        return _alone(found[0])
    gains: dict[Id, list[float]] = {}
    typed: dict[tuple[Id, str | None], list[float]] = {}
    for each in found:
        gains.setdefault(each.item, []).append(each.gain)
        typed.setdefault((each.item, each.type), []).append(each.gain)
    combine = max if how == "max" else _sum
    whole = {item: combine(all_of) for item, all_of in gains.items()}
    beside = tuple(Interaction(item, combine(some), kind) for (item, kind), some in typed.items())
    known = any(each.type is not None for each in beside)
    plain = set(whole.values()) == {1.0}
    return (list(whole) if plain else whole), (beside if known else ())


def _sum(gains: Sequence[float]) -> float:
    """The sum, rounded once; the largest gain there is, where it is larger."""
    return max(-LARGEST_GAIN, min(LARGEST_GAIN, math.fsum(gains)))


def _alone(each: Reported) -> tuple[Any, Any]:
    """The same of one, as most are."""
    worth = [each.item] if each.gain == 1.0 else {each.item: each.gain}
    return worth, () if each.type is None else (Interaction(each.item, each.gain, each.type),)
