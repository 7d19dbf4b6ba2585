"""Decodes interactions to columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from streameval.decoding.fields import EventFields, TimeUnit
from streameval.decoding.invalid import InvalidEvent, Refusal, invalid_of
from streameval.decoding.paths import FAILURES, TopLevel, compile_path, is_top_level
from streameval.decoding.row_decoder import INTEGER, short_text
from streameval.decoding.times import TIME_TYPES, check_time, microsecond_column
from streameval.decoding.values import MAX_ID_BYTES, MAX_LABEL_BYTES, Ids, check_bytes, finite
from streameval.events import LARGEST_GAIN, Id
from streameval.events.batch import ColumnSet
from streameval.events.errors import ConfigError, InvalidEventError
from streameval.events.previews import preview
from streameval.events.rules import RESERVED, check_id, check_not_ignored
from streameval.events.times import END_MOMENT, FIRST_MOMENT
from streameval.join.attribution import (
    AttributionKey,
    InteractionOptions,
    counts_type,
    is_unnamed,
)

_GAIN: Final[Any] = Annotated[float, Meta(ge=-LARGEST_GAIN, le=LARGEST_GAIN)]


class InteractionColumns(ColumnSet, frozen=True, kw_only=True, eq=False):
    """Decoded interactions.

    Attributes:
        keys: request id or user of each interaction.
        counts: whether its type counts.
        unnamed: whether neither `types` nor `ignore` names its type, which does not count then.
        indices, voters, invalid, tombstones: as in `Decoded`.
    """

    constants: ClassVar[frozenset[str]] = frozenset({"invalid", "tombstones"})

    indices: NDArray[np.int64]
    times: NDArray[np.int64]
    keys: Sequence[str]
    items: Sequence[Id]
    types: Sequence[str | None]
    gains: Sequence[float]
    counts: NDArray[np.bool_]
    unnamed: NDArray[np.bool_]
    event_ids: Sequence[str] | None
    voters: Sequence[str | int | bytes | None] | None = None
    invalid: Sequence[tuple[int, InvalidEvent]] = ()
    tombstones: Sequence[int] = ()


class InteractionDecoder:
    """Decodes records of interactions; compiled once from the configured fields.

    Example:
        >>> options = InteractionOptions(source="clicks")
        >>> event = EventFields(time="ts", time_unit="s")
        >>> decoder = InteractionDecoder(options, event, "request_id")
        >>> record = b'{"request_id": "r1", "item": 7, "ts": 1.5, "type": "click"}'
        >>> decoded = decoder.decode_many([record, b"{}"])
        >>> decoded.keys, decoded.items, decoded.times, decoded.invalid[0][1].reason
        (['r1'], ['7'], array([1500000]), 'missing_field')
    """

    def __init__(
        self, options: InteractionOptions, event: EventFields, key: AttributionKey
    ) -> None:
        self._options = options
        self._unit: TimeUnit = options.time_unit or event.time_unit or "s"
        self._ids = Ids(event.ids)
        self._names = Ids("string")
        mapped = {
            "key": options.request_id if key == "request_id" else options.user or event.user,
            "item": options.item,
            "time": options.time or event.time or "",
            "type": options.type,
            "gain": options.gain,
            "event_id": options.event_id,
        }
        paths = {name: path for name, path in mapped.items() if path is not None}
        try:
            self._paths = {
                name: compile_path(path, key if name == "key" else name)
                for name, path in paths.items()
            }
        except ConfigError as error:
            where = "[[attribution.interactions]]"
            raise ConfigError(where, error.key, error.problem) from None
        self._general = TopLevel(path.key for path in self._paths.values()).parse
        is_direct = all(map(is_top_level, paths.values())) and len(set(paths.values())) == len(
            paths
        )
        rename = paths if is_direct else None
        self._row = msgspec.defstruct("Row", self._kinds(event), rename=rename, gc=False)
        self._fast = msgspec.json.Decoder(self._row).decode if is_direct else self._slow

    def decode_many(self, values: Sequence[bytes | None]) -> InteractionColumns:
        """Decode a batch of records to columns; never raises for invalid bytes."""
        rows: list[Any] = []
        indices: list[int] = []
        invalid: list[tuple[int, InvalidEvent]] = []
        tombstones: list[int] = []
        for index, value in enumerate(values):
            if value is None:
                tombstones.append(index)
                continue
            try:
                rows.append(self._decode(value))
            except Refusal as refusal:
                invalid.append((index, refusal.invalid))
            except InvalidEventError as error:
                invalid.append((index, invalid_of(error)))
            else:
                indices.append(index)
        return self._columns(rows, indices, invalid=invalid, tombstones=tombstones)

    def _decode(self, value: bytes) -> Any:
        try:
            row: Any = self._fast(value)
        except FAILURES:
            row = self._slow(value)
        else:
            # The range of numbers was checked in C.
            if self._unit == "iso8601" and not FIRST_MOMENT <= row.time < END_MOMENT:
                row = self._slow(value)
        if row.item in RESERVED:
            check_id(self._options.item, row.item)
        if self._options.types and row.type is None:
            raise Refusal("missing_field", f"{self._options.type} is absent or null")
        return row

    def _slow(self, value: bytes) -> Any:
        record = self._general(value)
        fields = {name: path.of(record) for name, path in self._paths.items()}
        for name in ("key", "item", "time", "event_id"):
            if name in fields and fields[name] is None:
                raise Refusal("missing_field", f"{self._paths[name].text} is absent or null")
        fields["key"] = self._names.identity(fields["key"], self._paths["key"].text)
        check_not_ignored(self._paths["item"].text, [fields["item"]])
        fields["item"] = self._ids.id_of(fields["item"], self._paths["item"].text)
        fields["time"] = check_time(fields["time"], self._unit, self._paths["time"].text)
        if fields["type"] is not None and type(fields["type"]) is not str:
            problem = f"{self._options.type}: {preview(fields['type'])} is not a string"
            raise Refusal("wrong_type", problem)
        if fields["type"] is not None:
            check_bytes(fields["type"], MAX_LABEL_BYTES, self._options.type, "label_too_long")
        if fields.get("gain") is not None:
            fields["gain"] = finite(fields["gain"], self._paths["gain"].text, "invalid_gain")
        if "event_id" in fields:
            path = self._paths["event_id"].text
            fields["event_id"] = self._names.identity(fields["event_id"], path)
        return self._row(**fields)

    def _columns(self, rows: list[Any], indices: list[int], **refused: Any) -> InteractionColumns:
        options, types = self._options, [row.type for row in rows]
        gains = [float(options.types.get(kind or "", 1.0)) for kind in types]
        if options.gain is not None:
            pairs = zip(gains, rows, strict=True)
            gains = [of_type if row.gain is None else row.gain for of_type, row in pairs]
        by_type = {kind: counts_type(options, kind) for kind in set(types)}
        unnamed = {kind for kind in by_type if is_unnamed(options, kind)}
        has_ids = options.event_id is not None
        return InteractionColumns(
            indices=np.array(indices, dtype=np.int64),
            times=microsecond_column([row.time for row in rows], self._unit),
            keys=[str(row.key) for row in rows],
            items=self._ids.ids_of([row.item for row in rows], options.item),
            types=types,
            gains=gains,
            event_ids=[str(row.event_id) for row in rows] if has_ids else None,
            counts=np.array([by_type[kind] for kind in types], dtype=np.bool_),
            unnamed=np.array([kind in unnamed for kind in types], dtype=np.bool_),
            **refused,
        )

    def _kinds(self, event: EventFields) -> list[tuple[Any, ...]]:
        name = short_text(MAX_ID_BYTES) | INTEGER
        identity = short_text(MAX_ID_BYTES, 1) | INTEGER
        kinds: list[tuple[Any, ...]] = [
            ("key", identity),
            ("item", name if event.ids == "string" else INTEGER),
            ("time", TIME_TYPES[self._unit]),
            ("event_id", identity),
            ("gain", _GAIN | None, None),
            ("type", short_text(MAX_LABEL_BYTES) | None, None),
        ]
        return [kind for kind in kinds if kind[0] in self._paths]
