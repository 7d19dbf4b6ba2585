"""confluent-kafka (librdkafka), the faster client of a group member.

It only reads records. kafka-python makes all other requests, whichever client reads.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import groupby, repeat
from typing import Any, Final, Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from kafka import errors

from streameval.events.errors import ConfigError, StreamevalError
from streameval.events.records import Partition, RecordBatch
from streameval.events.secrets import Latest
from streameval.sources.kafka.client_settings import (
    CREDENTIALS,
    TABLE,
    librdkafka_name,
    librdkafka_settings,
    similar_names,
)
from streameval.sources.kafka.cluster import ANSWER_MS, Cluster, ClusterMonitor
from streameval.sources.kafka.diagnosis import permanent_error
from streameval.sources.kafka.member import AssignmentChange, GroupMember, Rebalance, skip_to

_CONNECTING_SECONDS: Final = 10.0

_CLIENT_LOG: Final = logging.getLogger("kafka")
"""Shared with the other client; silent unless a user sets a level."""

_LOG: Final = logging.getLogger("streameval.sources.kafka")

_MESSAGE: Final[Any] = Message
_END: Final = "_PARTITION_EOF"
_FATAL: Final = "_FATAL"
_MISSING: Final = ("_AUTO_OFFSET_RESET", "_LOG_TRUNCATION")
_QUIET: Final = frozenset(
    {
        *("_ALL_BROKERS_DOWN", "_TRANSPORT", "_RESOLVE", "_TIMED_OUT", "_AUTHENTICATION", "_SSL"),
        # The client rejoins by itself, and reports its partitions as lost.
        "_MAX_POLL_EXCEEDED",
        # Missing topics.
        *("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"),
    }
)
"""Errors that the monitor describes better, and that the client retries."""

_LOCAL: Final[Mapping[str, type[errors.KafkaError]]] = {
    "_AUTO_OFFSET_RESET": errors.OffsetOutOfRangeError,
    "_BAD_COMPRESSION": errors.UnsupportedCodecError,
    "_BAD_MSG": errors.CorruptRecordError,
    "_FENCED": errors.FencedInstanceIdError,
    "_LOG_TRUNCATION": errors.LogTruncationError,
}
"""Local errors of librdkafka -> the same errors of kafka-python, which the source handles."""

_FENCED: Final = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()
"""A fatal error has its cause only in its text."""

_LEFT: Final = (
    errors.IllegalGenerationError,
    errors.UnknownMemberIdError,
    # `poll` gets it too, and finds out whether another process uses our name.
    errors.FencedInstanceIdError,
)

_ATTEMPT_SECONDS: Final = 10.0
"""Seconds for which an error counts as current, unless records arrive."""


class ConfluentConsumer:
    """A `Consumer` of confluent-kafka.

    Callbacks run within `poll`. An assigned partition is not read before `start`, so that reading
    never resumes at the group's commit.

    `config`: the settings in kafka-python's names; credentials may come from files.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        config: Mapping[str, Any],
        topics: Sequence[str],
        member: GroupMember,
        monitor: ClusterMonitor,
    ) -> None:
        self._config = config
        self._topics = topics
        self._member = member
        self._monitor = monitor
        self._latest = Latest(config)
        self._credentials = self._current_credentials()
        self._most: int = config["max_poll_records"]
        self._generation = 0
        self._closed = False
        self._failure: errors.KafkaError | None = None
        self._fatal: errors.KafkaError | None = None
        self._last_error: tuple[float, errors.KafkaError] | None = None
        self._sent: Mapping[Partition, int] = {}
        self._answer: KafkaError | Literal["accepted"] | None = None
        self._settings = {**settings, "on_commit": self._on_commit, "logger": _CLIENT_LOG}
        self._client = self._subscribe()

    def poll(self, seconds: float, positions: Mapping[Partition, int]) -> list[RecordBatch]:
        """See `Consumer`."""
        # The next connection uses credentials whose files have changed.
        current = self._current_credentials()
        if current != self._credentials:
            self._credentials = current
            self._client.set_sasl_credentials(current["sasl.username"], current["sasl.password"])
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._fatal is not None:
            self._replace(self._fatal, positions)
        if not self._generation and not self._monitor.partitions:
            # The client does not join the group before a topic exists.
            self._enqueue("assigned", ())
        generation = self._generation
        # A request for many records would wait until all have come, or time is over.
        messages = self._consume(1, seconds)
        if messages and self._most > 1:
            messages += self._consume(self._most - 1, 0.0)
        if generation != self._generation:
            # After a rebalance everything is revoked or held; older messages must not be delivered.
            self._last_error = None
            failed = [message for message in messages if message.error() is not None]
            messages = [message for message in failed if message.error().name() == _FATAL]
        batches = self._batches(messages, positions)
        if not batches and self._last_error is not None:
            # The client reports an error once per attempt, and attempts take seconds.
            since, error = self._last_error
            if time.monotonic() - since < _ATTEMPT_SECONDS:
                raise error
            self._last_error = None
        return batches

    def hold(self, partitions: Sequence[Partition]) -> None:  # noqa: ARG002  always all of them
        """See `Consumer`."""
        self._client.assign([])

    def start(self, offsets: Mapping[Partition, int]) -> None:
        """See `Consumer`."""
        self._client.assign(_at(offsets))
        # A pause from before a rebalance is still in force.
        self.resume(offsets)

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """See `Consumer`."""
        for position in _at(offsets):
            try:
                self._client.seek(position)
            except KafkaException as error:
                raise _translate(error.args[0]) from error

    def pause(self, partitions: Collection[Partition]) -> None:
        """See `Consumer`."""
        self._client.pause([TopicPartition(*partition) for partition in partitions])

    def resume(self, partitions: Collection[Partition]) -> None:
        """See `Consumer`."""
        self._client.resume([TopicPartition(*partition) for partition in partitions])

    def release(self, partitions: Collection[Partition]) -> None:
        """Ignored: the client waits until its callback returns."""

    def commit(self, offsets: Mapping[Partition, int], *, wait: bool) -> bool:
        """See `Consumer`; the client itself waits, until its session ends at the latest."""
        if wait:
            if not self._monitor.answers:
                raise errors.KafkaConnectionError(str(self._monitor.problem).rstrip("."))
            refusal = _first_error(None, self._send(offsets, asynchronous=False))
            if refusal is not None:
                raise _commit_refusal(_translate(refusal))
            return True
        if self._sent and self._answer is None:
            return False
        answer, answered = self._answer, self._sent == offsets
        self._sent, self._answer = {}, None
        if answered and isinstance(answer, KafkaError):
            raise _commit_refusal(_translate(answer))
        if not answered:
            self._send(offsets, asynchronous=True)
            self._sent = dict(offsets)
        return answered

    def _send(
        self, offsets: Mapping[Partition, int], *, asynchronous: bool
    ) -> Sequence[TopicPartition]:
        try:
            if asynchronous:
                self._client.commit(offsets=_at(offsets), asynchronous=True)
                return ()
            return self._client.commit(offsets=_at(offsets), asynchronous=False) or ()
        except KafkaException as error:
            raise _commit_refusal(_translate(error.args[0])) from error

    def close(self) -> None:
        """See `Consumer`; a pending commit finishes first."""
        self._closed = True
        self._client.close()

    def _subscribe(self) -> Consumer:
        def assigned(client: Consumer, partitions: list[TopicPartition]) -> None:
            client.assign([])
            self._enqueue("assigned", _partitions(partitions))

        client = Consumer({**self._settings, **self._credentials})
        client.subscribe(
            list(self._topics),
            on_assign=assigned,
            on_revoke=partial(self._give_up, "revoked"),
            on_lost=partial(self._give_up, "lost"),
        )
        return client

    def _give_up(
        self, change: AssignmentChange, client: Consumer, partitions: Sequence[TopicPartition]
    ) -> None:
        self._enqueue(change, _partitions(partitions))
        # The client unassigns on return only if the callback has not assigned anything.
        client.unassign()

    def _replace(self, fatal: errors.KafkaError, lost: Collection[Partition]) -> None:
        """Replace a client after a fatal error, which makes it unusable.

        A static member can fence itself: it rejoined after a long absence, and then an old
        heartbeat arrived.

        Raises:
            FencedInstanceIdError: another process uses our member name.
            KafkaError: the cluster does not answer.
        """
        if isinstance(fatal, errors.FencedInstanceIdError) and self._name_is_taken():
            raise fatal
        _LOG.warning("the Kafka client failed (%s); joining the group again", fatal)
        # A client with a fatal error closes without reporting its partitions as lost.
        self._enqueue("lost", lost)
        self._client.close()
        self._fatal, self._sent, self._answer = None, {}, None
        self._client = self._subscribe()

    def _name_is_taken(self) -> bool:
        member_id = self._client.memberid()
        if not member_id:
            # The client was about to join, and the broker's answer was lost.
            return False
        config = {**self._config, "request_timeout_ms": ANSWER_MS}
        with closing(Cluster(config)) as cluster:
            holder = cluster.member_id(self._config["group_id"], self._config["group_instance_id"])
        return holder not in ("", member_id)

    def _consume(self, most: int, seconds: float) -> list[Any]:
        try:
            return self._client.consume(most, seconds)
        except KafkaException as error:
            # Records consumed before must be delivered first.
            self._failure = _translate(error.args[0])
            return []

    def _batches(
        self, messages: Sequence[Any], positions: Mapping[Partition, int]
    ) -> list[RecordBatch]:
        ends: dict[tuple[str, int], int] = {}
        if any(map(_MESSAGE.error, messages)):
            messages = self._records(messages, ends)
        runs = _by_partition(messages, self._topics)
        batches = []
        for partition, position in positions.items():
            run, end = runs.get(partition), ends.get(partition, 0)
            if run is not None:
                batches.append(_batch_of(partition, run, end))
            elif end > position:
                batches.append(skip_to(partition, end))
        return batches

    def _records(
        self, messages: Sequence[Any], ends: MutableMapping[tuple[str, int], int]
    ) -> list[Any]:
        """The messages with a record; errors and ends of partitions are recorded."""
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.name() == _END:
                ends[message.topic(), message.partition()] = message.offset()
            elif not self._may_pass(message, error):
                # Records behind an unreadable one must not be delivered.
                break
        return records

    def _may_pass(self, message: Any, error: KafkaError) -> bool:
        """Hold an error until earlier records are delivered; returns True to read on."""
        if error.name() in _QUIET:
            return True
        if error.name() == _FATAL:
            self._fatal = _translate(error)
            return False
        failure = _translate(error)
        if error.name() in _MISSING:
            failure = type(failure)(
                {Partition(message.topic(), message.partition()): message.offset()}
            )
        if permanent_error(failure) is None:
            self._last_error = (time.monotonic(), failure)
            return True
        self._failure = failure
        return False

    def _enqueue(self, what: AssignmentChange, partitions: Collection[Partition]) -> None:
        if self._closed:
            return
        self._generation += 1
        self._member.enqueue(Rebalance(what, tuple(sorted(partitions))))
        if what != "assigned":
            # The repeated callback raises the owner's error again, outside the client.
            with suppress(StreamevalError):
                self._member.dispatch()

    def _on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        if {Partition(log.topic, log.partition): log.offset for log in partitions} == self._sent:
            self._answer = _first_error(error, partitions) or "accepted"

    def _current_credentials(self) -> dict[str, str]:
        names = filter(self._latest.__contains__, CREDENTIALS)
        return {librdkafka_name(name): str(self._latest[name]) for name in names}


