"""Reads dead letters from their topics and republishes their records.

Functions raise SourceError if a topic cannot be read or the client rejects its settings, and
PublishError if the broker does not answer or rejects a record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any, Final

from streameval.dead_letters.topic import MAX_RECORD, letter_of
from streameval.engine.dead_letters import ORIGINAL, DeadLetter, Identity
from streameval.events.records import Partition
from streameval.sources.kafka.client import as_source_errors, silence_client_log
from streameval.sources.kafka.cluster import Cluster
from streameval.sources.kafka.probe import records_between
from streameval.sources.kafka.publishing import Message, send
from streameval.sources.options import EARLIEST, LATEST

_READ_TIMEOUT: Final = 30.0
"""Seconds without a record before the end offset after which reading fails."""


class DeadLetterReader:
    """Reads dead letter topics from the beginning to their current end, without a consumer group.

    `inputs`: the topics of the original records; all of them must exist.

    Attributes:
        foreign: records read so far that are not dead letters.
    """

    def __init__(
        self, config: Mapping[str, Any], topics: Sequence[str], inputs: Sequence[str]
    ) -> None:
        self._config = config
        self._topics = topics
        self.foreign = 0
        silence_client_log()
        with self._errors_explained():
            self._begins, self._ends = self._bounds(inputs)

    @property
    def present(self) -> bool:
        """Whether at least one of the topics exists."""
        return bool(self._ends)

    def __iter__(self) -> Iterator[DeadLetter]:
        """The letters, in order within each partition."""
        self.foreign = 0
        with self._errors_explained():
            ranges = self._begins, self._ends
            for _, records in records_between(self._config, *ranges, _READ_TIMEOUT):
                for record in records:
                    letter = letter_of(record.key, record.value, record.headers)
                    if letter is None:
                        self.foreign += 1
                    else:
                        yield letter

    def _bounds(self, inputs: Sequence[str]) -> tuple[dict[Partition, int], dict[Partition, int]]:
        with closing(Cluster(self._config)) as cluster:
            found = cluster.topics([*self._topics, *inputs])
            found.require(inputs)
            wanted = [each for each in found.partitions if each.topic in self._topics]
            return cluster.offsets(wanted, EARLIEST), cluster.offsets(wanted, LATEST)

    def _errors_explained(self) -> AbstractContextManager[None]:
        return as_source_errors(self._config, f"topic {', '.join(self._topics)}")


def selected(
    letters: Iterable[DeadLetter], topics: Collection[str], reasons: Collection[str] = ()
) -> Iterator[DeadLetter]:
    """One letter per record of these topics; `reasons`: only of these, empty for all.

    A record that was replayed and rejected again has two letters with the same original.
    """
    seen: set[Identity] = set()
    for letter in letters:
        wanted = letter.partition.topic in topics and (not reasons or letter.reason in reasons)
        if wanted and letter.original not in seen:
            seen.add(letter.original)
            yield letter


def republish(letters: Iterable[DeadLetter], config: Mapping[str, Any]) -> int:
    """Republish the record of each letter to its topic and partition.

    Key, value and headers are unchanged; an added header names the original record. Records
    written before an error stay. Returns the number of records written.
    """
    remedy = "these were written; another replay writes them again"
    return send(map(_message, letters), {**config, **_PRODUCER}, "", remedy)


def _message(letter: DeadLetter) -> Message:
    headers = [pair for pair in letter.headers if pair[0] != ORIGINAL]
    headers.append((ORIGINAL, str(letter.original).encode()))
    topic, number = letter.partition
    return Message(topic, letter.value, letter.key, headers, number)


_PRODUCER: Final[Mapping[str, Any]] = {
    "acks": "all",
    "enable_idempotence": False,
    "max_request_size": MAX_RECORD,
}
