"""Makes and closes Kafka clients, and turns their errors into messages."""

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
    UNHEARD,
    ConnectionEndedError,
    Connections,
    addresses,
    failure_of,
)
from streameval.sources.kafka.settings import accepted

UNUSABLE: Final = (KafkaConfigurationError, TypeError, ValueError, AssertionError)
"""What a client raises for settings that do not fit together."""

_SILENT: Final = logging.CRITICAL + 1


def connect(kind: Any, config: Mapping[str, Any]) -> Any:
    """A connected client of `kind` (KafkaConsumer, KafkaAdminClient, KafkaProducer).

    `config`: its settings; those of other kinds of clients are left out.

    Raises:
        KafkaError: no broker answered; then no thread and no socket of the attempt stays.
            A ConnectionEndedError where a connection was tried: `failure_of` says what it means.
    """
    return connected(kind, config)[0]


def connected(kind: Any, config: Mapping[str, Any]) -> tuple[Any, Connections]:
    """As `connect`; also the connections of the client, which know the cluster's metadata."""
    made: list[tuple[Any, Connections]] = []

    def network(**settings: Any) -> Any:
        selector = NetworkSelector(**settings)
        connections = Connections(selector, **settings)
        client = kind.DEFAULT_CONFIG["kafka_client"]
        made.append((client(net=selector, manager=connections, **settings), connections))
        return made[-1][0]

    try:
        return kind(**accepted(config, kind), kafka_client=network), made[0][1]
    except BaseException as error:
        ends = [connections.end for _, connections in made if connections.end is not None]
        for client, _ in made:
            client.close()
        if ends and isinstance(error, UNHEARD):
            raise ConnectionEndedError(ends[0]) from error
        raise


def silence_client_log() -> None:
    """Silence the client's own log, some ten lines a second while a broker is away.

    What a user needs of it is in `Source.trouble`. A level set for the logger "kafka" stays.
    """
    log = logging.getLogger("kafka")
    if log.level == logging.NOTSET:
        log.setLevel(_SILENT)


def unusable(error: Exception, config: Mapping[str, Any]) -> SourceError:
    """The error of a user whose settings the client refuses (one of UNUSABLE)."""
    where = f"Kafka at {', '.join(addresses(config))}"
    return SourceError(where, f"{type(error).__name__}: {error}", "correct [source.kafka]")


@contextmanager
def explained(config: Mapping[str, Any], where: str = "kafka") -> Iterator[None]:
    """Raises a SourceError for what a client raises: no broker answers, or it refuses something."""
    try:
        yield
    except UNUSABLE as error:
        raise unusable(error, config) from error
    except (KafkaError, OSError) as error:
        _, problem, remedy = failure_of(error, config)
        raise SourceError(where, problem, remedy) from error


_GONE = (
    "retention deleted records before they were read, or the topic was made again; "
    "start anew where `start` says, and give the topic a longer retention"
)

_MEMBERSHIP: Final = {
    FencedInstanceIdError: (
        "another process has joined as the same `member` and fenced this one (its instance id)",
        "give each process a `member` of its own in [source]",
    ),
    InconsistentGroupProtocolError: (
        "the group has members of another kind, which share partitions in another way",
        "choose another `group` in [source]",
    ),
    InvalidSessionTimeoutError: (
        "the broker does not allow this session_timeout_ms",
        "choose one within its group.min.session.timeout.ms and group.max.session.timeout.ms",
    ),
}


def permanent(error: Exception) -> SourceError | None:
    """The error to raise for `error`; None where it may pass."""
    if isinstance(error, OffsetOutOfRangeError | LogTruncationError):
        return _outside(error)
    if isinstance(error, CorruptRecordError):
        remedy = (
            "start again; if it fails there again, restore the partition, or delete its records "
            'up to that one (kafka-delete-records.sh) and set [state] on_retention = "skip"'
        )
        return SourceError("kafka", f"a record fails its checksum ({error})", remedy)
    if isinstance(error, UnsupportedCodecError):
        return SourceError("kafka", f"a compression is not supported ({error})", "install it")
    for kind, (problem, remedy) in _MEMBERSHIP.items():
        if isinstance(error, kind):
            return RefusedMemberError("kafka", problem, remedy)
    return None


def _outside(error: Exception) -> SourceError:
    """Both errors carry partition -> offset."""
    found = error.args[0] if error.args and isinstance(error.args[0], Mapping) else {}
    where = ", ".join(str(Partition(*partition)) for partition in found) or "kafka"
    offsets = ", ".join(str(offset) for offset in found.values()) or "that is read"
    return SourceError(where, f"offset {offsets} is no longer in the log", _GONE)
