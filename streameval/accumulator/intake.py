"""Checks the events given to an Accumulator, and converts them to batches."""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, starmap
from sys import float_info
from typing import Any, TypeAlias

import msgspec
import numpy as np

from streameval.errors import InvalidEventError, SuspiciousEventsWarning
from streameval.events import (
    END_TIME,
    FIRST_TIME,
    LARGEST_GAIN,
    LARGEST_RANK,
    OPTIONAL_COLUMNS,
    Batch,
    Event,
    Id,
    Interaction,
    Interactions,
    columns_of,
)
from streameval.events.arrow import ArrowTable, refuse_lazy
from streameval.events.columns import Columns, read
from streameval.events.ids import CHECKS, IdKind, of_kind
from streameval.events.per_item import item_values
from streameval.events.ragged import CodedBatch, is_list
from streameval.events.rules import (
    RESERVED_OF,
    end_of,
    in_row,
    named_users,
    sound_batch,
    sound_event,
    unsound,
)

Pair: TypeAlias = tuple[Sequence[Id], Interactions]

_USERS = frozenset({str, int, type(None)})
_TIMES = frozenset({int, type(None)})
_NUMBERS = frozenset({int, float})
_UNITS = {"seconds": 1_000_000, "milliseconds": 1_000}
_NOWADAYS = (946_684_800_000_000, 4_102_444_800_000_000)
"""The years 2000 to 2099, in microseconds since the epoch."""
_TOGETHER = 64
"""Lists checked together: their ids stay in the processor's cache from check to check."""
_ORDERED = frozenset({"recommendations", "positions", "scores"})
LISTS = frozenset({list, tuple})
COLLECTIONS = frozenset({list, tuple, set, frozenset})
"""Types that statistics take unchanged; other types are converted event by event."""


def side_by_side(recommendations: Any, interactions: Any) -> Columns | list[Pair]:
    """Combine recommendations and interactions: arrays to Columns, sequences to pairs.

    Warns if they are series of pandas with different indexes.

    Raises:
        InvalidEventError: their lengths differ.

    Example:
        >>> import numpy as np
        >>> side_by_side([["a", "b"]], [{"b"}])
        [(['a', 'b'], {'b'})]
        >>> type(side_by_side(np.array([[1, 2]]), [[2]]))
        <class 'streameval.events.columns.Columns'>
    """
    both = (recommendations, interactions)
    if _are_labelled_differently(*both):
        problem = "recommendations and interactions have different indexes, and are paired by"
        remedy = "position: put them in one DataFrame, which aligns them, and fill what is missing"
        warnings.warn(f"{problem} {remedy}.", SuspiciousEventsWarning, stacklevel=3)
    lists = all(isinstance(each, Sequence) for each in both)
    if not lists or any(isinstance(each, tuple) for each in both):
        return Columns(recommendations=recommendations, interactions=interactions)
    if len(recommendations) != len(interactions):
        detail = f"{len(recommendations)} recommendations and {len(interactions)} interactions"
        raise InvalidEventError("wrong_type", f"columns of unequal length: {detail}")
    return list(zip(recommendations, interactions, strict=True))


def _are_labelled_differently(one: Any, other: Any) -> bool:
    """Whether both are series of pandas, whose indexes differ."""
    mine, theirs = (getattr(each, "index", None) for each in (one, other))
    equals = getattr(mine, "equals", None)
    return equals is not None and hasattr(theirs, "equals") and not equals(theirs)


