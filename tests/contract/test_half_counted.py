"""A refused or interrupted change is counted as a whole, or not at all, or is reported."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from streameval import Accumulator, Columns, Event, Intervals, metric
from streameval.accumulator.event_checks import EventChecks
from streameval.events.errors import HalfCountedError, OwnMetricError
from streameval.statistics.exposures import ItemsShown
from streameval.statistics.hits import Hits
from streameval.statistics.lists import Lists

LONG = ["a", "b", "c"], ["b"]
SHORT = ["a"], ["a"]


@metric(bounds=(0, 1), source="our own rule")
def refuses_long(event: Event) -> float:
    """An error for lists of three items."""
    if len(event.recommendations) > 2:
        raise KeyError("long")
    return 1.0


@metric(bounds=(0, 1), source="our own rule")
def fails_on_long(lists: Lists) -> Any:
    """An error for lists of three items, when lists are counted."""
    if (lists.length > 2).any():
        raise KeyError("long")
    return np.ones(len(lists))


@metric(bounds=(0, 1), source="our own rule")
def words(event: Event) -> Any:
    """A wrong value for lists of three items."""
    return "long" if len(event.recommendations) > 2 else 1.0


@pytest.mark.parametrize(
    "given",
    [
        [SHORT, LONG, SHORT],
        [
            Event(recommendations=recommended, interactions=interactions)
            for recommended, interactions in (SHORT, LONG)
        ],
        Columns(
            recommendations=(np.array(["a", "a", "b", "c"]), np.array([0, 1, 4])),
            interactions=(np.array(["a"]), np.array([0, 1, 1])),
        ),
    ],
)
@pytest.mark.parametrize("intervals", [None, Intervals()])
def test_a_batch_on_which_a_metric_raises_is_not_counted(given: Any, intervals: Any) -> None:
    for raising, problem in ((refuses_long, " failed for "), (words, " returned ")):
        accumulator = Accumulator("hit_rate@2", "distinct_items@2", raising, intervals=intervals)
        with pytest.raises(OwnMetricError, match=problem):
            accumulator.update_many([([1, 2, 3], [1])])
        accumulator.update(*SHORT, user="u")
        before = accumulator.state_dict()
        for _ in range(2):
            with pytest.raises(OwnMetricError, match=problem):
                accumulator.update_many(given)
            with pytest.raises(OwnMetricError, match=problem):
                accumulator.update(*LONG, user="u")
            assert accumulator.state_dict() == before
        assert (accumulator.lists, accumulator.read("hit_rate@2").count) == (1, 1)
        accumulator.update(*SHORT)
        assert accumulator.read("hit_rate@2").count == 2


def _unreadable(accumulator: Accumulator, cause: str) -> None:
    """Nothing reads, saves or merges the counts; `reset` starts again."""
    readers: list[Callable[[], object]] = [
        accumulator.compute,
        accumulator.copy,
        accumulator.state_dict,
        lambda: accumulator.read("hit_rate@2"),
        lambda: accumulator.update_many([SHORT]),
        lambda: accumulator.update(*SHORT),
        lambda: accumulator.update(*SHORT, user="u"),
        lambda: Accumulator("hit_rate@2").merge(accumulator),
        lambda: accumulator.merge(accumulator),
    ]
    for read in readers:
        with pytest.raises(HalfCountedError, match=cause):
            read()
    accumulator.reset()
    accumulator.update(*SHORT)
    assert accumulator.read("hit_rate@2").count == accumulator.lists == 1


def test_a_metric_that_fails_later_loses_no_lists_in_silence() -> None:
    accumulator = Accumulator("hit_rate@2", fails_on_long)
    accumulator.update(*SHORT)
    assert accumulator.read("hit_rate@2").count == 1
    state = accumulator.state_dict()
    accumulator.update(*LONG)
    with pytest.raises(KeyError, match="long"):
        accumulator.read("hit_rate@2")
    with pytest.raises(HalfCountedError, match=r"half-way .*: it stopped with KeyError\('long'\)"):
        accumulator.read("hit_rate@2")
    accumulator.load_state_dict(state)
    assert accumulator.read("hit_rate@2").count == 1
    accumulator.update(*LONG)
    with pytest.raises(KeyError, match="long"):
        accumulator.compute()
    _unreadable(accumulator, "call reset")


@pytest.mark.parametrize("kind", [Hits, ItemsShown])
def test_an_interrupt_in_the_middle_of_a_change_is_reported(kind: type[Any]) -> None:
    def read(accumulator: Accumulator) -> None:
        accumulator.update_many([SHORT])
        accumulator.compute()

    changes: Mapping[str, Callable[[Accumulator], None]] = {
        "add" if kind is Hits else "count": read,
        "reduce": read,
        "merge": lambda accumulator: accumulator.merge(accumulator.copy()),
    }
    for name, change in changes.items():
        accumulator = Accumulator("hit_rate@2", "distinct_items@2")
        accumulator.update(*SHORT)
        assert math.isfinite(accumulator.read("hit_rate@2").value)

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kind, name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                change(accumulator)
        _unreadable(accumulator, r"it stopped with KeyboardInterrupt\(\); call reset")


def test_reading_in_the_middle_of_a_change_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    accumulator = Accumulator("hit_rate@2")
    errors: list[Exception] = []
    add = Hits.add

    def handled(*args: Any) -> None:
        """As a signal handler that saves the state, and runs in the middle of a change."""
        add(*args)
        with pytest.raises(HalfCountedError, match="an interrupt or a signal handler") as raised:
            accumulator.state_dict()
        errors.append(raised.value)

    monkeypatch.setattr(Hits, "add", handled)
    accumulator.update_many([SHORT])
    assert accumulator.read("hit_rate@2").count == 1
    assert len(errors) == 1


def test_reading_in_the_middle_of_a_single_event_is_refused_and_loses_nothing() -> None:
    accumulator = Accumulator("hit_rate@2", ids="text", intervals=Intervals())
    for _ in range(200):
        accumulator.update(*SHORT, user="u")
    errors: list[Exception] = []

    class Handled(list[Any]):
        """As a signal handler that reads while only half of an event is in its block."""

        def append(self, row: Any) -> None:
            with pytest.raises(HalfCountedError, match=r"call reset\(\)") as raised:
                accumulator.compute()
            errors.append(raised.value)
            super().append(row)

    blocks = accumulator._counts.blocks
    plain, ranked = blocks.waiting
    blocks.waiting = plain._replace(rows=Handled(plain.rows)), ranked
    accumulator.update(*SHORT, user="u")
    accumulator.update(*SHORT, [2], user="u")
    assert accumulator.lists == accumulator.read("hit_rate@2").count == 202
    assert len(errors) == 1


@pytest.mark.parametrize(("kind", "step"), [(EventChecks, "copy"), (Hits, "mapped")])
def test_a_copy_has_all_of_a_batch_that_comes_meanwhile_or_nothing(
    monkeypatch: pytest.MonkeyPatch, kind: type[Any], step: str
) -> None:
    accumulator = Accumulator("hit_rate@2", "distinct_items@2")
    accumulator.update(*SHORT)
    change, came = getattr(kind, step), list[Any]([SHORT])

    def handled(*args: Any) -> Any:
        """As a signal handler that counts, and runs in the middle of a copy."""
        result = change(*args)
        while came:
            accumulator.update_many([came.pop()])
        return result

    monkeypatch.setattr(kind, step, handled)
    duplicate = accumulator.copy()
    lists = {reading.lists for reading in duplicate.compute().values()}
    assert lists == {duplicate.lists} == {duplicate.read("hit_rate@2").count}
    assert accumulator.lists == accumulator.read("hit_rate@2").count == 2


def test_an_interrupt_between_two_lists_leaves_equal_counts() -> None:
    accumulator = Accumulator("hit_rate@2", ids="text")
    for _ in range(200):
        accumulator.update(*SHORT)
    add = accumulator._counts.add

    def interrupted(*given: Any) -> bool:
        add(*given)
        raise KeyboardInterrupt

    accumulator._counts.add = interrupted
    with pytest.raises(KeyboardInterrupt):
        accumulator.update(*SHORT)
    accumulator._counts.add = add
    for _ in range(1_300):
        accumulator.update(*SHORT)
    assert accumulator.lists == accumulator.read("hit_rate@2").count == 1_501
