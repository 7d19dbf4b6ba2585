"""The ways to the same statistics: one by one, in any order, many at once, in merged parts."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from streameval import Accumulator, Columns, Event
from streameval.catalogue.reading import Reading
from streameval.events import Interactions
from tests.conformance.recorded import Case, Part, cases_of


def streamed(texts: Sequence[str], events: Iterable[Event], once: Mapping[str, Any]) -> Accumulator:
    """One event at a time."""
    accumulator = Accumulator(*texts, **once)
    for event in events:
        accumulator.update(
            event.recommendations,
            event.interactions,
            scores=event.scores,
            baseline=event.baseline,
            history=event.history,
        )
    return accumulator


@cache
def alone(path: Path) -> Mapping[str, Sequence[Sequence[Reading]]]:
    """For each case of a file, for each of its users alone, the readings that are claimed.

    A user whom many cases share is counted once, for all that they claim.
    """
    texts: dict[str, dict[str, None]] = {}
    found: dict[str, list[tuple[str, Case, Part]]] = {}
    for case in cases_of(path):
        users = [(f"{part.events!r} {case.once!r}", case, part) for part in case.alone]
        found[case.name] = users
        for key, _, part in users:
            texts.setdefault(key, {}).update(dict.fromkeys(claim.text for claim in part.claims))
    counted: dict[str, Accumulator] = {}
    for key, case, part in chain.from_iterable(found.values()):
        if key not in counted:
            counted[key] = streamed(list(texts[key]), part.events, case.once)
    return {
        name: [[counted[key].read(claim.text) for claim in part.claims] for key, _, part in users]
        for name, users in found.items()
    }


def two_ways(case: Case, part: Part) -> dict[str, Accumulator]:
    """The least alike: each event alone and merged in parts, and all at once, in columns."""
    texts = list(dict.fromkeys(claim.text for claim in part.claims))
    events = list(part.events)
    batch = columns(events) if has_columns(events) else events
    return {
        "in parts, merged last to first": _merged(texts, parts(events), case.once),
        "all at once": _counted(texts, [batch] if events else [], case.once),
    }


def every_way(case: Case, part: Part) -> dict[str, Accumulator]:
    """The accumulators that must be the same, by how they came to be."""
    texts = list(dict.fromkeys(claim.text for claim in part.claims))
    events = list(part.events)
    found = {
        "one by one": streamed(texts, events, case.once),
        "in another order": streamed(
            texts, random.Random(case.name).sample(events, len(events)), case.once
        ),
        "in parts, merged last to first": _merged(texts, parts(events), case.once),
        "many at once": _counted(texts, [events] if events else [], case.once),
        "many at once, in parts": _counted(texts, parts(events), case.once),
    }
    if has_columns(events):
        found["in columns"] = _counted(texts, [columns(events)], case.once)
        split = [columns(each) for each in parts(events)]
        found["in columns, in parts"] = _counted(texts, split, case.once)
    return found


def parts(events: Sequence[Event]) -> list[Sequence[Event]]:
    """From three to five parts of like length, none empty; fewer where events are fewer."""
    count = min(len(events), 3 + len(events) % 3)
    ends = [len(events) * each // count for each in range(count + 1)] if count else []
    return [events[start:stop] for start, stop in pairwise(ends)]


def has_columns(events: Sequence[Event]) -> bool:
    """Whether `Columns` can say all of them: it has no baselines and no histories."""
    scored = {event.scores is None for event in events}
    plain = all(event.baseline is event.history is None for event in events)
    return bool(events) and plain and len(scored) == 1


def columns(events: Sequence[Event]) -> Columns:
    """The same events as (values, offsets) of numpy."""
    acts = [event.interactions for event in events]
    gains = None
    if any(isinstance(each, Mapping) for each in acts):
        gains = _ragged([_gains(each) for each in acts])
    return Columns(
        recommendations=_ragged([event.recommendations for event in events]),
        interactions=_ragged([list(each) for each in acts]),
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
    for each in reversed(split):
        merged.merge(streamed(texts, each, once))
    return merged


def _counted(texts: Sequence[str], batches: Sequence[Any], once: Mapping[str, Any]) -> Accumulator:
    accumulator = Accumulator(*texts, **once)
    for batch in batches:
        accumulator.update_many(batch)
    return accumulator
