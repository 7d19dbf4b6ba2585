"""Makes events of lists whose window is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from streameval.decoding.columns import Decoded
from streameval.events import Batch, Combine, Interaction, combine_interactions
from streameval.join.attribution import Rules
from streameval.join.open_records import OPTIONAL, ItemNumbers, OpenLists, unpack

_NOTHING: Final = ((), (), False)


def make_events(
    lists: OpenLists, attributed: Sequence[Sequence[Interaction]], items: ItemNumbers, rules: Rules
) -> Decoded:
    """Lists as events, in order.

    `lists`: whose window is over; at least one. `attributed`: the interactions of each.
    """
    combined = [_combine(of_list, rules.combine) if of_list else _NOTHING for of_list in attributed]
    interactions: Any = [by_item for by_item, _, _ in combined]
    if dict not in set(map(type, interactions)):
        # As numbers of items, unless some have gains.
        interactions = items.id_column(items.numbers(interactions))
    typed = [by_type for _, by_type, _ in combined]
    hidden_losses = [hides_loss for _, _, hides_loss in combined]
    optional: dict[str, Any] = {}
    rankers = None
    if any(lists.optional):
        *columns, rankers = map(_present, zip(*map(unpack, lists.optional), strict=True))
        optional = dict(zip(OPTIONAL, columns, strict=True))
    users = _present([user or None for user in lists.users])
    requests = [request or None for request in lists.requests]
    batch = Batch(
        recommendations=items.id_column(lists.items),
        interactions=interactions,
        typed=typed if any(typed) else None,
        hidden_losses=hidden_losses if any(hidden_losses) else None,
        users=users,
        times=lists.times,
        # Ids of lists identify lists without a user.
        event_ids=_present(requests) if rules.needs_users else None,
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


def _combine(
    interactions: Sequence[Interaction], how: Combine
) -> tuple[Any, Sequence[Interaction], bool]:
    """Gains by item, or ids if all gains are 1; interactions by item and type; hidden losses."""
    if len(interactions) == 1:  # most often
        (only,) = interactions
        by_item = [only.item] if only.gain == 1.0 else {only.item: only.gain}
        return by_item, () if only.type is None else (only,), False
    if how == "max":
        # A repeated click without an event id changes no maximum.
        distinct = [*dict.fromkeys(interactions)]
        if len(distinct) == 1:
            return _combine(distinct, how)
    (gains, hides_loss), by_type = combine_interactions(interactions, how)
    all_are_1 = set(gains.values()) == {1.0}
    return list(gains) if all_are_1 else gains, by_type, hides_loss
