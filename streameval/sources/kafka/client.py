"""Creates Kafka clients, and translates their errors."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from kafka.errors import (
    CorruptRecordError,
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    KafkaConfigurationError,
    KafkaError,
    LogTruncationError,
    OffsetOutOfRangeError,
    UnsupportedCodecError,
)
from kafka.net.selector import NetworkSelector

from streameval.errors import RefusedMemberError, SourceError
from streameval.events.records import Partition
from streameval.sources.kafka.connections import (
    NO_ANSWER,
    ConnectionEndedError,
    Connections,
    addresses,
    failure_of,
)
from streameval.sources.kafka.settings import known_settings

SETTINGS_ERRORS: Final = (KafkaConfigurationError, TypeError, ValueError, AssertionError)
"""Errors that a client raises for inconsistent settings."""

_SILENT: Final = logging.CRITICAL + 1


def connect(kind: Any, config: Mapping[str, Any]) -> Any:
    """A connected client of `kind` (KafkaConsumer, KafkaAdminClient, KafkaProducer).

    `config`: its settings; settings of other kinds of clients are ignored.

    Raises:
        KafkaError: no broker answered; all threads and sockets of the attempt are closed. It is a
            ConnectionEndedError if a connection was tried: `failure_of` explains it.
    """
    return connect_watched(kind, config)[0]


def connect_watched(kind: Any, config: Mapping[str, Any]) -> tuple[Any, Connections]:
    """As `connect`; also returns the client's connections, which have the cluster's metadata."""
    made: list[tuple[Any, Connections]] = []

    def network(**settings: Any) -> Any:
        selector = NetworkSelector(**settings)
        connections = Connections(selector, **settings)
        client = kind.DEFAULT_CONFIG["kafka_client"]
        made.append((client(net=selector, manager=connections, **settings), connections))
        return made[-1][0]

    try:
        return kind(**known_settings(config, kind), kafka_client=network), made[0][1]
    except BaseException as error:
        ends = [connections.end for _, connections in made if connections.end is not None]
        for client, _ in made:
            client.close()
        if ends and isinstance(error, NO_ANSWER):
            raise ConnectionEndedError(ends[0]) from error
        raise


def silence_client_log() -> None:
    """Silence the client's own log, which has ten lines a second while a broker is unreachable.

    `Source.trouble` has what users need. A level set for the logger "kafka" is kept.
    """
    log = logging.getLogger("kafka")
    if log.level == logging.NOTSET:
        log.setLevel(_SILENT)


def settings_error(error: Exception, config: Mapping[str, Any]) -> SourceError:
    """The SourceError for settings that the client rejects (one of SETTINGS_ERRORS)."""
    where = f"Kafka at {', '.join(addresses(config))}"
    return SourceError(where, f"{type(error).__name__}: {error}", "correct [source.kafka]")


@contextmanager
def as_source_errors(config: Mapping[str, Any], where: str = "kafka") -> Iterator[None]:
    """Turn errors of a client (no answer, a rejected request) into SourceErrors."""
    try:
        yield
    except SETTINGS_ERRORS as error:
        raise settings_error(error, config) from error
    except (KafkaError, OSError) as error:
        _, problem, remedy = failure_of(error, config)
        raise SourceError(where, problem, remedy) from error


_GONE = (
    "retention deleted records before they were read, or the topic was recreated; "
    "restart from `start`, and give the topic a longer retention"
)

_MEMBERSHIP: Final = {
    FencedInstanceIdError: (
        "another process has joined as the same `member` and fenced this one (its instance id)",
        "give each process a unique `member` in [source]",
    ),
    InconsistentGroupProtocolError: (
        "the group has members with another assignment strategy",
        "choose another `group` in [source]",
    ),
    InvalidSessionTimeoutError: (
        "the broker does not allow this session_timeout_ms",
        "choose one within its group.min.session.timeout.ms and group.max.session.timeout.ms",
    ),
}


def permanent_error(error: Exception) -> SourceError | None:
    """The SourceError for an error that waiting will not fix, else None."""
    if isinstance(error, OffsetOutOfRangeError | LogTruncationError):
        return _outside(error)
    if isinstance(error, CorruptRecordError):
        remedy = (
            "restart; if the same record fails again, restore the partition, or delete its records "
            'up to that one (kafka-delete-records.sh) and set [state] on_retention = "skip"'
        )
        return SourceError("kafka", f"a record fails its checksum ({error})", remedy)
    if isinstance(error, UnsupportedCodecError):
        return SourceError("kafka", f"unsupported compression ({error})", "install its codec")
    for kind, (problem, remedy) in _MEMBERSHIP.items():
        if isinstance(error, kind):
            return RefusedMemberError("kafka", problem, remedy)
    return None


def _outside(error: Exception) -> SourceError:
    # Both errors have a mapping of partition to offset as their argument.
    found = error.args[0] if error.args and isinstance(error.args[0], Mapping) else {}
    where = ", ".join(str(Partition(*partition)) for partition in found) or "kafka"
    offsets = ", ".join(str(offset) for offset in found.values()) or "that is read"
    return SourceError(where, f"offset {offsets} is no longer in the log", _GONE)
