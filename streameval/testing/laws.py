"""The laws of metrics, and a check that finds minimal events that break one."""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeAlias, TypeVar

import numpy as np
from msgspec.structs import fields, replace

from streameval.accumulator import Accumulator
from streameval.accumulator.formulas import formula
from streameval.accumulator.intake import checked_batch
from streameval.accumulator.kinds.events import is_overlap
from streameval.accumulator.plan import make_plan
from streameval.accumulator.readings import readings_of
from streameval.accumulator.table import Table
from streameval.catalogue import metric_of, parse
from streameval.catalogue.items import Attribute, Popularity, Similarity
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.catalogue.signature import AMONG
from streameval.events import Batch, Event, Id, Interaction, columns_of
from streameval.events.errors import (
    MetricError,
    MetricLawError,
    OwnMetricError,
    UndefinedMetricError,
)
from streameval.events.per_item import PerItem
from streameval.statistics.limits import MAX_ITEMS

T = TypeVar("T")

ITEMS: tuple[Id, ...] = tuple(range(12))
_GAINS = (1, 1, 2, 0.5, 0, -1, 3.25)
_USERS = (1, 2, 3, 5, 8)
_VALUED = ("propensity", "target", "predicted", "expected")
_CHANCES = (0.125, 0.25, 0.5, 1.0)
_TYPES = ("click", "purchase")

INPUTS: Mapping[str, Any] = {
    "catalog": frozenset(ITEMS),
    "popularity": Popularity({item: 1 + number for number, item in enumerate(ITEMS)}, users=20),
    "similarity": Similarity(ITEMS, vectors=[[1.0, 1.0 + number] for number in range(len(ITEMS))]),
    "examination": (1.0, 0.5, 0.25),
}
"""The catalogue, popularity, similarity and examination that `check_metric` gives to metrics; an
attribute of items has the values that the metric names, or "a", and "b" and "c"."""


def traffic(
    events: int, *, seed: int = 0, plain: bool = False, unshown: bool = False
) -> list[Event]:
    """Random events over few items, so that lists have hits.

    Args:
        events: number of events.
        seed: equal seeds give equal events.
        plain: whether every list has distinct items at ranks 1, 2, 3, ...; otherwise some lists
            have repeated items or explicit positions.
        unshown: whether others were shown instead of some lists, as the metric `overlap` needs.

    Returns:
        Events with and without items, interactions, gains, scores, baselines, histories, users and
        values of the items: propensity, target, predicted, expected and team.

    Example:
        >>> len(traffic(3)), traffic(3) == traffic(3), traffic(3) == traffic(3, seed=1)
        (3, True, False)
    """
    draw = random.Random(seed)  # noqa: S311  reproducible on purpose; nothing secret
    drawn = [_event(draw, plain=plain) for _ in range(events)]
    if not unshown:
        return drawn
    others = [draw.sample(ITEMS, draw.choice((0, 3, 6))) for _ in drawn]
    return [
        replace(event, shown_instead=instead) if draw.random() < 0.8 else event
        for event, instead in zip(drawn, others, strict=True)
    ]


def _event(draw: random.Random, *, plain: bool) -> Event:
    def usually(make: Callable[[], T]) -> T | None:
        return make() if draw.random() < 0.8 else None

    def values() -> PerItem:
        chances: dict[str, Any] = {name: draw.choices(_CHANCES, k=length) for name in _VALUED}
        return chances | {"team": draw.choices(("a", "b", None), k=length)}

    length = draw.choice((0, 1, 3, 6, 12))
    recommendations = draw.sample(ITEMS, length)
    positions = None
    if not plain and draw.random() < 0.4:
        recommendations = draw.choices(ITEMS, k=length)
    if not plain and draw.random() < 0.3:
        positions = draw.choices(range(1, 15), k=length)
    items = draw.sample(ITEMS, draw.choice((0, 0, 1, 1, 2, 5)))
    has_gains = draw.random() >= 0.5
    gains: dict[Any, float] = {item: draw.choice(_GAINS) if has_gains else 1.0 for item in items}
    return Event(
        recommendations=recommendations,
        interactions=gains if has_gains else items,
        positions=positions,
        scores=usually(lambda: [draw.randrange(1, 100) / 100 for _ in recommendations]),
        baseline=usually(lambda: draw.sample(ITEMS, draw.choice((0, 3, 6)))),
        typed=[Interaction(item, gain, draw.choice(_TYPES)) for item, gain in gains.items()],
        history=usually(lambda: draw.sample(ITEMS, draw.choice((0, 4)))),
        user=usually(lambda: draw.choice(_USERS)),
        per_item=usually(values),
    )


