# /// script
# dependencies = ["dask[bag]", "streameval"]
# ///
"""Counts files of JSON lines on the workers of Dask, and merges the counts.

Run it: python dask_bag.py "logs/*.ndjson" (a cluster takes the place of processes once there is a
`dask.distributed.Client`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import dask.bag

from streameval import Accumulator

METRICS = ("ndcg@2", "hit_rate@1")


def count(events: Iterable[dict[str, Any]]) -> Accumulator:
    """The counts of a partition."""
    part = Accumulator(*METRICS)
    for event in events:
        part.update(event["recommendations"], event["interactions"])
    return part


def merged(parts: Iterable[Accumulator]) -> Accumulator:
    """The counts of several, with the bits of one process."""
    total = Accumulator(*METRICS)
    for part in parts:
        total.merge(part)
    return total


def main() -> None:
    """Print the value of each metric."""
    events = dask.bag.read_text(sys.argv[1]).map(json.loads)
    found = events.reduction(count, merged).compute()
    for name, reading in found.compute().items():
        sys.stdout.write(f"{name} {reading.value}\n")


if __name__ == "__main__":
    main()
