"""confluent-kafka (librdkafka) as the client of a member: the one that costs least.

It only reads. Questions to the cluster are asked by kafka-python, whichever client reads.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, Final, Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from kafka import errors

from streameval.errors import ConfigError, StreamevalError
from streameval.events.records import Origin, Partition, RecordBatch
from streameval.sources.kafka.client import permanent
from streameval.sources.kafka.connections import addresses
from streameval.sources.kafka.consumer import Rebalance, Rebalances, skip_to
from streameval.sources.kafka.settings import (
    POSITIONS,
    RANGE,
    TABLE,
    given_config,
    librdkafka_only,
    unknown,
)
from streameval.sources.kafka.watchdog import ClusterMonitor
from streameval.sources.options import KafkaOptions
from streameval.sources.secrets import Latest

_OURS: Final[Mapping[str, Any]] = {
    "allow.auto.create.topics": False,
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # The position at the end of a partition passes markers of transactions, which hold no record.
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "partition.assignment.strategy": "range",
}
_OFFERED: Final[Mapping[str, Any]] = {
    "check.crcs": True,
    "log_level": 0,
    "topic.metadata.refresh.interval.ms": 2_000,
}
"""Ours unless the user says otherwise."""

_NAMES: Final[Mapping[str, str]] = {
    "fetch_max_wait_ms": "fetch.wait.max.ms",
    "metadata_max_age_ms": "topic.metadata.refresh.interval.ms",
    "receive_buffer_bytes": "socket.receive.buffer.bytes",
    "request_timeout_ms": "socket.timeout.ms",
    "sasl_plain_password": "sasl.password",
    "sasl_plain_username": "sasl.username",
    "send_buffer_bytes": "socket.send.buffer.bytes",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_ciphers": "ssl.cipher.suites",
    "ssl_crlfile": "ssl.crl.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
}
"""Name in kafka-python -> name in librdkafka; the rest differ by their dots only."""

_PASSED: Final = frozenset(
    {
        *("client_id", "client_rack", "client_dns_lookup", "connections_max_idle_ms"),
        *("check_crcs", "fetch_max_bytes", "fetch_min_bytes", "max_partition_fetch_bytes"),
        *("group_id", "group_instance_id", "heartbeat_interval_ms", "session_timeout_ms"),
        *("max_in_flight_requests_per_connection", "max_poll_interval_ms"),
        *("receive_message_max_bytes", "reconnect_backoff_ms", "reconnect_backoff_max_ms"),
        *("retry_backoff_ms", "sasl_mechanism", "security_protocol"),
        *_NAMES,
    }
)
_OF_THE_SOURCE: Final = frozenset(
    {"bootstrap_servers", "bootstrap_timeout_ms", "max_poll_records", "ssl_check_hostname"}
)
"""Understood, but not handed on as they are."""

_CREDENTIALS: Final = ("sasl_plain_username", "sasl_plain_password")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_LEAVE_OUT: Final = 'leave it out, or set client = "kafka-python"'
_SECURITY: Final = re.compile(r"(enable_)?(ssl|sasl|https|security)_")
_NOT_THE_USERS: Final[Mapping[str, str]] = {
    "enable_auto_offset_store": POSITIONS,
    "enable_partition_eof": POSITIONS,
    "group_remote_assignor": RANGE,
    "logger": "it takes a Python object, which a configuration file cannot hold",
    "on_commit": POSITIONS,
}
_NAMED: Final = re.compile(r'property:? "([^"]+)"|`([a-z._]+)`|^([a-z._]+) failed')

_LOG: Final = logging.getLogger("kafka")
"""The log of the other client too, which says nothing unless a user wants it."""

_END: Final = "_PARTITION_EOF"
_MISSING: Final = ("_AUTO_OFFSET_RESET", "_LOG_TRUNCATION")
_QUIET: Final = frozenset(
    {
        *("_ALL_BROKERS_DOWN", "_TRANSPORT", "_RESOLVE", "_TIMED_OUT", "_AUTHENTICATION", "_SSL"),
        # It joins again by itself; its partitions are told to be lost.
        "_MAX_POLL_EXCEEDED",
        # Topics that are not there.
        *("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"),
    }
)
"""Trouble that the cluster's monitor tells better; the client goes on trying."""

