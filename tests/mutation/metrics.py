"""Metrics that are counted wrongly; each law of the contract must notice one."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from streameval.accumulator import Accumulator, accumulator, readings
from streameval.accumulator.table import Table
from streameval.catalogue import cumulative_gain
from streameval.metrics import dcg, ndcg
from streameval.statistics import distributions, exact, vocabulary
from streameval.statistics.hits import HitsOfCells
from streameval.statistics.lists import Lists
from streameval.statistics.relation import Relation
from streameval.testing import check_metric
from tests.contract import laws
from tests.contract.metric_cases import a_text_of_each, stream
from tests.mutation.mistake import Mistake, around, replaced
from tests.strategies import event_of

TEXTS = a_text_of_each()
OF_LISTS = ["ndcg@2", "mrr", "distinct_items@5"]
EVENTS = stream()
SHUFFLED = random.Random(2).sample(EVENTS, len(EVENTS))
SMALL_AND_LARGE = [event_of(["a"], {"a": gain}) for gain in (1e16, 0.7, 0.8, 0.9)]

twin = partial(laws.equals_its_twin, TEXTS, EVENTS)
order = partial(laws.any_order, TEXTS, EVENTS, SHUFFLED)
exact_values = partial(laws.equals_its_twin, ["dcg@3"], SMALL_AND_LARGE)
twin_of_map = partial(laws.equals_its_twin, ["map@5"], EVENTS)
split = partial(laws.any_split, TEXTS, EVENTS, [11, 30])
form = partial(laws.any_form, OF_LISTS, EVENTS)
pairs = partial(laws.pairs_are_events, OF_LISTS, EVENTS)
returns = partial(laws.state_returns, TEXTS, EVENTS)
adopts = partial(laws.other_metrics_adopt_what_they_need, ["mrr@5"], ["mrr@5", "auc"], EVENTS)
alone = partial(check_metric, "ndcg@3", events=6)
copying = partial(laws.a_copy_is_independent, TEXTS, EVENTS)
other = partial(laws.merging_leaves_the_other_alone, TEXTS, EVENTS)
undefined = partial(laws.no_evidence_is_undefined, TEXTS)
depth = partial(laws.beyond_the_depth_is_refused, "mrr")


def _rounded(values: Any, counts: Any) -> Any:
    """Every product rounded before it is added."""
    return _limbs((values * counts).astype(np.float32), np.ones_like(counts))


_limbs = exact.limbs


def _without(name: str) -> Callable[[Any], Any]:
    def of(kept: Any) -> Any:
        def merged(self: Table, other: Table, *more: Any) -> None:
            kept(self, other, *more)
            for statistic in self.statistics.values():
                if name in statistic.relations:
                    statistic.relations[name] = Relation(statistic.shapes[name])

        return merged

    return of


def _from_zero(kept: Any) -> Any:
    return property(lambda itself: kept.func(itself) - 1)


def _twice(kept: Any) -> Any:
    def update_many(self: Accumulator, *given: Any) -> None:
        for _ in range(2):
            kept(self, *given)

    return update_many


def _forgetful(self: Accumulator) -> None:
    self._lists = 0


def _zero(metric: Any, table: Any, cells: Any, _: Any = None) -> Any:
    (answer,) = _answers(metric, table, cells)
    zero = type(answer)(metric=answer.metric, value=0.0, count=answer.count, lists=answer.lists)
    return [zero]


_answers = readings.readings_of


def _one_more(kept: Any) -> Any:
    return lambda self, size, k: kept(self, size, None if k is None else k + 1)


def _swallowing(self: Relation, other: Relation) -> None:
    self.replace(other.columns)


def _last_rank(rank: Any, by: Any) -> Any:
    return cumulative_gain.discount(rank + 1, by)


def _small_ideal(relevant: Any, _: Any) -> Any:
    return np.full(relevant.shape, 0.1)


def _silent(kept: Any) -> Any:
    def load(self: Table, data: bytes, cells: Any) -> frozenset[str]:
        kept(self, data, cells)
        return frozenset()

    return load


def _taking(kept: Any) -> Any:
    def add(self: Table, other: Table, *more: Any) -> None:
        kept(self, other, *more)
        other.set_statistics(other.empty().statistics)

    return add


MISTAKES = (
    Mistake(
        "products that are rounded before they are added",
        exact_values,
        replaced(distributions, "limbs", _rounded),
    ),
    *(
        Mistake(f"a merge that forgets {name!r}", split, around(Table, "add", _without(name)))
        for name in ("hits", "pairs", "values")
    ),
    Mistake(
        "a merge that takes instead of adding", split, replaced(Relation, "merge", _swallowing)
    ),
    Mistake("ordinals that count from 0", twin_of_map, around(Lists, "ordinal", _from_zero)),
    Mistake("a discount that is one rank off", twin, replaced(dcg, "discount", _last_rank)),
    Mistake(
        "lists without interactions counted where they are left out",
        twin,
        replaced(readings, "lists_in_mean", lambda _, hits: np.maximum(hits.count, 1)),
    ),
    Mistake("a cut-off that keeps one rank more", twin, around(HitsOfCells, "rows_by", _one_more)),
    Mistake("no evidence that reads as 0", undefined, replaced(accumulator, "readings_of", _zero)),
    Mistake(
        "a depth that is not checked", depth, replaced(readings, "check_depth", lambda *_: None)
    ),
    Mistake("a batch that is counted twice", form, around(Accumulator, "update_many", _twice)),
    Mistake("pairs that are counted twice", pairs, around(Accumulator, "update_many", _twice)),
    Mistake("a reset that keeps the tables", copying, replaced(Accumulator, "reset", _forgetful)),
    Mistake(
        "a copy that is the same", copying, replaced(Accumulator, "copy", lambda itself: itself)
    ),
    Mistake(
        "a saved relation that is not loaded",
        returns,
        replaced(Relation, "restore", lambda relation, *_: relation),
    ),
    Mistake("a dump that is not adopted", returns, replaced(Table, "load", lambda *_: frozenset())),
    Mistake(
        "items dumped in the order in which they came",
        order,
        replaced(vocabulary, "_in_order", lambda names: [*range(len(names))]),
    ),
    Mistake(
        "a copy that has the same counts", copying, replaced(Table, "copy", lambda table: table)
    ),
    Mistake("a late start that is not told", adopts, around(Table, "load", _silent)),
    Mistake("an ideal that is too small", alone, replaced(ndcg, "ideal", _small_ideal)),
    Mistake("a merge that empties the other", other, around(Table, "add", _taking)),
)
