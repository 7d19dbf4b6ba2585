"""Evidence for counters: numerators and denominators that never decrease."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from streameval.accumulator.readings import readings_of
from streameval.engine.ingest import Ingest
from streameval.engine.snapshot import CounterKey, CounterValue
from streameval.engine.windows.family import FamilyCopy
from streameval.engine.windows.labels import LabelCaps
from streameval.engine.windows.views import FamilyView
from streameval.events.records import Partition

Totals: TypeAlias = Mapping[CounterKey, CounterValue]
"""Numerator and denominator of every additive metric, by family, labels and metric."""

KeyMapping: TypeAlias = Callable[[CounterKey], CounterKey]
"""Maps a key to the key under which it counts: itself unless its label values are folded."""


class EvidenceReader:
    """Reads the evidence in the state of each partition."""

    def __init__(self, ingest: Ingest) -> None:
        self._ingest = ingest
        self._views: dict[Partition, list[FamilyView]] = {}

    def totals(self, partition: Partition) -> Callable[[], Totals]:
        """Copy the counts of a partition; returns a function that reads their totals.

        It may be called on any thread, but not concurrently with another one of the partition.
        """
        layout = self._ingest.layout
        if partition not in self._views:
            self._views[partition] = [
                FamilyView(spec, layout.windowing.pane) for spec in layout.families
            ]
        families = self._ingest.partitions[partition].families
        copies = [families[spec.name].copied() for spec in layout.families]
        views = self._views[partition]
        return lambda: _totals(views, copies)

    def forget(self, partition: Partition) -> None:
        """Drop the caches of a partition."""
        self._views.pop(partition, None)

    def partition_key(self, partition: Partition) -> KeyMapping:
        """The mapping from a key to the one under which the partition counts it now."""
        families = self._ingest.partitions[partition].families
        return _key_mapping(
            [families[s.name].label_caps.copy() for s in self._ingest.layout.families]
        )

    def exported_key(self) -> KeyMapping:
        """The mapping from a key to that of its exported series, over all partitions."""
        return _key_mapping(
            [self._ingest.label_caps(spec.name) for spec in self._ingest.layout.families]
        )


def _key_mapping(caps: Sequence[LabelCaps]) -> KeyMapping:
    return lambda key: (key[0], caps[key[0]].resolve(key[1]), key[2])


def _totals(
    views: Sequence[FamilyView], copies: Sequence[FamilyCopy]
) -> dict[CounterKey, CounterValue]:
    totals: dict[CounterKey, CounterValue] = {}
    for index, (view, copy) in enumerate(zip(views, copies, strict=True)):
        view.refresh([copy])
        table = view.values()
        slices = view.slices(table)
        numbers = slices.tolist()
        for metric in (metric for metric in view.spec.metrics if metric.counts_up):
            for number, reading in zip(numbers, readings_of(metric, table, slices), strict=True):
                if reading.total is not None:
                    totals[index, view.labels(number), metric.text] = reading.total, reading.count
    return totals
