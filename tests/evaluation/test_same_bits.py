"""Random worlds have the same bits through every door."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streameval import Accumulator, Intervals, evaluate
from streameval.evaluation.partials import merged, partials

METRICS = (
    *("ndcg@3", "mrr", "recall@2", "map@3", "ctr@2", "distinct_items@3", "users_covered"),
    "value_per_list@3",
)


class Named(NamedTuple):
    """A row of results as ir_measures has it."""

    query_id: Any
    doc_id: Any
    score: float


class FakeRun:
    """What ranx' Run and Qrels have in common with this: a dict behind a method."""

    def __init__(self, content: dict[Any, Any]) -> None:
        self.name, self._content = "bm25", content

    def to_dict(self) -> dict[Any, Any]:
        return self._content


class World(NamedTuple):
    """Lists of users with their interactions, in the order of first appearance.

    Attributes:
        gains: of both signs, for each interaction; None if all are 1.
    """

    ranked: dict[Any, list[Any]]
    truth: dict[Any, list[Any]]
    gains: dict[Any, list[float]] | None

    def counted(self) -> bytes:
        """The state of an accumulator that was given one list after the other."""
        one = Accumulator(*METRICS, intervals=Intervals())
        for user in self.users():
            one.update(self.ranked.get(user, []), self.graded.get(user, []), user=user)
        return b"".join(one.dump())

    @property
    def graded(self) -> dict[Any, Any]:
        """The interactions of each user, with their gains."""
        if self.gains is None:
            return self.truth
        return {
            user: dict(zip(items, self.gains[user], strict=True))
            for user, items in self.truth.items()
        }

    def users(self) -> list[Any]:
        return list(dict.fromkeys([*self.ranked, *self.truth]))

    def events(self) -> list[dict[str, Any]]:
        return [
            {
                "recommendations": self.ranked.get(user, []),
                "interactions": self.truth.get(user, []),
                "user": user,
            }
            | ({} if self.gains is None else {"gains": self.gains.get(user, [])})
            for user in self.users()
        ]


def world(seed: int) -> World:
    """Some users have no list, some no interactions; ids are integers, or words of any script."""
    draw = random.Random(seed)
    users: list[Any] = [f"u{n}" for n in range(draw.randint(3, 12))]
    signs = ("a", "é", "日", "b, ", '"c" ')
    items: list[Any] = [f"{draw.choice(signs)}{n}" for n in range(draw.randint(4, 15))]
    if seed % 2:
        users, items = [*range(90, 90 + len(users))], [*range(5, 5 + len(items))]
    ranked = {user: draw.sample(items, draw.randint(1, len(items))) for user in users[1:]}
    truth = {user: draw.sample(items, draw.randint(1, 4)) for user in users[:-1]}
    gains = {
        user: [draw.choice((1.0, 2.5, -1.0, -3.0, 0.0)) for _ in items]
        for user, items in truth.items()
    }
    return World(ranked, truth, gains if seed % 3 else None)


def doors(drawn: World, folder: Path) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """What `evaluate` is given, by name; the users of the first side come first."""
    ranked = [
        (user, item, 100.0 - rank)
        for user, items in drawn.ranked.items()
        for rank, item in enumerate(items)
    ]
    clicks = [(user, item) for user, items in drawn.truth.items() for item in items]
    rows = pd.DataFrame(ranked, columns=["user", "item", "score"])
    truth = pd.DataFrame(clicks, columns=["user", "item"])
    if drawn.gains is not None:
        truth["rating"] = [gain for gains in drawn.gains.values() for gain in gains]
    rows.to_csv(folder / "shown.csv", index=False)
    truth.to_csv(folder / "truth.csv", index=False)
    pq.write_table(pa.Table.from_pandas(rows), folder / "shown.parquet", row_group_size=3)
    yield "frames", (rows, truth)
    yield "polars", (pl.from_pandas(rows), pl.from_pandas(truth))
    yield "parquet and frame", (folder / "shown.parquet", truth)
    yield "ranks", (rows.assign(rank=101.0 - rows["score"]).drop(columns="score"), truth)
    yield (
        "other names",
        (
            rows.rename(columns={"user": "user_id", "item": "movie_id", "score": "prediction"}),
            truth.rename(columns={"user": "userId", "item": "movieId"}),
        ),
    )
    yield "named tuples", ([Named(*row) for row in ranked], truth)
    yield "lists of the recommendations", (_lists(rows, "recommendations"), truth)
    yield "lists of the truth", (rows, _lists(truth, "interactions"))
    yield "ranx", (FakeRun(drawn.ranked), FakeRun(drawn.graded))
    yield "mappings", (drawn.ranked, drawn.graded)
    yield "pairs of item and score", (
        {user: [(item, 9.0 - at) for at, item in enumerate(items)]
         for user, items in drawn.ranked.items()},
        drawn.graded,
    )  # fmt: skip
    events = drawn.events()
    yield "frame of events", (pd.DataFrame(events),)
    table = pa.Table.from_pylist(events)
    pq.write_table(table, folder / "events.parquet", row_group_size=2)
    yield "parquet of events", (folder / "events.parquet",)
    if isinstance(clicks[0][1], str):
        lines = "".join(f"{json.dumps(event)}\n" for event in events)
        (folder / "events.ndjson").write_text(lines)
        yield "json lines", (folder / "events.ndjson",)
        yield "csv", (folder / "shown.csv", folder / "truth.csv")
        for name in (name for name in table.column_names if name != "user"):
            lists = [json.dumps(event[name]) for event in events]
            table = table.drop_columns([name]).append_column(name, [lists])
        pd.DataFrame(table.to_pydict()).to_csv(folder / "events.csv", index=False)
        yield "csv of events", (folder / "events.csv",)


def _lists(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    lists = frame.groupby("user", sort=False).agg(list).reset_index()
    # Scores order items that stand in their order.
    return lists.rename(columns={"item": name}).drop(columns="score", errors="ignore")


@pytest.mark.filterwarnings("ignore::streameval.events.errors.SuspiciousEventsWarning")
@pytest.mark.parametrize("seed", range(6))
def test_every_door_has_the_bits_of_one_list_after_the_other(seed: int, tmp_path: Path) -> None:
    drawn = world(seed)
    expected = drawn.counted()
    states = {
        name: b"".join(evaluate(*inputs, *METRICS).accumulator().dump())
        for name, inputs in doors(drawn, tmp_path)
    }
    assert {name: state == expected for name, state in states.items()} == dict.fromkeys(
        states, True
    )
    table = pa.Table.from_pylist(drawn.events())
    parts = [partials([table[at : at + 3]], *METRICS, intervals=Intervals())
             for at in range(0, len(table), 3)]  # fmt: skip
    (spark,) = merged(row for rows in parts for row in rows).values()
    assert b"".join(spark.dump()) == expected
