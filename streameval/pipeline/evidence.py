"""What adds up in the pieces of a state: numerators and denominators of means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from streameval.aggregation.folding import Folding
from streameval.metric import Metric
from streameval.pipeline.ingest import Ingest
from streameval.pipeline.readable import Readable
from streameval.pipeline.snapshot import Counted, CountedKey
from streameval.records import Partition

R = TypeVar("R", bound=Readable)


def counts_up(metric: Metric) -> bool:
    """Whether a metric's totals only grow, so that they may be exported as counters."""
    never_negative = metric.definition.bounds[0] >= 0 and metric.values.get("relevant") != "all"
    return metric.is_mean and never_negative


class Evidence(Generic[R]):
    """Reads what adds up out of the sections of a partition's state.

    Args:
        ingest: whose states are read.
    """

    def __init__(self, ingest: Ingest[R]) -> None:
        self._ingest = ingest
        self._families = [spec.name for spec in ingest.layout.families]

    def totals(
        self, partition: Partition, section: str
    ) -> Callable[[], Mapping[CountedKey, Counted]]:
        """A quick copy of what a section counts; what it returns reads it, on any thread.

        Empty for a section that holds no events.
        """
        name = section.partition("/")[0]
        if name not in self._families:
            return dict
        family = self._ingest.partitions[partition].families[name]
        held = [
            (labels, each.copy())
            for slices in family.slices()
            if slices.section == section
            for labels, each in slices.items
        ]
        index = self._families.index(name)
        return lambda: {
            (index, labels, text): pair
            for labels, accumulator in held
            for text, pair in _additive(accumulator).items()
        }

    def folding(self, partition: Partition) -> Callable[[CountedKey], CountedKey]:
        """Where the partition counts a key now, even if it folds more later."""
        families = self._ingest.partitions[partition].families
        return _folded([families[name].folding.merged([]) for name in self._families])

    def shown(self) -> Callable[[CountedKey], CountedKey]:
        """Under which key all partitions together show a key."""
        return _folded([self._ingest.views[name].folding for name in self._families])


def _folded(foldings: Sequence[Folding]) -> Callable[[CountedKey], CountedKey]:
    return lambda key: (key[0], foldings[key[0]].settled(key[1]), key[2])


def _additive(accumulator: Readable) -> dict[str, Counted]:
    readings = (accumulator.read(m.text) for m in accumulator.metrics if counts_up(m))
    return {
        reading.metric: (reading.total, reading.count)
        for reading in readings
        if reading.total is not None
    }
