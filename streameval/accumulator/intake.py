"""Checks the arguments of an Accumulator, and turns them into columns."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

import msgspec

from streameval.errors import InvalidEventError
from streameval.events import (
    LARGEST_GAIN,
    LARGEST_RANK,
    Batch,
    Event,
    Id,
    Interaction,
    Interactions,
    columns_of,
)
from streameval.events.arrow import ArrowTable
from streameval.events.columns import Columns, read
from streameval.events.ids import CHECKS, IdKind, of_kind
from streameval.events.ragged import Coded

Pair: TypeAlias = tuple[Sequence[Id], Interactions]

_USERS = frozenset({str, int, type(None)})
_TIMES = frozenset({int, type(None)})
LISTS = frozenset({list, tuple})
COLLECTIONS = frozenset({list, tuple, set, frozenset})
"""What statistics take as it is; everything else is checked and converted, one event at a time."""


def side_by_side(recommendations: Any, interactions: Any) -> Columns | list[Pair]:
    """Recommendations and interactions given as two: arrays as columns, sequences as pairs.

    Raises:
        InvalidEventError: one is longer than the other.

    Example:
        >>> import numpy as np
        >>> side_by_side([["a", "b"]], [{"b"}])
        [(['a', 'b'], {'b'})]
        >>> type(side_by_side(np.array([[1, 2]]), [[2]]))
        <class 'streameval.events.columns.Columns'>
    """
    both = (recommendations, interactions)
    lists = all(isinstance(each, Sequence) for each in both)
    if not lists or any(isinstance(each, tuple) for each in both):
        return Columns(recommendations=recommendations, interactions=interactions)
    if len(recommendations) != len(interactions):
        detail = f"{len(recommendations)} recommendations and {len(interactions)} interactions"
        raise InvalidEventError("wrong_type", f"columns of unequal length: {detail}")
    return list(zip(recommendations, interactions, strict=True))


def columns(
    batch: Batch | Columns | ArrowTable | Iterable[Event] | Iterable[Pair],
) -> Batch | Coded:
    """Events, (recommendations, interactions) pairs, or columns of any kind, checked.

    Raises:
        InvalidEventError: one of them is not a valid event; nothing has been counted.
    """
    # A protocol is slow to ask for, and the pipeline gives columns as they are.
    if type(batch) is not Batch and isinstance(batch, Columns | ArrowTable):
        found = read(batch)
        if isinstance(found, Coded):
            _check_times(found)
            return found
        batch = found
    if not isinstance(batch, Batch):
        rows = _rows(batch)
        batch = _of_events(rows) if rows and isinstance(rows[0], Event) else _of_pairs(rows)
    _check_scores(batch)
    _check_times(batch)
    if _trusted(batch):
        return batch
    _check_lengths(batch)
    placed = batch.positions or [None] * len(batch)
    checked = [
        event(*row) for row in zip(batch.recommendations, batch.interactions, placed, strict=True)
    ]
    return msgspec.structs.replace(
        batch,
        recommendations=[row[0] for row in checked],
        interactions=[row[1] for row in checked],
        positions=[row[2] for row in checked] if batch.positions else None,
    )


def of_one_kind(kind: IdKind | None, batch: Batch | Coded) -> tuple[IdKind | None, Batch | Coded]:
    """Checked columns whose ids are all of one kind.

    `kind`: that they must have; None where the first id decides.

    Returns:
        The kind, None without ids; and the columns.

    Raises:
        InvalidEventError: an id is invalid or of the other kind; nothing has been counted.
    """
    if isinstance(batch, Coded):
        if batch.texts is not None:
            return _kind_of_codes(kind, batch), batch
        batch = batch.batch
    first = next(chain.from_iterable(chain(batch.recommendations, batch.interactions)), None)
    wanted = kind or ("text" if isinstance(first, str) else "integer")
    if _without_more_ids(batch) and _are_all(wanted, batch):
        return (kind if first is None else wanted), batch
    rows: list[Event] = []
    for row, each in enumerate(batch.events()):
        try:
            kind, known = _known(kind, each)
        except InvalidEventError as error:
            raise InvalidEventError(error.reason, f"event {row}: {error.detail}") from None
        rows.append(known)
    return kind, columns_of(rows)


def kind_of_users(kind: IdKind | None, batch: Batch | Coded) -> IdKind | None:
    """The kind of the users' ids, which all have; None where nobody is named.

    Raises:
        InvalidEventError: one is of the other kind than those before; nothing has been counted.
    """
    named = [each for each in batch.users or () if each is not None]
    return of_kind(kind, named, "user")[0]


def single(kind: IdKind | None, given: Event) -> tuple[IdKind | None, Batch]:
    """One checked event as columns, as `of_one_kind` gives them.

    Raises:
        InvalidEventError: its ids are not of one kind, or its scores not one finite number an item.
    """
    batch = columns_of([given])
    _check_scores(batch)
    _check_times(batch)
    kind, known = _known(kind, given)
    return kind, columns_of([known])


def _without_more_ids(batch: Batch) -> bool:
    users = set(map(type, batch.users or ())) <= _USERS
    return users and batch.baselines is None and batch.typed is None and batch.histories is None


def _are_all(kind: IdKind, batch: Batch) -> bool:
    try:
        for column in (batch.recommendations, batch.interactions):
            # List by list: all together they would be one text as long as the batch.
            deque(map(CHECKS[kind], column), maxlen=0)
    except TypeError:
        return False
    return True


def _kind_of_codes(kind: IdKind | None, coded: Coded) -> IdKind | None:
    for name in ("recommendations", "interactions"):
        kind, _ = of_kind(kind, coded.named(getattr(coded, name).values[:1]), name)
    return kind


def _known(kind: IdKind | None, given: Event) -> tuple[IdKind | None, Event]:
    """An event with Python's own ids, all of one kind."""
    kind, shown = of_kind(kind, given.recommendations, "recommendations")
    kind, acts = of_kind(kind, given.interactions, "interactions")
    if isinstance(given.interactions, Mapping):
        acts = dict(zip(acts, given.interactions.values(), strict=True))
    baseline, history, user = given.baseline, given.history, given.user
    if baseline is not None:
        kind, baseline = of_kind(kind, _listed("baseline", baseline), "baseline")
    if history is not None:
        kind, history = of_kind(kind, _listed("history", history), "history")
    if user is not None:
        user = of_kind(None, [user], "user")[1][0]
    kind, typed = _typed(kind, list(given.typed))
    return kind, msgspec.structs.replace(
        given,
        recommendations=shown,
        interactions=acts,
        baseline=baseline,
        typed=typed,
        history=history,
        user=user,
    )


