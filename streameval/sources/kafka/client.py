"""Kafka clients: made so that nothing stays behind, and their errors in plain words."""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from typing import Any, Final

from kafka.errors import (
    CorruptRecordError,
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaTimeoutError,
    LogTruncationError,
    NodeNotReadyError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    UnsupportedCodecError,
)
from kafka.record import util as kafka_records

from streameval.errors import SourceError
from streameval.records import Partition
from streameval.sources.kafka.settings import accepted

UNUSABLE: Final = (KafkaConfigurationError, TypeError, ValueError, AssertionError)
"""What a client raises for settings that do not fit together."""

_UNHEARD: Final = (KafkaTimeoutError, NodeNotReadyError, RequestTimedOutError)
_LOG: Final = logging.getLogger(__name__)
_SILENT: Final = logging.CRITICAL + 1


def connect(kind: Any, config: Mapping[str, Any]) -> Any:
    """A connected client of `kind` (KafkaConsumer, KafkaAdminClient, KafkaProducer).

    Args:
        kind: the client's class.
        config: its settings; those of other kinds of clients are left out.

    Raises:
        KafkaError: no broker answered; then no thread and no socket of the attempt stays.
    """
    return connected(kind, config)[0]


def connected(kind: Any, config: Mapping[str, Any]) -> tuple[Any, Any]:
    """As `connect`; also what the client knows of the cluster (kafka.cluster.ClusterMetadata)."""
    made: list[Any] = []

    def network(**settings: Any) -> Any:
        made.append(kind.DEFAULT_CONFIG["kafka_client"](**settings))
        return made[-1]

    try:
        return kind(**accepted(config, kind), kafka_client=network), made[0].cluster
    except BaseException:
        for client in made:
            client.close()
        raise


def silence_client_log() -> None:
    """Silence the client's own log, some ten lines a second while a broker is away.

    What a user needs of it is in `Source.trouble`. A level set for the logger "kafka" stays.
    """
    log = logging.getLogger("kafka")
    if log.level == logging.NOTSET:
        log.setLevel(_SILENT)


def warn_of_slow_checksums() -> None:
    """Say so once a start where checksums are computed in Python, 3 to 7 times slower."""
    if kafka_records.crc32c_c is None:
        _LOG.warning(
            "the C extension crc32c is missing, so reading Kafka is 3 to 7 times slower; "
            "pip install crc32c"
        )


def addresses(config: Mapping[str, Any]) -> list[str]:
    """The bootstrap servers as HOST:PORT."""
    servers = config.get("bootstrap_servers", "localhost")
    listed = servers.split(",") if isinstance(servers, str) else list(servers)
    stripped = [address.strip() for address in listed]
    return [address if _has_port(address) else f"{address}:9092" for address in stripped]


def explanation(error: Exception, config: Mapping[str, Any]) -> str:
    """Why the cluster cannot be reached, in one sentence without its full stop."""
    where = ", ".join(addresses(config))
    unheard = isinstance(error, _UNHEARD)
    if unheard or isinstance(error, KafkaConnectionError):
        refusal = None if config.get("proxy_url") else _refusal(addresses(config)[0])
        if refusal is not None:
            return f"cannot reach Kafka at {where}: {refusal}"
    if unheard:
        protocol = config.get("security_protocol", "PLAINTEXT")
        return f"no answer as Kafka from {where} (security_protocol is {protocol})"
    return f"cannot use Kafka at {where}: {type(error).__name__}: {_first_line(error)}"


def unusable(error: Exception, config: Mapping[str, Any]) -> SourceError:
    """The error of a user whose settings the client refuses (one of UNUSABLE)."""
    where = f"Kafka at {', '.join(addresses(config))}"
    return SourceError(where, f"{type(error).__name__}: {error}", "correct [source.kafka]")


def _has_port(address: str) -> bool:
    host, colon, port = address.rpartition(":")
    return bool(colon) and port.isdecimal() and (":" not in host or host.endswith("]"))


def _refusal(address: str) -> str | None:
    """What the network says to a plain connection; None when it is accepted."""
    host, _, port = address.rpartition(":")
    host = host.rpartition("//")[2].strip("[]")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0].removeprefix(f"{type(error).__name__}: ")


_GONE = (
    "retention deleted records before they were read, or the topic was made again; "
    "start anew where `start` says, and give the topic a longer retention"
)

_MEMBERSHIP: Final = {
    FencedInstanceIdError: (
        "another process has joined the group under the name of this one",
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
        remedy = "restore the record, or start after it"
        return SourceError("kafka", f"a record fails its checksum ({error})", remedy)
    if isinstance(error, UnsupportedCodecError):
        return SourceError("kafka", f"a compression is not supported ({error})", "install it")
    for kind, (problem, remedy) in _MEMBERSHIP.items():
        if isinstance(error, kind):
            return SourceError("kafka", problem, remedy)
    return None


def _outside(error: Exception) -> SourceError:
    """Both errors carry partition -> offset."""
    found = error.args[0] if error.args and isinstance(error.args[0], Mapping) else {}
    where = ", ".join(str(Partition(*partition)) for partition in found) or "kafka"
    offsets = ", ".join(str(offset) for offset in found.values()) or "that is read"
    return SourceError(where, f"offset {offsets} is no longer in the log", _GONE)
