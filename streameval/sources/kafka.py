"""Topics of a Kafka cluster as a source: all partitions, read by one process."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from kafka.errors import KafkaError

from streameval.errors import SourceError
from streameval.records import Partition, RecordBatch
from streameval.sources.kafka_client import UNUSABLE, explanation, hush, unusable
from streameval.sources.kafka_client import warn_of_slow_checksums as warn
from streameval.sources.kafka_failures import permanent
from streameval.sources.kafka_probe import probe
from streameval.sources.kafka_reader import KafkaReader
from streameval.sources.kafka_secrets import redacted
from streameval.sources.kafka_settings import source_config, source_topics
from streameval.sources.kafka_start import start_spec
from streameval.sources.kafka_watch import ClusterWatch
from streameval.sources.options import KafkaOptions

__all__ = ["KafkaSource", "probe"]

_LOG: Final = logging.getLogger(__name__)


class KafkaSource:
    """Every partition of some topics, without a consumer group, and without a commit.

    Only committed records are delivered. Where records are missing from the log (compaction,
    aborted transactions), a batch without values moves the position over them. Partitions that
    are added, and topics that are made, while it is open are read from their beginning.

    Args:
        options: the topics, where to begin, and settings of the client.
        environment: what ${NAME} in the settings refers to.

    Raises:
        ConfigError: a setting is unknown or not a user's to set, or `start` is no such thing.
        SourceError: no topic is named.
    """

    def __init__(self, options: KafkaOptions, environment: Mapping[str, str]) -> None:
        self._topics = source_topics(options)
        self._config = source_config(options, environment)
        self._start = start_spec(options.start)
        self._watch = self._new_watch()
        self._reader: KafkaReader | None = None
        self._stumble: str | None = None

    @property
    def name(self) -> str:
        """The topics."""
        return ", ".join(self._topics)

    @property
    def finished(self) -> bool:
        """Never: a topic has no end."""
        return False

    @property
    def trouble(self) -> str | None:
        """Why nothing, or not everything, can be read at the moment."""
        return self._watch.trouble or self._stumble

    def open(self, positions: Mapping[Partition, int]) -> None:
        """Begin to look for the cluster; `poll` checks positions as soon as it answers.

        Raises:
            SourceError: a position is of a topic that is not read.
        """
        self.close()
        _require_topics(self._topics, positions)
        hush()
        warn()
        _LOG.info("reading Kafka topics %s with %s", self.name, redacted(self._config))
        self._watch = self._new_watch()
        self._watch.begin(dict(positions))

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        """Records that are there; also batches without values, which move a position over a gap.

        Raises:
            SourceError: a position lies outside its log, a topic was made again, a record is
                corrupt, or the client refuses its settings.
        """
        starts = self._watch.await_starts(seconds)
        if self._watch.failure is not None:
            raise self._watch.failure
        try:
            return self._read(starts, seconds) if starts else []
        except UNUSABLE as error:
            raise unusable(error, self._config) from error
        except (KafkaError, OSError) as error:
            return self._wait_out(error, seconds)

    def end_offsets(self) -> Mapping[Partition, int]:
        """The offset after the last committed record of each partition, at most a second old."""
        return self._watch.ends

    def close(self) -> None:
        """Let go of the connections; may be called twice."""
        self._watch.end()
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _new_watch(self) -> ClusterWatch:
        return ClusterWatch(self._topics, self._config, self._start)

    def _read(self, starts: Mapping[Partition, int], seconds: float) -> Sequence[RecordBatch]:
        if self._reader is None:
            self._reader = KafkaReader(self._config)
        batches = self._reader.read(starts, seconds)
        self._stumble = None
        return batches

    def _wait_out(self, error: Exception, seconds: float) -> Sequence[RecordBatch]:
        lasting = permanent(error)
        if lasting is not None:
            raise lasting from error
        self._stumble = f"{explanation(error, self._config)}; still trying."
        self._watch.pause(seconds)
        return []


def _require_topics(topics: Sequence[str], positions: Mapping[Partition, int]) -> None:
    for partition in positions:
        if partition.topic not in topics:
            raise SourceError(
                str(partition),
                "a position was kept for it, but its topic is not read",
                "add the topic to [source] topics, or start anew",
            )
