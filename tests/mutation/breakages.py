"""Mistakes made on purpose, each of which a law must notice."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from streameval import accumulator, answers, cumulative_gain, saving
from streameval.accumulator import Accumulator
from streameval.evidence import Evidence
from streameval.ids import IdKind
from streameval.metrics import dcg, ndcg
from streameval.statistics import exposures, hittables, lists, packing
from streameval.statistics.cells import Cells
from streameval.statistics.distributions import Distribution
from streameval.statistics.exact import ExactSum
from streameval.statistics.hittables import HitTables
from tests.contract import laws
from tests.contract.metric_cases import a_text_of_each, plain, stream
from tests.metrics.preparation import Shown

Broken = Callable[[pytest.MonkeyPatch], None]
Law = partial[None]

TEXTS = a_text_of_each()
OF_LISTS = ["ndcg@2", "mrr", "distinct_items@5"]
EVENTS = stream()
SHUFFLED = random.Random(2).sample(EVENTS, len(EVENTS))
SMALL_AND_LARGE = [Shown(["a"], {"a": gain}) for gain in (1e16, 0.7, 0.8, 0.9)]

twin = partial(laws.equals_its_twin, TEXTS, EVENTS)
order = partial(laws.any_order, TEXTS, EVENTS, SHUFFLED)
order_of_sums = partial(laws.any_order, ["dcg@3"], SMALL_AND_LARGE, SMALL_AND_LARGE[::-1])
twin_of_map = partial(laws.equals_its_twin, ["map@5"], EVENTS)
split = partial(laws.any_split, TEXTS, EVENTS, [11, 30])
form = partial(laws.any_form, OF_LISTS, EVENTS)
pairs = partial(laws.pairs_are_events, OF_LISTS, EVENTS)
returns = partial(laws.state_returns, TEXTS, EVENTS)
dumps = partial(laws.a_dump_returns, TEXTS, EVENTS)
adopts = partial(laws.other_metrics_adopt_what_they_need, ["mrr@5"], ["mrr@5", "auc"], EVENTS)
bounds = partial(laws.within_bounds, [f"{name}@3" for name in ("ndcg", "map")], plain())
reading = partial(laws.reading_changes_nothing, TEXTS, EVENTS)
copying = partial(laws.a_copy_is_independent, TEXTS, EVENTS)
other = partial(laws.merging_leaves_the_other_alone, TEXTS, EVENTS)
undefined = partial(laws.no_evidence_is_undefined, TEXTS)
depth = partial(laws.beyond_the_depth_is_refused, "mrr")


class Mistake(NamedTuple):
    """what: in words; law: that must notice; broken: makes it."""

    what: str
    law: Law
    broken: Broken


def _replaced(target: object, name: str, new: Any) -> Broken:
    return lambda monkeypatch: monkeypatch.setattr(target, name, new)


def _plain_sum(self: ExactSum, values: Any, counts: Any) -> None:
    """What `+=` on a float does: round after every addition."""
    rounded = self.value
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        rounded += value * count
    numerator, denominator = rounded.as_integer_ratio()
    self.scaled = numerator * (ExactSum.ONE // denominator)


def _without_sums(self: Distribution, other: Distribution) -> None:
    for key, count in other._counts.items():
        self._counts[key] = self._counts.get(key, 0) + count


def _from_zero(widths: Any) -> Any:
    owner, ordinal = _ragged(widths)
    return owner, ordinal - 1


_ragged = lists._ragged


def _counting_read(self: Accumulator, metric: str) -> Any:
    self.version += 1
    return _read(self, metric)


_read = Accumulator.read
_update_many = Evidence.update_many


def _twice(self: Evidence, batch: Any) -> None:
    _update_many(self, batch)
    _update_many(self, batch)


def _forgetful(self: Accumulator) -> None:
    self._readings.clear()
    self.lists = 0


def _itself(self: Accumulator) -> Accumulator:
    return self


def _zero(metric: Any, evidence: Any, catalog: Any) -> Any:
    found = _answer(metric, evidence, catalog)
    return type(found)(metric=found.metric, value=0.0, count=found.count, lists=found.lists)


_answer = answers.answer


def _swallowing(self: Cells, other: Cells) -> None:
    self.load([])
    self.add(other.keys, other.counts)


def _last_rank(rank: Any, by: Any) -> Any:
    return cumulative_gain.discount(rank + 1, by)


def _small_ideal(relevant: Any, _: Any) -> Any:
    return np.full(relevant.shape, 0.1)


def _silent(*given: Any) -> tuple[int, IdKind | None, frozenset[str]]:
    lists, ids, _ = _load(*given)
    return lists, ids, frozenset()


_load = saving.load


def _taking(self: Evidence, other: Evidence) -> None:
    _merge(self, other)
    other.load_state_dict(Evidence(other.plan, laws.made(TEXTS).context).state_dict())


_merge = Evidence.merge


MISTAKES = (
    Mistake(
        "a plain sum instead of the exact one",
        order_of_sums,
        _replaced(ExactSum, "add", _plain_sum),
    ),
    Mistake("a merge that adds up floats", split, _replaced(ExactSum, "add", _plain_sum)),
    Mistake(
        "a merge that forgets the sums", split, _replaced(Distribution, "merge", _without_sums)
    ),
    *(
        Mistake(
            f"a merge that forgets the table {name!r}",
            split,
            _replaced(HitTables, "NAMES", tuple(kept for kept in HitTables.NAMES if kept != name)),
        )
        for name in HitTables.NAMES
        if name != "ideal"
    ),
    Mistake("a merge that takes instead of adding", split, _replaced(Cells, "merge", _swallowing)),
    Mistake("ordinals that count from 0", twin_of_map, _replaced(lists, "_ragged", _from_zero)),
    Mistake("a discount that is one rank off", twin, _replaced(dcg, "discount", _last_rank)),
    Mistake(
        "lists without interactions counted where they are left out",
        twin,
        _replaced(answers, "_denominator", lambda _, tables: max(1, tables.count)),
    ),
    Mistake(
        "a cut-off that keeps one rank more",
        twin,
        _replaced(hittables, "_up_to", lambda rank, k: rank <= (k or 99) + 1),
    ),
    Mistake("no evidence that reads as 0", undefined, _replaced(accumulator, "answer", _zero)),
    Mistake(
        "a depth that is not checked", depth, _replaced(answers, "check_depth", lambda *_: None)
    ),
    Mistake(
        "a read that counts as a change", reading, _replaced(Accumulator, "read", _counting_read)
    ),
    Mistake("a batch that is counted twice", form, _replaced(Evidence, "update_many", _twice)),
    Mistake("pairs that are counted twice", pairs, _replaced(Evidence, "update_many", _twice)),
    Mistake("a reset that keeps the tables", copying, _replaced(Accumulator, "reset", _forgetful)),
    Mistake("a copy that is the same", copying, _replaced(Accumulator, "copy", _itself)),
    Mistake(
        "items saved in the order in which they came",
        order,
        _replaced(exposures, "_rows", lambda band: [[item, band[item]] for item in band]),
    ),
    Mistake(
        "a saved state that is not loaded",
        returns,
        _replaced(HitTables, "load_state_dict", lambda *_: None),
    ),
    Mistake("a dump that is not adopted", dumps, _replaced(Cells, "adopt", lambda *_: None)),
    Mistake(
        "items dumped in the order in which they came",
        order,
        _replaced(packing, "_in_order", lambda names: [*range(len(names))]),
    ),
    Mistake(
        "a copy that has the same counts",
        copying,
        _replaced(Distribution, "copy", lambda distribution: distribution),
    ),
    Mistake("a late start that is not told", adopts, _replaced(accumulator, "load", _silent)),
    Mistake("an ideal that is too small", bounds, _replaced(ndcg, "ideal", _small_ideal)),
    Mistake("a merge that empties the other", other, _replaced(Evidence, "merge", _taking)),
)