def as_batch(
    batch: Batch | Columns | ArrowTable | Iterable[Event] | Iterable[Pair],
) -> Batch | CodedBatch:
    """Events, (recommendations, interactions) pairs, or columns of any kind, as a checked batch.

    Raises:
        InvalidEventError: an event is not valid.
    """
    # An isinstance check of a protocol is slow, so the usual types come first.
    if not isinstance(batch, (Batch, list)) and isinstance(batch, Columns | ArrowTable):
        found = read(batch)
        if isinstance(found, CodedBatch):
            _ = found.times and _whole_times(found.times)
            return msgspec.structs.replace(found, users=named_users(found.users))
        batch = found
    if not isinstance(batch, Batch):
        rows = _rows(batch)
        batch = _of_events(rows) if rows and isinstance(rows[0], Event) else _of_pairs(rows)
    _check_lengths(batch)
    if not _is_plain(batch):
        placed = batch.positions or [None] * len(batch)
        lists = zip(batch.recommendations, batch.interactions, placed, strict=True)
        checked = list(starmap(_checked_event, lists))
        batch = msgspec.structs.replace(
            batch,
            recommendations=[row[0] for row in checked],
            interactions=[row[1] for row in checked],
            positions=[row[2] for row in checked] if batch.positions else None,
        )
    if batch.times is not None:
        batch = msgspec.structs.replace(batch, times=_whole_times(batch.times))
    if batch.scores is not None:
        pairs = zip(batch.recommendations, batch.scores, strict=True)
        batch = msgspec.structs.replace(batch, scores=list(starmap(_scores, pairs)))
    if batch.per_item is not None:
        batch = msgspec.structs.replace(batch, per_item=_per_item(batch))
    if batch.users is not None:
        batch = msgspec.structs.replace(batch, users=named_users(batch.users))
    return batch


def of_one_kind(
    kind: IdKind | None, batch: Batch | CodedBatch
) -> tuple[IdKind | None, Batch | CodedBatch]:
    """A batch whose ids are built-in strings or integers, all of one kind.

    `kind`: the required kind; None if the first id decides.

    Returns:
        The kind (None without ids), and the batch.

    Raises:
        InvalidEventError: an id is invalid or of the other kind.
    """
    if isinstance(batch, CodedBatch):
        if batch.texts is not None:
            return _kind_of_codes(kind, batch), batch
        batch = batch.batch
    first = next(chain.from_iterable(chain(batch.recommendations, batch.interactions)), None)
    wanted = kind or ("text" if isinstance(first, str) else "integer")
    unsound_rows = _unsound(wanted, batch) if _without_more_ids(batch) else None
    if unsound_rows is not None:
        return (kind if first is None else wanted), sound_batch(batch, unsound_rows)
    rows: list[Event] = []
    for row, each in enumerate(batch.events()):
        try:
            kind, known = _normalised(kind, each)
            rows.append(sound_event(known))
        except InvalidEventError as error:
            raise in_row(row, len(batch), error) from None
    return kind, columns_of(rows)


def kind_of_users(kind: IdKind | None, batch: Batch | CodedBatch) -> IdKind | None:
    """The common kind of the user ids; None without users.

    Raises:
        InvalidEventError: a user id is not of this kind, or of the kind of the others.
    """
    named = [each for each in batch.users or () if each is not None]
    return of_kind(kind, named, "user")[0]


def _without_more_ids(batch: Batch) -> bool:
    users = set(map(type, batch.users or ())) <= _USERS
    return users and batch.baselines is None and batch.typed is None and batch.histories is None


def _unsound(kind: IdKind, batch: Batch) -> list[int] | None:
    """The rows that are not sound; None if ids are not built-in or of another kind."""
    check, rows = CHECKS[kind], list[int]()
    for start in range(0, len(batch), _TOGETHER):
        shown = batch.recommendations[start : start + _TOGETHER]
        acts = batch.interactions[start : start + _TOGETHER]
        try:
            # List by list, because the check of text joins all ids of its argument.
            deque(map(check, chain(shown, acts)), maxlen=0)
        except TypeError:
            return None
        rows += (start + row for row in unsound(shown, acts, RESERVED_OF[kind]))
    return rows


def _kind_of_codes(kind: IdKind | None, coded: CodedBatch) -> IdKind | None:
    for name in ("recommendations", "interactions"):
        kind, _ = of_kind(kind, coded.named(getattr(coded, name).values[:1]), name)
    return kind


