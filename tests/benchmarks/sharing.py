"""Cost of sharing accumulators between a counting and a scraping thread."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, generate_latest

from streameval import Accumulator
from streameval.exporters.embedded import Collector
from tests.benchmarks import traffic
from tests.benchmarks.timing import best_of
from tests.benchmarks.update import RANKED

EVENTS = 40_000
SLICES = 500


def main() -> None:
    """Print the cost of the copy of a scrape, and of a whole scrape."""
    _print_copy("rank metrics", RANKED)
    _print_copy("item coverage too", (*RANKED, "item_coverage@20"))
    _print_scrape()


def _print_copy(name: str, metrics: tuple[str, ...]) -> None:
    accumulator = Accumulator(*metrics, catalog=50_000)
    accumulator.update_many(traffic.offline(EVENTS, catalog=50_000))
    best = best_of({"copy": accumulator.copy})["copy"]
    print(f"a copy, {name}, {EVENTS:,} lists of 20: {best * 1e3:.2f} ms of pause")


def _print_scrape() -> None:
    slices = {str(number): Accumulator(*RANKED) for number in range(SLICES)}
    registry = CollectorRegistry()
    registry.register(Collector(slices, labels="slice"))
    took, text = [], b""
    for number in range(3):
        for accumulator in slices.values():
            accumulator.update_many(traffic.clicks(20 + number))
        start = time.process_time()
        text = generate_latest(registry)
        took.append(time.process_time() - start)
    start = time.process_time()
    generate_latest(registry)
    again = time.process_time() - start
    count = sum(not line.startswith(b"#") for line in text.splitlines())
    print(
        f"a scrape of {count:,} samples, {SLICES} accumulators that all changed: "
        f"{min(took) * 1e3:.0f} ms; none changed: {again * 1e3:.0f} ms"
    )
