"""Checks the events given to an Accumulator, and converts them to batches."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from sys import float_info
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import msgspec
import numpy as np

from streameval.accumulator.kinds.events import overlap_metric
from streameval.accumulator.plan import Plan
from streameval.events import (
    LARGEST_GAIN,
    LARGEST_RANK,
    Batch,
    Event,
    Id,
    Interaction,
    Interactions,
    Matches,
    columns_of,
)
from streameval.events.batch import check_lengths, unequal_error
from streameval.events.errors import InvalidEventError, SuspiciousEventsWarning
from streameval.events.extras import LazyModule
from streameval.events.ids import BUILT_IN, IdKind, of_kind
from streameval.events.per_item import item_values
from streameval.events.ragged import IdColumn, is_list
from streameval.events.rules import (
    MARKS,
    RESERVED,
    are_marks_throughout,
    check_id,
    drop_empty_users,
    end_of,
    in_row,
    marks_error,
    validate_event,
    without_padding,
)
from streameval.events.times import is_event_time, outside_error
from streameval.statistics.kernel import match
from streameval.statistics.matching import Search, matched

if TYPE_CHECKING:
    from streameval.events import arrow, columns
    from streameval.events.arrow import ArrowTable
    from streameval.events.columns import Columns
else:
    # A loop that counts single events has no columns.
    arrow, columns = (LazyModule(f"streameval.events.{name}") for name in ("arrow", "columns"))

Pair: TypeAlias = tuple[Sequence[Id], Interactions]

_USERS = frozenset({str, int, type(None)})
_TIMES = frozenset({int, type(None)})
_INTEGERS = frozenset({int})
_NUMBERS = frozenset({int, float})
_UNITS = {"seconds": 1_000_000, "milliseconds": 1_000}
NOWADAYS = (946_684_800_000_000, 4_102_444_800_000_000)
"""The years 2000 to 2099, in microseconds since the epoch."""
_ORDERED = frozenset({"recommendations", "positions", "scores"})
_LISTS = frozenset({list, tuple})
_NONE: Final = ()
_COLLECTIONS = frozenset({list, tuple, set, frozenset})
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
    first_index, second_index = (getattr(column, "index", None) for column in both)
    equals = getattr(first_index, "equals", None)
    if equals is not None and hasattr(second_index, "equals") and not equals(second_index):
        problem = "recommendations and interactions have different indexes, and are paired by"
        remedy = "position: put them in one DataFrame, which aligns them, and fill what is missing"
        warnings.warn(f"{problem} {remedy}.", SuspiciousEventsWarning, stacklevel=3)
    lists = all(isinstance(column, Sequence) for column in both)
    if not lists or any(isinstance(column, tuple) for column in both):
        return columns.Columns(recommendations=recommendations, interactions=interactions)
    if len(recommendations) != len(interactions):
        raise unequal_error(len(recommendations), "interactions", len(interactions))
    return list(zip(recommendations, interactions, strict=True))


def checked_event(kind: IdKind | None, event: Event) -> tuple[IdKind | None, Event]:
    """An event by itself, checked and converted as `checked_batch` does with those of a batch.

    `event`: its fields are replaced.
    """
    recommendations, interactions = event.recommendations, event.interactions
    kind = kind or _kind_of_first([recommendations, interactions])
    is_plain = _is_plain(kind, recommendations, interactions)
    if not is_plain:
        event.recommendations, event.interactions = _as_containers(recommendations, interactions)
    _check_fields(event)
    for field, read_ids in _OTHER_IDS.values():
        ids = getattr(event, field)
        if ids is not None and ids is not _NONE:
            kind, ids = read_ids(kind, field, ids)
            setattr(event, field, ids)
    if is_plain:
        return kind, event
    kind, event = _normalise(kind, event)
    return kind, validate_event(event)


def _check_fields(event: Event) -> None:
    for name, check in _OF_ITEMS.items():
        if (of_items := getattr(event, name)) is not None:
            setattr(event, name, check(event.recommendations, of_items))
    if event.ts is not None:
        # As far from the caller as `_with_values`: a warning names the caller's line.
        (event.ts,) = _integer_times([event.ts])
    if event.user is not None:
        (event.user,) = _checked_users([event.user]) or (None,)


def refuse_unshown(events: Batch | Event, plan: Plan) -> None:
    """Refuse lists that were not shown where nothing would tell them from others.

    Raises:
        InvalidEventError: there are some, and the metric `overlap` is not kept.
    """
    if events.shown_instead is not None and overlap_metric(plan.specs) is None:
        detail = "shown_instead needs the metric 'overlap', which tells how far users saw the list"
        raise InvalidEventError("wrong_type", f"{detail}; count it beside the others")


def _is_plain(kind: IdKind | None, recommendations: Any, interactions: Any) -> bool:
    """True if a list and its interactions without gains are as statistics take them, unchanged."""
    if (
        kind is None
        or type(recommendations) not in _LISTS
        or type(interactions) not in _COLLECTIONS
    ):
        return False
    are_built_in = BUILT_IN[kind].issuperset
    return (
        are_built_in(map(type, recommendations))
        and are_built_in(map(type, interactions))
        and RESERVED.isdisjoint(recommendations)
        and RESERVED.isdisjoint(interactions)
        and not (len(interactions) > 1 and MARKS.issuperset(interactions))
    )


def checked_batch(
    kind: IdKind | None,
    raw: Batch | Columns | ArrowTable | Iterable[Event] | Iterable[Pair],
    search: Search,
) -> tuple[IdKind | None, Batch]:
    """Events, (recommendations, interactions) pairs, or columns of any kind, as a checked batch.

    Args:
        kind: the required kind of ids; None if the first id decides.
        raw: the events.
        search: how lists are searched for hits.

    Returns:
        The kind of ids (None without ids), and the batch with built-in ids, all of one kind, and
        the hits of its lists.

    Raises:
        InvalidEventError: an event is invalid, or has ids of the other kind.
    """
    batch = _columns(raw)
    lists = chain(batch.recommendations, batch.interactions)
    for name in ("recommendations", "interactions"):
        column = getattr(batch, name)
        if isinstance(column, IdColumn):
            kind, _ = of_kind(kind, column.named(column.ragged.values[:1]), name)
    kind = kind or _kind_of_first(lists)
    matches, skipped = _searched(kind, batch, search)
    if skipped:
        recommendations, interactions = [*batch.recommendations], list[Any](batch.interactions)
        for row in skipped:
            recommendations[row], interactions[row] = _as_containers(
                recommendations[row], interactions[row]
            )
        batch = msgspec.structs.replace(
            batch, recommendations=recommendations, interactions=interactions
        )
    batch = _with_values(msgspec.structs.replace(batch, matches=None))
    kind, batch = _with_other_ids(kind, batch)
    if skipped:
        kind, batch = _sound(kind, batch, skipped)
        return kind, matched(batch, search)
    return kind, msgspec.structs.replace(batch, matches=matches)


def _columns(raw: Any) -> Batch:
    # An isinstance check of a protocol is slow, so the usual types come first.
    if not isinstance(raw, (Batch, list)) and isinstance(raw, columns.Columns | arrow.ArrowTable):
        batch = columns.read_columns(raw)
        names = getattr(batch.recommendations, "names", None)
        if len(set(map(type, names or ()))) < 2:
            return batch
        # Ids of several kinds, of which one is refused.
        lists, interactions = [*batch.recommendations], [*batch.interactions]
        return msgspec.structs.replace(batch, recommendations=lists, interactions=interactions)
    if not isinstance(raw, Batch):
        rows = _rows(raw)
        raw = _of_events(rows) if rows and isinstance(rows[0], Event) else _of_pairs(rows)
    batch = cast("Batch", raw)
    check_lengths(batch)
    return batch


def _kind_of_first(lists: Iterable[Any]) -> IdKind | None:
    """The kind of the first id, which may be no valid one; None without ids."""
    for ids in lists:
        # Anything else may be an iterator, which gives each id once.
        if isinstance(ids, Collection):
            with suppress(TypeError):  # an array of no dimension
                for item in ids:
                    return "text" if isinstance(item, str) else "integer"
    return None


def _searched(
    kind: IdKind | None, batch: Batch, search: Search
) -> tuple[Matches | None, list[int]]:
    """The hits of the lists, and the rows whose ids must be converted or refused."""
    recommendations, interactions = batch.recommendations, batch.interactions
    if isinstance(recommendations, IdColumn) and isinstance(interactions, IdColumn):
        return None, []
    depth, every = search.of(batch)
    matches = batch.matches
    # The decoder has checked its ids, but they may be of the other kind.
    is_alike = matches is not None and kind == _kind_of_first(chain(recommendations, interactions))
    if matches is not None and is_alike and matches.covers(depth, every):
        return matches, matches.skipped.tolist()
    matches = match(recommendations, interactions, kind or "text", depth, every=every)
    return matches, matches.skipped.tolist()


def _as_containers(recommendations: Any, interactions: Any) -> tuple[Any, Any]:
    """A list and its interactions as plain lists and dicts."""
    if type(recommendations) not in _LISTS:
        recommendations = _as_list("recommendations", recommendations)
    if isinstance(interactions, Mapping):
        interactions = _gains(interactions)
    elif type(interactions) not in _COLLECTIONS:
        interactions = _as_list("interactions", interactions)
    return recommendations, interactions


def _with_values(batch: Batch) -> Batch:
    """The batch with checked positions, scores, values of items, times and users."""
    columns: dict[str, Any] = {}
    for name, check in _OF_ITEMS.items():
        column = getattr(batch, name)
        if column is not None:
            columns[name] = []
            for row, pair in enumerate(zip(batch.recommendations, column, strict=True)):
                try:
                    columns[name].append(check(*pair))
                except InvalidEventError as error:
                    raise in_row(row, len(batch), error) from None
    if batch.times is not None:
        columns["times"] = _integer_times(batch.times)
    if batch.users is not None:
        columns["users"] = _checked_users(batch.users)
    return msgspec.structs.replace(batch, **columns) if columns else batch


def _checked_users(raw: Sequence[Any]) -> Sequence[Id | None] | None:
    """Users with built-in ids; None if no event has one."""
    users = drop_empty_users(raw)
    if users is None or set(map(type, users)) <= _USERS:
        return users
    return [None if user is None else of_kind(None, [user], "user")[1][0] for user in users]


def _with_other_ids(kind: IdKind | None, batch: Batch) -> tuple[IdKind | None, Batch]:
    """The batch with checked baselines, histories and typed interactions."""
    columns: dict[str, list[Any]] = {}
    for name, (field, read_ids) in _OTHER_IDS.items():
        column = getattr(batch, name)
        for row, ids in enumerate(column or ()):
            try:
                kind, read = (kind, None) if ids is None else read_ids(kind, field, ids)
            except InvalidEventError as error:
                raise in_row(row, len(batch), error) from None
            columns.setdefault(name, []).append(read)
    return kind, msgspec.structs.replace(batch, **columns) if columns else batch


def _ids(kind: IdKind | None, where: str, ids: Any) -> tuple[IdKind | None, Any]:
    kind, checked = of_kind(kind, _as_list(where, ids), where)
    return kind, without_padding(where, checked)


def _sound(kind: IdKind | None, batch: Batch, rows: Sequence[int]) -> tuple[IdKind | None, Batch]:
    """The batch with built-in ids, all of one kind, and without padding in these rows."""
    if len(rows) == len(batch) and are_marks_throughout(batch.recommendations, batch.interactions):
        raise marks_error("interactions")
    events = list(batch.events())
    for row in rows:
        try:
            kind, checked = _normalise(kind, events[row])
            events[row] = validate_event(checked)
        except InvalidEventError as error:
            raise in_row(row, len(batch), error) from None
    return kind, columns_of(events)


def kind_of_users(kind: IdKind | None, users: Sequence[Id | None] | None) -> IdKind | None:
    """The common kind of the user ids; None without users.

    Raises:
        InvalidEventError: a user id is not of this kind, or of the kind of the others.
    """
    return of_kind(kind, [user for user in users or () if user is not None], "user")[0]


def _normalise(kind: IdKind | None, event: Event) -> tuple[IdKind | None, Event]:
    """An event with built-in ids, all of one kind."""
    kind, recommendations = of_kind(kind, event.recommendations, "recommendations")
    kind, interactions = of_kind(kind, event.interactions, "interactions")
    if isinstance(event.interactions, Mapping):
        interactions = dict(zip(interactions, event.interactions.values(), strict=True))
    return kind, msgspec.structs.replace(
        event, recommendations=recommendations, interactions=interactions
    )


def _typed_interactions(
    kind: IdKind | None, where: str, raw: Any
) -> tuple[IdKind | None, Sequence[Interaction]]:
    typed = _as_list(where, raw)
    for interaction in typed:
        if not isinstance(interaction, Interaction):
            detail = f"typed holds {interaction!r:.80}; give Interaction(item, gain, type)"
            raise InvalidEventError("wrong_type", detail)
    kind, items = of_kind(kind, [interaction.item for interaction in typed], where)
    for item in items:
        check_id(where, item)
    pairs = zip(typed, items, strict=True)
    return kind, tuple(
        msgspec.structs.replace(interaction, item=item, gain=_gains({item: interaction.gain})[item])
        for interaction, item in pairs
    )


_OTHER_IDS: Final[Mapping[str, tuple[str, Callable[..., tuple[IdKind | None, Any]]]]] = {
    "baselines": ("baseline", _ids),
    "histories": ("history", _ids),
    "shown_instead": ("shown_instead", _ids),
    "typed": ("typed", _typed_interactions),
}
"""Column of a batch -> the field's name, and a function that checks the ids of one event."""