EventSequence: TypeAlias = Sequence[Event]
Law: TypeAlias = Callable[[Metric, EventSequence], str | None]

_LAST_BITS = 1e-12
_SLICES, _GROUPS = 3, 16


def name_goes_round(metric: Metric, _: EventSequence) -> str | None:
    """Its canonical text parses to the metric, as configurations and other processes need."""
    parsed = parse(metric.text)
    if parsed.definition is not metric.definition:
        return "its text names another metric; declare it once, at the top of a module"
    if (parsed, parsed.values) != (metric, metric.values):
        return f"its text is read as {parsed.text!r}"
    return None


def undefined_without_evidence(metric: Metric, _: EventSequence) -> str | None:
    """Its value without events is NaN, never 0."""
    value, count = read_first(make_accumulator(metric))[:2]
    if value not in ("nan", "undefined") or count:
        return f"without events its value is {value} over {count}; it must be NaN over 0"
    return None


def has_a_value(metric: Metric, _: EventSequence) -> str | None:
    """Some events give it a value; otherwise the other laws would hold vacuously."""
    events = traffic(40, unshown=is_overlap(metric))
    # Metrics that compare lists need two of equal length.
    tries = (events, *([event] * times for event in events for times in (1, 2)))
    if all(math.isnan(value_of(count_events(metric, some))) for some in tries):
        return f"neither a single event nor {len(events)} events together give it a value"
    return None


def takes_any_event(metric: Metric, events: EventSequence) -> str | None:
    """No valid event makes it raise: empty lists, no interactions, repeats, gains."""
    read_first(count_events(metric, events))
    return None


def changes_no_event(metric: Metric, events: EventSequence) -> str | None:
    """An event stays as it is: the caller and other metrics read the same lists."""
    if metric.definition.reads != "event":
        return None  # Statistics are read only.
    value = formula(metric, make_accumulator(metric).context)
    for event in events:
        before = deepcopy(event)
        value(event)
        if event != before:
            return f"it changes its event, to {event}"
    return None


def within_bounds(metric: Metric, events: EventSequence) -> str | None:
    """No value is outside the declared bounds, for lists of distinct items without positions."""
    low, high = metric.definition.bounds
    for some in (events, *([event] for event in events)):
        value = value_of(count_events(metric, some))
        digits = _LAST_BITS * max(1.0, min(abs(value), sys.float_info.max))
        if value < low - digits or value > high + digits:
            return f"its value is {value!r}, outside of its bounds {low} to {high}"
    return None


def any_order(metric: Metric, events: EventSequence) -> str | None:
    """Events in another order give the same bits."""
    shuffled = random.Random(len(events)).sample(events, len(events))  # noqa: S311  reproducible
    for other in (events[::-1], shuffled):
        if wrong := _difference(count_events(metric, events), count_events(metric, other)):
            return f"in another order {wrong}"
    return None


