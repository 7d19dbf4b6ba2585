"""Makes events of lists whose window is over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np

from streameval.decoding.columns import Decoded
from streameval.events import LARGEST_GAIN, Batch, Id, Interaction
from streameval.join.open_records import OPTIONAL, ItemNumbers, OpenLists, unpack
from streameval.join.options import Rules

_NOTHING: Final = ((), ())


def closed_events(
    lists: OpenLists, attributed: Sequence[Sequence[Interaction]], items: ItemNumbers, rules: Rules
) -> Decoded:
    """Lists as events, in order.

    `lists`: whose window is over; at least one. `attributed`: the interactions of each.
    """
    combined = [
        combine_interactions(of_list, rules.combine) if of_list else _NOTHING
        for of_list in attributed
    ]
    interactions: Any = [by_item for by_item, _ in combined]
    if dict not in set(map(type, interactions)):
        # As numbers of items, unless some have gains.
        interactions = items.named(items.numbers(interactions))
    typed = [by_type for _, by_type in combined]
    optional, rankers = dict[str, Any](), None
    if any(lists.optional):
        *columns, rankers = map(_present, zip(*map(unpack, lists.optional), strict=True))
        optional = dict(zip(OPTIONAL, columns, strict=True))
    users = _present([user or None for user in lists.users])
    requests = [request or None for request in lists.requests]
    batch = Batch(
        recommendations=items.named(lists.items),
        interactions=interactions,
        typed=typed if any(typed) else None,
        users=users,
        times=lists.times,
        # Ids of lists identify lists without a user.
        event_ids=_present(requests) if rules.keeps_users else None,
        **optional,
    )
    return Decoded(
        batch=batch,
        indices=range(len(batch)),
        dimensions=lists.dimensions,
        voters=users,
        rankers=rankers and [of_list or [] for of_list in rankers],
    )


def _present(column: Sequence[Any]) -> list[Any] | None:
    """An optional column; None if no list has it."""
    return [*column] if any(value is not None for value in column) else None


def are_inside(
    lists: OpenLists, attributed: Sequence[Sequence[Interaction]], items: ItemNumbers
) -> list[bool]:
    """Whether each interaction, list by list, is with an item of the list."""
    numbers = items.number(interaction.item for of_list in attributed for interaction in of_list)
    if not numbers.size:
        return []
    owners = np.repeat(np.arange(len(lists)), [*map(len, attributed)])
    items_of_lists = lists.items.take(owners)
    matches = items_of_lists.values == items_of_lists.spread(numbers)
    inside = np.zeros(numbers.size, dtype=np.bool_)
    inside[items_of_lists.owners(np.flatnonzero(matches))] = True
    return inside.tolist()


def combine_interactions(
    interactions: Sequence[Interaction], how: Literal["max", "sum"]
) -> tuple[Any, Any]:
    """Gains by item, or ids if all gains are 1; and interactions by item and type."""
    if len(interactions) == 1:  # most often
        (only,) = interactions
        by_item = [only.item] if only.gain == 1.0 else {only.item: only.gain}
        return by_item, () if only.type is None else (only,)
    gains: dict[Id, list[float]] = {}
    typed: dict[tuple[Id, str | None], list[float]] = {}
    for interaction in interactions:
        gains.setdefault(interaction.item, []).append(interaction.gain)
        typed.setdefault((interaction.item, interaction.type), []).append(interaction.gain)
    combine = max if how == "max" else _sum
    combined = {item: combine(gain) for item, gain in gains.items()}
    by_type = tuple(
        Interaction(item, combine(gains_of_pair), kind)
        for (item, kind), gains_of_pair in typed.items()
    )
    has_types = any(interaction.type is not None for interaction in by_type)
    plain = set(combined.values()) == {1.0}
    return (list(combined) if plain else combined), (by_type if has_types else ())


def _sum(gains: Sequence[float]) -> float:
    """The sum, rounded once and limited to the largest gain."""
    return max(-LARGEST_GAIN, min(LARGEST_GAIN, math.fsum(gains)))