def _normalised(kind: IdKind | None, given: Event) -> tuple[IdKind | None, Event]:
    """An event with built-in ids, all of one kind."""
    kind, shown = of_kind(kind, given.recommendations, "recommendations")
    kind, acts = of_kind(kind, given.interactions, "interactions")
    if isinstance(given.interactions, Mapping):
        acts = dict(zip(acts, given.interactions.values(), strict=True))
    baseline, history, user = given.baseline, given.history, given.user
    if baseline is not None:
        kind, baseline = of_kind(kind, _as_list("baseline", baseline), "baseline")
    if history is not None:
        kind, history = of_kind(kind, _as_list("history", history), "history")
    if user is not None:
        user = of_kind(None, [user], "user")[1][0]
    kind, typed = _typed(kind, _as_list("typed", given.typed))
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
    pairs = zip(typed, items, strict=True)
    return kind, tuple(
        msgspec.structs.replace(each, item=item, gain=_gains({item: each.gain})[item])
        for each, item in pairs
    )


def _checked_event(
    recommendations: Sequence[Id], interactions: Interactions, positions: Sequence[int] | None
) -> tuple[Sequence[Id], Interactions, Sequence[int] | None]:
    """A checked event with plain lists and dicts."""
    if type(recommendations) not in LISTS:
        recommendations = _as_list("recommendations", recommendations)
    if isinstance(interactions, Mapping):
        interactions = _gains(interactions)
    elif type(interactions) not in COLLECTIONS:
        interactions = _as_list("interactions", interactions)
    if positions is not None:
        positions = _ranks(recommendations, positions)
    return recommendations, interactions, positions


def _is_plain(batch: Batch) -> bool:
    return (
        batch.positions is None
        and len(batch.recommendations) == len(batch.interactions)
        and set(map(type, batch.interactions)) <= COLLECTIONS
        and set(map(type, batch.recommendations)) <= LISTS
    )


def _check_lengths(batch: Batch) -> None:
    columns = msgspec.structs.astuple(batch)
    for name, column in zip(Batch.__struct_fields__, columns, strict=True):
        if column is None and name in OPTIONAL_COLUMNS:
            continue
        try:
            size = len(column)
        except TypeError:
            detail = f"{name}: a Batch has one entry for each event, found {column!r:.80}"
            raise InvalidEventError("wrong_type", detail) from None
        if size != len(batch):
            detail = f"{len(batch)} recommendations and {size} {name}"
            raise InvalidEventError("wrong_type", f"columns of unequal length: {detail}")


def _rows(given: Any) -> list[Any]:
    refuse_lazy(given)
    if not isinstance(given, Iterable):
        detail = f"update_many takes many lists at once, found {given!r:.80}"
        raise InvalidEventError("wrong_type", detail)
    return given if isinstance(given, list) else list(given)


def _of_events(rows: list[Any]) -> Batch:
    if not all(issubclass(kind, Event) for kind in set(map(type, rows))):
        raise InvalidEventError("wrong_type", "Events and other things in one batch")
    return columns_of(rows)


def _of_pairs(rows: list[Any]) -> Batch:
    # Two matrices in a tuple are columns; with two events, their rows would unpack as pairs.
    arrays = any(hasattr(kind, "ndim") for kind in set(map(type, rows)))
    if arrays and any(getattr(row, "ndim", 1) != 1 for row in rows):
        detail = "a matrix is not a pair; give recommendations and interactions as two arguments"
        raise InvalidEventError("wrong_type", detail)
    try:
        shown = [recommendations for recommendations, _ in rows]
        acts = [interactions for _, interactions in rows]
    except (TypeError, ValueError):
        detail = "give Events, or (recommendations, interactions) pairs"
        raise InvalidEventError("wrong_type", detail) from None
    return Batch(recommendations=shown, interactions=acts)


