"""Partial results merge to the same bits, however the events are divided."""

from __future__ import annotations

import itertools
import math
import random
import sys
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import Accumulator, Intervals, compare
from streameval.evaluation.partials import (
    Partial,
    arrow_table,
    backfill,
    merged,
    partials,
    repacked,
    stored,
)
from streameval.evaluation.slice_counts import Cell
from streameval.evaluation.spark import evaluate
from streameval.events.errors import (
    DamagedStateError,
    InvalidEventError,
    MetricError,
    MetricTextError,
    SourceError,
    StateVersionError,
    UnlikeStateError,
    UsageError,
)
from tests.effort import few_examples

METRICS = ("ndcg@3", "hit_rate@2", "auc", "shannon_entropy", "ctr")
INTERVALS = Intervals(groups=16)
HOUR = timedelta(hours=1)
BEGIN = datetime(2026, 3, 1, 22, 30, tzinfo=UTC)


def events(number: int, seed: int = 1) -> list[dict[str, Any]]:
    """Lists of two variants over five hours, some without a label, a user or a time."""
    draw = random.Random(seed)
    items = [f"i{index}" for index in range(12)]
    entries = []
    for _ in range(number):
        ranked = draw.sample(items, 4)
        entries.append(
            {
                "recommendations": ranked,
                "interactions": draw.sample(items, draw.randint(0, 3)),
                "scores": [draw.random() for _ in ranked],
                "users": draw.choice([None, *(f"u{user}" for user in range(40))]),
                "times": draw.choice([None, *(BEGIN + index * HOUR for index in range(5))]),
                "variant": draw.choice(["control", "treatment", None]),
                "pro": draw.choice([True, False]),
            }
        )
    return entries


SCHEMA = pa.schema(
    {
        "recommendations": pa.list_(pa.string()),
        "interactions": pa.list_(pa.string()),
        "scores": pa.list_(pa.float64()),
        "users": pa.string(),
        "times": pa.timestamp("us", "UTC"),
        "variant": pa.string(),
        "pro": pa.bool_(),
    }
)


def table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA)


def counted(*tables: Any, **options: Any) -> list[Partial]:
    chosen: dict[str, Any] = {
        "by": ["variant", "pro"],
        "every": "1h",
        "intervals": INTERVALS,
    } | options
    return partials(tables, *METRICS, **chosen)


def states(accumulators: Mapping[Cell, Accumulator]) -> dict[Cell, Any]:
    return {cell: accumulator.state_dict() for cell, accumulator in accumulators.items()}


@few_examples()
@given(sizes=st.lists(st.integers(0, 8), min_size=1, max_size=4), seed=st.integers(0, 1000))
def test_any_division_of_the_events_gives_the_same_bytes(sizes: list[int], seed: int) -> None:
    rows = events(sum(sizes), seed)
    total = counted(table(rows))
    random.Random(seed).shuffle(rows)
    pieces, begin = [], 0
    for size in sizes:
        pieces.append(table(rows[begin : begin + size]))
        begin += size
    assert counted(*pieces) == total
    apart = [row for piece in pieces for row in counted(piece)]
    random.Random(seed).shuffle(apart)
    assert repacked(apart) == total
    half = len(apart) // 2
    assert repacked([*repacked(apart[:half]), *repacked(apart[half:])]) == total


def test_a_cell_equals_an_accumulator_of_its_events() -> None:
    rows = events(150)
    accumulators = merged(counted(table(rows)))
    assert sum(counted_cell.lists for counted_cell in accumulators.values()) == len(rows)
    assert list(accumulators)[-1].start is None
    for (labels, start), accumulator in accumulators.items():
        alone = Accumulator(*METRICS, intervals=INTERVALS)
        for row in rows:
            time = row["times"]
            if (row["variant"] or "__missing__", str(row["pro"]).lower()) == labels and (
                time and time.replace(minute=0)
            ) == _moment(start):
                alone.update(
                    row["recommendations"],
                    row["interactions"],
                    scores=row["scores"],
                    user=row["users"],
                    ts=time and int(time.timestamp() * 1_000_000),
                )
        assert alone.state_dict() == accumulator.state_dict()


