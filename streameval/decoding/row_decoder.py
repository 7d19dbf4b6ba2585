"""The row decoder: decodes and checks a record with lists of ids by one call into C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from msgspec import Meta

from streameval.decoding.columns import Decoded
from streameval.decoding.fields import MAX_HISTORY, EventFields, TimeUnit
from streameval.decoding.framing import BatchDecoder
from streameval.decoding.paths import FAILURES, is_top_level
from streameval.decoding.times import TIME_TYPES, microsecond_column
from streameval.decoding.values import MAX_ID_BYTES, MAX_LABEL_BYTES, Ids, label_texts, text_id
from streameval.events import LARGEST_GAIN, LARGEST_RANK, Batch, Combine, combine_gains
from streameval.events.ids import IdKind
from streameval.events.rules import IGNORED, RESERVED
from streameval.events.times import outside_range
from streameval.statistics.kernel import match
from streameval.statistics.matching import Search

INTEGER: Final = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""64-bit integers; the general decoder handles larger ones."""

_GAIN = Annotated[float, Meta(ge=-LARGEST_GAIN, le=LARGEST_GAIN)]
_RANK = Annotated[int, Meta(ge=1, le=LARGEST_RANK)]
_TEXT = Ids("string")

_texts: Callable[[tuple[Any, ...]], tuple[str, ...]] = lru_cache(4_096)(label_texts)


