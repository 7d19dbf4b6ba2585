# /// script
# dependencies = ["streameval"]
# ///
"""A loop over events on standard input, with its own Prometheus registry.

Run `streameval simulate --events-per-second 50 | python plain_loop.py 9878`; Prometheus scrapes
127.0.0.1:9878.
"""

from __future__ import annotations

import json
import os
import sys

from prometheus_client import CollectorRegistry, start_http_server

from streameval import Accumulator
from streameval.prometheus import Collector

# Seconds for which a new counter shows 0: at least two scrape intervals.
FIRST_EXPOSURE = float(os.environ.get("FIRST_EXPOSURE", "60"))


def main(port: int) -> None:
    """Count until standard input ends."""
    lists = Accumulator("ndcg@10", "hit_rate@10", "item_coverage@10", catalog=2_000)
    registry = CollectorRegistry()
    registry.register(Collector(lists, first_exposure=FIRST_EXPOSURE))
    start_http_server(port, "127.0.0.1", registry)
    for line in sys.stdin:
        event = json.loads(line)
        lists.update(event["recommendations"], event["interactions"])


if __name__ == "__main__":
    main(int(sys.argv[1]))