def _moment(start: int | None) -> datetime | None:
    return None if start is None else datetime.fromtimestamp(start / 1_000_000, UTC)


def test_without_splitting_there_is_one_row_and_variants_of_it_are_compared() -> None:
    rows = events(1_000)
    arms = merged(counted(table(rows), by=["variant"], every=None))
    assert {labels for labels, _ in arms} == {("control",), ("treatment",), ("__missing__",)}
    names = ("control", "treatment")
    alone = [Accumulator(*METRICS, intervals=INTERVALS) for _ in names]
    for name, accumulator in zip(names, alone, strict=True):
        accumulator.update_many(table([row for row in rows if row["variant"] == name]))
    of_arms = [arms[Cell((name,), None)] for name in names]
    assert compare(*of_arms, "hit_rate@2") == compare(*alone, "hit_rate@2")
    (total,) = counted(table(rows), by=(), every=None)
    assert (total.labels, total.start, total.lists) == ((), None, len(rows))


def test_rows_may_be_sequences_or_mappings() -> None:
    rows = counted(table(events(50)))
    mappings = [row._asdict() for row in rows]
    lists = [[list(row.labels), *row[1:3], bytearray(row.state)] for row in rows]
    assert states(merged(lists)) == states(merged(mappings)) == states(merged(rows))
    assert repacked(mappings) == repacked(arrow_table(rows)) == rows
    assert arrow_table(mappings) == arrow_table(rows)


@pytest.mark.parametrize("every", ["1h", None])
def test_starts_may_be_floats_as_in_pandas(every: str | None) -> None:
    rows = [*counted(table(events(30)), every=every), *counted(table(events(20, 1)), every=every)]
    floats: list[Any] = [
        (
            np.array(row.labels, object),
            math.nan if row.start is None else float(row.start),
            *row[2:],
        )
        for row in rows
    ]
    assert states(merged(floats)) == states(merged(rows))


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: None,
        lambda row: row[:3],
        lambda row: {"labels": row.labels},
        lambda row: row._replace(labels=None),
        lambda row: row._replace(labels=(5,)),
        lambda row: row._replace(labels="x"),
        lambda row: row._replace(labels=(*row.labels, "x")),
        lambda row: row._replace(start="0"),
        lambda row: row._replace(start=0.5),
        lambda row: row._replace(start=datetime(2026, 1, 1, tzinfo=UTC)),
        lambda row: row._replace(state="text"),
    ],
)
def test_an_invalid_row_is_refused(damage: Callable[[Partial], Any]) -> None:
    row, *others = counted(table(events(30)))
    with pytest.raises(DamagedStateError, match="partial: the saved state is damaged"):
        merged([*others, damage(row)])


@pytest.mark.parametrize("wrong", [None, 5])
def test_what_holds_no_rows_is_refused(wrong: Any) -> None:
    for take in (merged, repacked, arrow_table, lambda rows: backfill(rows, [])):
        with pytest.raises(
            DamagedStateError, match=rf"{wrong} is not a list or an iterator of row"
        ):
            take(wrong)
    with pytest.raises(SourceError, match=f"{wrong}: no rows of streameval.partials"):
        next(stored(wrong))
    with pytest.raises(InvalidEventError, match=r"by=.*; give the names of columns in a list"):
        partials([], "mrr", by=wrong)
    with pytest.raises(InvalidEventError, match=r"by=.*; give the names of columns in a list"):
        partials([], "mrr", by=[wrong])


def test_one_changed_bit_anywhere_in_a_row_is_found() -> None:
    ranked = table(events(3)).select(["recommendations", "interactions"])
    (row,) = partials([ranked], "mrr", "ndcg@3", intervals=INTERVALS)
    for index, bit in itertools.product(range(len(row.state)), (0, 3, 7)):
        state = bytearray(row.state)
        state[index] ^= 1 << bit
        with pytest.raises((DamagedStateError, StateVersionError)):
            merged([row._replace(state=bytes(state))])


