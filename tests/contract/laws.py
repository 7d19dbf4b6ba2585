"""What holds for many metrics in one accumulator, as functions that raise AssertionError if not.

They share statistics there. What holds for a metric by itself says `streameval.testing`. They are
functions so that the tests can also show that each of them is able to fail.
"""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace

from streameval import Accumulator, Intervals
from streameval.catalogue import parse
from streameval.catalogue.conventions import CONVENTIONS
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.events import Event, columns_of
from streameval.events.errors import NotKeptError, UndefinedMetricError
from streameval.testing.laws import update
from tests.columnar import forms
from tests.contract.metric_cases import inputs
from tests.metrics.preparation import AnyEvent, RefusedError, of_values, per_user, through_group
from tests.metrics.systems import STEPS
from tests.metrics.twins import twins
from tests.strategies import event_of, same

Events = Sequence[Event]
Texts = Sequence[str]


def made(texts: Texts, events: Events = (), intervals: Intervals | None = None) -> Accumulator:
    """An empty accumulator with inputs for the items of the events."""
    return Accumulator(*texts, **inputs(events).of_package, intervals=intervals)


def counted(
    texts: Texts, events: Events, inputs_of: Events = (), intervals: Intervals | None = None
) -> Accumulator:
    """Events counted one by one, with inputs for their items or for those of other events."""
    accumulator = made(texts, inputs_of or events, intervals)
    for event in events:
        update(accumulator, event)
    return accumulator


def values(accumulator: Accumulator) -> dict[str, Reading]:
    return {metric.text: accumulator.read(metric.text) for metric in accumulator.metrics}


def state(accumulator: Accumulator) -> bytes:
    return json.dumps(accumulator.state_dict()).encode()


def dumped(accumulator: Accumulator) -> bytes:
    return b"".join(accumulator.dump())


def value(reading: Reading) -> float | None:
    """The value; None if the convention refuses it."""
    try:
        return reading.value
    except UndefinedMetricError:
        return None


def bits(accumulator: Accumulator) -> tuple[object, ...]:
    """State and values, so that only equal bits are equal."""
    readings = [seen(reading) for reading in values(accumulator).values()]
    sums = [accumulator.groups(metric.text) for metric in accumulator.metrics]
    groups = [arrays and [column.tobytes() for column in arrays] for arrays in sums]
    audience = accumulator.audience
    users = audience and [np.asarray(column).tolist() for column in audience]
    return state(accumulator), dumped(accumulator), accumulator.lists, readings, groups, users


def seen(reading: Reading) -> tuple[object, ...]:
    """All fields of a reading, which compare equal only for equal bits."""
    exact = (repr(value(reading)), repr(reading.low), repr(reading.total))
    sure = repr(reading.interval), reading.no_interval
    return (*exact, *sure, reading.metric, reading.count, reading.lists, reading.estimated)


def equals_its_twin(texts: Texts, events: Events) -> None:
    accumulator = made(texts, events)
    accumulator.update_many(list(events))
    for text, reading in values(accumulator).items():
        metric = parse(text)
        try:
            expected = by_its_twin(metric, events, inputs(events).of_twins)
        except RefusedError:
            expected = None
        measured = value(reading)
        # The difference of nearly equal values is only rounding.
        spread = metric.values.get("statistic") in ("standard_error", "half_width")
        near = 1e-12 if spread or metric.definition.per == "slice" else 0.0
        if spread:
            near *= _largest_gain(events)
        if {"similarity", "attribute"}.intersection(metric.definition.inputs):
            # 1 minus a cosine, or an entropy: a value near 0 is only rounding.
            near = 1e-12
        if metric.is_per_user:
            # The value of a list is rounded to 2^-32.
            near = max(near, 1e-9)
        if (metric.convention, metric.name) == ("capri", "ndcg"):
            # In 32-bit floats, rounded to 4 decimals.
            near = 1.1e-4
        alike = measured is expected or (
            measured is not None and expected is not None and same(measured, expected, near)
        )
        assert alike, f"{text}: {measured}, by its twin {expected}"


def by_its_twin(metric: Metric, events: Events, twin_inputs: Mapping[str, Any]) -> float:
    """The value by the twin; of a metric per user by the twin of each user's lists."""
    reference, options = twins()[metric.name], dict(metric.options)
    if metric.convention is not None:
        sets = {**CONVENTIONS[metric.convention].metrics[metric.name]}
        options = {**sets, **STEPS.get(metric.convention, {}).get(metric.name, {}), **options}
    inputs_read = [name for name in metric.definition.inputs if name in twin_inputs]
    given = {name: twin_inputs[name] for name in inputs_read}
    kinds, read = twin_inputs["attribute"], list[AnyEvent](events)
    if metric.among:
        del options["among"]
        value = metric.among.partition(":")[2]
        last = metric.part_read[1] if metric.definition.reads == "event" else None
        read = [through_group(event, kinds, value, last) for event in read]
    if metric.definition.reads == "exposures" and metric.attribute:
        del options["by"]
        read = [of_values(event, kinds) for event in read]
        if "catalog" in given:
            given["catalog"] = frozenset(chain.from_iterable(kinds.values()))
    if not metric.is_per_user:
        return reference(read, metric.k, **options, **given)
    del options["per"]
    return per_user(partial(reference, **given), read, metric.k, options)


def _largest_gain(events: Events) -> float:
    """Scale of the tolerance, at least 1."""
    interactions = [event.interactions for event in events if isinstance(event.interactions, dict)]
    gains: list[float] = [gain for typed in interactions for gain in typed.values()]
    gains += [typed_act.gain for event in events for typed_act in event.typed]
    return max([1.0, *map(abs, gains)])


