"""The dead letters that are in topics now."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError

from streameval.errors import SourceError
from streameval.letters.headers import letter_of
from streameval.pipeline.letters import DeadLetter
from streameval.records import Partition
from streameval.sources.kafka.client import (
    UNUSABLE,
    connect,
    explanation,
    silence_client_log,
    unusable,
)
from streameval.sources.kafka.cluster import EARLIEST, LATEST, Cluster

_PATIENCE: Final = 30.0
"""Seconds without a record, and without the end, after which reading has failed."""


class LetterTopics:
    """Reads topics of dead letters from their beginning to where they end now, without a group.

    Args:
        config: settings of the client.
        topics: those of dead letters.
        inputs: those that are read; one that is missing is a mistake in the configuration.

    Attributes:
        foreign: records among those read so far that are no letters.

    Raises:
        SourceError: no broker answers, or a topic may not be read, or one of `inputs` is missing.
    """

    def __init__(
        self, config: Mapping[str, Any], topics: Sequence[str], inputs: Sequence[str]
    ) -> None:
        self._config = config
        self._topics = topics
        self.foreign = 0
        silence_client_log()
        try:
            self._begins, self._ends = self._bounds(inputs)
        except UNUSABLE as error:
            raise unusable(error, config) from error
        except (KafkaError, OSError) as error:
            raise self._failure(error) from error

    @property
    def present(self) -> bool:
        """Whether one of the topics is there."""
        return bool(self._ends)

    def __iter__(self) -> Iterator[DeadLetter]:
        """The letters, those of one partition in their order.

        Raises:
            SourceError: reading fails on the way.
        """
        self.foreign = 0
        try:
            for key, value, headers in self._records():
                letter = letter_of(key, value, headers)
                if letter is None:
                    self.foreign += 1
                else:
                    yield letter
        except (KafkaError, OSError) as error:
            raise self._failure(error) from error

    def _bounds(self, inputs: Sequence[str]) -> tuple[dict[Partition, int], dict[Partition, int]]:
        with closing(Cluster(self._config)) as cluster:
            found = cluster.topics([*self._topics, *inputs])
            for name in inputs:
                if name in found.missing:
                    remedy = "correct [source] topics"
                    raise SourceError(f"topic {name!r}", "there is none on this cluster", remedy)
            for name, why in found.refused.items():
                remedy = "allow this user to read it"
                raise SourceError(f"topic {name!r}", f"Kafka says {why}", remedy)
            wanted = [each for each in found.partitions if each.topic in self._topics]
            return cluster.offsets(wanted, EARLIEST), cluster.offsets(wanted, LATEST)

    def _records(self) -> Iterator[tuple[Any, Any, Any]]:
        left = {TopicPartition(*each): self._ends[each] for each in self._ends}
        left = {each: end for each, end in left.items() if self._begins[Partition(*each)] < end}
        with closing(connect(KafkaConsumer, self._config)) as consumer:
            consumer.assign(list(left))
            for each in left:
                consumer.seek(each, self._begins[Partition(*each)])
            heard = time.monotonic()
            while left:
                polled = consumer.poll(timeout_ms=200)
                for each, records in polled.items():
                    end = left[each]
                    yield from ((r.key, r.value, r.headers) for r in records if r.offset < end)
                done = [each for each, end in left.items() if consumer.position(each) >= end]
                heard = time.monotonic() if polled or done else heard
                if time.monotonic() - heard > _PATIENCE:
                    raise KafkaTimeoutError(f"nothing for {_PATIENCE:g} seconds")
                for each in done:
                    del left[each]
                    consumer.pause(each)

    def _failure(self, error: Exception) -> SourceError:
        where = f"topic {', '.join(self._topics)}"
        remedy = "start the broker, or correct [source.kafka]"
        return SourceError(where, explanation(error, self._config), remedy)
