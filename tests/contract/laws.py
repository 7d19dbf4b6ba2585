"""What holds for many metrics in one accumulator, as functions that raise AssertionError if not.

They share statistics there. What holds for a metric by itself says `streameval.testing`. They are
functions so that the tests can also show that each of them is able to fail.
"""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest

from streameval import Accumulator, Intervals
from streameval.catalogue import parse
from streameval.catalogue.conventions import CONVENTIONS
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.events import Event, columns_of
from streameval.events.errors import CutoffExceedsDepthError, UndefinedMetricError
from streameval.testing.laws import update
from tests.contract.metric_cases import inputs
from tests.metrics.preparation import RefusedError, Shown, of_values, per_user, through_group
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
    twin, options = twins()[metric.name], dict(metric.options)
    if metric.convention is not None:
        sets = {**CONVENTIONS[metric.convention].metrics[metric.name]}
        options = {**sets, **STEPS.get(metric.convention, {}).get(metric.name, {}), **options}
    inputs_read = [name for name in metric.definition.inputs if name in twin_inputs]
    given = {name: twin_inputs[name] for name in inputs_read}
    kinds, read = twin_inputs["attribute"], list[Shown](events)
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
        return twin(read, metric.k, **options, **given)
    del options["per"]
    return per_user(partial(twin, **given), read, metric.k, options)


def _largest_gain(events: Events) -> float:
    """Scale of the tolerance, at least 1."""
    acts = [event.interactions for event in events if isinstance(event.interactions, dict)]
    gains: list[float] = [gain for typed in acts for gain in typed.values()]
    gains += [typed_act.gain for event in events for typed_act in event.typed]
    return max([1.0, *map(abs, gains)])


def any_order(
    texts: Texts, events: Events, shuffled: Events, intervals: Intervals | None = None
) -> None:
    whole = bits(counted(texts, events, intervals=intervals))
    assert bits(counted(texts, shuffled, intervals=intervals)) == whole


def any_split(
    texts: Texts, events: Events, cuts: Sequence[int], intervals: Intervals | None = None
) -> None:
    """Parts merged from the left, from the right, and into an empty accumulator."""
    whole = bits(counted(texts, events, intervals=intervals))
    edges = [0, *sorted(cuts), len(events)]
    parts = [events[start:stop] for start, stop in pairwise(edges)]
    left = made(texts, events, intervals)
    for part in parts:
        left.merge(counted(texts, part, events, intervals))
    right = counted(texts, parts[-1], events, intervals)
    for part in reversed(parts[:-1]):
        earlier = counted(texts, part, events, intervals)
        earlier.merge(right)
        right = earlier
    assert bits(left) == whole
    assert bits(right) == whole


def any_form(texts: Texts, events: Events, intervals: Intervals | None = None) -> None:
    """One at a time, and every form of a batch."""
    whole = bits(counted(texts, events, intervals=intervals))
    for form in (list(events), iter(events), columns_of(events)):
        accumulator = made(texts, events, intervals)
        accumulator.update_many(form)
        assert bits(accumulator) == whole


def pairs_are_events(texts: Texts, events: Events) -> None:
    """(recommendations, interactions) pairs, in one batch and in several."""
    pairs = [(event.recommendations, event.interactions) for event in events]
    single, batch, chunks = (made(texts, events) for _ in range(3))
    for pair in pairs:
        single.update(*pair)
    batch.update_many(pairs)
    for start in range(0, len(pairs), 3):
        chunks.update_many(tuple(pairs[start : start + 3]))
    assert bits(single) == bits(batch) == bits(chunks)


def state_returns(texts: Texts, events: Events, intervals: Intervals | None = None) -> None:
    """JSON, pickle and a dump that replaces other events restore it, and it counts on."""
    accumulator = counted(texts, events, intervals=intervals)
    loaded, adopted = made(texts, events, intervals), counted(texts, events[:2], events, intervals)
    loaded.load_state_dict(json.loads(state(accumulator)))
    assert adopted.adopt(dumped(accumulator)) == frozenset()
    assert bits(pickle.loads(pickle.dumps(accumulator))) == bits(accumulator)
    assert bits(loaded) == bits(adopted) == bits(accumulator)
    for event in events[:3]:
        for target in (accumulator, loaded, adopted):
            update(target, event)
    assert bits(loaded) == bits(adopted) == bits(accumulator)


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


def a_copy_is_independent(texts: Texts, events: Events) -> None:
    accumulator = counted(texts, events)
    before = bits(accumulator)
    twin = accumulator.copy()
    assert bits(twin) == before
    one_more = event_of([inputs(events).item], [inputs(events).item])
    for event in (*events, one_more):
        update(twin, event)
    assert bits(twin) == bits(counted(texts, [*events, *events, one_more]))
    assert bits(accumulator) == before
    accumulator.reset()
    assert bits(accumulator) == bits(made(texts, events))


def merging_leaves_the_other_alone(texts: Texts, events: Events) -> None:
    other = counted(texts, events)
    before = bits(other)
    target = counted(texts, events[:2], events)
    target.merge(other)
    target.update([inputs(events).item], [inputs(events).item])
    assert bits(other) == before
    other.merge(other)
    assert bits(other) == bits(counted(texts, [*events, *events]))


def no_evidence_is_undefined(texts: Texts) -> None:
    for reading in values(made(texts)).values():
        assert math.isnan(reading.value)
        assert not reading.defined
        assert reading.count == 0


def beyond_the_depth_is_refused(name: str) -> None:
    accumulator = made([f"{name}@3"])
    for text in (f"{name}@4", name):
        with pytest.raises(CutoffExceedsDepthError):
            accumulator.read(text)
