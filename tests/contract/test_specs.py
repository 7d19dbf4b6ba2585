"""The law of every statistic: its name, texts, inputs, scopes, merges and saved states."""

from __future__ import annotations

import re
from datetime import date
from typing import Any, get_args

import pytest

from streameval import Accumulator, Intervals, PrePeriod
from streameval.accumulator.inputs import UnlikeInputsError
from streameval.accumulator.kinds.cells import CellSpec
from streameval.accumulator.kinds.spec import Scope, StatisticSpec
from streameval.accumulator.plan import Plan
from streameval.accumulator.table import Table
from streameval.catalogue import catalogue
from streameval.catalogue.items import Popularity, Similarity
from streameval.events import Event, columns_of
from streameval.events.errors import UnlikeStateError
from streameval.statistics.asked import BY_CELL, cell_options
from tests.contract.metric_cases import inputs, stream

_METRICS = (
    *("ndcg@5", "ndcg(among=genre:news)@5", "mrr(statistic=median)@5", "item_coverage@5"),
    *("users_covered@5", "personalization@5", "group_disparity@5", "auc", "gauc"),
    *("unexpectedness@5", "stratified_recall@5", "hit_rate(per=user)@5", "novelty@5"),
    *("tail_percentage(per=user)@5", "bpref@5", "category_diversity@5"),
    *{each.reads: name for name, each in catalogue().items() if each.reads in BY_CELL}.values(),
)
"""With a metric of each statistic of `BY_CELL`."""

_PERIOD = PrePeriod(since=date(2026, 3, 1), days=30, metrics=("ndcg@5",), cohorts=True)
_MADE = Accumulator(
    *_METRICS, **inputs().of_package, intervals=Intervals(groups=128), experiment=_PERIOD
)
_PLAN, _CONTEXT = _MADE.table.plan, _MADE.context
_EVENTS = stream(40)

_OTHER = Accumulator(
    "ndcg@5",
    catalog=[event.recommendations[0] for event in _EVENTS if len(event.recommendations)],
    popularity=Popularity({"a": 1}, users=9),
    similarity=Similarity(["a", "b"], vectors=[[1.0, 0.0], [0.0, 1.0]]),
    attributes={name: {"a": ["other"]} for name, _ in _CONTEXT.attributes},
    examination=[1.0, 0.25],
).context
"""Other inputs of the same names."""

every_spec = pytest.mark.parametrize("spec", _PLAN.specs, ids=lambda spec: spec.name)


def _table(plan: Plan, events: list[Event], context: Any = _CONTEXT) -> Table:
    table = Table(plan, context, ids="text")
    for start in range(0, len(events), 7):
        table.count(columns_of(events[start : start + 7]), start % 2)
    return table


def _dumped(table: Table) -> bytes:
    return b"".join(table.dump([0, 1]))


def test_every_kind_is_here() -> None:
    kinds = {type(spec) for spec in _PLAN.specs}
    assert kinds == {*StatisticSpec.__subclasses__()}
    cells = {type(spec.options) for spec in _PLAN.specs if isinstance(spec, CellSpec)}
    assert cells == {cell_options(name) for name in BY_CELL}, "write a metric of each"


@pytest.mark.parametrize("name", BY_CELL)
def test_its_entry_says_which_options_come_from_texts_of_metrics(name: str) -> None:
    entry, fields = BY_CELL[name], cell_options(name).fields()
    assert (entry.takes_k, entry.takes_type) == ("cutoff" in fields, "type" in fields)


def test_names_slots_and_descriptions_are_unique() -> None:
    texts = [text for spec in _PLAN.specs for text in spec.descriptions]
    for names in (texts, [spec.name for spec in _PLAN.specs], [spec.slot for spec in _PLAN.specs]):
        assert len({*names}) == len(names) > 0
    assert list(_PLAN.descriptions[1:]) == texts
    assert all(spec.descriptions for spec in _PLAN.specs)


@every_spec
def test_a_statistic_joins_itself_and_what_keeps_less_merges_with_it(spec: StatisticSpec) -> None:
    alone = Plan(limits=_PLAN.limits, specs=(spec,))
    nothing = Plan(limits=_PLAN.limits, specs=())
    assert spec.joined(spec) == spec
    assert alone.within(alone)
    assert not alone.within(nothing)
    assert nothing.within(alone) == spec.is_optional
    table = _table(alone, _EVENTS)
    for scope in get_args(Scope):
        scoped = spec.scoped(scope)
        assert (scoped is not None) == (scope in spec.scopes)
        if scoped is not None:
            assert scoped.slot == spec.slot
            assert scoped.within(spec)
            part = table.empty(alone.at(scope))
            part.add(table)
            again = table.empty(alone.at(scope))
            again.add(_table(alone, _EVENTS[:14]), _table(alone, _EVENTS[14:]))
            assert _dumped(part) == _dumped(again)


@every_spec
def test_a_statistic_is_saved_by_its_name_and_merged_to_the_same_bytes(spec: StatisticSpec) -> None:
    plan = Plan(limits=_PLAN.limits, specs=(spec,))
    total = _table(plan, _EVENTS)
    assert [*total.statistics] == [spec.name]
    first = _table(plan, _EVENTS[:14])
    first.add(_table(plan, _EVENTS[14:]))
    empty = _dumped(Table(plan, _CONTEXT, ids="text"))
    assert _dumped(first) == _dumped(total) != empty
    loaded = Table(plan, _CONTEXT)
    assert not loaded.load(_dumped(total), [0, 1])
    assert _dumped(loaded) == _dumped(total)
    fresh = Table(plan, _CONTEXT)
    without = _table(Plan(limits=_PLAN.limits, specs=()), _EVENTS)
    assert fresh.load(_dumped(without), [0, 1]) == spec.missing(None, frozenset()) != set()
    assert fresh.lists(fresh.cells).sum() == len(_EVENTS)


@every_spec
def test_a_statistic_of_other_inputs_is_refused_or_starts_empty(spec: StatisticSpec) -> None:
    plan, read = Plan(limits=_PLAN.limits, specs=(spec,)), spec.inputs(_CONTEXT)
    saved, table = _dumped(_table(plan, _EVENTS)), Table(plan, _OTHER)
    unlike = spec.unlike(spec.inputs(_OTHER), read)
    assert bool(unlike) == any(read.values())
    if not unlike:
        assert not table.load(saved, [0, 1])
        assert _dumped(table) == saved
        return
    with pytest.raises(UnlikeInputsError, match=re.escape(f"inputs of {spec.name}")) as error:
        table.load(saved, [0, 1])
    sides = [error.value.left, error.value.right]
    assert sides == [
        {f"input of {text}": identity for text, identity in of.items()}
        for of in (spec.inputs(_OTHER), read)
    ]
    table = Table(plan, _OTHER)
    assert table.load(saved, [0, 1], empty_unlike=True) == spec.missing(read, unlike)
    assert _dumped(table) != saved


def test_a_plan_of_another_depth_does_not_merge() -> None:
    other = Accumulator(*_METRICS, **inputs().of_package, depth=9)
    with pytest.raises(UnlikeStateError, match="depth 9"):
        other.table.add(Accumulator(*_METRICS, **inputs().of_package).table)