def however_counted(
    texts: Texts, events: Events, draw: Random, intervals: Intervals | None = None
) -> None:
    """In any order and split, by any door, with copies and saved states between: the same bits."""
    doors = draw.choice((_FIELDS, _COLUMNS, _LISTS))
    events = [doors.of(event) for event in events]
    total, rest = (
        bits(counted(texts, events, intervals=intervals)),
        draw.sample(events, len(events)),
    )
    parts = [made(texts, events, intervals)]
    while rest:
        size = draw.randint(1, len(rest))
        accumulator = draw.choice((parts[-1], made(texts, events, intervals)))
        draw.choice(doors.ways)(accumulator, rest[:size])
        rest = rest[size:]
        twin = draw.choice(_RETURNS)(accumulator, made(texts, events, intervals), events[:2])
        before = bits(twin)
        assert bits(accumulator) == before
        draw.choice(doors.ways)(accumulator, events[:1])
        assert bits(twin) == before
        parts = [part for part in parts if part is not accumulator] + [twin]
    while len(parts) > 1:
        draw.shuffle(parts)
        first, other, *_ = parts
        before = bits(other)
        first.merge(other)
        assert bits(other) == before
        parts.remove(other)
    assert bits(parts[0]) == total
    parts[0].merge(parts[0])
    assert bits(parts[0]) == bits(counted(texts, [*events, *events], intervals=intervals))
    parts[0].reset()
    assert bits(parts[0]) == bits(made(texts, events, intervals))


class Doors(NamedTuple):
    """Ways to count events of which certain fields are known.

    Attributes:
        of: an event with these fields alone.
        ways: each counts some events.
    """

    of: Callable[[Event], Event]
    ways: Sequence[Callable[[Accumulator, Events], object]]


def _one_by_one(accumulator: Accumulator, events: Events) -> None:
    for event in events:
        update(accumulator, event)


def _with_reads_between(accumulator: Accumulator, events: Events) -> None:
    for event in events:
        update(accumulator, event)
        values(accumulator)


def _without_what_columns_lack(event: Event) -> Event:
    return replace(event, baseline=None, history=None, typed=())


def _lists_alone(event: Event) -> Event:
    """Lists and interactions in order; not those of which all are 0 or 1, which would be marks."""
    interactions = [*event.interactions]
    marks: set[object] = {0, 1, "0", "1"}
    return event_of(
        [*event.recommendations], [] if marks.issuperset(interactions) else interactions
    )


def _by_columns(form: Callable[[Any, Any], Any]) -> Callable[[Accumulator, Events], object]:
    return lambda accumulator, events: accumulator.update_many(
        form([event.recommendations for event in events], [event.interactions for event in events])
    )


_ROWS: Sequence[Callable[[Accumulator, Events], object]] = (
    _one_by_one,
    _with_reads_between,
    lambda accumulator, events: accumulator.update_many(list(events)),
    lambda accumulator, events: accumulator.update_many(iter(events)),
    lambda accumulator, events: accumulator.update_many(columns_of(events)),
)
_FIELDS = Doors(lambda event: event, _ROWS)
_COLUMNS = Doors(
    _without_what_columns_lack,
    (*_ROWS, lambda accumulator, events: accumulator.update_many(forms.whole(events))),
)
_LISTS = Doors(
    _lists_alone,
    (
        *_ROWS,
        lambda accumulator, events: accumulator.update_many(
            (event.recommendations, event.interactions) for event in events
        ),
        *map(_by_columns, forms.FORMS.values()),
    ),
)


def _adopted(accumulator: Accumulator, twin: Accumulator, others: Events) -> Accumulator:
    """Another accumulator whose own events are replaced."""
    twin.update_many(list(others))
    assert twin.adopt(dumped(accumulator)) == frozenset()
    return twin


def _loaded(accumulator: Accumulator, twin: Accumulator, _: Events) -> Accumulator:
    twin.load_state_dict(json.loads(state(accumulator)))
    return twin


_RETURNS: Sequence[Callable[[Accumulator, Accumulator, Events], Accumulator]] = (
    _adopted,
    _loaded,
    lambda accumulator, *_: accumulator.copy(),
    lambda accumulator, *_: pickle.loads(pickle.dumps(accumulator)),
)
"""Copies and saved states of an accumulator: of an empty one, and some events."""


def other_metrics_adopt_what_they_need(few: Texts, many: Texts, events: Events) -> None:
    """With more metrics the new ones start empty; with fewer the others are dropped."""
    small, large = counted(few, events), counted(many, events)
    grown, shrunk = made(many, events), made(few, events)
    missing = grown.adopt(dumped(small))
    assert shrunk.adopt(dumped(large)) == frozenset()
    assert bits(shrunk) == bits(small)
    assert grown.lists == small.lists == len(events)
    for metric in grown.metrics:
        if not grown.needs(metric) & missing:
            assert seen(grown.read(metric.text)) == seen(large.read(metric.text))
        elif grown.needs(metric) <= missing:
            assert not grown.read(metric.text).count
    assert not any(grown.needs(metric) & missing for metric in small.metrics)


def no_evidence_is_undefined(texts: Texts) -> None:
    for reading in values(made(texts)).values():
        assert math.isnan(reading.value)
        assert not reading.defined
        assert reading.count == 0


def beyond_the_depth_is_refused(name: str) -> None:
    accumulator = made([f"{name}@3"])
    for text in (f"{name}@4", name):
        with pytest.raises(NotKeptError):
            accumulator.read(text)
