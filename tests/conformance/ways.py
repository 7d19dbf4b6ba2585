"""The cases, counted, and what was read of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streameval import Accumulator, Event
from streameval.accumulator.intake import checked_batch
from streameval.accumulator.readings import readings_of
from streameval.catalogue import parse
from streameval.catalogue.reading import Reading
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
    counted = []
    for same in groups:
        accumulator = Accumulator(*same.texts, **same.once)
        if same.events:
            accumulator.update_many(same.events)
        counted.append((same, accumulator))
    return counted


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
