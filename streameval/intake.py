"""What people hand to an Accumulator, brought into columns that statistics can trust."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from streameval.columns import ArrowTable, Coded, Columns, read
from streameval.errors import InvalidEventError
from streameval.events import LARGEST_RANK, Batch, Event, Id, Interaction, Interactions, columns_of

Pair: TypeAlias = tuple[Sequence[Id], Interactions]

_LARGEST_GAIN = sys.float_info.max
LISTS = frozenset({list, tuple})
COLLECTIONS = frozenset({list, tuple, set, frozenset})
"""What statistics take as it is; everything else is checked and converted, one event at a time."""


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
            return found
        batch = found
    if not isinstance(batch, Batch):
        rows = batch if isinstance(batch, list) else list(batch)
        batch = _of_events(rows) if rows and isinstance(rows[0], Event) else _of_pairs(rows)
    _check_scores(batch)
    if _trusted(batch):
        return batch
    _check_lengths(batch)
    placed = batch.positions or [None] * len(batch)
    checked = [
        event(*row) for row in zip(batch.recommendations, batch.interactions, placed, strict=True)
    ]
    return Batch(
        recommendations=[row[0] for row in checked],
        interactions=[row[1] for row in checked],
        positions=[row[2] for row in checked] if batch.positions else None,
        scores=batch.scores,
        baselines=batch.baselines,
        typed=batch.typed,
        histories=batch.histories,
        users=batch.users,
    )


def single(
    recommendations: Sequence[Id],
    interactions: Interactions,
    positions: Sequence[int] | None,
    scores: Sequence[Any] | None,
    baseline: Sequence[Id] | None,
    typed: Sequence[Interaction],
    history: Sequence[Id] | None,
    user: Id | None,
) -> Batch:
    """One checked event as columns.

    Raises:
        InvalidEventError: its scores are not one finite number per item.
    """
    batch = Batch(
        recommendations=[recommendations],
        interactions=[interactions],
        positions=None if positions is None else [positions],
        scores=None if scores is None else [scores],
        baselines=None if baseline is None else [baseline],
        typed=[typed] if typed else None,
        histories=None if history is None else [history],
        users=None if user is None else [user],
    )
    _check_scores(batch)
    return batch


def event(
    recommendations: Sequence[Id],
    interactions: Interactions,
    positions: Sequence[int] | None,
) -> tuple[Sequence[Id], Interactions, Sequence[int] | None]:
    """One event with plain lists and dicts, checked.

    Raises:
        InvalidEventError: it is not a valid event.
    """
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


def _of_events(rows: list[Any]) -> Batch:
    if not all(issubclass(kind, Event) for kind in set(map(type, rows))):
        raise InvalidEventError("wrong_type", "Events and other things in one batch")
    return columns_of(rows)


def _of_pairs(rows: list[Any]) -> Batch:
    try:
        pairs = [(recommendations, interactions) for recommendations, interactions in rows]
    except (TypeError, ValueError):
        detail = "give Events, or (recommendations, interactions) pairs"
        raise InvalidEventError("wrong_type", detail) from None
    return Batch(
        recommendations=[pair[0] for pair in pairs], interactions=[pair[1] for pair in pairs]
    )


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
                raise InvalidEventError("invalid_scores", f"score {score!r} is no finite number")


def _listed(what: str, found: Any) -> list[Any]:
    if isinstance(found, (str, bytes, Mapping)) or not isinstance(found, Iterable):
        detail = f"{what} must be a list, found {found!r:.80}"
        raise InvalidEventError("wrong_type", detail)
    to_list = getattr(found, "tolist", None)
    return to_list() if to_list is not None else list(found)


def _check_gains(gains: Mapping[Any, Any]) -> None:
    for item, gain in gains.items():
        if not isinstance(gain, (int, float)) or not abs(gain) <= _LARGEST_GAIN:
            detail = f"the gain of item {item!r} is {gain!r}; gains are finite numbers"
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


def unhashable(error: TypeError) -> Exception:
    """What a TypeError of counting means: an id that is no id, or a mistake of ours."""
    if "unhashable" not in str(error):
        return error
    detail = f"an id is neither text nor an integer ({error}); some of it may have been counted"
    return InvalidEventError("invalid_id", detail)