def _whole_times(times: Sequence[Any]) -> Sequence[int | None]:
    wrong: list[Any] = []
    if not set(map(type, times)) <= _TIMES:
        times = _builtin_numbers(times)
        wrong = [each for each in times if type(each) not in _TIMES]
    # filter drops None, and 0, which is always valid, in a C loop.
    known = [0] if wrong else [0, *filter(None, times)]
    first, last = min(known), max(known)
    wrong += [each for each in (first, last) if not FIRST_TIME <= each < END_TIME]
    if wrong:
        detail = f"an event time is {wrong[0]!r:.80}; give whole microseconds since the epoch"
        raise InvalidEventError("wrong_type", detail)
    for unit, length in _UNITS.items():
        if _NOWADAYS[0] <= last * length < _NOWADAYS[1]:
            problem = f"event time {last} is in 1970, in microseconds since the epoch"
            remedy = f"if these are {unit}, multiply them by {length:,}"
            warnings.warn(f"{problem}: {remedy}.", SuspiciousEventsWarning, stacklevel=4)
    return times


def _scores(recommendations: Sequence[Id], found: Any) -> Sequence[float] | None:
    if found is None:
        return None
    scores: Sequence[Any] = found if type(found) in LISTS else _as_list("scores", found)
    if len(scores) != len(recommendations):
        detail = f"{len(recommendations)} items and {len(scores)} scores"
        raise InvalidEventError("invalid_scores", detail)
    if _NUMBERS.issuperset(map(type, scores)) and _are_finite(scores):
        return scores
    scores = _builtin_numbers(scores)
    for score in scores[: end_of(recommendations)]:
        if not isinstance(score, (int, float)) or not abs(score) <= float_info.max:
            detail = f"score {score!r:.80} is not a finite number"
            raise InvalidEventError("invalid_scores", detail)
    return scores


def _per_item(batch: Batch) -> list[Any]:
    rows = []
    for row, (shown, given) in enumerate(
        zip(batch.recommendations, batch.per_item or (), strict=True)
    ):
        try:
            rows.append(item_values(given, end_of(shown), len(shown)))
        except InvalidEventError as error:
            raise in_row(row, len(batch), error) from None
    return rows


def _are_finite(numbers: Iterable[float]) -> bool:
    try:
        return all(map(math.isfinite, numbers))
    except OverflowError:
        return False


def _builtin_numbers(numbers: Iterable[Any]) -> list[Any]:
    """Built-in numbers instead of NumPy numbers."""
    return [each.item() if isinstance(each, np.number) else each for each in numbers]


def _as_list(what: str, found: Any) -> list[Any]:
    if what in _ORDERED and isinstance(found, set | frozenset):
        detail = f"{what} are a set, which has no order; give a list, rank 1 first"
        raise InvalidEventError("wrong_type", detail)
    if not is_list(found):
        detail = f"{what} must be a list, found {found!r:.80}"
        raise InvalidEventError("wrong_type", detail)
    to_list = getattr(found, "tolist", None)
    return to_list() if to_list is not None else list(found)


def _gains(interactions: Mapping[Any, Any]) -> dict[Any, float]:
    gains = dict(interactions)
    if not _NUMBERS.issuperset(map(type, gains.values())):
        gains = dict(zip(gains, _builtin_numbers(gains.values()), strict=True))
    for item, gain in gains.items():
        if not isinstance(gain, (int, float)) or not abs(gain) <= LARGEST_GAIN:
            detail = f"the gain of item {item!r} is {gain!r}; gains are numbers up to 2^1000"
            raise InvalidEventError("invalid_gain", detail)
    return gains


def _ranks(recommendations: Sequence[Id], positions: Sequence[Any]) -> list[int]:
    ranks = _builtin_numbers(_as_list("positions", positions))
    if len(ranks) != len(recommendations):
        detail = f"{len(recommendations)} items and {len(ranks)} positions"
        raise InvalidEventError("invalid_positions", detail)
    for rank in ranks[: end_of(recommendations)]:
        if not isinstance(rank, int) or not 1 <= rank <= LARGEST_RANK:
            detail = f"position {rank!r}; positions are whole numbers from 1 to {LARGEST_RANK:,}"
            raise InvalidEventError("invalid_positions", detail)
    return ranks