def _at(offsets: Mapping[Partition, int]) -> list[TopicPartition]:
    return [TopicPartition(*partition, offset) for partition, offset in offsets.items()]


def _partitions(partitions: Sequence[TopicPartition]) -> list[Partition]:
    return [Partition(log.topic, log.partition) for log in partitions]


def _by_partition(
    messages: Sequence[Any], topics: Sequence[str]
) -> dict[tuple[str, int], list[Any]]:
    """Messages by topic and partition, in order; partitions come in long runs.

    `topics`: those that are read.
    """
    by_partition: dict[tuple[str, int], list[Any]] = {}
    start = 0
    names = repeat(topics[0]) if len(topics) == 1 else map(_MESSAGE.topic, messages)
    for partition, run in groupby(zip(names, map(_MESSAGE.partition, messages), strict=False)):
        stop = start + len([*run])
        by_partition.setdefault(partition, []).extend(messages[start:stop])
        start = stop
    return by_partition


class _Timestamps(Sequence[int]):
    """The append time of each message, milliseconds since the epoch; few are ever read."""

    def __init__(self, messages: Sequence[Any]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return _Timestamps(self._messages[row])
        return self._messages[row].timestamp()[1]


def _batch_of(partition: Partition, run: Sequence[Any], end: int) -> RecordBatch:
    """A batch of consecutive messages, at least one; headers are read on demand."""
    first, last = run[0].offset(), run[-1].offset()
    # Ascending offsets without a gap need not be read one by one.
    offsets = [*range(first, last + 1)] if last - first < len(run) else [*map(_MESSAGE.offset, run)]
    return RecordBatch(
        partition=partition,
        values=[*map(_MESSAGE.value, run)],
        offsets=offsets,
        next_offset=max(last + 1, end),
        timestamps=_Timestamps(run),
        keys=[*map(_MESSAGE.key, run)],
        headers=lambda index: run[index].headers() or [],
    )


def _translate(error: KafkaError) -> errors.KafkaError:
    """The corresponding error of kafka-python."""
    kind = _LOCAL.get(error.name())
    if error.name() == _FATAL and _FENCED in error.str():
        kind = errors.FencedInstanceIdError
    if kind is None:
        kind = errors.for_code(error.code()) if error.code() > 0 else errors.KafkaError
    return kind(error.str())


def _first_error(error: KafkaError | None, answers: Sequence[TopicPartition]) -> KafkaError | None:
    """The error of a commit, or of the first partition that has one."""
    return error or next((answer.error for answer in answers if answer.error is not None), None)


def _commit_refusal(error: errors.KafkaError) -> errors.KafkaError:
    """The error of kafka-python for a commit of a member that has left the group."""
    return errors.CommitFailedError(str(error)) if isinstance(error, _LEFT) else error


def librdkafka_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a group member for librdkafka, which has checked them.

    Raises:
        ConfigError: librdkafka refuses a setting.
    """
    settings = librdkafka_settings(config)
    # Without an address, it does not connect.
    offline = {name: value for name, value in settings.items() if name != "bootstrap.servers"}
    try:
        Consumer(offline).close()
    except (KafkaException, TypeError, ValueError) as error:
        text = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        by_length = sorted(config, key=len, reverse=True)
        key = next((key for key in by_length if librdkafka_name(key) in text), None)
        similar = similar_names(key) if key else ""
        text = f"librdkafka: {' '.join(text.split()).rstrip('.')}{similar or '.'}"
        raise ConfigError(TABLE, key or "client", text) from error
    return settings


def connect_once(settings: Mapping[str, Any]) -> None:
    """Connect once."""
    heard: list[KafkaError] = []
    with closing(Consumer({**settings, "error_cb": heard.append})) as client:
        try:
            client.list_topics(timeout=_CONNECTING_SECONDS)
        except KafkaException as error:
            client.poll(0.0)
            messages = "; ".join(dict.fromkeys(heard_error.str() for heard_error in heard))
            raise errors.KafkaError(messages or error.args[0].str()) from error
