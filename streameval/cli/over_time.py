"""Readings of one span of event time after the other: `streameval evaluate --every`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from streameval.accumulator import Accumulator
from streameval.attribution.state import JoinedState
from streameval.cli.readings import Taken
from streameval.config import Config
from streameval.config.counting import layout
from streameval.config.joining import joint
from streameval.pipeline.decode import Decoded, Decoder
from streameval.pipeline.examples import Examples, InvalidRecord
from streameval.pipeline.memory import Memory
from streameval.pipeline.snapshot import Health, Series, SeriesFamily, Snapshot
from streameval.pipeline.spans import Slices, Spans
from streameval.pipeline.tally import Tally
from streameval.records import Partition, RecordBatch

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = -62_135_596_800_000_000  # 0001-01-01, in microseconds since the epoch


class OverTime:
    """Counts the events of files by spans of event time.

    Args:
        config: what is counted, and how; its windows are not read.
        every: length of a span, microseconds.

    Raises:
        ConfigError: the fields of an event contradict each other.
        MetricError: a metric cannot be understood, or lacks its inputs.
        SourceError: a file that the configuration names cannot be read.
    """

    def __init__(self, config: Config, every: int) -> None:
        kept = layout(config)
        self.tally = Tally()
        self._families = [
            SeriesFamily(group.name, group.segment, group.dimensions) for group in config.families()
        ]
        self._spans: Spans[Accumulator] = Spans(kept.families, every)
        self._dedup = kept.dedup
        self._decoder = Decoder(config.event, config.dimensions())
        self._joint = (
            None if config.attribution is None else joint(config, config.attribution, kept)
        )
        self._joined: JoinedState[Accumulator] | None = None
        self._examples = Examples()
        self._seen: dict[Partition, tuple[Memory, int]] = {}

    def home(self, partition: Partition) -> Partition:
        """The partition under whose name a file is counted."""
        return partition if self._joint is None else self._joint.home(partition)

    def begin(self, _partition: Partition, offsets: Mapping[Partition, int]) -> None:
        """Join these files."""
        if self._joint is not None:
            self._joined = self._joint.state(offsets, self._spans.update)

    @property
    def crowded(self) -> Collection[Partition]:
        """Files of which no more should be read now."""
        return () if self._joined is None else self._joined.crowded

    def end(self, partitions: Collection[Partition]) -> None:
        """Nothing more comes in these files."""
        if self._joined is not None:
            self._joined.end(partitions)

    def apply(self, batch: RecordBatch) -> Tally:
        """Count the records of a batch; returns what became of them."""
        if self._joint is not None and self._joined is not None:
            applied = self._joined.apply(batch, self._joint.decode(batch))
            self.tally.add(applied.tally)
            self._examples.add(batch, applied.invalid)
            return applied.tally
        decoded = self._decoder.decode_many(batch.values)
        counted = self._novel(batch.partition, decoded)
        self._spans.update(counted)
        tally = Tally(consumed=len(batch.values), tombstones=len(decoded.tombstones))
        tally.valid = len(counted.places)
        tally.duplicates = len(decoded.places) - tally.valid
        tally.refuse([event for _, event in decoded.invalid])
        self.tally.add(tally)
        self._examples.add(batch, decoded.invalid)
        return tally

    def take_invalid(self) -> Sequence[InvalidRecord]:
        """Examples of invalid records since the last call: the first few of each reason."""
        return self._examples.take()

    def taken(self) -> Iterator[Taken]:
        """The readings of each span that has an event, in the order of time."""
        for start, slices in self._spans.items():
            yield Taken(_text(start), self._snapshot(slices))

    def _novel(self, partition: Partition, decoded: Decoded) -> Decoded:
        """Without events that came before, where the configuration has `dedup`."""
        times, event_ids = decoded.times, decoded.event_ids
        if self._dedup is None or event_ids is None or times is None or not decoded.places:
            return decoded
        memory, clock = self._seen.get(partition, (Memory(self._dedup), None))
        novel = memory.novel(event_ids, times, clock)
        latest = int(times.max())
        self._seen[partition] = memory, latest if clock is None else max(latest, clock)
        return decoded.keep(novel)

    def _snapshot(self, slices: Slices[Accumulator]) -> Snapshot:
        series = [
            Series(metric, labels, each.read(metric.text), family=place)
            for place, found in enumerate(slices)
            for metric in next(iter(found.values())).metrics
            for labels, each in found.items()
        ]
        advice = [each.advice() for found in slices for each in found.values()]
        return Snapshot(
            version=1,
            taken_at=0.0,
            started_at=0.0,
            source="",
            families=tuple(self._families),
            series=tuple(series),
            health=_health(next(filter(None, advice), None)),
        )


def _health(trouble: str | None) -> Health:
    return Health(
        consumed=0,
        valid=0,
        invalid={},
        tombstones=0,
        partitions=(),
        ready=True,
        trouble=trouble,
    )


def _text(start: int) -> str:
    """The start of a span as RFC 3339 has it; the first one begins with the year 1.

    Example:
        >>> _text(1_700_000_000_000_000)
        '2023-11-14T22:13:20Z'
    """
    moment = _EPOCH + timedelta(microseconds=max(start, _FIRST))
    return f"{moment.replace(tzinfo=None).isoformat()}Z"
