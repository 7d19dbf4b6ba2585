"""The rules of every list of ids, however it arrives: padding, and marks instead of ids.

Functions raise InvalidEventError for a list that breaks a rule.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np

from streameval.events.errors import InvalidEventError
from streameval.events.event import Event, Id
from streameval.events.per_item import item_values

PADDING: Final[frozenset[Id]] = frozenset({-1, "-1", ""})
"""Entries that fill up a list shorter than others. Integers become text in a log, so "-1" too."""

IGNORED: Final = -100
"""Target that losses of PyTorch and Hugging Face ignore; it must not count as an item."""

MARKS: Final[frozenset[Id]] = frozenset({0, 1, "0", "1"})
"""Labels of a classifier: 0 without an interaction, 1 with one."""

RESERVED: Final[frozenset[Id]] = PADDING | {IGNORED}

FEWEST_MARKED: Final = 10
"""Rows from which marks beside lists that show an item 0 or 1 are not an accident."""

_MANY_MARKS: Final = 10
"""From so many interactions on, all with item 0 or 1, they are one mark per catalogue item."""


LONGEST_LIST: Final = 1_000_000
"""Most items of a list from a file, a table or a frame; records have limits of their own."""


def refuse_long(where: str, lengths: np.ndarray[tuple[Any, ...], np.dtype[np.int64]]) -> None:
    """Refuse lists that are too long, before a number is looked up for each of their items."""
    if lengths.size and int(lengths.max()) > LONGEST_LIST:
        kind = "interactions" if where == "interactions" else "recommendations"
        row = int(lengths.argmax())
        detail = f"{where}[{row}] has {lengths[row]:,} items, more than {LONGEST_LIST:,}"
        raise InvalidEventError(f"too_many_{kind}", detail)


def end_of(ids: Sequence[Id]) -> int:
    """The number of ids before the padding at the end.

    Example:
        >>> end_of([7, 8, -1, -1]), end_of(["a", ""]), end_of([7]), end_of([-1])
        (2, 1, 1, 0)
    """
    end = len(ids)
    # An entry that is no id, and may not be hashable, is refused elsewhere.
    while end and isinstance(ids[end - 1], Hashable) and ids[end - 1] in PADDING:
        end -= 1
    return end


def without_padding(where: str, ids: Any) -> Any:
    """The ids without the padding at their end; only a sequence has an end."""
    if RESERVED.isdisjoint(ids):
        return ids
    if isinstance(ids, Sequence):
        ids = ids[: end_of(ids)]
    for item in ids:
        check_id(where, item)
    return ids


def check_not_ignored(where: str, items: Sequence[object]) -> None:
    """Refuse `IGNORED` among raw items; text is never equal to it."""
    if IGNORED in items:
        remedy = "end shorter lists with -1, and drop ignored rows"
        raise InvalidEventError("invalid_id", f"{where}: {IGNORED} is not an item; {remedy}")


def check_id(where: str, item: Id) -> None:
    """Refuse an id that is padding, or that losses ignore."""
    check_not_ignored(where, [item])
    if item in PADDING:
        raise misplaced_error(where)


def misplaced_error(where: str) -> InvalidEventError:
    """The error for padding before an item, or in a collection without an order."""
    what = "-1, an empty text or a masked entry only ends a list"
    return InvalidEventError("invalid_id", f"{where} has an item after the end of its list; {what}")


def are_marks(recommendations: Collection[Id], interactions: Iterable[Id]) -> bool:
    """True if interactions are a 0 or 1 for each item shown, instead of ids.

    They are taken for ids if all of them are equal or distinct, or if the list has item 0 or 1.

    Example:
        >>> are_marks([7, 8, 9], [0, 1, 0]), are_marks([7, 8, 1], [0, 1, 0])
        (True, False)
        >>> are_marks([7, 8], [0, 1]), are_marks([7, 8, 9], [1, 1, 1])
        (False, False)
    """
    if not isinstance(interactions, Sequence) or not MARKS.issuperset(interactions):
        return False
    has_mark_per_item = 1 < len(set(interactions)) < len(interactions) == len(recommendations)
    return has_mark_per_item and MARKS.isdisjoint(recommendations)


def are_marks_throughout(recommendations: Sequence[Any], interactions: Sequence[Any]) -> bool:
    """True if each of many lists has a 0 or 1 for each of its items, or of a catalogue."""

    def could_be_marks(items: Collection[Id], interacted: Any) -> bool:
        if not isinstance(interacted, Sequence) or not MARKS.issuperset(interacted):
            return False
        return len(interacted) == len(items) > 1 or len(interacted) >= _MANY_MARKS

    return (
        len(recommendations) >= FEWEST_MARKED
        and all(map(could_be_marks, recommendations, interactions))
        and not all(map(MARKS.issuperset, recommendations))
        and len(set(map(str, chain.from_iterable(interactions)))) > 1
    )


def marks_error(where: str) -> InvalidEventError:
    """The error for marks instead of ids."""
    problem = f"{where} have a 0 or 1 for each recommendation or item"
    return InvalidEventError("wrong_type", f"{problem}; give the ids of the items chosen")


def validate_event(event: Event) -> Event:
    """An event without padding; its ids are built-in strings and integers."""
    recommendations = without_padding("recommendations", event.recommendations)
    end, padded = len(recommendations), len(event.recommendations)
    interactions = _validate_ids("interactions", event.interactions)
    if are_marks(recommendations, interactions):
        raise marks_error("interactions")
    for interaction in event.typed:
        check_id("typed", interaction.item)
    return msgspec.structs.replace(
        event,
        recommendations=recommendations,
        interactions=interactions,
        positions=_cut(event.positions, end),
        scores=_cut(event.scores, end),
        baseline=_validate_ids("baseline", event.baseline),
        history=_validate_ids("history", event.history),
        per_item=item_values(event.per_item, end, padded),
        shown_instead=_validate_ids("shown_instead", event.shown_instead),
    )


def in_row(row: int, rows: int, error: InvalidEventError) -> InvalidEventError:
    """The error, with the row of the batch if it has several."""
    where = f"event {row}: " if rows > 1 else ""
    return InvalidEventError(error.reason, where + error.detail)


def drop_empty_users(users: Sequence[Id | None] | None) -> Sequence[Id | None] | None:
    """Users without empty texts, which Protobuf and many producers write for an unknown user."""
    if users is None or "" not in users:
        return users
    named = [None if user == "" else user for user in users]
    return named if any(user is not None for user in named) else None


def _validate_ids(where: str, ids: Collection[Id] | None) -> Any:
    return None if ids is None else without_padding(where, ids)


def _cut(column: Sequence[Any] | None, end: int) -> Sequence[Any] | None:
    return None if column is None else column[:end]