def _rows(raw: Any) -> list[Any]:
    arrow.refuse_lazy(raw)
    if not isinstance(raw, Iterable):
        detail = f"update_many takes many lists at once, found {raw!r:.80}"
        raise InvalidEventError("wrong_type", detail)
    if hasattr(raw, "columns"):
        # Its columns would be taken for lists.
        detail = (
            f"a {type(raw).__name__} that has no Arrow interface (__arrow_c_stream__); install a "
            "newer version of its library (polars 1.3, pandas 2.2), or give two of its columns"
        )
        raise InvalidEventError("wrong_type", detail)
    return raw if isinstance(raw, list) else list(raw)


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
        recommendations = [recommendations for recommendations, _ in rows]
        interactions = [interactions for _, interactions in rows]
    except (TypeError, ValueError):
        detail = "give Events, or (recommendations, interactions) pairs"
        raise InvalidEventError("wrong_type", detail) from None
    return Batch(recommendations=recommendations, interactions=interactions)


def _integer_times(times: Any) -> Any:
    wrong: list[Any] = []
    if isinstance(times, np.ndarray) and times.dtype == np.int64:
        first, last = int(times.min(initial=0)), int(times.max(initial=0))
    else:
        if not set(map(type, times)) <= _TIMES:
            times = _builtin_numbers(times)
            wrong = [time for time in times if type(time) not in _TIMES]
        # filter drops None, and 0, which is always valid, in a C loop.
        known_times = [0] if wrong else [0, *filter(None, times)]
        first, last = min(known_times), max(known_times)
    if wrong:
        detail = f"an event time is {wrong[0]!r:.80}; give whole microseconds since the epoch"
        raise InvalidEventError("wrong_type", detail)
    for time in (first, last):
        if not is_event_time(time):
            raise outside_error(time)
    for unit, length in _UNITS.items():
        if NOWADAYS[0] <= last * length < NOWADAYS[1]:
            problem = f"event time {last} is in 1970, in microseconds since the epoch"
            remedy = f"if these are {unit}, multiply them by {length:,}"
            warnings.warn(f"{problem}: {remedy}.", SuspiciousEventsWarning, stacklevel=6)
    return times


