"""The scanner: reads records with lists of ids into columns in C, without Python objects.

The decoder is the authority: it reads every record that the scanner refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from streameval.decoding.columns import Decoded
from streameval.decoding.fields import EventFields
from streameval.decoding.framing import BatchDecoder
from streameval.decoding.paths import is_top_level
from streameval.decoding.values import label_text
from streameval.events import Batch
from streameval.events.batch import select
from streameval.events.lazy import LazyColumn
from streameval.events.lines import LineBlock
from streameval.events.ragged import IdColumn, Ragged
from streameval.statistics.kernel import Scanner, matches_of
from streameval.statistics.matching import Search, matched

_MOST_FIELDS = 32

_READ = ("recommendations", "interactions", "gains", "time", "user", "event_id")
"""Fields that the scanner reads, besides labels; records with gains go to the decoder."""


class RecordScanner:
    """Reads the records of a batch that have lists of ids; `decoder` is its fallback.

    The decoder also reads the lists themselves, where a metric needs them.

    `search`: how lists are searched for hits.
    """

    def __init__(
        self,
        fields: EventFields,
        dimensions: Sequence[str],
        search: Search,
        decoder: BatchDecoder[Decoded],
    ) -> None:
        self._decoder, self._search = decoder, search
        self._are_text = fields.ids == "string"
        self._has_time, self._has_event_id = fields.time is not None, fields.event_id is not None
        labels = (fields.labels.get(name, name) for name in dimensions)
        self._scanner = Scanner(
            (*(getattr(fields, key) for key in _READ), *labels),
            fields.time_unit if fields.time and fields.time_unit else "",
            self._are_text,
            fields.max_recommendations,
            fields.max_interactions,
            *search,
        )

    def decode_many(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode a batch of records to columns."""
        columns, (users, event_ids, *labels), times = self._scan(values)
        fallback = np.frombuffer(columns[0], np.int64)
        if 2 * fallback.size > len(values):
            # The decoder would read most of them: it reads all, so that no lists are read twice.
            return self._decoder.decode_many(values)
        scanned: Any = np.arange(len(values))
        scanned = np.delete(scanned, fallback) if fallback.size else scanned
        batch = Batch(
            # Indices of the records instead of lists, which are read when a metric needs them.
            recommendations=scanned,
            interactions=scanned,
            users=_names_of(*users) if any(users[1]) else None,
            times=np.frombuffer(times, np.int64) if self._has_time else None,
            event_ids=_names_of(*event_ids) if self._has_event_id else None,
            matches=matches_of((b"", *columns[1:]), *self._search),
        )
        texts = (_names_of(codes, list(map(label_text, names))) for codes, names in labels)
        dimensions = list(zip(*texts, strict=True))
        decoded = Decoded(
            batch=batch,
            dimensions=dimensions if labels else None,
            indices=scanned.tolist() if fallback.size else range(len(values)),
        )
        if fallback.size:
            others = self._decoder.decode_many([values[index] for index in fallback.tolist()])
            # In the form of the scanned ones, so that joining them reads no lists.
            rows: Any = fallback[others.indices]
            batch = matched(others.batch, self._search)
            batch = replace(batch, recommendations=rows, interactions=rows)
            decoded = decoded.with_others(replace(others, batch=batch), fallback.tolist())
            values = select(values, np.asarray(decoded.indices))
        batch = replace(
            decoded.batch,
            recommendations=LazyColumn(values, self._recommendations),
            interactions=LazyColumn(values, self._interactions),
        )
        return replace(decoded, batch=batch)

    def _interactions(self, values: Sequence[bytes]) -> Sequence[Any]:
        return self._decoder.decode_many(values).batch.interactions

    def _recommendations(self, values: Sequence[bytes]) -> Sequence[Any]:
        columns, ((codes, names),), _ = self._scan(values, are_items=True)
        if columns[0]:
            return self._decoder.decode_many(values).batch.recommendations
        ragged = Ragged.of_lengths(
            np.frombuffer(codes, np.int64), np.frombuffer(columns[3], np.int64)
        )
        return IdColumn(ragged, names if self._are_text else list(map(int, names)))

    def _scan(self, values: Sequence[bytes | None], *, are_items: bool = False) -> Any:
        if isinstance(values, LineBlock):
            return self._scanner.scan_block(values.block, values.starts, values.stops, are_items)
        return self._scanner.scan(values, are_items)


def is_scannable(fields: EventFields, dimensions: Sequence[str]) -> bool:
    """True if the scanner is compiled, and can read the configured fields."""
    keys, paths = zip(*fields.paths(dimensions), strict=True)
    are_distinct = len(set(paths)) == len(paths)
    are_top_level = all(map(is_top_level, paths))
    unread = {key.partition(".")[0] for key in keys}.difference(_READ, {"labels"})
    too_many = len(_READ) + len(dimensions) > _MOST_FIELDS
    is_excluded = Scanner is None or fields.types is not None or unread or too_many
    return not is_excluded and are_distinct and are_top_level


def _names_of(codes: bytes, names: Sequence[Any]) -> list[Any]:
    if len(codes) == len(names) * np.dtype(np.int64).itemsize:
        return [*names]  # All are distinct: codes are given in order of appearance.
    column: list[Any] = np.array(names, object)[np.frombuffer(codes, np.int64)].tolist()
    return column
