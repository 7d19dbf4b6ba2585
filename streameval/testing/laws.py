"""What holds for every metric: each law returns what is wrong, or None where it is kept."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from streameval.accumulator import Accumulator
from streameval.catalogue import parse
from streameval.catalogue.metric import Metric
from streameval.errors import UndefinedMetricError
from streameval.events import Batch, Event, columns_of
from streameval.testing.traffic import INPUTS

Events: TypeAlias = Sequence[Event]
Law: TypeAlias = Callable[[Metric, Events], str | None]

_LAST_BITS = 1e-12


def name_goes_round(metric: Metric, _: Events) -> str | None:
    """Its canonical text names it again, so that a configuration or another process can."""
    found = parse(metric.text)
    if found.definition is not metric.definition:
        return "its text names another metric; declare it once, at the top of a module"
    if (found, found.values) != (metric, metric.values):
        return f"its text is read as {found.text!r}"
    return None


def undefined_without_evidence(metric: Metric, _: Events) -> str | None:
    """Without events it is NaN, never 0."""
    value, count = read(made(metric))[:2]
    if value not in ("nan", "undefined") or count:
        return f"without events its value is {value} over {count}; it must be NaN over 0"
    return None


def takes_any_event(metric: Metric, events: Events) -> str | None:
    """Nothing in a valid event makes it raise: empty lists, no interactions, repeats, gains."""
    read(counted(metric, events))
    return None


def within_bounds(metric: Metric, events: Events) -> str | None:
    """No value lies outside of what is declared; lists have distinct items at their own places."""
    low, high = metric.definition.bounds
    for some in (events, *([event] for event in events)):
        value = value_of(counted(metric, some))
        digits = _LAST_BITS * max(1.0, abs(value))
        if value < low - digits or value > high + digits:
            return f"its value is {value!r}, outside of its bounds {low} to {high}"
    return None


def any_order(metric: Metric, events: Events) -> str | None:
    """Events in another order give the same bits."""
    shuffled = random.Random(len(events)).sample(events, len(events))  # noqa: S311  reproducible
    for other in (events[::-1], shuffled):
        if wrong := _unlike(counted(metric, events), counted(metric, other)):
            return f"in another order {wrong}"
    return None


def any_split(metric: Metric, events: Events) -> str | None:
    """Parts that are counted apart and merged give the same bits."""
    whole, third = counted(metric, events), max(1, len(events) // 3)
    merged = made(metric)
    for start in range(0, len(events), third):
        merged.merge(counted(metric, events[start : start + third]))
    wrong = _unlike(whole, merged)
    return f"counted in parts and merged, {wrong}" if wrong else None


def any_form(metric: Metric, events: Events) -> str | None:
    """One event at a time, many events and columns give the same bits."""
    whole = counted(metric, events)
    columns: Batch | list[Event]
    for columns in (list(events), columns_of(events)):
        together = made(metric)
        together.update_many(columns)
        if wrong := _unlike(whole, together):
            return f"counted together instead of one at a time, {wrong}"
    return None


def state_returns(metric: Metric, events: Events) -> str | None:
    """A state survives JSON, and goes on counting."""
    here, there = counted(metric, events), made(metric)
    there.load_state_dict(json.loads(json.dumps(here.state_dict())))
    for event in [None, *events[:3]]:
        if event is not None:
            update(here, event)
            update(there, event)
        if wrong := _unlike(here, there):
            return f"saved and loaded, {wrong}"
    return None


def reading_changes_nothing(metric: Metric, events: Events) -> str | None:
    """A value can be read any number of times, and what is counted stays as it is."""
    here = counted(metric, events)
    before = here.state_dict()
    read(here)
    if here.state_dict() != before:
        return "reading it changed what was counted"
    wrong = _unlike(here.copy(), here.copy())
    return f"read twice, {wrong}" if wrong else None


def made(metric: Metric) -> Accumulator:
    """An empty accumulator of one metric."""
    return Accumulator(metric, **INPUTS)


def counted(metric: Metric, events: Iterable[Event]) -> Accumulator:
    """Events, counted one at a time."""
    accumulator = made(metric)
    for event in events:
        update(accumulator, event)
    return accumulator


def update(accumulator: Accumulator, event: Event) -> None:
    """Count one event."""
    accumulator.update(
        event.recommendations,
        event.interactions,
        event.positions,
        scores=event.scores,
        baseline=event.baseline,
        typed=event.typed,
        history=event.history,
        user=event.user,
    )


def value_of(accumulator: Accumulator) -> float:
    """The metric's value; NaN where it has none."""
    try:
        return float(accumulator.read(accumulator.metrics[0].text).value)
    except UndefinedMetricError:
        return math.nan


def read(accumulator: Accumulator) -> tuple[Any, ...]:
    """Everything that a reading says, so that only equal bits are equal."""
    reading = accumulator.read(accumulator.metrics[0].text)
    value: str
    try:
        value = repr(float(reading.value))
    except UndefinedMetricError:
        value = "undefined"
    return value, reading.count, reading.lists, repr(reading.total), reading.low, reading.high


def _unlike(left: Accumulator, right: Accumulator) -> str | None:
    if read(left) != read(right):
        return f"the value is {read(right)[0]} instead of {read(left)[0]}"
    if json.dumps(left.state_dict()) != json.dumps(right.state_dict()):
        return "the value is the same, but the state differs"
    return None
