"""Rows of recommendations and rows of the truth, joined by user into events."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from streameval.columns import Columns
from streameval.columns.ragged import IntArray
from streameval.tables.arrow import arrow
from streameval.tables.rows import Rows
from streameval.tables.values import Kind, of_one_kind

Ties: TypeAlias = Literal["arrival", "id_desc"]
"""Which of two items with one score stands first: the earlier row, or the larger id."""


def joined(
    shown: Rows, truth: Rows, *, ties: Ties, ids: Kind, scores: bool
) -> tuple[Kind, Columns]:
    """One event for each user of either file, in the order in which they first come.

    A user's items are sorted by their scores, highest first; without scores they stand as in the
    file. A user of the truth alone has an empty list, one of the recommendations alone no
    interaction; a rating is the gain of an interaction.

    Args:
        shown: recommendations.
        truth: what users did.
        ties: which of two items with one score stands first.
        ids: "integer" makes integers of items that are text.
        scores: whether to hand over the scores, too.

    Returns:
        The kind of the items' ids: integers only where both files have them; and the events.

    Raises:
        SourceError: an id is no integer, where integers are wanted.
    """
    users, by_shown, by_truth = _users(shown, truth)
    items, acts = of_one_kind([shown.items, truth.items], ids)
    order, place = _ranked(by_shown, items, shown, ties), np.argsort(by_truth, kind="stable")
    edges, bounds = _offsets(by_shown, users), _offsets(by_truth, users)
    gains = None if truth.worth is None or (truth.worth == 1).all() else truth.worth
    kind: Kind = "integer" if arrow().types.is_integer(items.type) else "string"
    return kind, Columns(
        recommendations=_lists(edges, items.take(order)),
        interactions=_lists(bounds, acts.take(place)),
        gains=None if gains is None else (gains[place], bounds),
        scores=(shown.worth[order], edges) if scores and shown.worth is not None else None,
    )


def _users(shown: Rows, truth: Rows) -> tuple[int, IntArray, IntArray]:
    """How many users there are, and the number of each row's."""
    known = arrow().concat_arrays(of_one_kind([shown.users, truth.users])).dictionary_encode()
    codes = known.indices.to_numpy().astype(np.int64)
    edge = len(shown.users)
    return len(known.dictionary), codes[:edge], codes[edge:]


def _ranked(users: IntArray, items: Any, shown: Rows, ties: Ties) -> IntArray:
    """The rows by user, then by rank."""
    keys = [users]
    if shown.worth is not None:
        keys.insert(0, -shown.worth)
        if ties == "id_desc":
            keys.insert(0, -_standing(items))
    return np.lexsort(keys)


def _standing(items: Any) -> IntArray:
    """Numbers that compare as the ids do; strings by their bytes."""
    known = items.dictionary_encode()
    order = np.empty(len(known.dictionary), np.int64)
    sorted_by_id = arrow("compute").sort_indices(known.dictionary).to_numpy()
    order[sorted_by_id] = np.arange(order.size)
    codes: IntArray = known.indices.to_numpy()
    return order[codes]


def _offsets(users: IntArray, count: int) -> IntArray:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(users, minlength=count))))


def _lists(offsets: IntArray, values: Any) -> Any:
    return arrow().LargeListArray.from_arrays(offsets, values)
