"""The scanner: reads plain records into columns in C, without a Python object for each.

The decoder is the authority: it reads every record that the scanner refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from msgspec.structs import replace

from streameval.decoding.columns import Decoded
from streameval.decoding.fields import EventFields
from streameval.decoding.paths import is_plain
from streameval.decoding.values import label_text
from streameval.events import Batch
from streameval.events.batch import IntArray
from streameval.events.lazy import LazyColumn
from streameval.events.ragged import IdColumn, Ragged
from streameval.statistics.kernel import Scanner, matches_of
from streameval.statistics.matching import Search

_MOST_FIELDS = 32
_PAUSE = 16
"""Batches that are not scanned after one of which most records were refused."""

_UNREAD = ("positions", "scores", "baseline", "history", "per_item", "rankers", "types")
"""Fields that the scanner does not read; the decoder reads records that have one configured."""

DecodeBatch: TypeAlias = Callable[[Sequence[bytes]], Batch]
"""Decodes records that are known to be valid."""


class Scanned(NamedTuple):
    """The plain records of a batch, and the places of all others."""

    decoded: Decoded
    others: IntArray


class RecordScanner:
    """Reads the plain records of a batch.

    `decode`: decodes records whose lists somebody reads.

    Attributes:
        search: how lists are searched for hits.
    """

    def __init__(
        self, fields: EventFields, dimensions: Sequence[str], search: Search, decode: DecodeBatch
    ) -> None:
        self._decode = decode
        self.search = search
        self._pause = 0
        self._are_text = fields.ids == "string"
        self._has_time, self._has_event_id = fields.time is not None, fields.event_id is not None
        self._scanner = Scanner(
            tuple(_names(fields, dimensions)),
            fields.time_unit if fields.time and fields.time_unit else "",
            self._are_text,
            fields.max_recommendations,
            fields.max_interactions,
            *search,
        )

    def pauses(self) -> bool:
        """Whether the next batch is better left to the decoder, as one before was."""
        if not self._pause:
            return False
        self._pause -= 1
        return True

    def scan(self, values: Sequence[bytes | None]) -> Scanned:
        """Read the plain records."""
        columns, (users, event_ids, *labels), times = self._scanner.scan(values, False)  # noqa: FBT003  positions only
        others = np.frombuffer(columns[0], np.int64)
        plain: Sequence[Any] = values
        places: Sequence[int] = range(len(values))
        if others.size:
            self._pause = _PAUSE if 2 * others.size > len(values) else 0
            places = np.delete(np.arange(len(values)), others).tolist()
            plain = [values[place] for place in places]
        batch = Batch(
            recommendations=(),
            interactions=(),
            users=_named(*users) if any(users[1]) else None,
            times=np.frombuffer(times, np.int64) if self._has_time else None,
            event_ids=_named(*event_ids) if self._has_event_id else None,
            matches=matches_of((b"", *columns[1:]), *self.search),
        )
        texts = (_named(codes, list(map(label_text, names))) for codes, names in labels)
        dimensions = list(zip(*texts, strict=True))
        decoded = Decoded(
            batch=self.with_lists(batch, plain),
            dimensions=dimensions if labels else None,
            places=places,
            invalid=[],
            tombstones=[],
        )
        return Scanned(decoded, others)

    def with_lists(self, batch: Batch, values: Sequence[bytes]) -> Batch:
        """The batch of these records, whose lists are read when somebody asks for them."""
        return replace(
            batch,
            recommendations=LazyColumn(values, self._recommendations),
            interactions=LazyColumn(values, self._interactions),
        )

    def _interactions(self, values: Sequence[bytes]) -> Sequence[Any]:
        return self._decode(values).interactions

    def _recommendations(self, values: Sequence[bytes]) -> Sequence[Any]:
        columns, ((codes, names),), _ = self._scanner.scan(values, True)  # noqa: FBT003  positions only
        if columns[0]:
            return self._decode(values).recommendations
        ragged = Ragged.of_lengths(
            np.frombuffer(codes, np.int64), np.frombuffer(columns[3], np.int64)
        )
        return IdColumn(ragged, names if self._are_text else list(map(int, names)))


def record_scanner(
    fields: EventFields, dimensions: Sequence[str], search: Search | None, decode: DecodeBatch
) -> RecordScanner | None:
    """The scanner of the configured fields; None if it cannot read them, or is not compiled."""
    read = [*_names(fields, dimensions)]
    names = [name for name in read if name is not None]
    unread = [name for name in _UNREAD if getattr(fields, name) is not None]
    is_odd = len(set(names)) < len(names) or not all(map(is_plain, names))
    if Scanner is None or search is None or unread or is_odd or len(read) > _MOST_FIELDS:
        return None
    return RecordScanner(fields, dimensions, search, decode)


def _names(fields: EventFields, dimensions: Sequence[str]) -> Iterator[str | None]:
    yield from (fields.recommendations, fields.interactions)
    yield from (fields.time, fields.user, fields.event_id)
    yield from (fields.labels.get(name, name) for name in dimensions)


def _named(codes: bytes, names: Sequence[Any]) -> list[Any]:
    """The name of each code."""
    if len(codes) == len(names) * np.dtype(np.int64).itemsize:
        return [*names]  # Each is another, and they are numbered in their order.
    listed: list[Any] = np.array(names, object)[np.frombuffer(codes, np.int64)].tolist()
    return listed
