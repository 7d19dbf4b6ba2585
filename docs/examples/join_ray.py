# /// script
# dependencies = ["ray[data]", "streameval[tables]"]
# ///
"""Joins impressions with their clicks on Ray Data, and counts the lists.

Run it: python join_ray.py shown.parquet clicks.parquet counted.parquet
The rows of partials in counted.parquet merge to the bits of one process.
"""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import ray
from pyarrow import parquet

from streameval.attribution import Attribution, joined, pieces, sides
from streameval.partials import arrow_table, partials

RULE = Attribution(key="user_item", window="30m", types={"click": 1, "purchase": 10})
METRICS = ("ndcg@2", "ctr", "value_per_list", "hit_rate(type=purchase)@2")
BUCKETS = 20


def count(rows: pa.Table) -> Any:
    """The partial counts of the lists of a bucket."""
    lists = joined(*sides(rows), RULE).lists
    return arrow_table(partials([lists], *METRICS, by=["variant"]))


def main(shown: str, clicks: str, counted: str) -> None:
    """Write the rows of partials."""
    both = [
        ray.data.read_parquet(path).map_batches(
            pieces,
            fn_kwargs={"side": side, "rule": RULE, "buckets": BUCKETS},
            batch_format="pyarrow",
            batch_size=65_536,
        )
        for path, side in ((shown, "impressions"), (clicks, "interactions"))
    ]
    rows = (
        both[0]
        .union(both[1])
        .groupby("bucket", num_partitions=BUCKETS)
        .map_groups(count, batch_format="pyarrow")
    )
    tables = [table for table in rows.iter_batches(batch_format="pyarrow") if table.num_rows]
    parquet.write_table(pa.concat_tables(tables), counted)


if __name__ == "__main__":
    main(*sys.argv[1:])
