"""Decoded events as columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any, ClassVar, Self, cast

import msgspec
import numpy as np

from streameval.decoding.invalid import InvalidEvent
from streameval.events import Batch, Id
from streameval.events.batch import ColumnSet, IntArray
from streameval.events.ragged import IdColumn
from streameval.statistics.arrays import BoolArray


class Decoded(ColumnSet, frozen=True, kw_only=True, eq=False):
    """The outcome of decoding a batch of records. Indices are those of records in the batch.

    Attributes:
        batch: the events as columns, in record order; a join gives codes instead of ids.
        dimensions: label and segment values of each event; None if none are configured.
        indices: of the valid records, ascending.
        rankers: for each event, the lists of the rankers that were not shown, in their order; None
            if none are configured.
        voters: key of each valid record, else its user, for the clock; None if none has any.
        invalid: index and reason of each invalid record, ascending.
        tombstones: indices of the records without a value, ascending.
    """

    constants: ClassVar[frozenset[str]] = frozenset({"invalid", "tombstones"})

    batch: Batch
    dimensions: Sequence[tuple[str, ...]] | None
    indices: Any
    rankers: Sequence[Sequence[Sequence[Id]]] | None = None
    voters: Sequence[str | int | bytes | None] | None = None
    invalid: Sequence[tuple[int, InvalidEvent]] = ()
    tombstones: Sequence[int] = ()

    @property
    def times(self) -> IntArray | None:
        """Event time of each event, microseconds since the epoch; None without it."""
        return cast("IntArray | None", self.batch.times)

    @property
    def event_ids(self) -> Sequence[Any] | None:
        """The id of each event; None if none are configured."""
        return self.batch.event_ids

    def voting(self, keys: Sequence[bytes | None] | None) -> Self:
        """These records, with the key of each as its voter, else its user.

        `keys`: of all records of the batch.
        """
        voters = voters_of(self.indices, keys, self.batch.users)
        return self if voters is None else msgspec.structs.replace(self, voters=voters)

    def with_others(self, others: Self, at: Sequence[int]) -> Self:
        """These records together with others of the batch, which another decoder decoded.

        `at`: the index of each of the others, ascending.
        """
        decoded = self
        if len(others.indices):
            indices = [at[index] for index in others.indices]
            both = self.joined(msgspec.structs.replace(others, indices=indices))
            decoded = both.take(np.argsort(both.indices))
        return msgspec.structs.replace(
            decoded,
            invalid=[(at[index], event) for index, event in others.invalid],
            tombstones=[at[index] for index in others.tombstones],
        )

    @property
    def engaged(self) -> BoolArray:
        """True for the events with interactions; shape (events,)."""
        matches = self.batch.matches
        if matches is not None and not matches.skipped.size:
            return np.asarray(matches.interaction_count > 0)
        if isinstance(self.batch.interactions, IdColumn):
            return np.asarray(self.batch.interactions.ragged.lengths > 0)
        return np.fromiter(map(bool, self.batch.interactions), np.bool_, len(self.batch))


def voters_of(
    indices: Any,
    keys: Sequence[bytes | None] | None,
    users: Sequence[str | int | None] | None,
) -> Sequence[str | int | bytes | None] | None:
    """The key of each valid record, else its user; None if none has any.

    `keys`: of all records of the batch. `users`: of the valid ones.
    """
    if keys is None or not any(keys):
        return users
    if len(indices) == len(keys) and all(keys):
        return keys
    rows = zip(indices, users or repeat(None), strict=False)
    return [keys[index] or user for index, user in rows]
