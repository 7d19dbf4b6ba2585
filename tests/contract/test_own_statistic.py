"""A new statistic is one file and one entry; an analysis from outside asks for one of its own."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec import Struct

from streameval import Accumulator, Intervals
from streameval.accumulator.kinds.cells import CellSpec
from streameval.config.config import Config
from streameval.engine import analysis as door
from streameval.engine.analysis import Analysis
from streameval.evaluation.shell.exits import FAILED, USAGE_ERROR, status_of
from streameval.events import Batch
from streameval.events.errors import NotKeptError, OwnStatisticError
from streameval.sources.settings import SimulatorOptions
from streameval.statistics.asked import BY_CELL, CellStatistic
from tests.contract import own_statistic
from tests.contract.own_statistic import LengthsOptions, ListLengths, declared

LISTS: Sequence[list[str]] = (["a", "b"], ["a"], [], ["a", "b", "c"])


@pytest.fixture
def mean_length(monkeypatch: pytest.MonkeyPatch) -> Any:
    entry = CellStatistic(own_statistic.__name__, "LengthsOptions", "lists by length", "kilobytes")
    monkeypatch.setitem(BY_CELL, "lengths", entry)
    return declared()


def _counted(*metrics: Any, **options: Any) -> Accumulator:
    accumulator = Accumulator(*metrics, **options)
    for items in LISTS:
        accumulator.update(items, items[:1], user="u", ts=1_700_000_000_000_000)
    return accumulator


def test_a_statistic_of_one_file_and_one_entry_is_counted_read_merged_and_saved(
    mean_length: Any,
) -> None:
    first, second = _counted(mean_length, "ndcg@2"), _counted("ndcg@2", mean_length)
    (text,) = (metric.text for metric in first.metrics if metric.text != "ndcg@2")
    assert first.read(text).value == 1.5
    assert first.needs(text) == {"lengths"}
    first.merge(second)
    assert (first.read(text).value, first.read(text).lists) == (1.5, 8)
    loaded = pickle.loads(pickle.dumps(first))
    assert loaded.read(text) == first.read(text)
    assert loaded.state_dict() == first.state_dict()
    with pytest.raises(NotKeptError):
        _counted("ndcg@2").read(text)


class Lengths(Struct, frozen=True):
    """Settings of an analysis from outside."""

    longest: int = 2


class ConfigWithLengths(Config, frozen=True, kw_only=True):
    """A configuration with its table."""

    lengths: Lengths | None = None


def _config(lengths: Lengths | None) -> ConfigWithLengths:
    return ConfigWithLengths(
        source=SimulatorOptions(), metrics=["ndcg@2"], intervals=Intervals(), lengths=lengths
    )


def test_an_analysis_from_outside_asks_for_a_statistic_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing: Any = None
    analysis = Analysis(
        *("lengths", "Lengths", "lengths", Lengths, "lists by length", nothing, nothing),
        *(nothing, nothing, nothing, nothing, "lengths"),
        needs=lambda settings, _: [CellSpec(options=LengthsOptions(longest=settings.longest))],
    )
    monkeypatch.setattr(door, "installed", lambda: (analysis,))
    without = _config(None)
    assert "lengths(longest=2)" not in without.accumulator().table.statistics
    config = _config(Lengths())
    ((_, accumulator),) = config.accumulators()
    for items in LISTS:
        accumulator.update(items, [], user="u")
    statistic: Any = accumulator.table.statistics["lengths(longest=2)"]
    (view,) = statistic.view(accumulator.table.cells)
    assert (view.length.tolist(), view.counts.tolist()) == ([0, 1, 2], [1, 1, 2])
    assert pickle.loads(pickle.dumps(accumulator)).state_dict() == accumulator.state_dict()


class PairingsOptions(LengthsOptions, frozen=True, kw_only=True):
    """Options whose class has the name of another statistic."""


class UnnamedOptions(LengthsOptions, frozen=True, kw_only=True):
    """Options with a field that has no default."""

    field: int


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (PairingsOptions(), "two statistics have the name 'pairings'"),
        (UnnamedOptions(field=1), "Missing required argument 'field'; give every field a default"),
    ],
)
def test_options_that_do_not_name_their_statistic_are_refused(
    options: LengthsOptions, problem: str
) -> None:
    with pytest.raises(OwnStatisticError, match=problem):
        Accumulator("personalization", needs=[CellSpec(options=options)])


@pytest.mark.parametrize(("part", "function"), [(ListLengths, "count"), (LengthsOptions, "make")])
def test_what_a_statistic_of_another_package_raises_is_said_of_it(
    monkeypatch: pytest.MonkeyPatch, part: type, function: str
) -> None:
    def fails(*_: object) -> Any:
        raise KeyError("hour")

    monkeypatch.setattr(part, function, fails)
    with pytest.raises(OwnStatisticError, match=f"'lengths': {function} failed .*hour") as raised:
        _counted("ndcg@2", needs=[CellSpec(options=LengthsOptions())]).read("ndcg@2")
    assert "LengthsOptions in tests.contract.own_statistic" in raised.value.remedy
    # A restart makes a dead letter of the record that cannot be counted.
    assert status_of(raised.value) == (FAILED if function == "count" else USAGE_ERROR)
    assert isinstance(raised.value.__cause__, KeyError)


def test_a_statistic_gets_the_times_that_a_daemon_passes_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times: list[Any] = []
    monkeypatch.setattr(ListLengths, "count", lambda _, batch, __: times.append([*batch.times]))
    accumulator = Accumulator("ndcg@2", needs=[CellSpec(options=LengthsOptions())])
    accumulator.table.count(Batch(recommendations=[["a"]], interactions=[[]]), 0, np.array([5]))
    accumulator.table.flush()
    assert times == [[5]]
