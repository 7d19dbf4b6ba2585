"""Turns lists whose window is over into events."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np

from streameval.decoding.decode import Decoded
from streameval.events import Batch, Id
from streameval.events.ragged import Coded, Ragged
from streameval.join.bucket import ShownBucket
from streameval.join.shown import Parts, Shown

_NOTHING: Final = ((), ())


def events(
    shown: Shown,
    rows: Sequence[int],
    waiting: Container[int],
    outcome: Callable[[int], tuple[Any, Any]],
) -> Decoded:
    """Lists as events, in their order."""
    outcomes = [outcome(row) if row in waiting else _NOTHING for row in rows]
    acts = [each[0] for each in outcomes]
    found = [each[1] for each in outcomes]
    typed = found if any(found) else None
    parts = list(shown.by_bucket(rows))
    times = [np.array(bucket.times, dtype=np.int64)[places] for bucket, places in parts]
    labels = (np.array(bucket.dimensions)[places].tolist() for bucket, places in parts)
    return Decoded(
        batch=_coded(shown, parts, acts, typed) or _named(shown, parts, acts, typed),
        places=range(len(rows)),
        times=np.concatenate(times),
        dimensions=[each for codes in labels for each in shown.labelled(codes)],
        event_ids=None,
        invalid=(),
        tombstones=(),
    )


def _coded(shown: Shown, parts: Parts, acts: Sequence[Any], typed: Any) -> Coded | None:
    """The numbers that items have in the join, where nothing but ids is to be counted."""
    columns = ("positions", "scores", "baselines")
    beside = any(getattr(bucket, name) for bucket, _ in parts for name in columns)
    if beside or dict in set(map(type, acts)):
        return None
    return Coded(
        recommendations=shown.lists(parts),
        interactions=Ragged.of_lengths(
            np.array(shown.codes(chain.from_iterable(acts)), np.int64),
            np.fromiter(map(len, acts), np.int64, len(acts)),
        ),
        ids=shown.names,
        typed=typed,
        users=_beside(parts, "users", _user),
        event_ids=_requests(parts),
    )


def _named(shown: Shown, parts: Parts, acts: Sequence[Any], typed: Any) -> Batch:
    lists = shown.lists(parts)
    return Batch(
        recommendations=lists.cut(shown.named(lists.values.tolist())),
        interactions=acts,
        typed=typed,
        positions=_beside(parts, "positions", _positions),
        scores=_beside(parts, "scores", _scores),
        baselines=_beside(parts, "baselines", _baseline(shown)),
        users=_beside(parts, "users", _user),
        event_ids=_requests(parts),
    )


def _beside(
    parts: Parts,
    name: str,
    read: Callable[[ShownBucket, int], Any],
) -> list[Any] | None:
    """A column that most streams do not have; None where no list has it."""
    if not any(getattr(bucket, name) for bucket, _ in parts):
        return None
    column = [read(bucket, place) for bucket, places in parts for place in places]
    return column if any(each is not None for each in column) else None


def _user(bucket: ShownBucket, place: int) -> str | None:
    return bucket.users[place] or None if bucket.users else None


def _requests(parts: Parts) -> list[Any] | None:
    """Ids of lists, which stand in for users that nobody named."""
    users = any(bucket.users for bucket, _ in parts)
    return _beside(parts, "requests", _request) if users else None


def _request(bucket: ShownBucket, place: int) -> str | None:
    return bucket.requests[place] or None if bucket.users and bucket.requests else None


def _positions(bucket: ShownBucket, place: int) -> list[int] | None:
    found = bucket.positions[bucket.span(place)].tolist()
    return found if found and found[0] else None


def _scores(bucket: ShownBucket, place: int) -> list[float] | None:
    found = bucket.scores[bucket.span(place)].tolist()
    return found if found and not math.isnan(found[0]) else None


def _baseline(shown: Shown) -> Callable[[ShownBucket, int], list[Id] | None]:
    def read(bucket: ShownBucket, place: int) -> list[Id] | None:
        return shown.named(bucket.baselines[place]) if bucket.baselines else None

    return read