def _typed(kind: IdKind | None, typed: list[Any]) -> tuple[IdKind | None, Sequence[Interaction]]:
    for each in typed:
        if not isinstance(each, Interaction):
            detail = f"typed holds {each!r:.80}; give Interaction(item, gain, type)"
            raise InvalidEventError("wrong_type", detail)
    kind, items = of_kind(kind, [each.item for each in typed], "typed")
    for item, each in zip(items, typed, strict=True):
        _check_gains({item: each.gain})
    pairs = zip(typed, items, strict=True)
    return kind, tuple(msgspec.structs.replace(each, item=item) for each, item in pairs)


def event(
    recommendations: Sequence[Id],
    interactions: Interactions,
    positions: Sequence[int] | None,
) -> tuple[Sequence[Id], Interactions, Sequence[int] | None]:
    """One event with plain lists and dicts, checked.

    Raises:
        InvalidEventError: it is not a valid event.
    """
    if isinstance(recommendations, set | frozenset):
        detail = "recommendations are a set, which has no order; give a list, rank 1 first"
        raise InvalidEventError("wrong_type", detail)
    if type(recommendations) not in LISTS:
        recommendations = _listed("recommendations", recommendations)
    if isinstance(interactions, Mapping):
        interactions = dict(interactions)
        _check_gains(interactions)
    elif type(interactions) not in COLLECTIONS:
        interactions = _listed("interactions", interactions)
    if positions is not None:
        positions = _ranks(recommendations, positions)
    return recommendations, interactions, positions


