# /// script
# dependencies = ["apache-beam", "streameval[beam]"]
# ///
"""Joins impressions with their clicks on Beam, and counts the lists.

Run it: python join_beam.py shown.parquet clicks.parquet counted.parquet
The rows of partials in counted.parquet merge to the bits of one process.
"""

from __future__ import annotations

import sys

import apache_beam as beam
from pyarrow import parquet

from streameval.attribution import Attribution
from streameval.beam import evaluate
from streameval.partials import arrow_table

RULE = Attribution(key="user_item", window="30m", types={"click": 1, "purchase": 10})
METRICS = ("ndcg@2", "ctr", "value_per_list", "hit_rate(type=purchase)@2")


def main(shown: str, clicks: str, counted: str) -> None:
    """Write the rows of partials."""
    with beam.Pipeline() as pipeline:
        both = (
            pipeline | "Shown" >> beam.io.ReadFromParquetBatched(shown),
            pipeline | "Clicks" >> beam.io.ReadFromParquetBatched(clicks),
        )
        (
            both
            | evaluate(*METRICS, by=["variant"], attribution=RULE, buckets=20)
            | beam.io.WriteToParquet(f"{counted}.parts/rows", arrow_table([]).schema)
        )
    parquet.write_table(parquet.read_table(f"{counted}.parts"), counted)


if __name__ == "__main__":
    main(*sys.argv[1:])
