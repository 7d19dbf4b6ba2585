"""The ways to the same statistics: one event at a time, in another order, in parts that merge."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from streameval import Accumulator, Event
from tests.conformance.recorded import Case, Part


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


def three_ways(case: Case, part: Part) -> list[Accumulator]:
    """In the order of the file; in another; and in three parts, merged last to first."""
    texts = list(dict.fromkeys(claim.text for claim in part.claims))
    third = -(-len(part.events) // 3)
    shuffled = random.Random(case.name).sample(list(part.events), len(part.events))
    merged, *others = (
        streamed(texts, part.events[start : start + third], case.once)
        for start in (2 * third, 0, third)
    )
    for other in others:
        merged.merge(other)
    return [streamed(texts, events, case.once) for events in (part.events, shuffled)] + [merged]