def test_rows_without_a_checksum_are_read() -> None:
    """As they were written before there was one."""
    rows = counted(table(events(30)))
    older = [
        row._replace(state=msgspec.msgpack.encode(msgspec.msgpack.decode(row.state)[:-1]))
        for row in rows
    ]
    assert repacked(older) == rows
    assert older != rows


def test_an_unknown_keyword_is_refused_also_without_rows() -> None:
    for read in (merged, repacked):
        with pytest.raises(UsageError, match=r"^catalogue= is not an argument; .* 'catalog'\?$"):
            read([], catalogue=3)  # type: ignore[call-arg]  # the mistake
    with pytest.raises(UsageError, match=r"^columns= is not an argument; rename the columns"):
        partials([], "mrr", columns={})  # type: ignore[call-arg]  # the mistake
    with pytest.raises(UsageError, match=r"^interval= is not an argument; .* 'intervals'\?$"):
        partials([], "mrr", interval=None)  # type: ignore[call-arg]  # the mistake


def test_no_events_give_no_rows() -> None:
    assert partials([], "mrr") == []
    assert counted(table([])) == []
    assert merged([]) == {}
    assert repacked([]) == []


class Frame:
    """A table of another library, with only the Arrow interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def test_frames_of_other_libraries_and_record_batches_are_tables() -> None:
    rows = table(events(40))
    assert counted(Frame(rows)) == counted(*rows.to_batches(max_chunksize=7)) == counted(rows)
    assert counted(rows, by="variant") == counted(rows, by=["variant"])


def test_a_catalogue_is_given_on_both_sides() -> None:
    ranked = table(events(30)).select(["recommendations", "interactions"])
    rows = partials([ranked], "item_coverage@2", catalog=12)
    (accumulator,) = merged(rows, catalog=12).values()
    assert accumulator.read("item_coverage@2").value == pytest.approx(1.0)
    with pytest.raises(MetricError, match="catalog"):
        merged(rows)
    with pytest.raises(UnlikeStateError):
        merged(rows, catalog=13)
    with pytest.raises(UnlikeStateError):
        merged([*rows, *partials([ranked], "item_coverage@2", catalog=13)], catalog=12)


NANOSECONDS = 1_767_225_600_000_000_000
ROWS = table(events(5))


def timed(times: Any) -> pa.Table:
    return ROWS.set_column(4, "times", times)


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        (ROWS, {"by": ["campaign"]}, "no column 'campaign'; its columns: recommendations"),
        (ROWS.drop_columns(["interactions"]), {}, "no column 'interactions'; its columns: .*var"),
        (ROWS, {"by": ["interactions"]}, "interactions: list<.*>; split by short text"),
        (ROWS.drop_columns(["times"]), {}, "no column 'times'"),
        (table([events(1)[0] | {"variant": "x" * 300}]), {}, "split by short text"),
        (timed(pa.array([2**60] * 5, pa.timestamp("s"))), {}, r"times: .* out of bounds"),
        (
            timed(pa.array([2**60] * 5, pa.timestamp("s"))),
            {"every": None},
            r"times: .* out of bounds",
        ),
        (timed(pa.array([NANOSECONDS] * 5)), {}, f"{NANOSECONDS}, which is not in the years"),
        (
            timed(pa.array([NANOSECONDS] * 5)),
            {"every": None},
            f"{NANOSECONDS}, which is not in the years",
        ),
        (timed([["2026-01-01"] * 5]), {}, "times: string; give timestamps"),
        ([[1, 2]], {}, "list is not a table"),
    ],
)
def test_a_table_that_cannot_be_split_is_refused(
    rows: Any, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidEventError, match=said):
        counted(rows, **options)


def test_other_input_is_refused_with_what_to_give() -> None:
    for mistake in (ROWS, None, 5):
        with pytest.raises(InvalidEventError, match="give tables in a list or an iterator, found"):
            partials(mistake, "mrr")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(InvalidEventError, match="give a DataFrame of pyspark, found Table"):
        evaluate(ROWS, "mrr")
    durations: list[Any] = ["often", "0s", 3600]
    for every in durations:
        with pytest.raises(ValueError, match="every: found"):
            partials([], "mrr", every=every)


def test_rows_with_another_split_are_refused() -> None:
    ranked = table(events(20))
    for options, detail in (({"every": "30m"}, "1800000000"), ({"by": ["pro"]}, "pro")):
        with pytest.raises(UnlikeStateError, match=detail):
            merged([*counted(ranked), *counted(ranked, **options)])


def test_rows_with_different_settings_are_refused() -> None:
    ranked = table(events(20)).select(["recommendations", "interactions"])
    by_rank, other = (partials([ranked], metric) for metric in ("mrr", "hit_rate@2"))
    with pytest.raises(UnlikeStateError, match="hit_rate@2"):
        merged([*by_rank, *other])
    (row,) = by_rank
    state: list[Any] = msgspec.msgpack.decode(row.state)
    newer = row._replace(state=msgspec.msgpack.encode([99, *state[1:]]))
    with pytest.raises(StateVersionError, match="99"):
        merged([newer])
    # Without a checksum, as anybody can write them.
    inputs, spans, negative, long = (
        [*state[:at], wrong, *state[at + 1 : -1]]
        for at, wrong in ((9, 3), (3, "1x"), (3, -5), (3, 2**63))
    )
    for damaged in (
        b"",
        b"\x00",
        row.state[:-3],
        *map(msgspec.msgpack.encode, ([*state[:-1], b"x"], inputs, spans, negative, long)),
    ):
        with pytest.raises(DamagedStateError):
            merged([row._replace(state=damaged)])
    (hour,) = partials([table(events(20)).slice(0, 1)], "mrr", every="1h")
    for start in (None, hour.start):
        assert merged([hour._replace(start=start)])
    for moved, start in ((hour, (hour.start or 0) + 1), (hour, 2**63), (row, 0)):
        with pytest.raises(DamagedStateError, match=f"start={start}"):
            merged([moved._replace(start=start)])
    with pytest.raises(DamagedStateError):
        backfill([row._replace(state=msgspec.msgpack.encode(spans))], [])


def test_rows_import_no_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Rows from elsewhere may name any; one that the program has imported is found."""
    (tmp_path / "partial_payload.py").write_text(
        "from streameval import metric\n"
        "@metric(bounds=(0, 1), source='a test')\n"
        "def clicks(hits, k):\n"
        "    return hits.first(k).total(hits.first(k).hits > 0)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    table = pa.table({"recommendations": [["a"]], "interactions": [["a"]]})
    rows = partials([table], "partial_payload:clicks")
    loaded = sys.modules.pop("partial_payload")
    for read in (merged, repacked):
        with pytest.raises(MetricTextError, match="of module 'partial_payload', which"):
            read(rows)
    assert "partial_payload" not in sys.modules
    monkeypatch.setitem(sys.modules, "partial_payload", loaded)
    assert merged(rows)[Cell((), None)].read("partial_payload:clicks").value == 1.0


def test_rows_hold_each_state_once() -> None:
    number, items = 2_000, [f"i{index}" for index in range(50)]
    table = pa.table(
        {
            "recommendations": [items] * number,
            "interactions": [["i1"]] * number,
            "variant": [f"v{index % 200}" for index in range(number)],
        }
    )
    rows = [*partials([table], "distinct_items", "ndcg@5", by=["variant"])]

    def peak(count: Callable[[Sequence[Partial]], object]) -> int:
        count(rows)
        tracemalloc.start()
        try:
            count(rows)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    states = sum(len(row.state) for row in rows)
    # A state counts once and a row has some bytes of its own; a second copy of each made it 3.1.
    assert peak(repacked) - peak(merged) < 2.5 * states
