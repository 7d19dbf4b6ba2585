"""Why Kafka cannot be used: errors of a client as sentences, and a handshake of our own.

The clients only say that no broker answered in time. One TCP connection, one TLS handshake and two
requests then find out what an address lacks.
"""

from __future__ import annotations

import logging
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from kafka.errors import (
    AuthorizationError,
    CorruptRecordError,
    FencedInstanceIdError,
    IllegalSaslStateError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    NodeNotReadyError,
    NoError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnsupportedCodecError,
    UnsupportedSaslMechanismError,
)

from streameval.events.errors import RefusedMemberError, SourceError
from streameval.events.records import Partition

SETTINGS_ERRORS: Final = (KafkaConfigurationError, TypeError, ValueError, AssertionError)
"""Errors that a client raises for inconsistent settings."""

_SILENT: Final = logging.CRITICAL + 1

Reason: TypeAlias = Literal[
    "unreachable",
    "silent",
    "slow",
    "certificate",
    "handshake",
    "plaintext_port",
    "tls_port",
    "authentication",
    "sasl_port",
    "no_sasl_port",
    "other",
]

REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
"""Reasons why Kafka cannot be used; values of a label."""

_NO_ANSWER: Final = (
    KafkaConnectionError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
)
"""Errors that a client raises after waiting in vain."""

_REFUSED_SASL: Final = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError)
_VERSIONS_REQUEST: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""ApiVersions, version 0, correlation id 1, no client id: every broker answers it."""

_TIMEOUT: Final = 2.0
_START: Final = "start the broker, or correct bootstrap_servers"
_TRUST: Final = "name the authority that signed it by ssl_cafile in [source.kafka]"
_GRANT: Final = "allow this user to read the topics, and the group"
_CHECK: Final = "check the broker's log, or correct [source.kafka]"
_NAME: Final = "name the broker in bootstrap_servers as its certificate does"
_CERTIFICATE_REMEDIES: Final = {10: "renew the broker's certificate", 62: _NAME, 64: _NAME}
"""OpenSSL's verification error code -> remedy, for errors other than missing trust."""


class ConnectionFailure(NamedTuple):
    """The reason why Kafka cannot be used.

    Attributes:
        problem: one sentence without its full stop.
    """

    reason: Reason
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


def addresses(config: Mapping[str, Any]) -> list[str]:
    """The bootstrap servers as HOST:PORT."""
    servers = config.get("bootstrap_servers", "localhost")
    listed = servers.split(",") if isinstance(servers, str) else list(servers)
    stripped = [address.strip() for address in listed]
    return [address if _has_port(address) else f"{address}:9092" for address in stripped]


def failure_of(error: Exception, config: Mapping[str, Any]) -> ConnectionFailure:
    """The reason why the cluster cannot be used; may probe the network for seconds."""
    where = ", ".join(addresses(config))
    if isinstance(error, _REFUSED_SASL):
        return _refused_sasl(where, config)
    if not isinstance(error, _NO_ANSWER):
        problem = f"cannot use Kafka at {where}: {type(error).__name__}: {_first_line(error)}"
        denied = isinstance(error, AuthorizationError)
        return ConnectionFailure("other", problem, _GRANT if denied else _CHECK)
    protocol = _protocol(config)
    silent = f"no Kafka answer from {where} (security_protocol is {protocol})"
    silence = ConnectionFailure("silent", silent, "check the broker, or correct the port")
    if config.get("proxy_url"):
        return silence
    failures = [_failure_at(address, config) for address in addresses(config)]
    if None in failures:
        problem = f"Kafka at {where} answers too slowly (security_protocol is {protocol})"
        return ConnectionFailure("slow", problem, "check the network and the load of the broker")
    explained = [
        failure for failure in failures if failure is not None and failure.reason != "silent"
    ]
    return explained[0] if explained else silence


def _failure_at(address: str, config: Mapping[str, Any]) -> ConnectionFailure | None:
    """What fails at one address; None if it answers as configured."""
    try:
        plain = _connection(address)
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        return ConnectionFailure("unreachable", f"cannot reach Kafka at {address}: {said}", _START)
    with plain:
        if not _protocol(config).endswith("SSL"):
            return _failure_of_requests(plain, address, config)
        try:
            with _secured(plain, address, config) as connection:
                return _failure_of_requests(connection, address, config)
        except ssl.SSLCertVerificationError as error:
            return _untrusted(error, address)
        except (OSError, ValueError) as error:
            return _failure_of_handshake(error, address, config)


def _untrusted(error: ssl.SSLCertVerificationError, address: str) -> ConnectionFailure:
    problem = f"the certificate of Kafka at {address} is not trusted: "
    problem += error.verify_message.rstrip(".")
    remedy = _CERTIFICATE_REMEDIES.get(error.verify_code, _TRUST)
    return ConnectionFailure("certificate", problem, remedy)


def _failure_of_handshake(
    error: Exception, address: str, config: Mapping[str, Any]
) -> ConnectionFailure:
    protocol = _protocol(config)
    if _answers_without_tls(address):
        problem = f"Kafka at {address} does not use TLS, but security_protocol is {protocol}"
        other = protocol.replace("SSL", "PLAINTEXT")
        remedy = f'give the port with TLS, or set security_protocol = "{other}"'
        return ConnectionFailure("plaintext_port", problem, remedy)
    problem = f"the TLS handshake with Kafka at {address} failed: {_first_line(error)}"
    remedy = "check the broker's log, and correct the ssl_ settings"
    return ConnectionFailure("handshake", problem, remedy)