def _trusted(batch: Batch) -> bool:
    return (
        batch.positions is None
        and len(batch.recommendations) == len(batch.interactions)
        and set(map(type, batch.interactions)) <= COLLECTIONS
        and set(map(type, batch.recommendations)) <= LISTS
    )


def _check_lengths(batch: Batch) -> None:
    lists, outcomes = len(batch.recommendations), len(batch.interactions)
    placed = lists if batch.positions is None else len(batch.positions)
    if not lists == outcomes == placed:
        detail = f"{lists} recommendations, {outcomes} interactions and {placed} positions"
        raise InvalidEventError("wrong_type", f"columns of unequal length: {detail}")


def _rows(given: Any) -> list[Any]:
    if not isinstance(given, Iterable):
        detail = f"update_many takes many lists at once, found {given!r:.80}"
        raise InvalidEventError("wrong_type", detail)
    return given if isinstance(given, list) else list(given)


def _of_events(rows: list[Any]) -> Batch:
    if not all(issubclass(kind, Event) for kind in set(map(type, rows))):
        raise InvalidEventError("wrong_type", "Events and other things in one batch")
    return columns_of(rows)


def _of_pairs(rows: list[Any]) -> Batch:
    try:
        shown = [recommendations for recommendations, _ in rows]
        acts = [interactions for _, interactions in rows]
    except (TypeError, ValueError):
        detail = "give Events, or (recommendations, interactions) pairs"
        raise InvalidEventError("wrong_type", detail) from None
    return Batch(recommendations=shown, interactions=acts)


def _check_times(batch: Batch | Coded) -> None:
    if batch.times is not None and not set(map(type, batch.times)) <= _TIMES:
        found = next(each for each in batch.times if type(each) not in _TIMES)
        detail = f"an event time is {found!r:.80}; give whole microseconds since the epoch"
        raise InvalidEventError("wrong_type", detail)


def _check_scores(batch: Batch) -> None:
    for row, scores in enumerate(batch.scores or ()):
        if scores is None:
            continue
        if len(scores) != len(batch.recommendations[row]):
            detail = f"{len(batch.recommendations[row])} items and {len(scores)} scores"
            raise InvalidEventError("invalid_scores", detail)
        given: Sequence[Any] = scores
        for score in given:
            if not isinstance(score, (int, float)) or not math.isfinite(score):
                raise InvalidEventError("invalid_scores", f"score {score!r} is not a finite number")


def _listed(what: str, found: Any) -> list[Any]:
    if isinstance(found, (str, bytes, Mapping)) or not isinstance(found, Iterable):
        detail = f"{what} must be a list, found {found!r:.80}"
        raise InvalidEventError("wrong_type", detail)
    to_list = getattr(found, "tolist", None)
    return to_list() if to_list is not None else list(found)


def _check_gains(gains: Mapping[Any, Any]) -> None:
    for item, gain in gains.items():
        if not isinstance(gain, (int, float)) or not abs(gain) <= LARGEST_GAIN:
            detail = f"the gain of item {item!r} is {gain!r}; gains are numbers up to 2^1000"
            raise InvalidEventError("invalid_gain", detail)


def _ranks(recommendations: Sequence[Id], positions: Sequence[Any]) -> list[int]:
    ranks: list[Any] = _listed("positions", positions)
    if len(ranks) != len(recommendations):
        detail = f"{len(recommendations)} items and {len(ranks)} positions"
        raise InvalidEventError("invalid_positions", detail)
    for rank in ranks:
        if not isinstance(rank, int) or not 1 <= rank <= LARGEST_RANK:
            detail = f"position {rank!r}; positions are whole numbers from 1 to {LARGEST_RANK:,}"
            raise InvalidEventError("invalid_positions", detail)
    return ranks
