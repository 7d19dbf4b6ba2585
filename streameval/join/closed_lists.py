"""Makes events of lists whose window is over."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, Literal

import numpy as np

from streameval.decoding.columns import Decoded
from streameval.events import LARGEST_GAIN, Batch, Id, Interaction, Interactions
from streameval.events.per_item import PerItem
from streameval.events.ragged import IdColumn, Ragged
from streameval.join.impression_buffer import ImpressionBuffer, Parts
from streameval.join.interaction_buffer import InteractionRecord
from streameval.join.open_lists import ImpressionBucket, unpacked

_NOTHING: Final = ((), ())


class ClosedLists:
    """Lists whose window is over, with the interactions attributed to each."""

    def __init__(
        self,
        buffer: ImpressionBuffer,
        rows: Sequence[int],
        attributed: Sequence[Sequence[InteractionRecord]],
    ) -> None:
        self._buffer = buffer
        self._attributed = attributed
        self._parts = [*buffer.by_bucket(rows)]
        self._lists = buffer.lists(self._parts)

    def events(self, how: Literal["max", "sum"]) -> Decoded:
        """The lists as events, in order.

        `how`: how gains of several interactions with one item are combined.
        """
        pairs = [
            combine_interactions(interactions_of_list, how) if interactions_of_list else _NOTHING
            for interactions_of_list in self._attributed
        ]
        interactions = [pair_items for pair_items, _ in pairs]
        typed = (
            [pair_types for _, pair_types in pairs]
            if any(pair_types for _, pair_types in pairs)
            else None
        )
        labels = (np.array(bucket.dimensions)[places].tolist() for bucket, places in self._parts)
        batch = self._batch(interactions, typed)
        return Decoded(
            batch=batch,
            places=range(len(interactions)),
            dimensions=[
                dimension for codes in labels for dimension in self._buffer.labelled(codes)
            ],
            voters=batch.users,
            rankers=self._rankers(),
        )

    def inside(self) -> list[bool]:
        """Whether each interaction, list by list, is with an item of the list."""
        items = [interaction.item for attributed in self._attributed for interaction in attributed]
        if not items:
            return []
        owners = np.repeat(np.arange(len(self._lists)), [*map(len, self._attributed)])
        lists = self._lists.take(owners)
        matches = lists.values == lists.spread(self._buffer.codes(items))
        has_hit = np.zeros(len(items), dtype=np.bool_)
        has_hit[lists.owners(np.flatnonzero(matches))] = True
        return has_hit.tolist()

    def _batch(self, interactions: list[Any], typed: Any) -> Batch:
        buffer, parts = self._buffer, self._parts
        times = [np.array(bucket.times, dtype=np.int64)[places] for bucket, places in parts]
        return Batch(
            recommendations=IdColumn(self._lists, buffer.names),
            interactions=self._numbered(interactions),
            typed=typed,
            positions=_optional(parts, "positions", _positions),
            scores=_optional(parts, "scores", _scores),
            baselines=_optional(parts, "baselines", _baseline(buffer)),
            histories=_optional(parts, "histories", _history(buffer)),
            per_item=_optional(parts, "per_item", _item_values),
            users=_optional(parts, "users", _user),
            times=np.concatenate(times),
            event_ids=_requests(parts),
        )

    def _rankers(self) -> list[list[list[Id]]] | None:
        """The lists of the rankers that were not shown; None without rankers."""
        if not any(bucket.rankers for bucket, _ in self._parts):
            return None
        named = self._buffer.named
        return [
            list(map(named, bucket.rankers[place]))
            for bucket, places in self._parts
            for place in places
        ]

    def _numbered(self, interactions: list[Any]) -> Sequence[Interactions]:
        """Interactions as numbers of items, unless some have gains."""
        if dict in set(map(type, interactions)):
            return interactions
        codes = self._buffer.codes(chain.from_iterable(interactions))
        lengths = np.fromiter(map(len, interactions), np.int64, len(interactions))
        return IdColumn(Ragged.of_lengths(codes, lengths), self._buffer.names)


def combine_interactions(
    interactions: Sequence[InteractionRecord], how: Literal["max", "sum"]
) -> tuple[Any, Any]:
    """Gains by item, or ids if all gains are 1; and interactions by item and type."""
    if len(interactions) == 1:  # most often
        return _single(interactions[0])
    gains: dict[Id, list[float]] = {}
    typed: dict[tuple[Id, str | None], list[float]] = {}
    for interaction in interactions:
        gains.setdefault(interaction.item, []).append(interaction.gain)
        typed.setdefault((interaction.item, interaction.type), []).append(interaction.gain)
    combine = max if how == "max" else _sum
    by_item = {item: combine(gain) for item, gain in gains.items()}
    by_type = tuple(
        Interaction(item, combine(gains_of_pair), kind)
        for (item, kind), gains_of_pair in typed.items()
    )
    has_types = any(interaction.type is not None for interaction in by_type)
    plain = set(by_item.values()) == {1.0}
    return (list(by_item) if plain else by_item), (by_type if has_types else ())


def _sum(gains: Sequence[float]) -> float:
    """The sum, rounded once and limited to the largest gain."""
    return max(-LARGEST_GAIN, min(LARGEST_GAIN, math.fsum(gains)))


def _single(interaction: InteractionRecord) -> tuple[Any, Any]:
    gains = [interaction.item] if interaction.gain == 1.0 else {interaction.item: interaction.gain}
    return gains, () if interaction.type is None else (
        Interaction(interaction.item, interaction.gain, interaction.type),
    )


def _optional(
    parts: Parts,
    name: str,
    read: Callable[[ImpressionBucket, int], Any],
) -> list[Any] | None:
    """An optional column; None if no list has it."""
    if not any(getattr(bucket, name) for bucket, _ in parts):
        return None
    column = [read(bucket, place) for bucket, places in parts for place in places]
    return column if any(value is not None for value in column) else None


def _user(bucket: ImpressionBucket, place: int) -> str | None:
    return bucket.users[place] or None if bucket.users else None


def _requests(parts: Parts) -> list[Any] | None:
    """Ids of lists, which identify lists without a user."""
    users = any(bucket.users for bucket, _ in parts)
    return _optional(parts, "requests", _request) if users else None


def _request(bucket: ImpressionBucket, place: int) -> str | None:
    return bucket.requests[place] or None if bucket.users and bucket.requests else None


def _positions(bucket: ImpressionBucket, place: int) -> list[int] | None:
    ranks = bucket.positions[bucket.span(place)].tolist()
    return ranks if ranks and ranks[0] else None


def _scores(bucket: ImpressionBucket, place: int) -> list[float] | None:
    scores = bucket.scores[bucket.span(place)].tolist()
    return scores if scores and not math.isnan(scores[0]) else None


def _item_values(bucket: ImpressionBucket, place: int) -> PerItem | None:
    return unpacked(bucket.per_item[place]) if bucket.per_item else None


def _baseline(buffer: ImpressionBuffer) -> Callable[[ImpressionBucket, int], list[Id] | None]:
    def read(bucket: ImpressionBucket, place: int) -> list[Id] | None:
        return buffer.named(bucket.baselines[place]) if bucket.baselines else None

    return read


def _history(buffer: ImpressionBuffer) -> Callable[[ImpressionBucket, int], list[Id] | None]:
    def read(bucket: ImpressionBucket, place: int) -> list[Id] | None:
        history = bucket.histories[place] if bucket.histories else None
        return None if history is None else buffer.named(history)

    return read
