"""The decoder: record bytes to a batch of events and the invalid records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.decoding.columns import Columns, concatenated
from streameval.decoding.fields import EventFields, check_fields
from streameval.decoding.general import GeneralDecoder
from streameval.decoding.invalid import InvalidEvent
from streameval.decoding.rows import row_decoders
from streameval.decoding.sorting import Found, Sorter
from streameval.events import Batch
from streameval.events.ragged import Coded


class Decoded(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Outcomes of the records of a batch; a place is a record's place in it.

    Attributes:
        batch: the events as columns, in the order of their records; those of a join as codes.
        places: of each event, ascending.
        times: event time of each event, microseconds since the epoch; None where the stream has
            no time.
        dimensions: values of labels and segments of each event; None where none are configured.
        event_ids: identity of each event; None where the stream has none.
        users: who saw the list of each event; None where nobody asks.
        invalid: place and reason of each invalid record; ascending.
        tombstones: places of the records that had no value, ascending.
    """

    batch: Batch | Coded
    places: Sequence[int]
    times: NDArray[np.int64] | None
    dimensions: Sequence[tuple[str, ...]] | None
    event_ids: Sequence[str] | None
    invalid: Sequence[tuple[int, InvalidEvent]]
    tombstones: Sequence[int]
    users: Sequence[str | None] | None = None

    @property
    def named(self) -> Batch:
        """The events with the ids themselves, not their numbers."""
        return self.batch.batch if isinstance(self.batch, Coded) else self.batch

    @property
    def engaged(self) -> int:
        """How many events have interactions."""
        if isinstance(self.batch, Coded):
            return int(np.count_nonzero(self.batch.interactions.lengths))
        return sum(map(bool, self.batch.interactions))

    def keep(self, rows: NDArray[np.bool_]) -> Decoded:
        """Only these events: one truth value for each; the places of the others vanish."""
        return _taken(self, np.flatnonzero(rows))


class Decoder:
    """Decodes records of any accepted form; compiled once from the configured fields.

    Records in a plain form (lists of ids, no objects) take one call into C; all others are read
    by the general decoder. Which one did it never shows in the result.

    `shown_only`: whether records hold what was shown and not what was done with it; then users are
    among the columns.

    Raises:
        ConfigError: the fields contradict each other, or a path is none.

    Example:
        >>> decoder = Decoder(EventFields(), ["variant"])
        >>> records = [b'{"recommendations": ["a"], "interactions": [7], "variant": "b"}', b"[]"]
        >>> found = decoder.decode_many(records)
        >>> found.batch.interactions, found.dimensions, found.invalid[0][1].reason
        ([['7']], [('b',)], 'not_an_object')
    """

    def __init__(
        self, fields: EventFields, dimensions: Sequence[str], *, shown_only: bool = False
    ) -> None:
        check_fields(fields, dimensions)
        self._general = GeneralDecoder(fields, dimensions, shown_only=shown_only)
        self._forms = row_decoders(fields, dimensions, shown_only=shown_only)
        self._sorter = Sorter(self._forms, self._general)

    def decode_many(self, values: Sequence[bytes | None]) -> Decoded:
        """All records of a batch as columns; the same content as one by one, and much faster."""
        found = self._sorter.sort(values)
        parts = self._parts(found)
        columns = concatenated([part for _, part in parts])
        decoded = Decoded(
            batch=columns.batch,
            places=_one_after_the_other([places for places, _ in parts]),
            times=columns.times,
            dimensions=columns.dimensions,
            event_ids=columns.event_ids,
            users=columns.users,
            invalid=found.invalid,
            tombstones=found.tombstones,
        )
        return decoded if len(parts) == 1 else _taken(decoded, np.argsort(decoded.places))

    def _parts(self, found: Found) -> list[tuple[Sequence[int], Columns]]:
        """Places and columns of each form that occurs; always at least one."""
        known = zip(self._forms, found.runs, found.rows, strict=True)
        parts = [
            (_one_after_the_other(runs), form.columns(rows)) for form, runs, rows in known if rows
        ]
        if found.events or not parts:
            parts.append((found.event_places, self._general.columns(found.events)))
        return parts


def _one_after_the_other(places: Sequence[Sequence[int]]) -> Sequence[int]:
    return places[0] if len(places) == 1 else list(chain.from_iterable(places))


def _taken(decoded: Decoded, rows: NDArray[np.intp]) -> Decoded:
    listed: list[int] = rows.tolist()
    places, dimensions, ids = decoded.places, decoded.dimensions, decoded.event_ids
    users = decoded.users
    return msgspec.structs.replace(
        decoded,
        batch=decoded.named.take(listed),
        places=[places[row] for row in listed],
        times=None if decoded.times is None else decoded.times[rows],
        dimensions=None if dimensions is None else [dimensions[row] for row in listed],
        event_ids=None if ids is None else [ids[row] for row in listed],
        users=None if users is None else [users[row] for row in listed],
    )
