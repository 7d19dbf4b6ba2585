"""The ways to the same statistics: one by one, in any order, many at once, in merged parts."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streameval import Accumulator, Columns, Event
from streameval.accumulator.intake import checked_batch
from streameval.accumulator.readings import readings_of
from streameval.catalogue import parse
from streameval.catalogue.reading import Reading
from streameval.events import Interactions
from streameval.testing.laws import update
from tests.conformance.recorded import Case, Claim, Part, cases_of


def streamed(texts: Sequence[str], events: Iterable[Event], once: Mapping[str, Any]) -> Accumulator:
    """One event at a time."""
    accumulator = Accumulator(*texts, **once)
    for event in events:
        update(accumulator, event)
    return accumulator


class Shared(NamedTuple):
    """Parts of cases that have the same events, counted once for all that they claim.

    once: what an Accumulator is given besides events.
    """

    texts: Sequence[str]
    events: Sequence[Event]
    once: Mapping[str, Any]
    parts: Sequence[tuple[Case, Part]]

    @classmethod
    def of(cls, *parts: tuple[Case, Part]) -> Shared:
        claims = chain.from_iterable(part.claims for _, part in parts)
        texts = list(dict.fromkeys(claim.text for claim in claims))
        case, part = parts[0]
        return cls(texts, list(part.events), case.once, parts)


def shared(parts: Iterable[tuple[Case, Part]]) -> list[Shared]:
    """Those of the same events together."""
    same_events: dict[str, list[tuple[Case, Part]]] = {}
    for case, part in parts:
        same_events.setdefault(f"{part.events!r} {case.once!r}", []).append((case, part))
    return [Shared.of(*same) for same in same_events.values()]


@cache
def counted(path: Path) -> Sequence[tuple[Shared, Accumulator]]:
    """The parts of a file's cases, all events of each at once."""
    groups = shared((case, part) for case in cases_of(path) for part in case.parts)
    return [(same, _at_once(same)) for same in groups]


@cache
def readings(path: Path) -> Mapping[str, Sequence[tuple[Claim, Reading]]]:
    """For each case of a file, what is claimed of all its users and of each, and what was read.

    Users are counted at once where they are together; each alone is a cell of a table.
    """
    cases = cases_of(path)
    by_case: dict[str, list[tuple[Claim, Reading]]] = {case.name: [] for case in cases}
    for same, accumulator in counted(path):
        for case, part in same.parts:
            by_case[case.name] += [(claim, accumulator.read(claim.text)) for claim in part.claims]
    for users in _asked_alike((case, part) for case in cases for part in case.alone):
        for (case, part), read in zip(users, _alone(users), strict=True):
            by_case[case.name] += zip(part.claims, read, strict=True)
    return by_case


def _asked_alike(users: Iterable[tuple[Case, Part]]) -> Iterable[Sequence[tuple[Case, Part]]]:
    alike: dict[str, list[tuple[Case, Part]]] = {}
    for case, part in users:
        texts = [claim.text for claim in part.claims]
        alike.setdefault(f"{texts} {case.once!r}", []).append((case, part))
    return alike.values()


def _alone(users: Sequence[tuple[Case, Part]]) -> Iterable[tuple[Reading, ...]]:
    """The readings of each, in the order of the claims, which are of the same metrics."""
    case, part = users[0]
    texts, cells = [claim.text for claim in part.claims], np.arange(len(users))
    table = Accumulator(*texts, **case.once).table
    for cell, (_, of_user) in enumerate(users):
        _, batch = checked_batch(None, of_user.events, table.search)
        table.count(batch, cell)
    return zip(*(readings_of(parse(text), table, cells) for text in texts), strict=True)


def one_way(of: Shared) -> dict[str, Accumulator]:
    """The least like all at once."""
    return {"one by one": streamed(of.texts, of.events, of.once)}


def _at_once(of: Shared) -> Accumulator:
    """In columns where they can say it."""
    events = of.events
    batch = columns(events) if has_columns(events) else events
    return _counted(of.texts, [batch] if events else [], of.once)


def every_way(of: Shared) -> dict[str, Accumulator]:
    """The accumulators that must be the same, by how they came to be."""
    texts, events, once = of.texts, of.events, of.once
    ways = {
        **one_way(of),
        "in another order": streamed(
            texts, random.Random(of.parts[0][0].name).sample(events, len(events)), once
        ),
        "in parts, merged last to first": _merged(texts, parts(events), once),
        "many at once": _counted(texts, [events] if events else [], once),
        "many at once, in parts": _counted(texts, parts(events), once),
    }
    if has_columns(events):
        split = [columns(part) for part in parts(events)]
        ways["in columns, in parts"] = _counted(texts, split, once)
    return ways


def parts(events: Sequence[Event]) -> list[Sequence[Event]]:
    """From three to five parts of like length, none empty; fewer where events are fewer."""
    count = min(len(events), 3 + len(events) % 3)
    ends = [len(events) * number // count for number in range(count + 1)] if count else []
    return [events[start:stop] for start, stop in pairwise(ends)]


def has_columns(events: Sequence[Event]) -> bool:
    """Whether `Columns` can say all of them: it has no baselines and no histories."""
    scored = {event.scores is None for event in events}
    plain = all(event.baseline is event.history is None for event in events)
    return bool(events) and plain and len(scored) == 1


def columns(events: Sequence[Event]) -> Columns:
    """The same events as (values, offsets) of numpy."""
    interactions = [event.interactions for event in events]
    gains = None
    if any(isinstance(act, Mapping) for act in interactions):
        gains = _ragged([_gains(act) for act in interactions])
    return Columns(
        recommendations=_ragged([event.recommendations for event in events]),
        interactions=_ragged([list(act) for act in interactions]),
        gains=gains,
        scores=None
        if events[0].scores is None
        else _ragged([event.scores or () for event in events]),
    )


def _gains(interactions: Interactions) -> Sequence[float]:
    return (
        list(interactions.values())
        if isinstance(interactions, Mapping)
        else [1.0] * len(interactions)
    )


def _ragged(rows: Sequence[Sequence[Any]]) -> tuple[Any, Any]:
    values = [value for row in rows for value in row]
    offsets = np.array([*accumulate(map(len, rows), initial=0)])
    return np.array(values) if values else np.zeros(0, np.int64), offsets


def _merged(
    texts: Sequence[str], split: Sequence[Sequence[Event]], once: Mapping[str, Any]
) -> Accumulator:
    merged = Accumulator(*texts, **once)
    for table in reversed(split):
        merged.merge(streamed(texts, table, once))
    return merged


def _counted(texts: Sequence[str], batches: Sequence[Any], once: Mapping[str, Any]) -> Accumulator:
    accumulator = Accumulator(*texts, **once)
    for batch in batches:
        accumulator.update_many(batch)
    return accumulator
