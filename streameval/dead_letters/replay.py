"""Reads dead letters from their topics and republishes the records behind them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import msgspec
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError

from streameval.dead_letters.topic import letter_of
from streameval.engine.dead_letters import ORIGINAL, DeadLetter, Identity
from streameval.errors import PublishError, SourceError
from streameval.events.records import Partition
from streameval.sources.kafka.client import (
    UNUSABLE,
    connect,
    silence_client_log,
    unusable,
)
from streameval.sources.kafka.cluster import EARLIEST, LATEST, Cluster
from streameval.sources.kafka.connections import failure_of

_READ_TIMEOUT: Final = 30.0
"""Seconds without a record, before the end, after which reading has failed."""
_ACK_TIMEOUT: Final = 30.0
_MAX_IN_FLIGHT: Final = 1_000
_MAX_RECORD: Final = 64 * 1024 * 1024


class DeadLetterReader:
    """Reads topics of dead letters from their beginning to their current end, without a group.

    `inputs`: the topics that the letters come from; all of them must exist.

    Attributes:
        foreign: records read so far that are not dead letters.

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
        """Whether at least one of the topics exists."""
        return bool(self._ends)

    def __iter__(self) -> Iterator[DeadLetter]:
        """The letters, in order within each partition.

        Raises:
            SourceError: reading fails.
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
                if time.monotonic() - heard > _READ_TIMEOUT:
                    raise KafkaTimeoutError(f"nothing for {_READ_TIMEOUT:g} seconds")
                for each in done:
                    del left[each]
                    consumer.pause(each)

    def _failure(self, error: Exception) -> SourceError:
        where = f"topic {', '.join(self._topics)}"
        _, problem, remedy = failure_of(error, self._config)
        return SourceError(where, problem, remedy)


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which letters to replay."""

    topics: Collection[str]
    reasons: Collection[str] = ()
    identities: Collection[Identity] = ()

    def __contains__(self, letter: object) -> bool:
        if not isinstance(letter, DeadLetter):
            return False
        by_reason = not self.reasons or letter.reason in self.reasons
        by_name = not self.identities or letter.identity in self.identities
        return by_reason and by_name and letter.partition.topic in self.topics


def selected(letters: Iterable[DeadLetter], selection: Selection) -> Iterator[DeadLetter]:
    """One letter for each selected record.

    A record that was replayed and rejected again has two letters, which name the same original.
    """
    seen: set[Identity] = set()
    for letter in letters:
        if letter in selection and letter.original not in seen:
            seen.add(letter.original)
            yield letter


def replay(letters: Iterable[DeadLetter], config: Mapping[str, Any]) -> int:
    """Write the record of each letter to its topic and partition again.

    Key, value and headers are those of the record; a header is added that names it. Records
    written before an error stay.

    Returns:
        How many were written.

    Raises:
        SourceError: the client refuses its settings.
        PublishError: the broker does not answer, or refuses a record.
    """
    silence_client_log()
    run = _Replay()
    try:
        with closing(connect(KafkaProducer, {**config, **_PRODUCER})) as producer:
            for letter in letters:
                run.send(producer, letter)
            run.settle(0)
    except (KafkaError, OSError) as error:
        raise run.failure(str(failure_of(error, config))) from error
    except UNUSABLE as error:
        raise unusable(error, config) from error
    return run.count


_PRODUCER: Final[Mapping[str, Any]] = {
    "acks": "all",
    "enable_idempotence": False,
    "max_request_size": _MAX_RECORD,
}


class _Replay:
    """The records that were sent, and how many of them were acknowledged."""

    def __init__(self) -> None:
        self.count = 0
        self._unanswered: deque[Any] = deque()
        self._topic = ""

    def send(self, producer: Any, letter: DeadLetter) -> None:
        topic, number = letter.partition
        self._topic = topic
        known = producer.partitions_for(topic)
        if number not in known:
            raise self.failure(f"it no longer has partition {number}")
        headers = [pair for pair in letter.headers if pair[0] != ORIGINAL]
        headers.append((ORIGINAL, str(letter.original).encode()))
        self._unanswered.append(producer.send(topic, letter.value, letter.key, headers, number))
        if len(self._unanswered) > _MAX_IN_FLIGHT:
            self.settle(_MAX_IN_FLIGHT // 2)

    def settle(self, remaining: int) -> None:
        """Wait for acknowledgements, oldest first, until that many are outstanding."""
        while len(self._unanswered) > remaining:
            self._unanswered[0].get(timeout=_ACK_TIMEOUT)
            self._unanswered.popleft()
            self.count += 1

    def failure(self, problem: str) -> PublishError:
        remedy = "these were written, and another replay writes them again"
        return PublishError(self._topic, self.count, problem, remedy)