def checked_scores(recommendations: Sequence[Id], raw: Any) -> Sequence[float] | None:
    """The scores of a list as built-in numbers; refuses those that do not fit it."""
    if raw is None:
        return None
    scores: Sequence[Any] = raw if type(raw) in _LISTS else _as_list("scores", raw)
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


def _item_values(recommendations: Sequence[Id], raw: Any) -> Any:
    return item_values(raw, end_of(recommendations), len(recommendations))


def _are_finite(numbers: Iterable[float]) -> bool:
    try:
        return all(map(math.isfinite, numbers))
    except OverflowError:
        return False


def _builtin_numbers(numbers: Iterable[Any]) -> list[Any]:
    """Built-in numbers instead of NumPy numbers."""
    return [number.item() if isinstance(number, np.number) else number for number in numbers]


def _as_list(what: str, raw: Any) -> list[Any]:
    if what in _ORDERED and isinstance(raw, set | frozenset):
        detail = f"{what} are a set, which has no order; give a list, rank 1 first"
        raise InvalidEventError("wrong_type", detail)
    if not is_list(raw):
        detail = f"{what} must be a list, found {raw!r:.80}"
        raise InvalidEventError("wrong_type", detail)
    to_list = getattr(raw, "tolist", None)
    return to_list() if to_list is not None else list(raw)


