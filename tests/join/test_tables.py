"""A join of tables is a function of their rows: its laws, and the slow join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from streameval.attribution import (
    ROW_OUTCOMES,
    Attribution,
    JoinedTables,
    OpenRows,
    closed,
    joined,
    pieces,
    sides,
)
from streameval.join.tables import RowCounts
from tests.effort import thorough
from tests.join.slow_tables import Row, slow_join
from tests.join.worlds import ACT_KINDS, SECOND, SHOWN_KINDS, World, world

SEEDS = range(1_000 if thorough() else 6)


def _events(lists: Any) -> list[tuple[Any, ...]]:
    """The rows in an order of their own."""
    events = []
    for row in lists.to_pylist():
        gains = row.pop("gains") or [1.0] * len(row["interactions"])
        by_item = [*zip(row.pop("interactions"), gains, strict=True)]
        typed = [(of["item"], of["type"], of["gain"]) for of in row.pop("typed")]
        assert (by_item, typed) == (sorted(by_item), sorted(typed))
        events.append((sorted(row.items()), by_item, typed))
    return sorted(events, key=repr)


def _named(outcomes: Any) -> list[str]:
    return [ROW_OUTCOMES[code] for code in outcomes.tolist()]


def _outcomes(of: World, side: str, outcomes: Sequence[str]) -> Counter[tuple[str, str]]:
    """Rows with their outcomes; of rows that are read as equal, either is the copy."""
    rows = of.impressions
    if side == "interactions":
        unread = "users" if of.rule.key == "request_id" else "request_id"
        rows = [{**row, unread: None} for row in of.interactions]
    return Counter(zip(map(repr, rows), outcomes, strict=True))


def _join(of: World) -> JoinedTables:
    return joined(of.impression_table, of.interaction_table, of.attribution)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_join_equals_the_slow_join_and_every_row_has_one_outcome(seed: int) -> None:
    of = world(seed)
    slow, result = slow_join(of.impressions, of.interactions, of.rule), _join(of)
    for side in ("impressions", "interactions"):
        outcomes = _named(getattr(result, side))
        assert _outcomes(of, side, outcomes) == _outcomes(of, side, getattr(slow, side))
    assert result.counts[1].outside == slow.outside
    expected = []
    for number, gains, typed in slow.events:
        row = {name: of.impressions[number].get(name) for name in SHOWN_KINDS.names}
        types = sorted((item, kind, gain) for (item, kind), gain in typed.items() if kind)
        expected.append((sorted(row.items()), sorted(gains.items()), types))
    assert _events(result.lists) == sorted(expected, key=repr)


@pytest.mark.parametrize("seed", SEEDS)
def test_neither_order_nor_buckets_nor_steps_change_anything(seed: int) -> None:
    of, random = world(seed), Random(seed)
    total = _join(of)
    events, counts = _events(total.lists), total.counts

    shuffled = World(_shuffled(random, of.impressions), _shuffled(random, of.interactions), of.rule)
    again = _join(shuffled)
    assert _events(again.lists) == events
    for side in ("impressions", "interactions"):
        before, after = _named(getattr(total, side)), _named(getattr(again, side))
        assert _outcomes(of, side, before) == _outcomes(shuffled, side, after)

    parts = _bucketed(of, random.choice([1, 3, 50]))
    assert _events_of(part.lists for part in parts) == events
    assert _sum([part.counts for part in parts]) == counts

    steps = _steps(of, random)
    assert _events_of(step.lists for step in steps) == events
    assert _sum([step.counts for step in steps]) == counts
    state = steps[-1].state
    assert state.impressions is state.interactions is None


def _shuffled(random: Random, rows: Sequence[Row]) -> list[Row]:
    return random.sample(rows, len(rows))


def _events_of(tables: Any) -> list[tuple[Any, ...]]:
    return sorted((event for table in tables for event in _events(table)), key=repr)


def _sum(counts: Sequence[tuple[RowCounts, RowCounts]]) -> tuple[RowCounts, RowCounts]:
    total = RowCounts(), RowCounts()
    for shown, interactions in counts:
        total = total[0].plus(shown), total[1].plus(interactions)
    return total


def _bucketed(of: World, buckets: int) -> list[JoinedTables]:
    rule = of.attribution
    rows = [
        *pieces(of.impression_table, "impressions", rule, buckets).to_pylist(),
        *pieces(of.interaction_table.slice(0, 7), "interactions", rule, buckets).to_pylist(),
        *pieces(of.interaction_table.slice(7), "interactions", rule, buckets).to_pylist(),
    ]
    groups: dict[int, list[Any]] = {}
    for row in rows:
        groups.setdefault(row["bucket"], []).append(row)
    return [joined(*sides(group), rule) for group in groups.values()]


def _steps(of: World, random: Random) -> list[Any]:
    """Rows in a random order, and watermarks that none of them is older than."""
    rows = [("shown", row) for row in of.impressions] + [("acts", row) for row in of.interactions]
    # Rows without a time are invalid at any time.
    delay = random.choice([0, 3, 60]) * SECOND
    rows.sort(key=lambda pair: (pair[1]["times"] or 0) + random.randrange(delay + 1))
    state, steps = OpenRows(), []
    while rows:
        size = random.randint(1, 20)
        now, rows = rows[:size], rows[size:]
        tables = (
            pa.Table.from_pylist([row for side, row in now if side == "shown"], SHOWN_KINDS),
            pa.Table.from_pylist([row for side, row in now if side == "acts"], ACT_KINDS),
        )
        until = min((row["times"] for _, row in rows if row["times"]), default=None)
        steps.append(closed(state, tables, of.attribution, until))
        state = steps[-1].state
    return steps


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_are_duplicates_and_a_shift_of_all_times_changes_nothing(seed: int) -> None:
    of = world(seed)
    total = _join(of)
    with_copies = of._replace(
        impressions=[*of.impressions, *(row for row in of.impressions if row["request_id"])],
        interactions=[*of.interactions, *(row for row in of.interactions if row["event_id"])],
    )
    more = _join(with_copies)
    assert _events(more.lists) == _events(total.lists)
    for before, after in zip(total.counts, more.counts, strict=True):
        changed = {
            name
            for name, number in msgspec.structs.asdict(after.plus(before, -1)).items()
            if number and name not in ("records", "duplicate", "invalid", "ignored")
        }
        assert not changed
    shift = 86_400 * SECOND
    later = of._replace(
        impressions=[_later(row, shift) for row in of.impressions],
        interactions=[_later(row, shift) for row in of.interactions],
    )
    shifted = _join(later)
    assert shifted.impressions.tolist() == total.impressions.tolist()
    assert shifted.interactions.tolist() == total.interactions.tolist()
    assert shifted.lists.drop_columns(["times"]).equals(total.lists.drop_columns(["times"]))


def _later(row: Row, shift: int) -> Row:
    return {**row, "times": None if row["times"] is None else row["times"] + shift}


COLUMNS = (
    pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"b" * 16, b"a" * 16], pa.binary(16))),
    pa.array([{}, None], pa.struct([])),
    pa.array([b"b", b"a"], pa.binary_view()),
    pa.array([0.0, -0.0]),
    pa.array(["b", "a"]).dictionary_encode(),
    pa.array([["b"], ["a"]]),
)


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type)[:30])
def test_of_copies_at_one_time_the_smallest_text_of_a_column_stays(column: Any) -> None:
    impressions = {"recommendations": [["x"]] * 4, "times": [0] * 4, "request_id": ["r"] * 4}
    copies = pa.chunked_array([column, column])
    result = joined(pa.table({**impressions, "label": copies}), None, Attribution())
    assert [*map(str, result.lists["label"].to_pylist())] == [min(map(str, column.to_pylist()))]
