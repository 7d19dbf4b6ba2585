# /// script
# dependencies = ["dask[bag]", "streameval[tables]"]
# ///
"""Joins impressions with their clicks on Dask, and counts the lists.

Run it: python join_dask.py shown.parquet clicks.parquet counted.parquet
The rows of partials in counted.parquet merge to the bits of one process.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Literal

import dask.bag
from pyarrow import parquet

from streameval.attribution import Attribution, joined, pieces, sides
from streameval.partials import Partial, arrow_table, partials

RULE = Attribution(key="user_item", window="30m", types={"click": 1, "purchase": 10})
METRICS = ("ndcg@2", "ctr", "value_per_list", "hit_rate(type=purchase)@2")
BUCKETS = 20


def divide(part: tuple[str, Literal["impressions", "interactions"]]) -> list[dict[str, Any]]:
    """The pieces of a file of one side."""
    rows: list[dict[str, Any]] = pieces(
        parquet.read_table(part[0]), part[1], RULE, BUCKETS
    ).to_pylist()
    return rows


def count(bucket: tuple[int, Sequence[dict[str, Any]]]) -> list[Partial]:
    """The partial counts of the lists of a bucket."""
    lists = joined(*sides(bucket[1]), RULE).lists
    return partials([lists], *METRICS, by=["variant"])


def main(shown: str, clicks: str, counted: str) -> None:
    """Write the rows of partials."""
    files = dask.bag.from_sequence([(shown, "impressions"), (clicks, "interactions")])
    rows = files.map(divide).flatten().groupby(lambda row: row["bucket"]).map(count).flatten()
    parquet.write_table(arrow_table(rows.compute()), counted)


if __name__ == "__main__":
    main(*sys.argv[1:])