def any_split(metric: Metric, events: EventSequence) -> str | None:
    """Parts that are counted separately and merged give the same bits."""
    all_at_once, third = count_events(metric, events), max(1, len(events) // 3)
    merged = make_accumulator(metric)
    for start in range(0, len(events), third):
        merged.merge(count_events(metric, events[start : start + third]))
    wrong = _difference(all_at_once, merged)
    return f"counted in parts and merged, {wrong}" if wrong else None


def many_slices(metric: Metric, events: EventSequence) -> str | None:
    """Slices of one table, with sums by user group, give the bits of each slice alone."""
    table = Table(make_plan([metric], None, MAX_ITEMS, _GROUPS), make_accumulator(metric).context)
    _, batch = checked_batch(None, list(events), table.search)
    table.count(batch, np.arange(len(events)) % _SLICES)
    for cell, reading in enumerate(readings_of(metric, table, np.arange(_SLICES))):
        alone = count_events(metric, events[cell::_SLICES])
        if evidence(reading) != read_first(alone):
            values = evidence(reading)[0], read_first(alone)[0]
            return "beside other slices the value is {} instead of {}".format(*values)
    return None


def any_form(metric: Metric, events: EventSequence) -> str | None:
    """One event at a time, many events, columns, tuples and sets give the same bits."""
    expected = make_accumulator(metric)
    for event in events:
        update(expected, event)
    columns: Batch | list[Event]
    # With tuples and frozen sets, which callers may give, too.
    unchangeable = [
        replace(
            event,
            recommendations=tuple(event.recommendations),
            interactions=event.interactions
            if isinstance(event.interactions, Mapping)
            else frozenset(event.interactions),
            baseline=None if event.baseline is None else tuple(event.baseline),
        )
        for event in events
    ]
    for columns in (list(events), columns_of(events), unchangeable):
        together = make_accumulator(metric)
        together.update_many(columns)
        if wrong := _difference(expected, together):
            return f"counted together instead of one at a time, {wrong}"
    return None


def state_returns(metric: Metric, events: EventSequence) -> str | None:
    """A state survives JSON, and counting can continue."""
    counted, restored = count_events(metric, events), make_accumulator(metric)
    restored.load_state_dict(json.loads(json.dumps(counted.state_dict())))
    for event in [None, *events[:3]]:
        if event is not None:
            update(counted, event)
            update(restored, event)
        if wrong := _difference(counted, restored):
            return f"saved and loaded, {wrong}"
    return None


def reading_changes_nothing(metric: Metric, events: EventSequence) -> str | None:
    """Reading changes neither the value nor the counts."""
    counted = count_events(metric, events)
    before = counted.state_dict()
    read_first(counted)
    if counted.state_dict() != before:
        return "reading it changed the counts"
    wrong = _difference(counted.copy(), counted.copy())
    return f"read twice, {wrong}" if wrong else None


def make_accumulator(metric: Metric) -> Accumulator:
    """An empty accumulator of one metric, with the attributes that it reads."""
    group, _, value = str(metric.values.get(AMONG, "")).partition(":")
    first = value or "a"
    # The last item has no value.
    kinds = {item: [first, "b", "c"][number % 3 :] for number, item in enumerate(ITEMS[:-1])}
    attributes = {name: Attribute(kinds) for name in (metric.attribute, group) if name}
    return Accumulator(metric, **INPUTS, attributes=attributes)


def count_events(metric: Metric, events: Iterable[Event]) -> Accumulator:
    """An accumulator of one metric with these events."""
    accumulator = make_accumulator(metric)
    accumulator.update_many(list(events))
    return accumulator


_OF_UPDATE = (
    *("recommendations", "interactions", "positions", "scores", "baseline", "typed", "history"),
    *("per_item", "shown_instead", "user", "ts"),
)


def update(accumulator: Accumulator, event: Event) -> None:
    """Count one event."""
    accumulator.update(**{name: getattr(event, name) for name in _OF_UPDATE})


def value_of(accumulator: Accumulator) -> float:
    """The metric's value; NaN if it is undefined."""
    try:
        return float(accumulator.read(accumulator.metrics[0].text).value)
    except UndefinedMetricError:
        return math.nan


def read_first(accumulator: Accumulator) -> tuple[Any, ...]:
    """The `evidence` of the reading of its first metric."""
    return evidence(accumulator.read(accumulator.metrics[0].text))


def evidence(reading: Reading) -> tuple[Any, ...]:
    """All fields of a reading but intervals, which compare equal only for equal bits."""
    value: str
    try:
        value = repr(float(reading.value))
    except UndefinedMetricError:
        value = "undefined"
    return value, reading.count, reading.lists, repr(reading.total), reading.low, reading.high


def _difference(left: Accumulator, right: Accumulator) -> str | None:
    if read_first(left) != read_first(right):
        return f"the value is {read_first(right)[0]} instead of {read_first(left)[0]}"
    if json.dumps(left.state_dict()) != json.dumps(right.state_dict()):
        return "the value is the same, but the state differs"
    return None


_MOST_TRIES = 2_000


def smallest(events: Sequence[Event], fails: Callable[[Sequence[Event]], bool]) -> list[Event]:
    """Shrink failing events to fewer and simpler ones, of which none can be left out."""
    simplest, tries = list(events), 0
    steps = _simpler(simplest)
    while tries < _MOST_TRIES and (candidate := next(steps, None)) is not None:
        tries += 1
        if fails(candidate):
            simplest, steps = candidate, _simpler(candidate)
    return simplest


def _simpler(events: list[Event]) -> Iterator[list[Event]]:
    size = len(events)
    while size:
        for start in range(0, len(events), size):
            yield events[:start] + events[start + size :]
        size //= 2
    for row, event in enumerate(events):
        for plainer in _plainer(event):
            yield [*events[:row], plainer, *events[row + 1 :]]


def _plainer(event: Event) -> Iterator[Event]:
    """The event without one of its fields, without gains, and without one item or interaction."""
    for field in fields(Event):
        if not field.required and getattr(event, field.name) != field.default:
            yield replace(event, **{field.name: field.default})
    interactions: Any = event.interactions
    if isinstance(interactions, Mapping):
        yield replace(event, interactions=list(interactions))

    def without(row: int, column: Sequence[Any] | None) -> list[Any] | None:
        return None if column is None else [*column[:row], *column[row + 1 :]]

    for row in range(len(event.recommendations)):
        shorter: dict[str, Any] = {
            name: without(row, getattr(event, name))
            for name in ("recommendations", "positions", "scores")
        }
        if event.per_item is not None:
            items = event.per_item.items()
            shorter["per_item"] = {name: without(row, values) for name, values in items}
        yield replace(event, **shorter)
    for item in interactions:
        others = [other for other in interactions if other != item]
        has_gains = isinstance(interactions, Mapping)
        fewer = {other: interactions[other] for other in others} if has_gains else others
        yield replace(event, interactions=fewer)


Twin = Callable[[Sequence[Event]], float]

LAWS: Mapping[str, Law] = {
    "name goes round": name_goes_round,
    "undefined without evidence": undefined_without_evidence,
    "takes any event": takes_any_event,
    "changes no event": changes_no_event,
    "has a value": has_a_value,
    "within its bounds": within_bounds,
    "reading changes nothing": reading_changes_nothing,
    "any order": any_order,
    "any split and merge": any_split,
    "any form": any_form,
    "many slices": many_slices,
    "the state returns": state_returns,
}
"""Laws by name, in the order of the checks; "equals its twin" comes last."""

_DIGITS = 1e-9
_WITHOUT_EVENTS = ("name goes round", "undefined without evidence", "has a value")


def check_metric(
    metric: str | Metric | Callable[..., Any],
    *,
    twin: Twin | None = None,
    events: int = 40,
    seeds: int = 5,
) -> None:
    """Check that a metric satisfies the laws of the metrics in the catalogue.

    Args:
        metric: its text, or the decorated function, as for an Accumulator.
        twin: a simple reference implementation, from a sequence of Events to the value, NaN if
            undefined. `streameval.testing.INPUTS` has the catalogue, popularity and similarity that
            the metric gets.
        events: number of events for each law and seed.
        seeds: number of seeds.

    Raises:
        MetricLawError: it breaks a law; the message has the law and minimal events.
        MetricError: the metric is unknown, or `events` or `seeds` is below 1.

    Example:
        >>> check_metric("ndcg@3")
    """
    checked = metric_of(metric)
    if min(events, seeds) < 1:
        raise MetricError(f"events={events!r}, seeds={seeds!r}: give at least 1 of each")
    laws = dict(LAWS) if twin is None else {**LAWS, "equals its twin": _equals(twin)}
    for name, law in laws.items():
        for seed in range(1 if name in _WITHOUT_EVENTS else seeds):
            drawn = traffic(
                events,
                seed=seed,
                plain=name == "within its bounds",
                unshown=is_overlap(checked),
            )
            _check(checked, name, law, drawn)


def _check(metric: Metric, name: str, law: Law, events: Sequence[Event]) -> None:
    if _broken_law(metric, law, events) is None:
        return
    fewest = smallest(events, lambda fewer: _broken_law(metric, law, fewer) is not None)
    detail = _broken_law(metric, law, fewest) or "the result differs from try to try"
    message = f"metric {metric.text!r} breaks the law {name!r}: {detail}."
    raise MetricLawError(message, metric=metric.text, law=name, detail=detail, events=fewest)


def _broken_law(metric: Metric, law: Law, events: Sequence[Event]) -> str | None:
    try:
        # A copy, because a formula may change its events.
        return law(metric, deepcopy(events))
    except Exception as error:  # noqa: BLE001  whatever a formula raises on a valid event is wrong
        raised = (isinstance(error, OwnMetricError) and error.__cause__) or error
        return f"it raises {type(raised).__name__}: {raised}"


def _equals(twin: Twin) -> Law:
    def equals_its_twin(metric: Metric, events: Sequence[Event]) -> str | None:
        value = value_of(count_events(metric, events))
        try:
            expected = float(twin(events))
        except Exception as error:  # noqa: BLE001  a twin is a user's code, as the formula is
            return f"its twin raises {type(error).__name__}: {error}"
        if math.isnan(value) and math.isnan(expected):
            return None
        if math.isclose(value, expected, rel_tol=_DIGITS, abs_tol=_DIGITS**2):
            return None
        return f"its value is {value!r}, by its twin {expected!r}"

    return equals_its_twin