_LOCAL: Final[Mapping[str, type[errors.KafkaError]]] = {
    "_AUTO_OFFSET_RESET": errors.OffsetOutOfRangeError,
    "_BAD_COMPRESSION": errors.UnsupportedCodecError,
    "_BAD_MSG": errors.CorruptRecordError,
    "_FENCED": errors.FencedInstanceIdError,
    "_LOG_TRUNCATION": errors.LogTruncationError,
}
"""What the client says without the broker -> the same of kafka-python, which the source knows."""

_FENCED: Final = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()
"""A fatal error names its cause in its text only."""

_LEFT: Final = (errors.IllegalGenerationError, errors.UnknownMemberIdError)

_CONNECTING_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 1.0
"""How often the files of credentials are read."""

_ATTEMPT_SECONDS: Final = 10.0
"""So long after the client told of it, trouble is taken to last, unless something comes."""

_MOST_COMMITS: Final = 8
"""That may be unanswered."""


def librdkafka_config(
    options: KafkaOptions, environment: Mapping[str, str], config: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings of a reader, in librdkafka's names, found to be accepted.

    Args:
        options: say what the user wants.
        environment: what ${NAME} in the settings refers to.
        config: all settings, in kafka-python's names.

    Raises:
        ConfigError: librdkafka has no such setting, or does not take its value.
    """
    given = given_config(options, environment)
    _refuse_others(given)
    further = librdkafka_only(options, environment)
    written = {_NAMES.get(key, _dotted(key)): key for key in given}
    written |= {_dotted(key): key for key in further}
    for key in further:
        _refuse_ours(key)
    found = {
        **_OFFERED,
        **_renamed(config),
        **{_dotted(key): value for key, value in further.items()},
        **_OURS,
    }
    _try(found, written)
    return found


def try_connection(settings: Mapping[str, Any]) -> None:
    """Connect once.

    Raises:
        KafkaError: no broker answers.
    """
    heard: list[KafkaError] = []
    with closing(Consumer({**settings, "error_cb": heard.append})) as client:
        try:
            client.list_topics(timeout=_CONNECTING_SECONDS)
        except KafkaException as error:
            client.poll(0.0)
            said = "; ".join(dict.fromkeys(each.str() for each in heard))
            raise errors.KafkaError(said or error.args[0].str()) from error


def _dotted(written: str) -> str:
    return written if written == "log_level" else written.replace("_", ".")


def _refuse_others(given: Mapping[str, Any]) -> None:
    for key in given:
        if key not in _PASSED | _OF_THE_SOURCE:
            raise ConfigError(TABLE, key, f"librdkafka has no such setting; {_LEAVE_OUT}.")
    mechanism = given.get("sasl_mechanism", _MECHANISMS[0])
    if mechanism not in _MECHANISMS:
        problem = f"found {mechanism!r}; with this client, write one of {', '.join(_MECHANISMS)}."
        raise ConfigError(TABLE, "sasl_mechanism", problem)


def _refuse_ours(written: str) -> None:
    name = written.replace(".", "_")
    if name in _NOT_THE_USERS or name.endswith("_cb"):
        reason = _NOT_THE_USERS.get(name, _NOT_THE_USERS["logger"])
        raise ConfigError(TABLE, written, f"cannot be set: {reason}.")
    if _SECURITY.match(name):
        problem = "is librdkafka's alone, and other connections to Kafka are made by kafka-python;"
        raise ConfigError(TABLE, written, f"{problem} use kafka-python's security settings.")


def _renamed(config: Mapping[str, Any]) -> dict[str, Any]:
    found = {
        _NAMES.get(key, key.replace("_", ".")): value
        for key, value in config.items()
        if key in _PASSED and value is not None
    }
    found["bootstrap.servers"] = ",".join(addresses(config))
    if "SSL" in str(config.get("security_protocol", "")):
        checked = config.get("ssl_check_hostname", True)
        found["ssl.endpoint.identification.algorithm"] = "https" if checked else "none"
        if "ssl_certfile" in config:
            # Python takes the key from the file of the certificate, where no other is named.
            found.setdefault("ssl.key.location", config["ssl_certfile"])
    return found


def _try(settings: Mapping[str, Any], written: Mapping[str, str]) -> None:
    """Have librdkafka look at the settings; without an address, it connects to nothing."""
    offline = {key: value for key, value in settings.items() if key != "bootstrap.servers"}
    try:
        Consumer(offline).close()
    except (KafkaException, TypeError, ValueError) as error:
        said = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        said = said.removeprefix("Failed to create consumer: ").rstrip(".")
        match = _NAMED.search(said)
        name = next(filter(None, match.groups()), "client") if match else "client"
        key = written.get(name, name)
        if said.startswith("No such configuration property"):
            said = unknown(name.replace(".", "_"))
        raise ConfigError(TABLE, key, f"{said}." if not said.endswith("?") else said) from error


class ConfluentConsumer:
    """A `Consumer` of confluent-kafka.

    Its callbacks run within `poll`. Nothing is read of what the group assigns until `start` says
    from where, so that the group's commit is never gone on at.

    Args:
        settings: made by `librdkafka_config`.
        config: the same in kafka-python's names; its credentials may come from files.
        topics: to subscribe to.
        rebalances: takes note of them.
        monitor: knows which partitions there are.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        config: Mapping[str, Any],
        topics: Sequence[str],
        rebalances: Rebalances,
        monitor: ClusterMonitor,
    ) -> None:
        self._rebalances = rebalances
        self._monitor = monitor
        self._latest = Latest(config)
        self._credentials = self._sasl()
        self._looked_at = time.monotonic()
        self._most: int = config["max_poll_records"]
        self._generation = 0
        self._closed = False
        self._failure: errors.KafkaError | None = None
        self._trouble: tuple[float, errors.KafkaError] | None = None
        self._unanswered = 0
        self._refusal: errors.KafkaError | None = None
        ours = {"on_commit": self._committed, "logger": _LOG}
        self._client = Consumer({**settings, **self._credentials, **ours})
        self._client.subscribe(
            list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def poll(self, seconds: float, positions: Mapping[Partition, int]) -> list[RecordBatch]:
        """See `Consumer`."""
        self._renew_credentials()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if not self._generation and not self._monitor.partitions:
            # The client joins no group before there is a topic.
            self._noted("assigned", ())
        generation = self._generation
        # Asked for many at once, it would wait for all of them, or for the whole time.
        messages = self._consumed(1, seconds)
        if messages and self._most > 1:
            messages += self._consumed(self._most - 1, 0.0)
        if generation != self._generation:
            # All that was ours is revoked or held, and messages of before may be among them.
            self._trouble = None
            return []
        batches = self._batches(messages, positions)
        if not batches:
            self._raise_trouble()
        return batches

    def hold(self, partitions: Sequence[Partition]) -> None:  # noqa: ARG002  it is all
        """See `Consumer`."""
        self._client.assign([])

    def start(self, offsets: Mapping[Partition, int]) -> None:
        """See `Consumer`."""
        self._client.assign(_at(offsets))

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """See `Consumer`; one that cannot be sought is left as it is."""
        for each in _at(offsets):
            with suppress(KafkaException):
                self._client.seek(each)

    def pause(self, partitions: Collection[Partition]) -> None:
        """See `Consumer`."""
        self._client.pause([TopicPartition(*each) for each in partitions])

    def resume(self, partitions: Collection[Partition]) -> None:
        """See `Consumer`."""
        self._client.resume([TopicPartition(*each) for each in partitions])

    def release(self, partitions: Collection[Partition]) -> None:
        """Nothing: the client waits until its callback returns."""

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """See `Consumer`; in the background: `poll` hears the answer, and the next commit tells."""
        if self._unanswered >= _MOST_COMMITS:
            raise errors.KafkaTimeoutError(f"the last {_MOST_COMMITS} have no answer yet")
        try:
            self._client.commit(offsets=_at(offsets), asynchronous=True)
        except KafkaException as error:
            raise _refused(_translated(error.args[0])) from error
        self._unanswered += 1
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal

    def close(self) -> None:
        """See `Consumer`; a commit that is under way is finished before."""
        self._closed = True
        self._client.close()

    def _consumed(self, most: int, seconds: float) -> list[Any]:
        try:
            return self._client.consume(most, seconds)
        except KafkaException as error:
            # What was consumed before must be delivered first.
            self._failure = _translated(error.args[0])
            return []

    def _batches(
        self, messages: Sequence[Any], positions: Mapping[Partition, int]
    ) -> list[RecordBatch]:
        runs: dict[tuple[str, int], list[Any]] = {}
        ends: dict[tuple[str, int], int] = {}
        for message in messages:
            error = message.error()
            place = message.topic(), message.partition()
            if error is None:
                runs.setdefault(place, []).append(message)
            elif error.name() == _END:
                ends[place] = message.offset()
            elif not self._may_pass(message, error):
                # Nothing is delivered from behind a record that cannot be read.
                break
        found = []
        for partition, position in positions.items():
            run, end = runs.get(partition), ends.get(partition, 0)
            if run is not None:
                found.append(_batch_of(partition, run, end))
            elif end > position:
                found.append(skip_to(partition, end))
        return found

    def _may_pass(self, message: Any, error: KafkaError) -> bool:
        """Keep an error until what came before it was delivered; whether reading may go on."""
        if error.name() in _QUIET:
            return True
        found = _translated(error)
        if error.name() in _MISSING:
            found = type(found)({Partition(message.topic(), message.partition()): message.offset()})
        if permanent(found) is None:
            self._trouble = (time.monotonic(), found)
            return True
        self._failure = found
        return False

    def _raise_trouble(self) -> None:
        """The client tells of an error once for each of its attempts, which take seconds."""
        if self._trouble is not None:
            since, error = self._trouble
            if time.monotonic() - since < _ATTEMPT_SECONDS:
                raise error
            self._trouble = None

    def _assigned(self, client: Consumer, given: list[TopicPartition]) -> None:
        client.assign([])
        self._noted("assigned", given)

    def _revoked(self, _: Consumer, given: list[TopicPartition]) -> None:
        self._noted("revoked", given)

    def _lost(self, _: Consumer, given: list[TopicPartition]) -> None:
        self._noted("lost", given)

    def _noted(
        self, what: Literal["assigned", "revoked", "lost"], given: Sequence[TopicPartition]
    ) -> None:
        if self._closed:
            return
        self._generation += 1
        partitions = sorted(Partition(each.topic, each.partition) for each in given)
        self._rebalances.note(Rebalance(what, tuple(partitions)))
        if what != "assigned":
            # The client gives them up on return. What the owner raises comes when it is told again.
            with suppress(StreamevalError):
                self._rebalances.tell()

    def _committed(self, error: KafkaError | None, given: Sequence[TopicPartition]) -> None:
        self._unanswered -= 1
        found = error or next((each.error for each in given if each.error is not None), None)
        if found is not None:
            self._refusal = _refused(_translated(found))

    def _renew_credentials(self) -> None:
        """Those from files are looked at now and then; the next connection uses them."""
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        wanted = self._sasl()
        if wanted != self._credentials:
            self._credentials = wanted
            self._client.set_sasl_credentials(wanted["sasl.username"], wanted["sasl.password"])

    def _sasl(self) -> dict[str, str]:
        """User and password as their files say by now."""
        given = [name for name in _CREDENTIALS if name in self._latest]
        return {_NAMES[name]: str(self._latest[name]) for name in given}


def _at(offsets: Mapping[Partition, int]) -> list[TopicPartition]:
    return [TopicPartition(*partition, offset) for partition, offset in offsets.items()]


def _batch_of(partition: Partition, run: Sequence[Any], end: int) -> RecordBatch:
    """Consecutive messages, at least one; keys and headers are read when asked for."""
    return RecordBatch(
        partition=partition,
        values=[message.value() for message in run],
        offsets=[message.offset() for message in run],
        next_offset=max(run[-1].offset() + 1, end),
        timestamps=[message.timestamp()[1] for message in run],
        origin=lambda place: _origin(run[place]),
    )


def _origin(message: Any) -> Origin:
    # A header may be null in Kafka, but what writes dead letters cannot write such a one again.
    headers = message.headers() or ()
    return Origin(message.key(), [(name, value or b"") for name, value in headers])


def _translated(error: KafkaError) -> errors.KafkaError:
    """The same error as kafka-python has it."""
    kind = _LOCAL.get(error.name())
    if error.name() == "_FATAL" and _FENCED in error.str():
        kind = errors.FencedInstanceIdError
    if kind is None:
        kind = errors.for_code(error.code()) if error.code() > 0 else errors.KafkaError
    return kind(error.str())


def _refused(error: errors.KafkaError) -> errors.KafkaError:
    """As kafka-python says it where a commit comes from a member that is none any more."""
    return errors.CommitFailedError(str(error)) if isinstance(error, _LEFT) else error
