"""The ingest loop: poll, count, and now and then publish a picture of it all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streameval.accumulator import Accumulator
from streameval.config import Config
from streameval.daemon.clock import Clock
from streameval.daemon.pace import Pace
from streameval.daemon.reports import Advice, InvalidRecords, SourceTrouble
from streameval.pipeline.decode import Decoder
from streameval.pipeline.ingest import Ingest
from streameval.pipeline.snapshot import Snapshot
from streameval.pipeline.snapshots import Snapshots
from streameval.records import RecordBatch
from streameval.sources.source import Source

_LONGEST_WAIT = 0.2
"""Seconds; a signal is noticed within them."""

_STUCK = 60.0
"""Seconds; no batch and no snapshot takes so long."""


class Loop:
    """Counts what a source delivers; everything in it happens on one thread.

    Args:
        config: what is counted, and how.
        source: where records come from; opened and closed here.
        publish: handed each snapshot; must be quick.
        clock: where time comes from.

    Raises:
        ConfigError: the fields of an event contradict each other.
        MetricError: a metric cannot be understood, or lacks its inputs.
    """

    def __init__(
        self,
        config: Config,
        source: Source,
        publish: Callable[[Snapshot], None],
        clock: Clock,
    ) -> None:
        empty = config.accumulator()
        self._ingest: Ingest[Accumulator] = Ingest(Decoder(config.event, config.labels), empty.copy)
        self._snapshots = Snapshots(
            self._ingest, source=source.name, label_names=config.labels, started_at=clock.wall()
        )
        self._source = source
        self._publish = publish
        self._clock = clock
        self._pace = Pace(clock.monotonic)
        self._invalid = InvalidRecords(clock.monotonic)
        self._trouble, self._advice = SourceTrouble(clock.monotonic), Advice()
        self._ready = False
        self._turned_at = clock.monotonic()

    @property
    def turning(self) -> bool:
        """Whether it has got on with its work lately; may be asked from any thread."""
        return self._clock.monotonic() - self._turned_at < _STUCK

    def run(self, until: Callable[[], bool]) -> None:
        """Read from the configured start on until told to stop; then one last snapshot.

        What has been polled is counted before it ends. A source that has finished is waited on
        all the same, so that its values can still be looked at.

        Raises:
            SourceError: the source cannot be read, and waiting will not help.
        """
        try:
            self._source.open({})
            while not until():
                self._turn()
        finally:
            self._end()

    def _turn(self) -> None:
        batches = self._poll(min(_LONGEST_WAIT, self._pace.remaining))
        self._ready = self._ready or self._source.trouble is None
        for batch in batches:
            self._ingest.apply(batch)
            self._show_when_due()
        self._show_when_due()
        self._turned_at = self._clock.monotonic()
        self._trouble.observe(self._source.trouble)
        self._invalid.observe(self._ingest.take_invalid(), self._ingest.tally.invalid)

    def _poll(self, seconds: float) -> Sequence[RecordBatch]:
        if self._source.finished:
            self._clock.sleep(seconds)
            return ()
        return self._source.poll(seconds)

    def _show_when_due(self) -> None:
        if self._pace.remaining <= 0:
            with self._pace.turn():
                self._show()

    def _show(self) -> None:
        trouble = self._source.trouble
        snapshot = self._snapshots.take(
            now=self._clock.wall(),
            ends=self._source.end_offsets(),
            ready=self._ready,
            trouble=trouble,
        )
        self._publish(snapshot)
        if trouble is None:
            self._advice.observe(snapshot.health.trouble)

    def _end(self) -> None:
        self._ready = False
        self._show()
        self._invalid.observe(self._ingest.take_invalid(), self._ingest.tally.invalid)
        self._invalid.summarize(self._ingest.tally.invalid)
        self._source.close()
