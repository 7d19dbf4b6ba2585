"""Rows: records in their plain form, decoded by one call into C, and read as columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from streameval.events import Batch, Event, columns_of
from streameval.pipeline.fields import EventFields
from streameval.pipeline.ids import Ids, text_id
from streameval.pipeline.labels import label_texts
from streameval.pipeline.schema import Form, compile_row, label_slots
from streameval.pipeline.times import microseconds

Slice: TypeAlias = tuple[tuple[str, ...], Batch]
"""Label values, and events that have them."""


class RowDecoder:
    """Decodes records of one form, and refuses all others; never a judge of what is valid.

    Attributes:
        decode: from bytes to a row; raises one of `parsing.FAILURES` where the general decoder
            must be asked. None where the configured fields have no plain form.
    """

    def __init__(self, fields: EventFields, labels: Sequence[str], form: Form) -> None:
        row = compile_row(fields, labels, form)
        self._as_text = Ids("string") if form == "integers" and fields.ids == "string" else None
        self._unit = fields.time_unit if fields.time else None
        mapped = {name: getattr(fields, name) for name in ("positions", "scores", "baseline")}
        self._mapped = [name for name, path in mapped.items() if path is not None]
        self._parallel = [name for name in self._mapped if name != "baseline"]
        self._has_event_id = fields.event_id is not None
        self._label_count = len(labels)
        self._key = attrgetter(*label_slots(labels)) if labels else None
        plain = msgspec.json.Decoder(row).decode if row else None
        self.decode = _parallel(plain, self._parallel) if plain and self._parallel else plain

    def time_of(self, row: Any) -> int | None:
        """Event time of a row, microseconds since the epoch; None where the stream has none."""
        return None if self._unit is None else microseconds(row.time, self._unit)

    def latest(self, rows: Sequence[Any]) -> int | None:
        """The largest event time of rows; only that one is converted."""
        if self._unit is None or not rows:
            return None
        return microseconds(max(map(attrgetter("time"), rows)), self._unit)

    def event(self, row: Any) -> Event:
        """A row as an event."""
        return Event(
            recommendations=self._items(row.recommendations),
            interactions=self._items(row.interactions),
            user=None if row.user is None else text_id(row.user, "user"),
            ts=self.time_of(row),
            labels=self._labels(self._key(row)) if self._key else (),
            positions=self._optional(row, "positions"),
            scores=self._optional(row, "scores"),
            baseline=self._items(row.baseline) if "baseline" in self._mapped else None,
            event_id=text_id(row.event_id, "event_id") if self._has_event_id else None,
        )

    def slices(self, rows: Sequence[Any]) -> list[Slice]:
        """Rows as one batch for each combination of label values; several may be named alike."""
        if not rows:
            return []
        if self._key is None:
            return [((), self._batch(rows))]
        groups: defaultdict[Any, list[Any]] = defaultdict(list)
        key = self._key
        for row in rows:
            groups[key(row)].append(row)
        return [(self._labels(found), self._batch(group)) for found, group in groups.items()]

    def _labels(self, found: Any) -> tuple[str, ...]:
        return label_texts((found,) if self._label_count == 1 else found)

    def _items(self, found: Any) -> Any:
        return self._columns([found])[0]

    def _columns(self, lists: list[Any]) -> list[Any]:
        if self._as_text is None:
            return lists
        text = self._as_text
        return [each if type(each) is dict else text.each(each, "") for each in lists]

    def _batch(self, rows: Sequence[Any]) -> Batch:
        return Batch(
            recommendations=self._columns([row.recommendations for row in rows]),
            interactions=self._columns([row.interactions for row in rows]),
            positions=self._optional_column(rows, "positions"),
            scores=self._optional_column(rows, "scores"),
            baselines=self._columns([row.baseline for row in rows])
            if "baseline" in self._mapped
            else None,
        )

    def _optional(self, row: Any, name: str) -> Any:
        return getattr(row, name) if name in self._mapped else None

    def _optional_column(self, rows: Sequence[Any], name: str) -> Any:
        return [getattr(row, name) for row in rows] if name in self._mapped else None


def event_slices(events: Sequence[Event]) -> list[Slice]:
    """Events as one batch for each combination of label values."""
    groups: defaultdict[tuple[str, ...], list[Event]] = defaultdict(list)
    for event in events:
        groups[event.labels].append(event)
    return [(labels, columns_of(group)) for labels, group in groups.items()]


def _parallel(plain: Callable[[bytes], Any], names: Sequence[str]) -> Callable[[bytes], Any]:
    def decode(value: bytes) -> Any:
        row = plain(value)
        items = len(row.recommendations)
        if any(len(getattr(row, name)) != items for name in names):
            message = "lists that belong to the list shown differ in length"
            raise msgspec.ValidationError(message)
        return row

    return decode
