"""Cost of a scrape."""

from __future__ import annotations

from collections.abc import Callable

from streameval.exporters.prometheus import PrometheusExporter
from tests.benchmarks.timing import best_of
from tests.exporters.pictures import mean, picture

TEXTS = ("hit_rate@10", "precision@10", "recall@10", "ndcg@10", "mrr")
SAMPLES = 10_000


def main() -> None:
    """Print the CPU time of rendering a new snapshot."""
    new = best_of({"rendered": _rendering()})["rendered"]
    print(f"{SAMPLES:,} samples: {new * 1e3:.1f} ms of CPU for each new snapshot")


def _rendering() -> Callable[[], None]:
    slices = [(f"variant-{number}",) for number in range(SAMPLES // len(TEXTS) // 2)]
    series = [mean(text, label, 12.5, 100) for text in TEXTS for label in slices]
    exporter = PrometheusExporter(version="1")
    versions = iter(range(1_000_000))

    def task() -> None:
        exporter.exposition(picture(*series, version=next(versions)))

    task()
    return task