class RowDecoder:
    """Decodes records whose lists have ids instead of objects; `general` is its fallback.

    `row`: see `row_type`. `search`: how lists are searched for hits; None if records hold
    recommendations only.
    """

    def __init__(
        self,
        fields: EventFields,
        row: type[msgspec.Struct],
        search: Search | None,
        general: BatchDecoder[Decoded],
    ) -> None:
        self._search, self._general = search, general
        self._unit: TimeUnit | None = fields.time_unit
        self._how: Combine = fields.combine
        self._are_text = fields.ids == "string"
        self._kind: IdKind = "text" if self._are_text else "integer"
        self._decode: Callable[[Any], Any] = msgspec.json.Decoder(row).decode
        self._names = row.__struct_fields__
        self._dimensions = self._slots("labels_")
        self._rankers = self._slots("rankers_")
        self._per_item = dict(zip(self._slots("per_item_"), fields.per_item or (), strict=True))
        others = ("baseline", "history", *self._rankers)
        self._other_ids = [name for name in others if name in self._names]
        ranked = ("positions", "scores", *self._per_item)
        self._ranked = [name for name in ranked if name in self._names]

    def decode_many(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode a batch of records to columns, with the hits of the rows that it decodes."""
        rows, others = list[Any](), list[int]()
        decode, append = self._decode, rows.append  # looked up once: this is the hot loop
        for index, value in enumerate(values):
            try:
                append(decode(value))
            except (TypeError, *FAILURES):  # a tombstone raises TypeError
                others.append(index)
        indices: Sequence[int] = range(len(values))
        if others:
            indices = np.delete(np.arange(len(values)), others).tolist()
        decoded = self._columns(rows, indices) if rows else None
        fallback = [] if decoded is None else self._fallback_rows(rows, decoded.batch)
        if decoded is None or len(fallback) == len(rows):
            return self._general.decode_many(values)
        if fallback:
            decoded = decoded.take(np.delete(np.arange(len(rows)), fallback))
            others = sorted([*others, *(indices[row] for row in fallback)])
        if not others:
            return decoded
        return decoded.with_others(
            self._general.decode_many([values[index] for index in others]), others
        )

    def _columns(self, rows: Sequence[Any], indices: Sequence[int]) -> Decoded:
        users = self._column(rows, "user")
        if users is not None:
            if int in set(map(type, users)):
                users = [None if user is None else text_id(user, "user") for user in users]
            # Protobuf and many producers write an unknown user as an empty text.
            users = [user or None for user in users] if "" in users else users
        event_ids: Any = self._column(rows, "event_id")
        if event_ids is not None:
            event_ids = _TEXT.ids_of(event_ids, "event_id")
        per_item = [
            {
                name: values
                for slot, name in self._per_item.items()
                if (values := getattr(row, slot)) is not None
            }
            or None
            for row in rows
        ]
        times = self._column(rows, "time")
        interacted, hidden_losses = self._interactions(rows)
        batch = Batch(
            recommendations=[row.recommendations for row in rows],
            interactions=interacted,
            hidden_losses=hidden_losses if any(hidden_losses) else None,
            positions=self._column(rows, "positions"),
            scores=self._column(rows, "scores"),
            baselines=self._ids(rows, "baseline"),
            histories=self._ids(rows, "history"),
            per_item=per_item if any(per_item) else None,
            users=users if users and any(users) else None,
            times=microsecond_column(times, self._unit) if times and self._unit else None,
            event_ids=event_ids,
        )
        depth, every = (self._search or Search()).of(batch)
        lists: Sequence[Any] = batch.recommendations
        interactions: Sequence[Any] = batch.interactions
        matches = match(lists, interactions, self._kind, depth, every=every)
        if self._are_text and matches.skipped.size:
            # Some may be skipped only because of their integers.
            lists = list(map(_as_text, lists))
            interactions = list(map(_as_text, interactions))
            matches = match(lists, interactions, self._kind, depth, every=every)
        labels = [[getattr(row, slot) for row in rows] for slot in self._dimensions]
        rankers = [self._ids(rows, slot) for slot in self._rankers]
        return Decoded(
            batch=msgspec.structs.replace(
                batch, recommendations=lists, interactions=interactions, matches=matches
            ),
            indices=indices,
            dimensions=list(map(_texts, zip(*labels, strict=True))) if labels else None,
            rankers=list(zip(*rankers, strict=True)) if rankers else None,
        )

    def _interactions(self, rows: Sequence[Any]) -> tuple[Sequence[Any], Sequence[bool]]:
        """The interactions of each row with their gains, and which rows hide losses."""
        interactions = self._column(rows, "interactions") or [()] * len(rows)
        if self._column(rows, "gains") is None:
            return interactions, ()
        combined: list[tuple[Any, bool]] = [
            combine_gains(zip(ids, row.gains, strict=True), self._how)
            if self._has_gain_per_id(row)
            else (ids, False)
            for row, ids in zip(rows, interactions, strict=True)
        ]
        return [ids for ids, _ in combined], [hides_loss for _, hides_loss in combined]

    def _has_gain_per_id(self, row: Any) -> bool:
        """True if a row has one gain for each id, and no padding."""
        ids, gains = row.interactions, row.gains
        if gains is None or type(ids) is not list or len(ids) != len(gains):
            return False
        is_text = not self._are_text or set(map(type, ids)) <= {str}
        return is_text and RESERVED.isdisjoint(ids)

    def _fallback_rows(self, rows: Sequence[Any], batch: Batch) -> list[int]:
        """The rows with padding, marks, wrong lengths or invalid times, ascending.

        The general decoder decodes them again, and gives the reasons of invalid ones.
        """
        fallback = set[int]() if batch.matches is None else set(batch.matches.skipped.tolist())
        if batch.times is not None:
            fallback.update(outside_range(batch.times).tolist())
        if "gains" in self._names:
            fallback.update(
                at
                for at, row in enumerate(rows)
                if row.gains is not None
                and (type(row.interactions) is dict or type(batch.interactions[at]) is not dict)
            )
        for name in self._other_ids:
            lists = [getattr(row, name) or () for row in rows]
            fallback.update(at for at, ids in enumerate(lists) if not RESERVED.isdisjoint(ids))
        for name in self._ranked:
            columns = enumerate(getattr(row, name) for row in rows)
            fallback.update(
                at
                for at, column in columns
                if column is not None and len(column) != len(rows[at].recommendations)
            )
        return sorted(fallback)

    def _slots(self, prefix: str) -> list[str]:
        return [name for name in self._names if name.startswith(prefix)]

    def _column(self, rows: Sequence[Any], name: str) -> Any:
        """A column; None if it is not configured, or no row has a value."""
        column = [getattr(row, name) for row in rows] if name in self._names else []
        return column if any(value is not None for value in column) else None

    def _ids(self, rows: Sequence[Any], name: str) -> Any:
        """A column of lists of ids that are not searched for hits."""
        lists = self._column(rows, name)
        every = chain.from_iterable(filter(None, lists or ()))
        return (
            list(map(_as_text, lists)) if self._are_text and int in set(map(type, every)) else lists
        )


def _as_text(ids: Any) -> Any:
    """Ids as text; a list with `IGNORED` unchanged, since as text it would pass as an id."""
    return ids if type(ids) is not list or IGNORED in ids else _TEXT.ids_of(ids, "")


def row_type(
    fields: EventFields, dimensions: Sequence[str], *, recommendations_only: bool
) -> type[msgspec.Struct] | None:
    """A Struct of the fields of records that `RowDecoder` decodes.

    Its attributes are the keys of `EventFields.paths`, numbered in tables (`labels_5`). Returns
    None if a path is nested, two fields share a path, or interactions need a type: the general
    decoder decodes such records.
    """
    text, identity = short_text(MAX_ID_BYTES), short_text(MAX_ID_BYTES, 1) | INTEGER
    # An empty text is padding, which the general decoder removes.
    item = identity if fields.ids == "string" else INTEGER
    id_list, interaction_list = (
        _list_of(item, most) for most in (fields.max_recommendations, fields.max_interactions)
    )
    if fields.ids == "string":  # keys of JSON objects are text
        interaction_list |= _gains_of(short_text(MAX_ID_BYTES, 1), fields.max_interactions)
    word: Any = short_text(MAX_LABEL_BYTES)
    # With a default, the field is optional.
    kinds: dict[str, tuple[Any, ...]] = {
        "recommendations": (id_list,),
        "interactions": (interaction_list,),
        "user": (text | INTEGER | None, None),
        "time": (TIME_TYPES[fields.time_unit or "s"],),
        "event_id": (identity,),
        "positions": (list[_RANK] | None, None),
        "scores": (list[float],),
        "baseline": (id_list,),
        "history": (_list_of(item, MAX_HISTORY) | None, None),
        "gains": (list[_GAIN] | None, None),
        "per_item": (list[float | word | None] | None, None),
        "rankers": (id_list,),
        "labels": (word | INTEGER | None, None),  # `label_texts` makes text of it
    }
    columns, paths = list[Any](), dict[str, str]()
    for number, (key, path) in enumerate(fields.paths(dimensions)):
        kind, in_table, _ = key.partition(".")
        name = f"{kind}_{number}" if in_table else key
        if name not in ("interactions", "gains") or not recommendations_only:
            columns.append((name, *kinds[kind]))
            paths[name] = path
    is_typed = fields.types is not None and not recommendations_only
    if (
        is_typed
        or len(set(paths.values())) < len(paths)
        or not all(map(is_top_level, paths.values()))
    ):
        return None
    return msgspec.defstruct("Row", columns, rename=paths, gc=False, frozen=True, kw_only=True)


def _list_of(item: Any, most: int) -> Any:
    return Annotated[list[item], Meta(max_length=most)]


def _gains_of(item: Any, most: int) -> Any:
    return Annotated[dict[item, _GAIN], Meta(max_length=most)]


def short_text(most: int, least: int = 0) -> Any:
    """Text that has at most `most` bytes for certain; the general decoder measures longer text.

    msgspec counts characters, and a character has up to four bytes.
    """
    return Annotated[str, Meta(min_length=least, max_length=most // 4)]
