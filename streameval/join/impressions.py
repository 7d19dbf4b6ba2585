"""Decoded impressions as columns, with numbers instead of item ids."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from typing import TypeVar, cast

import msgspec
import numpy as np

from streameval.decoding.columns import Decoded, take_rows
from streameval.decoding.invalid import InvalidEvent
from streameval.events import Batch, Id
from streameval.events.ragged import Ragged
from streameval.statistics.arrays import BoolArray, IntArray
from streameval.statistics.vocabulary import Codes

V = TypeVar("V", bound=Hashable)


def compacted(
    codes: Codes[V], columns: Sequence[array[int]]
) -> tuple[Codes[V], Iterator[array[int]]]:
    """The codes of the values that occur in columns, and the columns renumbered for them.

    >>> fresh, columns = compacted(Codes("abcd"), [array("I", [3, 1]), array("I", [3])])
    >>> fresh.names, [column.tolist() for column in columns]
    (['b', 'd'], [[1, 0], [1]])
    """
    views = [np.array(column, dtype=np.int64) for column in columns]
    occurs = np.zeros(len(codes), dtype=np.bool_)
    for view in views:
        occurs[view] = True
    numbers = (np.cumsum(occurs) - 1).astype(np.uint32)
    kept = [codes.names[code] for code in np.flatnonzero(occurs).tolist()]
    return Codes(kept), (array("I", numbers[view].tobytes()) for view in views)


class Impressions(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The outcome of decoding a batch of impressions. A place is an index in the batch.

    Attributes:
        places: of each list, ascending.
        times: of each list, microseconds since the epoch.
        items: of each list, as numbers of `codes`.
        labels: label values of each list; None if none are configured.
        users: of each list; None if users are not needed.
        positions: rank of each item; None if no list has any.
        baselines: items of another recommender; likewise.
        invalid: place and reason of each invalid record, ascending.
    """

    places: IntArray
    times: IntArray
    items: Ragged
    codes: Codes[Id]
    labels: Sequence[tuple[str, ...]] | None
    event_ids: Sequence[str] | None
    users: Sequence[str | None] | None
    positions: Sequence[Sequence[int] | None] | None
    scores: Sequence[Sequence[float] | None] | None
    baselines: Sequence[Sequence[Id] | None] | None
    invalid: Sequence[tuple[int, InvalidEvent]]
    tombstones: Sequence[int]

    @classmethod
    def of(cls, decoded: Decoded, codes: Codes[Id]) -> Impressions:
        """Number the items of decoded lists, while their ids are in the processor's cache."""
        batch = cast("Batch", decoded.batch)
        lists = batch.recommendations
        return cls(
            places=np.array(decoded.places, dtype=np.int64),
            times=cast("IntArray", decoded.times),
            items=Ragged.of_lengths(
                codes.codes(chain.from_iterable(lists)),
                np.fromiter(map(len, lists), np.int64, len(lists)),
            ),
            codes=codes,
            labels=decoded.dimensions,
            event_ids=decoded.event_ids,
            users=cast("Sequence[str | None]", batch.users or [None] * len(lists)),
            positions=batch.positions,
            scores=batch.scores,
            baselines=batch.baselines,
            invalid=decoded.invalid,
            tombstones=decoded.tombstones,
        )

    def keep(self, rows: BoolArray) -> Impressions:
        """The lists that a boolean mask selects."""
        return self.take(np.flatnonzero(rows))

    def take(self, rows: IntArray) -> Impressions:
        """The lists of these rows, in this order."""
        return self._of(rows, self.items.take(rows))

    def rows(self, start: int, stop: int) -> Impressions:
        """The lists in [start, stop)."""
        return self._of(slice(start, stop), self.items.rows(start, stop))

    def _of(self, rows: IntArray | slice, items: Ragged) -> Impressions:
        columns = (
            *("places", "times", "labels", "event_ids", "users"),
            *("positions", "scores", "baselines"),
        )
        selected = {name: take_rows(getattr(self, name), rows) for name in columns}
        return msgspec.structs.replace(self, items=items, **selected)
