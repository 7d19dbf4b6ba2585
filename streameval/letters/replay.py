"""Sending records of dead letters again, to where they were, after what refused them is mended."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, Final

import msgspec
from kafka import KafkaProducer
from kafka.errors import KafkaError

from streameval.errors import PublishError
from streameval.letters.census import Seen
from streameval.pipeline.letters import ORIGINAL, DeadLetter, Identity
from streameval.sources.kafka.client import (
    UNUSABLE,
    connect,
    explanation,
    silence_client_log,
    unusable,
)

_ANSWER_SECONDS: Final = 30.0
_IN_FLIGHT: Final = 1_000
_LARGEST: Final = 64 * 1024 * 1024


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which letters are meant.

    Attributes:
        topics: only records of these can be sent again.
        reasons: of these only; none means of all.
        identities: these records only; none means all.
    """

    topics: Collection[str]
    reasons: Collection[str] = ()
    identities: Collection[Identity] = ()

    def __contains__(self, letter: object) -> bool:
        if not isinstance(letter, DeadLetter):
            return False
        by_reason = not self.reasons or letter.reason in self.reasons
        by_name = not self.identities or letter.identity in self.identities
        return by_reason and by_name and letter.partition.topic in self.topics


def chosen(letters: Iterable[DeadLetter], choice: Choice) -> Iterator[DeadLetter]:
    """The letters that are meant, one for each record.

    A record that was replayed and rejected again has two letters, which name the same original.
    """
    seen = Seen()
    return (letter for letter in letters if letter in choice and seen.novel(letter.original))


def replay(letters: Iterable[DeadLetter], config: Mapping[str, Any]) -> int:
    """Write the record of each letter to its topic and partition, and wait until all are there.

    Key, value and headers are those of the record; a header is added that names it. What was
    written before an error stays.

    Args:
        letters: each of another record, as `chosen` gives them.
        config: settings of the client.

    Returns:
        How many were written.

    Raises:
        SourceError: the client refuses its settings.
        PublishError: the broker does not answer, or refuses a record.
    """
    silence_client_log()
    sending = _Sending()
    try:
        with closing(connect(KafkaProducer, {**config, **_OURS})) as producer:
            for letter in letters:
                sending.send(producer, letter)
            sending.settle(0)
    except (KafkaError, OSError) as error:
        raise sending.failure(explanation(error, config)) from error
    except UNUSABLE as error:
        raise unusable(error, config) from error
    return sending.count


_OURS: Final[Mapping[str, Any]] = {
    "acks": "all",
    "enable_idempotence": False,
    "max_request_size": _LARGEST,
}


class _Sending:
    """One run, and how far it is."""

    def __init__(self) -> None:
        self.count = 0
        self._unanswered: deque[Any] = deque()
        self._topic = ""

    def send(self, producer: Any, letter: DeadLetter) -> None:
        topic, number = letter.partition
        self._topic = topic
        known = producer.partitions_for(topic)
        if number not in known:
            raise self.failure(f"it has no partition {number} (any more)")
        headers = [pair for pair in letter.headers if pair[0] != ORIGINAL]
        headers.append((ORIGINAL, str(letter.original).encode()))
        self._unanswered.append(producer.send(topic, letter.value, letter.key, headers, number))
        if len(self._unanswered) > _IN_FLIGHT:
            self.settle(_IN_FLIGHT // 2)

    def settle(self, remaining: int) -> None:
        """Wait for answers, oldest first, until that many are outstanding."""
        while len(self._unanswered) > remaining:
            self._unanswered[0].get(timeout=_ANSWER_SECONDS)
            self._unanswered.popleft()
            self.count += 1

    def failure(self, problem: str) -> PublishError:
        remedy = "these were written; correct that, and replay the others with --offset"
        return PublishError(self._topic, self.count, problem, remedy)
