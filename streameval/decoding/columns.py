"""Puts columns of events together from parts that were decoded in different ways."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.events import Batch


class Columns(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Events as columns, all of one length.

    Attributes:
        batch: what statistics read.
        times: event time of each, microseconds since the epoch; None where the stream has none.
        dimensions: values of the dimensions of each; None where none are configured.
        event_ids: identity of each; None where the stream has none.
        users: who saw each list; None where nobody asks.
    """

    batch: Batch
    times: NDArray[np.int64] | None
    dimensions: Sequence[tuple[str, ...]] | None
    event_ids: Sequence[str] | None
    users: Sequence[str | None] | None = None


def concatenated(parts: Sequence[Columns]) -> Columns:
    """At least one part after the other; all were decoded with the same configuration."""
    if len(parts) == 1:
        return parts[0]
    times = [part.times for part in parts if part.times is not None]
    return Columns(
        batch=_batches([part.batch for part in parts]),
        times=np.concatenate(times) if times else None,
        dimensions=_chained([part.dimensions for part in parts]),
        event_ids=_chained([part.event_ids for part in parts]),
        users=_chained([part.users for part in parts]),
    )


def picked(column: Any, rows: NDArray[np.int64] | slice) -> Any:
    """These rows of a column, in this order; None without a column.

    >>> picked("abcd", np.array([3, 0])), picked("abcd", slice(1, 3))
    (['d', 'a'], 'bc')
    """
    if column is None:
        return None
    if isinstance(rows, slice) or isinstance(column, np.ndarray):
        return column[rows]
    return [column[row] for row in rows.tolist()]


def _batches(parts: Sequence[Batch]) -> Batch:
    def column(name: str, absent: object = None) -> list[Any] | None:
        found = [getattr(part, name) for part in parts]
        if all(each is None for each in found):
            return None
        sized = zip(found, parts, strict=True)
        return _chained([[absent] * len(part) if one is None else one for one, part in sized])

    return Batch(
        recommendations=column("recommendations") or [],
        interactions=column("interactions") or [],
        positions=column("positions"),
        scores=column("scores"),
        baselines=column("baselines"),
        typed=column("typed", ()),
        histories=column("histories"),
        users=column("users"),
        event_ids=column("event_ids"),
    )


def _chained(columns: Sequence[Sequence[Any] | None]) -> list[Any] | None:
    present = [column for column in columns if column is not None]
    return list(chain.from_iterable(present)) if present else None
