"""An event: a list shown to a user, and the interactions with it."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

import msgspec

from streameval.events.errors import InvalidEventError
from streameval.events.gains import Combine, CombinedGains, combine_gains
from streameval.events.per_item import PerItem

Id: TypeAlias = str | int
"""An item or user id; all ids of an Accumulator are of one kind."""

Interactions: TypeAlias = (
    Sequence[Id] | AbstractSet[Id] | Mapping[Id, float] | Mapping[str, float] | Mapping[int, float]
)
"""Items interacted with (each counts 1), or item -> gain (relevant where the gain is above 0)."""


def built_in_id(item: Id) -> Id:
    """The id as a built-in str or int, not as a subtype of numpy or an enumeration.

    Raises:
        InvalidEventError: it is neither a string nor an integer.

    Example:
        >>> import numpy as np
        >>> built_in_id(np.int64(5))
        5
    """
    if isinstance(item, str):
        # Not str(item), which an enumeration of texts overrides with the name of the member.
        return str.__str__(item)
    try:
        return operator.index(item)
    except TypeError:
        detail = f"an item id is {item!r:.80}; ids are strings or integers"
        raise InvalidEventError("wrong_type", detail) from None


LARGEST_RANK = 2**31 - 1
"""Largest position, cut-off and list length, so that tables of ranks fit into integers."""


class Interaction(msgspec.Struct, frozen=True, gc=False):
    """One logged interaction: item, gain and type.

    Attributes:
        item: the item's id.
        gain: any number up to 2^1000.
        type: for example "click" or "purchase"; None if the stream has no types.

    Example:
        >>> Interaction("tea", gain=12.5, type="purchase").type
        'purchase'
    """

    item: Id
    gain: float = 1.0
    type: str | None = None


class Event(msgspec.Struct, kw_only=True, gc=False, repr_omit_defaults=True):
    """One list with its interactions.

    Attributes:
        recommendations: item ids as shown, rank 1 first, with repeats.
        interactions: of the user: item ids, or item id -> gain.
        user: who saw the list; None if unknown.
        ts: event time in microseconds since the epoch; None if the stream has no time.
        labels: values of the configured labels, in their order.
        positions: rank (from 1) of each item; None means 1, 2, 3, ...
        scores: the recommender's score of each item; they never reorder the list.
        typed: the interactions with their types; empty if the stream has no types.
        baseline: the list of another recommender; None if unknown.
        history: items that the user knew before this list; None if unknown.
        per_item: name -> one number, word or None for each item shown; None if there are none.
        shown_instead: the list shown instead of these recommendations; None if they were shown.
        event_id: identity of the event; None if the stream has none.

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("hit_rate@1")
        >>> accumulator.update_many([Event(recommendations=["tea", "milk"], interactions={"tea"})])
        >>> accumulator.read("hit_rate@1").value
        1.0
    """

    recommendations: Sequence[Id]
    interactions: Interactions
    user: Id | None = None
    ts: int | None = None
    labels: tuple[str, ...] = ()
    positions: Sequence[int] | None = None
    scores: Sequence[float] | None = None
    typed: Sequence[Interaction] = ()
    baseline: Sequence[Id] | None = None
    history: Sequence[Id] | None = None
    per_item: PerItem | None = None
    shown_instead: Sequence[Id] | None = None
    event_id: str | None = None


def gains_of_type(typed: Iterable[Interaction], name: str) -> dict[Id, float]:
    """Item -> the largest gain of its interactions of one type.

    Example:
        >>> gains_of_type([Interaction("tea", type="buy"), Interaction("milk", type="view")], "buy")
        {'tea': 1.0}
    """
    return combine_gains(
        (interaction.item, interaction.gain) for interaction in typed if interaction.type == name
    ).by_item


def combine_interactions(
    interactions: Sequence[Interaction], how: Combine
) -> tuple[CombinedGains, tuple[Interaction, ...]]:
    """Combine the gains of each item, and those of each item and type.

    Returns:
        The gains by item; one interaction for each item and type, empty if none has a type.
    """
    combined = combine_gains(
        ((interaction.item, interaction.gain) for interaction in interactions), how
    )
    if all(interaction.type is None for interaction in interactions):
        return combined, ()
    pairs: Any = (
        ((interaction.item, interaction.type), interaction.gain) for interaction in interactions
    )
    by_type: Mapping[Any, float] = combine_gains(pairs, how).by_item
    return combined, tuple(Interaction(item, gain, kind) for (item, kind), gain in by_type.items())
