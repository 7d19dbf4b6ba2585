"""Columns give the same bits as events, also where only numpy and Arrow can say them.

That every form does for any metric is the law of `tests/contract/test_law.py`.
"""

from __future__ import annotations

import random
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streameval import Accumulator, Columns, Event, Interaction
from streameval.events import Combine, combine_gains, combine_interactions
from streameval.events.columns import read_columns
from streameval.events.gains import reduce_gains
from tests.columnar.forms import FORMS
from tests.contract.laws import bits
from tests.strategies import NUMBERS

METRICS = ("ndcg@2", "recall(repeats=every)@5", "distinct_items", "replay:RocAuc@3")


def _one_by_one(accumulator: Accumulator, *lists: Any) -> Accumulator:
    for ranked, clicks in zip(*lists, strict=True):
        accumulator.update(ranked, clicks)
    return accumulator


@pytest.mark.parametrize("form", FORMS)
def test_items_outside_a_sample_change_no_bit(form: str) -> None:
    draw = random.Random(form)
    pair = [[draw.choices(NUMBERS, k=draw.randrange(2, 8)) for _ in range(9)] for _ in range(2)]
    metrics = ("distinct_items@2", "distinct_items", "item_coverage@2")
    one, many = (Accumulator(*metrics, catalog=40, max_items=5) for _ in range(2))
    many.update_many(FORMS[form](*pair))
    assert bits(many) == bits(_one_by_one(one, *pair))


@pytest.mark.parametrize(
    ("most", "kind"),
    [(40, np.uint64), (2**31, np.int64), (2**61, np.uint64), (2**63 - 1, np.int64)],
)
def test_many_lists_are_many_events(most: int, kind: type[np.int64 | np.uint64]) -> None:
    draw = np.random.default_rng(most)
    shown_ids = draw.integers(0, most, 60).astype(kind)
    ranked = draw.choice(shown_ids, (12_000, 7))
    offsets = np.concatenate(([0], np.cumsum(draw.integers(0, 9, 12_000))))
    values = draw.choice(shown_ids, offsets[-1])
    clicks = [values[start:stop].tolist() for start, stop in pairwise(offsets)]
    columns, events = (Accumulator("ndcg@5", "map@7", "mrr@7", "distinct_items@3") for _ in "ab")
    columns.update_many(Columns(recommendations=ranked, interactions=(values, offsets)))
    events.update_many(zip(ranked.tolist(), clicks, strict=True))
    assert columns.read("ndcg@5").value > 0
    assert bits(columns) == bits(events)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int32(), pa.uint64()])
def test_integers_of_any_width_are_the_same_ids(kind: pa.DataType) -> None:
    wide, narrow = (Accumulator(*METRICS) for _ in range(2))
    columns = {"recommendations": [[1, 2, 3], [4], []], "interactions": [[3, 1], [], [7]]}
    narrow.update_many(
        pa.table({name: pa.array(column, pa.list_(kind)) for name, column in columns.items()})
    )
    assert bits(narrow) == bits(_one_by_one(wide, *columns.values()))


def test_unsigned_ids_beyond_63_bits_are_kept() -> None:
    one, many = (Accumulator(*METRICS) for _ in range(2))
    ranked = np.array([[2**64 - 1, 2**63], [1, 2]], np.uint64)
    many.update_many(Columns(recommendations=ranked, interactions=[[2**63], [2]]))
    assert bits(many) == bits(_one_by_one(one, ranked.tolist(), [[2**63], [2]]))


@pytest.mark.parametrize("numbers", [[[1, 0.5], [0.25, 1]], [[0, 1], [0.5, 0.5]]])
def test_whole_numbers_may_stand_beside_others_in_a_list(numbers: list[list[float]]) -> None:
    total, floats = (Accumulator("ndcg@2", "log_loss") for _ in range(2))
    lists: dict[str, Any] = {"recommendations": [["a", "b"]] * 2, "interactions": [["a", "b"]] * 2}
    total.update_many(Columns(**lists, gains=numbers, scores=numbers))
    arrays = [np.array(row, np.float64) for row in numbers]
    floats.update_many(Columns(**lists, gains=arrays, scores=arrays))
    assert bits(total) == bits(floats)


@pytest.mark.parametrize(
    ("gains", "how", "expected"),
    [
        ((-2.0, 0.0, 3.0), "max", ("3.0", True)),
        ((-2.0, 0.0, -1.0), "max", ("0.0", False)),
        ((-2.0, 0.0, 3.0), "sum", ("1.0", False)),
        ((-0.0,), "sum", ("0.0", False)),
    ],
)
def test_gains_of_an_item_combine_alike_in_any_order_and_as_arrays(
    gains: tuple[float, ...], how: Combine, expected: tuple[str, bool]
) -> None:
    for ordered in permutations(gains):
        one = combine_gains([("a", gain) for gain in ordered], how)
        assert (str(one.by_item["a"]), one.hides_loss) == expected
        groups = np.zeros(len(gains), np.int64)
        _, (combined,), (hides_loss,) = reduce_gains(groups, np.array(ordered), how)
        assert (str(float(combined)), bool(hides_loss)) == expected


@pytest.mark.parametrize(("ids", "how"), [(str, "max"), (int, "sum")])
def test_gains_and_types_are_those_of_events(ids: type[str | int], how: Combine) -> None:
    draw = random.Random(7)
    events, rows = [], []
    for _ in range(300):
        ranked, clicks = ([ids(draw.randrange(9)) for _ in range(draw.randrange(5))] for _ in "ab")
        gains = draw.choice([None, [draw.choice([1.0, 0.5, 3.0, -2.0]) for _ in clicks]])
        pairs = zip(clicks, gains or [], strict=True) if gains is not None else ()
        typed = [Interaction(item, 2.0, draw.choice(["buy", "view"])) for item in clicks[:2]]
        worth = clicks if gains is None else combine_gains(pairs, how).by_item
        of_types = typed if how == "max" else combine_interactions(typed, how)[1]
        events.append(Event(recommendations=ranked, interactions=worth, typed=of_types))
        structs = [{"item": each.item, "gain": each.gain, "type": each.type} for each in typed]
        rows.append((ranked, clicks, gains, structs))
    names = ("recommendations", "interactions", "gains", "typed")
    columns = map(list, zip(*rows, strict=True))
    table = pa.table(dict(zip(names, columns, strict=True)))
    inputs = Columns(**{name: table[name] for name in names}, combine=how)
    compact = "recall(repeats=every)@3"
    metrics = ("value_per_list@3", "ndcg(gain=exp2)@3", "value_per_list(type=buy)@2", compact)
    one, many, parts = (Accumulator(*metrics) for _ in range(3))
    one.update_many(events)
    many.update_many(inputs)
    for start in range(0, 300, 70):
        part = {name: table[name].slice(start, 70) for name in names}
        parts.update_many(Columns(**part, combine=how))
    assert one.read("value_per_list(type=buy)@2").value > 0
    assert bits(one) == bits(many) == bits(parts)
    assert sum(isinstance(of, dict) for of in read_columns(inputs).interactions) > 90
