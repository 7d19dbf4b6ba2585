"""Expositions as the tests read them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from streameval.engine.snapshot import Snapshot
from streameval.exporters.prometheus import PrometheusExporter

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Hands:
    """A clock that is turned by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def samples(exporter: PrometheusExporter, snapshot: Snapshot | None) -> Samples:
    """Every sample of a scrape, none twice."""
    text = exporter.exposition(snapshot).decode()
    found = [each for family in text_string_to_metric_families(text) for each in family.samples]
    read = {(each.name, frozenset(each.labels.items())): each.value for each in found}
    assert len(read) == len(found)
    return read


def at(read: Samples, name: str, **labels: str) -> float | None:
    """One sample; None where it is absent."""
    return read.get((f"streameval_{name}", frozenset(labels.items())))