def _failure_of_requests(
    connection: socket.socket, address: str, config: Mapping[str, Any]
) -> ConnectionFailure | None:
    """What the first two requests of a connection meet: no answer, or another use of SASL."""
    where, protocol = f"Kafka at {address}", _protocol(config)
    if _answer(connection, _VERSIONS_REQUEST) is None:
        if protocol.endswith("SSL") or not _speaks_tls(address):
            return ConnectionFailure("silent", f"no Kafka answer from {address}", _CHECK)
        problem = f"{where} uses TLS, but security_protocol is {protocol}"
        other = protocol.replace("PLAINTEXT", "SSL")
        remedy = f'set security_protocol = "{other}", or give the port without TLS'
        return ConnectionFailure("tls_port", problem, remedy)
    mechanism = str(config.get("sasl_mechanism") or "PLAIN")
    answer = _answer(connection, _sasl_request(mechanism)) or b""
    code = struct.unpack(">h", answer[:2])[0] if len(answer) >= 2 else NoError.errno
    offers_sasl = code != IllegalSaslStateError.errno
    if "SASL" in protocol and not offers_sasl:
        problem = f"{where} has no SASL at this port, but security_protocol is {protocol}"
        other = protocol.removeprefix("SASL_")
        remedy = f'set security_protocol = "{other}", or give the port with SASL'
        return ConnectionFailure("no_sasl_port", problem, remedy)
    if "SASL" in protocol and code == UnsupportedSaslMechanismError.errno:
        return _refused_sasl(address, config)
    if "SASL" not in protocol and offers_sasl and answer:
        problem = f"{where} is a port with SASL, but security_protocol is {protocol}"
        other = "SASL_SSL" if protocol == "SSL" else "SASL_PLAINTEXT"
        remedy = f'set security_protocol = "{other}", with a user and a password'
        return ConnectionFailure("sasl_port", problem, remedy)
    return None


def _refused_sasl(where: str, config: Mapping[str, Any]) -> ConnectionFailure:
    user, mechanism = config.get("sasl_plain_username"), config.get("sasl_mechanism")
    who = "us" if user is None else f"user {user!r}"
    problem = f"Kafka at {where} rejects the authentication of {who} by {mechanism}"
    remedy = "correct the user, the password or sasl_mechanism in [source.kafka]"
    return ConnectionFailure("authentication", problem, remedy)


def _protocol(config: Mapping[str, Any]) -> str:
    return str(config.get("security_protocol", "PLAINTEXT"))


def _has_port(address: str) -> bool:
    host, colon, port = address.rpartition(":")
    return bool(colon) and port.isdecimal() and (":" not in host or host.endswith("]"))


def _host(address: str) -> str:
    return address.rpartition(":")[0].rpartition("//")[2].strip("[]")


def _connection(address: str) -> socket.socket:
    port = int(address.rpartition(":")[2])
    return socket.create_connection((_host(address), port), timeout=_TIMEOUT)


def _secured(plain: socket.socket, address: str, config: Mapping[str, Any]) -> socket.socket:
    """The connection after a TLS handshake as the client makes it."""
    context = ssl.create_default_context(cafile=config.get("ssl_cafile"))
    context.check_hostname = bool(config.get("ssl_check_hostname", True))
    if config.get("ssl_certfile"):
        key, password = config.get("ssl_keyfile"), config.get("ssl_password")
        context.load_cert_chain(config["ssl_certfile"], key, password or "")
    if config.get("ssl_crlfile"):
        context.load_verify_locations(config["ssl_crlfile"])
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context.wrap_socket(plain, server_hostname=_host(address))


def _speaks_tls(address: str) -> bool:
    """Whether a TLS handshake succeeds with any certificate; no data is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with _connection(address) as plain, context.wrap_socket(plain):
            return True
    except OSError:
        return False


def _answers_without_tls(address: str) -> bool:
    try:
        with _connection(address) as plain:
            return _answer(plain, _VERSIONS_REQUEST) is not None
    except OSError:
        return False


def _sasl_request(mechanism: str) -> bytes:
    """SaslHandshake, version 1, which asks for a mechanism and sends no credentials."""
    name = mechanism.encode()
    content = struct.pack(f">hhihh{len(name)}s", 17, 1, 2, -1, len(name), name)
    return struct.pack(">i", len(content)) + content


def _answer(connection: socket.socket, request: bytes) -> bytes | None:
    """The answer without its correlation id; None without an answer.

    Raises:
        ssl.SSLError: the broker ends the TLS connection, as without a certificate that it wants.
    """
    try:
        connection.sendall(request)
        received = connection.makefile("rb")
        length, correlation = received.read(4), received.read(4)
        if correlation != request[8:12]:
            return None
        return received.read(int.from_bytes(length) - 4)
    except ssl.SSLError:
        raise
    except (OSError, ValueError):
        return None


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0].removeprefix(f"{type(error).__name__}: ")


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
    offsets_of = error.args[0] if error.args and isinstance(error.args[0], Mapping) else {}
    where = ", ".join(str(Partition(*partition)) for partition in offsets_of) or "kafka"
    offsets = ", ".join(str(offset) for offset in offsets_of.values()) or "that is read"
    return SourceError(where, f"offset {offsets} is no longer in the log", _GONE)
