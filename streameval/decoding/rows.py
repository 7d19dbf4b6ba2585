"""The fast decoder: records in their plain form, decoded by one call into C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.decoding.columns import Columns
from streameval.decoding.fields import EventFields
from streameval.decoding.schema import Form, compile_row, dimension_slots, forms
from streameval.decoding.times import microsecond_column
from streameval.decoding.values import Ids, Remembered, label_texts, text_id
from streameval.events import Batch

_TEXT = Ids("string")


class RowDecoder:
    """Decodes records of one form, and refuses all others; never a judge of what is valid.

    Attributes:
        decode: from bytes to a row; raises one of `parsing.FAILURES` where the general decoder
            must be asked.
    """

    def __init__(
        self,
        fields: EventFields,
        dimensions: Sequence[str],
        form: Form,
        row: type[msgspec.Struct],
        *,
        shown_only: bool = False,
    ) -> None:
        self._shown_only = shown_only
        self._as_text = _TEXT if form == "integers" and fields.ids == "string" else None
        self._unit = fields.time_unit if fields.time else None
        mapped = {name: getattr(fields, name) for name in ("positions", "scores", "baseline")}
        self._mapped = [name for name, path in mapped.items() if path is not None]
        self._parallel = [name for name in self._mapped if name != "baseline"]
        self._has_event_id = fields.event_id is not None
        self._slots = dimension_slots(dimensions)
        self._key = attrgetter(*self._slots) if self._slots else None
        single, most = len(self._slots) == 1, fields.max_label_bytes
        self._texts = Remembered(lambda found: label_texts((found,) if single else found, most))
        plain: Callable[[bytes], Any] = msgspec.json.Decoder(row).decode
        self.decode = _parallel(plain, self._parallel) if self._parallel else plain

    def columns(self, rows: Sequence[Any]) -> Columns:
        """Rows as columns, in their order."""
        users = self._users(rows)
        return Columns(
            batch=self._batch(rows, users),
            times=self._times(rows),
            dimensions=self._dimensions(rows),
            event_ids=self._event_ids(rows),
            users=users if self._shown_only else None,
        )

    def _times(self, rows: Sequence[Any]) -> NDArray[np.int64] | None:
        if self._unit is None:
            return None
        return microsecond_column([row.time for row in rows], self._unit)

    def _dimensions(self, rows: Sequence[Any]) -> list[tuple[str, ...]] | None:
        if self._key is None:
            return None
        return list(map(self._texts.__getitem__, map(self._key, rows)))

    def _event_ids(self, rows: Sequence[Any]) -> Sequence[Any] | None:
        if not self._has_event_id:
            return None
        return _TEXT.each([row.event_id for row in rows], "event_id")

    def _users(self, rows: Sequence[Any]) -> list[str | None]:
        users = [row.user for row in rows]
        return list(map(_text_or_none, users)) if int in set(map(type, users)) else users

    def _interactions(self, rows: Sequence[Any]) -> Sequence[Any]:
        if self._shown_only:
            return [()] * len(rows)
        return self._columns([row.interactions for row in rows])

    def _columns(self, lists: list[Any]) -> list[Any]:
        if self._as_text is None:
            return lists
        text = self._as_text
        return [each if type(each) is dict else text.each(each, "") for each in lists]

    def _batch(self, rows: Sequence[Any], users: Sequence[str | None]) -> Batch:
        return Batch(
            recommendations=self._columns([row.recommendations for row in rows]),
            interactions=self._interactions(rows),
            positions=self._optional_column(rows, "positions"),
            scores=self._optional_column(rows, "scores"),
            baselines=self._columns([row.baseline for row in rows])
            if "baseline" in self._mapped
            else None,
            users=None if users.count(None) == len(users) else users,
        )

    def _optional_column(self, rows: Sequence[Any], name: str) -> Any:
        found = [getattr(row, name) for row in rows] if name in self._mapped else []
        return found if any(each is not None for each in found) else None


def row_decoders(
    fields: EventFields, dimensions: Sequence[str], *, shown_only: bool = False
) -> list[RowDecoder]:
    """A decoder of each plain form that the configured fields have, the most usual first."""
    compiled = [
        (form, compile_row(fields, dimensions, form, shown_only=shown_only))
        for form in forms(fields)
    ]
    return [
        RowDecoder(fields, dimensions, form, row, shown_only=shown_only)
        for form, row in compiled
        if row is not None
    ]


def _text_or_none(user: str | int | None) -> str | None:
    return None if user is None else text_id(user, "user")


def _parallel(plain: Callable[[bytes], Any], names: Sequence[str]) -> Callable[[bytes], Any]:
    def decode(value: bytes) -> Any:
        row = plain(value)
        items = len(row.recommendations)
        found = [getattr(row, name) for name in names]
        if any(each is not None and len(each) != items for each in found):
            message = "lists that belong to the list shown differ in length"
            raise msgspec.ValidationError(message)
        return row

    return decode