def _gains(interactions: Mapping[Any, Any]) -> dict[Any, float]:
    gains = dict(interactions)
    if not _NUMBERS.issuperset(map(type, gains.values())):
        gains = dict(zip(gains, _builtin_numbers(gains.values()), strict=True))
    for item, gain in gains.items():
        if type(gain) not in _NUMBERS and isinstance(gain, (int, float)):
            gains[item] = float(gain)
        if not isinstance(gain, (int, float)) or not abs(gain) <= LARGEST_GAIN:
            detail = f"the gain of item {item!r} is {gain!r}; gains are numbers up to 2^1000"
            raise InvalidEventError("invalid_gain", detail)
    return gains


def checked_ranks(
    recommendations: Sequence[Id], positions: Sequence[Any] | None
) -> list[int] | None:
    """The positions of a list as built-in ranks; refuses those that do not fit it."""
    if positions is None:
        return None
    ranks = _as_list("positions", positions)
    if len(ranks) != len(recommendations):
        detail = f"{len(recommendations)} items and {len(ranks)} positions"
        raise InvalidEventError("invalid_positions", detail)
    are_integers = ranks and _INTEGERS.issuperset(map(type, ranks))
    if are_integers and min(ranks) >= 1 and max(ranks) <= LARGEST_RANK:
        return ranks
    ranks = _builtin_numbers(ranks)
    for rank in ranks[: end_of(recommendations)]:
        if not isinstance(rank, int) or not 1 <= rank <= LARGEST_RANK:
            detail = f"position {rank!r}; positions are whole numbers from 1 to {LARGEST_RANK:,}"
            raise InvalidEventError("invalid_positions", detail)
    return [int(rank) if isinstance(rank, int) else rank for rank in ranks]


_OF_ITEMS: Final[Mapping[str, Callable[[Sequence[Id], Any], Any]]] = {
    "positions": checked_ranks,
    "scores": checked_scores,
    "per_item": _item_values,
}
"""Field of an event, and column of a batch -> what checks it, beside the recommendations."""
