"""Decoded events as columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.decoding.invalid import InvalidEvent
from streameval.events import OPTIONAL_COLUMNS, Batch
from streameval.events.ragged import CodedBatch, Ragged


class RecordColumns(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The outcome of decoding a batch of records. A place is the index of a record in the batch.

    Attributes:
        places: place of each valid record, ascending.
        times: event time of each valid record, microseconds since the epoch; None without it.
        event_ids: id of each valid record; None if none are configured.
        voters: key of each valid record, else its user, for the clock; None if none has any.
        invalid: place and reason of each invalid record, ascending.
        tombstones: places of the records without a value, ascending.
        whole: names of the fields that are not columns of the valid records.
    """

    whole: ClassVar[frozenset[str]] = frozenset({"invalid", "tombstones"})

    places: Any
    times: NDArray[np.int64] | None
    event_ids: Sequence[str] | None
    voters: Sequence[str | int | bytes | None] | None = None
    invalid: Sequence[tuple[int, InvalidEvent]] = ()
    tombstones: Sequence[int] = ()

    def voting(
        self, keys: Sequence[bytes | None] | None, users: Sequence[str | int | None] | None
    ) -> Self:
        """These records, with the key of each as its voter, else its user.

        `keys`: of all records of the batch. `users`: of the valid ones.
        """
        voters: Sequence[str | int | bytes | None] | None = users
        if keys is not None and any(keys):
            rows = zip(self.places, users or repeat(None), strict=False)
            voters = [keys[place] or user for place, user in rows]
        return self if voters is None else msgspec.structs.replace(self, voters=voters)

    def keep(self, rows: NDArray[np.bool_]) -> Self:
        """The valid records that a boolean mask selects."""
        return self.take(np.flatnonzero(rows))

    def take(self, rows: NDArray[np.intp]) -> Self:
        """The valid records of these rows, in this order."""
        return self._of(rows)

    def rows(self, start: int, stop: int) -> Self:
        """The valid records in [start, stop)."""
        return self._of(slice(start, stop))

    def _of(self, rows: NDArray[np.intp] | slice) -> Self:
        names = (name for name in self.__struct_fields__ if name not in self.whole)
        selected = {name: take_rows(getattr(self, name), rows) for name in names}
        return msgspec.structs.replace(self, **selected)


class Decoded(RecordColumns, frozen=True, kw_only=True, eq=False):
    """Decoded events.

    Attributes:
        batch: the events as columns, in record order; a join gives codes instead of ids.
        dimensions: label and segment values of each event; None if none are configured.
    """

    whole: ClassVar[frozenset[str]] = RecordColumns.whole | {"batch"}

    batch: Batch | CodedBatch
    dimensions: Sequence[tuple[str, ...]] | None

    @property
    def named(self) -> Batch:
        """The events with ids instead of codes."""
        return self.batch.batch if isinstance(self.batch, CodedBatch) else self.batch

    @property
    def identified(self) -> Batch | CodedBatch:
        """The events with their ids, by which intervals group lists of unknown users."""
        return (
            msgspec.structs.replace(self.batch, event_ids=self.event_ids)
            if isinstance(self.batch, Batch) and self.event_ids is not None
            else self.batch
        )

    @property
    def engaged(self) -> int:
        """Number of events with interactions."""
        if isinstance(self.batch, CodedBatch):
            return int(np.count_nonzero(self.batch.interactions.lengths))
        return sum(map(bool, self.batch.interactions))

    def take(self, rows: NDArray[np.intp]) -> Decoded:
        """The events of these rows, in this order."""
        return msgspec.structs.replace(self._of(rows), batch=self.named.take(rows.tolist()))


def concatenated(parts: Sequence[Decoded]) -> Decoded:
    """Concatenate one or more parts with the same configuration."""
    if len(parts) == 1:
        return parts[0]
    times = [part.times for part in parts if part.times is not None]
    return Decoded(
        batch=_batches([part.named for part in parts]),
        places=list(chain.from_iterable(part.places for part in parts)),
        times=np.concatenate(times) if times else None,
        dimensions=_chained([part.dimensions for part in parts]),
        event_ids=_chained([part.event_ids for part in parts]),
    )


def take_rows(column: Any, rows: NDArray[np.intp] | slice) -> Any:
    """The given rows of a column, in this order; None without a column.

    >>> take_rows("abcd", np.array([3, 0])), take_rows("abcd", slice(1, 3))
    (['d', 'a'], 'bc')
    """
    if column is None:
        return None
    if isinstance(column, Ragged):
        return column.rows(rows.start, rows.stop) if isinstance(rows, slice) else column.take(rows)
    if isinstance(rows, slice) or isinstance(column, np.ndarray):
        return column[rows]
    return [column[row] for row in rows.tolist()]


def _batches(parts: Sequence[Batch]) -> Batch:
    def column(name: str, absent: object = None) -> list[Any] | None:
        columns = [getattr(part, name) for part in parts]
        if all(each is None for each in columns):
            return None
        sized = zip(columns, parts, strict=True)
        return _chained([[absent] * len(part) if one is None else one for one, part in sized])

    return Batch(
        recommendations=column("recommendations") or [],
        interactions=column("interactions") or [],
        **{
            name: column(name, absent)
            for name, (_, absent) in OPTIONAL_COLUMNS.items()
            if name not in {"times", "event_ids"}
        },
    )


def _chained(columns: Sequence[Sequence[Any] | None]) -> list[Any] | None:
    present = [column for column in columns if column is not None]
    return list(chain.from_iterable(present)) if present else None
